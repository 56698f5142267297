/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_srx.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "transports/verbs/verbs_ep.h"

enum {
    QP_BITS = 24, /* of a queue pair's number: InfiniBand Architecture, 3.2.5 */
    PAGE_BITS = QP_BITS / 2,
    PAGE = 1 << PAGE_BITS,
};

/* ---- Which endpoint has a queue pair: pages are made as numbers need them ---- */

struct verbs_qp_page {
    _Atomic(struct verbs_ep *) eps[PAGE];
};

struct verbs_qp_table {
    _Atomic(struct verbs_qp_page *) pages[PAGE];
};

static int table_set(struct verbs_domain *domain, uint32_t number, struct verbs_ep *ep)
{
    struct verbs_qp_page *page;

    pthread_mutex_lock(&domain->mutex);
    page = atomic_load(&domain->qps->pages[number >> PAGE_BITS & (PAGE - 1)]);
    if (!page && ep && (page = calloc(1, sizeof(*page))))
        atomic_store(&domain->qps->pages[number >> PAGE_BITS & (PAGE - 1)], page);
    if (page)
        atomic_store(&page->eps[number & (PAGE - 1)], ep);
    pthread_mutex_unlock(&domain->mutex);
    return page ? 0 : -FI_ENOMEM;
}

static struct verbs_ep *table_find(struct verbs_domain *domain, uint32_t number)
{
    struct verbs_qp_page *page =
        domain->qps ? atomic_load_explicit(&domain->qps->pages[number >> PAGE_BITS & (PAGE - 1)],
                                           memory_order_acquire)
                    : NULL;

    return page ? atomic_load_explicit(&page->eps[number & (PAGE - 1)], memory_order_acquire)
                : NULL;
}

static int table_open(struct verbs_domain *domain)
{
    pthread_mutex_lock(&domain->mutex);
    if (!domain->qps)
        domain->qps = calloc(1, sizeof(*domain->qps));
    pthread_mutex_unlock(&domain->mutex);
    return domain->qps ? 0 : -FI_ENOMEM;
}

void verbs_srx_forget(struct verbs_domain *domain)
{
    for (int i = 0; domain->qps && i < PAGE; i++)
        free(atomic_load(&domain->qps->pages[i]));
    free(domain->qps);
    domain->qps = NULL;
}

int verbs_srx_join(struct verbs_ep *ep)
{
    return ep->srx ? table_set(ep->domain, ep->qp->qp_num, ep) : 0;
}

void verbs_srx_leave(struct verbs_ep *ep)
{
    if (ep->srx && ep->qp)
        table_set(ep->domain, ep->qp->qp_num, NULL);
}

/* ---- Receives ---- */

static int post_slot(struct verbs_srx *srx, uint32_t slot)
{
    struct ibv_recv_wr *bad, wr = {.wr_id = verbs_shared_wr_id(slot),
                                   .sg_list = &srx->sges[slot * srx->iov_limit],
                                   .num_sge = srx->recvs[slot].segments};

    return ibv_post_srq_recv(srx->ibv, &wr, &bad);
}

static void give_back(struct verbs_srx *srx, uint32_t slot)
{
    srx->recvs[slot].next = srx->free;
    srx->free = slot;
    srx->used--;
}

void verbs_srx_received(struct verbs_cq *cq, uint32_t slot, const struct ibv_wc *wc)
{
    struct verbs_ep *ep = table_find(cq->domain, wc->qp_num);
    struct verbs_shared_recv shared;
    struct verbs_recv recv;
    bool again;

    if (!ep || ep->cq != cq || slot >= ep->srx->size)
        return;
    again = wc->status == IBV_WC_WR_FLUSH_ERR || ep->closing;
    pthread_mutex_lock(&ep->srx->mutex);
    shared = ep->srx->recvs[slot];
    again = again && !post_slot(ep->srx, slot);
    if (!again)
        give_back(ep->srx, slot);
    pthread_mutex_unlock(&ep->srx->mutex);
    if (again)
        return;
    recv = (struct verbs_recv){
        .context = shared.context,
        .buf = shared.buf,
        .wanted = completion_wanted(ep->base.binding.rx_selective, shared.flags),
    };
    verbs_ep_report_received(ep, &recv, wc);
}

static ssize_t post_locked(struct verbs_srx *srx, const struct op *op)
{
    uint32_t slot = srx->free;
    int rc;

    if (srx->used == srx->size)
        return -FI_EAGAIN;
    rc = verbs_fill_segments(&srx->sges[slot * srx->iov_limit], op, srx->iov_limit, false);
    if (rc < 0)
        return rc;
    srx->free = srx->recvs[slot].next;
    srx->recvs[slot] = (struct verbs_shared_recv){
        .context = op->context,
        .buf = op_buf(op),
        .flags = op_final_flags(op, srx->op_flags),
        .segments = rc,
    };
    srx->used++;
    rc = post_slot(srx, slot);
    if (!rc)
        return 0;
    give_back(srx, slot);
    return rc == ENOMEM ? -FI_EAGAIN : -rc;
}

static ssize_t post(struct ep *ep, struct op *op)
{
    struct verbs_srx *srx = verbs_srx_of(object_of(ep, struct srx, base));
    ssize_t rc;

    if (verbs_domain_forked(object_of(srx->base.domain, struct verbs_domain, base)))
        return -FI_EOPBADSTATE;
    pthread_mutex_lock(&srx->mutex);
    rc = post_locked(srx, op);
    pthread_mutex_unlock(&srx->mutex);
    return rc;
}

static ssize_t rx_size_left(struct fid_ep *fid)
{
    struct verbs_srx *srx = object_of(fid, struct verbs_srx, base.fid);
    ssize_t left;

    pthread_mutex_lock(&srx->mutex);
    left = srx->size - srx->used;
    pthread_mutex_unlock(&srx->mutex);
    return left;
}

/* ---- The object ---- */

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = enosys_ep_cancel,
    .getopt = enosys_ep_getopt,
    .setopt = enosys_ep_setopt,
    .tx_ctx = enosys_ep_tx_ctx,
    .rx_ctx = enosys_ep_rx_ctx,
    .rx_size_left = rx_size_left,
    .tx_size_left = enosys_ep_tx_size_left,
};

static void destroy(struct verbs_srx *srx)
{
    pthread_mutex_destroy(&srx->mutex);
    free(srx->sges);
    free(srx->recvs);
    free(srx);
}

static int srx_close(struct fid *fid)
{
    struct verbs_srx *srx = object_of(fid, struct verbs_srx, base.fid.fid);
    struct domain *domain = srx->base.domain;
    int rc;

    if (children_any(&srx->base.children))
        return -FI_EBUSY;
    rc = verbs_domain_forked(object_of(domain, struct verbs_domain, base))
             ? 0
             : verbs_lib.destroy_srq(srx->ibv);
    if (rc)
        return verbs_error(rc);
    destroy(srx);
    children_release(&domain->children);
    return 0;
}

static int srx_control(struct fid *fid, int command, void *arg)
{
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = srx_close,
    .bind = enosys_bind,
    .control = srx_control,
    .ops_open = ep_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

static int create(struct verbs_domain *domain, struct verbs_srx *srx)
{
    struct ibv_srq_init_attr attr = {
        .attr = {.max_wr = srx->size, .max_sge = (uint32_t)srx->iov_limit}};

    srx->recvs = calloc(srx->size, sizeof(*srx->recvs));
    srx->sges = calloc(srx->size * srx->iov_limit, sizeof(*srx->sges));
    if (!srx->recvs || !srx->sges || table_open(domain))
        return -FI_ENOMEM;
    for (uint32_t i = 0; i < srx->size; i++)
        srx->recvs[i].next = i + 1;
    srx->ibv = verbs_lib.create_srq(domain->pd, &attr);
    if (srx->ibv)
        return 0;
    LOG_WARN("verbs", FI_LOG_EP_CTRL, "%s makes no shared receive queue of %u receives: %s",
             domain->device->name, srx->size, fi_strerror(-verbs_error(-1)));
    return verbs_error(-1);
}

static void init(struct verbs_srx *srx, struct verbs_domain *domain, const struct fi_rx_attr *attr,
                 void *context)
{
    const struct fi_rx_attr *usual = domain->base.info->rx_attr;

    pthread_mutex_init(&srx->mutex, NULL);
    srx->size = (uint32_t)(attr && attr->size ? attr->size : usual->size);
    srx->iov_limit = attr && attr->iov_limit ? attr->iov_limit : usual->iov_limit;
    srx->op_flags = attr ? attr->op_flags : usual->op_flags;
    srx->base.domain = &domain->base;
    list_init(&srx->base.users);
    fid_init(&srx->base.fid.fid, FI_CLASS_SRX_CTX, context, &fid_ops);
    srx->base.fid.cm = &enosys_cm_ops;
    ep_set_data_ops(&srx->base.base);
    srx->base.fid.ops = &ep_ops;
    srx->base.base.post = post;
    srx->base.base.groups = OP_GROUP_RECV;
}

int verbs_srx_open(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **ret_srx,
                   void *context)
{
    struct verbs_domain *domain = verbs_domain_of(fid);
    struct verbs_srx *srx;
    int rc;

    if (!domain->device->attr.max_srq || (attr && attr->op_flags & FI_PEER))
        return -FI_ENOSYS;
    if (attr && attr->size > (size_t)domain->device->attr.max_srq_wr) {
        LOG_WARN("verbs", FI_LOG_EP_CTRL, "fi_srx_context: %zu receives; %s has %d at most",
                 attr->size, domain->device->name, domain->device->attr.max_srq_wr);
        return -FI_EINVAL;
    }
    srx = calloc(1, sizeof(*srx));
    if (!srx)
        return -FI_ENOMEM;
    init(srx, domain, attr, context);
    rc = create(domain, srx);
    if (rc) {
        destroy(srx);
        return rc;
    }
    children_hold(&domain->base.children);
    *ret_srx = &srx->base.fid;
    return 0;
}
