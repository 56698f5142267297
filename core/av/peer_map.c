/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/av/peer_map.h"

#include <stdlib.h>
#include <string.h>

void peer_map_finish(struct peer_map *map)
{
    for (size_t i = 0; i < map->chunk_count; i++)
        free(map->chunks[i]);
    free(map->chunks);
    memset(map, 0, sizeof(*map));
}

void **peer_map_slot(struct peer_map *map, fi_addr_t addr)
{
    size_t index = addr / PEER_MAP_CHUNK;

    if (index >= map->chunk_count) {
        size_t count = index + 1;
        void ***chunks = realloc(map->chunks, count * sizeof(*chunks));

        if (!chunks)
            return NULL;
        memset(chunks + map->chunk_count, 0, (count - map->chunk_count) * sizeof(*chunks));
        map->chunks = chunks;
        map->chunk_count = count;
    }
    if (!map->chunks[index])
        map->chunks[index] = calloc(PEER_MAP_CHUNK, sizeof(void *));
    return map->chunks[index] ? &map->chunks[index][addr % PEER_MAP_CHUNK] : NULL;
}

fi_addr_t peer_map_next(const struct peer_map *map, fi_addr_t addr)
{
    for (; addr / PEER_MAP_CHUNK < map->chunk_count; addr++) {
        if (peer_map_at(map, addr))
            return addr;
    }
    return FI_ADDR_NOTAVAIL;
}
