/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of endpoints: open, bind, enable, options, close. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/info.h"
#include "core/no.h"
#include "transports/loop/loop.h"

/* ---- Enabling ---- */

static int open_receive(struct loop_ep *ep)
{
    struct match_attr attr = {
        .size = ep->rx_size,
        .iov_limit = LOOP_IOV_LIMIT,
        .op_flags = ep->rx_op_flags,
        .min_multi_recv = ep->min_multi_recv,
        .directed = ep->caps & (FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV),
    };
    int rc;

    if (ep->srx && ep->srx->peer) {
        ep->in = ep->srx->peer;
        return 0;
    }
    rc = ep->srx ? srx_attach(ep->srx, &ep->srx_use, &ep->match_source, &ep->report)
                 : match_create(&attr, &ep->match);
    if (rc)
        return rc;
    if (!ep->srx) {
        match_set_report(ep->match, &ep->report);
        match_source_init(&ep->match_source, ep->match, FI_ADDR_NOTAVAIL);
        ep->match_source.srx.peer_ops = &loop_srx_peer_ops;
    }
    ep->match_source.many =
        ep->rdm; /* read by this endpoint's progress only, which is not on yet */
    ep->in = &ep->match_source.srx;
    return 0;
}

static void close_receive(struct loop_ep *ep)
{
    if (ep->srx && ep->srx->match)
        srx_detach(ep->srx, &ep->srx_use);
    if (ep->match) {
        match_source_finish(&ep->match_source);
        match_destroy(ep->match);
        ep->match = NULL;
    }
    list_for_each_safe (pos, after, &ep->saved) {
        list_detach(pos);
        list_item(pos, struct loop_saved, link)->ep = NULL;
    }
}

static void av_changed(struct av_listener *listener, fi_addr_t addr)
{
    struct loop_ep *ep = object_of(listener, struct loop_ep, listener);

    atomic_store(&ep->stale_sources, true);
    loop_port_wake(ep->port);
}

static void av_removed(struct av_listener *listener, fi_addr_t addr)
{
    atomic_store(&object_of(listener, struct loop_ep, listener)->stale_peers, true);
    av_changed(listener, addr);
}

static int attach(struct loop_ep *ep)
{
    int rc;

    ep->source.fd = ep->port->fd;
    unit_lock(ep->report.unit);
    rc = unit_attach(ep->report.unit, &ep->source);
    if (!rc) {
        loop_port_lock(ep->port);
        ep->port->ep = ep;
        loop_port_unlock(ep->port);
        ep->attached = true;
        atomic_store(&ep->state, LOOP_ENABLED);
    }
    unit_unlock(ep->report.unit);
    return rc;
}

int loop_ep_enable(struct loop_ep *ep)
{
    int rc;

    if (atomic_load(&ep->state) != LOOP_IDLE)
        return 0;
    if (!ep->rdm && !ep->eq)
        return -FI_ENOEQ;
    if (ep->rdm && !ep->av)
        return -FI_ENOAV;
    if (!ep->report.unit)
        return -FI_ENOCQ;
    if (ep->needs_srx && !ep->srx)
        return -FI_ENORX;
    if (ep->needs_stx && !ep->stx)
        return -FI_EOPBADSTATE;
    rc = open_receive(ep);
    if (rc)
        return rc;
    if (ep->av) {
        ep->knows_sources = ep->srx || ep->caps & (FI_SOURCE | FI_DIRECTED_RECV |
                                                   FI_TAGGED_DIRECTED_RECV | FI_SOURCE_ERR);
        ep->listener.inserted = av_changed;
        ep->listener.removed = av_removed;
        ep->listener.unit = ep->report.unit;
        av_attach(ep->av, &ep->listener);
    }
    return attach(ep);
}

/* ---- Binding ---- */

static int bind_av(struct loop_ep *ep, struct fid *fid)
{
    struct av *av = object_of(fid, struct av, fid.fid);

    if (!ep->rdm || ep->av || av->domain != &ep->domain->base)
        return -FI_EINVAL;
    ep->av = av;
    children_hold(&av->children);
    return 0;
}

static int bind_eq(struct loop_ep *ep, struct fid *fid)
{
    struct eq *eq = eq_of(fid);

    if (!eq || ep->eq || eq->fabric != &ep->domain->fabric->base)
        return -FI_EINVAL;
    ep->eq = eq;
    children_hold(&eq->children);
    return 0;
}

static int bind_srx(struct loop_ep *ep, struct fid *fid)
{
    struct srx *srx = object_of(fid, struct srx, fid.fid);

    if (srx->domain != &ep->domain->base || ep->srx)
        return -FI_EINVAL;
    ep->srx = srx;
    children_hold(&srx->children);
    return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct loop_ep *ep = object_of(fid, struct loop_ep, fid.fid);

    loop_count(LOOP_CALL_OTHER);
    if (atomic_load(&ep->state) != LOOP_IDLE)
        return -FI_EOPBADSTATE;
    switch (bfid->fclass) {
    case FI_CLASS_AV: return bind_av(ep, bfid);
    case FI_CLASS_EQ: return bind_eq(ep, bfid);
    case FI_CLASS_SRX_CTX: return bind_srx(ep, bfid);
    case FI_CLASS_STX_CTX:
        return ep->needs_stx ? stx_bind(&ep->domain->base, bfid, &ep->stx) : -FI_EINVAL;
    default: return report_bind(&ep->report, &ep->domain->base, bfid, flags);
    }
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    loop_count(LOOP_CALL_OTHER);
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    return loop_ep_enable(object_of(fid, struct loop_ep, fid.fid));
}

/* ---- Options ---- */

static ssize_t ep_cancel(fid_t fid, void *context)
{
    struct loop_ep *ep = object_of(fid, struct loop_ep, fid.fid);
    ssize_t rc;

    loop_count(LOOP_CALL_CANCEL);
    if (!ep->match)
        return -FI_ENOSYS;
    unit_lock(ep->report.unit);
    rc = match_cancel(ep->match, context);
    unit_unlock(ep->report.unit);
    return rc;
}

static size_t unexpected(struct loop_ep *ep)
{
    size_t count;

    if (!ep->match)
        return 0;
    unit_lock(ep->report.unit);
    count = match_queued(ep->match);
    unit_unlock(ep->report.unit);
    return count;
}

static int unexpected_queue(struct loop_ep *ep, void *value, size_t *len)
{
    int rc;

    if (!ep->match)
        return match_tell_queued(NULL, value, len);
    unit_lock(ep->report.unit);
    rc = match_tell_queued(ep->match, value, len);
    unit_unlock(ep->report.unit);
    return rc;
}

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
    struct loop_ep *ep = object_of(fid, struct loop_ep, fid.fid);
    size_t answer;

    loop_count(LOOP_CALL_OTHER);
    if (level != FI_OPT_ENDPOINT)
        return -FI_ENOPROTOOPT;
    switch (name) {
    case FI_OPT_MIN_MULTI_RECV: answer = ep->min_multi_recv; break;
    case OPT_UNEXPECTED_QUEUE: return unexpected_queue(ep, value, len);
    case OPT_UNEXPECTED: answer = unexpected(ep); break;
    case OPT_FETCH_SIZE: answer = LOOP_FETCH; break;
    case FI_OPT_CM_DATA_SIZE: answer = LOOP_CM_DATA; break;
    case FI_OPT_TX_SIZE: answer = ep->tx_size; break;
    case FI_OPT_RX_SIZE: answer = ep->rx_size; break;
    case FI_OPT_MAX_MSG_SIZE: answer = ep->dgram ? LOOP_MTU : SIZE_MAX; break;
    case FI_OPT_MAX_RMA_SIZE: answer = ep->caps & FI_RMA ? SIZE_MAX : 0; break;
    case FI_OPT_MAX_TAGGED_SIZE: answer = ep->caps & FI_TAGGED ? SIZE_MAX : 0; break;
    case FI_OPT_INJECT_MSG_SIZE: answer = LOOP_INJECT; break;
    case FI_OPT_INJECT_RMA_SIZE: answer = ep->caps & FI_RMA ? LOOP_INJECT : 0; break;
    case FI_OPT_MAX_ATOMIC_SIZE: answer = ep->caps & FI_ATOMIC ? LOOP_ATOMIC : 0; break;
    case FI_OPT_INJECT_ATOMIC_SIZE: answer = ep->caps & FI_ATOMIC ? LOOP_INJECT : 0; break;
    case FI_OPT_INJECT_TAGGED_SIZE: answer = ep->caps & FI_TAGGED ? LOOP_INJECT : 0; break;
    default: return -FI_ENOPROTOOPT;
    }
    if (*len < sizeof(answer)) {
        *len = sizeof(answer);
        return -FI_ETOOSMALL;
    }
    *len = sizeof(answer);
    *(size_t *)value = answer;
    return 0;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    struct loop_ep *ep = object_of(fid, struct loop_ep, fid.fid);

    loop_count(LOOP_CALL_OTHER);
    if (level == FI_OPT_ENDPOINT && name == OPT_MATCH_WATCH)
        return match_watch_option(ep->match, value);
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (len != sizeof(size_t))
        return -FI_EINVAL;
    ep->min_multi_recv = *(const size_t *)value;
    if (ep->match) {
        unit_lock(ep->report.unit);
        match_set_min_multi_recv(ep->match, ep->min_multi_recv);
        unit_unlock(ep->report.unit);
    }
    return 0;
}

static ssize_t ep_rx_size_left(struct fid_ep *fid)
{
    struct loop_ep *ep = loop_ep_of(fid);

    return ep->match ? (ssize_t)(ep->rx_size - match_posted(ep->match)) : -FI_EOPBADSTATE;
}

static ssize_t ep_tx_size_left(struct fid_ep *fid)
{
    struct loop_ep *ep = loop_ep_of(fid);

    return (ssize_t)(ep->tx_size - ep->outstanding_count);
}

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = ep_cancel,
    .getopt = ep_getopt,
    .setopt = ep_setopt,
    .tx_ctx = no_ep_tx_ctx,
    .rx_ctx = no_ep_rx_ctx,
    .rx_size_left = ep_rx_size_left,
    .tx_size_left = ep_tx_size_left,
};

/* ---- Closing ---- */

static void let_go(struct loop_ep *ep)
{
    report_finish(&ep->report);
    if (ep->srx)
        children_release(&ep->srx->children);
    stx_release(ep->stx);
    if (ep->av)
        children_release(&ep->av->children);
    if (ep->eq) {
        eq_forget(ep->eq, &ep->fid.fid);
        children_release(&ep->eq->children);
    }
    loop_forget_peers(ep);
    loop_port_release(ep->peer);
    loop_port_close(ep->port);
    free(ep->sources);
    pool_finish(&ep->pool);
    children_release(&ep->domain->base.children);
    free(ep);
}

static int ep_close(struct fid *fid)
{
    struct loop_ep *ep = object_of(fid, struct loop_ep, fid.fid);
    struct unit *control = ep->domain->fabric->unit;

    loop_count(LOOP_CALL_OTHER);
    if (ep->listener.inserted)
        av_detach(ep->av, &ep->listener);
    unit_lock(control);
    loop_cm_close(ep);
    if (ep->attached) {
        unit_lock(ep->report.unit);
        unit_detach(ep->report.unit, &ep->source);
        loop_abort(ep);
        close_receive(ep);
        unit_unlock(ep->report.unit);
    }
    unit_unlock(control);
    let_go(ep);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = ep_close,
    .bind = ep_bind,
    .control = ep_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

/* ---- Opening ---- */

static int read_info(struct loop_ep *ep, const struct fi_info *info)
{
    union addr src;
    int rc = addr_from_str("127.0.0.1:0", SIZE_MAX, &src);

    if (info->ep_attr->type != FI_EP_MSG && info->ep_attr->type != FI_EP_RDM &&
        info->ep_attr->type != FI_EP_DGRAM)
        return -FI_EINVAL;
    ep->rdm = info->ep_attr->type != FI_EP_MSG;
    ep->dgram = info->ep_attr->type == FI_EP_DGRAM;
    ep->addr_format = info->addr_format;
    ep->caps = caps_expand(info->caps ? info->caps : FI_MSG | (ep->dgram ? 0 : FI_RMA));
    if (ep->dgram)
        ep->caps &= ~(FI_RMA | FI_TAGGED | FI_ATOMIC);
    ep->needs_srx = info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
    ep->needs_stx = info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT;
    ep->source_err = ep->rdm && ep->caps & FI_SOURCE_ERR;
    ep->tx_op_flags = info->tx_attr->op_flags;
    ep->rx_op_flags = info->rx_attr->op_flags;
    ep->tx_size = info->tx_attr->size ? info->tx_attr->size : LOOP_SIZE;
    ep->rx_size = info->rx_attr->size ? info->rx_attr->size : LOOP_SIZE;
    if (info->src_addr)
        rc = loop_addr_import(info->addr_format, info->src_addr, info->src_addrlen, &src);
    /* An endpoint of a connection may share its address with the one that listens there. */
    if (!rc && !ep->rdm && (info->handle || addr_port(&src.sa)))
        addr_set_port(&src.sa, 0);
    if (!rc)
        rc = loop_port_open(&src, &ep->port);
    if (!rc && info->handle) {
        rc = loop_cm_claim(ep, info->handle);
        if (rc)
            loop_port_close(ep->port);
    }
    return rc;
}

static void set_ops(struct loop_ep *ep, void *context)
{
    bool own = !ep->needs_srx;

    fid_init(&ep->fid.fid, FI_CLASS_EP, context, &fid_ops);
    ep->fid.ops = &ep_ops;
    ep->fid.cm = ep->rdm ? &loop_rdm_cm_ops : &loop_cm_ops;
    ep->fid.msg = own ? &loop_msg_ops : &loop_msg_shared_ops;
    ep->fid.tagged = !(ep->caps & FI_TAGGED) ? &no_tagged_ops
                     : own                   ? &loop_tagged_ops
                                             : &loop_tagged_shared_ops;
    ep->fid.rma = ep->caps & FI_RMA ? &loop_rma_ops : &no_rma_ops;
    ep->fid.atomic = ep->caps & FI_ATOMIC ? &loop_atomic_ops : &no_atomic_ops;
    ep->fid.collective = &no_collective_ops;
}

int loop_ep_open(struct fid_domain *domain_fid, struct fi_info *user_info, struct fid_ep **ret_ep,
                 void *context)
{
    struct loop_domain *domain = object_of(domain_fid, struct loop_domain, base.fid);
    struct fi_info *info = fabric_info(domain->base.fabric, user_info);
    struct loop_ep *ep = calloc(1, sizeof(*ep));
    int rc = -FI_ENOMEM;

    loop_count(LOOP_CALL_OPEN);
    if (!info || !ep)
        goto free_ep;
    ep->domain = domain;
    ep->min_multi_recv = LOOP_MIN_MULTI_RECV;
    list_init(&ep->srx_use.link);
    list_init(&ep->saved);
    list_init(&ep->outstanding);
    list_init(&ep->ended_link);
    list_init(&ep->listener.link);
    list_init(&ep->source.link);
    ep->source.progress = loop_progress;
    ep->source.trywait = loop_trywait;
    pool_init(&ep->pool, sizeof(struct loop_queued_op), 0);
    rc = read_info(ep, info);
    if (rc)
        goto free_ep;
    set_ops(ep, context);
    children_hold(&domain->base.children);
    info_free(info);
    *ret_ep = &ep->fid;
    return 0;

free_ep:
    free(ep);
    info_free(info);
    return rc;
}
