/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/layer/lower.h"

#include <stdlib.h>

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "core/queue/cq.h"

#define BATCH 32
#define ROUNDS 16 /* most batches of one call, lest a busy lower keeps its upper for ever */

struct lower_cq {
    struct fid_cq *cq;
    struct fid_peer_cq *sink;
    struct progress
        *progress; /* that drives it, where it is a queue of ours without a lock, or NULL */
    bool peer;     /* the lower writes to sink by itself; reading only drives it */
    struct cq_sources sources; /* what wakes a waiter: a wait fd (-1: none), or what is in it */
};

static struct progress *progress_of(struct fid_cq *fid)
{
    struct cq *cq = cq_of(&fid->fid);

    return cq && !cq->progress->locked ? cq->progress : NULL;
}

/* sources.fd stays -1 where no wait object is asked for. */
static int open_queue(struct lower_cq *lower_cq, struct fid_domain *domain, struct fi_cq_attr *attr)
{
    struct fi_peer_cq_context context = {.size = sizeof(context), .cq = lower_cq->sink};
    int rc = fi_cq_open(domain, attr, &lower_cq->cq, lower_cq->peer ? &context : NULL);

    if (rc || attr->wait_obj == FI_WAIT_NONE)
        return rc;
    rc = lower_cq->peer ? fi_control(&lower_cq->cq->fid, CONTROL_SOURCES, &lower_cq->sources)
                        : -FI_ENOSYS;
    if (rc)
        rc = fi_control(&lower_cq->cq->fid, FI_GETWAIT, &lower_cq->sources.fd);
    if (rc) {
        lower_cq->sources.fd = -1;
        fi_close(&lower_cq->cq->fid);
    }
    return rc;
}

/* Upstream's sockets, under manual progress, has no fd that tells of completions. */
static bool refused(int rc)
{
    return rc == -FI_ENOSYS || rc == -FI_EOPNOTSUPP || rc == -FI_EINVAL || rc == -FI_ENODATA;
}

int lower_cq_open(const struct lower *lower, struct fid_domain *domain,
                  const struct fi_cq_attr *attr, bool want_fd, struct fid_peer_cq *sink,
                  struct lower_cq **ret_lower_cq)
{
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
    rc = open_queue(lower_cq, domain, &own);
    if (want_fd && refused(rc)) {
        own.wait_obj = FI_WAIT_NONE;
        rc = open_queue(lower_cq, domain, &own);
    }
    if (rc) {
        free(lower_cq);
        return rc;
    }
    if (lower->peer)
        lower_cq->progress = progress_of(lower_cq->cq);
    *ret_lower_cq = lower_cq;
    return 0;
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

struct progress *lower_cq_driven(const struct lower_cq *lower_cq)
{
    return lower_cq->progress;
}

void lower_cq_watch(const struct lower_cq *lower_cq, struct progress_source *source)
{
    source->fd = lower_cq->sources.fd;
    source->below = lower_cq->sources.progress;
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

/* By the queue's read. */
__attribute__((noinline)) static void read_lower(struct lower_cq *lower_cq)
{
    if (lower_cq->progress)
        return; /* in a forked child */
    if (lower_cq->peer) {
        fi_cq_read(lower_cq->cq, NULL, 0);
        return;
    }
    for (int round = 0; round < ROUNDS && forward(lower_cq); round++)
        ;
}

void lower_cq_progress(struct lower_cq *lower_cq)
{
    struct progress *progress = lower_cq->progress;

    /* As the read would, with one frame less to return through on the way to a completion. */
    if (__builtin_expect(progress && !progress_forked(progress), 1))
        progress_poll_lower(progress);
    else
        read_lower(lower_cq);
}

int lower_cq_trywait(const struct lower *lower, struct lower_cq *lower_cq)
{
    struct fid *fid = &lower_cq->cq->fid;

    if (lower_cq->sources.fd < 0)
        return 0; /* a sleeper wakes by itself, see progress_sleep_ms */
    return fi_trywait(lower->fabric, &fid, 1);
}
