/* SPDX-License-Identifier: BSD-2-Clause */
/* How much memory the process has allocated. */
#ifndef WEFT_TESTS_SUPPORT_HEAP_H
#define WEFT_TESTS_SUPPORT_HEAP_H

#include <malloc.h>
#include <stddef.h>

/* Bytes; 0 where the C library does not say. */
static inline size_t heap_in_use(void)
{
#ifdef __GLIBC__
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

#endif
