/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that have come go to the upper's reader where they lie (OPT_READER), or to the first
 * receive that is posted (packet_ep_receive). Without a receive, or while the reader has no memory,
 * the buffer that they lie in is kept. Peers are told of less room with each that is kept, and of
 * none beyond `saved`.
 */
#include "layers/mrail/mrail_ep.h"

enum {
    TRIES = 1000, /* of a reader that has no memory: it may come back */
};

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
    packet->tries = TRIES;
    ep->current = NULL;
    list_attach(&packet->link, &ep->up.saved);
    session->flow.kept++;
    if (++ep->up.saved_count == ep->up.saved_most)
        set_shut(ep, true);
}

/* False: it is to be kept. */
static bool take(struct mrail_ep *ep, const struct packet_message *message)
{
    if (ep->reader.read)
        return ep->reader.read(ep->reader.arg, message->bytes, message->len, message->src);
    return packet_ep_receive(&ep->up, message);
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
    if ((!ep->reader.read && !list_empty(&ep->up.saved)) || !take(ep, &message))
        save(session, &message);
}

/* The one that was kept longest, out of the list. */
static struct mrail_packet *next_saved(struct mrail_ep *ep, struct packet_message *message)
{
    struct mrail_packet *packet = list_item(ep->up.saved.next, struct mrail_packet, link);
    struct mrail_session *session = mrail_session_find(ep, packet->peer);

    *message = (struct packet_message){
        .bytes = packet->bytes + packet->at,
        .len = packet->len,
        .src = session ? source_of(ep, session->peer) : FI_ADDR_NOTAVAIL,
    };
    list_detach(&packet->link);
    return packet;
}

/* One that was kept is over. */
static void put_saved(struct mrail_ep *ep, struct mrail_packet *packet)
{
    struct mrail_session *session = mrail_session_find(ep, packet->peer);

    if (session && session->flow.kept) {
        session->flow.kept--;
        mrail_ready(session);
    }
    if (ep->up.saved_count-- == ep->up.saved_most)
        set_shut(ep, false);
    mrail_packet_put(packet);
}

/* Each once. */
static void read_again(struct mrail_ep *ep)
{
    struct list refused;

    list_init(&refused);
    while (!list_empty(&ep->up.saved)) {
        struct packet_message message;
        struct mrail_packet *packet = next_saved(ep, &message);

        if (!take(ep, &message) && --packet->tries)
            list_attach(&packet->link, &refused);
        else
            put_saved(ep, packet);
    }
    list_join(&refused, &ep->up.saved);
}

void mrail_receive_run(struct mrail_ep *ep)
{
    if (__builtin_expect(mrail_has_refused(ep), 0))
        read_again(ep);
    while (packet_ep_has_saved(&ep->up)) {
        struct packet_message message;
        struct mrail_packet *packet = next_saved(ep, &message);

        packet_ep_receive(&ep->up, &message);
        put_saved(ep, packet);
    }
}
