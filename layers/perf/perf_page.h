/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hardware counter read without a system call: the protocol of the page that the kernel maps for
 * it (perf_event_open(2), MMAP layout). The instruction itself is given, so that tests have one.
 */
#ifndef WEFT_PERF_PAGE_H
#define WEFT_PERF_PAGE_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The count of the event now. pmc: reads the counter of that number, as rdpmc does, with rubbish
 * above its width. False, and no value: the event is on no counter just now, or may not be read so.
 * Goes on while the kernel changes the page, which is as long as it moves one event.
 */
static inline bool perf_page_read(const volatile struct perf_event_mmap_page *page,
                                  uint64_t (*pmc)(uint32_t number), uint64_t *value)
{
    uint32_t lock, index;
    unsigned unused;
    int64_t count;

    do {
        lock = page->lock;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        index = page->index;
        unused = 64u - page->pmc_width;
        if (!index || !page->cap_user_rdpmc || unused > 63)
            return false;
        /* The kernel's part is of a counter that is signed, and so wide. */
        count = (int64_t)(pmc(index - 1) << unused) >> unused;
        count = (int64_t)((uint64_t)count + (uint64_t)page->offset);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } while (page->lock != lock);
    *value = (uint64_t)count;
    return true;
}

#endif
