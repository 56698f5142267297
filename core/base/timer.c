/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/timer.h"

void timer_start(struct timer *timer, struct list *timers, int64_t due)
{
    struct list *pos = timers;

    list_detach(&timer->link);
    timer->due = due;
    while (pos->prev != timers && list_item(pos->prev, struct timer, link)->due > due)
        pos = pos->prev;
    list_attach_before(&timer->link, pos);
}
