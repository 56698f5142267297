/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: loop's part of open, enable, options, close. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/base.h"
#include "core/info/info.h"
#include "transports/loop/conn/loop_cm.h"
#include "transports/loop/device/loop_device.h"

static struct loop_ep *ep_of(const struct endpoint *base)
{
    return object_of(base, struct loop_ep, base);
}

/* ---- Enabling ---- */

static void av_changed(struct av_listener *listener, fi_addr_t addr)
{
    struct loop_ep *ep = object_of(listener, struct loop_ep, listener);

    atomic_store(&ep->new_sources, true);
    loop_port_wake(ep->port);
}

static void av_removed(struct av_listener *listener, fi_addr_t addr)
{
    atomic_store(&object_of(listener, struct loop_ep, listener)->stale_peers, true);
    av_changed(listener, addr);
}

static void watch_av(struct loop_ep *ep)
{
    const uint64_t asks = FI_SOURCE | FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV | FI_SOURCE_ERR;

    ep->knows_sources = ep->base.srx || ep->base.caps & asks;
    ep->listener.inserted = av_changed;
    ep->listener.removed = av_removed;
    ep->listener.progress = ep->base.binding.progress;
    av_attach(ep->base.av, &ep->listener);
}

static int enable(struct endpoint *base)
{
    struct loop_ep *ep = ep_of(base);
    int rc;

    base->source.many = ep->rdm; /* its progress reads this, which is not on yet */
    if (base->av)
        watch_av(ep);
    ep->source.fd = ep->port->fd;
    loop_burst_enable(ep);
    progress_lock(base->binding.progress);
    rc = progress_attach(base->binding.progress, &ep->source);
    if (!rc) {
        loop_port_lock(ep->port);
        ep->port->ep = ep;
        loop_port_unlock(ep->port);
        ep->attached = true;
        atomic_store(&ep->state, LOOP_ENABLED);
    }
    progress_unlock(base->binding.progress);
    return rc;
}

/* ---- Options ---- */

static size_t limit(struct endpoint *base, int option)
{
    bool there = option == FI_OPT_MAX_MSG_SIZE || option == FI_OPT_INJECT_MSG_SIZE;

    switch (option) {
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_INJECT_TAGGED_SIZE: there = base->caps & FI_TAGGED; break;
    case FI_OPT_MAX_RMA_SIZE:
    case FI_OPT_INJECT_RMA_SIZE: there = base->caps & FI_RMA; break;
    case FI_OPT_MAX_ATOMIC_SIZE:
    case FI_OPT_INJECT_ATOMIC_SIZE: there = base->caps & FI_ATOMIC; break;
    default: break;
    }
    if (!there || option >= FI_OPT_INJECT_MSG_SIZE)
        return there ? LOOP_INJECT : 0;
    if (option == FI_OPT_MAX_ATOMIC_SIZE)
        return LOOP_ATOMIC;
    if (option == FI_OPT_MAX_RMA_SIZE && loop_is_device(ep_of(base)->domain->fabric))
        return LOOP_DEVICE_MAX;
    return option == FI_OPT_MAX_MSG_SIZE ? ep_of(base)->max - ep_of(base)->prefix : SIZE_MAX;
}

static size_t tx_used(const struct endpoint *base)
{
    return ep_of(base)->outstanding_count;
}

static int cancel(struct endpoint *base, void *context)
{
    loop_count(LOOP_CALL_CANCEL);
    return -FI_ENOENT;
}

/* ---- Names ---- */

int loop_getname(fid_t fid, void *raw, size_t *len)
{
    struct loop_ep *ep = object_of(fid, struct loop_ep, fid.fid);

    loop_count(LOOP_CALL_OTHER);
    return loop_addr_give(ep->addr_format, ep->rdm, &ep->port->addr, raw, len);
}

int loop_setname(fid_t fid, void *raw, size_t len)
{
    struct loop_ep *ep = object_of(fid, struct loop_ep, fid.fid);
    union addr addr;
    int rc = loop_addr_import(ep->addr_format, raw, len, &addr);

    loop_count(LOOP_CALL_OTHER);
    if (rc)
        return rc;
    return atomic_load(&ep->state) == LOOP_IDLE ? loop_port_rename(ep->port, &addr)
                                                : -FI_EOPBADSTATE;
}

static struct fi_ops_cm rdm_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = loop_setname,
    .getname = loop_getname,
    NO_CM_CONNECTION,
};

/* ---- Closing ---- */

static void leave_saved(struct loop_ep *ep)
{
    list_for_each_safe (pos, after, &ep->saved) {
        list_detach(pos);
        list_item(pos, struct loop_saved, link)->ep = NULL;
    }
}

static int close_ep(struct endpoint *base)
{
    struct loop_ep *ep = ep_of(base);
    struct progress *control = ep->domain->fabric->plain.control;

    loop_count(LOOP_CALL_OTHER);
    if (ep->listener.inserted)
        av_detach(base->av, &ep->listener);
    progress_lock(control);
    loop_cm_close(ep);
    if (ep->attached) {
        progress_lock(base->binding.progress);
        progress_detach(base->binding.progress, &ep->source);
        loop_abort(ep);
        endpoint_close_receives(base);
        leave_saved(ep);
        progress_unlock(base->binding.progress);
    }
    progress_unlock(control);
    loop_forget_peers(ep);
    loop_port_release(ep->peer);
    loop_port_close(ep->port);
    pool_finish(&ep->pool);
    endpoint_finish(base);
    free(ep->burst);
    free(ep);
    return 0;
}

/* ---- Opening ---- */

static size_t drops(struct endpoint *base)
{
    return atomic_load_explicit(&ep_of(base)->dropped, memory_order_relaxed);
}

static const struct endpoint_option options[] = {
    {.name = OPT_DROPS, .kind = OPTION_SIZE, .size = drops},
    {.name = FI_OPT_CM_DATA_SIZE, .kind = OPTION_SIZE, .at = LOOP_CM_DATA},
    {.name = OPT_FETCH_SIZE, .kind = OPTION_SIZE, .at = LOOP_FETCH},
    {.name = 0},
};

static const struct endpoint_ops ops = {
    .post = loop_post,
    .atomic_valid = loop_atomic_valid,
    .limit = limit,
    .enable = enable,
    .close = close_ep,
    .cancel = cancel,
    .tx_used = tx_used,
    .options = options,
    .srx_ops = &loop_srx_peer_ops,
    .keeps_eq = true,
};

static uint64_t caps_of(const struct fi_info *info)
{
    bool dgram = info->ep_attr->type == FI_EP_DGRAM;
    uint64_t caps = caps_expand(info->caps ? info->caps : FI_MSG | (dgram ? 0 : FI_RMA));

    return dgram ? caps & ~(FI_RMA | FI_TAGGED | FI_ATOMIC) : caps;
}

static int open_port(struct loop_ep *ep, const struct fi_info *info)
{
    union addr src;
    int rc = addr_from_str("127.0.0.1:0", SIZE_MAX, &src);

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

static int init(struct loop_ep *ep, const struct fi_info *info, void *context)
{
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &ep->domain->base,
        .info = info,
        .caps = caps_of(info),
        .fclass = FI_CLASS_EP,
        .context = context,
        .size = LOOP_SIZE,
        .iov_limit = LOOP_IOV_LIMIT,
        .min_multi_recv = LOOP_MIN_MULTI_RECV,
    };
    enum fi_ep_type type = info->ep_attr->type;
    int rc;

    if (type != FI_EP_MSG && type != FI_EP_RDM && type != FI_EP_DGRAM)
        return -FI_EINVAL;
    ep->rdm = type != FI_EP_MSG;
    ep->dgram = type == FI_EP_DGRAM;
    ep->packets = ep->domain->fabric->shape == LOOP_SRD;
    ep->random = ep->domain->fabric->seed;
    ep->prefix = info->ep_attr->msg_prefix_size;
    ep->max = ep->dgram ? LOOP_MTU + ep->prefix : ep->packets ? LOOP_PACKET : SIZE_MAX;
    ep->addr_format = info->addr_format;
    rc = open_port(ep, info);
    if (rc)
        return rc;
    endpoint_init(&ep->base, &attr);
    ep->base.needs_av = ep->rdm;
    ep->base.needs_eq = !ep->rdm;
    ep->base.any_srx = true;
    ep->source_err = ep->rdm && attr.caps & FI_SOURCE_ERR;
    ep->fid.cm = ep->rdm ? &rdm_cm_ops : &loop_cm_ops;
    return 0;
}

int loop_ep_open(struct fid_domain *domain_fid, struct fi_info *user_info, struct fid_ep **ret_ep,
                 void *context)
{
    struct loop_domain *domain = object_of(domain_fid, struct loop_domain, base.fid);
    struct fi_info *info = fabric_info(domain->base.fabric, user_info);
    struct loop_ep *ep = calloc(1, sizeof(*ep));
    int rc = -FI_ENOMEM;

    loop_count(LOOP_CALL_OPEN);
    if (info && ep) {
        ep->domain = domain;
        list_init(&ep->saved);
        list_init(&ep->outstanding);
        list_init(&ep->ended_link);
        list_init(&ep->listener.link);
        list_init(&ep->source.link);
        ep->source.poll = loop_progress;
        ep->source.trywait = loop_trywait;
        pool_init(&ep->pool, sizeof(struct loop_queued_op), 0);
        rc = init(ep, info, context);
    }
    info_free(info);
    if (rc)
        free(ep);
    else
        *ret_ep = &ep->fid;
    return rc;
}
