/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of a few sizes that is used again, and of which a sanitizer sees accesses beyond it, and
 * those after its end. */
#ifndef WEFT_TESTS_FUZZ_ROOM_H
#define WEFT_TESTS_FUZZ_ROOM_H

#include <string.h>

#include "tests/fuzz/input.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(at, len) ((void)(at), (void)(len))
#define ASAN_UNPOISON_MEMORY_REGION(at, len) ((void)(at), (void)(len))
#endif

enum {
    ROOM_SIZES = 32,
    ROOM_ENDED = 64, /* of each size */
    ROOM_KEPT = 16   /* of these, before the first is used again */
};

/* Ended memory of one size, oldest first from `next` on. */
struct rooms {
    size_t size;
    unsigned count, next;
    uint8_t *kept[ROOM_ENDED];
};

static struct rooms rooms[ROOM_SIZES];

static inline struct rooms *rooms_of(size_t size)
{
    for (unsigned i = 0; i < ROOM_SIZES; i++) {
        if (!rooms[i].size)
            rooms[i].size = size;
        if (rooms[i].size == size)
            return &rooms[i];
    }
    must(0);
    return NULL;
}

/* Zeroed; put back by room_put with the same length. */
static inline uint8_t *room_get(size_t len)
{
    size_t size = len ? len : 1;
    struct rooms *of = rooms_of(size);
    uint8_t *bytes;

    if (of->count < ROOM_KEPT)
        return (uint8_t *)get(size);
    of->count--;
    bytes = of->kept[of->next];
    of->next = (of->next + 1) % ROOM_ENDED;
    ASAN_UNPOISON_MEMORY_REGION(bytes, size);
    memset(bytes, 0, size);
    return bytes;
}

static inline void room_put(uint8_t *bytes, size_t len)
{
    size_t size = len ? len : 1;
    struct rooms *of = rooms_of(size);

    if (of->count == ROOM_ENDED) {
        free(bytes);
        return;
    }
    ASAN_POISON_MEMORY_REGION(bytes, size);
    of->kept[(of->next + of->count++) % ROOM_ENDED] = bytes;
}

#endif
