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
    return !memcmp(&srd_peer_of(peer)->name, name, sizeof(struct srd_name));
}

void srd_peer_address(const struct message_peer *peer, uint32_t format, union addr_raw *raw)
{
    srd_name_export(format, &srd_peer_of(peer)->name, raw);
}

char *srd_peer_text(const struct message_peer *peer, char text[ADDR_TEXT_MAX])
{
    return srd_name_text(peer->ep->lower_info->addr_format, &srd_peer_of(peer)->name, text);
}

struct message_peer *srd_peer_at(struct message_ep *ep, const void *raw, int *rc)
{
    uint32_t format = ep->endpoint.av->format;
    struct srd_name name;
    size_t len;

    if (format == FI_ADDR_EFA)
        len = SRD_ADDR_SIZE;
    else
        len = format == FI_ADDR_STR ? strlen(raw) + 1 : addr_size(raw);
    *rc = srd_name_import(format, raw, len, &name) ? -FI_EINVAL : -FI_ENOMEM;
    return *rc == -FI_EINVAL ? NULL : message_peer_of(ep, &name);
}

/* ---- Life ---- */

struct message_peer *srd_peer_new(const void *name)
{
    struct srd_peer *peer = calloc(1, sizeof(*peer));

    if (!peer)
        return NULL;
    memcpy(&peer->name, name, sizeof(peer->name));
    peer->connid = srd_name_connid(&peer->name);
    return &peer->base;
}

int srd_peer_open(struct message_peer *base)
{
    struct srd_ep *ep = srd_ep_of(base->ep);
    void **slot = peer_map_slot(&ep->by_lower, base->lower);

    if (!slot)
        return -FI_ENOMEM;
    *slot = base;
    srd_peer_of(base)->known = ep->efa;
    return 0;
}

/* ---- Ends ---- */

void srd_dropped(struct message_packet *packet)
{
    packet->move = NULL;
}

static void drop_early(struct srd_peer *peer)
{
    struct list old;

    list_init(&old);
    reorder_reset(&peer->early, &old);
    peer->base.ep->saved -= peer->early_bytes;
    peer->early_bytes = 0;
    message_packets_put(&old);
}

void srd_peer_close(struct message_peer *base)
{
    struct srd_peer *peer = srd_peer_of(base);

    drop_early(peer);
    srd_out_refusals(peer, false);
    reorder_finish(&peer->early, &base->ep->deferred);
}

void srd_peer_reset(struct message_peer *base, int err)
{
    struct srd_peer *peer = srd_peer_of(base);
    bool efa = srd_ep_of(base->ep)->efa;

    list_detach(&base->broken);
    list_detach(&base->attended);
    list_for_each (item, &base->out)
        list_item(item, struct message_packet, link)->move = NULL;
    message_packets_put(&base->out);
    drop_early(peer);
    if (peer->known && !efa)
        peer->forgotten[peer->forgotten_count++ % SRD_FORGOTTEN] = peer->connid;
    peer->known = efa;
    peer->greeted = peer->forced = peer->introduced = false;
    peer->features = 0;
    srd_out_refusals(peer, false);
    peer->next_msg = 0;
    peer->dead = message_is_ours(err) ? err : 0;
    base->gone = true;
    message_peer_drop(base, err);
}
