/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/lower.h"

#include <stdlib.h>

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "core/cq.h"

#define BATCH 32
#define ROUNDS 16 /* most batches of one call, lest a busy lower keeps its upper for ever */

struct lower_cq {
    struct fid_cq *cq;
    struct fid_peer_cq *sink;
    struct unit *unit; /* that drives it, where it is a queue of ours without a lock, or NULL */
    bool peer;         /* the lower writes to sink by itself; reading only drives it */
    struct cq_sources sources; /* what wakes who waits: a wait fd (-1: none), or what is in it */
};

static struct unit *unit_of(struct fid_cq *fid)
{
    struct cq *cq = cq_of(&fid->fid);

    return cq && !cq->unit->locked ? cq->unit : NULL;
}

int lower_cq_open(const struct lower *lower, struct fid_domain *domain,
                  const struct fi_cq_attr *attr, bool want_fd, struct fid_peer_cq *sink,
                  struct lower_cq **ret_lower_cq)
{
    struct fi_peer_cq_context context = {.size = sizeof(context), .cq = sink};
    struct fi_cq_attr own = {
        .size = attr->size,
        .flags = (attr->flags & ~FI_PEER) | (lower->peer ? FI_PEER : 0),
        .format = FI_CQ_FORMAT_TAGGED,
        .wait_obj = want_fd ? FI_WAIT_FD : FI_WAIT_NONE,
        .signaling_vector = attr->signaling_vector,
    };
    struct lower_cq *lower_cq = calloc(1, sizeof(*lower_cq));
    int rc;

    if (!lower_cq)
        return -FI_ENOMEM;
    lower_cq->sink = sink;
    lower_cq->peer = lower->peer;
    lower_cq->sources.fd = -1;
    rc = fi_cq_open(domain, &own, &lower_cq->cq, lower->peer ? &context : NULL);
    if (rc)
        goto free_lower_cq;
    if (lower->peer)
        lower_cq->unit = unit_of(lower_cq->cq);
    if (want_fd) {
        rc = lower->peer ? fi_control(&lower_cq->cq->fid, CONTROL_SOURCES, &lower_cq->sources)
                         : -FI_ENOSYS;
        if (rc)
            rc = fi_control(&lower_cq->cq->fid, FI_GETWAIT, &lower_cq->sources.fd);
        if (rc)
            goto close_cq;
    }
    *ret_lower_cq = lower_cq;
    return 0;

close_cq:
    fi_close(&lower_cq->cq->fid);
free_lower_cq:
    free(lower_cq);
    return rc;
}

int lower_cq_close(struct lower_cq *lower_cq)
{
    int rc;

    if (!lower_cq)
        return 0;
    rc = fi_close(&lower_cq->cq->fid);
    if (!rc)
        free(lower_cq);
    return rc;
}

struct fid_cq *lower_cq_fid(struct lower_cq *lower_cq)
{
    return lower_cq->cq;
}

void lower_cq_watch(const struct lower_cq *lower_cq, struct unit_source *source)
{
    source->fd = lower_cq->sources.fd;
    source->below = lower_cq->sources.unit;
}

static bool forward_error(struct lower_cq *lower_cq)
{
    struct fi_cq_err_entry entry = {.src_addr = FI_ADDR_NOTAVAIL};

    if (fi_cq_readerr(lower_cq->cq, &entry, 0) <= 0)
        return false;
    lower_cq->sink->owner_ops->writeerr(lower_cq->sink, &entry);
    return true;
}

/* False when there is nothing more to forward. A short read need not be the end: an error entry
 * ends it too. */
static bool forward(struct lower_cq *lower_cq)
{
    struct fid_peer_cq *sink = lower_cq->sink;
    struct fi_cq_tagged_entry entries[BATCH];
    fi_addr_t sources[BATCH];
    ssize_t n = fi_cq_readfrom(lower_cq->cq, entries, BATCH, sources);

    if (n == -FI_EAVAIL)
        return forward_error(lower_cq);
    for (ssize_t i = 0; i < n; i++) {
        const struct fi_cq_tagged_entry *entry = &entries[i];

        sink->owner_ops->write(sink, entry->op_context, entry->flags, entry->len, entry->buf,
                               entry->data, entry->tag, sources[i]);
    }
    return n > 0;
}

void lower_cq_progress(struct lower_cq *lower_cq)
{
    if (lower_cq->unit) {
        /* What the read would do; one frame less to return through on the way to a completion. */
        if (!unit_forked(lower_cq->unit))
            unit_progress(lower_cq->unit);
        return;
    }
    if (lower_cq->peer) {
        fi_cq_read(lower_cq->cq, NULL, 0);
        return;
    }
    for (int round = 0; round < ROUNDS && forward(lower_cq); round++)
        ;
}

int lower_cq_trywait(const struct lower *lower, struct lower_cq *lower_cq)
{
    struct fid *fid = &lower_cq->cq->fid;

    return fi_trywait(lower->fabric, &fid, 1);
}
