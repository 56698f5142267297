/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Times of operations, from the call to the completion, for hooks that report them. One operation
 * of `sample` is timed; its completion is found by the operation's context in a small table, so an
 * operation without a context has no time, and one whose context comes again before it completes
 * is forgotten. Each function counts down by itself, for a random number of operations, so that no
 * period of the program hides one of them.
 *
 * The first operation of each function and thread, and those posted before the first of its class
 * had completed, may have waited for a connection: these are marked for the reader.
 *
 * The table is shared by all threads without locks; op_timer_turns belong to one thread. Nothing
 * here blocks, allocates or, but for the clock, makes a system call. Times are in ns of
 * CLOCK_MONOTONIC.
 */
#ifndef WEFT_CORE_HOOK_OP_TIMER_H
#define WEFT_CORE_HOOK_OP_TIMER_H

#include <stdatomic.h>

#include "core/base/clock.h"
#include "core/op/op.h"

enum {
    OP_TIMER_SLOTS = 256, /* operations that can be timed at once */
    OP_TIMER_USER = 8,    /* slot.what from this bit on: the hook's word, 24 bits */
    OP_TIMER_FIRST = 1 << 7,
    OP_TIMER_CLASS = OP_TIMER_FIRST - 1, /* enum op_class */
};

struct op_timer_slot {
    _Atomic(const void *) context; /* NULL: free */
    atomic_uint_fast64_t start;
    atomic_uint what;
};

struct op_timer {
    uint32_t sample;                          /* 0: nothing is timed; set by the hook */
    atomic_int running;                       /* slots that are taken */
    atomic_uint_fast64_t settled[OP_CLASSES]; /* when the first completed; 0: none has */
    struct op_timer_slot slots[OP_TIMER_SLOTS];
};

_Static_assert(OP_CALLS <= 64, "a bit for each function");

/* Of one thread, or of one thread on one object. */
struct op_timer_turns {
    uint32_t left[OP_CALLS]; /* operations until one is timed, that one included */
    uint32_t random;
    uint64_t started; /* a bit for each function: its first operation is being timed, or was */
};

/* An operation that has ended. */
struct op_timed {
    enum op_class class;
    unsigned user; /* the hook's word */
    bool first;    /* may have waited for a connection */
    uint64_t ns;
};

/* The next operation of each function is its first. */
void op_timer_turns_start(struct op_timer_turns *turns);

/* Counts an operation with a context down: is it to be timed? Then op_timer_begin is next. */
static inline bool op_timer_due(struct op_timer_turns *turns, enum op_call call)
{
    return --turns->left[call] == 0;
}

/* The operation is posted now. user: comes back with its end; context: not NULL. */
void op_timer_begin(struct op_timer *timer, struct op_timer_turns *turns, enum op_call call,
                    unsigned user, const void *context);
/* Follows an operation that is not due, only to know its end. */
void op_timer_follow(struct op_timer *timer, enum op_class class, unsigned user,
                     const void *context);
/* The operation was refused after all: if it was timed, the next one of its function is. */
void op_timer_refused(struct op_timer *timer, struct op_timer_turns *turns, enum op_call call,
                      const void *context);
/* Another operation gets this context: the one before, which never completed, has no time. */
void op_timer_forget(struct op_timer *timer, const void *context);

static inline struct op_timer_slot *op_timer_slot(struct op_timer *timer, const void *context)
{
    uint64_t mixed = (uintptr_t)context * UINT64_C(0x9e3779b97f4a7c15);

    return &timer->slots[(mixed >> 40) % OP_TIMER_SLOTS];
}

/* Is something kept for an operation with this context? NULL: no. */
static inline bool op_timer_runs(struct op_timer *timer, const void *context)
{
    return atomic_load_explicit(&timer->running, memory_order_relaxed) && context &&
           atomic_load_explicit(&op_timer_slot(timer, context)->context, memory_order_relaxed) ==
               context;
}

/* A completion with this context and these flags (0: of a queue whose format has none). True:
 * *timed tells of its operation, which is no longer kept. False: none was kept, or one of the other
 * direction: a receive and a send may have one context. */
bool op_timer_end(struct op_timer *timer, const void *context, uint64_t flags,
                  struct op_timed *timed);

#endif
