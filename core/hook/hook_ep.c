/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints and contexts: opening, options, connections. Their operations go by hook_post. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/hook/hook.h"
#include "core/hook/hook_trigger.h"
#include "core/hook/hook_watch.h"
#include "core/info/info.h"

static struct hook_ep *ep_of(struct fid *fid)
{
    return object_of(fid, struct hook_ep, fid.fid);
}

/* ---- Opening ---- */

static struct hook_ep *create(struct hook_domain *domain, size_t fclass, void *context)
{
    struct hook_ep *ep = calloc(1, sizeof(*ep));

    if (!ep)
        return NULL;
    fid_init(&ep->fid.fid, fclass, context, domain->fabric->ops.ep_fid);
    ep->domain = domain;
    return ep;
}

int hook_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                      size_t *count)
{
    return op_atomic_valid(&hook_ep_of(ep)->target, function, datatype, op, count);
}

/* An external lower may leave out groups of operations: calling them is an error, but no crash. */
static void open_ops(struct hook_ep *ep)
{
    const struct hook_ops *ops = &ep->domain->fabric->ops;
    const struct fid_ep *lower = ep->lower;

    ep->fid.ops = lower->ops ? ops->ep : &enosys_ep_ops;
    ep->fid.cm = lower->cm ? ops->cm : &enosys_cm_ops;
    ep_set_data_ops(&ep->base);
    ep->target = op_target_of(ep->lower);
    ep->base.post = ep->triggers ? hook_trigger_post : ops->post;
    ep->base.groups = op_target_groups(&ep->target);
    ep->base.atomic_valid = hook_atomic_valid;
}

/* rc: what opening ep->lower gave. */
static int opened(struct hook_ep *ep, int rc, bool triggers, const struct hook_opening *opening,
                  struct fid_ep **ret_ep)
{
    struct hook_domain *domain = ep->domain;

    if (!rc) {
        ep->triggers = triggers && domain->fabric->triggers;
        if (opening->alias && ep->triggers && opening->alias->flags & FI_TRIGGER)
            ep->trigger_flags = opening->alias->flags;
        open_ops(ep);
    }
    rc = hook_opened(domain->fabric, &domain->children, &ep->fid.fid, rc, opening);
    if (!rc)
        *ret_ep = &ep->fid;
    return rc;
}

static bool has_triggers(const struct fi_info *info)
{
    uint64_t tx = info->tx_attr ? info->tx_attr->caps : 0;
    uint64_t rx = info->rx_attr ? info->rx_attr->caps : 0;

    return (info->caps | tx | rx) & FI_TRIGGER;
}

static int open_ep(struct hook_domain *domain, size_t fclass, struct fi_info *info,
                   struct fid_ep **ret_ep, uint64_t flags, void *context)
{
    struct hook_ep *ep = create(domain, fclass, context);
    struct fi_info *down = hook_info_down(domain->fabric, info);
    struct hook_opening opening = {
        .parent = &domain->fid.fid, .context = context, .flags = flags, .info = down};
    int rc;

    if (!ep || !down) {
        info_free(down);
        free(ep);
        return -FI_ENOMEM;
    }
    opening.tx = down->tx_attr;
    opening.rx = down->rx_attr;
    ep->info = down;
    rc = hook_opening(domain->fabric, &ep->fid.fid, &opening);
    /* Then the context names an endpoint of the upper's and calls between the two: fi_peer(3). */
    if (!rc && down->mode & FI_PEER_TRANSFER)
        rc = -FI_ENOSYS;
    if (!rc && fclass == FI_CLASS_SEP)
        rc = fi_scalable_ep(domain->lower, down, &ep->lower, ep);
    else if (!rc)
        rc = fi_endpoint2(domain->lower, down, &ep->lower, flags, ep);
    rc = opened(ep, rc, has_triggers(down), &opening, ret_ep);
    if (rc)
        info_free(down);
    return rc;
}

int hook_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    return open_ep(hook_domain_of(domain), FI_CLASS_EP, info, ep, 0, context);
}

int hook_ep_open2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                  uint64_t flags, void *context)
{
    return open_ep(hook_domain_of(domain), FI_CLASS_EP, info, ep, flags, context);
}

int hook_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                  void *context)
{
    return open_ep(hook_domain_of(domain), FI_CLASS_SEP, info, sep, 0, context);
}

int hook_srx_open(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **ret_srx,
                  void *context)
{
    struct hook_domain *domain = hook_domain_of(fid);
    bool peer = attr && attr->op_flags & FI_PEER;
    struct hook_ep *srx = create(domain, FI_CLASS_SRX_CTX, peer ? NULL : context);
    struct hook_opening opening = {
        .parent = &fid->fid, .context = context, .rx = attr, .peer = peer};
    struct fi_peer_srx_context down;
    int rc;

    if (!srx)
        return -FI_ENOMEM;
    rc = hook_opening(domain->fabric, &srx->fid.fid, &opening);
    if (!rc && peer)
        rc = hook_peer_srx(srx, context, &down);
    if (!rc)
        rc = fi_srx_context(domain->lower, attr, &srx->lower, peer ? (void *)&down : srx);
    if (!rc && peer)
        hook_peer_srx_opened(srx);
    return opened(srx, rc, attr && attr->caps & FI_TRIGGER, &opening, ret_srx);
}

static int ep_tx_ctx(struct fid_ep *fid, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
                     void *context)
{
    struct hook_ep *sep = ep_of(&fid->fid);
    struct hook_ep *ep = create(sep->domain, FI_CLASS_TX_CTX, context);
    struct hook_opening opening = {
        .parent = &fid->fid, .context = context, .index = index, .tx = attr};
    int rc;

    if (!ep)
        return -FI_ENOMEM;
    rc = hook_opening(sep->domain->fabric, &ep->fid.fid, &opening);
    if (!rc)
        rc = fi_tx_context(sep->lower, index, attr, &ep->lower, ep);
    return opened(ep, rc, sep->triggers, &opening, tx_ep);
}

static int ep_rx_ctx(struct fid_ep *fid, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
                     void *context)
{
    struct hook_ep *sep = ep_of(&fid->fid);
    struct hook_ep *ep = create(sep->domain, FI_CLASS_RX_CTX, context);
    struct hook_opening opening = {
        .parent = &fid->fid, .context = context, .index = index, .rx = attr};
    int rc;

    if (!ep)
        return -FI_ENOMEM;
    rc = hook_opening(sep->domain->fabric, &ep->fid.fid, &opening);
    if (!rc)
        rc = fi_rx_context(sep->lower, index, attr, &ep->lower, ep);
    return opened(ep, rc, sep->triggers, &opening, rx_ep);
}

static int ep_alias(struct hook_ep *ep, const struct fi_alias *alias)
{
    struct hook_ep *other = create(ep->domain, ep->fid.fid.fclass, ep->fid.fid.context);
    struct hook_opening opening = {.parent = &ep->fid.fid, .alias = alias};
    struct fid_ep *fid;
    int rc;

    if (!other)
        return -FI_ENOMEM;
    rc = hook_opening(ep->domain->fabric, &other->fid.fid, &opening);
    if (!rc)
        rc = fi_ep_alias(ep->lower, &other->lower, alias->flags);
    rc = opened(other, rc, ep->triggers, &opening, &fid);
    if (!rc)
        *alias->fid = &fid->fid;
    return rc;
}

/* ---- The object ---- */

static int ep_close(struct fid *fid)
{
    struct hook_ep *ep = ep_of(fid);
    struct fi_info *info = ep->info;
    int rc = hook_close(ep->domain->fabric, &ep->domain->children, &ep->lower->fid, fid);

    if (!rc)
        info_free(info);
    return rc;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    if (command == FI_ALIAS)
        return ep_alias(ep_of(fid), arg);
    return hook_control(fid, command, arg);
}

struct fi_ops hook_ep_fid_ops = {
    .size = sizeof(hook_ep_fid_ops),
    .close = ep_close,
    .bind = hook_bind,
    .control = ep_control,
    .ops_open = hook_ops_open,
    .tostr = enosys_tostr,
    .ops_set = hook_ops_set,
};

static ssize_t ep_cancel(fid_t fid, void *context)
{
    return fi_cancel(&ep_of(fid)->lower->fid, context);
}

static ssize_t ep_rx_size_left(struct fid_ep *ep)
{
    struct fid_ep *lower = hook_lower_ep(ep);

    return lower->ops->rx_size_left(lower);
}

static ssize_t ep_tx_size_left(struct fid_ep *ep)
{
    struct fid_ep *lower = hook_lower_ep(ep);

    return lower->ops->tx_size_left(lower);
}

struct fi_ops_ep hook_ep_ops = {
    .size = sizeof(hook_ep_ops),
    .cancel = ep_cancel,
    .getopt = hook_getopt,
    .setopt = hook_setopt,
    .tx_ctx = ep_tx_ctx,
    .rx_ctx = ep_rx_ctx,
    .rx_size_left = ep_rx_size_left,
    .tx_size_left = ep_tx_size_left,
};

/* ---- Connections ---- */

static int ep_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
    return fi_getpeer(hook_lower_ep(ep), addr, addrlen);
}

static int ep_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
    return fi_connect(hook_lower_ep(ep), addr, param, paramlen);
}

static int ep_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
    return fi_accept(hook_lower_ep(ep), param, paramlen);
}

static int ep_shutdown(struct fid_ep *ep, uint64_t flags)
{
    return fi_shutdown(hook_lower_ep(ep), flags);
}

static int join_lower(struct hook_ep *ep, const void *addr, uint64_t flags, struct hook_mc *mc)
{
    const struct fi_collective_addr *theirs = addr;
    struct fi_collective_addr down;

    if (!(flags & FI_COLLECTIVE) || !theirs || !theirs->set)
        return fi_join(ep->lower, addr, flags, &mc->lower, mc);
    down.set = object_of(theirs->set, struct hook_av_set, fid)->lower;
    down.coll_addr = theirs->coll_addr;
    return fi_join(ep->lower, &down, flags, &mc->lower, mc);
}

static int ep_join(struct fid_ep *fid, const void *addr, uint64_t flags, struct fid_mc **ret_mc,
                   void *context)
{
    struct hook_ep *ep = ep_of(&fid->fid);
    struct hook_mc *mc = calloc(1, sizeof(*mc));
    struct hook_opening opening = {.parent = &fid->fid, .context = context, .flags = flags};
    int rc;

    if (!mc)
        return -FI_ENOMEM;
    fid_init(&mc->fid.fid, FI_CLASS_MC, context, ep->domain->fabric->ops.mc_fid);
    mc->domain = ep->domain;
    rc = hook_opening(ep->domain->fabric, &mc->fid.fid, &opening);
    if (!rc)
        rc = join_lower(ep, addr, flags, mc);
    if (!rc) /* read inline; again when FI_JOIN_COMPLETE comes */
        mc->fid.fi_addr = fi_mc_addr(mc->lower);
    rc = hook_opened(ep->domain->fabric, &ep->domain->children, &mc->fid.fid, rc, &opening);
    if (!rc)
        *ret_mc = &mc->fid;
    return rc;
}

struct fi_ops_cm hook_cm_ops = {
    .size = sizeof(hook_cm_ops),
    .setname = hook_setname,
    .getname = hook_getname,
    .getpeer = ep_getpeer,
    .connect = ep_connect,
    .listen = enosys_cm_listen,
    .accept = ep_accept,
    .reject = enosys_cm_reject,
    .shutdown = ep_shutdown,
    .join = ep_join,
};

/* ---- Shared transmit contexts ---- */

int hook_stx_open(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **ret_stx,
                  void *context)
{
    struct hook_domain *domain = hook_domain_of(fid);
    struct hook_stx *stx = calloc(1, sizeof(*stx));
    struct hook_opening opening = {.parent = &fid->fid, .context = context, .tx = attr};
    int rc;

    if (!stx)
        return -FI_ENOMEM;
    fid_init(&stx->fid.fid, FI_CLASS_STX_CTX, context, domain->fabric->ops.stx_fid);
    stx->fid.ops = &enosys_ep_ops;
    stx->domain = domain;
    rc = hook_opening(domain->fabric, &stx->fid.fid, &opening);
    if (!rc)
        rc = fi_stx_context(domain->lower, attr, &stx->lower, stx);
    rc = hook_opened(domain->fabric, &domain->children, &stx->fid.fid, rc, &opening);
    if (!rc)
        *ret_stx = &stx->fid;
    return rc;
}
