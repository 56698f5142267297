/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links between records.
 *
 * Calls inside of calls: a record says how many records were made inside of it, by its thread.
 * Operations: an accepted data transfer and the next completion in its layer and direction that has
 * its context, and does not say that it is of another kind or tag; of several with one context the
 * oldest.
 * Causes: the operation whose call a lower's call was made inside of; else an operation of another
 * layer that is under way and has the same context.
 * Messages between processes: the oldest send with the tag and length of a receive that completed
 * later, in layers of one name. Which of several equal messages it was cannot be known.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>

#include "hash.h"
#include "trace_model.h"

/* ---- Times ---- */

/* How far a clock is ahead of that of the first file; nothing that adds up to an overflow. */
static int64_t ahead(uint64_t clock, uint64_t first)
{
    int64_t difference = (int64_t)(clock - first);

    return difference < 1000000000000000000 && difference > -1000000000000000000 ? difference : 0;
}

/* Machines that were booted apart agree on the time of day only. */
static void align_clocks(struct trace_model *model)
{
    const struct weft_trace_header *first = &model->files[0]->header;
    int64_t zero = INT64_MAX;
    bool same = true;

    for (int i = 1; i < model->file_count; i++)
        same = same && model->files[i]->header.boot == first->boot;
    for (int i = 0; i < model->event_count; i++) {
        struct trace_event *event = &model->events[i];
        const struct weft_trace_clocks *clocks = &model->files[event->file]->header.clocks[0];

        event->ns += same ? ahead(clocks->monotonic_ns, first->clocks[0].monotonic_ns)
                          : ahead(clocks->realtime_ns, first->clocks[0].realtime_ns);
        zero = event->ns < zero ? event->ns : zero;
    }
    for (int i = 0; i < model->event_count; i++)
        model->events[i].ns -= zero;
}

static const struct trace_event *sorted; /* for by_time, which takes no argument */

static int by_time(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    if (sorted[x].ns != sorted[y].ns)
        return sorted[x].ns < sorted[y].ns ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool sort_events(struct trace_model *model)
{
    model->order = malloc((size_t)(model->event_count + 1) * sizeof(int));
    if (!model->order)
        return false;
    for (int i = 0; i < model->event_count; i++)
        model->order[i] = i;
    sorted = model->events;
    qsort(model->order, (size_t)model->event_count, sizeof(int), by_time);
    return true;
}

/* ---- Calls inside of calls ---- */

enum {
    DEPTH = 64,
    STEPS = 4096 /* operations of one key that are looked at, at most */
};

/* The calls that the next record is inside of. */
struct open_calls {
    int event[DEPTH];
    uint64_t end[DEPTH]; /* the first record that is not inside */
    int depth;
};

/* A call that has not returned holds all that its thread did since. */
static void link_parents(struct trace_model *model)
{
    struct open_calls open = {.depth = 0};
    uint64_t place = 0;

    for (int i = 0; i < model->event_count; i++) {
        struct trace_event *event = &model->events[i];
        const struct trace_event *last = i ? event - 1 : event;

        if (event->file != last->file || event->ring != last->ring)
            open.depth = 0;
        while (open.depth && open.end[open.depth - 1] <= place)
            open.depth--;
        event->depth = open.depth;
        event->parent = open.depth ? open.event[open.depth - 1] : TRACE_NONE;
        if (trace_is_call(event) && event->record.inside && open.depth < DEPTH) {
            open.event[open.depth] = i;
            open.end[open.depth++] = place + 1 + event->record.inside;
        } else if (trace_is_call(event) && event->record.result == WEFT_TRACE_PENDING &&
                   open.depth < DEPTH) {
            open.event[open.depth] = i;
            open.end[open.depth++] = UINT64_MAX;
        }
        place += 1 + event->more; /* MORE is a record, but no event */
    }
}

/* ---- Operations ---- */

/* Operations of one key, in a list; it stays when it is empty. */
struct queue {
    struct queue_key {
        uint64_t a, b;
    } key;
    int head, tail;
    UT_hash_handle hh;
};

struct table {
    struct queue *queues;
    int *next; /* of an operation, in its queue */
};

static bool table_init(struct table *table, int operations)
{
    table->queues = NULL;
    table->next = calloc((size_t)operations + 1, sizeof(int));
    return table->next != NULL;
}

static void table_finish(struct table *table)
{
    struct queue *queue = table->queues, *next;

    HASH_CLEAR(hh, table->queues);
    for (; queue; queue = next) {
        next = queue->hh.next;
        free(queue);
    }
    free(table->next);
}

static struct queue *find(const struct table *table, struct queue_key key)
{
    struct queue *queue;

    HASH_FIND(hh, table->queues, &key, sizeof(key), queue);
    return queue;
}

/* NULL without memory. */
static struct queue *find_or_add(struct table *table, struct queue_key key)
{
    struct queue *queue = find(table, key);

    if (queue)
        return queue;
    queue = calloc(1, sizeof(*queue));
    if (!queue)
        return NULL;
    queue->key = key;
    queue->head = queue->tail = TRACE_NONE;
    HASH_ADD(hh, table->queues, key, sizeof(key), queue);
    if (hash_has(queue))
        return queue;
    free(queue);
    return NULL;
}

static bool table_append(struct table *table, struct queue_key key, int op)
{
    struct queue *queue = find_or_add(table, key);

    if (!queue)
        return false;
    table->next[op] = TRACE_NONE;
    if (queue->head == TRACE_NONE)
        queue->head = op;
    else
        table->next[queue->tail] = op;
    queue->tail = op;
    return true;
}

static bool table_prepend(struct table *table, struct queue_key key, int op)
{
    struct queue *queue = find_or_add(table, key);

    if (!queue)
        return false;
    table->next[op] = queue->head;
    queue->head = op;
    if (queue->tail == TRACE_NONE)
        queue->tail = op;
    return true;
}

/* before: the operation in front of it, or TRACE_NONE. */
static void table_remove(const struct table *table, struct queue *queue, int op, int before)
{
    if (before == TRACE_NONE)
        queue->head = table->next[op];
    else
        table->next[before] = table->next[op];
    if (queue->tail == op)
        queue->tail = before;
}

static bool is_receiving(const struct trace_model *model, const struct trace_event *event)
{
    if (trace_is_call(event))
        return trace_class_of(model, event) == TRACE_RECV;
    return (event->record.inside & (FI_RECV | FI_MULTI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE)) !=
           0;
}

/* Operations by context, layer and direction. */
static struct queue_key context_key(const struct trace_model *model,
                                    const struct trace_event *event)
{
    return (struct queue_key){event->record.context, (uint64_t)event->file << 20 |
                                                         (uint64_t)event->record.layer << 2 |
                                                         (uint64_t)is_receiving(model, event)};
}

static bool starts_op(const struct trace_model *model, const struct trace_event *event)
{
    return event->record.result >= 0 && trace_class_of(model, event) != TRACE_OTHER;
}

static bool is_inject(const struct trace_model *model, const struct trace_event *event)
{
    return strstr(trace_what(model, event), "inject") != NULL;
}

/* Programs may give all operations one context: what else a completion says must not contradict. */
static bool may_end(const struct trace_model *model, const struct trace_event *call,
                    const struct trace_event *done)
{
    const uint64_t flags = done->record.inside;
    const uint64_t kinds = flags & (FI_SEND | FI_READ | FI_WRITE | FI_ATOMIC);

    switch (trace_class_of(model, call)) {
    case TRACE_RECV:
        return !(flags & FI_TAGGED) || !done->record.tag ||
               !((call->record.tag ^ done->record.tag) & ~call->key) ||
               trace_what(model, call)[0] != 'f'; /* peer get_tag: the tag that came */
    case TRACE_SEND: return !kinds || kinds & FI_SEND;
    case TRACE_READING: return !kinds || kinds & (FI_READ | FI_ATOMIC);
    case TRACE_WRITING: return !kinds || kinds & (FI_WRITE | FI_ATOMIC);
    default: return true;
    }
}

/* A receive for several messages goes on until one of them says that it was the last. */
static bool goes_on(const struct trace_model *model, const struct trace_event *call,
                    const struct trace_event *done)
{
    return trace_class_of(model, call) == TRACE_RECV && call->flags & FI_MULTI_RECV &&
           done->record.result >= 0 && !(done->record.inside & FI_MULTI_RECV);
}

static void complete(struct trace_model *model, struct table *table, int index)
{
    struct trace_event *event = &model->events[index];
    struct queue *queue = find(table, context_key(model, event));
    int before = TRACE_NONE, steps = STEPS;

    for (int op = queue ? queue->head : TRACE_NONE; op != TRACE_NONE && steps--;
         before = op, op = table->next[op]) {
        const struct trace_event *call = &model->events[model->ops[op].call];

        if (!may_end(model, call, event))
            continue;
        if (!goes_on(model, call, event))
            table_remove(table, queue, op, before);
        model->ops[op].done = index;
        event->op = op;
        return;
    }
}

static bool link_ops(struct trace_model *model)
{
    struct table table = {NULL, NULL};
    bool ok;

    model->ops = calloc((size_t)model->event_count + 1, sizeof(*model->ops));
    ok = model->ops && table_init(&table, model->event_count);
    for (int i = 0; ok && i < model->event_count; i++) {
        int index = model->order[i], op = model->op_count;
        struct trace_event *event = &model->events[index];

        if (trace_is_completion(event))
            complete(model, &table, index);
        if (!starts_op(model, event))
            continue;
        model->ops[op] = (struct trace_op){index, TRACE_NONE, TRACE_NONE, TRACE_NONE};
        event->op = op;
        model->op_count++;
        if (!is_inject(model, event))
            ok = table_append(&table, context_key(model, event), op);
    }
    table_finish(&table);
    return ok;
}

/* ---- Causes ---- */

static int cause_by_nesting(const struct trace_model *model, int call)
{
    for (int up = model->events[call].parent; up != TRACE_NONE; up = model->events[up].parent)
        if (model->events[up].op != TRACE_NONE && trace_is_call(&model->events[up]) &&
            model->events[up].record.layer != model->events[call].record.layer)
            return model->events[up].op;
    return TRACE_NONE;
}

static bool under_way(const struct trace_model *model, const struct trace_op *op, int64_t ns)
{
    return model->events[op->call].ns <= ns &&
           (op->done == TRACE_NONE || model->events[op->done].ns >= ns);
}

static int cause_by_context(const struct trace_model *model, const struct table *table,
                            struct queue_key key, const struct trace_event *call)
{
    const struct queue *queue = call->record.context ? find(table, key) : NULL;
    int steps = STEPS / 64;

    for (int up = queue ? queue->head : TRACE_NONE; up != TRACE_NONE && steps--;
         up = table->next[up]) {
        const struct trace_event *other = &model->events[model->ops[up].call];

        if (other->record.layer != call->record.layer &&
            under_way(model, &model->ops[up], call->ns))
            return up;
    }
    return TRACE_NONE;
}

static bool link_causes(struct trace_model *model)
{
    struct table table;
    bool ok = table_init(&table, model->op_count);

    for (int i = 0; ok && i < model->op_count; i++) {
        struct trace_op *op = &model->ops[i];
        const struct trace_event *call = &model->events[op->call];
        const struct queue_key key = {call->record.context, (uint64_t)call->file};

        op->cause = cause_by_nesting(model, op->call);
        if (op->cause == TRACE_NONE)
            op->cause = cause_by_context(model, &table, key, call);
        /* The newest first is what a reused context means. */
        ok = table_prepend(&table, key, i);
    }
    table_finish(&table);
    return ok;
}

/* ---- Messages between processes ---- */

static uint64_t text_hash(const char *text)
{
    uint64_t mixed = 1469598103934665603u;

    for (; *text; text++)
        mixed = (mixed ^ (unsigned char)*text) * 1099511628211u;
    return mixed;
}

/* Messages by tag, length and layer; the layer's name is compared besides. */
static struct queue_key message_key(const struct trace_model *model,
                                    const struct trace_event *event, uint64_t tag)
{
    return (struct queue_key){tag, text_hash(trace_layer(model, event)) ^ event->record.len * 31};
}

/* A queue's format may leave the tag out: then it is the one that the receive asked for, or that
 * its lower found. */
static uint64_t tag_that_came(const struct trace_model *model, const struct trace_event *done)
{
    const struct trace_event *call = &model->events[model->ops[done->op].call];

    return done->record.tag || call->key ? done->record.tag : call->record.tag;
}

static void arrive(struct trace_model *model, struct table *table, const struct trace_event *done)
{
    const uint64_t tag = tag_that_came(model, done);
    struct queue *queue = find(table, message_key(model, done, tag));
    int before = TRACE_NONE, steps = STEPS;

    for (int op = queue ? queue->head : TRACE_NONE; op != TRACE_NONE && steps--;
         before = op, op = table->next[op]) {
        const struct trace_event *call = &model->events[model->ops[op].call];

        if (call->file == done->file || call->record.len != done->record.len ||
            strcmp(trace_layer(model, call), trace_layer(model, done)) != 0)
            continue;
        table_remove(table, queue, op, before);
        model->ops[op].arrived = done->op;
        return;
    }
}

static bool link_messages(struct trace_model *model)
{
    struct table table = {NULL, NULL};
    bool ok;

    if (model->file_count < 2)
        return true;
    ok = table_init(&table, model->op_count);
    for (int i = 0; ok && i < model->event_count; i++) {
        const struct trace_event *event = &model->events[model->order[i]];

        if (event->op == TRACE_NONE)
            continue;
        if (trace_class_of(model, event) == TRACE_SEND)
            ok = table_append(&table, message_key(model, event, event->record.tag), event->op);
        else if (trace_is_completion(event) && is_receiving(model, event))
            arrive(model, &table, event);
    }
    table_finish(&table);
    return ok;
}

bool trace_link(struct trace_model *model)
{
    if (!model->file_count)
        return true;
    align_clocks(model);
    link_parents(model);
    return sort_events(model) && link_ops(model) && link_causes(model) && link_messages(model);
}
