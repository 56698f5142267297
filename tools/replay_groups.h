/* SPDX-License-Identifier: BSD-2-Clause */
/* Who joined which group, in all processes: between the two files of groups. */
#ifndef WEFT_REPLAY_GROUPS_H
#define WEFT_REPLAY_GROUPS_H

#include "replay_plan.h"

enum {
    REPLAY_JOINS = 1024 /* of all processes; those after are not known */
};

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
    int join[TRACE_FILES]; /* by rank */
};

struct replay_groups {
    const struct trace_model *model;
    struct replay_join joins[REPLAY_JOINS];
    struct replay_whole all[REPLAY_JOINS];
    int join_count, all_count;
    int *join_of, *next_of; /* by operation of the model */
    bool *alike;
};

/* Sets joins, all and their counts; layer: as replay_groups_find. */
void replay_joins_find(struct replay_groups *groups, const int *layer);

/* All members are there, once each. */
static inline bool replay_is_whole(const struct replay_whole *whole)
{
    return !whole->damaged && whole->there == whole->size;
}

#endif
