/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/ids.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

enum {
    FIRST = 16,
};

void ids_init(struct ids *ids, unsigned index_bits, unsigned id_bits)
{
    *ids = (struct ids){.index_bits = (uint8_t)index_bits, .mask = UINT64_MAX >> (64 - id_bits)};
}

void ids_finish(struct ids *ids)
{
    free(ids->slots);
    memset(ids, 0, sizeof(*ids));
}

int ids_grow(struct ids *ids)
{
    uint32_t count = ids->count ? 2 * ids->count : FIRST;
    struct id_slot *slots = NULL;

    if (count <= UINT32_C(1) << ids->index_bits)
        slots = realloc(ids->slots, count * sizeof(*slots));
    if (!slots)
        return -FI_ENOMEM;
    for (uint32_t i = ids->count; i < count; i++)
        slots[i] = (struct id_slot){.next = i + 1};
    ids->slots = slots;
    ids->free = ids->count;
    ids->count = count;
    return 0;
}
