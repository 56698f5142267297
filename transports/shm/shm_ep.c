/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of endpoints. */
#include "transports/shm/shm_ep.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/domain/base.h"
#include "core/info/info.h"
#include "core/match/match_forward.h"
#include "transports/shm/shm_backlog.h"
#include "transports/shm/shm_fork.h"
#include "transports/shm/shm_listener.h"
#include "transports/shm/shm_op.h"
#include "transports/shm/shm_sep.h"

static struct shm_ep *ep_of(struct endpoint *base)
{
    return object_of(base, struct shm_ep, base);
}

/* ---- Enabling ---- */

int shm_ep_join(struct endpoint *base)
{
    struct shm_ep *ep = ep_of(base);

    if (!ep->sep)
        return 0;
    return sep_join(&ep->sep->base, ep->fid.fid.fclass, ep->context, &base->binding, &base->av);
}

/* Completions and counts end here, not in an upper. */
static bool is_on_top(const struct shm_ep *ep)
{
    return !(ep->base.srx && ep->base.srx->peer) && binding_is_top(&ep->base.binding);
}

int shm_ep_enable(struct endpoint *base)
{
    const uint64_t asks = FI_SOURCE | FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV | FI_SOURCE_ERR;
    struct shm_ep *ep = ep_of(base);
    int rc = ep->doorbell ? 0 : shm_link_start(ep);

    if (rc)
        return rc;
    base->source.many = true; /* this endpoint's progress alone reads it, which is not on yet */
    ep->top = is_on_top(ep);
    ep->knows_sources = base->srx || base->caps & asks;
    ep->direct = base->match ? base->match : base->in ? match_branch_direct(base->in) : NULL;
    if (ep->source_err)
        ep->direct = NULL; /* the source of each must be checked */
    shm_av_watch(ep);
    progress_lock(base->binding.progress);
    rc = progress_attach(base->binding.progress, &ep->source);
    base->enabled = !rc;
    progress_unlock(base->binding.progress);
    return rc;
}

/* A counter may come late: Sandia OpenSHMEM binds it to endpoints that are enabled. */
int shm_ep_bound(struct endpoint *base, struct fid *fid, uint64_t flags)
{
    struct shm_ep *ep = ep_of(base);

    if (!base->enabled)
        return 0;
    progress_lock(base->binding.progress);
    ep->top = is_on_top(ep);
    progress_unlock(base->binding.progress);
    return 0;
}

/* ---- Closing ---- */

static void let_go(struct shm_ep *ep)
{
    endpoint_finish(&ep->base);
    shm_ops_finish(ep);
    shm_backlog_finish(ep);
    pool_finish(&ep->controls);
    free(ep->peers);
    for (int i = 0; ep->more && i < SHM_CONTEXTS - 1; i++)
        free(ep->more[i].links);
    free(ep->more);
    free(ep->numbers);
    free(ep->buckets);
    free(ep);
}

int shm_ep_close(struct endpoint *base)
{
    struct shm_ep *ep = ep_of(base);
    struct progress *progress = base->binding.progress;

    if (ep->watch.inserted)
        av_detach(ep->base.av, &ep->watch);
    if (progress)
        progress_lock(progress);
    if (ep->base.enabled)
        progress_detach(progress, &ep->source);
    ep->in_progress = true;
    shm_link_close_all(ep);
    shm_fork_forget(ep);
    shm_saved_close(ep);
    endpoint_close_receives(base);
    if (progress)
        progress_unlock(progress);
    if (ep->sep)
        shm_sep_leave(ep);
    let_go(ep);
    return 0;
}

/* ---- Opening ---- */

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
    ep->listener = ep->bell_fd = ep->wake_fd = ep->source.fd = -1;
    ep->source.poll = shm_progress;
    ep->source.leaf = true;
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
    shm_ops_init(ep);
    shm_backlog_init(ep);
    shm_controls_init(ep);
    return ep;
}

static struct fid_ep *born(struct shm_ep *ep, const struct fi_info *info, size_t class,
                           void *context)
{
    ep->source_err = info->caps & FI_SOURCE_ERR;
    ep->order = info->tx_attr->msg_order;
    ep->orders_reads = ep->order & (FI_ORDER_RAR | FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR);
    shm_ep_ops_init(ep, info, class, context);
    shm_fork_watch(ep);
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
    *ret_ep = born(ep, info, FI_CLASS_EP, context);
    ep->base.needs_av = true;
    ep->base.any_srx = true;
    info_free(info);
    return 0;
}

/* ---- Contexts of a scalable endpoint ---- */

/* The first one has the name itself, which the endpoint has kept for it. */
static int listen_as(struct shm_ep *ep, unsigned index)
{
    if (index || ep->sep->listener < 0)
        return shm_listener_bind(ep->name, index, &ep->listener);
    ep->listener = ep->sep->listener;
    ep->sep->listener = -1;
    return 0;
}

int shm_ep_open_context(struct sep *base, const struct sep_opening *opening,
                        struct endpoint **ret_ep)
{
    struct shm_ep *ep = new_ep(object_of(base->domain, struct shm_domain, base));
    struct shm_sep *sep = object_of(base, struct shm_sep, base);
    bool sends = opening->class == FI_CLASS_TX_CTX;
    int rc;

    if (!ep)
        return -FI_ENOMEM;
    ep->sep = sep;
    ep->context = opening->index;
    memcpy(ep->name, sep->name, sizeof(ep->name));
    rc = sends ? 0 : listen_as(ep, opening->index);
    if (rc) {
        free(ep);
        return rc;
    }
    born(ep, base->info, opening->class, opening->context);
    ep->base.any_srx = !sends;
    if (sends && opening->size && opening->size < ep->base.tx_size)
        ep->base.tx_size = opening->size;
    *ret_ep = &ep->base;
    return 0;
}
