/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_queue.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

enum {
    LONGEST_PAUSE = 16000, /* ns, between looks at a silent branch */
};

/* ---- Driving ---- */

/* Changes with each entry that is written, to the ring or into the array of a reader. */
static inline size_t written_to(const struct cq *cq)
{
    return cq->tail - cq->direct_left;
}

/* The same of the drive's queue and the others of its domain: the queues of an endpoint below are
 * driven together, so that a poll of one fills the others. */
static size_t written(const struct lnx_drive *drive)
{
    const struct lnx_domain *domain = drive->domain;
    size_t sum = written_to(drive->top);

    for (size_t i = 0; i < domain->watched_count; i++)
        sum += written_to(domain->watched[i]);
    return sum;
}

static void watch(struct lnx_domain *domain, const struct cq *cq)
{
    progress_lock(domain->progress);
    if (domain->watched_count < LNX_WATCHED)
        domain->watched[domain->watched_count++] = cq;
    progress_unlock(domain->progress);
}

static void unwatch(struct lnx_domain *domain, const struct cq *cq)
{
    progress_lock(domain->progress);
    for (size_t i = 0; i < domain->watched_count; i++) {
        if (domain->watched[i] == cq)
            domain->watched[i--] = domain->watched[--domain->watched_count];
    }
    progress_unlock(domain->progress);
}

static inline void look(const struct lnx_drive *drive)
{
    struct progress *driven = drive->below.driven;

    if (__builtin_expect(driven && !progress_forked(driven), 1))
        progress_poll_lower(driven);
    else
        lower_cq_progress(drive->below.cq);
}

/* Has the look found anything? */
static bool look_and_see(const struct lnx_drive *drive)
{
    size_t before = written(drive);

    look(drive);
    return written(drive) != before;
}

/* Of one branch of several, with a queue that shows its traffic. */
static void drive_poll(struct progress_source *source)
{
    struct lnx_drive *drive = object_of(source, struct lnx_drive, below.source);
    bool busy = *drive->busy == drive;

    if (busy && drive->counts) {
        look(drive);
    } else if (!busy && silence_skips(&drive->silence, LONGEST_PAUSE)) {
        return;
    } else if (look_and_see(drive)) {
        silence_end(&drive->silence);
        progress_takes++;
        *drive->busy = drive;
    } else {
        silence_found_nothing(&drive->silence);
    }
}

static int drive_trywait(struct progress_source *source)
{
    struct lnx_drive *drive = object_of(source, struct lnx_drive, below.source);
    int rc = lower_cq_trywait(drive->below.lower, drive->below.cq);

    if (rc)
        silence_end(&drive->silence); /* a waiter that polls on shall see it */
    return rc;
}

int lnx_drives_open(struct lnx_drives *drives, struct lnx_domain *domain, size_t size,
                    struct fid_peer_cq *sink, struct cq *top)
{
    int rc = 0;

    while (!rc && drives->count < domain->count) {
        struct lnx_drive *drive = &drives->branch[drives->count];
        const struct lnx_branch *branch = &domain->branch[drives->count];

        drive->domain = domain;
        drive->below.part = "lnx";
        drive->busy = &drives->busy;
        drive->counts = branch->local;
        drive->below.source.trywait = drive_trywait;
        drive->below.source.reach = branch;
        /* Alone it is looked at each time; so is what completes elsewhere. */
        drive->top = top && top->sink == &top->peer && domain->count > 1 ? top : NULL;
        drive->below.source.poll = drive->top ? drive_poll : NULL;
        rc = lower_source_open(&drive->below, branch->lower, branch->domain, size,
                               lnx_relay_init(&drive->relay, domain, (unsigned)drives->count, sink),
                               domain->progress);
        drives->count += !rc;
    }
    if (rc)
        lnx_drives_close(drives, domain->progress);
    return rc;
}

int lnx_drives_close(struct lnx_drives *drives, struct progress *progress)
{
    int rc = 0;

    while (drives->count && !rc) {
        rc = lower_source_close(&drives->branch[drives->count - 1].below, progress);
        drives->count -= !rc;
    }
    return rc;
}

void lnx_drives_fold(struct lnx_drives *keep, struct lnx_drives *fold, size_t branch)
{
    struct lnx_drive *drive = &keep->branch[branch];

    lower_source_fold(&drive->below, &fold->branch[branch].below, drive->domain->progress);
}

/* ---- Completion queues ---- */

static int close_drives(struct peer_cq *base)
{
    struct lnx_cq *cq = object_of(base, struct lnx_cq, base);
    int rc = lnx_drives_close(&cq->drives, base->cq.progress);

    if (!rc && cq->domain)
        unwatch(cq->domain, &base->cq);
    return rc;
}

int lnx_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **ret_cq,
                void *context)
{
    struct lnx_domain *domain = lnx_domain_of(fid);
    struct lnx_cq *cq = calloc(1, sizeof(*cq));
    struct cq *own;
    int rc;

    if (!cq)
        return -FI_ENOMEM;
    rc = peer_cq_init(&cq->base, &domain->base, attr, context);
    if (rc) {
        free(cq);
        return rc;
    }
    own = &cq->base.cq;
    cq->base.close_lowers = close_drives;
    rc = progress_merge(domain->progress, own->progress);
    if (!rc)
        rc = lnx_drives_open(&cq->drives, domain, own->size, own->sink, own);
    if (rc) {
        fi_close(&own->fid.fid);
        return rc;
    }
    cq->domain = domain;
    watch(domain, own);
    *ret_cq = &own->fid;
    return 0;
}

/* ---- Counters ---- */

static bool is_uncounted(struct lnx_cntr *cntr)
{
    bool uncounted = cntr->uncounted > 0;

    cntr->uncounted -= uncounted;
    return uncounted;
}

static void count_one(struct fid_peer_cntr *peer)
{
    struct lnx_cntr *cntr = object_of(peer, struct lnx_cntr, own);
    struct fid_peer_cntr *sink = cntr->base.cntr.sink;

    if (!is_uncounted(cntr))
        sink->owner_ops->inc(sink);
}

static void count_error(struct fid_peer_cntr *peer)
{
    struct lnx_cntr *cntr = object_of(peer, struct lnx_cntr, own);
    struct fid_peer_cntr *sink = cntr->base.cntr.sink;

    if (!is_uncounted(cntr))
        sink->owner_ops->incerr(sink);
}

static struct fi_ops_cntr_owner count_ops = {
    .size = sizeof(count_ops),
    .inc = count_one,
    .incerr = count_error,
};

int lnx_cntr_below(struct lnx_domain *domain, struct cntr *base, size_t branch,
                   struct fid_cntr **below)
{
    struct lnx_cntr *cntr = lnx_cntr_of(base);
    int rc = peer_cntr_lower_at(&cntr->branch[branch], domain->branch[branch].domain,
                                domain->own_keys ? &cntr->own : base->sink);

    if (!rc)
        *below = cntr->branch[branch];
    return rc;
}

static int close_branches(struct peer_cntr *base)
{
    struct lnx_cntr *cntr = object_of(base, struct lnx_cntr, base);
    int rc = 0;

    for (size_t i = 0; !rc && i < LNX_BRANCHES; i++) {
        if (cntr->branch[i])
            rc = fi_close(&cntr->branch[i]->fid);
        if (!rc)
            cntr->branch[i] = NULL;
    }
    return rc;
}

int lnx_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **ret_cntr,
                  void *context)
{
    struct lnx_domain *domain = lnx_domain_of(fid);
    struct lnx_cntr *cntr = calloc(1, sizeof(*cntr));
    int rc;

    if (!cntr)
        return -FI_ENOMEM;
    rc = peer_cntr_init(&cntr->base, &domain->base, attr, context);
    if (rc) {
        free(cntr);
        return rc;
    }
    cntr->base.close_lowers = close_branches;
    fid_init(&cntr->own.fid, FI_CLASS_PEER_CNTR, cntr, NULL);
    cntr->own.owner_ops = &count_ops;
    rc = progress_merge(domain->progress, cntr->base.cntr.progress);
    if (rc)
        fi_close(&cntr->base.cntr.fid.fid);
    else
        *ret_cntr = &cntr->base.cntr.fid;
    return rc;
}
