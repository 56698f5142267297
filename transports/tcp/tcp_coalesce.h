/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records that wait for company. The first posts of a burst leave at once; those that follow
 * without a progress call in between may stay in the queue until the next progress call, or until
 * enough have gathered for one system call. An application that makes no further call is not relied
 * upon: one thread of the process sends what has waited for a millisecond.
 *
 * The holder of the progress domain's lock may touch a connection's queues, except while the stage
 * is open: then the thread may take it, send, and leave word of how much. The progress domain takes
 * it back before anything else.
 */
#ifndef WEFT_TCP_COALESCE_H
#define WEFT_TCP_COALESCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/list.h"

struct tcp_conn;

enum tcp_coalesce_state {
    TCP_COALESCE_OURS,  /* the progress domain's */
    TCP_COALESCE_OPEN,  /* free: either may take it */
    TCP_COALESCE_TAKEN, /* the thread's, for the time of one system call */
    TCP_COALESCE_SENT,  /* the progress domain's again; `ahead` bytes have left */
};

struct tcp_coalesce {
    struct list link; /* of those that the thread looks at; under the mutex of their list */
    bool joined;      /* link is in it, from the first wait on */
    struct tcp_conn *conn;
    /* One system call that takes nothing out of the queues. Bytes that have left, or negative with
     * errno. */
    ssize_t (*send)(struct tcp_coalesce *coalesce);
    atomic_uint state;
    atomic_uint
        turn;       /* counts flushes: the thread tells by it what has waited since its last look */
    unsigned seen;  /* the thread's: turn at that look */
    bool open;      /* state may be other than OURS */
    uint32_t epoch; /* of the set, when run began */
    uint32_t run;   /* posts since then */
    uint32_t bytes; /* of them, in the queue */
    uint32_t lead;  /* posts of a run that leave at once */
    uint32_t abstain; /* posts that leave at once, since the thread had to help */
    uint32_t penalty; /* the next abstain */
    long switches;    /* of the caller's thread, against its will, when it was last late */
    size_t ahead;     /* bytes that the thread has sent */
};

void tcp_coalesce_init(struct tcp_coalesce *coalesce, struct tcp_conn *conn,
                       ssize_t (*send)(struct tcp_coalesce *coalesce));
/* Forgets the connection: its socket closes. Progress domain locked, stage not open. */
void tcp_coalesce_leave(struct tcp_coalesce *coalesce);

/* May a record of size bytes, just queued, wait? company: it is like others that are under way,
 * whose answers its poster comes back for. Progress domain locked. */
bool tcp_coalesce_wants(struct tcp_coalesce *coalesce, size_t size, bool company);
/* The same for one that is not queued: true, and it is counted, if it is among those posts of a run
 * that leave at once; else nothing was done. */
static inline bool tcp_coalesce_passes(struct tcp_coalesce *coalesce, uint32_t epoch)
{
    uint32_t run = coalesce->epoch == epoch ? coalesce->run : 0;

    if (run >= coalesce->lead)
        return false;
    if (coalesce->epoch != epoch) {
        coalesce->epoch = epoch;
        coalesce->bytes = 0;
    }
    coalesce->run = run + 1;
    return true;
}
/* The queues are left to the thread, if it comes to that. */
void tcp_coalesce_open(struct tcp_coalesce *coalesce);
/* Many leave together: waiting is worth it. */
void tcp_coalesce_gathered(struct tcp_coalesce *coalesce);

/* Takes an open stage back; may wait for one system call of the thread. */
void tcp_coalesce_close(struct tcp_coalesce *coalesce);

#endif
