/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of PDS and its PDCs; where packets go in; what runs. */
#include "transports/uet/pds/pds.h"

#include <stdlib.h>

#include "transports/uet/pds/pdc.h"

enum {
    ROUNDS = 16, /* of pds_run, while upcalls give it more to do */
};

#define MS UINT64_C(1000000)

const struct pds_settings pds_defaults = {
    .mpr = 1024,
    .window = 131072,
    .ack_trigger = 16384,
    .ack_least = 1024,
    .rto = 1 * MS,
    .rto_count = 5,
    .patience = UINT64_MAX,
    .grace = 250 * MS,
    .nack_time = 1 * MS,
    .nack_count = 5,
    .new_pdc_time = 5 * MS,
    .clear_time = 1 * MS,
    .close_time = 1 * MS,
    .tail_time = 1 * MS,
    .tail_count = 5,
    .safety_time = 100 * MS,
    .rest_time = 20 * MS,
    .noop_time = 100 * MS,
    .reorder = 16,
    .pdcs = PDS_IDS - 1,
    .per_peer = 4,
    .stored = 256,
    .ids = UINT64_MAX,
};

/* ---- Life ---- */

static void start_lists(struct pds *pds)
{
    for (size_t i = 0; i < 2 * pds->bucket_count; i++)
        list_init(&pds->buckets[i]);
    list_init(&pds->active);
    list_init(&pds->used);
    list_init(&pds->timers);
    list_init(&pds->idle_timers);
    list_init(&pds->waiting);
    pdc_tx_init(&pds->rest.tx, pds);
    pdc_rx_init(&pds->rest.rx, pds);
    rudi_init(&pds->rudi, pds->settings.rudi_first);
    pool_init(&pds->packets, sizeof(struct pds_packet), 0);
    pool_init_dense(&pds->pdcs, sizeof(struct pdc), 0);
}

static size_t buckets_for(unsigned pdcs)
{
    size_t count = PDS_BUCKETS_MIN;

    while (count < pdcs && count < PDS_BUCKETS_MAX)
        count *= 2;
    return count;
}

struct pds *pds_create(const struct pds_settings *settings, const struct pds_ops *ops, void *arg,
                       uint64_t seed)
{
    struct pds *pds = calloc(1, sizeof(*pds));

    if (!pds)
        return NULL;
    pds->settings = *settings;
    pds->ops = ops;
    pds->arg = arg;
    pds->random = seed;
    pds->bucket_count = buckets_for(settings->pdcs);
    pds->buckets = malloc(2 * pds->bucket_count * sizeof(*pds->buckets));
    if (!pds->buckets) {
        free(pds);
        return NULL;
    }
    start_lists(pds);
    pds->secret = pds_random(pds);
    if (!pdc_ids_init(pds)) {
        pds_destroy(pds);
        return NULL;
    }
    return pds;
}

static void fail_waiting(struct pds *pds)
{
    while (!list_empty(&pds->waiting)) {
        struct pds_source *source = list_item(pds->waiting.next, struct pds_source, link);

        list_detach(&source->link);
        pds->ops->failed(pds->arg, source);
    }
}

void pds_destroy(struct pds *pds)
{
    if (!pds)
        return;
    fail_waiting(pds);
    rudi_fail_all(pds);
    while (!list_empty(&pds->used))
        pdc_fail(list_item(pds->used.next, struct pdc, used));
    fail_waiting(pds);
    pool_finish(&pds->packets);
    pool_finish(&pds->pdcs);
    free(pds->buckets);
    free(pds->ids);
    free(pds);
}

const struct pds_counters *pds_counters(const struct pds *pds)
{
    return &pds->counters;
}

unsigned pds_count(const struct pds *pds)
{
    return pds->count;
}

/* ---- Ends of PDCs ---- */

/* So that the peer need not wait for a timeout: it sees that numbers are missing. */
static void tell_of_failure(struct pdc *pdc)
{
    if (pdc->ours && pdc->peer_id && pdc_wake(pdc))
        pdc_send_control(pdc, CONTROL_CLOSE, pdc_tx_psn(pdc, pdc->tx->next), 0, 0);
}

void pdc_fail(struct pdc *pdc)
{
    struct pds *pds = pdc->pds;
    struct pds_ref ref = pdc_ref(pdc);
    bool told = pdc->state == PDC_CLOSED;

    if (!told)
        tell_of_failure(pdc);
    pds->counters.failed += !told;
    pdc_tx_fail(pdc);
    pdc_free(pdc);
    if (!told)
        pds->ops->closed(pds->arg, ref, true);
}

void pdc_end(struct pdc *pdc)
{
    struct pds *pds = pdc->pds;
    struct pds_ref ref = pdc_ref(pdc);
    bool first = pdc->ours || pdc->state != PDC_CLOSED, failed = pdc->failed;

    if (first) {
        pds->counters.closed++;
        pdc_tx_fail(pdc);
    }
    if (pdc->ours || pdc->state == PDC_CLOSED) {
        pdc_free(pdc);
    } else {
        pdc_uncount(pdc);
        pdc->state = PDC_CLOSED;
        pdc->failed = false;
        pdc->heard = pds->now;
        pdc_activate(pdc);
    }
    if (first)
        pds->ops->closed(pds->arg, ref, failed);
}

void pdc_ask_to_close(struct pdc *pdc)
{
    if (pdc->wants_close || pdc->state == PDC_CLOSED)
        return;
    pdc_want_close(pdc);
    if (!pdc->ours && pdc_wake(pdc)) {
        pdc->tx->close_by = pdc->pds->now + pdc->pds->settings.close_time;
        pdc->rx->ack_due |= pdc->rx->ack_held;
        pdc_plead(pdc);
    }
    pdc_activate(pdc);
}

bool pds_is_established(const struct pds *pds, struct pds_ref ref)
{
    const struct pdc *pdc = pdc_of(pds, ref);

    return pdc && pdc->state == PDC_ESTABLISHED && (pdc->came || pdc->tx->came);
}

void pds_close(struct pds *pds, struct pds_ref ref)
{
    struct pdc *pdc = pdc_of(pds, ref);

    if (pdc)
        pdc_ask_to_close(pdc);
}

unsigned pds_close_all(struct pds *pds)
{
    unsigned count = 0;

    pds_hurry(pds);
    list_for_each (pos, &pds->used) {
        struct pdc *pdc = list_item(pos, struct pdc, used);

        pdc_ask_to_close(pdc);
        count += pdc->ours;
    }
    return count;
}

void pds_leave(struct pds *pds, const union addr *to)
{
    list_for_each (pos, &pds->used) {
        struct pdc *pdc = list_item(pos, struct pdc, used);

        if (!pdc->ours || !pdc_tx_idle(pdc) || pdc->holds || pdc->left ||
            (to && !addr_equal(&pdc->key.to.sa, &to->sa)))
            continue;
        pdc->left = true;
        pdc_ask_to_close(pdc);
    }
}

unsigned pds_open_count(const struct pds *pds)
{
    unsigned count = 0;

    list_for_each (pos, &pds->used)
        count += list_item(pos, struct pdc, used)->state != PDC_CLOSED;
    return count;
}

/* ---- Sending ---- */

void pds_submit(struct pds *pds, struct pds_source *source, const struct pds_key *key)
{
    bool alone = list_empty(&pds->waiting);

    source->key = *key;
    source->pdc = (struct pds_ref){0};
    list_init(&source->link);
    if (key->mode == PDS_MODE_RUDI) {
        rudi_submit(pds, source);
        return;
    }
    if ((alone || (key->mode == PDS_MODE_RUD && pdc_is_open(pds, key))) && wait_end(pds, source))
        return;
    wait_begin(pds, source);
}

bool pds_submit_return(struct pds *pds, struct pds_source *source, struct pds_ref ref)
{
    struct pdc *pdc = pdc_of(pds, ref);

    if (!pdc || pdc->state == PDC_CLOSED || !pdc_wake(pdc))
        return false;
    source->key = pdc->key;
    source->pdc = ref;
    list_init(&source->link);
    list_attach(&source->link, &pdc->tx->sources);
    pdc_activate(pdc);
    return true;
}

bool pds_answer(struct pds *pds, const struct pds_ticket *ticket, const struct pds_answer *answer)
{
    struct pdc *pdc = pdc_of(pds, ticket->pdc);

    if (!pdc || pdc->state == PDC_CLOSED)
        return false;
    pdc_answer(pdc, ticket->number, answer);
    return true;
}

bool pds_number(const struct pds *pds, struct pds_ref ref, uint32_t psn, uint64_t *number)
{
    const struct pdc *pdc = pdc_of(pds, ref);

    if (!pdc)
        return false;
    *number = serial_expand(psn - pdc->tx_start, pdc->tx ? pdc->tx->next : pdc->tx_next);
    return true;
}

void pds_hold(struct pds *pds, struct pds_ref ref)
{
    struct pdc *pdc = pdc_of(pds, ref);

    if (!pdc)
        return;
    pdc->holds++;
    pdc_activate(pdc);
}

void pds_release(struct pds *pds, struct pds_ref ref)
{
    struct pdc *pdc = pdc_of(pds, ref);

    if (!pdc || !pdc->holds)
        return;
    pdc->holds--;
    pdc_activate(pdc);
}

void pds_datagram(struct pds *pds, const union addr *to, uint8_t next, const struct iovec *body,
                  size_t count)
{
    struct pds_header header = {.type = PDS_UUD, .next = next};
    uint8_t bytes[PDS_HEADER_MAX];
    struct iovec iov[PDS_IOV + 2];

    iov[0].iov_base = bytes;
    iov[0].iov_len = pds_header_put(&header, pds->settings.short_rudi, bytes);
    for (size_t i = 0; i < count && i <= PDS_IOV; i++)
        iov[i + 1] = body[i];
    pds->counters.sent++;
    pds->ops->transmit(pds->arg, to, iov, count + 1, false);
}

/* ---- Receiving ---- */

/* It is forgotten while a late repetition of its opening may still come, so for as long openings
 * must begin as this side demands: one from before does not. */
static void beware(const struct pdc *pdc)
{
    struct pds *pds = pdc->pds;
    uint64_t until = pdc->heard + pds->settings.safety_time;

    if (pdc->state == PDC_CLOSED && pds->wary_until < until)
        pds->wary_until = until;
}

/* The longest unused one of a peer's that owes nothing gives its place. */
static bool reap(struct pds *pds)
{
    unsigned looked = 0;

    list_for_each (pos, &pds->used) {
        struct pdc *pdc = list_item(pos, struct pdc, used);
        bool closed = pdc->state == PDC_CLOSED;

        if (!pdc->ours && (closed || (pdc_tx_idle(pdc) && !pdc->rx->stored_count &&
                                      pds->now - pdc->heard > pds->settings.new_pdc_time))) {
            beware(pdc);
            pdc_fail(pdc);
            return true;
        }
        if (++looked == PDS_LOOK_AT)
            break;
    }
    return false;
}

/* A peer must start with it in that span of New_PDC_Time: nothing is kept until it does, so that
 * openings from forged addresses cost nothing. */
static uint32_t start_for(const struct pds *pds, const union addr *from, uint16_t spdcid,
                          uint64_t span)
{
    uint64_t z = (addr_hash(&from->sa) ^ pds->secret) * UINT64_C(0xbf58476d1ce4e5b9) + spdcid;

    z = (z ^ z >> 30 ^ span) * UINT64_C(0xbf58476d1ce4e5b9) + pds->secret;
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(z ^ z >> 31);
}

/* False: it starts with another one, and has been told which. */
static bool starts_as_demanded(struct pds *pds, const union addr *from,
                               const struct pds_header *header)
{
    uint32_t start = header->psn - header->psn_offset;
    uint64_t span = pds->now / (pds->settings.new_pdc_time + 1);
    uint32_t wanted = start_for(pds, from, header->spdcid, span);

    if (start == wanted || start == start_for(pds, from, header->spdcid, span - 1))
        return true;
    pds->counters.demanded++;
    pds_refuse(pds, from, header, NACK_NEW_START, wanted);
    return false;
}

static struct pdc *open_theirs(struct pds *pds, const union addr *from,
                               const struct pds_header *header)
{
    bool ordered = header->type == PDS_ROD || header->type == PDS_ROD_CC ||
                   (header->type == PDS_CONTROL && header->flags & PDS_IS_ROD);
    struct pds_key key = {.to = *from, .mode = ordered ? PDS_MODE_ROD : PDS_MODE_RUD};
    uint32_t start = header->psn - header->psn_offset;
    struct pdc *pdc;

    if (header->psn_offset >= pds->settings.mpr) {
        pds_refuse(pds, from, header, NACK_INVALID_SYN, 0);
        return NULL;
    }
    if ((pds->settings.demand_start || pds->now < pds->wary_until) &&
        !starts_as_demanded(pds, from, header))
        return NULL;
    pdc = pdc_create(pds, &key, false, start);
    if (!pdc && reap(pds))
        pdc = pdc_create(pds, &key, false, start);
    if (!pdc) {
        pds_refuse(pds, from, header, NACK_NO_PDC, 0);
        wait_make_room(pds); /* it tries again */
        return NULL;
    }
    pdc->peer_id = header->spdcid;
    pdc_insert_peer(pdc);
    return pdc;
}

/* The PDC of a packet that may open one. NULL: there is none, and the sender has been told, or
 * needs not be. */
static struct pdc *find_or_open(struct pds *pds, const union addr *from,
                                const struct pds_header *header)
{
    struct pdc *pdc = pdc_of_peer(pds, from, header->spdcid);

    if (pdc && pdc->rx_start == header->psn - header->psn_offset) {
        if (pdc->state != PDC_CLOSED)
            return pdc;
        pds->counters.strangers++; /* late: its PDC was closed */
        return NULL;
    }
    if (header->type == PDS_CONTROL && header->next != CONTROL_NOOP) {
        pds_refuse(pds, from, header, NACK_INVALID_DPDCID, 0);
        return NULL;
    }
    if (pds_is_returned(header->next) && header->type != PDS_CONTROL) {
        pds_refuse(pds, from, header, NACK_MISMATCH, 0);
        return NULL;
    }
    /* The peer has given the id to another PDC, or it is late, or forged. The one that there is
     * ends when its sender shows that it hears us. */
    if (pdc && !starts_as_demanded(pds, from, header))
        return NULL;
    if (pdc)
        pdc_fail(pdc);
    return open_theirs(pds, from, header);
}

/* Before the first acknowledgement the peer's id is not known. It counts from our Start_PSN, which
 * none but the receiver of our packets knows: what is meant for a former owner of our id, by a peer
 * at the same address, or is a guess, has another number. */
static bool counts_from_start(const struct pdc *pdc, const struct pds_header *header)
{
    return header->psn + 1 - pdc->rx_start <= pdc->pds->settings.mpr;
}

static struct pdc *find_open(struct pds *pds, const union addr *from,
                             const struct pds_header *header)
{
    struct pdc *pdc = pdc_at(pds, header->dpdcid);

    if (!pdc) {
        pds_refuse(pds, from, header, NACK_INVALID_DPDCID, 0);
        return NULL;
    }
    if (!addr_equal(&pdc->key.to.sa, &from->sa)) {
        pds_refuse(pds, from, header, NACK_MISMATCH, 0);
        return NULL;
    }
    if (pdc->state == PDC_SYN && counts_from_start(pdc, header)) {
        /* Data has overtaken the acknowledgement of what asked for it. */
        pdc_establish(pdc, header->spdcid);
    }
    if (pdc->peer_id != header->spdcid) {
        pds_refuse(pds, from, header, NACK_MISMATCH, 0);
        return NULL;
    }
    return pdc;
}

static bool mode_agrees(const struct pdc *pdc, const struct pds_header *header)
{
    bool ordered = header->type == PDS_ROD || header->type == PDS_ROD_CC;

    return header->type == PDS_CONTROL || ordered == (pdc->key.mode == PDS_MODE_ROD);
}

static void take_numbered(struct pds *pds, const union addr *from, const struct pds_header *header,
                          const uint8_t *body, size_t len)
{
    struct pdc *pdc =
        header->flags & PDS_SYN ? find_or_open(pds, from, header) : find_open(pds, from, header);

    if (!pdc) {
        pds->counters.strangers++;
        return;
    }
    if (!pdc_wake(pdc))
        return; /* as if it were lost */
    if (pdc->state != PDC_CLOSED)
        pdc_note_heard(pdc);
    pdc_touch(pdc);
    if (!mode_agrees(pdc, header)) {
        pdc_send_nack(pdc, NACK_MODE_MISMATCH, header->psn, 0, header->flags & PDS_RETX);
    } else if (pdc->state == PDC_CLOSED &&
               !(header->type == PDS_CONTROL && header->next == CONTROL_CLOSE)) {
        pdc_send_nack(pdc, NACK_CLOSING, header->psn, 0, header->flags & PDS_RETX);
    } else if (header->type == PDS_CONTROL) {
        pdc_take_control(pdc, header, body, len);
    } else {
        pdc_take_request(pdc, header, body, len);
    }
}

/* Of ACK and NACK: they are for a PDC that there is, from its peer, or are dropped. */
static struct pdc *find_sender(struct pds *pds, const union addr *from,
                               const struct pds_header *header)
{
    struct pdc *pdc = pdc_at(pds, header->dpdcid);

    if (!pdc || pdc->state == PDC_CLOSED || !addr_equal(&pdc->key.to.sa, &from->sa)) {
        pds->counters.strangers++;
        return NULL;
    }
    return pdc_wake(pdc) ? pdc : NULL;
}

static void take_datagram(struct pds *pds, const union addr *from, const struct pds_header *header,
                          const uint8_t *body, size_t len)
{
    struct pds_answer answer = {.kind = ANSWER_NOW};
    struct pds_arrival arrival = {
        .now = pds->now,
        .from = *from,
        .bytes = body,
        .len = len,
        .next = header->next,
        .datagram = true,
        .key = {.to = *from},
    };

    pds->counters.received++;
    pds->ops->request(pds->arg, &arrival, &answer);
}

void pds_receive(struct pds *pds, uint64_t now, const union addr *from, const uint8_t *bytes,
                 size_t len, bool marked)
{
    struct pds_header header;
    int size = pds_header_get(bytes, len, pds->settings.short_rudi, &header);
    struct pdc *pdc;

    pds->now = now;
    pds->marked = marked;
    if (size < 0) {
        pds->counters.malformed++;
        return;
    }
    bytes += size;
    len -= (size_t)size;
    if (pds_is_request(header.type) || header.type == PDS_CONTROL) {
        take_numbered(pds, from, &header, bytes, len);
    } else if (pds_is_ack(header.type)) {
        pdc = find_sender(pds, from, &header);
        if (pdc)
            pdc_take_ack(pdc, &header, bytes, len);
    } else if (header.flags & PDS_NT_RUDI &&
               (header.type == PDS_NACK || header.type == PDS_NACK_CCX)) {
        rudi_take_nack(pds, from, &header);
    } else if (header.type == PDS_NACK || header.type == PDS_NACK_CCX) {
        pdc = find_sender(pds, from, &header);
        if (pdc)
            pdc_take_nack(pdc, &header);
    } else if (header.type == PDS_UUD) {
        take_datagram(pds, from, &header, bytes, len);
    } else if (header.type == PDS_RUDI) {
        rudi_take_request(pds, from, &header, bytes, len, marked);
    } else {
        rudi_take_response(pds, from, &header, bytes, len);
    }
}

/* ---- Closed ports ---- */

void pds_hurry(struct pds *pds)
{
    if (pds->hurries)
        return;
    pds->hurries = true;
    list_for_each (pos, &pds->used) {
        struct pdc *pdc = list_item(pos, struct pdc, used);

        if (pdc->tx->unreachable)
            pdc_activate(pdc);
    }
}

static void doubt(struct pdc *pdc)
{
    if (pdc->state == PDC_CLOSING) {
        pdc->state = PDC_CLOSED; /* there is none to agree with */
    } else if (!pdc->tx->unreachable) {
        pdc->tx->unreachable = pdc->pds->now;
        pdc->tx->timed_out = pdc->pds->now; /* questions follow quickly: */
        pdc->tx->backoff = 0;
    } else {
        return;
    }
    pdc_activate(pdc);
}

void pds_unreachable(struct pds *pds, uint64_t now, const union addr *to, const uint8_t *quote,
                     size_t len)
{
    struct pds_header header;
    struct pdc *pdc;

    pds->now = now;
    if (pds_header_get(quote, len, pds->settings.short_rudi, &header) < 0 ||
        (!pds_is_request(header.type) && header.type != PDS_CONTROL))
        return;
    pdc = pdc_at(pds, header.spdcid);
    if (!pdc || pdc->state == PDC_CLOSED || !addr_equal(&pdc->key.to.sa, &to->sa) ||
        !pdc_tx_at(pdc, serial_expand(header.psn - pdc->tx_start, pdc->tx->acked)))
        return;
    pds->counters.unreachable++;
    doubt(pdc);
}

/* ---- Running ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void wake_due_of(struct pds *pds, const struct list *timers)
{
    struct timer *timer;

    while ((timer = timers_due(timers, (int64_t)pds->now))) {
        timer_stop(timer);
        pdc_activate_later(list_item(timer, struct pdc, timer));
    }
}

static void wake_due(struct pds *pds)
{
    wake_due_of(pds, &pds->timers);
    wake_due_of(pds, &pds->idle_timers);
}

/* A caller that looks late has not heard either what came meanwhile: timeouts begin anew. Once, or
 * one that is always late would never have any. */
static void note_pause(struct pds *pds)
{
    uint64_t due = (uint64_t)timers_next(&pds->timers);

    if (list_empty(&pds->timers) || pds->now <= due + pds->settings.rto / 2 || pds->excused)
        return;
    pds->excused = true;
    pds->paused = pds->now;
}

void pds_push(struct pds *pds, uint64_t now, struct pds_ref ref)
{
    struct pdc *pdc = pdc_of(pds, ref);

    if (now > pds->now)
        pds->now = now;
    if (pdc && !pdc->failed && !pdc->wants_close && pdc->state <= PDC_ESTABLISHED) {
        pdc_tx_send(pdc);
        pdc_activate_later(pdc);
        if (pds->pushable == ref.id)
            pds->urgent = false;
    }
}

bool pds_is_urgent(const struct pds *pds)
{
    return pds->urgent;
}

void pds_run(struct pds *pds, uint64_t now)
{
    pds->now = now;
    pds->urgent = false;
    pds->pushable = 0;
    note_pause(pds);
    wake_due(pds);
    rudi_run(pds);
    for (int round = 0; round < ROUNDS; round++) {
        struct list batch;

        wait_run(pds);
        list_init(&batch);
        list_join(&pds->active, &batch);
        if (list_empty(&batch))
            return;
        while (!list_empty(&batch)) {
            struct pdc *pdc = list_item(batch.next, struct pdc, active);

            list_detach(&pdc->active);
            pdc_run(pdc);
        }
    }
}

uint64_t pds_deadline(const struct pds *pds)
{
    int64_t due = timers_next(&pds->timers), idle = timers_next(&pds->idle_timers);

    uint64_t first = earlier(rudi_deadline(&pds->rudi), wait_deadline(pds));

    if (!list_empty(&pds->active))
        return 0;
    due = due < idle ? due : idle;
    return due == TIMER_NEVER ? first : earlier(first, (uint64_t)due);
}
