/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that have come go to the first receive that is posted (packet_ep_receive); without one
 * the buffer that they lie in is kept. Peers are told of less room with each that is kept, and of
 * none beyond `saved`.
 */
#include "layers/mrail/mrail_ep.h"

static fi_addr_t source_of(const struct mrail_ep *ep, const struct mrail_peer *peer)
{
    if (peer->addr == MRAIL_NO_ADDR || !(ep->up.base.caps & FI_SOURCE))
        return FI_ADDR_NOTAVAIL;
    return av_source(ep->up.base.av, peer->addr);
}

static void set_shut(struct mrail_ep *ep, bool shut)
{
    for (size_t i = 0; i < MRAIL_BUCKETS; i++) {
        for (struct mrail_peer *peer = ep->buckets[i]; peer; peer = peer->next) {
            struct mrail_session *session = mrail_session_of(peer);

            if (!session)
                continue;
            session->flow.shut = shut;
            if (!shut)
                mrail_ready(session);
        }
    }
}

/* The bytes are those of the buffer that has just been read. */
static void save(struct mrail_session *session, const struct packet_message *message)
{
    struct mrail_ep *ep = session->ep;
    struct mrail_packet *packet = ep->current;

    packet->at = (size_t)(message->bytes - packet->bytes);
    packet->len = message->len;
    packet->peer = session->peer->intro.number;
    ep->current = NULL;
    list_attach(&packet->link, &ep->up.saved);
    session->flow.kept++;
    if (++ep->up.saved_count == ep->up.saved_most)
        set_shut(ep, true);
}

void mrail_deliver(struct flow *flow, const uint8_t *bytes, size_t len, bool own)
{
    struct mrail_session *session = mrail_session_of_flow(flow);
    struct mrail_ep *ep = session->ep;
    struct packet_message message = {.bytes = bytes, .len = len};

    if (own) {
        mrail_keys_came(session, bytes, len);
        return;
    }
    if (__builtin_expect(av_watch_any(&ep->up.watch), 0))
        mrail_peers_take_changes(ep); /* the upper may have learnt of the peer from the last one */
    message.src = source_of(ep, session->peer);
    if (!list_empty(&ep->up.saved) || !packet_ep_receive(&ep->up, &message))
        save(session, &message);
}

void mrail_receive_run(struct mrail_ep *ep)
{
    while (packet_ep_has_saved(&ep->up)) {
        struct mrail_packet *packet = list_item(ep->up.saved.next, struct mrail_packet, link);
        struct mrail_session *session = mrail_session_find(ep, packet->peer);
        struct packet_message message = {
            .bytes = packet->bytes + packet->at,
            .len = packet->len,
            .src = session ? source_of(ep, session->peer) : FI_ADDR_NOTAVAIL,
        };

        list_detach(&packet->link);
        if (session && session->flow.kept) {
            session->flow.kept--;
            mrail_ready(session);
        }
        if (ep->up.saved_count-- == ep->up.saved_most)
            set_shut(ep, false);
        packet_ep_receive(&ep->up, &message);
        mrail_packet_put(packet);
    }
}
