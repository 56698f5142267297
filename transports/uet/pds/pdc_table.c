/* SPDX-License-Identifier: BSD-2-Clause */
/* PDCs by their own id, by that of their peer, and by what they are for. */
#include <stdlib.h>
#include <string.h>

#include "transports/uet/pds/pdc.h"

uint64_t pds_random(struct pds *pds)
{
    /* splitmix64 */
    uint64_t z = pds->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* ---- Buckets ---- */

static struct list *bucket_of_peer(const struct pds *pds, const union addr *from, uint16_t peer_id)
{
    uint64_t hash = addr_hash(&from->sa) ^ peer_id * UINT64_C(0x9e3779b97f4a7c15);

    return &pds->buckets[pds->bucket_count + ((hash ^ hash >> 32) & (pds->bucket_count - 1))];
}

static struct list *bucket_of_key(const struct pds *pds, const struct pds_key *key)
{
    uint64_t use = (uint64_t)key->pid << 40 | (uint64_t)key->job << 16 |
                   (uint64_t)key->tclass << 8 | key->mode;
    uint64_t hash = addr_hash(&key->to.sa) ^ use * UINT64_C(0x9e3779b97f4a7c15);

    return &pds->buckets[(hash ^ hash >> 32) & (pds->bucket_count - 1)];
}

static bool same_key(const struct pds_key *a, const struct pds_key *b)
{
    return a->mode == b->mode && a->tclass == b->tclass && a->job == b->job && a->pid == b->pid &&
           addr_equal(&a->to.sa, &b->to.sa);
}

struct pdc *pdc_of_peer(const struct pds *pds, const union addr *from, uint16_t peer_id)
{
    list_for_each (pos, bucket_of_peer(pds, from, peer_id)) {
        struct pdc *pdc = list_item(pos, struct pdc, by_peer);

        if (pdc->peer_id == peer_id && addr_equal(&pdc->key.to.sa, &from->sa))
            return pdc;
    }
    return NULL;
}

void pdc_insert_peer(struct pdc *pdc)
{
    list_attach(&pdc->by_peer, bucket_of_peer(pdc->pds, &pdc->key.to, pdc->peer_id));
}

/* ---- Ids ---- */

struct pdc *pdc_at(const struct pds *pds, uint16_t id)
{
    return id < pds->id_count ? pds->ids[id] : NULL;
}

struct pdc *pdc_of(const struct pds *pds, struct pds_ref ref)
{
    struct pdc *pdc = pdc_at(pds, ref.id);

    return pdc && pdc->generation == ref.generation ? pdc : NULL;
}

struct pds_ref pdc_ref(const struct pdc *pdc)
{
    return (struct pds_ref){pdc->id, pdc->generation};
}

static bool is_own(const struct pds *pds, uint16_t id)
{
    return pds->settings.ids >> id / PDS_ID_BLOCK & 1;
}

static unsigned most_pdcs(const struct pds *pds)
{
    return pds->room < pds->settings.pdcs ? pds->room : pds->settings.pdcs;
}

bool pds_is_full(const struct pds *pds)
{
    return pds->count >= most_pdcs(pds);
}

static void note_lack(struct pds *pds)
{
    pds->lacks_ids |= pds->room < pds->settings.pdcs;
}

/* The one that was not in use for the longest time. 0: there is none. */
static uint16_t free_id(struct pds *pds)
{
    if (pds_is_full(pds)) {
        note_lack(pds);
        return 0;
    }
    do {
        pds->last_id++;
        while (!is_own(pds, pds->last_id))
            pds->last_id = (uint16_t)((pds->last_id | (PDS_ID_BLOCK - 1)) + 1);
    } while (!pds->last_id || pdc_at(pds, pds->last_id));
    return pds->last_id;
}

/* The table goes to the end of the last block. */
static bool grow_ids(struct pds *pds, uint64_t ids)
{
    unsigned count = PDS_IDS;
    struct pdc **grown;

    while (count > PDS_ID_BLOCK && !(ids >> (count / PDS_ID_BLOCK - 1) & 1))
        count -= PDS_ID_BLOCK;
    if (count <= pds->id_count)
        return true;
    grown = calloc(count, sizeof(*grown));
    if (!grown)
        return false;
    if (pds->id_count)
        memcpy(grown, pds->ids, pds->id_count * sizeof(*grown));
    free(pds->ids);
    pds->ids = grown;
    pds->id_count = count;
    return true;
}

void pds_set_ids(struct pds *pds, uint64_t ids)
{
    unsigned room = 0;

    if (!grow_ids(pds, ids))
        ids = pds->settings.ids;
    for (unsigned block = 0; block < PDS_IDS / PDS_ID_BLOCK; block++)
        room += (unsigned)(ids >> block & 1) * PDS_ID_BLOCK;
    pds->settings.ids = ids;
    pds->room = room - (ids & 1); /* id 0 is none */
    pds->stirred = true;
}

bool pds_lacks_ids(struct pds *pds)
{
    bool lacks = pds->lacks_ids;

    pds->lacks_ids = false;
    return lacks;
}

/* Somewhere in a block: a former owner of it may have peers that still send to its ids, and if each
 * began with the first ones, these would be those of the next owner. */
static void begin_ids(struct pds *pds)
{
    unsigned first = (unsigned)pds_random(pds) % PDS_IDS, id = first;

    while (!(pds->settings.ids >> id / PDS_ID_BLOCK & 1)) {
        id = (id + PDS_ID_BLOCK) % PDS_IDS;
        if (id == first)
            break;
    }
    pds->last_id = (uint16_t)id;
}

bool pdc_ids_init(struct pds *pds)
{
    if (!grow_ids(pds, pds->settings.ids))
        return false;
    pds_set_ids(pds, pds->settings.ids);
    begin_ids(pds);
    return true;
}

/* ---- Life ---- */

struct pdc *pdc_create(struct pds *pds, const struct pds_key *key, bool ours, uint32_t start)
{
    uint16_t id = free_id(pds);
    struct pdc *pdc = id ? pool_get(&pds->pdcs) : NULL;

    if (!pdc) {
        pds->stirred |= id; /* there was no memory */
        return NULL;
    }
    *pdc = (struct pdc){
        .pds = pds,
        .tx = &pds->rest.tx,
        .rx = &pds->rest.rx,
        .mpr = (uint8_t)(pds->settings.mpr / PDS_MPR_UNIT),
        .reorder = (uint16_t)pds->settings.reorder,
        .tx_start = start,
        .rx_start = start,
    };
    pdc->key = *key;
    pdc->ours = ours;
    pdc->id = id;
    pdc->generation = ++pds->generations;
    pdc->state = ours ? PDC_SYN : PDC_ESTABLISHED;
    pdc->opening = ours;
    pds->opening += ours;
    pdc->heard = pds->now;
    list_init(&pdc->by_peer);
    list_init(&pdc->active);
    timer_init(&pdc->timer);
    list_attach(&pdc->used, &pds->used);
    pds->ids[id] = pdc;
    pds->count++;
    pds->counters.opened++;
    return pdc;
}

void pdc_free(struct pdc *pdc)
{
    struct pds *pds = pdc->pds;

    pdc_uncount(pdc);
    pds->ids[pdc->id] = NULL;
    pds->count--;
    pds->stirred = true;
    list_detach(&pdc->by_peer);
    list_detach(&pdc->active);
    list_detach(&pdc->used);
    timer_stop(&pdc->timer);
    pdc_rest(pdc);
    pool_put(&pds->pdcs, pdc);
}

static void uncount_opening(struct pdc *pdc)
{
    pdc->pds->opening -= pdc->opening;
    pdc->opening = false;
}

void pdc_establish(struct pdc *pdc, uint16_t peer_id)
{
    uncount_opening(pdc);
    pdc->pds->stirred = true;
    pdc->peer_id = peer_id;
    pdc->state = PDC_ESTABLISHED;
}

void pdc_want_close(struct pdc *pdc)
{
    pdc->pds->leaving += !pdc->wants_close;
    pdc->wants_close = true;
}

void pdc_uncount(struct pdc *pdc)
{
    uncount_opening(pdc);
    pdc->pds->leaving -= pdc->wants_close;
    pdc->wants_close = false;
}

void pdc_touch(struct pdc *pdc)
{
    list_detach(&pdc->used);
    list_attach(&pdc->used, &pdc->pds->used);
}

void pdc_activate(struct pdc *pdc)
{
    pds_hasten(pdc->pds);
    pdc_activate_later(pdc);
}

void pdc_activate_source(struct pdc *pdc)
{
    struct pds *pds = pdc->pds;

    pds->pushable = pds->urgent ? 0 : pdc->id;
    pds->urgent = true;
    pdc_activate_later(pdc);
}

void pdc_activate_later(struct pdc *pdc)
{
    if (list_empty(&pdc->active))
        list_attach(&pdc->active, &pdc->pds->active);
}

/* ---- Choosing ---- */

/* Random, and far from the last one. */
static uint32_t new_start(struct pds *pds)
{
    uint32_t start = (uint32_t)pds_random(pds);
    uint32_t distance = start - pds->last_start;

    if (distance < PDS_START_DISTANCE || distance > UINT32_MAX - PDS_START_DISTANCE)
        start += 2 * PDS_START_DISTANCE;
    return pds->last_start = start;
}

/* Peers that all open to each other would refuse each other for ever if those that wait for an
 * answer could take all ids: half is left to the others. */
static bool may_open(const struct pds *pds)
{
    return !pds->opening || pds->opening < most_pdcs(pds) / 2;
}

static struct pdc *open_ours(struct pds *pds, const struct pds_key *key)
{
    struct pdc *pdc;

    if (!may_open(pds)) {
        note_lack(pds);
        return NULL;
    }
    pdc = pdc_create(pds, key, true, new_start(pds));
    if (pdc)
        list_attach(&pdc->by_peer, bucket_of_key(pds, key));
    return pdc;
}

/* Ordered messages of a key keep to one PDC, also while it is being closed. Others take one that
 * has nothing to send. */
static struct pdc *find_ours(const struct pds *pds, const struct pds_key *key, unsigned *count)
{
    struct pdc *busy = NULL;

    list_for_each (pos, bucket_of_key(pds, key)) {
        struct pdc *pdc = list_item(pos, struct pdc, by_peer);

        if (!pdc->ours || pdc->left || !same_key(&pdc->key, key))
            continue;
        if (key->mode == PDS_MODE_ROD)
            return pdc;
        if (pdc->state > PDC_ESTABLISHED)
            continue;
        if (list_empty(&pdc->tx->sources))
            return pdc;
        if (!busy)
            busy = pdc;
        (*count)++;
    }
    return busy;
}

/* One that find_ours might give, too: what was chosen last goes to the same peer again mostly. */
static bool is_again(const struct pdc *pdc, const struct pds_key *key)
{
    return pdc && pdc->ours && !pdc->left && pdc->state <= PDC_ESTABLISHED &&
           list_empty(&pdc->tx->sources) && same_key(&pdc->key, key);
}

static struct pdc *choose(struct pds *pds, const struct pds_key *key)
{
    unsigned count = 0;
    struct pdc *pdc = find_ours(pds, key, &count);
    struct pdc *fresh;

    if (pdc && (key->mode == PDS_MODE_ROD || list_empty(&pdc->tx->sources) ||
                count >= pds->settings.per_peer))
        return pdc;
    fresh = open_ours(pds, key);
    return fresh ? fresh : pdc;
}

bool pdc_is_open(const struct pds *pds, const struct pds_key *key)
{
    unsigned count = 0;

    return find_ours(pds, key, &count);
}

struct pdc *pdc_choose(struct pds *pds, const struct pds_key *key)
{
    struct pdc *pdc = pdc_of(pds, pds->chosen);

    if (is_again(pdc, key))
        return pdc;
    pdc = choose(pds, key);
    if (pdc)
        pds->chosen = pdc_ref(pdc);
    return pdc;
}
