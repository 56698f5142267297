/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects: opening, binding, controlling, closing them. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/hook/hook_watch.h"
#include "layers/trace/trace.h"

/* The call that opens an object of a class. Regions have three, with wrappers of their own: their
 * records go on in another. */
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

/* An alias is opened by fi_control, which has its record. */
static bool has_record(const struct fid *fid, const struct hook_opening *opening)
{
    return opens[fid->fclass] && !opening->alias;
}

/* peer of a set: the first address of its range; len: how many members are expected. */
static int opening_object(const struct hook_fabric *fabric, struct fid *fid,
                          struct hook_opening *opening)
{
    struct trace_args args = {.context = trace_word(opening->context), .tag = opening->flags};

    if (!has_record(fid, opening))
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
    opening->note = trace_entered(opening->parent, opens[fid->fclass], &args);
    return 0;
}

/* The end of a call that opened fid, or NULL; its record also gets the new object. */
static int opened(struct fid *parent, uint64_t place, int rc, struct fid *fid)
{
    const struct trace_object *above = trace_of(parent);

    if (place == TRACE_NOWHERE)
        return rc;
    trace_leave(above, place, rc);
    if (!rc && trace_of(fid))
        trace_amend(above, place)->buf = trace_named(trace_of(fid));
    return rc;
}

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
    if (has_record(fid, opening))
        opened(opening->parent, opening->note, 0, fid);
}

static void refused_object(const struct fid *fid, const struct hook_opening *opening, int rc)
{
    if (has_record(fid, opening))
        opened(opening->parent, opening->note, rc, NULL);
}

static const struct hook_watch watch = {
    .opening = opening_object, .opened = opened_object, .refused = refused_object};

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    const struct trace_args args = {.len = (uint64_t)count};
    uint64_t place = trace_entered(&fabric->fid, TRACE_TRYWAIT, &args);

    return (int)trace_left(&fabric->fid, place, hook_fabric_ops.trywait(fabric, fids, count));
}

/* ---- Memory regions ---- */

/* Fields that do not fit into the call's own record follow in another. */
static uint64_t registering(struct fid *domain, enum trace_call call, const struct fi_mr_attr *attr,
                            uint64_t flags)
{
    size_t len = flags & FI_MR_DMABUF ? 0 : iov_bytes(attr->mr_iov, attr->iov_count);
    const struct trace_object *object = trace_of(domain);
    const struct trace_args args = {
        .context = trace_word(attr->context), .len = len, .tag = attr->requested_key};
    uint64_t place = trace_entered(domain, call, &args);
    struct weft_trace_record *record;
    struct trace_ring *ring;

    if (place == TRACE_NOWHERE)
        return place;
    ring = trace_ring_of(object->file);
    record = trace_begin(ring, object, WEFT_TRACE_MORE, ring->records[place & ring->mask].time);
    record->context = trace_word(attr->context);
    record->buf = flags;
    record->len = len && attr->iov_count ? trace_word(attr->mr_iov->iov_base) : 0;
    record->peer = attr->access;
    record->tag = 0;
    trace_ring_publish(ring);
    return place;
}

static int regv(struct fid *domain, const struct iovec *iov, size_t count, uint64_t access,
                uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
                void *context)
{
    const struct fi_mr_attr attr = {.mr_iov = iov,
                                    .iov_count = count,
                                    .access = access,
                                    .requested_key = requested_key,
                                    .context = context};
    uint64_t place = registering(domain, TRACE_MR_REGV, &attr, flags);
    int rc =
        hook_mr_ops.regv(domain, iov, count, access, offset, requested_key, flags, mr, context);

    return opened(domain, place, rc, rc ? NULL : &(*mr)->fid);
}

static int reg(struct fid *domain, const void *buf, size_t len, uint64_t access, uint64_t offset,
               uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    const struct fi_mr_attr attr = {.mr_iov = &iov,
                                    .iov_count = 1,
                                    .access = access,
                                    .requested_key = requested_key,
                                    .context = context};
    uint64_t place = registering(domain, TRACE_MR_REG, &attr, flags);
    int rc = hook_mr_ops.reg(domain, buf, len, access, offset, requested_key, flags, mr, context);

    return opened(domain, place, rc, rc ? NULL : &(*mr)->fid);
}

static int regattr(struct fid *domain, const struct fi_mr_attr *attr, uint64_t flags,
                   struct fid_mr **mr)
{
    uint64_t place = registering(domain, TRACE_MR_REGATTR, attr, flags);
    int rc = hook_mr_ops.regattr(domain, attr, flags, mr);

    return opened(domain, place, rc, rc ? NULL : &(*mr)->fid);
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

static struct fi_ops_mr mr_ops = {
    .size = sizeof(mr_ops),
    .reg = reg,
    .regv = regv,
    .regattr = regattr,
};

static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .trywait = trywait};

void trace_object_ops(struct hook_ops *ops)
{
    ops->watch = &watch;
    ops->fabric = &fabric_ops;
    ops->mr = &mr_ops;
    ops->fabric_fid = ops->domain_fid = ops->ep_fid = ops->pep_fid = ops->stx_fid = ops->cq_fid =
        ops->cntr_fid = ops->eq_fid = ops->av_fid = ops->av_set_fid = ops->mr_fid = ops->mc_fid =
            ops->wait_fid = ops->poll_fid = &fid_ops;
}
