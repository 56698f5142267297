/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints and contexts: their queues, aliases and default flags, binding, cancelling. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "layers/order/order.h"

/* An alias, and its default flags. */
struct alias {
    struct list link;
    const struct hook_ep *hook;
    uint64_t tx_flags;
};

/* ---- Default flags ---- */

static struct alias *find(const struct order_ep *ep, const struct hook_ep *hook)
{
    list_for_each (pos, &ep->aliases) {
        struct alias *alias = list_item(pos, struct alias, link);

        if (alias->hook == hook)
            return alias;
    }
    return NULL;
}

uint64_t order_tx_flags(struct fid_ep *fid)
{
    const struct hook_ep *hook = object_of(fid, struct hook_ep, fid);
    const struct order_ep *ep = hook->own;
    const struct alias *alias;
    uint64_t flags;

    if (hook == ep->cover.hook)
        return __atomic_load_n(&ep->tx_flags, __ATOMIC_RELAXED);
    progress_lock(ep->cover.domain->progress);
    alias = find(ep, hook);
    flags = alias ? alias->tx_flags : 0;
    progress_unlock(ep->cover.domain->progress);
    return flags;
}

/* As the lower describes them. */
static uint64_t ask_flags(struct hook_ep *hook)
{
    uint64_t flags = FI_TRANSMIT;

    return fi_control(&hook->lower->fid, FI_GETOPSFLAG, &flags) ? 0
                                                                : flags & ~(FI_TRANSMIT | FI_RECV);
}

static void take_flags(struct order_ep *ep, struct hook_ep *hook)
{
    struct progress *progress = ep->cover.domain->progress;
    struct alias *alias;
    uint64_t flags;

    progress_lock(progress);
    flags = ask_flags(hook);
    alias = find(ep, hook);
    if (alias)
        alias->tx_flags = flags;
    else if (hook == ep->cover.hook)
        __atomic_store_n(&ep->tx_flags, flags, __ATOMIC_RELAXED);
    progress_unlock(progress);
}

static int open_alias(struct fid *fid, struct fi_alias *request)
{
    struct order_ep *ep = *hook_own(fid);
    struct progress *progress = ep->cover.domain->progress;
    struct alias *alias = malloc(sizeof(*alias));
    int rc;

    if (!alias)
        return -FI_ENOMEM;
    rc = layer_ep_fid_ops.control(fid, FI_ALIAS, request);
    if (rc) {
        free(alias);
        return rc;
    }
    alias->hook = object_of(*request->fid, struct hook_ep, fid.fid);
    alias->tx_flags = 0;
    progress_lock(progress);
    list_attach(&alias->link, &ep->aliases);
    progress_unlock(progress);
    take_flags(ep, object_of(*request->fid, struct hook_ep, fid.fid));
    return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    int rc;

    if (command == FI_ALIAS)
        return open_alias(fid, arg);
    rc = layer_ep_fid_ops.control(fid, command, arg);
    if (!rc && command == FI_SETOPSFLAG)
        take_flags(*hook_own(fid), object_of(fid, struct hook_ep, fid.fid));
    return rc;
}

/* ---- Opening, enabling, closing ---- */

int order_ep_opened(struct layer_ep *cover)
{
    struct order_ep *ep = order_ep_of(cover);
    size_t class = layer_ep_class(cover);

    order_queue_init(&ep->own, cover->info->tx_attr->size);
    ep->queue = &ep->own;
    list_init(&ep->aliases);
    ep->tx_flags = cover->info->tx_attr->op_flags;
    if (class == FI_CLASS_SEP || class == FI_CLASS_TX_CTX)
        return 0;
    ep->senders = malloc(ORDER_SENDERS * sizeof(*ep->senders));
    if (!ep->senders)
        return -FI_ENOMEM;
    for (size_t i = 0; i < ORDER_SENDERS; i++)
        list_init(&ep->senders[i]);
    return class == FI_CLASS_SRX_CTX ? order_rx_watch(ep) : 0;
}

int order_ep_enabled(struct layer_ep *cover)
{
    struct order_ep *ep = order_ep_of(cover);
    size_t class = layer_ep_class(cover);

    if (class == FI_CLASS_EP || class == FI_CLASS_TX_CTX)
        ep->tx_flags = ask_flags(cover->hook);
    return class == FI_CLASS_EP || class == FI_CLASS_RX_CTX ? order_rx_watch(ep) : 0;
}

void order_ep_closed(struct layer_ep *cover)
{
    struct order_ep *ep = order_ep_of(cover);

    order_flush(ep);
    order_rx_flush(ep);
    free(ep->senders);
    ep->senders = NULL;
}

static int ep_close(struct fid *fid)
{
    struct order_ep *ep = *hook_own(fid);
    struct progress *progress = ep->cover.domain->progress;
    const struct hook_ep *hook = object_of(fid, struct hook_ep, fid.fid);
    bool is_alias = hook != ep->cover.hook;
    struct alias *alias;
    int rc = layer_ep_fid_ops.close(fid);

    if (rc || !is_alias)
        return rc;
    progress_lock(progress);
    alias = find(ep, hook);
    if (alias)
        list_detach(&alias->link);
    progress_unlock(progress);
    free(alias);
    return 0;
}

/* ---- Shared contexts ---- */

static int ep_bind(struct fid *fid, struct fid *target, uint64_t flags)
{
    struct order_ep *ep = *hook_own(fid);
    int rc = layer_ep_fid_ops.bind(fid, target, flags);

    if (!rc && target->fclass == FI_CLASS_SRX_CTX)
        ep->shared = true;
    if (!rc && target->fclass == FI_CLASS_STX_CTX &&
        ep->cover.info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT)
        ep->queue = object_of(target, struct hook_stx, fid.fid)->own;
    return rc;
}

/* Posts to the endpoints that share a context are one sequence. */
static int stx_open(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **stx,
                    void *context)
{
    struct layer_domain *domain = layer_domain_of(fid);
    struct order_queue *queue = malloc(sizeof(*queue));
    int rc;

    if (!queue)
        return -FI_ENOMEM;
    order_queue_init(queue, domain->base.info->tx_attr->size);
    rc = layer_stx_open(fid, attr, stx, context);
    if (rc) {
        free(queue);
        return rc;
    }
    object_of(*stx, struct hook_stx, fid)->own = queue;
    return 0;
}

static int stx_close(struct fid *fid)
{
    struct order_queue *queue = object_of(fid, struct hook_stx, fid.fid)->own;
    int rc = layer_stx_fid_ops.close(fid);

    if (!rc)
        free(queue);
    return rc;
}

/* ---- Cancelling ---- */

/* Cancels a send that has not ended; held ones have. Receives carry the application's context until
 * they have matched, and are cancelled by the lower. */
static bool cancel_posted(struct order_ep *ep, const void *context)
{
    struct fid *lower = &ep->cover.hook->lower->fid;

    list_for_each (pos, &ep->queue->items) {
        struct order_item *item = list_item(pos, struct order_item, link);

        if (item->ep != ep || item->done || item->user_context != context)
            continue;
        if (!fi_cancel(lower, item))
            return true;
    }
    return false;
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
    struct order_ep *ep = *hook_own(fid);
    bool cancelled;

    progress_lock(ep->cover.domain->progress);
    cancelled = cancel_posted(ep, context);
    progress_unlock(ep->cover.domain->progress);
    return cancelled ? 0 : layer_ep_ops.cancel(fid, context);
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops), .bind = ep_bind, .control = ep_control, .close = ep_close};
static struct fi_ops_ep ep_ops = {.size = sizeof(ep_ops), .cancel = ep_cancel};
static struct fi_ops stx_fid_ops = {.size = sizeof(stx_fid_ops), .close = stx_close};
static struct fi_ops_domain domain_ops = {.size = sizeof(domain_ops), .stx_ctx = stx_open};

const struct hook_ops order_tables = {
    .ep_fid = &fid_ops,
    .ep = &ep_ops,
    .stx_fid = &stx_fid_ops,
    .domain = &domain_ops,
    .post = order_ep_post,
};
