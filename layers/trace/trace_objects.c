/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects: opening, binding, controlling, closing them. */
#include <stdlib.h>

#include "core/base/iov.h"
#include "core/hook/hook_watch.h"
#include "layers/trace/trace.h"

/* The call that opens an object of a class; regions have three. */
static const enum trace_call opens[] = {
    [FI_CLASS_DOMAIN] = TRACE_DOMAIN,       [FI_CLASS_PEP] = TRACE_PASSIVE_EP,
    [FI_CLASS_EQ] = TRACE_EQ_OPEN,          [FI_CLASS_WAIT] = TRACE_WAIT_OPEN,
    [FI_CLASS_POLL] = TRACE_POLL_OPEN,      [FI_CLASS_CQ] = TRACE_CQ_OPEN,
    [FI_CLASS_CNTR] = TRACE_CNTR_OPEN,      [FI_CLASS_AV] = TRACE_AV_OPEN,
    [FI_CLASS_AV_SET] = TRACE_AV_SET,       [FI_CLASS_MC] = TRACE_JOIN,
    [FI_CLASS_EP] = TRACE_ENDPOINT,         [FI_CLASS_SEP] = TRACE_SCALABLE_EP,
    [FI_CLASS_STX_CTX] = TRACE_STX_CONTEXT, [FI_CLASS_SRX_CTX] = TRACE_SRX_CONTEXT,
    [FI_CLASS_TX_CTX] = TRACE_TX_CONTEXT,   [FI_CLASS_RX_CTX] = TRACE_RX_CONTEXT,
};

static enum trace_call call_of(const struct fid *fid, const struct hook_opening *opening)
{
    if (fid->fclass != FI_CLASS_MR)
        return opens[fid->fclass];
    return opening->mr_call == HOOK_MR_REG    ? TRACE_MR_REG
           : opening->mr_call == HOOK_MR_REGV ? TRACE_MR_REGV
                                              : TRACE_MR_REGATTR;
}

/* Fields of a registration that do not fit into the call's own record follow in another. */
static void record_region(const struct hook_opening *opening)
{
    const struct trace_object *object = trace_of(opening->parent);
    struct trace_ring *ring = trace_ring_of(object->file);
    uint64_t time = ring->records[opening->note & ring->mask].time;
    struct weft_trace_record *record = trace_begin(ring, object, WEFT_TRACE_MORE, time);
    bool memory = iov_bytes(opening->iov, opening->iov_count);

    record->context = trace_word(opening->context);
    record->buf = opening->flags;
    record->len = memory ? trace_word(opening->iov->iov_base) : 0;
    record->peer = opening->mr->access;
    record->tag = 0;
    trace_ring_publish(ring);
}

/* peer of a set: the first address of its range; len: how many members are expected. */
static int opening_object(const struct hook_fabric *fabric, struct fid *fid,
                          struct hook_opening *opening)
{
    struct trace_args args = {.context = trace_word(opening->context), .tag = opening->flags};

    if (opening->alias) /* by fi_control, which has its record */
        return 0;
    if (fid->fclass == FI_CLASS_TX_CTX || fid->fclass == FI_CLASS_RX_CTX)
        args.tag = (uint64_t)opening->index;
    if (fid->fclass == FI_CLASS_AV_SET)
        args.peer = FI_ADDR_NOTAVAIL;
    if (opening->eq)
        args.len = opening->eq->size;
    if (opening->wait)
        args.tag = (uint64_t)opening->wait->wait_obj;
    if (opening->cq) {
        args.len = opening->cq->size;
        args.tag = opening->cq->format;
    }
    if (opening->av)
        args.len = opening->av->count;
    if (opening->av_set) {
        args.len = opening->av_set->count;
        args.peer = opening->av_set->start_addr;
        args.tag = opening->av_set->flags;
    }
    if (opening->mr) {
        args.len = iov_bytes(opening->iov, opening->iov_count);
        args.tag = opening->mr->requested_key;
    }
    opening->note = trace_entered(opening->parent, call_of(fid, opening), &args);
    if (opening->mr && opening->note != TRACE_NOWHERE)
        record_region(opening);
    return 0;
}

/* The record of the call also gets the new object. */
static void opened_object(const struct hook_fabric *fabric, struct fid *fid,
                          const struct hook_opening *opening)
{
    const struct trace_object *above = *hook_own(opening->parent);
    struct trace_object *object = above ? calloc(1, sizeof(*object)) : NULL;

    if (object) {
        *object = *above;
        object->empty_reads = 0;
        trace_object_init(object, fid->fclass, above->number);
        *hook_own(fid) = object;
    }
    if (!above || opening->alias || opening->note == TRACE_NOWHERE)
        return;
    trace_leave(above, opening->note, 0);
    if (object)
        trace_amend(above, opening->note)->buf = trace_named(object);
}

static void refused_object(const struct fid *fid, const struct hook_opening *opening, int rc)
{
    if (!opening->alias)
        trace_leave(trace_of(opening->parent), opening->note, rc);
}

static const struct hook_watch watch = {
    .opening = opening_object, .opened = opened_object, .refused = refused_object};

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    const struct trace_args args = {.len = (uint64_t)count};
    uint64_t place = trace_entered(&fabric->fid, TRACE_TRYWAIT, &args);

    return (int)trace_left(&fabric->fid, place, hook_fabric_ops.trywait(fabric, fids, count));
}

/* ---- Of every class ---- */

static int close_traced(struct fid *fid)
{
    struct trace_object *object = trace_of(fid);
    uint64_t place = trace_enter(object, TRACE_CLOSE, &(struct trace_args){0});
    bool fabric = fid->fclass == FI_CLASS_FABRIC;
    int rc = hook_fid_ops(fid->fclass)->close(fid);

    if (!object)
        return rc;
    trace_leave(object, place, rc);
    if (!rc && fabric)
        trace_file_layer_done(object->file, object->layer);
    if (!rc)
        free(object);
    return rc;
}

static int bind_traced(struct fid *fid, struct fid *target, uint64_t flags)
{
    const struct trace_object *other = target ? trace_of(target) : NULL;
    const struct trace_args args = {.buf = trace_named(other), .tag = flags};
    uint64_t place = trace_entered(fid, TRACE_BIND, &args);

    return (int)trace_left(fid, place, hook_fid_ops(fid->fclass)->bind(fid, target, flags));
}

static int control_traced(struct fid *fid, int command, void *arg)
{
    const struct trace_args args = {.tag = (uint64_t)command};
    uint64_t place = trace_entered(fid, TRACE_CONTROL, &args);

    return (int)trace_left(fid, place, hook_fid_ops(fid->fclass)->control(fid, command, arg));
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = close_traced,
    .bind = bind_traced,
    .control = control_traced,
    .ops_open = hook_ops_open,
    .tostr = enosys_tostr,
    .ops_set = hook_ops_set,
};

static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .trywait = trywait};

void trace_object_ops(struct hook_ops *ops)
{
    ops->watch = &watch;
    ops->fabric = &fabric_ops;
    ops->fabric_fid = ops->domain_fid = ops->ep_fid = ops->pep_fid = ops->stx_fid = ops->cq_fid =
        ops->cntr_fid = ops->eq_fid = ops->av_fid = ops->av_set_fid = ops->mr_fid = ops->mc_fid =
            ops->wait_fid = ops->poll_fid = &fid_ops;
}
