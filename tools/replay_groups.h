/* SPDX-License-Identifier: BSD-2-Clause */
/* The members of each group, in all processes: between the two files of groups. */
#ifndef WEFT_REPLAY_GROUPS_H
#define WEFT_REPLAY_GROUPS_H

#include "replay_plan.h"

struct replay_join {
    int file;
    uint32_t object; /* the endpoint */
    uint64_t number; /* of the group's object in its file */
    int called, joined;
    uint32_t size, rank;
    uint64_t common, addr;
    const uint64_t *members;
    int turn;        /* how many it has made before of these members */
    int all;         /* in replay_groups.all; TRACE_NONE */
    int place;       /* in its process, where the group is complete; TRACE_NONE */
    int first, last; /* of its collectives, by next_of */
};

/* The joins of all members. */
struct replay_whole {
    uint64_t common;
    uint32_t size, there;
    int turn;
    bool damaged;
    int *join; /* by rank */
};

struct replay_groups {
    const struct trace_model *model;
    struct replay_join *joins; /* of all processes */
    struct replay_whole *all;
    int join_count, all_count, largest; /* largest: most members of a group */
    int *join_of, *next_of;             /* by operation of the model */
    bool *alike;
};

/* Sets joins, all and their counts; layer: as replay_groups_find. False without memory. */
bool replay_joins_find(struct replay_groups *groups, const int *layer);

/* All members are there, once each. */
static inline bool replay_is_whole(const struct replay_whole *whole)
{
    return !whole->damaged && whole->there == whole->size;
}

#endif
