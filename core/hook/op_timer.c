/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/hook/op_timer.h"

void op_timer_turns_start(struct op_timer_turns *turns)
{
    for (int call = 0; call < OP_CALLS; call++)
        turns->left[call] = 1;
    turns->random = 2463534242u;
    turns->started = 0;
}

/* An operation that was there under another context is forgotten. */
static void keep(struct op_timer *timer, const void *context, unsigned what)
{
    struct op_timer_slot *slot = op_timer_slot(timer, context);

    if (!atomic_exchange(&slot->context, NULL))
        atomic_fetch_add(&timer->running, 1);
    atomic_store_explicit(&slot->start, clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&slot->what, what, memory_order_relaxed);
    atomic_store_explicit(&slot->context, context, memory_order_release);
}

static bool take(struct op_timer *timer, struct op_timer_slot *slot, const void *context)
{
    const void *expected = context;

    if (!atomic_compare_exchange_strong(&slot->context, &expected, NULL))
        return false;
    atomic_fetch_sub(&timer->running, 1);
    return true;
}

/* From 1 to 2 * sample - 1, so that it is `sample` in the mean. */
static uint32_t next_turn(const struct op_timer *timer, struct op_timer_turns *turns)
{
    turns->random ^= turns->random << 13;
    turns->random ^= turns->random >> 17;
    turns->random ^= turns->random << 5;
    return timer->sample > 1 ? 1 + turns->random % (2 * timer->sample - 1) : 1;
}

void op_timer_begin(struct op_timer *timer, struct op_timer_turns *turns, enum op_call call,
                    unsigned user, const void *context)
{
    const uint64_t bit = (uint64_t)1 << call;
    unsigned what = op_class(call) | user << OP_TIMER_USER;

    turns->left[call] = UINT32_MAX;
    if (!timer->sample)
        return;
    if (turns->started & bit) {
        turns->left[call] = next_turn(timer, turns);
    } else {
        turns->started |= bit;
        turns->left[call] = 1; /* a short program has a figure, too */
        what |= OP_TIMER_FIRST;
    }
    keep(timer, context, what);
}

void op_timer_follow(struct op_timer *timer, enum op_class class, unsigned user,
                     const void *context)
{
    keep(timer, context, class | user << OP_TIMER_USER);
}

void op_timer_refused(struct op_timer *timer, struct op_timer_turns *turns, enum op_call call,
                      const void *context)
{
    struct op_timer_slot *slot = op_timer_slot(timer, context);
    unsigned what = atomic_load_explicit(&slot->what, memory_order_relaxed);

    if (!take(timer, slot, context))
        return;
    turns->left[call] = 1;
    if (what & OP_TIMER_FIRST)
        turns->started &= ~((uint64_t)1 << call);
}

void op_timer_forget(struct op_timer *timer, const void *context)
{
    take(timer, op_timer_slot(timer, context), context);
}

bool op_timer_end(struct op_timer *timer, const void *context, uint64_t flags,
                  struct op_timed *timed)
{
    struct op_timer_slot *slot = op_timer_slot(timer, context);
    bool runs = atomic_load_explicit(&slot->context, memory_order_acquire) == context;
    unsigned what = atomic_load_explicit(&slot->what, memory_order_relaxed);
    uint64_t begin = atomic_load_explicit(&slot->start, memory_order_relaxed);
    uint64_t now = clock_ns();
    uint_fast64_t settled = 0;

    timed->class = (enum op_class)(what & OP_TIMER_CLASS);
    timed->user = what >> OP_TIMER_USER;
    timed->ns = now > begin ? now - begin : 0;
    if (!runs || (flags && (timed->class == OP_CLASS_RECV) != !!(flags & FI_RECV)) ||
        !take(timer, slot, context))
        return false;
    if (what & OP_TIMER_FIRST)
        atomic_compare_exchange_strong(&timer->settled[timed->class], &settled, now);
    timed->first =
        what & OP_TIMER_FIRST ||
        begin < atomic_load_explicit(&timer->settled[timed->class], memory_order_relaxed);
    return true;
}
