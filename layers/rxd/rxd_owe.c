/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers without memory. An answer to what comes has a spare packet of the endpoint's
 * (message_packet_get_any), without which nothing is looked at that may want one. Others are of
 * something that is there: a message that is received, or was; an access; a read that borrows. That
 * remembers what it owes, and its peer is looked at again when a packet comes back, or at each look
 * while none is under way.
 */
#include <stdlib.h>

#include "layers/rxd/rxd.h"

void rxd_owe(struct rxd_peer *peer)
{
    peer->owes = true;
    message_peer_stall(&peer->base);
}

/* ---- Messages that have ended ---- */

bool rxd_message_stays(struct message_inbound *base)
{
    if (!rxd_inbound_of(base)->owes)
        return false;
    list_attach(&base->link, &rxd_ep_of(base->handle.peer->ep)->owing);
    rxd_owe(rxd_peer_of(base->handle.peer));
    return true;
}

/* Messages of that peer go, with tell: as far as there is memory to tell the peer. */
static bool end_messages(struct rxd_peer *peer, bool tell)
{
    list_for_each_safe (item, after, &rxd_ep_of(peer->base.ep)->owing) {
        struct rxd_inbound *inbound = list_item(item, struct rxd_inbound, base.link);
        const struct rxd_record done = {.kind = RXD_DONE, .id = inbound->id};

        if (inbound->base.handle.peer != &peer->base)
            continue;
        if (tell && !rxd_out_try(peer, &done))
            return false;
        list_detach(item);
        free(inbound);
    }
    return true;
}

/* ---- What is under way ---- */

/* It asks only if it is time to. */
static void ask(struct message_taker *taker)
{
    if (taker->handle)
        rxd_pull(taker);
}

static void ask_all(struct rxd_peer *peer)
{
    list_for_each (item, &peer->base.inbounds)
        ask(&list_item(item, struct message_inbound, link)->taker);
    list_for_each (item, &peer->base.accesses)
        ask(&list_item(item, struct message_access, link)->taker);
}

static struct rxd_op *find_owing(const struct rxd_peer *peer)
{
    list_for_each (item, &peer->base.ops) {
        struct rxd_op *op = list_item(item, struct rxd_op, base.of_peer);

        if (op->owes)
            return op;
    }
    return NULL;
}

void rxd_pay(struct rxd_peer *peer)
{
    struct rxd_op *op;

    peer->owes = false;
    if (end_messages(peer, true))
        ask_all(peer);
    else
        rxd_owe(peer);
    while (!peer->owes && (op = find_owing(peer)))
        rxd_borrowed_pay(op); /* its end may be reported, and others posted */
}

void rxd_owe_nothing(struct rxd_peer *peer)
{
    end_messages(peer, false);
    peer->owes = false;
}
