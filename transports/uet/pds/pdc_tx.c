/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A PDC sends: packets get numbers, stay in a ring until they have ended, and are in one list
 * each: in flight, to be sent again, held back, or arrived and not answered.
 */
#include <stdlib.h>
#include <string.h>

#include "transports/uet/pds/pdc.h"

enum {
    SYN_NUMBERS = 4096, /* psn_offset has 12 bits */
    OVERHEAD = 12 + 40, /* bytes of a packet beside SES header and payload */
    LIMIT_MIN = 4,
};

void pdc_tx_init(struct pdc_tx *tx, const struct pds *pds)
{
    tx->mpr = pds->settings.mpr;
    tx->limit = pds->settings.mpr;
    while (tx->ring_mask + 1 < pds->settings.mpr)
        tx->ring_mask = 2 * tx->ring_mask + 1;
    tx->window = (struct window){.ops = &window_fixed, .bytes = pds->settings.window};
    tx->reorder = pds->settings.reorder;
    tx->heard = pds->now;
    list_init(&tx->sources);
    list_init(&tx->flight);
    list_init(&tx->resend);
    list_init(&tx->held);
    list_init(&tx->arrived);
}

void pdc_tx_finish(struct pdc *pdc)
{
    free(pdc->tx->ring);
    pdc->tx->ring = NULL;
}

bool pdc_tx_idle(const struct pdc *pdc)
{
    return pdc->tx->first == pdc->tx->next && list_empty(&pdc->tx->sources);
}

static struct pds_packet **slot(const struct pdc *pdc, uint64_t number)
{
    return &pdc->tx->ring[number & pdc->tx->ring_mask];
}

struct pds_packet *pdc_tx_at(const struct pdc *pdc, uint64_t number)
{
    if (number < pdc->tx->first || number >= pdc->tx->next)
        return NULL;
    return *slot(pdc, number);
}

static uint64_t cost(const struct pds_packet *packet)
{
    return packet->len + packet->header_len + OVERHEAD;
}

/* ---- From list to list ---- */

static void leave_list(struct pdc *pdc, struct pds_packet *packet)
{
    if (packet->state == PACKET_FLIGHT) {
        pdc->tx->bytes -= cost(packet);
        pdc->tx->flying--;
    }
    list_detach(&packet->link);
}

/* One more packet is known to have come. */
static void count_arrival(struct pdc *pdc)
{
    pdc->tx->came++;
    pdc->tx->limit += pdc->tx->limit < pdc->pds->settings.mpr;
}

void pdc_tx_slow_down(struct pdc *pdc)
{
    unsigned limit = (pdc->tx->flying < pdc->tx->limit ? pdc->tx->flying : pdc->tx->limit) / 2;

    pdc->tx->limit = limit > LIMIT_MIN ? limit : LIMIT_MIN;
}

void pdc_tx_resend(struct pdc *pdc, struct pds_packet *packet)
{
    struct list *before = &pdc->tx->resend;

    leave_list(pdc, packet);
    packet->state = PACKET_RESEND;
    while (before->prev != &pdc->tx->resend &&
           list_item(before->prev, struct pds_packet, link)->number > packet->number)
        before = before->prev;
    list_attach_before(&packet->link, before);
    pdc_activate(pdc);
}

void pdc_tx_hold(struct pdc *pdc, struct pds_packet *packet, uint64_t until)
{
    leave_list(pdc, packet);
    packet->state = PACKET_HELD;
    packet->at = until;
    list_attach(&packet->link, &pdc->tx->held);
    pdc_activate(pdc);
}

void pdc_tx_arrived(struct pdc *pdc, struct pds_packet *packet)
{
    leave_list(pdc, packet);
    count_arrival(pdc);
    packet->state = PACKET_ARRIVED;
    packet->at = pdc->pds->now;
    packet->retries = 0;
    list_attach(&packet->link, &pdc->tx->arrived);
    pdc_activate(pdc);
}

/* ---- One packet out ---- */

static void fill_header(const struct pdc *pdc, const struct pds_packet *packet,
                        struct pds_header *header)
{
    bool ordered = pdc->key.mode == PDS_MODE_ROD;

    *header = (struct pds_header){
        .type = ordered ? PDS_ROD : PDS_RUD,
        .next = packet->next,
        .flags = packet->again ? PDS_RETX | PDS_AR : 0,
        .offset = (int16_t)(pdc->tx->first - 1 - packet->number),
        .psn = pdc_tx_psn(pdc, packet->number),
        .spdcid = pdc->id,
        .dpdcid = pdc->peer_id,
    };
    if (packet->last || pdc->pds->settings.ack_each)
        header->flags |= PDS_AR;
    if (pdc->ours && pdc->state == PDC_SYN) {
        header->flags |= PDS_SYN;
        header->psn_offset = (uint16_t)packet->number;
    }
    if (packet->control == CONTROL_KINDS)
        return;
    header->type = PDS_CONTROL;
    header->next = packet->control;
    header->offset = 0;
    header->flags |= PDS_AR | (ordered ? PDS_IS_ROD : 0);
}

static void transmit(struct pdc *pdc, struct pds_packet *packet)
{
    struct pds *pds = pdc->pds;
    uint8_t bytes[PDS_HEADER_MAX + SES_HEADER_MAX];
    struct iovec iov[PDS_IOV + 1];
    struct pds_header header;
    size_t size;

    fill_header(pdc, packet, &header);
    size = pds_header_put(&header, pds->settings.short_rudi, bytes);
    memcpy(bytes + size, packet->header, packet->header_len);
    iov[0] = (struct iovec){.iov_base = bytes, .iov_len = size + packet->header_len};
    memcpy(iov + 1, packet->iov, packet->iov_count * sizeof(*iov));
    packet->state = PACKET_FLIGHT;
    packet->order = ++pdc->tx->order;
    packet->at = pds->now;
    list_attach(&packet->link, &pdc->tx->flight);
    pdc->tx->bytes += cost(packet);
    pdc->tx->flying++;
    if (header.type != PDS_CONTROL) {
        pdc->tx->cleared = pdc->tx->first;
        pdc->tx->clear_at = 0;
    }
    pds->counters.sent++;
    pds->ops->transmit(pds->arg, &pdc->key.to, iov, 1u + packet->iov_count, false);
}

/* ---- New packets ---- */

static bool has_room(const struct pdc *pdc)
{
    const struct pdc_tx *tx = pdc->tx;

    return tx->next - tx->acked < tx->mpr && tx->next - tx->first < pdc->pds->settings.mpr &&
           (pdc->state != PDC_SYN || tx->next < SYN_NUMBERS);
}

static struct pds_packet *new_packet(struct pdc *pdc)
{
    struct pds_packet *packet;

    if (!pdc->tx->ring)
        pdc->tx->ring = calloc(pdc->tx->ring_mask + 1, sizeof(struct pds_packet *));
    packet = pdc->tx->ring ? pool_get(&pdc->pds->packets) : NULL;
    if (!packet)
        return NULL;
    memset(packet, 0, sizeof(*packet));
    packet->control = CONTROL_KINDS;
    packet->number = pdc->tx->next++;
    *slot(pdc, packet->number) = packet;
    return packet;
}

static bool send_new(struct pdc *pdc)
{
    struct pds *pds = pdc->pds;
    struct pds_source *source = list_item(pdc->tx->sources.next, struct pds_source, link);
    struct pds_packet *packet = new_packet(pdc);

    if (!packet)
        return false;
    packet->source = source;
    source->pdc = pdc_ref(pdc);
    if (pdc->tx->first == packet->number)
        pdc->tx->heard = pdc->tx->progressed = pds->now;
    if (!pds->ops->fill(pds->arg, source, packet))
        list_detach(&source->link);
    transmit(pdc, packet);
    return true;
}

bool pdc_tx_control(struct pdc *pdc, enum pds_control kind)
{
    struct pds_packet *packet = has_room(pdc) ? new_packet(pdc) : NULL;

    if (!packet)
        return false;
    packet->control = (uint8_t)kind;
    packet->last = true;
    if (pdc->tx->first == packet->number)
        pdc->tx->heard = pdc->tx->progressed = pdc->pds->now;
    transmit(pdc, packet);
    return true;
}

static void send_again(struct pdc *pdc)
{
    struct pds_packet *packet = list_item(pdc->tx->resend.next, struct pds_packet, link);

    list_detach(&packet->link);
    packet->again = true;
    pdc->pds->counters.resent++;
    transmit(pdc, packet);
}

void pdc_tx_send(struct pdc *pdc)
{
    struct pdc_tx *tx = pdc->tx;

    if (tx->hold_until > pdc->pds->now)
        return;
    tx->hold_until = 0;
    while (tx->flying < tx->limit && (!tx->bytes || tx->bytes < tx->window.bytes)) {
        if (!list_empty(&tx->resend)) {
            send_again(pdc);
            continue;
        }
        /* An ordered PDC sends packets that it held back before all that are new. */
        if (list_empty(&tx->sources) || !has_room(pdc) || !send_new(pdc))
            return;
    }
}

/* ---- Ends ---- */

void pdc_tx_go_on(struct pdc *pdc)
{
    if (!list_empty(&pdc->tx->sources) || !list_empty(&pdc->tx->resend))
        pdc_activate(pdc);
    else
        pdc_activate_later(pdc);
}

void pdc_tx_complete(struct pdc *pdc, struct pds_packet *packet, const struct pds_result *result)
{
    struct pds *pds = pdc->pds;
    struct pdc_tx *tx = pdc->tx;

    leave_list(pdc, packet);
    count_arrival(pdc);
    *slot(pdc, packet->number) = NULL;
    while (tx->first < tx->next && !*slot(pdc, tx->first))
        tx->first++;
    if (packet->control == CONTROL_KINDS)
        pds->ops->done(pds->arg, packet, result);
    else if (packet->control == CONTROL_CLOSE && result->code == RC_OK)
        pdc->state = PDC_CLOSED;
    pool_put(&pds->packets, packet);
    pdc_tx_go_on(pdc);
}

void pdc_tx_renumber(struct pdc *pdc, uint32_t start)
{
    pdc->tx_start = pdc->rx_start = start;
    for (uint64_t number = pdc->tx->first; number < pdc->tx->next; number++) {
        struct pds_packet *packet = pdc_tx_at(pdc, number);

        if (packet)
            pdc_tx_resend(pdc, packet);
    }
}

void pdc_tx_fail(struct pdc *pdc)
{
    struct pds *pds = pdc->pds;
    struct pds_result result = {.code = RC_UNDELIVERABLE};

    for (uint64_t number = pdc->tx->first; number < pdc->tx->next; number++) {
        struct pds_packet *packet = pdc_tx_at(pdc, number);

        if (!packet)
            continue;
        result.psn = pdc_tx_psn(pdc, number);
        pdc_tx_complete(pdc, packet, &result);
    }
    while (!list_empty(&pdc->tx->sources)) {
        struct pds_source *source = list_item(pdc->tx->sources.next, struct pds_source, link);

        list_detach(&source->link);
        pds->ops->failed(pds->arg, source);
    }
}
