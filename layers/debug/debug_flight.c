/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations under way, found by their context: kept where the lower owns contexts (FI_CONTEXT) or
 * descriptors count (FI_MR_LOCAL). */
#include <stdlib.h>

#include "layers/debug/debug.h"

struct flight {
    struct list link;
    struct debug_ep *ep;
    const void *context;
    bool receiving, multi;
    size_t count;
    struct debug_mr *regions[DEBUG_BUFFERS]; /* NULL: none, or closed */
};

static struct list *slot(struct debug_layer *layer, const void *context)
{
    uint64_t mixed = (uintptr_t)context * UINT64_C(0x9e3779b97f4a7c15);

    return &layer->flights[(mixed >> 40) % DEBUG_FLIGHT_SLOTS];
}

static const struct flight *find(struct debug_layer *layer, const void *context)
{
    const struct list *list = slot(layer, context);

    for (const struct list *pos = list->next; pos != list; pos = pos->next)
        if (list_item(pos, struct flight, link)->context == context)
            return list_item(pos, struct flight, link);
    return NULL;
}

/* Without a completion its end is not known. */
static bool completes(const struct debug_ep *ep, const struct op *op, uint64_t flags)
{
    bool receiving = op_class(op->call) == OP_CLASS_RECV;
    bool selective = receiving ? ep->rx_selective : ep->tx_selective;

    if (op_is_inject(op) || !(receiving ? ep->rx : ep->tx))
        return false;
    return !selective || flags & FI_COMPLETION;
}

static void add(struct debug_ep *ep, const struct op *op, uint64_t flags,
                const struct debug_buffers *buffers)
{
    struct debug_layer *layer = ep->object.layer;
    struct flight *flight = calloc(1, sizeof(*flight));

    if (!flight)
        return;
    flight->ep = ep;
    flight->context = op->context;
    flight->receiving = op_class(op->call) == OP_CLASS_RECV;
    flight->multi = flight->receiving && flags & FI_MULTI_RECV;
    for (; flight->count < buffers->count; flight->count++) {
        const struct debug_buffer *buffer = &buffers->list[flight->count];

        flight->regions[flight->count] = debug_region_of(ep->domain, buffer->desc, &buffer->iov);
    }
    list_attach(&flight->link, slot(layer, op->context));
    layer->flight_count++;
}

void debug_flight_begin(struct debug_ep *ep, const struct op *op, uint64_t flags,
                        const struct debug_buffers *buffers)
{
    struct debug_layer *layer = ep->object.layer;
    const struct flight *other = NULL;
    char whom[DEBUG_NAME];

    if ((!ep->contexts && !ep->domain->local) || !completes(ep, op, flags))
        return;
    if (ep->contexts && !op->context) {
        debug_report(layer->reporter, DEBUG_NO_CONTEXT, op_name(op->call),
                     debug_name(&ep->object, whom),
                     "the context is NULL, and has to be a struct fi_context (or fi_context2)");
        return;
    }
    pthread_mutex_lock(&layer->mutex);
    if (ep->contexts && op->context)
        other = find(layer, op->context);
    if (!other)
        add(ep, op, flags, buffers);
    pthread_mutex_unlock(&layer->mutex);
    if (other)
        debug_report(layer->reporter, DEBUG_CONTEXT_IN_USE, op_name(op->call),
                     debug_name(&ep->object, whom),
                     "context %p belongs to an operation that has not completed", op->context);
}

static void end(struct debug_layer *layer, struct flight *flight)
{
    list_detach(&flight->link);
    layer->flight_count--;
    free(flight);
}

void debug_flight_end(struct debug_layer *layer, const void *context, uint64_t flags, bool refused)
{
    struct list *list;

    if (!__atomic_load_n(&layer->flight_count, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&layer->mutex);
    list = slot(layer, context);
    for (struct list *pos = list->next; pos != list; pos = pos->next) {
        struct flight *flight = list_item(pos, struct flight, link);

        if (flight->context != context ||
            (!refused && flags && flight->receiving != !!(flags & FI_RECV)))
            continue;
        if (refused || !flight->multi || flags & FI_MULTI_RECV)
            end(layer, flight);
        break;
    }
    pthread_mutex_unlock(&layer->mutex);
}

void debug_flight_forget(struct debug_ep *ep)
{
    struct debug_layer *layer = ep->object.layer;

    for (int i = 0; layer->flight_count && i < DEBUG_FLIGHT_SLOTS; i++)
        list_for_each_safe (pos, after, &layer->flights[i])
            if (list_item(pos, struct flight, link)->ep == ep)
                end(layer, list_item(pos, struct flight, link));
}

static bool uses(const struct flight *flight, const struct debug_mr *mr)
{
    for (size_t i = 0; i < flight->count; i++)
        if (flight->regions[i] == mr)
            return true;
    return false;
}

int debug_flight_count(struct debug_mr *mr)
{
    struct debug_layer *layer = mr->object.layer;
    int count = 0;

    for (int i = 0; layer->flight_count && i < DEBUG_FLIGHT_SLOTS; i++)
        list_for_each (pos, &layer->flights[i])
            count += uses(list_item(pos, struct flight, link), mr);
    return count;
}
