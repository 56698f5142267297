/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers: their names, and what ends with them. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "layers/rxd/rxd.h"

/* ---- Names ---- */

uint64_t rxd_hash(const void *name)
{
    return rxd_name_hash(name);
}

/* Valid while the peer is. */
static struct rxd_name name_of(const struct message_peer *base)
{
    const struct rxd_peer *peer = rxd_peer_of(base);
    struct rxd_name name = {.own_len = peer->own_len, .own = peer->name};

    if (!name.own_len)
        memcpy(&name.addr, peer->name, addr_size((const void *)peer->name));
    return name;
}

bool rxd_peer_is_named(const struct message_peer *peer, const void *name)
{
    const struct rxd_name its = name_of(peer);

    return rxd_name_equal(&its, name);
}

void rxd_peer_address(const struct message_peer *peer, uint32_t format, union addr_raw *raw)
{
    const struct rxd_name name = name_of(peer);

    rxd_name_export(format, &name, raw);
}

char *rxd_peer_text(const struct message_peer *peer, char text[ADDR_TEXT_MAX])
{
    const struct rxd_name name = name_of(peer);

    return rxd_name_text(&name, text);
}

struct message_peer *rxd_peer_at(struct message_ep *ep, const void *raw, int *rc)
{
    uint32_t format = ep->endpoint.av->format;
    struct rxd_name name;
    size_t len;

    if (rxd_name_is_own(format))
        len = rxd_ep_of(ep)->name.own_len;
    else
        len = format == FI_ADDR_STR ? strlen(raw) + 1 : addr_size(raw);
    *rc = rxd_name_import(format, raw, len, &name) ? -FI_EINVAL : -FI_ENOMEM;
    return *rc == -FI_EINVAL ? NULL : message_peer_of(ep, &name);
}

/* ---- Life ---- */

struct message_peer *rxd_peer_new(const void *arg)
{
    const struct rxd_name *name = arg;
    size_t len = name->own_len ? name->own_len : addr_size(&name->addr.sa);
    size_t size = offsetof(struct rxd_peer, name) + len;
    struct rxd_peer *peer = calloc(1, size > sizeof(*peer) ? size : sizeof(*peer));

    if (!peer)
        return NULL;
    peer->own_len = name->own_len;
    memcpy(peer->name, name->own_len ? (const void *)name->own : &name->addr, len);
    list_init(&peer->ordered);
    list_init(&peer->held);
    return &peer->base;
}

int rxd_peer_open(struct message_peer *base)
{
    return rxd_life_open(rxd_peer_of(base));
}

/* ---- Ends ---- */

void rxd_dropped(struct message_packet *base)
{
    struct rxd_packet *packet = rxd_packet_of(base);

    if (base->move && (!base->move->direct || base->ep->closing))
        base->move = NULL;
    while (!list_empty(&packet->ops))
        list_detach(packet->ops.next);
}

/* Packets that have not been sent, or are held back. */
static void drop_packets(struct rxd_peer *peer)
{
    struct list old;

    list_init(&old);
    list_join(&peer->ordered, &old);
    list_join(&peer->base.out, &old);
    list_for_each_safe (item, after, &old) {
        struct rxd_packet *packet = list_item(item, struct rxd_packet, base.link);

        list_join(&packet->early, &packet->ops);
        while (!list_empty(&packet->ops))
            list_detach(packet->ops.next);
        if (packet->base.move)
            packet->base.move->pending--;
        message_packet_drop(&packet->base);
    }
    message_packets_put(&peer->held);
}

void rxd_peer_reset(struct message_peer *base, int err)
{
    struct rxd_peer *peer = rxd_peer_of(base);

    list_detach(&base->broken);
    drop_packets(peer);
    rxd_life_end(peer, message_is_ours(err));
    rxd_owe_nothing(peer);
    peer->following = peer->begun = 0;
    base->gone = !message_is_ours(err);
    peer->next_out = peer->acked = peer->seen_out = peer->next_in = peer->told = 0;
    peer->in_flight = 0;
    message_peer_drop(base, err);
    if (!message_is_ours(err))
        return;
    peer->answer = true; /* the peer, which is there, learns that what was under way is over */
    message_peer_attend(base);
}

void rxd_peer_ask(struct message_peer *base)
{
    if (!rxd_out_urgent(rxd_peer_of(base), 0, false))
        return;
    rxd_peer_of(base)->known &= (uint8_t)~RXD_KNOWS_US;
    message_peer_attend(base);
}

static void say_bye(struct rxd_peer *peer)
{
    struct rxd_record record = {.kind = RXD_BYE};
    struct rxd_packet *packet = peer->theirs ? rxd_out_ordered(peer, RXD_RECORD_SIZE, false) : NULL;

    if (!packet)
        return;
    rxd_record_put(&record, packet->records + packet->base.len);
    packet->base.len += RXD_RECORD_SIZE;
    rxd_flush(&peer->base, false);
}

void rxd_bye(struct message_ep *ep)
{
    for (size_t i = 0; i < MESSAGE_BUCKETS; i++) {
        for (struct message_peer *peer = ep->buckets[i]; peer; peer = peer->next)
            say_bye(rxd_peer_of(peer));
    }
}
