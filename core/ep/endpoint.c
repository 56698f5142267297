/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ep/endpoint.h"

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/seam.h"
#include "core/ep/alias.h"
#include "core/ep/endpoint_option.h"

/* ---- Binding ---- */

static int bind_av(struct endpoint *ep, struct fid *fid)
{
    struct av *av = object_of(fid, struct av, fid.fid);

    if (!ep->needs_av || ep->av || av->domain != ep->domain)
        return -FI_EINVAL;
    ep->av = av;
    children_hold(&av->children);
    return 0;
}

static int bind_eq(struct endpoint *ep, struct fid *fid)
{
    struct eq *eq = eq_of(fid);

    if (!ep->ops->keeps_eq)
        return 0;
    if (!eq || ep->eq || eq->fabric != ep->domain->fabric)
        return -FI_EINVAL;
    ep->eq = eq;
    children_hold(&eq->children);
    return 0;
}

static int bind_srx(struct endpoint *ep, struct fid *fid)
{
    struct srx *srx = object_of(fid, struct srx, fid.fid);

    if (srx->domain != ep->domain || ep->srx || !(ep->needs_srx || ep->any_srx))
        return -FI_EINVAL;
    ep->srx = srx;
    children_hold(&srx->children);
    return 0;
}

static int bind_one(struct endpoint *ep, struct fid *fid, uint64_t flags)
{
    switch (fid->fclass) {
    case FI_CLASS_AV: return bind_av(ep, fid);
    case FI_CLASS_EQ: return bind_eq(ep, fid);
    case FI_CLASS_SRX_CTX: return bind_srx(ep, fid);
    case FI_CLASS_STX_CTX:
        return ep->needs_stx ? stx_bind(ep->domain, fid, &ep->stx) : stx_accept(ep->domain, fid);
    default: return binding_add(&ep->binding, ep->domain, fid, flags);
    }
}

/* libfabric's endpoints take their first event queue, too, once they are enabled. */
static bool is_late(const struct endpoint *ep, struct fid *other)
{
    return binding_is_late(other) || (other->fclass == FI_CLASS_EQ && !ep->eq);
}

static int endpoint_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct endpoint *ep = endpoint_of(fid);
    int rc;

    if (ep->enabled && !is_late(ep, other))
        return -FI_EOPBADSTATE;
    rc = bind_one(ep, other, flags);
    return rc || !ep->ops->bound ? rc : ep->ops->bound(ep, other, flags);
}

/* ---- Enabling ---- */

static int check_bound(const struct endpoint *ep)
{
    if (ep->needs_eq && !ep->eq)
        return -FI_ENOEQ;
    if (ep->needs_av && !ep->av)
        return -FI_ENOAV;
    if (!ep->binding.progress)
        return -FI_ENOCQ;
    if (ep->needs_srx && !ep->srx)
        return -FI_ENORX;
    return ep->needs_stx && !ep->stx ? -FI_EOPBADSTATE : 0;
}

/* Peers that share an authorization key. */
static fi_addr_t group_of(const struct match_groups *groups, fi_addr_t source)
{
    const struct endpoint *ep = object_of(groups, struct endpoint, groups);
    const struct av_key *key = av_key_of(ep->av, source);

    return key ? key->addr : FI_ADDR_UNSPEC;
}

static int open_match(struct endpoint *ep)
{
    const uint64_t directed = FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV | FI_EXACT_DIRECTED_RECV;
    struct match_attr attr = {
        .size = ep->rx_size,
        .iov_limit = ep->iov_limit,
        .op_flags = ep->rx_op_flags,
        .min_multi_recv = ep->min_multi_recv,
        .directed = ep->caps & directed,
    };
    int rc = match_create(&attr, &ep->match);

    if (rc)
        return rc;
    match_set_binding(ep->match, &ep->binding);
    if (ep->ops->own_sources)
        return 0;
    match_source_init(&ep->source, ep->match, FI_ADDR_NOTAVAIL);
    ep->source.srx.peer_ops = ep->ops->srx_ops;
    return 0;
}

static int open_receives(struct endpoint *ep)
{
    bool attached = !list_empty(&ep->srx_user.link);
    int rc = 0;

    if (ep->srx && ep->srx->peer)
        ep->in = ep->srx->peer;
    if (ep->in || ep->match || attached || ep->ops->rx_used)
        return 0;
    if (!ep->srx)
        rc = open_match(ep);
    else if (ep->ops->own_sources)
        rc = srx_join(ep->srx, &ep->srx_user, &ep->binding);
    else
        rc = srx_attach(ep->srx, &ep->srx_user, &ep->source, &ep->binding);
    if (rc || ep->ops->own_sources)
        return rc;
    if (ep->av && ep->av->keys) {
        ep->groups.of = group_of;
        progress_lock(ep->binding.progress); /* a shared context may be in use */
        match_source_set_groups(&ep->source, &ep->groups);
        progress_unlock(ep->binding.progress);
    }
    ep->in = &ep->source.srx;
    return 0;
}

int endpoint_enable(struct endpoint *ep)
{
    int rc;

    if (ep->enabled)
        return 0;
    rc = ep->ops->join ? ep->ops->join(ep) : 0;
    if (!rc)
        rc = check_bound(ep);
    if (!rc)
        rc = open_receives(ep);
    if (!rc)
        rc = ep->ops->enable(ep);
    if (!rc)
        ep->enabled = true;
    return rc;
}

/* ---- Receives ---- */

static ssize_t endpoint_cancel(fid_t fid, void *context)
{
    struct endpoint *ep = endpoint_of(fid);
    ssize_t rc = -FI_ENOENT;

    if (!ep->enabled)
        return rc;
    progress_lock(ep->binding.progress);
    if (ep->ops->cancel)
        rc = ep->ops->cancel(ep, context);
    if (rc == -FI_ENOENT && ep->match)
        rc = match_cancel(ep->match, context);
    progress_unlock(ep->binding.progress);
    return rc;
}

void endpoint_close_receives(struct endpoint *ep)
{
    if (ep->srx && !ep->srx->peer)
        srx_detach(ep->srx, &ep->srx_user);
    if (!ep->match)
        return;
    if (!ep->ops->own_sources)
        match_source_finish(&ep->source);
    match_destroy(ep->match);
    ep->match = NULL;
}

void endpoint_fail_receives(struct endpoint *ep, int err)
{
    if (ep->match)
        match_fail(ep->match, NULL, err);
    else if (ep->srx && !ep->srx->peer)
        match_fail(ep->srx->match, &ep->source, err);
}

static ssize_t endpoint_rx_size_left(struct fid_ep *fid)
{
    struct endpoint *ep = endpoint_of(&fid->fid);
    size_t posted;

    if (!ep->match && !(ep->enabled && ep->ops->rx_used))
        return -FI_EOPBADSTATE;
    progress_lock(ep->binding.progress);
    posted = ep->match ? match_posted(ep->match) : ep->ops->rx_used(ep);
    progress_unlock(ep->binding.progress);
    return (ssize_t)(ep->rx_size > posted ? ep->rx_size - posted : 0);
}

static ssize_t endpoint_tx_size_left(struct fid_ep *fid)
{
    struct endpoint *ep = endpoint_of(&fid->fid);

    if (!ep->ops->tx_used)
        return -FI_ENOSYS;
    return ep->enabled ? (ssize_t)(ep->tx_size - ep->ops->tx_used(ep)) : -FI_EOPBADSTATE;
}

/* ---- Default flags ---- */

static int get_op_flags(const struct endpoint *ep, uint64_t *flags)
{
    if (!(*flags & FI_TRANSMIT) == !(*flags & FI_RECV))
        return -FI_EINVAL;
    *flags = *flags & FI_TRANSMIT ? ep->tx_op_flags : ep->rx_op_flags;
    return 0;
}

static int set_op_flags(struct endpoint *ep, uint64_t flags)
{
    bool transmit = flags & FI_TRANSMIT;

    if (transmit == !!(flags & FI_RECV))
        return -FI_EINVAL;
    if (transmit && flags & FI_MATCH_COMPLETE)
        return (int)op_refuse_match();
    if (!transmit && ep->enabled)
        return -FI_EOPBADSTATE; /* the matching engine has them */
    flags &= ~(FI_TRANSMIT | FI_RECV);
    if (!transmit) {
        ep->rx_op_flags = flags;
        return 0;
    }
    ep->tx_op_flags = flags;
    return ep->ops->tx_flags_changed ? ep->ops->tx_flags_changed(ep) : 0;
}

/* ---- The object ---- */

static int endpoint_control(struct fid *fid, int command, void *arg)
{
    struct endpoint *ep = endpoint_of(fid);

    switch (command) {
    case FI_ENABLE: return endpoint_enable(ep);
    case FI_GETOPSFLAG: return get_op_flags(ep, arg);
    case FI_SETOPSFLAG: return set_op_flags(ep, *(const uint64_t *)arg);
    case FI_ALIAS: return alias_open(&ep->fid, &ep->aliases, ep->tx_op_flags, ep->rx_op_flags, arg);
    default: return ep->ops->control ? ep->ops->control(ep, command, arg) : -FI_ENOSYS;
    }
}

static int endpoint_close(struct fid *fid)
{
    struct endpoint *ep = endpoint_of(fid);

    return children_any(&ep->aliases) ? -FI_EBUSY : ep->ops->close(ep);
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = endpoint_close,
    .bind = endpoint_bind,
    .control = endpoint_control,
    .ops_open = ep_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = endpoint_cancel,
    .getopt = endpoint_getopt,
    .setopt = endpoint_setopt,
    .tx_ctx = enosys_ep_tx_ctx,
    .rx_ctx = enosys_ep_rx_ctx,
    .rx_size_left = endpoint_rx_size_left,
    .tx_size_left = endpoint_tx_size_left,
};

void endpoint_init(struct endpoint *ep, const struct endpoint_attr *attr)
{
    const struct fi_info *info = attr->info;
    bool whole = attr->fclass == FI_CLASS_EP;

    fid_init(&ep->fid.fid, attr->fclass, attr->context, &fid_ops);
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &enosys_cm_ops;
    ep->needs_srx = whole && info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
    ep->needs_stx = whole && info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT;
    ep_set_data_ops(&ep->base);
    ep->base.post = attr->ops->post;
    ep->base.atomic_valid = attr->ops->atomic_valid;
    ep->base.groups = ep_groups(attr->caps, !ep->needs_srx);
    if (attr->fclass == FI_CLASS_TX_CTX)
        ep->base.groups &= ~(unsigned)(OP_GROUP_RECV | OP_GROUP_TRECV);
    if (attr->fclass == FI_CLASS_RX_CTX)
        ep->base.groups &= OP_GROUP_RECV | OP_GROUP_TRECV;
    ep->ops = attr->ops;
    ep->caps = attr->caps;
    ep->tx_op_flags = info->tx_attr->op_flags;
    ep->rx_op_flags = info->rx_attr->op_flags;
    ep->tx_size = info->tx_attr->size ? info->tx_attr->size : attr->size;
    ep->rx_size = info->rx_attr->size ? info->rx_attr->size : attr->size;
    ep->iov_limit = attr->iov_limit;
    ep->min_multi_recv = attr->min_multi_recv;
    list_init(&ep->srx_user.link);
    ep->domain = attr->domain;
    children_hold(&ep->domain->children);
}

void endpoint_finish(struct endpoint *ep)
{
    if (ep->binding.progress) {
        progress_lock(ep->binding.progress);
        endpoint_close_receives(ep);
        progress_unlock(ep->binding.progress);
    }
    binding_finish(&ep->binding);
    if (ep->srx)
        children_release(&ep->srx->children);
    stx_release(ep->stx);
    if (ep->av)
        children_release(&ep->av->children);
    if (ep->eq) {
        eq_forget(ep->eq, &ep->fid.fid);
        children_release(&ep->eq->children);
    }
    limits_finish(&ep->limits);
    children_release(&ep->domain->children);
}
