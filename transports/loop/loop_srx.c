/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive contexts: the domain's own, or the upper's, opened with FI_PEER. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/no.h"
#include "transports/loop/loop.h"

static struct loop_srx *srx_of(struct fid_ep *fid)
{
    return object_of(fid, struct loop_srx, fid);
}

int loop_srx_attach(struct loop_srx *srx, struct loop_ep *ep)
{
    int rc = unit_merge(srx->unit, ep->report.unit);

    if (rc)
        return rc;
    unit_lock(srx->unit);
    match_source_init(&ep->match_source, srx->match, FI_ADDR_NOTAVAIL);
    ep->match_source.srx.peer_ops = &loop_srx_peer_ops;
    ep->in = &ep->match_source.srx;
    if (list_empty(&srx->endpoints))
        match_set_report(srx->match, &ep->report);
    list_attach(&ep->shared_link, &srx->endpoints);
    unit_unlock(srx->unit);
    return 0;
}

void loop_srx_detach(struct loop_srx *srx, struct loop_ep *ep)
{
    struct list *first;

    if (list_empty(&ep->shared_link))
        return;
    match_source_finish(&ep->match_source);
    list_detach(&ep->shared_link);
    first = srx->endpoints.next;
    match_set_report(srx->match, list_empty(&srx->endpoints)
                                     ? &srx->unbound
                                     : &list_item(first, struct loop_ep, shared_link)->report);
}

static ssize_t srx_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct loop_srx *srx = srx_of(fid);
    ssize_t rc;

    loop_count(LOOP_CALL_RECV);
    unit_lock(srx->unit);
    rc = match_recv(srx->match, msg, flags);
    unit_unlock(srx->unit);
    return rc;
}

static ssize_t srx_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src, void *context)
{
    struct fi_msg msg = {
        .msg_iov = iov, .desc = desc, .iov_count = count, .addr = src, .context = context};

    return srx_recvmsg(fid, &msg, match_op_flags(srx_of(fid)->match));
}

static ssize_t srx_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                        void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return srx_recvv(fid, &iov, &desc, 1, src, context);
}

static ssize_t srx_trecvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct loop_srx *srx = srx_of(fid);
    ssize_t rc;

    loop_count(LOOP_CALL_TRECV);
    unit_lock(srx->unit);
    rc = match_trecv(srx->match, msg, flags);
    unit_unlock(srx->unit);
    return rc;
}

static ssize_t srx_trecvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
{
    struct fi_msg_tagged msg = {.msg_iov = iov,
                                .desc = desc,
                                .iov_count = count,
                                .addr = src,
                                .tag = tag,
                                .ignore = ignore,
                                .context = context};

    return srx_trecvmsg(fid, &msg, match_op_flags(srx_of(fid)->match));
}

static ssize_t srx_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                         uint64_t tag, uint64_t ignore, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return srx_trecvv(fid, &iov, &desc, 1, src, tag, ignore, context);
}

static struct fi_ops_msg msg_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = srx_recv,
    .recvv = srx_recvv,
    .recvmsg = srx_recvmsg,
    .send = no_msg_send,
    .sendv = no_msg_sendv,
    .sendmsg = no_msg_sendmsg,
    .inject = no_msg_inject,
    .senddata = no_msg_senddata,
    .injectdata = no_msg_injectdata,
};

static struct fi_ops_tagged tagged_ops = {
    .size = sizeof(struct fi_ops_tagged),
    .recv = srx_trecv,
    .recvv = srx_trecvv,
    .recvmsg = srx_trecvmsg,
    .send = no_tagged_send,
    .sendv = no_tagged_sendv,
    .sendmsg = no_tagged_sendmsg,
    .inject = no_tagged_inject,
    .senddata = no_tagged_senddata,
    .injectdata = no_tagged_injectdata,
};

static ssize_t srx_cancel(fid_t fid, void *context)
{
    struct loop_srx *srx = object_of(fid, struct loop_srx, fid.fid);
    ssize_t rc;

    loop_count(LOOP_CALL_CANCEL);
    unit_lock(srx->unit);
    rc = match_cancel(srx->match, context);
    unit_unlock(srx->unit);
    return rc;
}

static int srx_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
    struct loop_srx *srx = object_of(fid, struct loop_srx, fid.fid);

    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (*len < sizeof(size_t))
        return -FI_ETOOSMALL;
    *len = sizeof(size_t);
    *(size_t *)value = match_min_multi_recv(srx->match);
    return 0;
}

static int srx_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    struct loop_srx *srx = object_of(fid, struct loop_srx, fid.fid);

    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (len != sizeof(size_t))
        return -FI_EINVAL;
    unit_lock(srx->unit);
    match_set_min_multi_recv(srx->match, *(const size_t *)value);
    unit_unlock(srx->unit);
    return 0;
}

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = srx_cancel,
    .getopt = srx_getopt,
    .setopt = srx_setopt,
    .tx_ctx = no_ep_tx_ctx,
    .rx_ctx = no_ep_rx_ctx,
    .rx_size_left = no_ep_rx_size_left,
    .tx_size_left = no_ep_tx_size_left,
};

static int srx_close(struct fid *fid)
{
    struct loop_srx *srx = object_of(fid, struct loop_srx, fid.fid);

    if (children_any(&srx->children))
        return -FI_EBUSY;
    if (srx->unit) {
        unit_lock(srx->unit);
        match_destroy(srx->match);
        unit_unlock(srx->unit);
        unit_release(srx->unit);
    }
    children_release(&srx->domain->base.children);
    free(srx);
    return 0;
}

static int srx_control(struct fid *fid, int command, void *arg)
{
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = srx_close,
    .bind = no_bind,
    .control = srx_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static int open_own(struct loop_srx *srx, const struct fi_rx_attr *attr)
{
    const struct domain *base = &srx->domain->base;
    struct match_attr match_attr = {
        .size = attr && attr->size ? attr->size : LOOP_SIZE,
        .iov_limit = LOOP_IOV_LIMIT,
        .op_flags = attr ? attr->op_flags : 0,
        .min_multi_recv = LOOP_MIN_MULTI_RECV,
    };
    int rc = unit_create(base->info->domain_attr, base->fabric->part, &srx->unit);

    if (rc)
        return rc;
    rc = match_create(&match_attr, &srx->match);
    if (rc) {
        unit_release(srx->unit);
        return rc;
    }
    match_set_report(srx->match, &srx->unbound);
    srx->fid.ops = &ep_ops;
    srx->fid.msg = &msg_ops;
    srx->fid.tagged = &tagged_ops;
    return 0;
}

static int open_peer(struct loop_srx *srx, const struct fi_peer_srx_context *context)
{
    if (!context || context->size < sizeof(*context) || !context->srx)
        return -FI_EINVAL;
    srx->peer = context->srx;
    srx->peer->peer_ops = &loop_srx_peer_ops;
    srx->fid.ops = &no_ep_ops;
    srx->fid.msg = &no_msg_ops;
    srx->fid.tagged = &no_tagged_ops;
    return 0;
}

int loop_srx_open(struct fid_domain *domain_fid, struct fi_rx_attr *attr, struct fid_ep **ret_srx,
                  void *context)
{
    struct loop_domain *domain = object_of(domain_fid, struct loop_domain, base.fid);
    bool peer = attr && attr->op_flags & FI_PEER;
    struct loop_srx *srx = calloc(1, sizeof(*srx));
    int rc;

    loop_count(LOOP_CALL_OPEN);
    if (!srx)
        return -FI_ENOMEM;
    srx->domain = domain;
    list_init(&srx->endpoints);
    fid_init(&srx->fid.fid, FI_CLASS_SRX_CTX, peer ? NULL : context, &fid_ops);
    srx->fid.cm = &no_cm_ops;
    srx->fid.rma = &no_rma_ops;
    srx->fid.atomic = &no_atomic_ops;
    srx->fid.collective = &no_collective_ops;
    rc = peer ? open_peer(srx, context) : open_own(srx, attr);
    if (rc) {
        free(srx);
        return rc;
    }
    children_hold(&domain->base.children);
    *ret_srx = &srx->fid;
    return 0;
}
