/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that the lower sends from and receives into: items of one size, in chunks that grow with
 * use, registered where the lower wants that (FI_MR_LOCAL). Unit locked.
 */
#ifndef WEFT_LAYERS_RXM_BUFFERS_H
#define WEFT_LAYERS_RXM_BUFFERS_H

#include <stddef.h>

#include <rdma/fi_domain.h>

struct rxm_chunk;

/* At the start of every item. */
struct rxm_buffer {
    struct rxm_buffer *next; /* of those that are free */
    void *desc;              /* of the memory, for the lower; NULL: none is needed */
};

struct rxm_buffers {
    struct fid_domain *domain; /* to register with, or NULL */
    size_t item_size;          /* with struct rxm_buffer; a multiple of 64 */
    unsigned first, most;      /* items of the first chunk, and of any */
    size_t count, used;
    struct rxm_buffer *free;
    struct rxm_chunk *chunks;
};

/* Allocates nothing yet. */
void rxm_buffers_init(struct rxm_buffers *buffers, struct fid_domain *domain, size_t item_size,
                      unsigned first, unsigned most);
void rxm_buffers_finish(struct rxm_buffers *buffers); /* takes a zeroed one */

/* Out of line: one more chunk. NULL without memory. */
void *rxm_buffers_grow(struct rxm_buffers *buffers);

/* An item, undefined but for its struct rxm_buffer; NULL without memory. */
static inline void *rxm_buffers_get(struct rxm_buffers *buffers)
{
    struct rxm_buffer *item = buffers->free;

    if (__builtin_expect(!item, 0))
        return rxm_buffers_grow(buffers);
    buffers->free = item->next;
    buffers->used++;
    return item;
}

static inline void rxm_buffers_put(struct rxm_buffers *buffers, void *ptr)
{
    struct rxm_buffer *item = ptr;

    item->next = buffers->free;
    buffers->free = item;
    buffers->used--;
}

#endif
