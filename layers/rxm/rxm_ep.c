/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_ep.h"

#include <stdlib.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/seam.h"
#include "core/domain/base.h"
#include "core/info/info.h"
#include "core/part/part.h"
#include "layers/rxm/conn/rxm_av.h"
#include "layers/rxm/conn/rxm_control.h"
#include "layers/rxm/conn/rxm_sep.h"
#include "layers/rxm/msgproto/msgproto.h"
#include "layers/rxm/rxm_info.h"
#include "layers/rxm/rxm_post.h"

/* ---- Operations without a connection ---- */

/*
 * A poster that does nothing but try again makes progress too. An upper may post from inside of a
 * completion, where nothing may be driven; it reads its queues after every -FI_EAGAIN.
 */
ssize_t rxm_ep_try_again(struct rxm_ep *ep)
{
    ep->skip = 0;
    if (ep->top)
        progress_poll(ep->progress);
    progress_wake(ep->progress);
    return -FI_EAGAIN;
}

struct rxm_conn *rxm_ep_find_changed(struct rxm_ep *ep, fi_addr_t dest)
{
    struct rxm_peer *peer;

    rxm_ep_try_again(ep);
    if (atomic_load(&ep->watch.any) || rxm_av_peer(ep, dest, &peer))
        return NULL;
    return peer->up;
}

struct rxm_conn *rxm_ep_find_context(struct rxm_ep *ep, fi_addr_t dest)
{
    struct rxm_peer *peer;
    unsigned context;

    if (!ep->base.enabled || !ep->base.av->rx_ctx_bits)
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
    if (!rxm_ep_passes(rc) || !ep->base.enabled || progress_forked(ep->progress))
        return rc;
    return rxm_ep_try_again(ep); /* its end is in the event queue */
}

enum {
    CLOSE_MS = 2000 /* that fi_close waits for peers, unless an upper says otherwise */
};

static struct rxm_ep *ep_of(struct endpoint *base)
{
    return object_of(base, struct rxm_ep, base);
}

static int cancel(struct endpoint *base, void *context)
{
    return op_queue_cancel(&ep_of(base)->waits.ops, context);
}

/* ---- Options ---- */

static size_t limit(struct endpoint *base, int option)
{
    struct rxm_ep *ep = ep_of(base);
    size_t size;

    switch (option) {
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_MAX_RMA_SIZE: return ep->info->ep_attr->max_msg_size;
    case FI_OPT_MAX_ATOMIC_SIZE:
        return rxm_atomic_valid(&base->base, 0, FI_UINT8, FI_ATOMIC_WRITE, &size) ? 0 : size;
    case FI_OPT_INJECT_ATOMIC_SIZE:
        return ep->info->caps & FI_ATOMIC ? ep->info->tx_attr->inject_size : 0;
    default: return ep->info->tx_attr->inject_size;
    }
}

/* The lower's affair: its listener says what holds for every connection. */
static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    return fi_setopt(&ep_of(base)->pep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, value,
                     len);
}

static int ep_setname(fid_t fid, void *addr, size_t addrlen)
{
    struct rxm_ep *ep = object_of(fid, struct rxm_ep, fid.fid);
    int rc = fi_setname(&ep->pep->fid, addr, addrlen);

    /* Connections leave from there. */
    return rc ? rc : info_set_src(ep->lower_info, addr, addrlen);
}

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
    struct rxm_ep *ep = object_of(fid, struct rxm_ep, fid.fid);

    return fi_getname(&ep->pep->fid, addr, addrlen);
}

/* ---- Binding and enabling ---- */

/* The connections that there are count on a counter that comes late, too. */
static int bound(struct endpoint *base, struct fid *fid, uint64_t flags)
{
    struct rxm_ep *ep = ep_of(base);
    int rc = 0;

    if (!base->enabled || fid->fclass != FI_CLASS_CNTR)
        return 0;
    progress_lock(ep->progress);
    ep->top = binding_is_top(&base->binding);
    list_for_each (item, &ep->conns) {
        if (!rc)
            rc = rxm_conn_bind_cntrs(list_item(item, struct rxm_conn, all), flags);
    }
    progress_unlock(ep->progress);
    return rc;
}

/* The lower's queue that drives the connections: of the transmit queue, or of what else there is.
 */
static int open_lower_cq(struct rxm_ep *ep)
{
    struct cq *cq = ep->base.binding.tx ? ep->base.binding.tx : ep->base.binding.rx;
    struct lower_source *lower = cq && !ep->msgproto ? &peer_cq_of(cq)->lower : &ep->own_cq;
    struct fid_peer_cq *sink = cq ? cq->sink : &ep->dropped;
    int rc;

    ep->own_cq.part = ep->domain->base.fabric->part;
    peer_cq_drop(&ep->dropped, ep);
    if (ep->msgproto)
        sink = &ep->msgproto->sink;
    rc = lower_source_open(lower, ep->domain->fabric->lower, ep->domain->lower, cq ? cq->size : 0,
                           sink, ep->base.binding.progress);
    if (rc)
        return rc;
    ep->tx_lower = lower->cq;
    ep->rx_sink = ep->base.binding.rx ? ep->base.binding.rx->sink : NULL;
    return 0;
}

static int join(struct endpoint *base)
{
    struct rxm_ep *ep = ep_of(base);

    return ep->sep ? rxm_sep_join(ep->sep, ep) : 0;
}

static int enable(struct endpoint *base)
{
    struct rxm_ep *ep = ep_of(base);
    int rc = open_lower_cq(ep);

    if (rc)
        return rc;
    /* Receives are matched by an engine of our own, or by that of the shared context. */
    ep->match = base->srx ? base->srx->match : base->match;
    ep->behind = base->srx && base->srx->peer ? match_branch_engine(base->srx->peer) : NULL;
    ep->progress = base->binding.progress;
    ep->top = binding_is_top(&base->binding);
    ep->user_ids = base->av->flags & FI_AV_USER_ID || ep->info->caps & FI_AV_USER_ID;
    rc = rxm_control_start(ep);
    if (!rc)
        rxm_quick_enable(ep);
    return rc;
}

static uint64_t lower_tx_flags(const struct rxm_ep *ep)
{
    uint64_t flags = ep->base.tx_op_flags;

    return ep->msgproto ? msgproto_lower_flags(ep->msgproto, flags) : flags;
}

static int tx_flags_changed(struct endpoint *base)
{
    struct rxm_ep *ep = ep_of(base);
    int rc = 0;

    ep->lower_info->tx_attr->op_flags = lower_tx_flags(ep);
    progress_lock(ep->progress);
    rxm_quick_tx_flags(ep);
    list_for_each (item, &ep->conns) {
        uint64_t arg = lower_tx_flags(ep) | FI_TRANSMIT;

        if (!rc)
            rc = fi_control(&list_item(item, struct rxm_conn, all)->ep->fid, FI_SETOPSFLAG, &arg);
    }
    progress_unlock(ep->progress);
    return rc;
}

static int control(struct endpoint *base, int command, void *arg)
{
    return command == FI_BACKLOG ? fi_control(&ep_of(base)->pep->fid, command, arg) : -FI_ENOSYS;
}

/* ---- Opening and closing ---- */

static int close_ep(struct endpoint *base)
{
    struct rxm_ep *ep = ep_of(base);

    if (ep->sep)
        rxm_sep_leave(ep->sep, ep);
    rxm_control_close(ep);
    lower_source_close(&ep->own_cq, base->binding.progress);
    if (base->binding.progress) {
        progress_lock(base->binding.progress);
        endpoint_close_receives(base);
        progress_unlock(base->binding.progress);
    }
    msgproto_close(ep);
    endpoint_finish(base);
    av_watch_finish(&ep->watch);
    info_free(ep->lower_info);
    info_free(ep->info);
    free(ep);
    return 0;
}

static const struct endpoint_option options[] = {
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = OPT_CLOSE_WAIT, .kind = OPTION_FIELD, .at = offsetof(struct rxm_ep, close_ms)},
    {.name = 0},
};

static const struct endpoint_ops ops = {
    .post = rxm_post,
    .atomic_valid = rxm_atomic_valid,
    .limit = limit,
    .join = join,
    .enable = enable,
    .bound = bound,
    .close = close_ep,
    .cancel = cancel,
    .control = control,
    .tx_flags_changed = tx_flags_changed,
    .options = options,
    .own_sources = true,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = ep_setname,
    .getname = ep_getname,
    NO_CM_CONNECTION,
};

static void init_base(struct rxm_ep *ep, size_t class, void *context)
{
    const struct fi_rx_attr *rx = ep->info->rx_attr;
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &ep->domain->base,
        .info = ep->info,
        .caps = ep->info->caps,
        .fclass = class,
        .context = context,
        .size = RXM_SIZE,
        .iov_limit = rx->iov_limit,
        .min_multi_recv = RXM_MIN_MULTI_RECV,
    };

    endpoint_init(&ep->base, &attr);
    ep->fid.cm = &cm_ops;
    ep->close_ms = CLOSE_MS;
    ep->base.needs_av = !ep->sep;
    if (!(attr.caps & FI_MSG))
        ep->base.base.groups &= ~(unsigned)OP_GROUP_MSG;
}

static int open_parts(struct rxm_ep *ep)
{
    const struct lower_fabric *fabric = ep->domain->fabric;
    int rc = rxm_lower_info(fabric, ep->info, &ep->lower_info);

    ep->source_err = ep->info->caps & FI_SOURCE_ERR;
    if (!rc && rxm_emulates(fabric->plain.params, ep->info)) {
        ep->base.base.post = msgproto_post;
        rc = msgproto_open(ep);
    }
    return rc ? rc : rxm_control_open(ep);
}

/* sep: whose context it is, or NULL. */
static struct rxm_ep *new_ep(struct lower_domain *domain, struct rxm_sep *sep,
                             const struct fi_info *info, size_t class, void *context)
{
    struct rxm_ep *ep = calloc(1, sizeof(*ep));

    if (!ep)
        return NULL;
    ep->info = fabric_info(&domain->fabric->base, info);
    if (!ep->info) {
        free(ep);
        return NULL;
    }
    ep->domain = domain;
    ep->sep = sep;
    ep->progress = &progress_none;
    wake_timer_init(&ep->timer);
    list_init(&ep->eq_source.link);
    list_init(&ep->conns);
    list_init(&ep->lingering);
    op_queue_init(&ep->waits.ops, &ep->base.binding);
    list_init(&ep->waits.ready);
    av_watch_init(&ep->watch);
    init_base(ep, class, context);
    return ep;
}

/* Takes ep, also when it fails. */
static int finish_open(struct rxm_ep *ep)
{
    int rc = open_parts(ep);

    if (rc) {
        ep->sep = NULL; /* it does not know of it yet */
        close_ep(&ep->base);
    }
    return rc;
}

int rxm_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_ep, void *context)
{
    struct rxm_ep *ep = new_ep(lower_domain_of(fid), NULL, info, FI_CLASS_EP, context);
    int rc = ep ? finish_open(ep) : -FI_ENOMEM;

    if (!rc)
        *ret_ep = &ep->fid;
    return rc;
}

int rxm_ep_open_context(struct sep *sep, const struct sep_opening *opening,
                        struct endpoint **ret_ep)
{
    struct rxm_ep *ep =
        new_ep(object_of(sep->domain, struct lower_domain, base),
               object_of(sep, struct rxm_sep, base), sep->info, opening->class, opening->context);
    bool sends = opening->class == FI_CLASS_TX_CTX;
    int rc;

    if (!ep)
        return -FI_ENOMEM;
    if (sends)
        ep->source = (uint8_t)(opening->index + 1);
    else
        ep->target = (uint8_t)opening->index;
    ep->base.any_srx = !sends;
    rc = finish_open(ep);
    if (rc)
        return rc;
    if (sends && opening->op_flags) {
        ep->base.tx_op_flags = *opening->op_flags;
        ep->lower_info->tx_attr->op_flags = lower_tx_flags(ep);
    }
    *ret_ep = &ep->base;
    return 0;
}
