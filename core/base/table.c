/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/table.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* A pointer to a function of any type. */
typedef void (*slot)(void) __attribute__((may_alias));

static bool is_whole(const slot *slots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!__atomic_load_n(&slots[i], __ATOMIC_ACQUIRE))
            return false;
    }
    return true;
}

/* A slot is written once, before table_inherit returns to any thread: callers that read the table
 * without atomics have seen it written. */
void *table_inherit(void *table, const void *base)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    slot *to = (slot *)((char *)table + sizeof(size_t));
    const slot *from = (const slot *)((const char *)base + sizeof(size_t));
    size_t count = (*(size_t *)table - sizeof(size_t)) / sizeof(slot);

    assert(*(size_t *)table == *(const size_t *)base);
    if (is_whole(to, count))
        return table;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < count; i++) {
        if (!__atomic_load_n(&to[i], __ATOMIC_RELAXED))
            __atomic_store_n(&to[i], from[i], __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&mutex);
    return table;
}
