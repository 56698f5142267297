/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_buffers.h"

#include <stdlib.h>

#include "core/log.h"

enum {
    ALIGNMENT = 64
};

struct rxm_chunk {
    _Alignas(ALIGNMENT) struct rxm_chunk *next;
    struct fid_mr *mr;
};

void rxm_buffers_init(struct rxm_buffers *buffers, struct fid_domain *domain, size_t item_size,
                      unsigned first, unsigned most)
{
    *buffers = (struct rxm_buffers){
        .domain = domain,
        .item_size = (item_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
        .first = first,
        .most = most,
    };
}

void rxm_buffers_finish(struct rxm_buffers *buffers)
{
    while (buffers->chunks) {
        struct rxm_chunk *chunk = buffers->chunks;

        buffers->chunks = chunk->next;
        if (chunk->mr)
            fi_close(&chunk->mr->fid);
        free(chunk);
    }
    buffers->free = NULL;
    buffers->count = 0;
}

static int register_chunk(struct rxm_buffers *buffers, struct rxm_chunk *chunk, size_t size)
{
    chunk->mr = NULL;
    if (!buffers->domain)
        return 0;
    return fi_mr_reg(buffers->domain, chunk + 1, size, FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 0,
                     0, &chunk->mr, NULL);
}

void *rxm_buffers_grow(struct rxm_buffers *buffers)
{
    size_t items = buffers->count ? buffers->count : buffers->first;
    struct rxm_chunk *chunk;
    void *desc;
    int rc;

    if (items > buffers->most)
        items = buffers->most;
    chunk = aligned_alloc(ALIGNMENT, sizeof(*chunk) + items * buffers->item_size);
    if (!chunk)
        return NULL;
    rc = register_chunk(buffers, chunk, items * buffers->item_size);
    if (rc) {
        LOG_WARN("rxm", FI_LOG_EP_DATA, ": cannot register buffers: %s", fi_strerror(-rc));
        free(chunk);
        return NULL;
    }
    chunk->next = buffers->chunks;
    buffers->chunks = chunk;
    buffers->count += items;
    desc = chunk->mr ? fi_mr_desc(chunk->mr) : NULL;
    for (size_t i = items; i > 0; i--) {
        struct rxm_buffer *item = (void *)((char *)(chunk + 1) + (i - 1) * buffers->item_size);

        item->desc = desc;
        item->next = buffers->free;
        buffers->free = item;
    }
    return rxm_buffers_get(buffers);
}
