/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From an fi_addr_t to an endpoint's state for that peer, in two loads on the data path. An
 * inserted address that is never used costs at most 8 bytes here, in chunks made on the first use
 * of an address in them. Not locked: the owner's progress domain lock covers it.
 */
#ifndef WEFT_CORE_AV_PEER_MAP_H
#define WEFT_CORE_AV_PEER_MAP_H

#include <stddef.h>

#include <rdma/fabric.h>

enum {
    PEER_MAP_CHUNK = 512
};

struct peer_map {
    void ***chunks; /* of PEER_MAP_CHUNK peers each; NULL: no address of it was used */
    size_t chunk_count;
};

/* Frees the chunks, not the peers. Takes a zeroed one. */
void peer_map_finish(struct peer_map *map);

/* The place of addr, an index as the AV has it (no receive context in its upper bits), which the
 * caller sets; NULL without memory. Valid until peer_map_finish. */
void **peer_map_slot(struct peer_map *map, fi_addr_t addr);
/* The first address from addr on that has a peer, or FI_ADDR_NOTAVAIL. */
fi_addr_t peer_map_next(const struct peer_map *map, fi_addr_t addr);

/* The peer of any fi_addr_t, or NULL. */
static inline void *peer_map_at(const struct peer_map *map, fi_addr_t addr)
{
    uint64_t index = addr / PEER_MAP_CHUNK;

    if (__builtin_expect(index >= map->chunk_count || !map->chunks[index], 0))
        return NULL;
    return map->chunks[index][addr % PEER_MAP_CHUNK];
}

#endif
