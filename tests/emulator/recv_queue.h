/* SPDX-License-Identifier: BSD-2-Clause */
/* Posted receives, of a queue pair or of a shared receive queue. The lock of the loop is held. */
#ifndef WEFT_EMULATOR_RECV_QUEUE_H
#define WEFT_EMULATOR_RECV_QUEUE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct recv_wr {
    uint64_t wr_id;
    int num_sge;
    struct ibv_sge *sges;
};

struct recv_queue {
    struct recv_wr *ring;
    struct ibv_sge *sges; /* max_sge for each place of the ring */
    uint32_t size, max_sge;
    uint32_t head, count;
    uint32_t used; /* places whose completion was not polled yet: what a device counts as taken */
};

bool recv_queue_init(struct recv_queue *queue, uint32_t size, uint32_t max_sge);
void recv_queue_finish(struct recv_queue *queue);
void recv_queue_clear(struct recv_queue *queue);

/* Adds a list; 0, or an errno value and *bad. */
int recv_queue_post(struct recv_queue *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* The oldest one, valid until the place is polled free; NULL if there is none. */
const struct recv_wr *recv_queue_take(struct recv_queue *queue);

#endif
