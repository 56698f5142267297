/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FI_ORDER_STRICT of comp_order, over any lower: completions are written in the order of the posts
 * on the transmit side, and of the messages of each sender on the receive side. An operation that
 * has ended before its turn is held here. All of it is guarded by the domain's progress domain. See
 * docs/design/order.md. Source: fi_endpoint(3).
 */
#ifndef WEFT_ORDER_H
#define WEFT_ORDER_H

#include "core/base/list.h"
#include "core/layer/layer.h"

enum {
    ORDER_SENDERS = 64, /* lists that the senders of an endpoint are spread over; a power of 2 */
    ORDER_KINDS = BIND_WRITE + 1,
};

/* The operations posted to one transmit context, in this order, and not completed yet. */
struct order_queue {
    struct list items;
    size_t count, limit; /* then -FI_EAGAIN */
};

struct order_ep {
    struct layer_ep cover;
    struct order_queue own, *queue; /* its own, or that of a shared transmit context */
    uint64_t tx_flags;
    struct list aliases;
    /* Receives that have met their message, by sender. NULL: it has none, or they are those of a
     * shared context. */
    struct list *senders;
    struct match_watch watch;
    bool shared; /* receives through a shared context */
};

/* An operation that the lower has, or that has ended before its turn. */
struct order_item {
    struct fi_context2 context; /* of the lower's operation */
    struct list link;           /* in queue->items, or in one of ep->senders */
    struct order_ep *ep;
    struct order_queue *queue; /* NULL: a receive */
    void *user_context;
    enum binding_kind kind;
    bool wanted; /* a completion */
    bool done;   /* and held */
    bool failed;
    /* Operations right behind it that have ended well and want nothing but to be counted. */
    unsigned quiet[ORDER_KINDS];
    struct layer_cq *cq; /* a receive, once done: the queue that reports it */
    fi_addr_t sender;
    void *slice;         /* a multi-receive buffer that waits for it, or NULL */
    struct match *match; /* whose it is */
    union {
        struct cq_entry entry;
        struct fi_cq_err_entry error; /* err_data is the item's */
    };
};

static inline struct order_ep *order_ep_of(struct layer_ep *cover)
{
    return (struct order_ep *)cover;
}

/* ---- order_queue.c ---- */

void order_queue_init(struct order_queue *queue, size_t limit);
/* The next of the endpoint's operations; NULL: there is no room (-FI_EAGAIN) or no memory. Progress
 * domain locked, as for all below. */
struct order_item *order_post(struct order_ep *ep, enum binding_kind kind, void *context,
                              bool wanted);
/* The lower's completion of it. */
ssize_t order_posted(struct order_item *item, ssize_t rc);
/* Ends of the layer's items: layer_ops.completed. */
void order_completed(struct layer_domain *domain, const struct layer_done *done);
/* Of an endpoint that has closed: reports operations that have ended, and drops the others. */
void order_flush(struct order_ep *ep);

/* ---- order_rx.c ---- */

/* Has the lower tell which receives meet their messages. */
int order_rx_watch(struct order_ep *ep);
void order_rx_completed(struct order_item *item, const struct layer_done *done);
void order_rx_flush(struct order_ep *ep);

/* Between the two: how an item ended is kept in it; and told, in this very order. */
void order_keep(struct order_item *item, const struct layer_done *done);
void order_tell(struct cq *cq, const struct order_item *item, const struct layer_done *done);
/* Frees it. */
void order_drop(struct order_item *item);

/* ---- order_ep.c ---- */

extern const struct hook_ops order_tables;
int order_ep_opened(struct layer_ep *cover);
int order_ep_enabled(struct layer_ep *cover);
void order_ep_closed(struct layer_ep *cover);
/* The default flags of an endpoint or one of its aliases. */
uint64_t order_tx_flags(struct fid_ep *fid);

/* ---- order_tx.c ---- */

/* struct ep.post of its endpoints. */
ssize_t order_ep_post(struct ep *ep, struct op *op);

#endif
