/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of one layer, in a mapped file (weft/monitor.h). Each thread counts in a block of
 * its own for each object: no lock, no atomic instruction, no system call, but for the first call
 * of a thread on an object, which takes a block. Blocks of threads that have ended go to those that
 * come later; counts of objects that have closed move to object 0.
 *
 * Nothing that decides where to write is read from the file.
 */
#ifndef WEFT_MONITOR_PAGE_H
#define WEFT_MONITOR_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/monitor.h>

#include "core/base/list.h"
#include "core/base/per_thread.h"
#include "core/hook/op_timer.h"
#include "core/op/op.h"

enum {
    MONITOR_MR_REG = OP_CALLS,
    MONITOR_CQ_READ, /* completions; bytes of those received */
    MONITOR_CALLS,
};

/* How many operations of one direction owe a completion. */
enum monitor_awaits {
    MONITOR_AWAITS_NONE,
    MONITOR_AWAITS_ALL,
    MONITOR_AWAITS_ASKED, /* those with FI_COMPLETION */
};

struct monitor_slot {
    struct weft_monitor_block *block;
    uint32_t object;
    struct op_timer_turns turns;
    bool empty;        /* of no thread and no object, without a count */
    const void *owner; /* the thread; NULL: free for the next that wants this object */
    struct monitor_slot *next;
};

struct monitor_page {
    struct weft_monitor_header *header;
    size_t size;
    char *path;
    int fd;
    bool lingers, full; /* full: it has been said */
    unsigned generation;
    struct list link;
    struct monitor_slot *slots, *closed; /* closed: where counts of closed objects go */
    struct op_timer timer;
};

/* The counts of an endpoint, queue or domain, behind its `own`. */
struct monitor_object {
    struct monitor_page *page;
    uint64_t serial; /* never that of another one */
    uint32_t number; /* small; that of one that has closed may come again */
    uint32_t entry;  /* in the file; 0: it has none */
    enum monitor_awaits tx, rx;
    bool tx_default, rx_default; /* FI_COMPLETION in the default flags of operations */
};

/* By number of the object. */
struct monitor_thread {
    struct list link; /* of all */
    size_t room;
    struct monitor_place {
        uint64_t serial;
        struct monitor_slot *slot;
    } * places;
};

extern _Thread_local struct monitor_thread *monitor_thread
    __attribute__((tls_model("initial-exec")));

/* From now on the page is counted in; its header is complete, its members but links are set. */
void monitor_page_start(struct monitor_page *page);
/* After this no thread counts. Frees what monitor_page_start and the calls below took. */
void monitor_page_stop(struct monitor_page *page);

/* NULL without memory: the object is not counted. parent: entry of the object it is opened from. */
struct monitor_object *monitor_object_open(struct monitor_page *page, uint32_t fclass,
                                           uint32_t parent, const char *name);
void monitor_object_name(const struct monitor_object *object, const char *name);
void monitor_object_close(struct monitor_object *object); /* takes NULL */

/* The slow way; NULL when there is no block for it. */
struct monitor_slot *monitor_slot_find(const struct monitor_object *object);

static inline struct monitor_slot *monitor_slot_of(const struct monitor_object *object)
{
    const struct monitor_thread *thread = monitor_thread;

    if (__builtin_expect(thread && object->number < thread->room &&
                             thread->places[object->number].serial == object->serial,
                         1))
        return thread->places[object->number].slot;
    return monitor_slot_find(object);
}

/* A completion whose context is in the page's timer. The first operation of each function, and
 * those posted before it ended, are not counted: their time may include connecting. */
void monitor_time_end(struct monitor_page *page, const void *context, uint64_t flags);

#endif
