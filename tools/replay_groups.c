/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The collectives of groups that all members' traces tell of (replay_joins.c). That is done again
 * which all of them called alike, in the same order: what one lacks, the others would wait for.
 */
#include <stdlib.h>

#include <rdma/fabric.h>
#include <rdma/fi_collective.h>

#include "replay_groups.h"

static const struct trace_event *call_of(const struct replay_groups *groups, int op)
{
    return &groups->model->events[groups->model->ops[op].call];
}

/* The newest group of the endpoint with that address: numbers are used again. */
static int join_of_call(const struct replay_groups *groups, const struct trace_event *call)
{
    for (int i = groups->join_count; i--;) {
        const struct replay_join *join = &groups->joins[i];

        if (join->joined != TRACE_NONE && join->file == call->file &&
            join->object == call->record.object && join->addr == call->record.peer &&
            groups->model->events[join->joined].ns <= call->ns)
            return i;
    }
    return TRACE_NONE;
}

static void find_collectives(struct replay_groups *groups, const int *layer)
{
    const struct trace_model *model = groups->model;

    for (int i = 0; i < model->op_count; i++) {
        const struct trace_event *call = call_of(groups, i);
        struct replay_join *join;

        groups->join_of[i] = groups->next_of[i] = TRACE_NONE;
        if (trace_class_of(model, call) != TRACE_COLLECTIVE || !call->typed ||
            call->record.layer != layer[call->file])
            continue;
        groups->join_of[i] = join_of_call(groups, call);
        if (groups->join_of[i] == TRACE_NONE)
            continue;
        join = &groups->joins[groups->join_of[i]];
        if (join->first == TRACE_NONE)
            join->first = i;
        else
            groups->next_of[join->last] = i;
        join->last = i;
    }
}

/* By rank; -1: it is no member. */
static int root_of(const struct replay_groups *groups, int op)
{
    const struct replay_join *join = &groups->joins[groups->join_of[op]];
    const struct trace_event *call = call_of(groups, op);

    for (uint32_t i = 0; i < join->size; i++)
        if (join->members[i] == call->key)
            return (int)i;
    return -1;
}

static bool has_root(unsigned which)
{
    return which == FI_BROADCAST || which == FI_REDUCE || which == FI_SCATTER || which == FI_GATHER;
}

static bool is_sound(const struct replay_groups *groups, int op)
{
    const struct trace_event *call = call_of(groups, op);
    const unsigned which = WEFT_TRACE_COLLECTIVE(call->elements);
    int done = groups->model->ops[op].done;

    if (done != TRACE_NONE && groups->model->events[done].record.result < 0)
        return false;
    if (which == FI_BARRIER)
        return true;
    return which <= FI_GATHER && call->record.len <= UINT32_MAX &&
           replay_element_size(WEFT_TRACE_DATATYPE(call->elements)) &&
           (!has_root(which) || root_of(groups, op) >= 0);
}

static bool are_alike(const struct replay_groups *groups, int one, int two)
{
    const struct trace_event *a = call_of(groups, one), *b = call_of(groups, two);
    const unsigned which = WEFT_TRACE_COLLECTIVE(a->elements);

    if (!is_sound(groups, two) || a->elements != b->elements)
        return false;
    return which == FI_BARRIER ||
           (a->record.len == b->record.len &&
            (!has_root(which) || root_of(groups, one) == root_of(groups, two)));
}

/* From the first of each member on, for as long as all did the same. at: room for all members. */
static void compare_members(struct replay_groups *groups, const struct replay_whole *whole, int *at)
{
    for (uint32_t i = 0; i < whole->size; i++)
        at[i] = groups->joins[whole->join[i]].first;
    for (;;) {
        for (uint32_t i = 0; i < whole->size; i++)
            if (at[i] == TRACE_NONE || !are_alike(groups, at[0], at[i]))
                return;
        for (uint32_t i = 0; i < whole->size; i++) {
            groups->alike[at[i]] = true;
            at[i] = groups->next_of[at[i]];
        }
    }
}

/* ---- All of it ---- */

static bool find(struct replay_groups *groups, const int *layer)
{
    const size_t room = (size_t)groups->model->op_count + 1;
    int *at;

    groups->join_of = calloc(room, sizeof(*groups->join_of));
    groups->next_of = calloc(room, sizeof(*groups->next_of));
    groups->alike = calloc(room, sizeof(*groups->alike));
    if (!groups->join_of || !groups->next_of || !groups->alike || !replay_joins_find(groups, layer))
        return false;
    find_collectives(groups, layer);
    at = malloc(((size_t)groups->largest + 1) * sizeof(*at));
    for (int i = 0; at && i < groups->all_count; i++)
        if (replay_is_whole(&groups->all[i]))
            compare_members(groups, &groups->all[i], at);
    if (!at)
        return false;
    free(at);
    return true;
}

struct replay_groups *replay_groups_find(const struct trace_model *model, const int *layer)
{
    struct replay_groups *groups = calloc(1, sizeof(*groups));

    if (!groups)
        return NULL;
    groups->model = model;
    if (!find(groups, layer)) {
        replay_groups_free(groups);
        return NULL;
    }
    return groups;
}

/* The sizes of a member's two buffers, fi_collective(3): the count, that of all members, or
 * nothing. */
static void set_extents(struct replay_op *op, const struct replay_join *join, uint64_t one)
{
    const uint64_t all = one * join->size;
    const bool root = (uint32_t)op->root == join->rank;

    switch (op->class) {
    case REPLAY_BARRIER: break;
    case REPLAY_BROADCAST: op->len = one; break;
    case REPLAY_ALLTOALL: op->len = op->result_len = all; break;
    case REPLAY_ALLREDUCE: op->len = op->result_len = one; break;
    case REPLAY_ALLGATHER:
        op->len = one;
        op->result_len = all;
        break;
    case REPLAY_REDUCE_SCATTER:
        op->len = all;
        op->result_len = one;
        break;
    case REPLAY_REDUCE:
        op->len = one;
        op->result_len = root ? one : 0;
        break;
    case REPLAY_SCATTER:
        op->len = root ? all : 0;
        op->result_len = one;
        break;
    default:
        op->len = one;
        op->result_len = root ? all : 0;
        break;
    }
}

enum replay_left replay_groups_read(const struct replay_groups *groups, int index,
                                    struct replay_op *op)
{
    const struct trace_event *call = call_of(groups, index);
    const struct replay_join *join;

    if (groups->join_of[index] == TRACE_NONE)
        return REPLAY_LEFT_COLLECTIVE;
    join = &groups->joins[groups->join_of[index]];
    if (join->place == TRACE_NONE)
        return REPLAY_LEFT_MEMBERS;
    if (!groups->alike[index])
        return REPLAY_LEFT_UNEVEN;
    op->class = (enum replay_class)(REPLAY_BARRIER + WEFT_TRACE_COLLECTIVE(call->elements));
    op->group = join->place;
    op->datatype = (uint16_t)WEFT_TRACE_DATATYPE(call->elements);
    op->atomic_op = (uint16_t)WEFT_TRACE_OP(call->elements);
    op->size = (uint16_t)replay_element_size(op->datatype);
    op->count = op->class == REPLAY_BARRIER ? 0 : call->record.len;
    op->root = op->class != REPLAY_BARRIER && has_root(WEFT_TRACE_COLLECTIVE(call->elements))
                   ? root_of(groups, index)
                   : 0;
    op->offset = call->record.buf;
    op->result = call->data;
    set_extents(op, join, op->count * op->size);
    return REPLAY_LEFT;
}

void replay_groups_free(struct replay_groups *groups)
{
    if (!groups)
        return;
    for (int i = 0; i < groups->all_count; i++)
        free(groups->all[i].join);
    free(groups->all);
    free(groups->joins);
    free(groups->join_of);
    free(groups->next_of);
    free(groups->alike);
    free(groups);
}
