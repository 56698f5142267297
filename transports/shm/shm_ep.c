/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of endpoints. */
#include "transports/shm/shm_ep.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/abi.h"
#include "core/info.h"
#include "core/log.h"
#include "core/no.h"
#include "transports/shm/shm_fork.h"
#include "transports/shm/shm_listener.h"
#include "transports/shm/shm_op.h"
#include "transports/shm/shm_sep.h"

/* ---- Enabling ---- */

static int open_receive(struct shm_ep *ep)
{
    struct match_attr attr = {
        .size = ep->rx_size,
        .iov_limit = SHM_IOV_LIMIT,
        .op_flags = ep->rx_op_flags,
        .min_multi_recv = ep->min_multi_recv,
        .directed = ep->caps & (FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV),
    };
    int rc;

    if (ep->srx && ep->srx->peer) {
        ep->in = ep->srx->peer;
        return 0;
    }
    rc = ep->srx ? srx_attach(ep->srx, &ep->srx_user, &ep->match_source, &ep->report)
                 : match_create(&attr, &ep->match);
    if (rc)
        return rc;
    if (ep->match) {
        match_set_report(ep->match, &ep->report);
        match_source_init(&ep->match_source, ep->match, FI_ADDR_NOTAVAIL);
        ep->match_source.srx.peer_ops = &shm_srx_peer_ops;
    }
    ep->match_source.many = true; /* read by this endpoint's progress only, which is not on yet */
    ep->in = &ep->match_source.srx;
    return 0;
}

/* Completions and counts end here, not in an upper. */
static bool is_top(const struct report *report)
{
    for (int kind = 0; kind < REPORT_KINDS; kind++) {
        if (report->cntr[kind] && report->cntr[kind]->sink != &report->cntr[kind]->peer)
            return false;
    }
    return (!report->tx || report->tx->sink == &report->tx->peer) &&
           (!report->rx || report->rx->sink == &report->rx->peer);
}

static int is_bound(const struct shm_ep *ep)
{
    if (!ep->av)
        return -FI_ENOAV;
    return ep->report.unit ? 0 : -FI_ENOCQ;
}

int shm_ep_enable(struct shm_ep *ep)
{
    int rc;

    if (ep->enabled)
        return 0;
    rc = ep->sep ? sep_join(&ep->sep->base, ep->fid.fid.fclass, ep->context, &ep->report, &ep->av)
                 : is_bound(ep);
    if (rc)
        return rc;
    if (ep->needs_srx && !ep->srx)
        return -FI_ENORX;
    if (ep->needs_stx && !ep->stx)
        return -FI_EOPBADSTATE;
    rc = ep->bell ? 0 : shm_link_start(ep);
    if (rc)
        return rc;
    rc = ep->in ? 0 : open_receive(ep);
    if (rc)
        return rc;
    ep->top = is_top(&ep->report) && !(ep->srx && ep->srx->peer);
    ep->knows_sources = ep->srx || ep->caps & (FI_SOURCE | FI_DIRECTED_RECV |
                                               FI_TAGGED_DIRECTED_RECV | FI_SOURCE_ERR);
    ep->delivers = ep->match && !ep->source_err;
    shm_av_watch(ep);
    unit_lock(ep->report.unit);
    rc = unit_attach(ep->report.unit, &ep->source);
    ep->enabled = !rc;
    unit_unlock(ep->report.unit);
    return rc;
}

/* ---- Binding ---- */

static int bind_av(struct shm_ep *ep, struct fid *fid)
{
    struct av *av = object_of(fid, struct av, fid.fid);

    if (ep->av || ep->sep || av->domain != &ep->domain->base)
        return -FI_EINVAL;
    ep->av = av;
    children_hold(&av->children);
    return 0;
}

static int bind_srx(struct shm_ep *ep, struct fid *fid)
{
    struct srx *srx = object_of(fid, struct srx, fid.fid);

    if (srx->domain != &ep->domain->base || ep->srx)
        return -FI_EINVAL;
    ep->srx = srx;
    children_hold(&srx->children);
    return 0;
}

int shm_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct shm_ep *ep = object_of(fid, struct shm_ep, fid.fid);

    if (ep->enabled)
        return -FI_EOPBADSTATE;
    switch (bfid->fclass) {
    case FI_CLASS_AV: return bind_av(ep, bfid);
    case FI_CLASS_EQ: return 0; /* nothing is reported to it */
    case FI_CLASS_SRX_CTX: return bind_srx(ep, bfid);
    case FI_CLASS_STX_CTX:
        return ep->needs_stx ? stx_bind(&ep->domain->base, bfid, &ep->stx) : -FI_EINVAL;
    default: return report_bind(&ep->report, &ep->domain->base, bfid, flags);
    }
}

/* ---- Closing ---- */

static void close_receive(struct shm_ep *ep)
{
    shm_saved_close(ep);
    if (ep->srx)
        srx_detach(ep->srx, &ep->srx_user);
    if (!ep->match)
        return;
    match_source_finish(&ep->match_source);
    match_destroy(ep->match);
}

static void let_go(struct shm_ep *ep)
{
    report_finish(&ep->report);
    if (ep->srx)
        children_release(&ep->srx->children);
    if (ep->av)
        children_release(&ep->av->children);
    stx_release(ep->stx);
    children_release(&ep->domain->base.children);
    shm_ops_finish(ep);
    pool_finish(&ep->controls);
    free(ep->peers);
    for (int i = 0; ep->more && i < SHM_CONTEXTS - 1; i++)
        free(ep->more[i].links);
    free(ep->more);
    free(ep->numbers);
    free(ep->buckets);
    free(ep);
}

int shm_ep_close(struct fid *fid)
{
    struct shm_ep *ep = object_of(fid, struct shm_ep, fid.fid);
    struct unit *unit = ep->report.unit;

    if (children_any(&ep->aliases))
        return -FI_EBUSY;
    if (ep->watch.inserted)
        av_detach(ep->av, &ep->watch);
    if (unit)
        unit_lock(unit);
    if (ep->enabled)
        unit_detach(unit, &ep->source);
    ep->in_progress = true;
    shm_link_close_all(ep);
    shm_fork_forget(ep);
    close_receive(ep);
    if (unit)
        unit_unlock(unit);
    if (ep->sep)
        shm_sep_leave(ep);
    let_go(ep);
    return 0;
}

/* ---- Opening ---- */

static void read_info(struct shm_ep *ep, const struct fi_info *info)
{
    ep->caps = caps_expand(info->caps ? info->caps : FI_MSG | FI_TAGGED | FI_RMA);
    ep->tx_op_flags = info->tx_attr->op_flags;
    ep->rx_op_flags = info->rx_attr->op_flags;
    ep->source_err = ep->caps & FI_SOURCE_ERR;
    ep->needs_srx = !ep->sep && info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
    ep->needs_stx = !ep->sep && info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT;
    ep->order = info->tx_attr->msg_order;
    ep->orders_reads = ep->order & (FI_ORDER_RAR | FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR);
    ep->tx_size = info->tx_attr->size ? info->tx_attr->size : SHM_SIZE;
    ep->rx_size = info->rx_attr->size ? info->rx_attr->size : SHM_SIZE;
}

static int open_listener(struct shm_ep *ep, const struct fi_info *info)
{
    int rc;

    if (info->src_addr)
        rc = shm_name_import(info->src_addr, info->src_addrlen, ep->name);
    else
        rc = shm_name_make(NULL, NULL, ep->name);
    if (!rc)
        rc = shm_listener_open(ep->name, &ep->listener);
    if (rc)
        LOG_WARN(ep->domain->base.fabric->part, FI_LOG_EP_CTRL, ": cannot listen at %s: %s",
                 ep->name, fi_strerror(-rc));
    return rc;
}

static struct shm_ep *new_ep(struct shm_domain *domain)
{
    struct shm_ep *ep = calloc(1, sizeof(*ep));

    if (!ep)
        return NULL;
    ep->domain = domain;
    ep->min_multi_recv = SHM_MIN_MULTI_RECV;
    ep->listener = ep->bell_fd = ep->wake_fd = ep->source.fd = -1;
    ep->source.progress = shm_progress;
    ep->source.trywait = shm_trywait;
    list_init(&ep->source.link);
    list_init(&ep->watch.link);
    list_init(&ep->busy);
    list_init(&ep->crosses);
    list_init(&ep->saved);
    list_init(&ep->held);
    list_init(&ep->links);
    list_init(&ep->dead);
    list_init(&ep->absent);
    list_init(&ep->unasked);
    list_init(&ep->srx_user.link);
    shm_ops_init(ep);
    shm_controls_init(ep);
    return ep;
}

static struct fid_ep *born(struct shm_ep *ep, size_t class, void *context)
{
    shm_ep_ops_init(ep, class, context);
    shm_fork_watch(ep);
    children_hold(&ep->domain->base.children);
    return &ep->fid;
}

int shm_ep_open(struct fid_domain *domain_fid, struct fi_info *user_info, struct fid_ep **ret_ep,
                void *context)
{
    struct shm_domain *domain = object_of(domain_fid, struct shm_domain, base.fid);
    struct fi_info *info = fabric_info(domain->base.fabric, user_info);
    struct shm_ep *ep = new_ep(domain);
    int rc = -FI_ENOMEM;

    if (info && ep)
        rc = info->ep_attr->type == FI_EP_RDM ? open_listener(ep, info) : -FI_EINVAL;
    if (rc) {
        free(ep);
        info_free(info);
        return rc;
    }
    read_info(ep, info);
    info_free(info);
    *ret_ep = born(ep, FI_CLASS_EP, context);
    return 0;
}

/* ---- Contexts of a scalable endpoint ---- */

static struct shm_ep *new_context(struct sep *base, unsigned index)
{
    struct shm_ep *ep = new_ep(object_of(base->domain, struct shm_domain, base));
    struct shm_sep *sep = object_of(base, struct shm_sep, base);

    if (!ep)
        return NULL;
    ep->sep = sep;
    ep->context = index;
    memcpy(ep->name, sep->name, sizeof(ep->name));
    read_info(ep, base->info);
    return ep;
}

int shm_ep_open_tx(struct sep *sep, unsigned index, struct fi_tx_attr *attr, struct fid_ep **ret_ep,
                   void *context)
{
    struct shm_ep *ep = new_context(sep, index);

    if (!ep)
        return -FI_ENOMEM;
    if (attr) {
        ep->tx_op_flags = attr->op_flags;
        if (attr->size && attr->size < ep->tx_size)
            ep->tx_size = attr->size;
        memcpy(attr, sep->info->tx_attr, abi_tx_attr_size(ep->domain->base.fabric->abi));
        attr->op_flags = ep->tx_op_flags;
        attr->size = ep->tx_size;
    }
    *ret_ep = born(ep, FI_CLASS_TX_CTX, context);
    return 0;
}

/* The first one has the name itself, which the endpoint has kept for it. */
static int listen_as(struct shm_ep *ep, unsigned index)
{
    if (index || ep->sep->listener < 0)
        return shm_listener_bind(ep->name, index, &ep->listener);
    ep->listener = ep->sep->listener;
    ep->sep->listener = -1;
    return 0;
}

int shm_ep_open_rx(struct sep *sep, unsigned index, struct fi_rx_attr *attr, struct fid_ep **ret_ep,
                   void *context)
{
    struct shm_ep *ep = new_context(sep, index);
    int rc = ep ? listen_as(ep, index) : -FI_ENOMEM;

    if (rc) {
        free(ep);
        return rc;
    }
    if (attr) {
        ep->rx_op_flags = attr->op_flags;
        if (attr->size && attr->size < ep->rx_size)
            ep->rx_size = attr->size;
        *attr = *sep->info->rx_attr;
        attr->op_flags = ep->rx_op_flags;
        attr->size = ep->rx_size;
    }
    *ret_ep = born(ep, FI_CLASS_RX_CTX, context);
    return 0;
}
