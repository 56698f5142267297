/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints of a layer base. Each call on one takes the domain's lock. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/seam.h"
#include "core/domain/base.h"
#include "core/info/info.h"
#include "core/layer/layer.h"
#include "core/layer/lower.h"

static struct layer_ep *own_of(struct fid *fid)
{
    return *hook_own(fid);
}

/* ---- Data transfers ---- */

/* Which the lower does when it is driven; until then it refuses some of its posts for the time
 * being. */
void layer_take_av_changes(struct layer_ep *own)
{
    if (!own->top)
        return;
    atomic_store(&own->domain->av_changed, false);
    progress_poll(own->domain->progress);
}

ssize_t layer_post(struct ep *base, struct op *op)
{
    struct hook_ep *hook = hook_ep_of(base);
    struct layer_ep *own = hook->own;

    if (op->group & OP_GROUP_TAGGED && op->tag & own->domain->ops->tags)
        return -FI_EINVAL;
    layer_enter(own);
    return layer_leave(own, op_post(&hook->target, op));
}

/* ---- Binding and enabling ---- */

/* Which operations can be posted on it, and end in a queue of its own. */
static uint64_t directions(const struct layer_ep *own)
{
    switch (layer_ep_class(own)) {
    case FI_CLASS_EP: return FI_TRANSMIT | FI_RECV;
    case FI_CLASS_TX_CTX: return FI_TRANSMIT;
    case FI_CLASS_RX_CTX: return FI_RECV;
    default: return 0;
    }
}

/* The lower's object that stands for a queue or counter of ours; NULL: none of this domain's. */
static struct fid *lower_of(struct layer_domain *domain, struct fid *fid)
{
    struct layer_cntr *cntr = layer_cntr_of(domain, fid);
    struct layer_cq *cq = layer_cq_of(domain, fid);

    if (cntr)
        return &cntr->base.lower->fid;
    return cq ? &lower_cq_fid(cq->base.lower.cq)->fid : NULL;
}

static int bind_queue(struct layer_ep *own, struct fid *fid, uint64_t flags)
{
    struct fid_ep *lower = own->hook->lower;
    struct fid *target = lower_of(own->domain, fid);
    int rc;

    if (!target || !directions(own))
        return -FI_EINVAL;
    if (target->fclass == FI_CLASS_CQ && flags & (FI_TRANSMIT | FI_RECV) & ~directions(own))
        return -FI_EINVAL;
    if (own->enabled && !binding_is_late(fid))
        return -FI_EOPBADSTATE;
    rc = binding_add(&own->binding, &own->domain->base, fid, flags);
    if (rc)
        return rc;
    progress_lock(own->domain->progress);
    rc = fi_ep_bind(lower, target, flags);
    if (own->enabled)
        own->top = directions(own) && binding_is_top(&own->binding);
    progress_unlock(own->domain->progress);
    return rc;
}

static int ep_bind(struct fid *fid, struct fid *target, uint64_t flags)
{
    struct layer_ep *own = own_of(fid);
    int rc;

    if (target->fclass == FI_CLASS_CQ || target->fclass == FI_CLASS_CNTR)
        return bind_queue(own, target, flags);
    progress_lock(own->domain->progress);
    rc = hook_ep_fid_ops.bind(fid, target, flags);
    progress_unlock(own->domain->progress);
    return rc;
}

/* The layer sees completions also where the application wants none. An endpoint to which nothing
 * at all is bound is refused by the lower, a context is not. */
static int bind_mute(struct layer_ep *own)
{
    uint64_t bound = (own->binding.tx ? FI_TRANSMIT : 0) | (own->binding.rx ? FI_RECV : 0);
    uint64_t missing = directions(own) & ~bound;
    int rc;

    if (!missing || own->mute || (!own->binding.progress && layer_ep_class(own) == FI_CLASS_EP))
        return 0;
    own->mute = layer_cq_mute(own->domain);
    if (!own->mute)
        return -FI_ENOMEM;
    progress_lock(own->domain->progress);
    rc = fi_ep_bind(own->hook->lower, &lower_cq_fid(own->mute->base.lower.cq)->fid,
                    missing | FI_SELECTIVE_COMPLETION);
    progress_unlock(own->domain->progress);
    return rc;
}

static int enable(struct layer_ep *own)
{
    int rc = own->enabled ? 0 : bind_mute(own);

    if (rc)
        return rc;
    progress_lock(own->domain->progress);
    rc = fi_enable(own->hook->lower);
    if (!rc && !own->enabled && own->domain->ops->ep_enabled)
        rc = own->domain->ops->ep_enabled(own);
    if (!rc) {
        own->enabled = true;
        own->top = directions(own) && binding_is_top(&own->binding);
    }
    progress_unlock(own->domain->progress);
    return rc;
}

static int open_alias(struct layer_ep *own, struct fid *fid, struct fi_alias *alias)
{
    int rc = hook_ep_fid_ops.control(fid, FI_ALIAS, alias);
    struct fid_ep *other;

    if (rc)
        return rc;
    *hook_own(*alias->fid) = own;
    other = object_of(*alias->fid, struct fid_ep, fid);
    other->msg = own->hook->fid.msg;
    other->tagged = own->hook->fid.tagged;
    other->rma = own->hook->fid.rma;
    other->atomic = own->hook->fid.atomic;
    other->collective = own->hook->fid.collective;
    own->aliases++;
    return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct layer_ep *own = own_of(fid);
    int rc;

    if (command == FI_ENABLE)
        return enable(own);
    progress_lock(own->domain->progress);
    if (command == FI_ALIAS)
        rc = open_alias(own, fid, arg);
    else
        rc = hook_ep_fid_ops.control(fid, command, arg);
    progress_unlock(own->domain->progress);
    return rc;
}

/* ---- Options ---- */

static ssize_t ep_cancel(fid_t fid, void *context)
{
    struct progress *progress = own_of(fid)->domain->progress;
    ssize_t rc;

    progress_lock(progress);
    rc = hook_ep_ops.cancel(fid, context);
    progress_unlock(progress);
    return rc;
}

static int ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    struct progress *progress = own_of(fid)->domain->progress;
    int rc;

    progress_lock(progress);
    rc = hook_ep_ops.getopt(fid, level, optname, optval, optlen);
    progress_unlock(progress);
    return rc;
}

/* The layer's own receives are not told to the hook. */
static void matched(struct match_watch *watch, struct fi_peer_rx_entry *entry)
{
    struct layer_ep *own = object_of(watch, struct layer_ep, watch);
    const struct pool *items = &own->domain->items;

    if (!items->used || !pool_owns(items, entry->context))
        own->watcher->matched(own->watcher, entry);
}

static int ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    struct layer_ep *own = own_of(fid);
    struct progress *progress = own->domain->progress;
    int rc;

    if (level == FI_OPT_ENDPOINT && optname == OPT_MATCH_WATCH) {
        own->watcher = (struct match_watch *)(uintptr_t)optval;
        own->watch.matched = matched;
        optval = &own->watch;
    }
    progress_lock(progress);
    rc = hook_ep_ops.setopt(fid, level, optname, optval, optlen);
    progress_unlock(progress);
    return rc;
}

struct fi_ops_ep layer_ep_ops = {
    .size = sizeof(layer_ep_ops),
    .cancel = ep_cancel,
    .getopt = ep_getopt,
    .setopt = ep_setopt,
    .tx_ctx = layer_tx_open,
    .rx_ctx = layer_rx_open,
    .rx_size_left = enosys_ep_rx_size_left,
    .tx_size_left = enosys_ep_tx_size_left,
};

/* ---- Opening and closing ---- */

static void destroy(struct layer_ep *own)
{
    binding_finish(&own->binding);
    if (own->mute)
        fi_close(&own->mute->cq.fid.fid);
    info_free(own->info);
    free(own);
}

static int close_alias(struct layer_ep *own, struct fid *fid)
{
    int rc;

    progress_lock(own->domain->progress);
    rc = hook_ep_fid_ops.close(fid);
    own->aliases -= !rc;
    progress_unlock(own->domain->progress);
    return rc;
}

static int ep_close(struct fid *fid)
{
    struct layer_ep *own = own_of(fid);
    struct layer_domain *domain = own->domain;
    int rc;

    if (fid != &own->hook->fid.fid)
        return close_alias(own, fid);
    if (own->aliases)
        return -FI_EBUSY;
    progress_lock(domain->progress);
    if (domain->ops->ep_closing)
        domain->ops->ep_closing(own);
    rc = hook_ep_fid_ops.close(fid);
    if (!rc && domain->ops->ep_closed)
        domain->ops->ep_closed(own);
    progress_unlock(domain->progress);
    if (!rc)
        destroy(own);
    return rc;
}

/* The lower may have more than the upper asked for: the layer did. */
static void leave_out(struct layer_ep *own)
{
    uint64_t caps = own->info->caps;
    unsigned asked =
        (caps & FI_MSG ? OP_GROUP_MSG : 0u) | (caps & FI_TAGGED ? OP_GROUP_TAGGED : 0u) |
        (caps & FI_RMA ? OP_GROUP_RMA : 0u) | (caps & FI_ATOMIC ? OP_GROUP_ATOMIC : 0u) |
        (caps & FI_COLLECTIVE ? OP_GROUP_COLLECTIVE : 0u);

    own->hook->base.groups &= asked;
}

struct layer_ep *layer_ep_create(struct layer_domain *domain, struct fi_info *info)
{
    struct layer_ep *own = info ? calloc(1, domain->ops->ep_size) : NULL;

    if (!own) {
        info_free(info);
        return NULL;
    }
    own->domain = domain;
    own->info = info;
    return own;
}

int layer_ep_adopt(struct layer_ep *own, int rc, struct fid_ep **ep)
{
    if (rc) {
        destroy(own);
        return rc;
    }
    own->hook = object_of(*ep, struct hook_ep, fid);
    own->hook->own = own;
    if (layer_ep_class(own) != FI_CLASS_SRX_CTX) /* whose info is the domain's */
        leave_out(own);
    rc = own->domain->ops->ep_opened ? own->domain->ops->ep_opened(own) : 0;
    if (rc)
        ep_close(&(*ep)->fid);
    return rc;
}

static int open_ep(struct fid_domain *fid, bool scalable, struct fi_info *info, struct fid_ep **ep,
                   void *context)
{
    struct layer_domain *domain = layer_domain_of(fid);
    struct layer_ep *own = layer_ep_create(domain, fabric_info(domain->base.fabric, info));
    struct fi_info *down = NULL;
    int rc;

    if (!own)
        return -FI_ENOMEM;
    rc = layer_lower_info(domain, own->info, &down);
    if (!rc) {
        progress_lock(domain->progress);
        rc =
            scalable ? hook_sep_open(fid, down, ep, context) : hook_ep_open(fid, down, ep, context);
        progress_unlock(domain->progress);
    }
    info_free(down);
    return layer_ep_adopt(own, rc, ep);
}

int layer_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep, void *context)
{
    return open_ep(fid, false, info, ep, context);
}

int layer_sep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **sep, void *context)
{
    return open_ep(fid, true, info, sep, context);
}

static int ep_join(struct fid_ep *fid, const void *addr, uint64_t flags, struct fid_mc **mc,
                   void *context)
{
    struct progress *progress = own_of(&fid->fid)->domain->progress;
    int rc;

    progress_lock(progress);
    rc = hook_cm_ops.join(fid, addr, flags, mc, context);
    progress_unlock(progress);
    return rc;
}

struct fi_ops layer_ep_fid_ops = {
    .size = sizeof(layer_ep_fid_ops), .close = ep_close, .bind = ep_bind, .control = ep_control};
struct fi_ops_cm layer_cm_ops = {.size = sizeof(layer_cm_ops), .join = ep_join};
