/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Schedules of collectives: what member `rank` of `size` copies, combines, sends and receives,
 * round by round. Pure: no memory, no endpoint. In a round copies and reductions are done first, in
 * order; then all transfers are posted; the next round begins when they have ended. Between two
 * members messages of one round arrive where the same round of the other has them, so a round's
 * number and the sender identify a message within a collective.
 */
#ifndef WEFT_COLL_PLAN_H
#define WEFT_COLL_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum coll_algorithm {
    COLL_BARRIER,            /* dissemination */
    COLL_BROADCAST,          /* binomial tree */
    COLL_ALLTOALL,           /* pairs, some at once */
    COLL_ALLREDUCE_DOUBLING, /* recursive doubling */
    COLL_ALLREDUCE_RING,     /* ring of reductions, ring of the results */
    COLL_ALLGATHER_BRUCK,
    COLL_ALLGATHER_RING,
    COLL_REDUCE_SCATTER, /* pairs */
    COLL_REDUCE,         /* binomial tree, as are these two: */
    COLL_SCATTER,
    COLL_GATHER,
};

/*
 * count is of elements, of which IN and OUT hold
 *      broadcast                   OUT count (the root's data, and where it goes)
 *      alltoall                    IN and OUT size * count
 *      allreduce, reduce           IN and OUT count (OUT of reduce: at the root)
 *      allgather, gather           IN count, OUT size * count (OUT of gather: at the root)
 *      reduce_scatter, scatter     IN size * count (of scatter: at the root), OUT count
 * in the order of ranks.
 */
struct coll_plan {
    enum coll_algorithm algorithm;
    uint32_t rank, size, root;
    size_t count;
};

enum coll_space {
    COLL_IN,
    COLL_OUT,
    COLL_SCRATCH,
};

struct coll_place {
    enum coll_space space;
    size_t at; /* element */
};

enum coll_step_kind {
    COLL_COPY,   /* to = from */
    COLL_FOLD,   /* to = to op from */
    COLL_FOLD_L, /* to = from op to */
    COLL_SEND,   /* from, to member `peer` */
    COLL_RECV,   /* into to, from member `peer` */
};

struct coll_step {
    enum coll_step_kind kind;
    uint32_t peer;
    struct coll_place to, from;
    size_t count;
};

enum {
    COLL_STEPS_MAX = 12,
    COLL_MEMBERS_MAX = 65536,
};

/* At least 1. */
uint32_t coll_plan_rounds(const struct coll_plan *plan);
/* Elements of scratch memory that the schedule uses. */
size_t coll_plan_scratch(const struct coll_plan *plan);
/* The steps of a round below coll_plan_rounds; how many. */
unsigned coll_plan_round(const struct coll_plan *plan, uint32_t round,
                         struct coll_step steps[COLL_STEPS_MAX]);

#endif
