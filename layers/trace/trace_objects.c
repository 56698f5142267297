/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects: opening, binding, controlling, closing them. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/hook/hook_watch.h"
#include "layers/trace/trace.h"

static void open_object(const struct hook_fabric *fabric, struct fid *fid,
                        const struct hook_opening *opening)
{
    const struct trace_object *above = *hook_own(opening->parent);
    struct trace_object *object = above ? calloc(1, sizeof(*object)) : NULL;

    if (!object)
        return;
    *object = *above;
    object->empty_reads = 0;
    trace_object_init(object, fid->fclass, above->number);
    *hook_own(fid) = object;
}

static const struct hook_watch watch = {.opened = open_object};

/* ---- The end of a function that opens an object ---- */

/* The record of the call also gets the new object. */
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

static uint64_t opening(struct fid *parent, enum trace_call call, const void *context, uint64_t len,
                        uint64_t tag)
{
    const struct trace_args args = {.context = trace_word(context), .len = len, .tag = tag};

    return trace_entered(parent, call, &args);
}

/* ---- Fabric and domain ---- */

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    uint64_t place = opening(&fabric->fid, TRACE_DOMAIN, context, 0, 0);
    int rc = hook_domain_open(hook_fabric_of(fabric), info, domain, 0, context);

    return opened(&fabric->fid, place, rc, rc ? NULL : &(*domain)->fid);
}

static int open_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                        uint64_t flags, void *context)
{
    uint64_t place = opening(&fabric->fid, TRACE_DOMAIN, context, 0, flags);
    int rc = hook_domain_open(hook_fabric_of(fabric), info, domain, flags, context);

    return opened(&fabric->fid, place, rc, rc ? NULL : &(*domain)->fid);
}

static int open_pep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                    void *context)
{
    uint64_t place = opening(&fabric->fid, TRACE_PASSIVE_EP, context, 0, 0);
    int rc = hook_pep_open(fabric, info, pep, context);

    return opened(&fabric->fid, place, rc, rc ? NULL : &(*pep)->fid);
}

static int open_eq(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                   void *context)
{
    uint64_t place = opening(&fabric->fid, TRACE_EQ_OPEN, context, attr ? attr->size : 0, 0);
    int rc = hook_eq_open(fabric, attr, eq, context);

    return opened(&fabric->fid, place, rc, rc ? NULL : &(*eq)->fid);
}

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    uint64_t place = opening(&fabric->fid, TRACE_TRYWAIT, NULL, (uint64_t)count, 0);
    int rc = hook_fabric_ops.trywait(fabric, fids, count);

    if (trace_of(&fabric->fid))
        trace_leave(trace_of(&fabric->fid), place, rc);
    return rc;
}

static int open_wait(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set)
{
    uint64_t place =
        opening(&fabric->fid, TRACE_WAIT_OPEN, NULL, 0, attr ? (uint64_t)attr->wait_obj : 0);
    int rc = hook_wait_open(fabric, attr, set);

    return opened(&fabric->fid, place, rc, rc ? NULL : &(*set)->fid);
}

static int open_poll(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **set)
{
    uint64_t place = opening(&domain->fid, TRACE_POLL_OPEN, NULL, 0, 0);
    int rc = hook_poll_open(domain, attr, set);

    return opened(&domain->fid, place, rc, rc ? NULL : &(*set)->fid);
}

static int open_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                   void *context)
{
    uint64_t place = opening(&domain->fid, TRACE_CQ_OPEN, context, attr ? attr->size : 0,
                             attr ? attr->format : 0);
    int rc = hook_cq_open(domain, attr, cq, context);

    return opened(&domain->fid, place, rc, rc ? NULL : &(*cq)->fid);
}

static int open_cntr(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                     void *context)
{
    uint64_t place = opening(&domain->fid, TRACE_CNTR_OPEN, context, 0, 0);
    int rc = hook_cntr_open(domain, attr, cntr, context);

    return opened(&domain->fid, place, rc, rc ? NULL : &(*cntr)->fid);
}

static int open_av(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                   void *context)
{
    uint64_t place = opening(&domain->fid, TRACE_AV_OPEN, context, attr ? attr->count : 0, 0);
    int rc = hook_av_open(domain, attr, av, context);

    return opened(&domain->fid, place, rc, rc ? NULL : &(*av)->fid);
}

static int open_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                   void *context)
{
    uint64_t place = opening(&domain->fid, TRACE_ENDPOINT, context, 0, 0);
    int rc = hook_ep_open(domain, info, ep, context);

    return opened(&domain->fid, place, rc, rc ? NULL : &(*ep)->fid);
}

static int open_ep2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                    uint64_t flags, void *context)
{
    uint64_t place = opening(&domain->fid, TRACE_ENDPOINT, context, 0, flags);
    int rc = hook_ep_open2(domain, info, ep, flags, context);

    return opened(&domain->fid, place, rc, rc ? NULL : &(*ep)->fid);
}

static int open_sep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                    void *context)
{
    uint64_t place = opening(&domain->fid, TRACE_SCALABLE_EP, context, 0, 0);
    int rc = hook_sep_open(domain, info, sep, context);

    return opened(&domain->fid, place, rc, rc ? NULL : &(*sep)->fid);
}

static int open_stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                    void *context)
{
    uint64_t place = opening(&domain->fid, TRACE_STX_CONTEXT, context, 0, 0);
    int rc = hook_stx_open(domain, attr, stx, context);

    return opened(&domain->fid, place, rc, rc ? NULL : &(*stx)->fid);
}

static int open_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
                    void *context)
{
    uint64_t place = opening(&domain->fid, TRACE_SRX_CONTEXT, context, 0, 0);
    int rc = hook_srx_open(domain, attr, srx, context);

    return opened(&domain->fid, place, rc, rc ? NULL : &(*srx)->fid);
}

static int open_tx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
                   void *context)
{
    uint64_t place = opening(&sep->fid, TRACE_TX_CONTEXT, context, 0, (uint64_t)index);
    int rc = hook_ep_ops.tx_ctx(sep, index, attr, ep, context);

    return opened(&sep->fid, place, rc, rc ? NULL : &(*ep)->fid);
}

static int open_rx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
                   void *context)
{
    uint64_t place = opening(&sep->fid, TRACE_RX_CONTEXT, context, 0, (uint64_t)index);
    int rc = hook_ep_ops.rx_ctx(sep, index, attr, ep, context);

    return opened(&sep->fid, place, rc, rc ? NULL : &(*ep)->fid);
}

/* peer: the first address of a range; len: how many members are expected. */
static int open_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set,
                    void *context)
{
    const struct trace_args args = {.context = trace_word(context),
                                    .len = attr ? attr->count : 0,
                                    .peer = attr ? attr->start_addr : FI_ADDR_NOTAVAIL,
                                    .tag = attr ? attr->flags : 0};
    uint64_t place = trace_entered(&av->fid, TRACE_AV_SET, &args);
    int rc = hook_av_ops.av_set(av, attr, set, context);

    return opened(&av->fid, place, rc, rc ? NULL : &(*set)->fid);
}

static int join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
                void *context)
{
    uint64_t place = opening(&ep->fid, TRACE_JOIN, context, 0, flags);
    int rc = hook_cm_ops.join(ep, addr, flags, mc, context);

    return opened(&ep->fid, place, rc, rc ? NULL : &(*mc)->fid);
}

/* ---- Memory regions ---- */

/* Fields that do not fit into the call's own record follow in another. */
static uint64_t registering(struct fid *domain, enum trace_call call, const struct fi_mr_attr *attr,
                            uint64_t flags)
{
    size_t len = flags & FI_MR_DMABUF ? 0 : iov_bytes(attr->mr_iov, attr->iov_count);
    const struct trace_object *object = trace_of(domain);
    uint64_t place = opening(domain, call, attr->context, len, attr->requested_key);
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

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(fabric_ops),
    .domain = open_domain,
    .domain2 = open_domain2,
    .passive_ep = open_pep,
    .eq_open = open_eq,
    .wait_open = open_wait,
    .trywait = trywait,
};
static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops),
    .av_open = open_av,
    .cq_open = open_cq,
    .endpoint = open_ep,
    .endpoint2 = open_ep2,
    .scalable_ep = open_sep,
    .cntr_open = open_cntr,
    .poll_open = open_poll,
    .stx_ctx = open_stx,
    .srx_ctx = open_srx,
};

void trace_object_ops(struct hook_ops *ops)
{
    ops->watch = &watch;
    ops->fabric = &fabric_ops;
    ops->domain = &domain_ops;
    ops->mr = &mr_ops;
    ops->ep->tx_ctx = open_tx;
    ops->ep->rx_ctx = open_rx;
    ops->cm->join = join;
    ops->av->av_set = open_set;
    ops->fabric_fid = ops->domain_fid = ops->ep_fid = ops->pep_fid = ops->stx_fid = ops->cq_fid =
        ops->cntr_fid = ops->eq_fid = ops->av_fid = ops->av_set_fid = ops->mr_fid = ops->mc_fid =
            ops->wait_fid = ops->poll_fid = &fid_ops;
}
