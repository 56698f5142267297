/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers: found by fi_addr_t on the data path, by address and by number when a packet comes. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "layers/mrail/mrail_ep.h"

_Static_assert(sizeof(struct mrail_peer) + 2 * sizeof(struct mrail_peer_rail) <= 120,
               "a peer with two rails that rests");

#define FORGET_EVERY UINT64_C(1000000000) /* ns */

static uint32_t hash_of(const struct mrail_ep *ep, const uint8_t *name)
{
    return hash_fold(hash_bytes(HASH_START, name, ep->name_size));
}

const uint8_t *mrail_peer_name(const struct mrail_ep *ep, const struct mrail_peer *peer)
{
    const uint8_t *name;

    if (!peer->rest.rests)
        return peer->session->name;
    if (peer->addr == MRAIL_NO_ADDR)
        return peer->name;
    name = av_addr(ep->up.base.av, peer->addr);
    return name && hash_of(ep, name) == peer->hash ? name : NULL; /* another's has its place */
}

static struct mrail_peer **bucket(struct mrail_ep *ep, uint32_t hash)
{
    return &ep->buckets[hash % MRAIL_BUCKETS];
}

static struct mrail_peer *find(struct mrail_ep *ep, const uint8_t *name)
{
    uint32_t hash = hash_of(ep, name);

    for (struct mrail_peer *peer = *bucket(ep, hash); peer; peer = peer->next) {
        const uint8_t *own = peer->hash == hash ? mrail_peer_name(ep, peer) : NULL;

        if (own && !memcmp(own, name, ep->name_size))
            return peer;
    }
    return NULL;
}

/* The upper's address of a name. */
static uint32_t addr_of(const struct mrail_ep *ep, const uint8_t *name)
{
    fi_addr_t addr = name ? av_find(ep->up.base.av, name) : FI_ADDR_NOTAVAIL;

    return addr < MRAIL_NO_ADDR ? (uint32_t)addr : MRAIL_NO_ADDR;
}

/* ---- Life ---- */

static void leave_rails(struct mrail_ep *ep, struct mrail_peer *peer)
{
    for (unsigned i = 0; i < ep->count; i++) {
        fi_addr_t addr = peer->rail[i].lower;

        if (addr != MRAIL_NO_ADDR)
            fi_av_remove(ep->way[i].av, &addr, 1, 0);
    }
}

/* *ret_addr: its number on a rail. Only want of memory is worth another try: -FI_ENOMEM. */
static int enter_rail(struct fid_av *av, const void *raw, uint32_t *ret_addr)
{
    fi_addr_t addr;
    int err = 0, rc = fi_av_insert(av, raw, 1, &addr, 0, NULL);

    if (rc != 1)
        rc = fi_av_insert(av, raw, 1, &addr, FI_SYNC_ERR, &err); /* it says why */
    if (rc != 1)
        return rc == -FI_ENOMEM || err == FI_ENOMEM ? -FI_ENOMEM : -FI_EINVAL;
    if (addr >= MRAIL_NO_ADDR) {
        fi_av_remove(av, &addr, 1, 0);
        return -FI_EINVAL;
    }
    *ret_addr = (uint32_t)addr;
    return 0;
}

/* -FI_EHOSTUNREACH: no rail takes its address; -FI_ENOMEM. */
static int enter_rails(struct mrail_ep *ep, struct mrail_peer *peer, const struct mrail_addr *addr)
{
    bool any = false;

    for (unsigned i = 0; i < ep->count; i++) {
        const struct mrail_addr_rail *name = mrail_addr_meets(addr, ep->domain->kinds, i);
        const void *raw = name ? name->addr : NULL;
        bool text = ep->domain->rail[i].info->addr_format == FI_ADDR_STR;
        int rc;

        if (!name)
            continue;
        rc = enter_rail(ep->way[i].av, text ? (const void *)&raw : raw, &peer->rail[i].lower);
        if (rc == -FI_ENOMEM)
            return rc;
        any = any || !rc;
    }
    return any ? 0 : -FI_EHOSTUNREACH;
}

/* Of a peer that rests. */
static bool keep_name(const struct mrail_ep *ep, struct mrail_peer *peer, const uint8_t *name)
{
    peer->name = malloc(ep->name_size);
    if (peer->name)
        memcpy(peer->name, name, ep->name_size);
    return peer->name != NULL;
}

/* One that rests. */
static int init_peer(struct mrail_peer *peer, struct mrail_ep *ep, const uint8_t *name)
{
    struct mrail_addr *addr = malloc(sizeof(*addr));
    int rc = addr ? mrail_domain_read_addr(ep->domain, name, ep->name_size, addr) : -FI_ENOMEM;
    uint64_t number;

    for (unsigned i = 0; i < ep->count; i++)
        peer->rail[i].lower = MRAIL_NO_ADDR;
    peer->rest = (struct flow_rest){.limit = FLOW_WINDOW,
                                    .told = FLOW_WINDOW,
                                    .favourite = (uint8_t)ep->config.first,
                                    .turn = (uint8_t)ep->config.first,
                                    .rests = true};
    peer->hash = hash_of(ep, name);
    peer->addr = addr_of(ep, name);
    if (!rc && peer->addr == MRAIL_NO_ADDR && !keep_name(ep, peer, name))
        rc = -FI_ENOMEM;
    if (!rc)
        rc = enter_rails(ep, peer, addr);
    free(addr);
    number = rc ? IDS_NONE : ids_add(&ep->numbers, peer);
    if (number != IDS_NONE) {
        ep->strangers += peer->addr == MRAIL_NO_ADDR;
        mrail_intro_renew(&peer->intro, (uint32_t)number, clock_epoch(&ep->last_epoch));
        return 0;
    }
    leave_rails(ep, peer);
    free(peer->name);
    return rc ? rc : -FI_ENOMEM;
}

static int get(struct mrail_ep *ep, const uint8_t *name, struct mrail_peer **ret_peer)
{
    struct mrail_peer *peer = find(ep, name), **head;
    int rc;

    if (!peer) {
        peer = calloc(1, sizeof(*peer) + ep->count * sizeof(peer->rail[0]));
        rc = peer ? init_peer(peer, ep, name) : -FI_ENOMEM;
        if (rc) {
            free(peer);
            return rc;
        }
        head = bucket(ep, peer->hash);
        peer->next = *head;
        *head = peer;
    }
    *ret_peer = peer;
    return 0;
}

/* The name of one that rests is there, or in the AV. */
static void set_addr(struct mrail_ep *ep, struct mrail_peer *peer, uint32_t addr)
{
    ep->strangers -= peer->addr == MRAIL_NO_ADDR;
    ep->strangers += addr == MRAIL_NO_ADDR;
    if (peer->rest.rests && addr != MRAIL_NO_ADDR) {
        free(peer->name);
        peer->name = NULL;
    }
    peer->addr = addr;
}

/* Apart, so that a peer with a session costs two loads. */
static __attribute__((noinline)) int get_at(struct mrail_ep *ep, fi_addr_t addr,
                                            struct mrail_session **session)
{
    struct mrail_peer *peer = peer_map_at(&ep->map, addr);
    const void *raw;
    void **slot;
    int rc;

    if (!peer) {
        raw = av_addr(ep->up.base.av, addr);
        if (!raw || addr >= MRAIL_NO_ADDR)
            return -FI_EINVAL;
        slot = peer_map_slot(&ep->map, addr);
        rc = slot ? get(ep, raw, &peer) : -FI_ENOMEM;
        if (rc)
            return rc;
        *slot = peer;
        if (peer->addr == MRAIL_NO_ADDR)
            set_addr(ep, peer, (uint32_t)addr);
    }
    *session = mrail_session_wake(ep, peer);
    return *session ? 0 : -FI_ENOMEM;
}

int mrail_session_at(struct mrail_ep *ep, fi_addr_t addr, struct mrail_session **session)
{
    const struct mrail_peer *peer = peer_map_at(&ep->map, addr);

    if (__builtin_expect(!peer || peer->rest.rests, 0))
        return get_at(ep, addr, session);
    *session = peer->session;
    return 0;
}

void mrail_peer_renew(struct mrail_ep *ep, struct mrail_peer *peer)
{
    uint64_t number;

    ids_remove(&ep->numbers, peer->intro.number);
    number = ids_add(&ep->numbers, peer); /* there is room: that which was just left */
    mrail_intro_renew(&peer->intro, (uint32_t)number, clock_epoch(&ep->last_epoch));
}

static void drop(struct mrail_ep *ep, struct mrail_peer **at)
{
    struct mrail_peer *peer = *at;

    *at = peer->next;
    ep->strangers -= peer->addr == MRAIL_NO_ADDR;
    ids_remove(&ep->numbers, peer->intro.number);
    leave_rails(ep, peer);
    if (peer->rest.rests)
        free(peer->name);
    else
        mrail_session_free(peer->session);
    free(peer);
}

/* ---- Strangers ---- */

/* Nothing is under way with it or owed to it, and it is not about to be run. */
static bool is_idle(const struct mrail_peer *peer)
{
    const struct mrail_session *session = mrail_session_of(peer);

    return !session || (!flow_busy(&session->flow) && !session->flow.kept && !session->flow.owed &&
                        list_empty(&session->ready));
}

/* One that sends again is told that the state which it knows has ended. */
static void forget_strangers(struct mrail_ep *ep)
{
    for (size_t i = 0; i < MRAIL_BUCKETS; i++) {
        for (struct mrail_peer **at = &ep->buckets[i]; *at;) {
            if ((*at)->addr == MRAIL_NO_ADDR && is_idle(*at))
                drop(ep, at);
            else
                at = &(*at)->next;
        }
    }
}

/* Is there room for one more? A peer may introduce any number of others. */
static bool takes_stranger(struct mrail_ep *ep)
{
    uint64_t now;

    if (ep->strangers < ep->strangers_most)
        return true;
    now = clock_ns();
    if (now < ep->forgot + FORGET_EVERY)
        return false;
    ep->forgot = now;
    forget_strangers(ep);
    return ep->strangers < ep->strangers_most;
}

/* ---- Who sends ---- */

static const char another[] = "a packet in the name of another peer";

/* Do two numbers of a rail's AV stand for one address? Two peers may have a rail in common. */
static bool is_same(struct fid_av *av, uint32_t one, uint32_t other)
{
    unsigned char name[2][MRAIL_ADDR_MAX];
    size_t len[2] = {sizeof(name[0]), sizeof(name[1])};

    return !fi_av_lookup(av, one, name[0], &len[0]) && !fi_av_lookup(av, other, name[1], &len[1]) &&
           len[0] == len[1] && len[0] <= sizeof(name[0]) && !memcmp(name[0], name[1], len[0]);
}

/* False: another sends in its name. A rail that has told of the peer once tells of it always, but
 * for packets that left, and came, before the peer was inserted there: these have introductions. A
 * rail that never has may not know where the peer sends from. */
static bool is_of(struct mrail_ep *ep, struct mrail_peer *peer, const struct mrail_packet *packet,
                  const struct mrail_head *head, enum mrail_word *word)
{
    uint8_t bit = (uint8_t)(1U << packet->rail);
    uint32_t own = peer->rail[packet->rail].lower;

    *word = peer->intro.vouched ? WORD_HEARSAY : WORD_UNTOLD;
    if (packet->src == MRAIL_NO_ADDR)
        return head->flags & MRAIL_INTRO || !(peer->intro.vouched & bit);
    if (own == MRAIL_NO_ADDR ||
        (packet->src != own && !is_same(ep->way[packet->rail].av, own, packet->src)))
        return false;
    peer->intro.vouched |= bit;
    *word = WORD_OWN;
    return true;
}

/* An introduction. One that finds no memory or room for its peer is lost as on a rail: the peer
 * asks again, and what it sent before that leaves again. */
static struct mrail_session *introduced(struct mrail_ep *ep, const struct mrail_packet *packet,
                                        const struct mrail_head *head, const char **wrong)
{
    struct mrail_session *session;
    enum mrail_intro_fate fate;
    struct mrail_peer *peer;
    enum mrail_word word;

    if (head->addr_len != ep->name_size)
        return NULL;
    if (!find(ep, head->addr) && addr_of(ep, head->addr) == MRAIL_NO_ADDR && !takes_stranger(ep))
        return NULL;
    if (get(ep, head->addr, &peer))
        return NULL;
    if (!is_of(ep, peer, packet, head, &word)) {
        *wrong = another;
        return NULL;
    }
    session = mrail_session_wake(ep, peer);
    if (!session)
        return NULL;
    fate = mrail_intro_take(&peer->intro, head, word);
    if (fate == INTRO_BEGUN || fate == INTRO_UNHEARD)
        flow_end(&session->flow, FI_ECONNRESET);
    if (fate == INTRO_BEGUN)
        fate = mrail_intro_take(&peer->intro, head, word);
    if (fate == INTRO_WANTED || fate == INTRO_TELL || fate == INTRO_UNHEARD)
        session->flow.ack_now = true;
    mrail_ready(session);
    return fate == INTRO_TAKEN || fate == INTRO_WANTED ? session : NULL;
}

/* Of a packet without an introduction. Apart, since it is mostly answered by one look. */
static __attribute__((noinline)) bool is_taken(struct mrail_ep *ep, struct mrail_peer *peer,
                                               const struct mrail_packet *packet,
                                               const struct mrail_head *head)
{
    enum mrail_word word;

    if (!is_of(ep, peer, packet, head, &word))
        return false;
    peer->intro.sure = peer->intro.sure || word == WORD_OWN;
    return word != WORD_HEARSAY || head->type != MRAIL_BYE;
}

struct mrail_session *mrail_session_from(struct mrail_ep *ep, const struct mrail_packet *packet,
                                         const struct mrail_head *head, const char **wrong)
{
    struct mrail_peer *peer;

    if (head->flags & MRAIL_INTRO)
        return introduced(ep, packet, head, wrong);
    peer = ids_find(&ep->numbers, head->to);
    if (!peer)
        return NULL;
    if (__builtin_expect(packet->src != peer->rail[packet->rail].lower || !peer->intro.sure ||
                             packet->src == MRAIL_NO_ADDR,
                         0) &&
        !is_taken(ep, peer, packet, head)) {
        *wrong = another;
        return NULL;
    }
    peer->intro.introduced = true;
    return __builtin_expect(peer->rest.rests, 0) ? mrail_session_wake(ep, peer) : peer->session;
}

/* ---- The AV ---- */

static void take_away(struct mrail_ep *ep, fi_addr_t addr)
{
    if (peer_map_at(&ep->map, addr))
        *peer_map_slot(&ep->map, addr) = NULL;
}

/* One of which the address was removed goes when nothing is under way with it. */
static bool is_to_go(const struct mrail_ep *ep, const struct mrail_peer *peer, bool was_known)
{
    const struct mrail_session *session = mrail_session_of(peer);

    if (ep->up.running || peer->addr != MRAIL_NO_ADDR)
        return false;
    if (!session)
        return !peer->name;
    return was_known && !flow_busy(&session->flow) && !session->flow.kept;
}

/* Where nothing was removed, peers that are known stay so. */
static void resolve_all(struct mrail_ep *ep, bool removed)
{
    for (size_t i = 0; i < MRAIL_BUCKETS; i++) {
        for (struct mrail_peer **at = &ep->buckets[i]; *at;) {
            struct mrail_peer *peer = *at;
            bool was_known = peer->addr != MRAIL_NO_ADDR;

            if (!was_known || removed)
                set_addr(ep, peer, addr_of(ep, mrail_peer_name(ep, peer)));
            if (is_to_go(ep, peer, was_known))
                drop(ep, at);
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
            drop(ep, &ep->buckets[i]);
    }
    peer_map_finish(&ep->map);
    ids_finish(&ep->numbers);
}
