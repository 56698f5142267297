/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ep/recv_queue.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

enum {
    FIRST_CAPACITY = 16
};

static int grow(struct recv_queue *queue)
{
    size_t capacity = queue->capacity ? 2 * queue->capacity : FIRST_CAPACITY;
    size_t count = recv_queue_count(queue);
    struct posted_recv *ring = malloc(capacity * sizeof(*ring));

    if (!ring)
        return -FI_ENOMEM;
    for (size_t i = 0; i < count; i++)
        ring[i] = *recv_queue_at(queue, i);
    free(queue->ring);
    queue->ring = ring;
    queue->capacity = capacity;
    queue->head = 0;
    queue->tail = count;
    return 0;
}

int posted_recv_fill(struct posted_recv *recv, const struct endpoint *ep, const struct op *op)
{
    uint64_t flags = op_final_flags(op, ep->rx_op_flags);

    recv->multi = flags & FI_MULTI_RECV;
    if (recv->multi && op->count != 1)
        return -FI_EINVAL;
    recv->context = op->context;
    recv->wanted = completion_wanted(ep->binding.rx_selective, flags);
    recv->room = op->len;
    recv->offset = 0;
    recv->min = ep->min_multi_recv;
    recv->count = op->count;
    for (size_t i = 0; i < op->count; i++)
        recv->iov[i] = op->iov[i];
    return 0;
}

int recv_queue_next(struct recv_queue *queue, struct posted_recv **rx)
{
    size_t count = recv_queue_count(queue);
    int rc;

    if (count >= queue->most)
        return -FI_EAGAIN;
    if (count == queue->capacity) {
        rc = grow(queue);
        if (rc)
            return rc;
    }
    *rx = recv_queue_at(queue, count);
    return 0;
}

bool recv_queue_take(struct recv_queue *queue, const void *context, struct posted_recv *taken)
{
    size_t count = recv_queue_count(queue), place = 0;

    while (place < count && recv_queue_at(queue, place)->context != context)
        place++;
    if (place == count)
        return false;
    *taken = *recv_queue_at(queue, place);
    for (; place + 1 < count; place++)
        *recv_queue_at(queue, place) = *recv_queue_at(queue, place + 1);
    queue->tail--;
    return true;
}

int recv_queue_cancel(struct recv_queue *queue, struct binding *binding, void *context)
{
    struct fi_cq_err_entry entry = {
        .op_context = context,
        .flags = FI_MSG | FI_RECV,
        .err = FI_ECANCELED,
        .prov_errno = FI_ECANCELED,
        .src_addr = FI_ADDR_NOTAVAIL,
    };
    struct posted_recv recv;

    if (!recv_queue_take(queue, context, &recv))
        return -FI_ENOENT;
    if (recv.multi)
        entry.flags |= FI_MULTI_RECV;
    complete_error(binding, BIND_RECV, &entry);
    return 0;
}

void recv_queue_finish(struct recv_queue *queue)
{
    free(queue->ring);
    *queue = (struct recv_queue){.most = queue->most};
}
