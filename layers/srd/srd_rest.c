/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receivers that are not ready. The device asks again as often as FI_OPT_EFA_RNR_RETRY says,
 * without end unless it was set; then a packet comes back here. It goes out again, at once the
 * first time, and behind a pause for its peer that doubles each further time, until the peer takes
 * one. Where the application wants no resource management (FI_RM_DISABLED), a message that is one
 * packet ends in FI_ENORX instead.
 */
#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "layers/srd/srd.h"

enum {
    LEAST_US = 40, /* of a first pause, and as it varies */
    VARIES_US = 80,
};

static uint64_t pause_us(const struct srd_peer *peer, uint64_t now)
{
    const struct srd_ep *ep = srd_ep_of(peer->base.ep);
    uint64_t pause = peer->pause_us * 2ULL;

    if (!pause)
        pause = ep->rest_us ? ep->rest_us : LEAST_US + now % VARIES_US;
    return pause < ep->rest_most_us ? pause : ep->rest_most_us;
}

/* Packets that left together come back together, and count once. */
static void set_pause(struct srd_peer *peer)
{
    uint64_t now = clock_ns();

    if (now < peer->rests_until)
        return;
    if (peer->rests_until)
        peer->pause_us = (uint32_t)pause_us(peer, now);
    peer->rests_until = now + peer->pause_us * 1000ULL;
}

void srd_rest_over(struct srd_peer *peer)
{
    peer->pause_us = 0;
    peer->rests_until = 0;
}

bool srd_rest(struct message_packet *packet)
{
    struct message_peer *peer = packet->peer;
    struct message_ep *ep = packet->ep;

    if (!peer || !list_empty(&peer->broken) || (packet->from && !srd_ep_of(ep)->resends))
        return false;
    ep->flying--;
    list_join(&ep->stalled, &ep->attention);
    list_detach(&packet->link);
    list_attach_before(&packet->link, peer->out.next);
    srd_ep_of(ep)->rested = true;
    set_pause(srd_peer_of(peer));
    message_peer_stall(peer);
    return true;
}

bool srd_rests(const struct srd_peer *peer)
{
    return peer->pause_us && clock_ns() < peer->rests_until;
}
