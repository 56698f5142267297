/* SPDX-License-Identifier: BSD-2-Clause */
#include "nomem.h"

#include <stddef.h>
#include <stdlib.h>

long nomem_at, nomem_live, nomem_made;
int nomem_all;

#if NOMEM_WORKS
/* The C library's own, beside which these stand. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void __libc_free(void *ptr);

static int fails(void)
{
    __atomic_fetch_add(&nomem_made, 1, __ATOMIC_RELAXED);
    return nomem_all || (nomem_at && !--nomem_at);
}

void *malloc(size_t size)
{
    if (fails())
        return NULL;
    nomem_live++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    if (fails())
        return NULL;
    nomem_live++;
    return __libc_calloc(count, size);
}

void *realloc(void *ptr, size_t size)
{
    if (fails())
        return NULL;
    nomem_live += !ptr;
    return __libc_realloc(ptr, size);
}

void free(void *ptr)
{
    nomem_live -= !!ptr;
    __libc_free(ptr);
}
#endif
