/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of received messages: that in which the messages of one sender have matched. The engine
 * below reports each match (core/match/match.h); from then on the receive carries an item. A
 * message without a receive holds nothing back, and neither does another sender.
 */
#include "layers/order/order.h"

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/seam.h"

static struct list *list_of(const struct order_ep *ep, fi_addr_t sender)
{
    uint64_t hash = sender * 0x9e3779b97f4a7c15ull;

    return &ep->senders[hash >> 58 & (ORDER_SENDERS - 1)];
}

static void matched(struct match_watch *watch, struct fi_peer_rx_entry *entry)
{
    struct order_ep *ep = object_of(watch, struct order_ep, watch);
    struct order_item *item = pool_get(&ep->cover.domain->items);

    if (!item) {
        LOG_WARN(ep->cover.domain->base.fabric->part, FI_LOG_EP_DATA,
                 "without memory a message is told as it comes, not in its order");
        return;
    }
    item->ep = ep;
    item->queue = NULL;
    item->user_context = entry->context;
    item->kind = BIND_RECV;
    item->wanted = entry->flags & FI_COMPLETION;
    item->done = false;
    item->failed = false;
    item->sender = entry->addr;
    item->match = entry->owner_context;
    item->slice = match_hold(entry);
    list_init(&item->link);
    list_attach(&item->link, list_of(ep, entry->addr));
    entry->context = item;
    entry->flags |= FI_COMPLETION;
}

int order_rx_watch(struct order_ep *ep)
{
    int rc;

    if (!ep->senders || ep->shared)
        return 0;
    ep->watch.matched = matched;
    rc = fi_setopt(&ep->cover.hook->lower->fid, FI_OPT_ENDPOINT, OPT_MATCH_WATCH, &ep->watch,
                   sizeof(ep->watch));
    if (rc == -FI_ENOPROTOOPT || rc == -FI_ENOSYS) {
        LOG_WARN(ep->cover.domain->base.fabric->part, FI_LOG_EP_CTRL,
                 "FI_ORDER_STRICT: what is below does not tell which message a receive has met");
        return -FI_ENOSYS;
    }
    return rc;
}

/* ---- Ends ---- */

/* The earliest of that sender. */
static struct order_item *first_from(const struct list *list, fi_addr_t sender)
{
    list_for_each (pos, list) {
        struct order_item *item = list_item(pos, struct order_item, link);

        if (item->sender == sender)
            return item;
    }
    return NULL;
}

/* It is gone afterwards. The buffer that it is a slice of is given back behind it. open: the engine
 * is there. */
static void tell(struct order_item *item, const struct layer_done *done, bool open)
{
    bool counted = layer_ep_class(&item->ep->cover) != FI_CLASS_SRX_CTX;
    struct cntr *cntr = counted ? item->ep->cover.binding.cntr[BIND_RECV] : NULL;
    bool failed = done ? done->error != NULL : item->failed;
    struct match *match = item->match;
    void *slice = item->slice;

    list_detach(&item->link);
    if (!item->cq->mute && (item->wanted || failed))
        order_tell(&item->cq->cq, item, done);
    if (cntr && failed)
        cntr_add_error(cntr);
    else if (cntr)
        cntr_add_one(cntr);
    order_drop(item);
    if (slice && open)
        match_release(match, slice);
}

void order_rx_completed(struct order_item *item, const struct layer_done *done)
{
    struct list *list = list_of(item->ep, item->sender);
    fi_addr_t sender = item->sender;

    if (layer_ep_class(&item->ep->cover) != FI_CLASS_SRX_CTX)
        layer_uncounted(&item->ep->cover, BIND_RECV, done->error);
    item->cq = done->cq;
    if (item != first_from(list, sender)) {
        order_keep(item, done);
        return;
    }
    tell(item, done, true);
    while ((item = first_from(list, sender)) && item->done)
        tell(item, NULL, true);
}

void order_rx_flush(struct order_ep *ep)
{
    for (size_t i = 0; ep->senders && i < ORDER_SENDERS; i++) {
        struct list *list = &ep->senders[i];

        while (!list_empty(list)) {
            struct order_item *item = list_item(list->next, struct order_item, link);

            if (item->done) {
                tell(item, NULL, false);
                continue;
            }
            list_detach(&item->link);
            order_drop(item);
        }
    }
}
