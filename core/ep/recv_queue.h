/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receives posted to an endpoint, in their order: the first takes the next message, from any
 * sender, so that the message can arrive in its buffer directly. A multi-receive buffer stays first
 * until it is used up. Guarded by the endpoint's progress domain.
 */
#ifndef WEFT_CORE_EP_RECV_QUEUE_H
#define WEFT_CORE_EP_RECV_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/ep/endpoint.h"

enum {
    RECV_QUEUE_IOV = 8 /* segments of a receive */
};

struct posted_recv {
    void *context;
    bool wanted; /* a completion is */
    bool multi;
    size_t room;        /* bytes of all segments */
    size_t offset, min; /* multi: bytes used; bytes below which it is given back */
    size_t count;
    struct iovec iov[RECV_QUEUE_IOV];
};

struct recv_queue {
    struct posted_recv *ring; /* grows up to `most` */
    size_t capacity;          /* of the ring, a power of two; 0 at first */
    size_t head, tail;        /* count up for ever */
    size_t most;
};

static inline size_t recv_queue_count(const struct recv_queue *queue)
{
    return queue->tail - queue->head;
}

/* The place-th receive, which there is; 0: the first. */
static inline struct posted_recv *recv_queue_at(const struct recv_queue *queue, size_t place)
{
    return &queue->ring[(queue->head + place) & (queue->capacity - 1)];
}

/* Of op, a receive with at most RECV_QUEUE_IOV segments, posted to ep. -FI_EINVAL: a multi-receive
 * buffer has one segment. */
int posted_recv_fill(struct posted_recv *recv, const struct endpoint *ep, const struct op *op);

/* Room for one more, which the caller fills: not posted before recv_queue_push. -FI_EAGAIN: there
 * are `most`; -FI_ENOMEM. */
int recv_queue_next(struct recv_queue *queue, struct posted_recv **rx);
static inline void recv_queue_push(struct recv_queue *queue)
{
    queue->tail++;
}
static inline void recv_queue_pop(struct recv_queue *queue)
{
    queue->head++;
}
/* Takes the first receive with that context out of the queue. False: there is none. */
bool recv_queue_take(struct recv_queue *queue, const void *context, struct posted_recv *taken);
/* fi_cancel: the first with that context ends with FI_ECANCELED. 0, or -FI_ENOENT. */
int recv_queue_cancel(struct recv_queue *queue, struct binding *binding, void *context);
void recv_queue_finish(struct recv_queue *queue);

#endif
