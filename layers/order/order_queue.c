/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of posted operations. An operation that ends as the first of its queue is reported at
 * once, without a copy; any other is kept until all before it have ended. Completions and counters
 * are written from here only, and an upper may post from inside them: so an item leaves its queue
 * before it is reported, and the queue is checked again afterwards.
 */
#include "layers/order/order.h"

#include <stdlib.h>
#include <string.h>

/* ---- Items ---- */

void order_queue_init(struct order_queue *queue, size_t limit)
{
    list_init(&queue->items);
    queue->count = 0;
    queue->limit = limit ? limit : 1;
}

struct order_item *order_post(struct order_ep *ep, enum binding_kind kind, void *context,
                              bool wanted)
{
    struct order_queue *queue = ep->queue;
    struct order_item *item;

    if (queue->count >= queue->limit)
        return NULL;
    item = pool_get(&ep->cover.domain->items);
    if (!item)
        return NULL;
    item->ep = ep;
    item->queue = queue;
    item->user_context = context;
    item->kind = kind;
    item->wanted = wanted;
    item->done = false;
    item->failed = false;
    item->slice = NULL;
    memset(item->quiet, 0, sizeof(item->quiet));
    list_init(&item->link);
    list_attach(&item->link, &queue->items);
    queue->count++;
    return item;
}

static void leave(struct order_item *item)
{
    list_detach(&item->link);
    if (item->queue)
        item->queue->count--;
}

void order_drop(struct order_item *item)
{
    if (item->done && item->failed)
        free(item->error.err_data);
    item->done = false;
    pool_put(&item->ep->cover.domain->items, item);
}

ssize_t order_posted(struct order_item *item, ssize_t rc)
{
    if (rc) {
        leave(item);
        order_drop(item);
    }
    return rc;
}

/* ---- Ends ---- */

static void keep_error(struct order_item *item, const struct fi_cq_err_entry *error)
{
    item->error = *error;
    item->error.op_context = item->user_context;
    item->error.err_data = NULL;
    item->error.err_data_size = 0;
    if (!error->err_data_size)
        return;
    item->error.err_data = malloc(error->err_data_size);
    if (!item->error.err_data)
        return;
    memcpy(item->error.err_data, error->err_data, error->err_data_size);
    item->error.err_data_size = error->err_data_size;
}

void order_keep(struct order_item *item, const struct layer_done *done)
{
    item->done = true;
    item->failed = done->error;
    if (done->error) {
        keep_error(item, done->error);
        return;
    }
    item->entry = (struct cq_entry){.context = item->user_context,
                                    .flags = done->flags,
                                    .len = done->len,
                                    .buf = done->buf,
                                    .data = done->data,
                                    .tag = done->tag,
                                    .src = done->src};
}

/* done NULL: it was kept. */
void order_tell(struct cq *cq, const struct order_item *item, const struct layer_done *done)
{
    struct fi_cq_err_entry error;

    if (done && done->error) {
        error = *done->error;
        error.op_context = item->user_context;
        cq_write_error(cq, &error);
    } else if (done) {
        cq_write(cq, item->user_context, done->flags, done->len, done->buf, done->data, done->tag,
                 done->src);
    } else if (item->failed) {
        cq_write_error(cq, &item->error);
    } else {
        const struct cq_entry *kept = &item->entry;

        cq_write(cq, kept->context, kept->flags, kept->len, kept->buf, kept->data, kept->tag,
                 kept->src);
    }
}

static void count_quiet(const struct order_item *item)
{
    const struct binding *binding = &item->ep->cover.binding;

    for (int kind = 0; kind < ORDER_KINDS; kind++) {
        for (unsigned i = 0; binding->cntr[kind] && i < item->quiet[kind]; i++)
            cntr_add_one(binding->cntr[kind]);
    }
}

/* The first of its queue has ended. It is gone afterwards. */
static void tell_first(struct order_item *item, const struct layer_done *done)
{
    const struct binding *binding = &item->ep->cover.binding;
    struct cntr *cntr = binding->cntr[item->kind];
    bool failed = done ? done->error != NULL : item->failed;

    leave(item);
    if (binding->tx && (item->wanted || failed))
        order_tell(binding->tx, item, done);
    if (cntr && failed)
        cntr_add_error(cntr);
    else if (cntr)
        cntr_add_one(cntr);
    count_quiet(item);
    order_drop(item);
}

static struct order_item *first_of(const struct order_queue *queue)
{
    return list_empty(&queue->items) ? NULL : list_item(queue->items.next, struct order_item, link);
}

static void tell_all(struct order_queue *queue)
{
    struct order_item *item;

    while ((item = first_of(queue)) && item->done)
        tell_first(item, NULL);
}

/* Only a counter waits for it: it is counted with the one before it, so that any number of
 * them takes no memory. Items of another endpoint's counters stay. */
static bool fold(struct order_item *item)
{
    struct order_item *before = list_item(item->link.prev, struct order_item, link);

    if (before->ep != item->ep)
        return false;
    for (int kind = 0; kind < ORDER_KINDS; kind++)
        before->quiet[kind] += item->quiet[kind];
    before->quiet[item->kind]++;
    leave(item);
    order_drop(item);
    return true;
}

/* Which of the endpoint's counters the lower is about to raise. */
static enum binding_kind counted_as(const struct order_item *item, uint64_t flags)
{
    if (flags & FI_RECV)
        return BIND_RECV;
    if (flags & FI_SEND)
        return BIND_SEND;
    if (flags & FI_READ)
        return BIND_READ;
    return flags & FI_WRITE ? BIND_WRITE : item->kind;
}

void order_completed(struct layer_domain *domain, const struct layer_done *done)
{
    struct order_item *item = done->context;
    struct order_queue *queue = item->queue;

    if (!queue) {
        order_rx_completed(item, done);
        return;
    }
    layer_uncounted(&item->ep->cover, counted_as(item, done->flags), done->error);
    if (item == first_of(queue)) {
        tell_first(item, done);
        tell_all(queue);
        return;
    }
    if (!done->error && !item->wanted && fold(item))
        return;
    order_keep(item, done);
}

static struct order_item *first_of_ep(const struct order_ep *ep)
{
    list_for_each (pos, &ep->queue->items) {
        struct order_item *item = list_item(pos, struct order_item, link);

        if (item->ep == ep)
            return item;
    }
    return NULL;
}

void order_flush(struct order_ep *ep)
{
    struct order_item *item;

    while ((item = first_of_ep(ep))) {
        if (item->done) {
            tell_first(item, NULL);
            continue;
        }
        leave(item);
        count_quiet(item);
        order_drop(item);
    }
    tell_all(ep->queue);
}
