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
    STEPS = 4096 /* that are gone through equal hashes, at most */
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

struct table {
    int *heads, *tails, *next; /* of operations, by hash */
    unsigned mask;
};

static bool table_init(struct table *table, int entries)
{
    unsigned size = 64;

    while (size < (unsigned)entries && size < 1u << 24)
        size *= 2;
    table->mask = size - 1;
    table->heads = malloc(size * sizeof(int));
    table->tails = malloc(size * sizeof(int));
    table->next = calloc((size_t)entries + 1, sizeof(int));
    if (!table->heads || !table->tails || !table->next)
        return false;
    memset(table->heads, 0xff, size * sizeof(int)); /* TRACE_NONE */
    memset(table->tails, 0xff, size * sizeof(int));
    return true;
}

static void table_finish(struct table *table)
{
    free(table->heads);
    free(table->tails);
    free(table->next);
}

static unsigned hash(const struct table *table, uint64_t a, uint64_t b)
{
    uint64_t mixed = (a ^ (b << 48) ^ (b * 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;

    return (unsigned)(mixed >> 32) & table->mask;
}

static void table_add(struct table *table, unsigned slot, int op)
{
    table->next[op] = TRACE_NONE;
    if (table->heads[slot] == TRACE_NONE)
        table->heads[slot] = op;
    else
        table->next[table->tails[slot]] = op;
    table->tails[slot] = op;
}

static void table_remove(struct table *table, unsigned slot, int op, int before)
{
    if (before == TRACE_NONE)
        table->heads[slot] = table->next[op];
    else
        table->next[before] = table->next[op];
    if (table->tails[slot] == op)
        table->tails[slot] = before;
}

static bool is_receiving(const struct trace_model *model, const struct trace_event *event)
{
    if (trace_is_call(event))
        return trace_class_of(model, event) == TRACE_RECV;
    return (event->record.inside & (FI_RECV | FI_MULTI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE)) !=
           0;
}

/* Layer and direction, as the second half of a key. */
static uint64_t side(const struct trace_model *model, const struct trace_event *event)
{
    return (uint64_t)event->file << 20 | (uint64_t)event->record.layer << 2 |
           (uint64_t)is_receiving(model, event);
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
    uint64_t key = side(model, event);
    unsigned slot = hash(table, event->record.context, key);
    int before = TRACE_NONE, steps = STEPS;

    for (int op = table->heads[slot]; op != TRACE_NONE && steps--;
         before = op, op = table->next[op]) {
        const struct trace_event *call = &model->events[model->ops[op].call];

        if (call->record.context != event->record.context || side(model, call) != key ||
            !may_end(model, call, event))
            continue;
        if (!goes_on(model, call, event))
            table_remove(table, slot, op, before);
        model->ops[op].done = index;
        event->op = op;
        return;
    }
}

static bool link_ops(struct trace_model *model)
{
    struct table table = {0};
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
            table_add(&table, hash(&table, event->record.context, side(model, event)), op);
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

static bool link_causes(struct trace_model *model)
{
    struct table table = {0};
    bool ok = table_init(&table, model->op_count);

    for (int i = 0; ok && i < model->op_count; i++) {
        struct trace_op *op = &model->ops[i];
        const struct trace_event *call = &model->events[op->call];
        unsigned slot = hash(&table, call->record.context, (uint64_t)call->file);
        int steps = call->record.context ? STEPS / 64 : 0;

        op->cause = cause_by_nesting(model, op->call);
        for (int up = table.heads[slot]; op->cause == TRACE_NONE && up != TRACE_NONE && steps--;
             up = table.next[up]) {
            const struct trace_event *other = &model->events[model->ops[up].call];

            if (other->record.context == call->record.context && other->file == call->file &&
                other->record.layer != call->record.layer &&
                under_way(model, &model->ops[up], call->ns))
                op->cause = up;
        }
        /* The newest first is what a reused context means. */
        table.next[i] = table.heads[slot];
        table.heads[slot] = i;
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

static uint64_t message_key(const struct trace_model *model, const struct trace_event *event,
                            uint64_t len)
{
    return text_hash(trace_layer(model, event)) ^ len * 31;
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
    unsigned slot = hash(table, tag, message_key(model, done, done->record.len));
    int before = TRACE_NONE, steps = STEPS;

    for (int op = table->heads[slot]; op != TRACE_NONE && steps--;
         before = op, op = table->next[op]) {
        const struct trace_event *call = &model->events[model->ops[op].call];

        if (call->file == done->file || call->record.tag != tag ||
            call->record.len != done->record.len ||
            strcmp(trace_layer(model, call), trace_layer(model, done)) != 0)
            continue;
        table_remove(table, slot, op, before);
        model->ops[op].arrived = done->op;
        return;
    }
}

static bool link_messages(struct trace_model *model)
{
    struct table table = {0};
    bool ok;

    if (model->file_count < 2)
        return true;
    ok = table_init(&table, model->op_count);
    for (int i = 0; ok && i < model->event_count; i++) {
        const struct trace_event *event = &model->events[model->order[i]];

        if (event->op == TRACE_NONE)
            continue;
        if (trace_class_of(model, event) == TRACE_SEND)
            table_add(&table,
                      hash(&table, event->record.tag, message_key(model, event, event->record.len)),
                      event->op);
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
