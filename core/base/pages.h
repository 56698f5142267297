/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of memory that is going to be written: one call costs a tenth of a fault for each. */
#ifndef WEFT_CORE_BASE_PAGES_H
#define WEFT_CORE_BASE_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Asks for the whole pages from the one of begin on; len in bytes. Where the kernel refuses, faults
 * bring them. */
static inline void pages_ask(char *begin, size_t len)
{
#ifdef MADV_POPULATE_WRITE
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)begin % page;

    madvise(begin - before, (before + len) / page * page, MADV_POPULATE_WRITE);
#else
    (void)begin;
    (void)len;
#endif
}

#endif
