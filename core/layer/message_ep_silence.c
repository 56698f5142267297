/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that owe something while nothing is under way to them: a message that waits for a receive,
 * data that was asked for. The lower tells of a peer's end where it sends, so such a peer is asked
 * for a sign of life each second. The question introduces us: a peer that has started again under
 * the same address answers as its new self.
 */
#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/layer/message_ep.h"
#include "core/layer/message_wire.h"

enum {
    ASK_MS = 1000,
    POLLS = 64, /* between two looks at the clock */
};

static bool owes(const struct message_ep *ep)
{
    return ep->used || ep->takes;
}

static bool is_silent(struct message_peer *peer)
{
    bool heard = peer->heard;

    peer->heard = false;
    if (heard || !list_empty(&peer->broken) || !list_empty(&peer->flying))
        return false;
    return !list_empty(&peer->ops) || peer->takes;
}

static void ask_all(struct message_ep *ep)
{
    for (size_t i = 0; i < MESSAGE_BUCKETS; i++) {
        for (struct message_peer *peer = ep->buckets[i]; peer; peer = peer->next) {
            if (is_silent(peer))
                ep->wire->ask(peer);
        }
    }
}

void message_silence_run(struct message_ep *ep)
{
    bool woken = !list_empty(&ep->timer.source.link);
    long long now;

    if (__builtin_expect(!owes(ep), 1)) {
        if (__builtin_expect(woken, 0))
            wake_timer_clear(&ep->timer, ep->progress, 0);
        ep->ask_ms = 0;
        return;
    }
    if (ep->polls % POLLS && !woken)
        return;
    now = clock_ms();
    if (!ep->ask_ms)
        ep->ask_ms = now + ASK_MS;
    if (now < ep->ask_ms)
        return;
    ep->ask_ms = now + ASK_MS;
    ask_all(ep);
}

void message_seconds_run(struct message_ep *ep)
{
    long long now;

    if (ep->polls % POLLS)
        return;
    now = clock_ms();
    if (now < ep->second_ms)
        return;
    ep->second_ms = now + ASK_MS;
    ep->seconds++;
    if (ep->wire->second)
        ep->wire->second(ep);
}

int message_silence_sleep(struct message_ep *ep)
{
    long long now;

    if (!owes(ep))
        return 0;
    now = clock_ms();
    if (!ep->ask_ms)
        ep->ask_ms = now + ASK_MS;
    if (ep->ask_ms <= now)
        return -FI_EAGAIN;
    return wake_timer_set(&ep->timer, ep->progress, ep->ask_ms, now) ? -FI_EAGAIN : 0;
}
