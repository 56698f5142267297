/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Silent peers. A request that the peer has taken may wait for its answer with nothing on the way:
 * if the peer dies then, the lower has no packet that could fail, and would not tell. So a peer
 * that is waited for and silent is sent an empty packet from time to time. A peer that computes
 * lets its lower acknowledge it; that of a dead one fails, and ends what waits.
 */
#include "core/base/clock.h"
#include "layers/rxd/rxd.h"

enum {
    LOOK_MS = 250,   /* between two looks at the peers */
    LOOKS_MOST = 64, /* between two packets to a silent one */
    POLLS = 1024,    /* after which the clock is read */
};

/* Is there an answer, or are there bytes, that the peer owes us? */
static bool waits_for(const struct rxd_peer *peer)
{
    if (!list_empty(&peer->ops) || !list_empty(&peer->accesses))
        return true;
    list_for_each (pos, &peer->inbounds) {
        if (list_item(pos, struct rxd_inbound, link)->matched)
            return true;
    }
    return false;
}

/* With doubling pauses, up to LOOKS_MOST. */
static bool is_time(unsigned looks)
{
    return looks < LOOKS_MOST ? !(looks & (looks - 1)) : !(looks % LOOKS_MOST);
}

static void look_at(struct rxd_peer *peer)
{
    if (!waits_for(peer)) {
        peer->silent = 0;
        return;
    }
    peer->ep->expects = true;
    if (!list_empty(&peer->flying) || !list_empty(&peer->broken))
        return; /* the lower finds out by itself */
    if (peer->silent++ && is_time(peer->silent - 1) && rxd_out_urgent(peer, 0))
        rxd_peer_attend(peer);
}

static void look(struct rxd_ep *ep, int64_t now)
{
    ep->look_at = now + LOOK_MS;
    ep->expects = false;
    for (size_t i = 0; i < RXD_BUCKETS; i++) {
        for (struct rxd_peer *peer = ep->buckets[i]; peer; peer = peer->next)
            look_at(peer);
    }
}

void rxd_silence_poll(struct rxd_ep *ep)
{
    bool timed = !list_empty(&ep->timer.source.link);
    int64_t now;

    if (__builtin_expect(++ep->polls % POLLS && !timed, 1))
        return;
    now = clock_ms();
    if (now < ep->look_at)
        return;
    if (timed)
        wake_timer_clear(&ep->timer, ep->progress, ep->timer.due_ms + 1);
    look(ep, now);
}

int rxd_silence_sleep(struct rxd_ep *ep)
{
    int64_t now;

    if (!ep->used && !ep->expects)
        return 0;
    now = clock_ms();
    if (ep->look_at <= now)
        ep->look_at = now + LOOK_MS;
    return wake_timer_set(&ep->timer, ep->progress, ep->look_at, now);
}
