/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups of collectives, across processes. A trace says of a join how many members the group has,
 * the endpoint's rank, its addresses of the others, and a number that is the same for all members.
 * Joins with that number and size are one group when they are the same one in the order of each
 * member; it can be replayed when every member's is there.
 */
#include <stdlib.h>

#include <rdma/fabric.h>

#include "replay_groups.h"

/* ---- Joins ---- */

static void add_call(struct replay_groups *groups, int index, const struct trace_event *event)
{
    groups->joins[groups->join_count++] = (struct replay_join){.file = event->file,
                                                               .object = event->record.object,
                                                               .number = event->record.buf,
                                                               .called = index,
                                                               .joined = TRACE_NONE,
                                                               .all = TRACE_NONE,
                                                               .place = TRACE_NONE,
                                                               .first = TRACE_NONE,
                                                               .last = TRACE_NONE};
}

static void add_completion(struct replay_groups *groups, int index, const struct trace_event *event)
{
    for (int i = groups->join_count; i--;) {
        struct replay_join *join = &groups->joins[i];

        if (join->file != event->file || join->number != event->record.tag ||
            join->joined != TRACE_NONE)
            continue;
        if (event->flags >= event->record.len || (uint64_t)event->member_count != event->record.len)
            return; /* more members than a trace lists, or damaged */
        join->joined = index;
        join->size = (uint32_t)event->record.len;
        join->rank = (uint32_t)event->flags;
        join->common = event->data;
        join->addr = event->record.peer;
        join->members = groups->model->members + event->members;
        if (event->member_count > groups->largest)
            groups->largest = event->member_count;
        return;
    }
}

static bool is_same(const struct replay_join *one, const struct replay_join *two)
{
    return one->common == two->common && one->size == two->size && one->rank == two->rank &&
           one->file == two->file && one->object == two->object;
}

static bool make_room(struct replay_groups *groups)
{
    const struct trace_model *model = groups->model;
    size_t room = 1;

    for (int i = 0; i < model->event_count; i++)
        room += replay_is_join(model, &model->events[i]);
    groups->joins = calloc(room, sizeof(*groups->joins));
    groups->all = calloc(room, sizeof(*groups->all));
    return groups->joins && groups->all;
}

/* Joins that did not complete have no members, and take no turn. */
static void find_joins(struct replay_groups *groups, const int *layer)
{
    const struct trace_model *model = groups->model;

    for (int i = 0; i < model->event_count; i++) {
        const struct trace_event *event = &model->events[model->order[i]];

        if (event->record.layer != layer[event->file] || event->record.result < 0)
            continue;
        if (replay_is_join(model, event))
            add_call(groups, model->order[i], event);
        else if (trace_is_joined(event))
            add_completion(groups, model->order[i], event);
    }
    for (int i = 0; i < groups->join_count; i++)
        for (int before = 0; before < i; before++)
            groups->joins[i].turn += groups->joins[before].joined != TRACE_NONE &&
                                     is_same(&groups->joins[before], &groups->joins[i]);
}

/* ---- All members of a group ---- */

static struct replay_whole *whole_of(struct replay_groups *groups, const struct replay_join *join)
{
    struct replay_whole *whole;

    for (int i = 0; i < groups->all_count; i++) {
        whole = &groups->all[i];
        if (whole->common == join->common && whole->size == join->size && whole->turn == join->turn)
            return whole;
    }
    whole = &groups->all[groups->all_count]; /* at most one for each join */
    *whole = (struct replay_whole){.common = join->common, .size = join->size, .turn = join->turn};
    whole->join = calloc((size_t)join->size + 1, sizeof(*whole->join));
    if (!whole->join)
        return NULL;
    for (uint32_t i = 0; i < join->size; i++)
        whole->join[i] = TRACE_NONE;
    groups->all_count++;
    return whole;
}

/* An endpoint is one member, and a member is one endpoint: files may be given twice. */
static bool add_to_whole(struct replay_groups *groups, int number)
{
    struct replay_join *join = &groups->joins[number];
    struct replay_whole *whole = whole_of(groups, join);

    if (!whole || !whole->join)
        return false;
    join->all = (int)(whole - groups->all);
    for (uint32_t i = 0; i < whole->size; i++) {
        const struct replay_join *other =
            whole->join[i] == TRACE_NONE ? NULL : &groups->joins[whole->join[i]];

        whole->damaged |= other && ((other->file == join->file && other->object == join->object) ||
                                    i == join->rank);
    }
    if (whole->join[join->rank] == TRACE_NONE)
        whole->there++;
    whole->join[join->rank] = number;
    return true;
}

static bool find_wholes(struct replay_groups *groups)
{
    int *places = calloc((size_t)groups->model->file_count + 1, sizeof(*places));

    if (!places)
        return false;
    for (int i = 0; i < groups->join_count; i++) {
        if (groups->joins[i].joined != TRACE_NONE && !add_to_whole(groups, i)) {
            free(places);
            return false;
        }
    }
    for (int i = 0; i < groups->join_count; i++) {
        struct replay_join *join = &groups->joins[i];

        if (join->all != TRACE_NONE && replay_is_whole(&groups->all[join->all]))
            join->place = places[join->file]++;
    }
    free(places);
    return true;
}

bool replay_joins_find(struct replay_groups *groups, const int *layer)
{
    if (!make_room(groups))
        return false;
    find_joins(groups, layer);
    return find_wholes(groups);
}

/* ---- For the plan ---- */

static bool set_group(const struct replay_groups *groups, const struct replay_join *join,
                      struct replay_plan *plan)
{
    const struct replay_whole *whole = &groups->all[join->all];
    struct replay_group *group = &plan->processes[join->file].groups[join->place];

    *group = (struct replay_group){.size = join->size,
                                   .rank = join->rank,
                                   .members = malloc(join->size * sizeof(*group->members)),
                                   .addrs = malloc(join->size * sizeof(*group->addrs)),
                                   .called = join->called,
                                   .joined = join->joined};
    plan->processes[join->file].group_count++;
    if (!group->members || !group->addrs)
        return false;
    for (uint32_t i = 0; i < join->size; i++) {
        const struct replay_join *member = &groups->joins[whole->join[i]];

        group->addrs[i] = join->members[i];
        group->members[i] = replay_endpoint_of(plan, member->file, member->object);
        if (group->members[i] < 0)
            return false;
    }
    return true;
}

/* Of a file, that can be replayed. */
static size_t count_joins(const struct replay_groups *groups, int file)
{
    size_t count = 0;

    for (int i = 0; i < groups->join_count; i++)
        count += groups->joins[i].file == file && groups->joins[i].place != TRACE_NONE;
    return count;
}

bool replay_groups_set(const struct replay_groups *groups, struct replay_plan *plan)
{
    for (int i = 0; i < plan->process_count; i++) {
        plan->processes[i].groups = calloc(count_joins(groups, i) + 1, sizeof(struct replay_group));
        if (!plan->processes[i].groups)
            return false;
    }
    for (int i = 0; i < groups->join_count; i++) {
        const struct replay_join *join = &groups->joins[i];

        if (join->place == TRACE_NONE)
            continue;
        if (!set_group(groups, join, plan))
            return false;
        plan->collectives = true;
    }
    return true;
}
