/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers for objects that a peer names in its answers. A number is the index of a slot and, above
 * it, the slot's generation: how often the slot was used before. A late or invented number finds
 * nothing. Slots grow by doubling and are reused last in, first out. Not locked: the owner's
 * progress domain lock covers it.
 */
#ifndef WEFT_CORE_BASE_IDS_H
#define WEFT_CORE_BASE_IDS_H

#include <stddef.h>
#include <stdint.h>

#define IDS_NONE UINT64_MAX /* never a number */

struct id_slot {
    void *item;          /* NULL: free */
    uint32_t generation; /* wraps */
    uint32_t next;       /* of a free slot: the next one, or ids.count */
};

struct ids {
    struct id_slot *slots;
    uint32_t count, free; /* slots; the first free one, or count */
    uint8_t index_bits;   /* 1 to 31 */
    uint64_t mask;        /* of the bits that a number has */
};

/* Numbers of id_bits (at most 64) bits, the lower index_bits of which are the index: at most
 * 2^index_bits objects at a time. Allocates nothing yet. */
void ids_init(struct ids *ids, unsigned index_bits, unsigned id_bits);
/* Takes a zeroed one. */
void ids_finish(struct ids *ids);

/* Out of line: doubles the slots. 0, or -FI_ENOMEM: no memory, or the index has no more bits. */
int ids_grow(struct ids *ids);

static inline uint64_t ids_number(const struct ids *ids, uint32_t index)
{
    return ((uint64_t)ids->slots[index].generation << ids->index_bits | index) & ids->mask;
}

/* The number of item (not NULL) until ids_remove; IDS_NONE: without memory, or too many. */
static inline uint64_t ids_add(struct ids *ids, void *item)
{
    uint32_t index = ids->free;

    if (__builtin_expect(index == ids->count, 0) && ids_grow(ids))
        return IDS_NONE;
    ids->free = ids->slots[index].next;
    ids->slots[index].item = item;
    return ids_number(ids, index);
}

/* The item of any number, from wherever it comes; NULL: there is none. */
static inline void *ids_find(const struct ids *ids, uint64_t id)
{
    uint64_t index = id & ((UINT64_C(1) << ids->index_bits) - 1);

    if (index >= ids->count || ids_number(ids, (uint32_t)index) != id)
        return NULL;
    return ids->slots[index].item;
}

/* A number that ids_add gave. */
static inline void ids_remove(struct ids *ids, uint64_t id)
{
    uint32_t index = (uint32_t)(id & ((UINT64_C(1) << ids->index_bits) - 1));
    struct id_slot *slot = &ids->slots[index];

    slot->item = NULL;
    slot->generation++;
    slot->next = ids->free;
    ids->free = index;
}

#endif
