/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which calls go wrong. Chances are decided by the seed, the number of the endpoint and that of the
 * call on it: one seed, one course, as long as each endpoint sees the same calls.
 */
#ifndef WEFT_FAULT_PLAN_H
#define WEFT_FAULT_PLAN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_endpoint.h>

#include "core/base/list.h"
#include "core/param/param.h"

/* The fates of a message that chance decides. */
enum fault_chance {
    FAULT_REFUSE, /* by the number of the call; the others by that of the accepted message */
    FAULT_DROP,
    FAULT_DUP,
    FAULT_REORDER,
    FAULT_CORRUPT,
    FAULT_CHANCES,
};

/* The calls that `fail` can name. */
enum fault_call {
    FAULT_SEND,
    FAULT_RECV,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_ATOMIC,
    FAULT_COLLECTIVE,
    FAULT_DOMAIN,
    FAULT_ENDPOINT,
    FAULT_CQ,
    FAULT_CNTR,
    FAULT_AV,
    FAULT_MR,
    FAULT_EQ,
    FAULT_CONNECT,
    FAULT_CALLS,
};

enum {
    FAULT_FAILURES = 64
};

struct fault_plan {
    uint64_t seed;
    uint32_t chance[FAULT_CHANCES]; /* millionths */
    bool force;
    uint64_t delay_ns;
    uint64_t kill_conn; /* number of the send; 0: none */
    bool loses;         /* it changes which messages arrive, or how */
    struct fault_failure {
        enum fault_call call;
        uint64_t number; /* of the call */
    } failures[FAULT_FAILURES];
    unsigned failure_count;
    bool fails[FAULT_CALLS];        /* is there a failure of it? */
    _Atomic(struct fid_ep *) ended; /* by kill_conn, and open */
    atomic_uint_fast64_t calls[FAULT_CALLS], sends, endpoints;
    /* Of what becomes of messages (fault_wire.c): sent, waiting, done with. */
    pthread_mutex_t mutex;
    struct list copies, held, done;
    unsigned copy_count;
};

/* -FI_EINVAL with a sentence in why. */
int fault_plan_init(struct fault_plan *plan, const struct params *params, char *why,
                    size_t why_size);
/* Is the text a value of `fail`? The same errors; for the table of parameters. */
int fault_plan_check_fail(const char *text, char *why, size_t why_size);
void fault_plan_finish(struct fault_plan *plan);

/* Counts a call, and says whether it is one that fails. */
bool fault_plan_fails(struct fault_plan *plan, enum fault_call call);
/* Whether that happens to number `n` of endpoint `ep`. */
bool fault_plan_happens(const struct fault_plan *plan, enum fault_chance chance, uint64_t ep,
                        uint64_t n);
/* Any number, the same for the same message. */
uint64_t fault_plan_random(const struct fault_plan *plan, uint64_t ep, uint64_t n);
/* Why endpoints as in info cannot be under this plan, or NULL. The lower's contract decides, unless
 * `force` is set. */
const char *fault_plan_objection(const struct fault_plan *plan, const struct fi_info *info);
/* Counts an accepted send, and says whether its connection is to be ended. */
bool fault_plan_kills(struct fault_plan *plan);

#endif
