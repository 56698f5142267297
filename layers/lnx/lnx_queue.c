/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_queue.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/table.h"

enum {
    LONGEST_PAUSE = 16000, /* ns, between looks at a silent branch */
    ALONE = 4096,          /* reads, until the others are counted again, of which there are none */
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

static inline struct lnx_drive *drive_of(struct progress_source *source)
{
    return object_of(source, struct lnx_drive, below.source);
}

static inline bool is_plain(const struct lnx_drive *drive)
{
    return drive->drives->busy == drive && drive->counts;
}

/* Of one branch of several, with a queue that shows its traffic. */
static void see(struct lnx_drive *drive)
{
    struct lnx_drives *drives = drive->drives;

    if (look_and_see(drive)) {
        silence_end(&drive->silence);
        progress_takes++;
        if (drives->busy != drive)
            drives->plain = NULL;
        drives->busy = drive;
    } else {
        silence_found_nothing(&drive->silence);
    }
}

/* The branch is silent: from now on the one with traffic, if it shows that by itself, is looked at
 * without a question to this one. */
static inline void skip(struct lnx_drive *drive)
{
    struct lnx_drives *drives = drive->drives;
    struct lnx_drive *busy = drives->busy;

    if (busy && busy->counts && busy->below.driven && drives->count == drive->domain->count)
        drives->plain = busy;
    drives->skips = drive->silence.skips;
}

static void drive_poll(struct progress_source *source)
{
    struct lnx_drive *drive = drive_of(source);

    if (is_plain(drive))
        look(drive);
    else if (drive->drives->busy != drive && silence_skips(&drive->silence, LONGEST_PAUSE))
        skip(drive);
    else
        see(drive);
}

/* ---- The application's reads ---- */

/* A turn for the branches but the one with traffic, if there are any. The sources are at most two,
 * of branches. */
static __attribute__((noinline)) void look_at_others(struct progress *root,
                                                     struct lnx_drives *drives)
{
    const struct lnx_drive *plain = drives->plain;

    drives->skips = ALONE; /* unless there are others */
    for (int i = 0; i < 2; i++) {
        struct lnx_drive *drive = root->pair[i] ? drive_of(root->pair[i]) : NULL;

        if (!drive || drive == plain)
            continue;
        drive->silence.skips = 0;
        drive_poll(&drive->below.source);
        drives->skips = drive->silence.skips;
    }
}

/* The drives of the branches, where they are all that root drives, and one of them has traffic and
 * needs but to be driven. */
static inline struct lnx_drives *plain_drives(const struct progress *root)
{
    struct progress_source *first = root->pair[0], *second = root->pair[1];
    struct lnx_drives *drives;

    if (__builtin_expect(!first || first->poll != drive_poll ||
                             (second && second->poll != drive_poll) || root->driving,
                         0))
        return NULL;
    drives = drive_of(first)->drives;
    return drives->plain ? drives : NULL;
}

/* As progress_poll_root would, but past the list of sources, and the silent branch is looked at now
 * and then. */
static inline void drive_plain(struct progress *root, struct lnx_drives *drives)
{
    progress_note_reader(root);
    root->driving = true;
    progress_poll_lower(drives->plain->below.driven);
    if (__builtin_expect(drives->skips-- <= 1, 0))
        look_at_others(root, drives);
    root->driving = false;
}

static inline ssize_t end_read(struct cq *cq, struct progress *root)
{
    size_t got = cq_direct_end(cq);

    if (__builtin_expect(root->locked || progress_has_others(cq->progress) || (!got && cq->failed),
                         0))
        return cq_read_end(cq, root, got);
    return got ? (ssize_t)got : -FI_EAGAIN;
}

/* Of an empty queue, whose entries go straight to the reader. */
static __attribute__((noinline)) ssize_t read_driving(struct cq *cq, struct progress *root,
                                                      void *buf, size_t count)
{
    struct lnx_drives *drives = plain_drives(root);

    if (__builtin_expect(!drives, 0))
        return cq_read_entered(cq, root, buf, count);
    cq_direct(cq, buf, count);
    drive_plain(root, drives);
    return end_read(cq, root);
}

static inline ssize_t read_root(struct cq *cq, struct progress *root, void *buf, size_t count)
{
    if (__builtin_expect(!count || !cq_is_empty(cq), 0))
        return cq_read_ring(cq, root, buf, count);
    return read_driving(cq, root, buf, count);
}

static __attribute__((noinline)) ssize_t read_locked(struct cq *cq, void *buf, size_t count)
{
    if (progress_forked(cq->progress))
        return -FI_EOPBADSTATE;
    return read_root(cq, progress_enter(cq->progress), buf, count);
}

/* Ends in a jump in each case: without a lock nothing is kept for later. */
static ssize_t quick_read(struct fid_cq *fid, void *buf, size_t count)
{
    struct cq *cq = object_of(fid, struct cq, fid);
    struct progress *root = __atomic_load_n(&cq->progress->root, __ATOMIC_ACQUIRE);

    if (__builtin_expect(progress_forked(cq->progress) || root->locked || root->root != root, 0))
        return read_locked(cq, buf, count);
    return read_root(cq, root, buf, count);
}

static struct fi_ops_cq quick_ops = {.size = sizeof(quick_ops), .read = quick_read};

static int drive_trywait(struct progress_source *source)
{
    struct lnx_drive *drive = drive_of(source);
    int rc = lower_cq_trywait(drive->below.lower, drive->below.cq);

    if (rc) { /* a waiter that polls on shall see it */
        silence_end(&drive->silence);
        if (drive->drives->busy != drive)
            drive->drives->plain = NULL;
    }
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
        drive->drives = drives;
        drive->counts = branch->local || domain->count == 1;
        drive->below.source.trywait = drive_trywait;
        drive->below.source.reach = branch;
        /* A branch that completes elsewhere is looked at each time. */
        drive->top = top && top->sink == &top->peer ? top : NULL;
        drive->below.source.poll = drive->top ? drive_poll : NULL;
        rc = lower_source_open(&drive->below, branch->lower, branch->domain, size,
                               lnx_relay_init(&drive->relay, domain, (unsigned)drives->count, sink),
                               domain->progress);
        drives->count += !rc;
    }
    if (!rc && domain->count == 1) { /* and so is the only branch */
        drives->busy = &drives->branch[0];
        drives->plain = drives->branch[0].below.driven ? drives->busy : NULL;
    }
    if (rc)
        lnx_drives_close(drives, domain->progress);
    return rc;
}

int lnx_drives_close(struct lnx_drives *drives, struct progress *progress)
{
    int rc = 0;

    drives->plain = NULL;
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
    if (own->sink == &own->peer)
        own->fid.ops = table_inherit(&quick_ops, own->fid.ops);
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
