/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/msgproto/rxm_credit.h"

#include "layers/rxm/conn/rxm_proto.h"

enum {
    HAVE_MAX = 1 << 24, /* no receive queue is longer */
    LEAST = 8,          /* receives of a connection that says little */
    BUSY_MS = 1000,     /* half of the receives in that time are many, */
    QUIET_MS = 10000,   /* and in that are few */
};

/* A peer that counts hears of them only when as many have been posted as are granted at once. */
static void set_batch(struct rxm_credit *credit)
{
    unsigned most = credit->quantum < RXM_BATCH ? credit->quantum : RXM_BATCH;

    credit->batch = credit->on ? most : 1;
}

void rxm_credit_init(struct rxm_credit *credit, unsigned queue)
{
    *credit = (struct rxm_credit){.have = 1, .owed = -1};
    rxm_credit_resize(credit, queue);
}

void rxm_credit_resize(struct rxm_credit *credit, unsigned queue)
{
    credit->quantum = queue > 1 ? queue / 2 : 1;
    set_batch(credit);
}

void rxm_credit_agree(struct rxm_credit *credit, uint8_t own, uint8_t other)
{
    credit->on = own == RXM_FLOW_ON && (other == RXM_FLOW_ON || other == RXM_FLOW_UNSAID);
    set_batch(credit);
}

bool rxm_credit_granted(struct rxm_credit *credit, uint64_t count)
{
    if (count > HAVE_MAX || credit->have + count > HAVE_MAX)
        return false;
    credit->have += count;
    return true;
}

void rxm_window_init(struct rxm_window *window, unsigned most)
{
    unsigned least = most < LEAST ? most : LEAST;

    *window = (struct rxm_window){.size = least, .least = least, .most = most};
}

void rxm_window_turn(struct rxm_window *window, long long now_ms)
{
    long long passed = now_ms - window->turn_ms;

    if (window->turned && passed < BUSY_MS)
        window->size = window->size < window->most / 2 ? 2 * window->size : window->most;
    else if (window->turned && passed >= QUIET_MS)
        window->size = window->size / 2 > window->least ? window->size / 2 : window->least;
    window->turned = true;
    window->turn_ms = now_ms;
    window->used = 0;
}
