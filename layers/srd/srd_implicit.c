/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that send to us and that the application has not inserted. Where their number is limited,
 * the one that was silent longest is put aside: its record is freed, but for the numbers of its
 * messages and ours, and the lower still knows whose its packets are. With its next packet, or ours
 * to it, it goes on as if nothing had been: no message of it is lost, twice, or out of order. One
 * with something under way, or with a message that waits for a receive, is not put aside.
 */
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "layers/srd/srd.h"

enum {
    LOOKS = 64, /* at peers that have something under way, before the limit is exceeded */
};

struct srd_aside {
    uint64_t features;
    uint32_t next_msg, expected;
    uint32_t mine, connid, forgotten[SRD_FORGOTTEN];
    unsigned forgotten_count;
    int dead;
    bool known, greeted, forced, introduced, doubted, left;
};

void srd_implicit_init(struct srd_ep *ep, const struct params *params)
{
    ep->implicit_most = params_size(params, "implicit_av_size");
    list_init(&ep->implicit);
    pool_init(&ep->aside_pool, sizeof(struct srd_aside), 0);
}

void srd_implicit_finish(struct srd_ep *ep)
{
    peer_map_finish(&ep->aside);
    pool_finish(&ep->aside_pool);
}

/* ---- Which they are ---- */

static struct srd_ep *home_of(const struct srd_peer *peer)
{
    return srd_ep_of(peer->base.ep);
}

void srd_implicit_end(struct srd_peer *peer)
{
    if (list_empty(&peer->implicit))
        return;
    list_detach(&peer->implicit);
    home_of(peer)->implicit_count--;
}

void srd_peer_addressed(struct message_peer *base)
{
    struct srd_peer *peer = srd_peer_of(base);
    struct srd_ep *ep = home_of(peer);

    srd_implicit_end(peer);
    if (!ep->implicit_most || base->addr != FI_ADDR_UNSPEC)
        return;
    list_attach(&peer->implicit, &ep->implicit);
    ep->implicit_count++;
}

/* ---- Putting aside ---- */

static bool is_read(const struct srd_peer *peer)
{
    list_for_each (item, &home_of(peer)->transfers) {
        if (list_item(item, struct srd_transfer, base.link)->base.peer == &peer->base)
            return true;
    }
    return false;
}

static bool is_idle(const struct srd_peer *peer)
{
    return message_peer_is_idle(&peer->base) && !peer->early.count && !peer->partial &&
           !peer->refusals && !peer->change && !is_read(peer);
}

/* False without memory. */
static bool put_aside(struct srd_peer *peer)
{
    struct srd_ep *ep = home_of(peer);
    void **slot = peer_map_slot(&ep->aside, peer->base.lower);
    struct srd_aside *aside = slot ? pool_get(&ep->aside_pool) : NULL;
    struct srd_name name = {.len = peer->name_len};

    if (!aside)
        return false;
    *aside = (struct srd_aside){
        .features = peer->features,
        .next_msg = peer->next_msg,
        .expected = peer->early.next,
        .mine = peer->mine,
        .connid = peer->connid,
        .forgotten_count = peer->forgotten_count,
        .dead = peer->dead,
        .known = peer->known,
        .greeted = peer->greeted,
        .forced = peer->forced,
        .introduced = peer->introduced,
        .doubted = peer->doubted,
        .left = peer->left,
    };
    memcpy(aside->forgotten, peer->forgotten, sizeof(aside->forgotten));
    memcpy(name.bytes, peer->name, peer->name_len);
    *slot = aside;
    *peer_map_slot(&ep->by_lower, peer->base.lower) = NULL;
    srd_implicit_end(peer);
    srd_peer_close(&peer->base);
    message_peer_forget(&peer->base, &name);
    return true;
}

static void say(struct srd_ep *ep)
{
    if (ep->implicit_said)
        return;
    ep->implicit_said = true;
    LOG_WARN("srd", FI_LOG_AV,
             ": more than %zu peers that are not in the address vector have sent "
             "(FI_EFA_IMPLICIT_AV_SIZE): those that were silent longest are put aside",
             ep->implicit_most);
}

/* But for that one. */
static void put_others_aside(struct srd_ep *ep, const struct srd_peer *but)
{
    unsigned looks = 0;

    say(ep);
    list_for_each_safe (item, after, &ep->implicit) {
        struct srd_peer *peer = list_item(item, struct srd_peer, implicit);

        if (ep->implicit_count <= ep->implicit_most || looks++ == LOOKS)
            return;
        if (peer == but || !is_idle(peer))
            continue;
        looks--;
        if (!put_aside(peer))
            return;
    }
}

void srd_implicit_heard(struct srd_peer *peer)
{
    struct srd_ep *ep = home_of(peer);

    list_detach(&peer->implicit);
    list_attach(&peer->implicit, &ep->implicit);
    if (ep->implicit_count > ep->implicit_most)
        put_others_aside(ep, peer);
}

/* ---- Coming back ---- */

/* It was inserted anew for that, which is taken back. */
void srd_implicit_restore(struct srd_peer *peer)
{
    struct srd_ep *ep = home_of(peer);
    struct srd_aside *aside = peer_map_at(&ep->aside, peer->base.lower);

    if (!aside)
        return;
    peer->features = aside->features;
    peer->next_msg = aside->next_msg;
    peer->early.next = aside->expected;
    peer->mine = aside->mine;
    peer->connid = aside->connid;
    memcpy(peer->forgotten, aside->forgotten, sizeof(peer->forgotten));
    peer->forgotten_count = aside->forgotten_count;
    peer->dead = aside->dead;
    peer->known = aside->known;
    peer->greeted = aside->greeted;
    peer->forced = aside->forced;
    peer->introduced = aside->introduced;
    peer->doubted = aside->doubted;
    peer->left = aside->left;
    *peer_map_slot(&ep->aside, peer->base.lower) = NULL;
    pool_put(&ep->aside_pool, aside);
    fi_av_remove(ep->base.lower_av, &peer->base.lower, 1, 0);
}

struct srd_peer *srd_implicit_return(struct srd_ep *ep, fi_addr_t src, bool *again)
{
    struct message_peer *peer;
    struct srd_name name;
    union addr_raw raw;
    size_t len = sizeof(raw);

    if (!peer_map_at(&ep->aside, src) || fi_av_lookup(ep->base.lower_av, src, &raw, &len) ||
        srd_name_import(ep->base.lower_info->addr_format, &raw, len, &name))
        return NULL;
    peer = message_peer_of(&ep->base, &name);
    *again = !peer;
    return peer ? srd_peer_of(peer) : NULL;
}
