/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "replay_plan.h"

#define MEMORY_MAX ((uint64_t)1 << 38)

bool replay_memory_add(struct replay_memory *memory, uint64_t start, uint64_t len)
{
    if (!len)
        return true;
    if (memory->count == memory->room) {
        int room = memory->room ? memory->room * 2 : 64;
        struct replay_piece *pieces = realloc(memory->pieces, (size_t)room * sizeof(*pieces));

        if (!pieces)
            return false;
        memory->pieces = pieces;
        memory->room = room;
    }
    memory->pieces[memory->count++] = (struct replay_piece){start, start + len, 0};
    return true;
}

static int by_start(const void *a, const void *b)
{
    const struct replay_piece *one = a, *two = b;

    return one->start < two->start ? -1 : one->start > two->start;
}

bool replay_memory_lay(struct replay_memory *memory)
{
    int last = -1;

    if (memory->count)
        qsort(memory->pieces, (size_t)memory->count, sizeof(*memory->pieces), by_start);
    for (int i = 0; i < memory->count; i++) {
        const struct replay_piece piece = memory->pieces[i];

        if (piece.end <= piece.start || piece.end - piece.start > MEMORY_MAX)
            return false;
        if (last >= 0 && piece.start <= memory->pieces[last].end) {
            if (piece.end > memory->pieces[last].end)
                memory->pieces[last].end = piece.end;
        } else {
            memory->pieces[++last] = piece;
        }
    }
    memory->count = last + 1;
    memory->size = 0;
    for (int i = 0; i < memory->count; i++) {
        memory->pieces[i].offset = memory->size;
        /* Each begins at a boundary of 64 bytes, as it was in its line before. */
        memory->pieces[i].offset += memory->pieces[i].start % 64;
        memory->size = memory->pieces[i].offset + memory->pieces[i].end - memory->pieces[i].start;
        memory->size = (memory->size + 63) / 64 * 64;
        if (memory->size > MEMORY_MAX)
            return false;
    }
    return true;
}

uint64_t replay_memory_offset(const struct replay_memory *memory, uint64_t start)
{
    int low = 0, high = memory->count - 1;

    while (low < high) {
        int middle = (low + high + 1) / 2;

        if (memory->pieces[middle].start <= start)
            low = middle;
        else
            high = middle - 1;
    }
    if (!memory->count || start < memory->pieces[low].start)
        return 0;
    return memory->pieces[low].offset + start - memory->pieces[low].start;
}
