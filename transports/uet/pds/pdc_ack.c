/* SPDX-License-Identifier: BSD-2-Clause */
/* Acknowledgements and refusals of what this side has sent: what ended, what is lost. */
#include "transports/uet/pds/pdc.h"

enum {
    SACK_BITS = 64,
    WENT_BACK = 200 * 1000, /* ns: within it further refusals are of the same loss */
};

/* ---- Packets that have come ---- */

/* A packet has come: those that left long before it, and have not, are lost. */
static void note_arrival(struct pdc *pdc, const struct pds_packet *packet, bool retx)
{
    if (packet->again && !retx) {
        /* The first transmission has come after all: the network reorders by more. */
        if (packet->state == PACKET_FLIGHT && pdc->tx->reorder < pdc->pds->settings.mpr)
            pdc->tx->reorder *= 2;
        return;
    }
    if (packet->order > pdc->tx->overtook)
        pdc->tx->overtook = packet->order;
}

/* Of a packet that is acknowledged by its number. Others may have come long before. */
static void measure(struct pdc *pdc, const struct pds_packet *packet)
{
    if (!packet->again && packet->state == PACKET_FLIGHT)
        rtt_add(&pdc->tx->rtt, pdc->pds->now, pdc->pds->now - packet->at, 0);
}

static void take_response(struct pdc *pdc, struct pds_packet *packet,
                          const struct pds_header *header, const uint8_t *body, size_t len)
{
    struct pds_result result = {
        .code = RC_OK,
        .next = header->next,
        .response = body,
        .len = len,
        .psn = pdc_tx_psn(pdc, packet->number),
    };

    measure(pdc, packet);
    note_arrival(pdc, packet, header->flags & PDS_RETX);
    if (header->next == NEXT_RESPONSE && len && (body[0] & 0x3f) == SES_NO_RESPONSE) {
        if (packet->state != PACKET_ARRIVED)
            pdc_tx_arrived(pdc, packet);
        return;
    }
    pdc_tx_complete(pdc, packet, &result);
}

/* All below `cack` is acknowledged, without a response of its own. */
static void take_cumulative(struct pdc *pdc, uint64_t cack)
{
    while (pdc->tx->first < cack) {
        uint64_t number = pdc->tx->first;
        struct pds_result result = {.code = RC_OK, .psn = pdc_tx_psn(pdc, number)};
        struct pds_packet *packet = pdc_tx_at(pdc, number);

        note_arrival(pdc, packet, false);
        pdc_tx_complete(pdc, packet, &result);
    }
}

static void take_sack(struct pdc *pdc, uint64_t base, uint64_t bitmap)
{
    for (unsigned i = 0; i < SACK_BITS; i++) {
        struct pds_packet *packet = bitmap >> i & 1 ? pdc_tx_at(pdc, base + i) : NULL;

        if (!packet || packet->state == PACKET_ARRIVED)
            continue;
        note_arrival(pdc, packet, false);
        pdc_tx_arrived(pdc, packet);
    }
}

/* ---- Lost packets ---- */

void pdc_detect_loss(struct pdc *pdc)
{
    struct pdc_tx *tx = pdc->tx;

    while (!list_empty(&tx->flight)) {
        struct pds_packet *packet = list_item(tx->flight.next, struct pds_packet, link);

        if (packet->order + tx->reorder >= tx->overtook)
            return;
        window_lost(&tx->window, pdc->pds->now, packet->len);
        pdc_tx_resend(pdc, packet);
    }
}

/* The answer to a probe covers 64 numbers: of those, what left before the probe and has not come
 * is lost. */
static void take_probe(struct pdc *pdc, const struct pds_header *header, uint64_t base)
{
    struct pdc_tx *tx = pdc->tx;

    if (!tx->probe_order || header->opaque != tx->opaque)
        return;
    for (unsigned i = 0; i < SACK_BITS; i++) {
        struct pds_packet *packet = pdc_tx_at(pdc, base + i);

        if (packet && packet->state == PACKET_FLIGHT && packet->order <= tx->probe_order) {
            window_lost(&tx->window, pdc->pds->now, packet->len);
            pdc_tx_resend(pdc, packet);
        }
    }
    tx->probe_order = 0;
}

/* ---- Acknowledgements ---- */

/* Is it of the one that this PDC talks to? */
static bool is_genuine(struct pdc *pdc, const struct pds_header *header, uint64_t cack)
{
    if (cack > pdc->tx->next)
        return false;
    return pdc->state == PDC_SYN || header->spdcid == pdc->peer_id;
}

static void establish(struct pdc *pdc, uint16_t peer_id)
{
    if (pdc->state != PDC_SYN)
        return;
    pdc_establish(pdc, peer_id);
}

static void take_wishes(struct pdc *pdc, const struct pds_header *header)
{
    struct pds *pds = pdc->pds;

    if (header->flags & PDS_WANTS_CLEAR && !pdc->tx->clear_at && pdc->tx->cleared < pdc->tx->first)
        pdc->tx->clear_at = pds->now + pds->settings.clear_time;
    if (header->flags & PDS_WANTS_CLOSE && pdc->ours)
        pds_close(pds, pdc_ref(pdc));
}

static void take_window(struct pdc *pdc, const struct pds_header *header, uint64_t before,
                        uint64_t cack)
{
    struct window_ack ack = {
        .now = pdc->pds->now,
        .bytes = before > pdc->tx->bytes ? before - pdc->tx->bytes : 0,
        .marked = header->flags & PDS_MARKED,
        .state = header->cc_state[0],
    };

    window_acked(&pdc->tx->window, &ack);
    if (header->mpr && cack >= pdc->tx->acked)
        pdc->tx->mpr = (uint64_t)header->mpr * PDS_MPR_UNIT;
}

/* An acknowledgement that tells nothing new does not show that the path is as fast as before. */
static void note_progress(struct pdc *pdc, uint64_t came)
{
    struct pdc_tx *tx = pdc->tx;

    if (tx->came != came) {
        tx->backoff = tx->probes = 0;
        tx->progressed = pdc->pds->now;
    }
    tx->heard = pdc->pds->now;
    pdc_tx_go_on(pdc);
}

void pdc_take_ack(struct pdc *pdc, const struct pds_header *header, const uint8_t *body, size_t len)
{
    struct pdc_tx *tx = pdc->tx;
    uint64_t cack = serial_expand(header->psn + 1 - pdc->tx_start, tx->acked);
    uint64_t number = cack - 1 + (uint64_t)(int64_t)header->offset;
    uint64_t bytes = tx->bytes, came = tx->came;
    uint64_t base = cack - 1 + (uint64_t)(int64_t)header->sack_offset;
    struct pds_packet *packet;

    pdc->pds->counters.acks_received++;
    if (!is_genuine(pdc, header, cack)) {
        pdc->pds->counters.strangers++;
        return;
    }
    pdc_note_heard(pdc);
    establish(pdc, header->spdcid);
    if (cack > tx->acked)
        tx->acked = cack;
    packet = header->flags & PDS_IS_PROBE ? NULL : pdc_tx_at(pdc, number);
    if (packet)
        take_response(pdc, packet, header, body, len);
    take_cumulative(pdc, cack);
    if (header->type != PDS_ACK)
        take_sack(pdc, base, header->sack_bitmap);
    take_window(pdc, header, bytes, cack);
    if (header->type != PDS_ACK && header->flags & PDS_IS_PROBE)
        take_probe(pdc, header, base);
    note_progress(pdc, came);
    take_wishes(pdc, header);
    if (pdc->key.mode == PDS_MODE_RUD)
        pdc_detect_loss(pdc);
}

/* ---- Refusals ---- */

enum pds_reaction pds_reaction(uint8_t code)
{
    switch (code) {
    case NACK_TRIMMED:
    case NACK_TRIMMED_LASTHOP:
    case NACK_NOT_RECEIVED:
    case NACK_ACK_WITH_DATA:
    case NACK_INFERRED_LOSS:
    case NACK_OUT_OF_WINDOW: return REACTION_RESEND;
    case NACK_NO_PDC:
    case NACK_NO_CCC:
    case NACK_NO_BITMAP:
    case NACK_NO_BUFFER:
    case NACK_NO_GTD:
    case NACK_NO_MESSAGE:
    case NACK_NO_RESOURCE:
    case NACK_EXPERIMENTAL:
    case NACK_EXPERIMENTAL_ERROR: return REACTION_LATER;
    case NACK_ROD_OOO: return REACTION_GO_BACK;
    case NACK_NEW_START: return REACTION_RENUMBER;
    case NACK_IN_PROGRESS: return REACTION_WAIT;
    case NACK_INVALID_DPDCID:
    case NACK_MISMATCH:
    case NACK_CLOSING:
    case NACK_INVALID_SYN:
    case NACK_MODE_MISMATCH: return REACTION_REOPEN;
    case NACK_CLOSING_IN_ERROR:
    case NACK_GTD_UNAVAILABLE:
    case NACK_UNEXPECTED:
    case NACK_EXPERIMENTAL_FATAL: return REACTION_FAIL;
    default: return REACTION_NONE; /* reserved ones, and of trimmed acknowledgements */
    }
}

static void go_back(struct pdc *pdc, uint64_t from)
{
    if (pdc->tx->went_back && pdc->pds->now - pdc->tx->went_back < WENT_BACK)
        return;
    pdc->tx->went_back = pdc->pds->now;
    pdc_tx_slow_down(pdc);
    for (uint64_t number = from; number < pdc->tx->next; number++) {
        struct pds_packet *packet = pdc_tx_at(pdc, number);

        if (packet && packet->state == PACKET_FLIGHT)
            pdc_tx_resend(pdc, packet);
    }
}

/* An ordered PDC stops until then: what is behind the packet was refused, too. */
static void hold_back(struct pdc *pdc, struct pds_packet *packet)
{
    uint64_t until = pdc->pds->now + pdc->pds->settings.nack_time;
    unsigned most = pdc->pds->settings.nack_count;

    if (packet->nacks < UINT8_MAX)
        packet->nacks++;
    if (most != PDS_RETRY_FOREVER && packet->nacks > most) {
        pdc->failed = true;
        pdc_activate(pdc);
        return;
    }
    packet->retries = 0;
    pdc->tx->backoff = 0; /* the peer is there */
    pdc->tx->progressed = pdc->pds->now;
    if (pdc->key.mode == PDS_MODE_RUD) {
        pdc_tx_slow_down(pdc);
        pdc_tx_hold(pdc, packet, until);
        return;
    }
    pdc->tx->hold_until = until;
    pdc->tx->went_back = 0;
    go_back(pdc, packet->number);
}

/* The peer does not know the PDC. Before the first acknowledgement it may never have: it is opened
 * anew. Later what is under way may have been carried out, and to send it again on another PDC
 * would carry it out twice. */
static void reopen(struct pdc *pdc)
{
    if (pdc->state == PDC_CLOSING)
        pdc->state = PDC_CLOSED;
    else if (pdc->state == PDC_SYN && !pdc->tx->came &&
             pdc->tx->backoff < pdc->pds->settings.rto_count)
        pdc_tx_renumber(pdc, (uint32_t)pds_random(pdc->pds));
    else
        pdc->failed = true;
    pdc->tx->backoff++;
    pdc_activate(pdc);
}

static void renumber(struct pdc *pdc, uint32_t start)
{
    if (pdc->state == PDC_SYN && pdc->tx_start != start)
        pdc_tx_renumber(pdc, start);
}

static void resend(struct pdc *pdc, struct pds_packet *packet)
{
    if (packet->state != PACKET_RESEND && packet->state != PACKET_HELD)
        pdc_tx_resend(pdc, packet);
}

void pdc_take_nack(struct pdc *pdc, const struct pds_header *header)
{
    uint64_t number = serial_expand(header->psn - pdc->tx_start, pdc->tx->acked);
    struct pds_packet *packet = pdc_tx_at(pdc, number);
    uint64_t from = serial_expand(header->payload - pdc->tx_start, pdc->tx->acked);

    pdc->pds->counters.nacks_received++;
    /* Of what is not under way it is late, or a lie. */
    if (!packet || (header->spdcid && pdc->state != PDC_SYN && header->spdcid != pdc->peer_id)) {
        pdc->pds->counters.strangers++;
        return;
    }
    pdc_note_heard(pdc);
    pdc->tx->heard = pdc->pds->now;
    if (header->spdcid && pds_reaction(header->nack_code) < REACTION_REOPEN &&
        header->nack_code != NACK_NEW_START)
        establish(pdc, header->spdcid); /* it has the PDC, and is short of something else */
    switch (pds_reaction(header->nack_code)) {
    case REACTION_NONE: break;
    case REACTION_RESEND: resend(pdc, packet); break;
    case REACTION_LATER: hold_back(pdc, packet); break;
    case REACTION_GO_BACK: go_back(pdc, from < pdc->tx->first ? pdc->tx->first : from); break;
    case REACTION_RENUMBER: renumber(pdc, header->payload); break;
    case REACTION_WAIT:
        if (packet->state != PACKET_ARRIVED)
            pdc_tx_arrived(pdc, packet);
        packet->retries = 0;
        break;
    case REACTION_REOPEN: reopen(pdc); break;
    case REACTION_FAIL:
        pdc->failed = true;
        pdc_activate(pdc);
        break;
    }
}
