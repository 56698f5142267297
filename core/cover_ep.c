/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints of a cover. Each call on one takes the domain's lock. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/call.h"
#include "core/cover.h"
#include "core/info.h"
#include "core/lower.h"
#include "core/no.h"

static struct cover_ep *own_of(struct fid *fid)
{
    return *pass_hook(fid);
}

/* ---- Data transfers ---- */

static inline bool names_tag(enum call_kind kind)
{
    return kind >= CALL_TRECV && kind <= CALL_TINJECTDATA;
}

/* Which the lower does when it is driven; until then it refuses some of its posts for the time
 * being. */
void cover_take_av_changes(struct cover_ep *own)
{
    if (!own->top)
        return;
    atomic_store(&own->domain->av_changed, false);
    unit_progress(own->domain->unit);
}

static inline ssize_t call_enter(struct pass_ep *ep, struct call *call)
{
    struct cover_ep *own = ep->hook;

    cover_enter(own);
    if (names_tag(call->kind) && call->tag & own->domain->ops->tags)
        return -FI_EINVAL;
    return 0;
}

static inline ssize_t call_leave(struct pass_ep *ep, const struct call *call, ssize_t rc)
{
    return cover_leave(ep->hook, rc);
}

#include "core/call_transfers.inc"

#include "core/call_atomics.inc"

/* ---- Binding and enabling ---- */

/* Which operations can be posted on it, and end in a queue of its own. */
static uint64_t directions(const struct cover_ep *own)
{
    switch (cover_ep_class(own)) {
    case FI_CLASS_EP: return FI_TRANSMIT | FI_RECV;
    case FI_CLASS_TX_CTX: return FI_TRANSMIT;
    case FI_CLASS_RX_CTX: return FI_RECV;
    default: return 0;
    }
}

/* The lower's object that stands for a queue or counter of ours; NULL: none of this domain's. */
static struct fid *lower_of(struct cover_domain *domain, struct fid *fid)
{
    struct cover_cntr *cntr = cover_cntr_of(domain, fid);
    struct cover_cq *cq = cover_cq_of(domain, fid);

    if (cntr)
        return &cntr->lower->fid;
    return cq ? &lower_cq_fid(cq->lower)->fid : NULL;
}

static int bind_queue(struct cover_ep *own, struct fid *fid, uint64_t flags)
{
    struct fid_ep *lower = own->pass->lower;
    struct fid *target = lower_of(own->domain, fid);
    int rc;

    if (!target || !directions(own))
        return -FI_EINVAL;
    if (target->fclass == FI_CLASS_CQ && flags & (FI_TRANSMIT | FI_RECV) & ~directions(own))
        return -FI_EINVAL;
    if (own->enabled)
        return -FI_EOPBADSTATE;
    rc = report_bind(&own->report, &own->domain->base, fid, flags);
    if (rc)
        return rc;
    unit_lock(own->domain->unit);
    rc = fi_ep_bind(lower, target, flags);
    unit_unlock(own->domain->unit);
    return rc;
}

static int ep_bind(struct fid *fid, struct fid *target, uint64_t flags)
{
    struct cover_ep *own = own_of(fid);
    int rc;

    if (target->fclass == FI_CLASS_CQ || target->fclass == FI_CLASS_CNTR)
        return bind_queue(own, target, flags);
    unit_lock(own->domain->unit);
    rc = pass_ep_fid_ops.bind(fid, target, flags);
    unit_unlock(own->domain->unit);
    return rc;
}

/* The layer sees completions also where the application wants none. An endpoint to which nothing
 * at all is bound is refused by the lower, a context is not. */
static int bind_mute(struct cover_ep *own)
{
    uint64_t bound = (own->report.tx ? FI_TRANSMIT : 0) | (own->report.rx ? FI_RECV : 0);
    uint64_t missing = directions(own) & ~bound;
    int rc;

    if (!missing || own->mute || (!own->report.unit && cover_ep_class(own) == FI_CLASS_EP))
        return 0;
    own->mute = cover_cq_mute(own->domain);
    if (!own->mute)
        return -FI_ENOMEM;
    unit_lock(own->domain->unit);
    rc = fi_ep_bind(own->pass->lower, &lower_cq_fid(own->mute->lower)->fid,
                    missing | FI_SELECTIVE_COMPLETION);
    unit_unlock(own->domain->unit);
    return rc;
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

static int enable(struct cover_ep *own)
{
    int rc = own->enabled ? 0 : bind_mute(own);

    if (rc)
        return rc;
    unit_lock(own->domain->unit);
    rc = fi_enable(own->pass->lower);
    if (!rc && !own->enabled && own->domain->ops->ep_enabled)
        rc = own->domain->ops->ep_enabled(own);
    if (!rc) {
        own->enabled = true;
        own->top = directions(own) && is_top(&own->report);
    }
    unit_unlock(own->domain->unit);
    return rc;
}

static int open_alias(struct cover_ep *own, struct fid *fid, struct fi_alias *alias)
{
    int rc = pass_ep_fid_ops.control(fid, FI_ALIAS, alias);
    struct fid_ep *other;

    if (rc)
        return rc;
    *pass_hook(*alias->fid) = own;
    other = object_of(*alias->fid, struct fid_ep, fid);
    other->msg = own->pass->fid.msg;
    other->tagged = own->pass->fid.tagged;
    other->rma = own->pass->fid.rma;
    other->atomic = own->pass->fid.atomic;
    other->collective = own->pass->fid.collective;
    own->aliases++;
    return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct cover_ep *own = own_of(fid);
    int rc;

    if (command == FI_ENABLE)
        return enable(own);
    unit_lock(own->domain->unit);
    if (command == FI_ALIAS)
        rc = open_alias(own, fid, arg);
    else
        rc = pass_ep_fid_ops.control(fid, command, arg);
    unit_unlock(own->domain->unit);
    return rc;
}

/* ---- Options ---- */

static ssize_t ep_cancel(fid_t fid, void *context)
{
    struct unit *unit = own_of(fid)->domain->unit;
    ssize_t rc;

    unit_lock(unit);
    rc = pass_ep_ops.cancel(fid, context);
    unit_unlock(unit);
    return rc;
}

static int ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    struct unit *unit = own_of(fid)->domain->unit;
    int rc;

    unit_lock(unit);
    rc = pass_ep_ops.getopt(fid, level, optname, optval, optlen);
    unit_unlock(unit);
    return rc;
}

/* The layer's own receives are nobody else's business. */
static void matched(struct match_watch *watch, struct fi_peer_rx_entry *entry)
{
    struct cover_ep *own = object_of(watch, struct cover_ep, watch);
    const struct pool *items = &own->domain->items;

    if (!items->used || !pool_owns(items, entry->context))
        own->watcher->matched(own->watcher, entry);
}

static int ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    struct cover_ep *own = own_of(fid);
    struct unit *unit = own->domain->unit;
    int rc;

    if (level == FI_OPT_ENDPOINT && optname == OPT_MATCH_WATCH) {
        own->watcher = (struct match_watch *)(uintptr_t)optval;
        own->watch.matched = matched;
        optval = &own->watch;
    }
    unit_lock(unit);
    rc = pass_ep_ops.setopt(fid, level, optname, optval, optlen);
    unit_unlock(unit);
    return rc;
}

static struct fi_ops_ep ep_ops = {
    .size = sizeof(ep_ops),
    .cancel = ep_cancel,
    .getopt = ep_getopt,
    .setopt = ep_setopt,
    .tx_ctx = cover_tx_open,
    .rx_ctx = cover_rx_open,
    .rx_size_left = no_ep_rx_size_left,
    .tx_size_left = no_ep_tx_size_left,
};

/* ---- Opening and closing ---- */

static void destroy(struct cover_ep *own)
{
    report_finish(&own->report);
    if (own->mute)
        cover_cq_finish(own->mute);
    info_free(own->info);
    free(own);
}

static int close_alias(struct cover_ep *own, struct fid *fid)
{
    int rc;

    unit_lock(own->domain->unit);
    rc = pass_ep_fid_ops.close(fid);
    own->aliases -= !rc;
    unit_unlock(own->domain->unit);
    return rc;
}

static int ep_close(struct fid *fid)
{
    struct cover_ep *own = own_of(fid);
    struct cover_domain *domain = own->domain;
    int rc;

    if (fid != &own->pass->fid.fid)
        return close_alias(own, fid);
    if (own->aliases)
        return -FI_EBUSY;
    unit_lock(domain->unit);
    if (domain->ops->ep_closing)
        domain->ops->ep_closing(own);
    rc = pass_ep_fid_ops.close(fid);
    if (!rc && domain->ops->ep_closed)
        domain->ops->ep_closed(own);
    unit_unlock(domain->unit);
    if (!rc)
        destroy(own);
    return rc;
}

/* The lower may have more than the upper asked for: the layer did. */
static void leave_out(struct cover_ep *own)
{
    struct fid_ep *fid = &own->pass->fid;
    uint64_t caps = own->info->caps;

    if (!(caps & FI_MSG))
        fid->msg = &no_msg_ops;
    if (!(caps & FI_TAGGED))
        fid->tagged = &no_tagged_ops;
    if (!(caps & FI_RMA))
        fid->rma = &no_rma_ops;
    if (!(caps & FI_ATOMIC))
        fid->atomic = &no_atomic_ops;
    if (!(caps & FI_COLLECTIVE))
        fid->collective = &no_collective_ops;
}

struct cover_ep *cover_ep_create(struct cover_domain *domain, struct fi_info *info)
{
    struct cover_ep *own = info ? calloc(1, domain->ops->ep_size) : NULL;

    if (!own) {
        info_free(info);
        return NULL;
    }
    own->domain = domain;
    own->info = info;
    return own;
}

int cover_ep_adopt(struct cover_ep *own, int rc, struct fid_ep **ep)
{
    if (rc) {
        destroy(own);
        return rc;
    }
    own->pass = object_of(*ep, struct pass_ep, fid);
    own->pass->hook = own;
    if (cover_ep_class(own) != FI_CLASS_SRX_CTX) /* whose info is the domain's */
        leave_out(own);
    rc = own->domain->ops->ep_opened ? own->domain->ops->ep_opened(own) : 0;
    if (rc)
        ep_close(&(*ep)->fid);
    return rc;
}

static int open_ep(struct fid_domain *fid, bool scalable, struct fi_info *info, struct fid_ep **ep,
                   void *context)
{
    struct cover_domain *domain = cover_domain_of(fid);
    struct cover_ep *own = cover_ep_create(domain, fabric_info(domain->base.fabric, info));
    struct fi_info *down = NULL;
    int rc;

    if (!own)
        return -FI_ENOMEM;
    rc = cover_lower_info(domain, own->info, &down);
    if (!rc) {
        unit_lock(domain->unit);
        rc =
            scalable ? pass_sep_open(fid, down, ep, context) : pass_ep_open(fid, down, ep, context);
        unit_unlock(domain->unit);
    }
    info_free(down);
    return cover_ep_adopt(own, rc, ep);
}

int cover_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep, void *context)
{
    return open_ep(fid, false, info, ep, context);
}

int cover_sep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **sep, void *context)
{
    return open_ep(fid, true, info, sep, context);
}

static int ep_join(struct fid_ep *fid, const void *addr, uint64_t flags, struct fid_mc **mc,
                   void *context)
{
    struct unit *unit = own_of(&fid->fid)->domain->unit;
    int rc;

    unit_lock(unit);
    rc = pass_cm_ops.join(fid, addr, flags, mc, context);
    unit_unlock(unit);
    return rc;
}

static struct fi_ops ep_fid_ops;
static struct fi_ops_cm cm_ops;

void cover_ep_tables(struct pass_ops *tables)
{
    ep_fid_ops = pass_ep_fid_ops;
    ep_fid_ops.close = ep_close;
    ep_fid_ops.bind = ep_bind;
    ep_fid_ops.control = ep_control;
    tables->ep_fid = &ep_fid_ops;
    cm_ops = pass_cm_ops;
    cm_ops.join = ep_join;
    tables->cm = &cm_ops;
    tables->ep = &ep_ops;
    tables->msg = &seen_msg_ops;
    tables->tagged = &seen_tagged_ops;
    tables->rma = &seen_rma_ops;
    tables->atomic = &seen_atomic_ops;
    tables->collective = &seen_collective_ops;
}
