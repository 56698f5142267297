/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables: each call is between two readings of the counters. */

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/hook/hook_watch.h"
#include "layers/perf/perf.h"

void perf_block_taken(struct per_thread *per_thread, struct block *block)
{
    const struct perf_layer *layer = object_of(per_thread, struct perf_layer, per_thread);
    struct perf_block *own = (struct perf_block *)block;
    int rc = perf_group_open(&own->group, &layer->set);

    if (rc)
        log_user("perf: the counters cannot be opened for a thread (%s): it counts nothing",
                 fi_strerror(-rc));
    own->depth = rc ? PERF_NESTED : 0;
}

void perf_block_left(struct block *block)
{
    perf_group_close(&((struct perf_block *)block)->group);
}

/* Where the start is, or PERF_NESTED. */
static inline unsigned begin(struct perf_layer *layer)
{
    struct perf_block *block =
        layer ? (struct perf_block *)per_thread_of(&layer->per_thread) : NULL;
    unsigned depth;

    if (!block || block->depth >= PERF_NESTED)
        return PERF_NESTED;
    depth = block->depth++;
    perf_group_read(&block->group, block->starts[depth]);
    return depth;
}

static inline void finish(struct perf_layer *layer, unsigned depth, int kind)
{
    struct perf_block *block;
    uint64_t now[PERF_EVENTS];
    uint64_t first;

    if (depth == PERF_NESTED)
        return;
    block = (struct perf_block *)per_thread_of(&layer->per_thread);
    perf_group_read(&block->group, now);
    block->depth = depth;
    per_thread_add(&block->counts.calls[kind], 1);
    for (unsigned i = 0; i < layer->set.count; i++)
        per_thread_add(&block->counts.sums[kind][i], now[i] - block->starts[depth][i]);
    first = now[0] - block->starts[depth][0];
    if (first > block->counts.most[kind])
        __atomic_store_n(&block->counts.most[kind], first, __ATOMIC_RELAXED);
}

/* A call that lies between begin and here returned rc. */
static inline ssize_t counted(struct perf_layer *layer, unsigned depth, int kind, ssize_t rc)
{
    finish(layer, depth, kind);
    return rc;
}

/* ---- Data transfers ---- */

static ssize_t perf_post(struct ep *ep, struct op *op)
{
    struct perf_layer *layer = hook_ep_of(ep)->own;
    int call = op->call; /* the lower may change it */
    unsigned depth = begin(layer);

    return counted(layer, depth, call, hook_post(ep, op));
}

/* ---- Completion queues ---- */

static inline ssize_t read_done(struct perf_layer *layer, unsigned depth, ssize_t rc)
{
    return counted(layer, depth, rc == -FI_EAGAIN || !rc ? PERF_CQ_READ_EMPTY : PERF_CQ_READ, rc);
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    unsigned depth = begin(cq->own);

    return read_done(cq->own, depth, fi_cq_read(cq->lower, buf, count));
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    unsigned depth = begin(cq->own);

    return read_done(cq->own, depth, fi_cq_readfrom(cq->lower, buf, count, src));
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    unsigned depth = begin(cq->own);

    return counted(cq->own, depth, PERF_CQ_READERR, fi_cq_readerr(cq->lower, entry, flags));
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    unsigned depth = begin(cq->own);

    return counted(cq->own, depth, PERF_CQ_SREAD,
                   fi_cq_sread(cq->lower, buf, count, cond, timeout));
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src,
                            const void *cond, int timeout)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    unsigned depth = begin(cq->own);

    return counted(cq->own, depth, PERF_CQ_SREAD,
                   fi_cq_sreadfrom(cq->lower, buf, count, src, cond, timeout));
}

static int cq_signal(struct fid_cq *fid)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    unsigned depth = begin(cq->own);

    return (int)counted(cq->own, depth, PERF_CQ_SIGNAL, fi_cq_signal(cq->lower));
}

/* ---- Counters ---- */

static uint64_t cntr_read(struct fid_cntr *fid)
{
    struct hook_cntr *cntr = object_of(fid, struct hook_cntr, fid);
    unsigned depth = begin(cntr->own);
    uint64_t value = fi_cntr_read(cntr->lower);

    finish(cntr->own, depth, PERF_CNTR_READ);
    return value;
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
    struct hook_cntr *cntr = object_of(fid, struct hook_cntr, fid);
    unsigned depth = begin(cntr->own);
    uint64_t value = fi_cntr_readerr(cntr->lower);

    finish(cntr->own, depth, PERF_CNTR_READERR);
    return value;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
    struct hook_cntr *cntr = object_of(fid, struct hook_cntr, fid);
    unsigned depth = begin(cntr->own);

    return (int)counted(cntr->own, depth, PERF_CNTR_ADD, fi_cntr_add(cntr->lower, value));
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
    struct hook_cntr *cntr = object_of(fid, struct hook_cntr, fid);
    unsigned depth = begin(cntr->own);

    return (int)counted(cntr->own, depth, PERF_CNTR_SET, fi_cntr_set(cntr->lower, value));
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
    struct hook_cntr *cntr = object_of(fid, struct hook_cntr, fid);
    unsigned depth = begin(cntr->own);

    return (int)counted(cntr->own, depth, PERF_CNTR_WAIT,
                        fi_cntr_wait(cntr->lower, threshold, timeout));
}

/* ---- Objects that count ---- */

static void opened(const struct hook_fabric *fabric, struct fid *fid,
                   const struct hook_opening *opening)
{
    if (hook_transfers(fid) || fid->fclass == FI_CLASS_CQ || fid->fclass == FI_CLASS_CNTR)
        *hook_own(fid) = fabric->own;
}

static const struct hook_watch watch = {.opened = opened};
static struct fi_ops_cq cq_ops = {
    .size = sizeof(cq_ops),
    .read = cq_read,
    .readfrom = cq_readfrom,
    .readerr = cq_readerr,
    .sread = cq_sread,
    .sreadfrom = cq_sreadfrom,
    .signal = cq_signal,
};

static struct fi_ops_cntr cntr_ops = {
    .size = sizeof(cntr_ops),
    .read = cntr_read,
    .readerr = cntr_readerr,
    .add = cntr_add,
    .set = cntr_set,
    .wait = cntr_wait,
};

void perf_count_ops(struct hook_ops *ops)
{
    ops->post = perf_post;
    ops->cq = &cq_ops;
    ops->cntr = &cntr_ops;
    ops->watch = &watch;
}
