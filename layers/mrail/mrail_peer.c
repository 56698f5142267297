/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers: found by fi_addr_t on the data path, by address and by number when a packet comes. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "layers/mrail/mrail_ep.h"

static uint64_t hash_of(const uint8_t *name, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ name[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

static struct mrail_peer **bucket(struct mrail_ep *ep, const uint8_t *name)
{
    return &ep->buckets[hash_of(name, ep->name_size) % MRAIL_BUCKETS];
}

static struct mrail_peer *find(struct mrail_ep *ep, const uint8_t *name)
{
    struct mrail_peer *peer = *bucket(ep, name);

    while (peer && memcmp(peer->name, name, ep->name_size) != 0)
        peer = peer->next;
    return peer;
}

/* ---- Life ---- */

/* Later than all that this address has had, of this endpoint or of one before it. */
static uint64_t new_epoch(struct mrail_ep *ep)
{
    struct timespec now;
    uint64_t ns;

    clock_gettime(CLOCK_REALTIME, &now);
    ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    ep->last_epoch = ns > ep->last_epoch ? ns : ep->last_epoch + 1;
    return ep->last_epoch;
}

static void leave_rails(struct mrail_peer *peer)
{
    for (unsigned i = 0; i < peer->ep->count; i++) {
        if (peer->lower[i] != FI_ADDR_NOTAVAIL)
            fi_av_remove(peer->ep->way[i].av, &peer->lower[i], 1, 0);
    }
}

/* *ret_addr: its number on a rail. Only want of memory is worth another try: -FI_ENOMEM. */
static int enter_rail(struct fid_av *av, const void *addr, fi_addr_t *ret_addr)
{
    int err = 0, rc = fi_av_insert(av, addr, 1, ret_addr, 0, NULL);

    if (rc == 1)
        return 0;
    rc = fi_av_insert(av, addr, 1, ret_addr, FI_SYNC_ERR, &err); /* it says why */
    if (rc == 1)
        return 0;
    *ret_addr = FI_ADDR_NOTAVAIL;
    return rc == -FI_ENOMEM || err == FI_ENOMEM ? -FI_ENOMEM : -FI_EINVAL;
}

/* -FI_EHOSTUNREACH: no rail takes its address; -FI_ENOMEM. */
static int enter_rails(struct mrail_peer *peer, const struct mrail_addr *addr)
{
    struct mrail_ep *ep = peer->ep;
    bool any = false;

    for (unsigned i = 0; i < ep->count; i++)
        peer->lower[i] = FI_ADDR_NOTAVAIL;
    for (unsigned i = 0; i < ep->count; i++) {
        const struct mrail_addr_rail *name = mrail_addr_meets(addr, ep->domain->kinds, i);
        const void *raw = name ? name->addr : NULL;
        bool text = ep->domain->rail[i].info->addr_format == FI_ADDR_STR;
        int rc;

        if (!name)
            continue;
        rc = enter_rail(ep->way[i].av, text ? (const void *)&raw : raw, &peer->lower[i]);
        if (rc == -FI_ENOMEM)
            return rc;
        if (rc)
            continue;
        flow_add_path(&peer->flow, i);
        if (ep->way[i].unlinked)
            flow_rail_link(&peer->flow, i, false, clock_ns());
        any = true;
    }
    return any ? 0 : -FI_EHOSTUNREACH;
}

static int init_peer(struct mrail_peer *peer, struct mrail_ep *ep, const uint8_t *name)
{
    struct mrail_addr *addr = malloc(sizeof(*addr));
    int rc = addr ? mrail_domain_read_addr(ep->domain, name, ep->name_size, addr) : -FI_ENOMEM;
    uint64_t number;

    peer->ep = ep;
    flow_init(&peer->flow, &ep->config, peer->paths, ep->count);
    if (rc) {
        free(addr);
        return rc;
    }
    rc = enter_rails(peer, addr);
    free(addr);
    number = rc ? IDS_NONE : ids_add(&ep->numbers, peer);
    if (number == IDS_NONE) {
        leave_rails(peer);
        return rc ? rc : -FI_ENOMEM;
    }
    peer->name = memcpy(&peer->paths[ep->count], name, ep->name_size);
    mrail_intro_renew(&peer->intro, (uint32_t)number, new_epoch(ep));
    peer->addr = av_find(ep->up.base.av, name);
    list_init(&peer->ready);
    timer_init(&peer->timer);
    return 0;
}

static int get(struct mrail_ep *ep, const uint8_t *name, struct mrail_peer **ret_peer)
{
    struct mrail_peer *peer = find(ep, name), **head = bucket(ep, name);
    int rc;

    if (!peer) {
        peer = calloc(1, sizeof(*peer) + ep->count * sizeof(peer->paths[0]) + ep->name_size);
        rc = peer ? init_peer(peer, ep, name) : -FI_ENOMEM;
        if (rc) {
            free(peer);
            return rc;
        }
        peer->next = *head;
        *head = peer;
    }
    *ret_peer = peer;
    return 0;
}

int mrail_peer_at(struct mrail_ep *ep, fi_addr_t addr, struct mrail_peer **ret_peer)
{
    struct mrail_peer *peer = peer_map_at(&ep->map, addr);
    const void *raw;
    void **slot;
    int rc;

    if (__builtin_expect(!peer, 0)) {
        raw = av_addr(ep->up.base.av, addr);
        if (!raw)
            return -FI_EINVAL;
        slot = peer_map_slot(&ep->map, addr);
        rc = slot ? get(ep, raw, &peer) : -FI_ENOMEM;
        if (rc)
            return rc;
        *slot = peer;
        if (peer->addr == FI_ADDR_NOTAVAIL)
            peer->addr = addr;
    }
    *ret_peer = peer;
    return 0;
}

void mrail_peer_renew(struct mrail_peer *peer)
{
    struct mrail_ep *ep = peer->ep;

    uint64_t number;

    ids_remove(&ep->numbers, peer->intro.number);
    number = ids_add(&ep->numbers, peer); /* there is room: that which was just left */
    mrail_intro_renew(&peer->intro, (uint32_t)number, new_epoch(ep));
}

/* ---- Who sends ---- */

/* An introduction. One that finds no memory for its peer is lost as on a rail: the peer asks again,
 * and what it sent before that leaves again. */
static struct mrail_peer *introduced(struct mrail_ep *ep, const struct mrail_head *head)
{
    enum mrail_intro_fate fate;
    struct mrail_peer *peer;

    if (head->addr_len != ep->name_size || get(ep, head->addr, &peer))
        return NULL;
    fate = mrail_intro_take(&peer->intro, head);
    if (fate == INTRO_BEGUN || fate == INTRO_UNHEARD)
        flow_end(&peer->flow, FI_ECONNRESET);
    if (fate == INTRO_BEGUN)
        fate = mrail_intro_take(&peer->intro, head);
    if (fate == INTRO_WANTED || fate == INTRO_TELL || fate == INTRO_UNHEARD) {
        peer->flow.ack_now = true;
        mrail_ready(peer);
    }
    return fate == INTRO_TAKEN || fate == INTRO_WANTED ? peer : NULL;
}

struct mrail_peer *mrail_peer_from(struct mrail_ep *ep, const struct mrail_head *head)
{
    struct mrail_peer *peer;

    if (head->flags & MRAIL_INTRO)
        return introduced(ep, head);
    peer = ids_find(&ep->numbers, head->to);
    if (peer)
        peer->intro.introduced = true;
    return peer;
}

/* ---- The AV ---- */

static void take_away(struct mrail_ep *ep, fi_addr_t addr)
{
    if (peer_map_at(&ep->map, addr))
        *peer_map_slot(&ep->map, addr) = NULL;
}

/* Frees peers that are in no address vector, and with whom nothing is under way. */
static void drop_unknown(struct mrail_ep *ep, struct mrail_peer **at)
{
    struct mrail_peer *peer = *at;

    *at = peer->next;
    list_detach(&peer->ready);
    timer_stop(&peer->timer);
    for (unsigned i = 0; i < ep->count; i++)
        ep->way[i].down -= peer->told_down[i];
    ids_remove(&ep->numbers, peer->intro.number);
    leave_rails(peer);
    free(peer);
}

static void resolve_all(struct mrail_ep *ep, bool removed)
{
    for (size_t i = 0; i < MRAIL_BUCKETS; i++) {
        for (struct mrail_peer **at = &ep->buckets[i]; *at;) {
            struct mrail_peer *peer = *at;
            fi_addr_t was = peer->addr;

            peer->addr = av_find(ep->up.base.av, peer->name);
            if (removed && was != FI_ADDR_NOTAVAIL && peer->addr == FI_ADDR_NOTAVAIL &&
                !ep->up.running && !flow_busy(&peer->flow) && !peer->flow.kept)
                drop_unknown(ep, at);
            else
                at = &peer->next;
        }
    }
}

void mrail_peers_take_changes(struct mrail_ep *ep)
{
    struct av_changes changes;
    fi_addr_t addr;

    av_watch_take(&ep->up.watch, &changes);
    if (changes.removed_count > AV_WATCH_REMOVED) {
        for (addr = peer_map_next(&ep->map, 0); addr != FI_ADDR_NOTAVAIL;
             addr = peer_map_next(&ep->map, addr + 1))
            take_away(ep, addr);
    } else {
        for (size_t i = 0; i < changes.removed_count; i++)
            take_away(ep, changes.removed[i]);
    }
    resolve_all(ep, changes.removed_count != 0);
}

void mrail_peers_finish(struct mrail_ep *ep)
{
    for (size_t i = 0; i < MRAIL_BUCKETS; i++) {
        while (ep->buckets[i])
            drop_unknown(ep, &ep->buckets[i]);
    }
    peer_map_finish(&ep->map);
    ids_finish(&ep->numbers);
}
