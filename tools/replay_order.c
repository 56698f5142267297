/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of a process's actions: its posts, the completions that it saw, and its cancels. A
 * cancel belongs to the oldest operation of its endpoint and context that was under way and did not
 * complete with success; without one it came too late, and is left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "replay_plan.h"

enum {
    TRIES = 4096 /* operations of one context that a cancel looks at */
};

struct order {
    const struct trace_model *model;
    struct replay_plan *plan;
    const int *op_of, *layer;
    struct victim {
        int file, op; /* of the model */
        uint32_t object;
        uint64_t context;
        bool taken;
    } * victims; /* that may have been cancelled; sorted */
    int victim_count;
    uint64_t *messages; /* of receives for several, so far */
    int64_t first, last;
};

/* ---- Cancelled operations ---- */

static struct victim victim_of(const struct trace_event *event, int op)
{
    return (struct victim){.file = event->file,
                           .op = op,
                           .object = event->record.object,
                           .context = event->record.context};
}

static int compare(const struct victim *one, const struct victim *two)
{
    if (one->context != two->context)
        return one->context < two->context ? -1 : 1;
    if (one->object != two->object)
        return one->object < two->object ? -1 : 1;
    return one->file < two->file ? -1 : one->file > two->file;
}

static int by_key(const void *a, const void *b)
{
    const struct victim *one = a, *two = b;
    int order = compare(one, two);

    return order ? order : one->op < two->op ? -1 : one->op > two->op;
}

static struct replay_op *op_of(const struct order *order, int op)
{
    const struct trace_event *call = &order->model->events[order->model->ops[op].call];

    return &order->plan->processes[call->file].ops[order->op_of[op]];
}

static bool find_victims(struct order *order)
{
    const struct trace_model *model = order->model;

    order->victims = calloc((size_t)model->op_count + 1, sizeof(*order->victims));
    for (int i = 0; order->victims && i < model->op_count; i++) {
        const struct trace_op *op = &model->ops[i];

        if (order->op_of[i] == TRACE_NONE || op_of(order, i)->inject ||
            (op->done != TRACE_NONE && model->events[op->done].record.result != -FI_ECANCELED))
            continue;
        order->victims[order->victim_count++] = victim_of(&model->events[op->call], i);
    }
    if (order->victim_count)
        qsort(order->victims, (size_t)order->victim_count, sizeof(*order->victims), by_key);
    return order->victims != NULL;
}

/* The first that is not before the key. */
static int find_first(const struct order *order, const struct victim *key)
{
    int low = 0, high = order->victim_count;

    while (low < high) {
        int middle = low + (high - low) / 2;

        if (compare(&order->victims[middle], key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool under_way(const struct trace_model *model, const struct trace_op *op, int64_t ns)
{
    return model->events[op->call].ns <= ns &&
           (op->done == TRACE_NONE || model->events[op->done].ns >= ns);
}

/* The operation of the model that a cancel ended; TRACE_NONE: it came too late. */
static int cancelled_by(struct order *order, const struct trace_event *cancel)
{
    const struct victim key = victim_of(cancel, 0);
    int i = find_first(order, &key);

    for (int tries = TRIES; tries-- && i < order->victim_count; i++) {
        struct victim *victim = &order->victims[i];

        if (compare(victim, &key) != 0)
            break;
        if (victim->taken || !under_way(order->model, &order->model->ops[victim->op], cancel->ns))
            continue;
        victim->taken = true;
        return victim->op;
    }
    return TRACE_NONE;
}

/* ---- Steps ---- */

/* number: of the operation or group in its process. */
static void put_step(struct order *order, const struct trace_event *event, int number,
                     enum replay_step_kind kind, uint64_t messages)
{
    struct replay_process *process = &order->plan->processes[event->file];

    order->first = order->first < 0 ? event->ns : order->first;
    order->last = event->ns;
    process->steps[process->step_count++] = (struct replay_step){
        .op = number, .kind = kind, .messages = messages, .ns = event->ns - order->first};
}

static void add_step(struct order *order, const struct trace_event *event, int op,
                     enum replay_step_kind kind, uint64_t messages)
{
    put_step(order, event, order->op_of[op], kind, messages);
}

/* A join, or its completion. */
static void add_join(struct order *order, const struct trace_event *event)
{
    const struct replay_process *process = &order->plan->processes[event->file];
    const int index = (int)(event - order->model->events);

    for (int i = 0; i < process->group_count; i++) {
        if (process->groups[i].called == index)
            put_step(order, event, i, REPLAY_JOIN, 0);
        else if (process->groups[i].joined == index)
            put_step(order, event, i, REPLAY_JOINED, 0);
    }
}

static void add_cancel(struct order *order, const struct trace_event *event)
{
    int op;

    if (event->record.layer != order->layer[event->file] ||
        event->record.result == WEFT_TRACE_PENDING)
        return;
    op = event->record.result < 0 ? TRACE_NONE : cancelled_by(order, event);
    if (op == TRACE_NONE) {
        order->plan->processes[event->file].left[REPLAY_LEFT_CANCEL]++;
        return;
    }
    op_of(order, op)->cancelled = true;
    add_step(order, event, op, REPLAY_CANCEL, 0);
}

/* One of the messages of a receive for several, or its end, which may be both. */
static void add_message(struct order *order, const struct trace_event *event)
{
    const struct trace_event *call = &order->model->events[order->model->ops[event->op].call];
    struct replay_op *op = op_of(order, event->op);
    struct replay_endpoint *endpoint = &order->plan->endpoints[op->ep];

    if (event->record.result < 0 || !(event->record.inside & FI_RECV))
        return;
    op->completed = true;
    op->messages++;
    op->ns = event->ns - call->ns;
    if (event->record.len > endpoint->largest)
        endpoint->largest = event->record.len;
    add_step(order, event, event->op, REPLAY_WAIT, ++order->messages[op->ep]);
}

static void add_completion(struct order *order, const struct trace_event *event)
{
    const struct replay_op *op = op_of(order, event->op);

    if (op->multi && event->record.result >= 0)
        add_message(order, event);
    else if (event->record.result >= 0 ? op->completed : op->cancelled)
        add_step(order, event, event->op, REPLAY_WAIT, 0);
}

/* Receives for several messages by the defaults of their endpoint look like those for one. */
static bool is_hidden_multi(const struct order *order, const struct trace_event *event)
{
    if (!trace_is_completion(event) || event->record.layer != order->layer[event->file] ||
        !(event->record.inside & FI_MULTI_RECV) || event->record.result < 0)
        return false;
    return event->op == TRACE_NONE ||
           (order->op_of[event->op] != TRACE_NONE && !op_of(order, event->op)->multi);
}

static bool add_event(struct order *order, const struct trace_event *event)
{
    if (is_hidden_multi(order, event))
        return false;
    if (trace_is_call(event) && !strcmp(trace_what(order->model, event), "fi_cancel"))
        add_cancel(order, event);
    if (trace_is_joined(event) || replay_is_join(order->model, event))
        add_join(order, event);
    if (event->op == TRACE_NONE || order->op_of[event->op] == TRACE_NONE)
        return true;
    if (trace_is_completion(event))
        add_completion(order, event);
    else
        add_step(order, event, event->op, REPLAY_POST, 0);
    return true;
}

static bool add_events(struct order *order, char *why, size_t why_size)
{
    const struct trace_model *model = order->model;

    for (int i = 0; i < model->event_count; i++) {
        const struct trace_event *event = &model->events[model->order[i]];

        if (add_event(order, event))
            continue;
        snprintf(why, why_size,
                 "%s: it has receives for several messages that do not say so (FI_MULTI_RECV is "
                 "a default flag of their endpoint), which cannot be replayed",
                 model->files[event->file]->name);
        return false;
    }
    order->plan->elapsed = order->first < 0 ? 0 : order->last - order->first;
    return true;
}

bool replay_order_set(const struct trace_model *model, struct replay_plan *plan, const int *of,
                      const int *layer, char *why, size_t why_size)
{
    struct order order = {.model = model, .plan = plan, .op_of = of, .layer = layer, .first = -1};
    bool ok = false;

    order.messages = calloc((size_t)plan->endpoint_count + 1, sizeof(*order.messages));
    if (!order.messages || !find_victims(&order))
        snprintf(why, why_size, "there is no memory");
    else
        ok = add_events(&order, why, why_size);
    free(order.messages);
    free(order.victims);
    return ok;
}
