/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "recv_queue.h"
#include "report.h"

bool recv_queue_init(struct recv_queue *queue, uint32_t size, uint32_t max_sge)
{
    memset(queue, 0, sizeof(*queue));
    queue->size = size;
    queue->max_sge = max_sge;
    if (size == 0)
        return true;
    queue->ring = calloc(size, sizeof(*queue->ring));
    queue->sges = calloc((size_t)size * (max_sge ? max_sge : 1), sizeof(*queue->sges));
    for (uint32_t i = 0; queue->ring && i < size; i++)
        queue->ring[i].sges = queue->sges + (size_t)i * max_sge;
    if (queue->ring && queue->sges)
        return true;
    recv_queue_finish(queue);
    return false;
}

void recv_queue_finish(struct recv_queue *queue)
{
    free(queue->ring);
    free(queue->sges);
    memset(queue, 0, sizeof(*queue));
}

void recv_queue_clear(struct recv_queue *queue)
{
    queue->head = queue->count = queue->used = 0;
}

static int post_one(struct recv_queue *queue, const struct ibv_recv_wr *wr)
{
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue->max_sge) {
        report_why("post_recv: %d segments, at most %u", wr->num_sge, queue->max_sge);
        return EINVAL;
    }
    if (queue->used == queue->size) {
        report_why("post_recv: all %u places are taken", queue->size);
        return ENOMEM;
    }
    struct recv_wr *at = &queue->ring[(queue->head + queue->count) % queue->size];
    at->wr_id = wr->wr_id;
    at->num_sge = wr->num_sge;
    if (wr->num_sge)
        memcpy(at->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*at->sges));
    queue->count++;
    queue->used++;
    return 0;
}

int recv_queue_post(struct recv_queue *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    for (; wr; wr = wr->next) {
        int rc = post_one(queue, wr);
        if (rc) {
            *bad = wr;
            return rc;
        }
    }
    return 0;
}

const struct recv_wr *recv_queue_take(struct recv_queue *queue)
{
    if (queue->count == 0)
        return NULL;
    const struct recv_wr *wr = &queue->ring[queue->head];
    queue->head = (queue->head + 1) % queue->size;
    queue->count--;
    return wr;
}
