/* SPDX-License-Identifier: BSD-2-Clause */
/* One process of a replay, and the state shared by the processes of one replay. */
#ifndef WEFT_REPLAY_RUN_H
#define WEFT_REPLAY_RUN_H

#include <stdatomic.h>

#include "replay_plan.h"

enum {
    REPLAY_ADDRESS_MAX = 248
};

/* In memory that all map; written by one each, read behind the meeting points. */
struct replay_shared {
    atomic_int met[3]; /* processes that have come to a meeting point */
    atomic_int failed;
    atomic_uint moves; /* posts and completions, of all */
    struct replay_address {
        uint32_t len;
        uint8_t bytes[REPLAY_ADDRESS_MAX];
    } * addresses; /* by endpoint of the plan */
    struct replay_target {
        uint64_t base, key;
    } * targets; /* by process */
    struct replay_result {
        char why[256];          /* why it failed; empty: it did not */
        int step;               /* of its process, the one it is at */
        int64_t first, last;    /* ns, of the monotonic clock */
        bool impatient;         /* some sends were not waited for: see replay_run.c */
        uint64_t other_lens;    /* receives that got another length than in the trace */
        uint64_t not_cancelled; /* operations that completed before their cancel */
    } * results;                /* by process */
};

struct replay_settings {
    const char *stack;
    bool pace;
    int timeout_s; /* without any progress */
};

/* In a child: replays process `index`. times: ns of each of its operations; -1 where it did not
 * complete. False: shared->results[index].why says why, unless another process failed first. */
bool replay_run(const struct replay_plan *plan, int index, const struct replay_settings *settings,
                struct replay_shared *shared, int64_t *times);

#endif
