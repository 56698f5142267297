/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_EMULATOR_SRQ_H
#define WEFT_EMULATOR_SRQ_H

#include "object.h"
#include "recv_queue.h"

struct srq {
    struct ibv_srq srq;
    struct recv_queue queue;
    uint32_t limit;
    unsigned users;
    struct object object;
};

static inline struct srq *srq_of(struct ibv_srq *srq)
{
    return (struct srq *)(void *)srq;
}

/* Takes a receive, and reports that the limit was reached. The lock is held. */
const struct recv_wr *srq_take(struct srq *srq);

#endif
