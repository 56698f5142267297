/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_ep.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/abi.h"
#include "core/alias.h"
#include "core/info.h"
#include "core/no.h"
#include "core/part.h"
#include "core/post.h"
#include "layers/rxm/rxm_av.h"
#include "layers/rxm/rxm_control.h"
#include "layers/rxm/rxm_emu.h"
#include "layers/rxm/rxm_info.h"
#include "layers/rxm/rxm_link.h"
#include "layers/rxm/rxm_sep.h"
#include "layers/rxm/rxm_wait.h"

/* ---- Operations without a connection ---- */

/*
 * A poster that does nothing but try again makes progress too. An upper may post from inside of a
 * completion, where nothing may be driven; it reads its queues after every -FI_EAGAIN.
 */
ssize_t rxm_ep_try_again(struct rxm_ep *ep)
{
    ep->skip = 0;
    if (ep->top)
        unit_progress(ep->unit);
    unit_wake(ep->unit);
    return -FI_EAGAIN;
}

struct fid_ep *rxm_ep_find_changed(struct rxm_ep *ep, fi_addr_t dest)
{
    struct rxm_peer *peer;

    rxm_ep_try_again(ep);
    if (atomic_load(&ep->changes.any) || rxm_av_peer(ep, dest, &peer))
        return NULL;
    return peer->up;
}

struct fid_ep *rxm_ep_find_context(struct rxm_ep *ep, fi_addr_t dest)
{
    struct rxm_peer *peer;
    unsigned context;

    if (!ep->enabled || !ep->av->rx_ctx_bits)
        return NULL;
    dest = rxm_av_split(ep, dest, &context);
    peer = rxm_peers_of(&ep->peers, dest, context);
    return peer ? peer->up : NULL;
}

bool rxm_ep_passes(ssize_t rc)
{
    switch (rc) {
    case -FI_EAGAIN:
    case -FI_ENOTCONN:
    case -FI_ECONNRESET:
    case -FI_ESHUTDOWN:
    case -FI_EOPBADSTATE: return true;
    default: return false;
    }
}

ssize_t rxm_ep_refused(struct rxm_ep *ep, ssize_t rc)
{
    if (!rxm_ep_passes(rc) || !ep->enabled || unit_forked(ep->unit))
        return rc;
    return rxm_ep_try_again(ep); /* its end is in the event queue */
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
    struct rxm_ep *ep = object_of(fid, struct rxm_ep, fid.fid);
    int rc;

    if (!ep->enabled)
        return -FI_EOPBADSTATE;
    unit_lock(ep->unit);
    rc = rxm_wait_cancel(ep, context);
    if (rc && !ep->srx) /* else receives are cancelled where they were posted */
        rc = match_cancel(ep->match, context);
    unit_unlock(ep->unit);
    return rc;
}

/* ---- Options ---- */

static int get_size(size_t value, void *optval, size_t *optlen)
{
    if (*optlen < sizeof(value)) {
        *optlen = sizeof(value);
        return -FI_ETOOSMALL;
    }
    memcpy(optval, &value, sizeof(value));
    *optlen = sizeof(value);
    return 0;
}

static size_t unexpected(struct rxm_ep *ep)
{
    size_t count;

    if (!ep->enabled || !ep->match)
        return 0;
    unit_lock(ep->unit);
    count = match_queued(ep->match);
    unit_unlock(ep->unit);
    return count;
}

static int unexpected_queue(struct rxm_ep *ep, void *optval, size_t *optlen)
{
    int rc;

    if (!ep->enabled || !ep->match)
        return match_tell_queued(NULL, optval, optlen);
    unit_lock(ep->unit);
    rc = match_tell_queued(ep->match, optval, optlen);
    unit_unlock(ep->unit);
    return rc;
}

static int ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    struct rxm_ep *ep = object_of(fid, struct rxm_ep, fid.fid);
    size_t size;
    int rc;

    if (level != FI_OPT_ENDPOINT)
        return -FI_ENOPROTOOPT;
    switch (optname) {
    case FI_OPT_MIN_MULTI_RECV: return get_size(ep->min_multi_recv, optval, optlen);
    case OPT_UNEXPECTED_QUEUE: return unexpected_queue(ep, optval, optlen);
    case OPT_UNEXPECTED: return get_size(unexpected(ep), optval, optlen);
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_MAX_RMA_SIZE: return get_size(ep->info->ep_attr->max_msg_size, optval, optlen);
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_TAGGED_SIZE:
    case FI_OPT_INJECT_RMA_SIZE: return get_size(ep->info->tx_attr->inject_size, optval, optlen);
    case FI_OPT_MAX_ATOMIC_SIZE:
        rc = ep->emu ? rxm_emu_atomic_count(ep, FI_UINT8, FI_ATOMIC_WRITE, 0, &size)
                     : rxm_atomic_count(ep, FI_UINT8, FI_ATOMIC_WRITE, 0, &size);
        return get_size(rc ? 0 : size, optval, optlen);
    case FI_OPT_INJECT_ATOMIC_SIZE:
        return get_size(ep->info->caps & FI_ATOMIC ? ep->info->tx_attr->inject_size : 0, optval,
                        optlen);
    default: return -FI_ENOPROTOOPT;
    }
}

static int ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    struct rxm_ep *ep = object_of(fid, struct rxm_ep, fid.fid);
    size_t size;

    /* The lower's affair: its listener says what holds for every connection. */
    if (level == FI_OPT_ENDPOINT && optname == FI_OPT_SHARED_MEMORY_PERMITTED)
        return fi_setopt(&ep->pep->fid, level, optname, optval, optlen);
    if (level == FI_OPT_ENDPOINT && optname == OPT_MATCH_WATCH)
        return match_watch_option(ep->match, optval);
    if (level != FI_OPT_ENDPOINT || optname != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (optlen < sizeof(size))
        return -FI_EINVAL;
    memcpy(&size, optval, sizeof(size));
    ep->min_multi_recv = size;
    if (ep->enabled && !ep->srx) {
        unit_lock(ep->unit);
        match_set_min_multi_recv(ep->match, size);
        unit_unlock(ep->unit);
    }
    return 0;
}

static int ep_setname(fid_t fid, void *addr, size_t addrlen)
{
    struct rxm_ep *ep = object_of(fid, struct rxm_ep, fid.fid);

    return fi_setname(&ep->pep->fid, addr, addrlen);
}

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
    struct rxm_ep *ep = object_of(fid, struct rxm_ep, fid.fid);

    return fi_getname(&ep->pep->fid, addr, addrlen);
}

/* ---- Binding and enabling ---- */

static int bind_av(struct rxm_ep *ep, struct fid *fid)
{
    struct av *av = object_of(fid, struct av, fid.fid);

    if (ep->av || ep->sep || av->domain != &ep->domain->base)
        return -FI_EINVAL;
    ep->av = av;
    children_hold(&av->children);
    return 0;
}

static int bind_srx(struct rxm_ep *ep, struct fid *fid)
{
    struct srx *srx = object_of(fid, struct srx, fid.fid);

    if (ep->srx || srx->domain != &ep->domain->base || !ep->shares_rx)
        return -FI_EINVAL;
    ep->srx = srx;
    children_hold(&srx->children);
    return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct rxm_ep *ep = object_of(fid, struct rxm_ep, fid.fid);

    if (ep->enabled)
        return -FI_EOPBADSTATE;
    switch (other->fclass) {
    case FI_CLASS_AV: return bind_av(ep, other);
    case FI_CLASS_SRX_CTX: return bind_srx(ep, other);
    case FI_CLASS_STX_CTX:
        return ep->shares_tx ? stx_bind(&ep->domain->base, other, &ep->stx) : -FI_EINVAL;
    case FI_CLASS_EQ: return 0; /* connections report to a queue of their own */
    case FI_CLASS_CQ:
    case FI_CLASS_CNTR: return report_bind(&ep->report, &ep->domain->base, other, flags);
    default: return -FI_EINVAL;
    }
}

static ssize_t drop_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                          void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    return 0;
}

static ssize_t drop_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
    return 0;
}

static struct fi_ops_cq_owner drop_ops = {
    .size = sizeof(drop_ops),
    .write = drop_write,
    .writeerr = drop_writeerr,
};

/* The lower's queue that drives the connections: of the transmit queue, or of what else there is.
 */
static int open_lower_cq(struct rxm_ep *ep)
{
    struct cq *cq = ep->report.tx ? ep->report.tx : ep->report.rx;
    struct rxm_lower_cq *lower = cq && !ep->emu ? &rxm_cq_of(cq)->lower : &ep->own_cq;
    struct fid_peer_cq *sink = cq ? cq->sink : &ep->dropped;
    int rc;

    ep->dropped.owner_ops = &drop_ops;
    fid_init(&ep->dropped.fid, FI_CLASS_PEER_CQ, ep, NULL);
    if (ep->emu)
        sink = &ep->emu->sink;
    rc = rxm_lower_cq_open(lower, ep->domain, cq ? cq->size : 0, sink, ep->report.unit);
    if (rc)
        return rc;
    ep->tx_lower = lower->cq;
    ep->rx_sink = ep->report.rx ? ep->report.rx->sink : NULL;
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

static int create_match(struct rxm_ep *ep)
{
    const struct fi_rx_attr *rx = ep->info->rx_attr;
    struct match_attr attr = {
        .size = rx->size ? rx->size : 1024,
        .iov_limit = rx->iov_limit ? rx->iov_limit : 1,
        .op_flags = rx->op_flags,
        .min_multi_recv = ep->min_multi_recv,
        .directed =
            ep->info->caps & (FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV | FI_EXACT_DIRECTED_RECV),
    };

    return match_create(&attr, &ep->match);
}

/* Receives are matched by an engine of our own, or by that of the shared context. */
static int open_match(struct rxm_ep *ep)
{
    int rc;

    if (ep->match)
        return 0;
    if (!ep->srx) {
        rc = create_match(ep);
        if (!rc)
            match_set_report(ep->match, &ep->report);
        return rc;
    }
    if (ep->srx->peer)
        return 0;
    rc = srx_join(ep->srx, &ep->srx_use, &ep->report);
    if (!rc)
        ep->match = ep->srx->match;
    return rc;
}

static int bound(struct rxm_ep *ep)
{
    int rc = ep->sep ? rxm_sep_join(ep->sep, ep) : 0;

    if (rc)
        return rc;
    if (!ep->report.unit)
        return -FI_ENOCQ;
    if (!ep->av)
        return -FI_ENOAV;
    if (ep->shares_rx && !ep->srx)
        return -FI_ENORX;
    return ep->shares_tx && !ep->stx ? -FI_EOPBADSTATE : 0;
}

static int enable(struct rxm_ep *ep)
{
    int rc;

    if (ep->enabled)
        return 0;
    rc = bound(ep);
    if (!rc)
        rc = open_lower_cq(ep);
    if (!rc)
        rc = open_match(ep);
    if (rc)
        return rc;
    ep->unit = ep->report.unit;
    ep->top = is_top(&ep->report);
    ep->user_ids = ep->av->flags & FI_AV_USER_ID || ep->info->caps & FI_AV_USER_ID;
    return rxm_control_start(ep);
}

static int set_tx_flags(struct rxm_ep *ep, uint64_t flags)
{
    int rc = 0;

    ep->info->tx_attr->op_flags = flags;
    ep->lower_info->tx_attr->op_flags = flags;
    unit_lock(ep->unit);
    list_for_each (item, &ep->links) {
        uint64_t arg = flags | FI_TRANSMIT;

        if (!rc)
            rc = fi_control(&list_item(item, struct rxm_link, all)->ep->fid, FI_SETOPSFLAG, &arg);
    }
    unit_unlock(ep->unit);
    return rc;
}

static int op_flags(struct rxm_ep *ep, int command, uint64_t *flags)
{
    bool tx = *flags & FI_TRANSMIT;

    if (tx == !!(*flags & FI_RECV))
        return -FI_EINVAL;
    if (command == FI_GETOPSFLAG) {
        *flags = tx ? ep->info->tx_attr->op_flags : ep->info->rx_attr->op_flags;
        return 0;
    }
    if (tx && post_refuses(*flags))
        return (int)post_refused();
    if (tx)
        return set_tx_flags(ep, *flags & ~FI_TRANSMIT);
    if (ep->enabled)
        return -FI_EOPBADSTATE; /* the matching engine has them */
    ep->info->rx_attr->op_flags = *flags & ~FI_RECV;
    return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct rxm_ep *ep = object_of(fid, struct rxm_ep, fid.fid);

    switch (command) {
    case FI_ENABLE: return enable(ep);
    case FI_GETOPSFLAG:
    case FI_SETOPSFLAG: return op_flags(ep, command, arg);
    case FI_ALIAS:
        return alias_open(&ep->fid, &ep->aliases, ep->info->tx_attr->op_flags,
                          ep->info->rx_attr->op_flags, arg);
    case FI_BACKLOG: return fi_control(&ep->pep->fid, command, arg);
    default: return -FI_ENOSYS;
    }
}

/* ---- Opening and closing ---- */

static void close_match(struct rxm_ep *ep)
{
    if (!ep->srx) {
        match_destroy(ep->match);
        return;
    }
    if (!ep->srx->peer) {
        unit_lock(ep->unit);
        srx_detach(ep->srx, &ep->srx_use);
        unit_unlock(ep->unit);
    }
    children_release(&ep->srx->children);
}

static int ep_close(struct fid *fid)
{
    struct rxm_ep *ep = object_of(fid, struct rxm_ep, fid.fid);

    if (children_any(&ep->aliases))
        return -FI_EBUSY;
    if (ep->sep)
        rxm_sep_leave(ep->sep, ep);
    rxm_control_close(ep);
    rxm_lower_cq_close(&ep->own_cq, ep->report.unit);
    close_match(ep);
    rxm_emu_close(ep);
    report_finish(&ep->report);
    if (ep->av)
        children_release(&ep->av->children);
    stx_release(ep->stx);
    children_release(&ep->domain->base.children);
    pthread_mutex_destroy(&ep->changes.mutex);
    info_free(ep->lower_info);
    info_free(ep->info);
    free(ep);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = ep_close,
    .bind = ep_bind,
    .control = ep_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static struct fi_ops_ep ep_ops = {
    .size = sizeof(ep_ops),
    .cancel = ep_cancel,
    .getopt = ep_getopt,
    .setopt = ep_setopt,
    .tx_ctx = no_ep_tx_ctx,
    .rx_ctx = no_ep_rx_ctx,
    .rx_size_left = no_ep_rx_size_left,
    .tx_size_left = no_ep_tx_size_left,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = ep_setname,
    .getname = ep_getname,
    NO_CM_CONNECTION,
};

/* Packets of ours know nothing of scalable endpoints. */
static void set_emulated_ops(struct rxm_ep *ep, bool receives)
{
    if (ep->info->caps & FI_MSG)
        ep->fid.msg = receives ? &rxm_emu_msg_ops : &rxm_emu_msg_tx_ops;
    if (ep->info->caps & FI_TAGGED)
        ep->fid.tagged = receives ? &rxm_emu_tagged_ops : &rxm_emu_tagged_tx_ops;
    if (ep->info->caps & FI_RMA)
        ep->fid.rma = &rxm_emu_rma_ops;
    if (ep->info->caps & FI_ATOMIC)
        ep->fid.atomic = &rxm_emu_atomic_ops;
}

static void set_ops(struct rxm_ep *ep)
{
    bool sends = ep->fid.fid.fclass != FI_CLASS_RX_CTX;
    bool receives = ep->fid.fid.fclass != FI_CLASS_TX_CTX && !ep->shares_rx;

    if (rxm_emulates(ep->domain->fabric->params, ep->info)) {
        set_emulated_ops(ep, receives);
        return;
    }
    if (ep->info->caps & FI_MSG)
        ep->fid.msg = !receives ? &rxm_msg_tx_ops : sends ? &rxm_msg_ops : &rxm_msg_rx_ops;
    if (ep->info->caps & FI_TAGGED)
        ep->fid.tagged = !receives ? &rxm_tagged_tx_ops
                         : sends   ? &rxm_tagged_ops
                                   : &rxm_tagged_rx_ops;
    if (ep->info->caps & FI_RMA && sends)
        ep->fid.rma = &rxm_rma_ops;
    if (ep->info->caps & FI_ATOMIC)
        ep->fid.atomic = &rxm_atomic_ops;
}

/* Never locked: of endpoints that are not enabled, so that posts need not ask. */
static struct unit no_unit = {.root = &no_unit};

static void set_fid(struct rxm_ep *ep, size_t class, void *context)
{
    ep->unit = &no_unit;
    fid_init(&ep->fid.fid, class, context, &fid_ops);
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &cm_ops;
    ep->fid.msg = &no_msg_ops;
    ep->fid.tagged = &no_tagged_ops;
    ep->fid.rma = &no_rma_ops;
    ep->fid.atomic = &no_atomic_ops;
    ep->fid.collective = &no_collective_ops;
}

static int open_parts(struct rxm_ep *ep, const struct fi_info *info)
{
    struct rxm_fabric *fabric = ep->domain->fabric;
    int rc;

    ep->info = fabric_info(&fabric->base, info);
    if (!ep->info)
        return -FI_ENOMEM;
    ep->shares_tx = !ep->sep && ep->info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT;
    ep->shares_rx = !ep->sep && ep->info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
    set_ops(ep);
    ep->source_err = ep->info->caps & FI_SOURCE_ERR;
    rc = rxm_lower_info(fabric->lower, fabric->base.api_version, fabric->params, ep->info,
                        &ep->lower_info);
    if (!rc && rxm_emulates(fabric->params, ep->info))
        rc = rxm_emu_open(ep);
    return rc ? rc : rxm_control_open(ep);
}

static struct rxm_ep *new_ep(struct rxm_domain *domain, size_t class, void *context)
{
    struct rxm_ep *ep = calloc(1, sizeof(*ep));

    if (!ep)
        return NULL;
    ep->domain = domain;
    ep->min_multi_recv = RXM_MIN_MULTI_RECV;
    list_init(&ep->srx_use.link);
    ep->timer_source.fd = -1;
    list_init(&ep->timer_source.link);
    list_init(&ep->eq_source.link);
    list_init(&ep->links);
    list_init(&ep->lingering);
    list_init(&ep->waits.all);
    list_init(&ep->waits.ready);
    pthread_mutex_init(&ep->changes.mutex, NULL);
    children_hold(&domain->base.children);
    set_fid(ep, class, context);
    return ep;
}

/* Takes ep, also when it fails. */
static int finish_open(struct rxm_ep *ep, const struct fi_info *info, struct fid_ep **ret_ep)
{
    int rc = open_parts(ep, info);

    if (rc) {
        ep->sep = NULL; /* it does not know of it yet */
        ep_close(&ep->fid.fid);
        return rc;
    }
    *ret_ep = &ep->fid;
    return 0;
}

int rxm_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_ep, void *context)
{
    struct rxm_ep *ep = new_ep(rxm_domain_of(fid), FI_CLASS_EP, context);

    return ep ? finish_open(ep, info, ret_ep) : -FI_ENOMEM;
}

int rxm_ep_open_tx(struct sep *sep, unsigned index, struct fi_tx_attr *attr, struct fid_ep **ret_ep,
                   void *context)
{
    struct rxm_ep *ep =
        new_ep(object_of(sep->domain, struct rxm_domain, base), FI_CLASS_TX_CTX, context);
    int rc;

    if (!ep)
        return -FI_ENOMEM;
    ep->sep = object_of(sep, struct rxm_sep, base);
    ep->source = (uint8_t)(index + 1);
    rc = finish_open(ep, sep->info, ret_ep);
    if (rc || !attr)
        return rc;
    ep->info->tx_attr->op_flags = attr->op_flags;
    ep->lower_info->tx_attr->op_flags = attr->op_flags;
    memcpy(attr, ep->info->tx_attr, abi_tx_attr_size(sep->domain->fabric->abi));
    return 0;
}

int rxm_ep_open_rx(struct sep *sep, unsigned index, struct fi_rx_attr *attr, struct fid_ep **ret_ep,
                   void *context)
{
    struct rxm_ep *ep =
        new_ep(object_of(sep->domain, struct rxm_domain, base), FI_CLASS_RX_CTX, context);
    int rc;

    if (!ep)
        return -FI_ENOMEM;
    ep->sep = object_of(sep, struct rxm_sep, base);
    ep->target = (uint8_t)index;
    rc = finish_open(ep, sep->info, ret_ep);
    if (rc || !attr)
        return rc;
    ep->info->rx_attr->op_flags = attr->op_flags;
    if (attr->size && attr->size < ep->info->rx_attr->size)
        ep->info->rx_attr->size = attr->size;
    *attr = *ep->info->rx_attr;
    return 0;
}
