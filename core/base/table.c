/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/table.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

/* A pointer to a function of any type. */
typedef void (*slot)(void) __attribute__((may_alias));

/* A slot is written at most once, before table_inherit returns to the first thread: callers that
 * read the table without atomics have seen it written. */
void *table_inherit(void *table, const void *base)
{
    slot *to = (slot *)((char *)table + sizeof(size_t));
    const slot *from = (const slot *)((const char *)base + sizeof(size_t));
    size_t count = (*(size_t *)table - sizeof(size_t)) / sizeof(slot);

    assert(*(size_t *)table == *(const size_t *)base);
    for (size_t i = 0; i < count; i++) {
        slot none = NULL;

        if (!__atomic_load_n(&to[i], __ATOMIC_ACQUIRE))
            __atomic_compare_exchange_n(&to[i], &none, from[i], false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE);
    }
    return table;
}
