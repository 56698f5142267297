/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow control of FI_PROTO_RXM over lowers whose receivers must never be caught without a buffer.
 * Each packet costs the sender a credit; the receiver grants as many as it has posted receives.
 * Pure. A sender starts with one credit, which is why the first grant is one less than the posted
 * receives; the last one is kept for the packet that grants, or neither side could ever go on.
 */
#ifndef WEFT_LAYERS_RXM_MSGPROTO_RXM_CREDIT_H
#define WEFT_LAYERS_RXM_MSGPROTO_RXM_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

struct rxm_credit {
    bool on;          /* both sides count */
    uint64_t have;    /* packets that may be sent */
    int64_t owed;     /* receives posted and not granted yet */
    unsigned quantum; /* as many are granted at once */
    unsigned batch;   /* receives that may wait for each other to be posted together */
};

enum {
    RXM_BATCH = 16 /* at most */
};

/* How many receives a connection has: few, and twice as many as long as its peer uses them up. */
struct rxm_window {
    unsigned size, least, most; /* receives that are to be posted, and what it may be */
    unsigned posted;            /* that are */
    unsigned used;              /* since the last turn */
    bool turned;                /* there was one, */
    long long turn_ms;          /* then */
};

/* queue: receives that the connection has posted when all of them are. */
void rxm_credit_init(struct rxm_credit *credit, unsigned queue);
/* That has changed. */
void rxm_credit_resize(struct rxm_credit *credit, unsigned queue);
/* As the two sides said (enum rxm_flow). */
void rxm_credit_agree(struct rxm_credit *credit, uint8_t own, uint8_t other);

/* May a packet be sent? It is counted when true. grant: the one that grants. */
static inline bool rxm_credit_take(struct rxm_credit *credit, bool grant)
{
    if (!credit->on)
        return true;
    if (credit->have < (grant ? 1 : 2))
        return false;
    credit->have--;
    return true;
}

/* The packet could not be sent after all. */
static inline void rxm_credit_untake(struct rxm_credit *credit)
{
    credit->have += credit->on;
}

/* The peer granted more. False when it grants more than there can be. */
bool rxm_credit_granted(struct rxm_credit *credit, uint64_t count);
/* Receives were posted. */
static inline void rxm_credit_posted(struct rxm_credit *credit, unsigned count)
{
    credit->owed += count;
}

/* They could not be posted after all. */
static inline void rxm_credit_unposted(struct rxm_credit *credit, unsigned count)
{
    credit->owed -= count;
}

/* How many to grant now, or 0. */
static inline uint32_t rxm_credit_due(const struct rxm_credit *credit)
{
    return credit->on && credit->owed >= credit->quantum ? (uint32_t)credit->owed : 0;
}
/* They have been granted. */
static inline void rxm_credit_gave(struct rxm_credit *credit, uint32_t count)
{
    credit->owed -= count;
}

void rxm_window_init(struct rxm_window *window, unsigned most);
/* Receives were used. True when half of them were since the last turn: it is time for one. */
static inline bool rxm_window_used(struct rxm_window *window, unsigned count)
{
    window->used += count;
    return window->used >= (window->size + 1) / 2;
}

/* Updates the size. */
void rxm_window_turn(struct rxm_window *window, long long now_ms);

#endif
