/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers: their names, lives, and what ends with them. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "layers/srd/srd.h"

/* ---- Names ---- */

uint64_t srd_hash(const void *name)
{
    return srd_name_hash(name);
}

bool srd_peer_is_named(const struct message_peer *peer, const void *name)
{
    const struct srd_name *other = name;

    return !memcmp(srd_peer_of(peer)->name, other->bytes, other->len);
}

static void name_of(const struct message_peer *base, struct srd_name *name)
{
    const struct srd_peer *peer = srd_peer_of(base);

    name->len = peer->name_len;
    memcpy(name->bytes, peer->name, peer->name_len);
}

void srd_peer_address(const struct message_peer *peer, uint32_t format, union addr_raw *raw)
{
    struct srd_name name;

    name_of(peer, &name);
    srd_name_export(format, &name, raw);
}

char *srd_peer_text(const struct message_peer *peer, char text[ADDR_TEXT_MAX])
{
    struct srd_name name;

    name_of(peer, &name);
    return srd_name_text(peer->ep->lower_info->addr_format, &name, text);
}

struct message_peer *srd_peer_at(struct message_ep *ep, const void *raw, int *rc)
{
    uint32_t format = ep->endpoint.av->format;
    struct srd_name name;
    struct message_peer *peer;
    size_t len = srd_name_own_size(ep->lower_info);

    if (!len)
        len = format == FI_ADDR_STR ? strlen(raw) + 1 : addr_size(raw);
    *rc = srd_name_import(format, raw, len, &name) ? -FI_EINVAL : -FI_ENOMEM;
    peer = *rc == -FI_EINVAL ? NULL : message_peer_of(ep, &name);
    if (peer)
        srd_implicit_end(srd_peer_of(peer));
    return peer;
}

/* ---- Life ---- */

struct message_peer *srd_peer_new(const void *arg)
{
    const struct srd_name *name = arg;
    struct srd_peer *peer = calloc(1, sizeof(*peer) + name->len);

    if (!peer)
        return NULL;
    peer->name_len = (uint8_t)name->len;
    memcpy(peer->name, name->bytes, name->len);
    list_init(&peer->implicit);
    return &peer->base;
}

int srd_peer_open(struct message_peer *base)
{
    struct srd_ep *ep = srd_ep_of(base->ep);
    void **slot = peer_map_slot(&ep->by_lower, base->lower);

    if (!slot)
        return -FI_ENOMEM;
    *slot = base;
    if (ep->efa) {
        struct srd_name name;

        name_of(base, &name);
        srd_peer_of(base)->known = true;
        srd_peer_of(base)->connid = srd_name_connid(&name);
    }
    srd_life_open(srd_peer_of(base));
    srd_implicit_restore(srd_peer_of(base));
    return 0;
}

/* ---- Ends ---- */

/* One with the application's memory ends its operation when the lower has it no more. */
void srd_dropped(struct message_packet *packet)
{
    if (packet->move && (!packet->move->direct || packet->ep->closing))
        packet->move = NULL;
}

/* refuse: senders that wait for an answer are told. */
static void drop_early(struct srd_peer *peer, bool refuse)
{
    struct srd_header header;
    struct list old;

    list_init(&old);
    reorder_reset(&peer->early, &old);
    peer->base.ep->saved -= peer->early_bytes;
    peer->early_bytes = 0;
    list_for_each (item, &old) {
        if (refuse && !srd_in_header(list_item(item, struct message_packet, link), &header))
            srd_refuse(peer, &header);
    }
    message_packets_put(&old);
}

void srd_peer_close(struct message_peer *base)
{
    struct srd_peer *peer = srd_peer_of(base);

    drop_early(peer, false);
    srd_transfers_lose(base, FI_ECANCELED);
    srd_out_refusals(peer, false);
    srd_life_close(peer);
    reorder_finish(&peer->early, &base->ep->deferred);
}

/* Packets of operations, which end; answers: those that say that others have ended, too. Packets
 * that are operations themselves are added to `unsent`. */
static void forget_packets(struct message_peer *peer, bool answers, struct list *unsent)
{
    list_for_each_safe (item, after, &peer->out) {
        struct message_packet *packet = list_item(item, struct message_packet, link);

        if (packet->from) {
            list_detach(&packet->link);
            list_attach(&packet->link, unsent);
            continue;
        }
        if (!packet->move && !answers)
            continue;
        if (packet->move && packet->move->direct)
            packet->move->pending--;
        packet->move = NULL;
        message_packet_drop(packet);
    }
}

/* A report may post anew, so all else of the peer has ended before. */
static void end_unsent(struct list *unsent, int err)
{
    while (!list_empty(unsent)) {
        struct message_packet *packet = list_item(unsent->next, struct message_packet, link);

        message_packet_end_op(packet, err);
        message_packet_put(packet);
    }
}

/* Its life goes on, but means nothing to us any more: all that waits for an answer is told. */
static void die(struct srd_peer *peer, int err)
{
    peer->dead = err;
    drop_early(peer, true);
    srd_messages_refuse(peer);
    list_for_each (item, &peer->base.accesses)
        srd_out_error(peer, list_item(item, struct message_access, link)->request.id,
                      SRD_ERR_ABORTED);
    if (peer->introduced)
        srd_out_refusals(peer, true);
}

/* The next packet of it begins another life. */
static void end_life(struct srd_peer *peer, int err)
{
    drop_early(peer, false);
    if (peer->awaited && !peer->introduced)
        peer->unanswered = (int16_t)err;
    peer->awaited = false;
    srd_life_end(peer);
    peer->features = 0;
    srd_out_refusals(peer, false);
    peer->next_msg = 0;
    peer->dead = 0;
}

void srd_peer_turn(struct srd_peer *peer, int err)
{
    drop_early(peer, false);
    srd_out_refusals(peer, false);
    message_remote_fail(&peer->base);
    message_inbounds_fail(&peer->base, err);
}

void srd_peer_reset(struct message_peer *base, int err)
{
    struct srd_peer *peer = srd_peer_of(base);
    struct list unsent;

    list_init(&unsent);
    list_detach(&base->broken);
    list_detach(&base->attended);
    forget_packets(base, !message_is_ours(err), &unsent);
    if (message_is_ours(err))
        die(peer, err);
    else
        end_life(peer, err);
    base->gone = true;
    srd_transfers_lose(base, err);
    message_peer_drop(base, err);
    end_unsent(&unsent, err);
    if (!list_empty(&base->out))
        message_peer_attend(base);
}
