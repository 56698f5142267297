/* SPDX-License-Identifier: BSD-2-Clause */
/* Records in a row, each in one queue at most. */
#ifndef WEFT_TCP_QUEUE_H
#define WEFT_TCP_QUEUE_H

#include "transports/tcp/tcp_op.h"

struct tcp_queue {
    struct tcp_op *first, **end;
    unsigned count;
};

static inline void tcp_queue_init(struct tcp_queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
    queue->count = 0;
}

static inline void tcp_queue_push(struct tcp_queue *queue, struct tcp_op *op)
{
    op->next = NULL;
    *queue->end = op;
    queue->end = &op->next;
    queue->count++;
}

/* Of one that is not empty. */
static inline struct tcp_op *tcp_queue_pop(struct tcp_queue *queue)
{
    struct tcp_op *op = queue->first;

    queue->first = op->next;
    if (!queue->first)
        queue->end = &queue->first;
    queue->count--;
    return op;
}

static inline void tcp_queue_move(struct tcp_queue *from, struct tcp_queue *to)
{
    while (from->first)
        tcp_queue_push(to, tcp_queue_pop(from));
}

#endif
