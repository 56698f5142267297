/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events behind a descriptor: a counting eventfd, one count for each event, so that poll and
 * O_NONBLOCK work as with the descriptors of the kernel.
 */
#ifndef WEFT_EMULATOR_EVENT_H
#define WEFT_EMULATOR_EVENT_H

#include "core/base/list.h"

struct event_queue {
    int fd;
    struct list events;
};

/* 0 or an errno value. */
int event_queue_open(struct event_queue *queue);
void event_queue_close(struct event_queue *queue);

/* The lock is held. link is part of the caller's event, and not in a list. */
void event_push(struct event_queue *queue, struct list *link);

/* Takes an event that is in the queue out of it again. The lock is held. */
void event_cancel(struct event_queue *queue, struct list *link);

/* Waits, unless the descriptor is O_NONBLOCK; for ever, if the queue is closed. The lock is not
 * held before; it is after, unless the result is NULL (with errno). */
struct list *event_take(struct event_queue *queue);

#endif
