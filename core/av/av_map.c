/* SPDX-License-Identifier: BSD-2-Clause */
/* An fi_addr_t is an index, so each entry is its own place. Pages that are not filled cost nothing.
 */
#include "core/av/av_map.h"

#include <sys/mman.h>

#include <rdma/fi_errno.h>

enum {
    FILLED_LEAST = 4096,
    ROOM = 1 << 24
};

/* Where something is already, the kernel takes another place. */
static void *map_at(void *at, size_t entries)
{
    void *found = mmap(at, entries * sizeof(fi_addr_t), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (found == MAP_FAILED)
        return NULL;
    if (!at || found == at)
        return found;
    munmap(found, entries * sizeof(fi_addr_t));
    return NULL;
}

static void fill(struct av_map *map, size_t count)
{
    count = count < map->room ? count : map->room;
    for (; map->filled < count; map->filled++)
        map->entries[map->filled] = map->filled;
}

int av_map_open(struct av_map *map, void *at, size_t count)
{
    size_t least = count < FILLED_LEAST ? FILLED_LEAST : count < ROOM ? count : ROOM;

    *map = (struct av_map){.entries = map_at(at, ROOM), .room = ROOM};
    if (!map->entries)
        *map = (struct av_map){.entries = map_at(at, least), .room = least};
    if (!map->entries)
        return at ? 0 : -FI_ENOMEM;
    fill(map, least);
    return 0;
}

void av_map_cover(struct av_map *map, size_t limit)
{
    if (map->entries && limit > map->filled / 2)
        fill(map, limit > map->room / 2 ? map->room : 2 * limit);
}

void av_map_close(struct av_map *map)
{
    if (map->entries)
        munmap(map->entries, map->room * sizeof(fi_addr_t));
    *map = (struct av_map){0};
}
