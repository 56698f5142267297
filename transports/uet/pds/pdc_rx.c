/* SPDX-License-Identifier: BSD-2-Clause */
/* A PDC receives: each request is carried out once, and its response kept as needed. */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "transports/uet/pds/pdc.h"

enum {
    NEGOTIATE_ON_OFF = 1,
    NEGOTIATE_WORDS = 2,
    ACK_LATEST = 4, /* times ack_trigger: bytes, as the peer's window counts them */
    ACK_EIGHTH = 8, /* of mpr: packets */
    REQUEST = 12,   /* bytes of PDS's header */
    OVERHEAD = 40,  /* bytes of a packet beside these and what is behind them */
};

/* The bits of every PDC that misses nothing: none is set. */
static uint64_t no_bits[PDS_MPR_MAX / SERIAL_WORD + 1];

void pdc_rx_init(struct pdc_rx *rx, const struct pds *pds)
{
    rx->serial = (struct serial){.size = pds->settings.mpr, .bits = no_bits};
    list_init(&rx->stored);
}

/* Before a number is noted. */
static bool get_bits(struct pdc *pdc)
{
    uint64_t *bits;

    if (pdc->rx->serial.bits != no_bits)
        return true;
    bits = calloc(1, pdc->rx->serial.size / 8);
    if (bits)
        pdc->rx->serial.bits = bits;
    return bits;
}

void pdc_rx_finish(struct pdc *pdc)
{
    list_for_each_safe (pos, after, &pdc->rx->stored)
        free(list_item(pos, struct pdc_stored, link));
    list_init(&pdc->rx->stored);
    if (pdc->rx->serial.bits != no_bits)
        free(pdc->rx->serial.bits);
    pdc->rx->serial.bits = no_bits;
}

/* ---- Responses that are kept ---- */

static struct pdc_stored *stored_at(const struct pdc *pdc, uint64_t number)
{
    list_for_each (pos, &pdc->rx->stored) {
        struct pdc_stored *stored = list_item(pos, struct pdc_stored, link);

        if (stored->number == number)
            return stored;
    }
    return NULL;
}

uint64_t pdc_rx_cack(const struct pdc *pdc)
{
    uint64_t next = pdc->rx->serial.next;

    if (!list_empty(&pdc->rx->stored)) {
        uint64_t first = list_item(pdc->rx->stored.next, struct pdc_stored, link)->number;

        return first < next ? first : next;
    }
    return next;
}

static void drop_stored(struct pdc *pdc, struct pdc_stored *stored)
{
    list_detach(&stored->link);
    pdc->rx->stored_count--;
    free(stored);
}

/* Keeps an answer, or the place of one that comes later. */
static bool store(struct pdc *pdc, uint64_t number, const struct pds_answer *answer)
{
    size_t len = answer->kind == ANSWER_LATER ? 0 : answer->header_len + answer->len;
    struct pdc_stored *stored = malloc(sizeof(*stored) + len);
    struct list *before = &pdc->rx->stored;

    if (!stored)
        return false;
    *stored = (struct pdc_stored){
        .number = number,
        .finished = answer->kind != ANSWER_LATER,
        .guaranteed = answer->guaranteed,
        .next = answer->next,
        .len = len,
    };
    if (len) {
        memcpy(stored->bytes, answer->header, answer->header_len);
        if (answer->len)
            memcpy(stored->bytes + answer->header_len, answer->data, answer->len);
    }
    while (before->prev != &pdc->rx->stored &&
           list_item(before->prev, struct pdc_stored, link)->number > number)
        before = before->prev;
    list_attach_before(&stored->link, before);
    pdc->rx->stored_count++;
    return true;
}

void pdc_rx_clear(struct pdc *pdc, uint64_t below)
{
    list_for_each_safe (pos, after, &pdc->rx->stored) {
        struct pdc_stored *stored = list_item(pos, struct pdc_stored, link);

        if (stored->number >= below)
            return;
        if (stored->finished)
            drop_stored(pdc, stored);
    }
}

/* ---- Acknowledgements ---- */

static void put_default(uint8_t header[SES_RESPONSE_MAX], uint8_t *len, uint8_t opcode)
{
    struct ses_response response = {.next = NEXT_RESPONSE, .opcode = opcode, .code = RC_OK};

    *len = (uint8_t)ses_response_put(&response, header);
}

/* At once, with a response of its own. */
/* The congestion mark of requests that no acknowledgement has told of. */
static uint8_t tell_mark(struct pdc *pdc)
{
    uint8_t flag = pdc->rx->ack_marked ? PDS_MARKED : 0;

    pdc->rx->ack_marked = false;
    return flag;
}

static void acknowledge_now(struct pdc *pdc, uint64_t number, uint8_t flags,
                            const struct pds_answer *answer)
{
    struct pdc_ack ack = {
        .number = number,
        .next = answer->next,
        .flags = (uint8_t)(flags | tell_mark(pdc) | (answer->guaranteed ? PDS_WANTS_CLEAR : 0)),
        .header = answer->header,
        .header_len = answer->header_len,
        .data = answer->data,
        .len = answer->len,
    };

    pdc_send_ack(pdc, &ack);
}

static void send_stored(struct pdc *pdc, const struct pdc_stored *stored, uint8_t flags)
{
    struct pdc_ack ack = {
        .number = stored->number,
        .next = stored->next,
        .flags = (uint8_t)(flags | tell_mark(pdc) | (stored->guaranteed ? PDS_WANTS_CLEAR : 0)),
        .header = stored->bytes,
        .header_len = stored->len,
    };

    pdc_send_ack(pdc, &ack);
}

static void send_default(struct pdc *pdc, uint64_t number, uint8_t flags, uint8_t opcode)
{
    struct pds_answer answer = {.next = NEXT_RESPONSE};

    put_default(answer.header, &answer.header_len, opcode);
    acknowledge_now(pdc, number, flags, &answer);
}

void pdc_rx_acknowledge(struct pdc *pdc)
{
    struct pdc_rx *rx = pdc->rx;
    struct pdc_ack ack = {
        .number = rx->ack_number,
        .next = rx->ack_next,
        .flags = (uint8_t)(tell_mark(pdc) | (rx->ack_retx ? PDS_RETX : 0)),
        .header = rx->ack_header,
        .header_len = rx->ack_len,
    };

    rx->ack_due = rx->ack_held = rx->ack_retx = false;
    rx->bytes = rx->weight = 0;
    rx->packets = 0;
    pdc_send_ack(pdc, &ack);
}

/* With what pds_run sends: one for all that come until then. */
static void acknowledge_soon(struct pdc *pdc, uint64_t number, const struct pds_answer *answer)
{
    struct pdc_rx *rx = pdc->rx;

    rx->ack_held = true;
    rx->ack_number = number;
    rx->ack_next = answer->next;
    rx->ack_len = answer->header_len;
    memcpy(rx->ack_header, answer->header, sizeof(rx->ack_header));
    if (!answer->header_len && answer->next == NEXT_RESPONSE)
        put_default(rx->ack_header, &rx->ack_len, SES_DEFAULT_RESPONSE);
}

/* ---- Requests that came before ---- */

static void take_again(struct pdc *pdc, uint64_t number, const struct pds_header *header)
{
    const struct pdc_stored *stored = stored_at(pdc, number);

    pdc->pds->counters.duplicates++;
    if (!(header->flags & PDS_RETX))
        return; /* the network's doing: its acknowledgement is under way */
    pdc->rx->ack_marked |= pdc->pds->marked;
    if (stored && stored->finished)
        send_stored(pdc, stored, PDS_RETX);
    else if (stored)
        pdc_send_nack(pdc, NACK_IN_PROGRESS, header->psn, 0, true);
    else if (header->type == PDS_CONTROL)
        acknowledge_now(pdc, number, PDS_RETX, &(struct pds_answer){.next = NEXT_NONE});
    else
        send_default(pdc, number, PDS_RETX, SES_DEFAULT_RESPONSE);
}

/* ---- New ones ---- */

static struct pds_ticket ticket_of(const struct pdc *pdc, uint64_t number)
{
    return (struct pds_ticket){pdc_ref(pdc), number, pdc_rx_psn(pdc, number)};
}

/* Where it may not be taken now: true, and the sender has been told. */
static bool is_refused(struct pdc *pdc, const struct pds_header *header, uint64_t number)
{
    struct pdc_rx *rx = pdc->rx;
    bool retx = header->flags & PDS_RETX;

    if (number >= pdc_rx_cack(pdc) + rx->serial.size) {
        pdc_send_nack(pdc, NACK_OUT_OF_WINDOW, header->psn, 0, retx);
        return true;
    }
    if (pdc->key.mode == PDS_MODE_ROD && number != rx->serial.next) {
        /* Once for each loss, since all that follows it comes out of order; and again when the
         * sender, which went back, has lost it again. */
        if (rx->nacked != rx->serial.next + 1 || number <= rx->nacked_by) {
            pdc_send_nack(pdc, NACK_ROD_OOO, header->psn, pdc_rx_psn(pdc, rx->serial.next), retx);
            rx->nacked_by = number;
        }
        rx->nacked = rx->serial.next + 1;
        return true;
    }
    if (!get_bits(pdc)) {
        pdc_send_nack(pdc, NACK_NO_BITMAP, header->psn, 0, retx);
        return true;
    }
    /* The next one is always taken: without it nothing behind it can be cleared. */
    if (rx->stored_count >= pdc->pds->settings.stored && number != rx->serial.next) {
        if (pdc->pds->now - rx->asked >= pdc->pds->settings.clear_time) {
            rx->asked = pdc->pds->now;
            pdc_send_control(pdc, CONTROL_CLEAR_REQUEST, header->psn, 0, 0);
        }
        pdc_send_nack(pdc, NACK_NO_GTD, header->psn, 0, retx);
        return true;
    }
    return false;
}

/* The peer may have to stop soon. */
static bool nears_window(const struct pdc *pdc)
{
    const struct pds_settings *settings = &pdc->pds->settings;
    const struct pdc_rx *rx = pdc->rx;

    return rx->weight >= ACK_LATEST * settings->ack_trigger ||
           rx->packets >= settings->mpr / ACK_EIGHTH;
}

/* Is its acknowledgement due? The peer waits for it where it says so, or where so much has come
 * that it may have to stop; else it leaves with what this side does next. */
static void note_due(struct pdc *pdc, const struct pds_header *header)
{
    const struct pds_settings *settings = &pdc->pds->settings;
    struct pdc_rx *rx = pdc->rx;
    bool asked =
        header->flags & (PDS_AR | PDS_SYN | PDS_RETX) || pdc->pds->marked || settings->ack_each;

    rx->ack_due |= asked || rx->bytes >= settings->ack_trigger;
    if (asked || nears_window(pdc))
        pds_hasten(pdc->pds);
}

static void count_bytes(struct pdc *pdc, size_t len)
{
    uint64_t least = pdc->pds->settings.ack_least;

    pdc->rx->bytes += len < least ? least : len;
    pdc->rx->weight += len + REQUEST + OVERHEAD;
    pdc->rx->packets++;
}

static void note_received(struct pdc *pdc, uint64_t number, size_t len)
{
    serial_add(&pdc->rx->serial, number);
    pdc->rx->received += len + REQUEST + OVERHEAD;
    pdc_activate_later(pdc);
}

static void take_answer(struct pdc *pdc, const struct pds_header *header, uint64_t number,
                        const struct pds_answer *answer)
{
    uint8_t flags = header->flags & PDS_RETX ? PDS_RETX : 0;

    if (answer->kind == ANSWER_LATER) {
        send_default(pdc, number, flags, SES_NO_RESPONSE);
    } else if (answer->guaranteed) {
        acknowledge_now(pdc, number, flags, answer);
    } else {
        acknowledge_soon(pdc, number, answer);
        pdc->rx->ack_retx = flags;
        note_due(pdc, header);
    }
}

static void take_new(struct pdc *pdc, const struct pds_header *header, uint64_t number,
                     const uint8_t *body, size_t len)
{
    struct pds *pds = pdc->pds;
    struct pds_answer answer = {.kind = ANSWER_NOW};
    struct pds_arrival arrival = {
        .now = pds->now,
        .from = pdc->key.to,
        .bytes = body,
        .len = len,
        .next = header->next,
        .returned = pdc->ours,
        .key = pdc->key,
        .ticket = ticket_of(pdc, number),
    };

    pds->ops->request(pds->arg, &arrival, &answer);
    if (answer.kind == ANSWER_NACK) {
        pdc_send_nack(pdc, answer.nack, header->psn, 0, header->flags & PDS_RETX);
        return;
    }
    if (answer.kind == ANSWER_NOW && answer.next == NEXT_NONE) {
        answer.next = NEXT_RESPONSE;
        put_default(answer.header, &answer.header_len, SES_DEFAULT_RESPONSE);
    }
    note_received(pdc, number, len);
    count_bytes(pdc, len);
    pdc->rx->ack_marked |= pds->marked;
    /* Without memory for its place, the answer is lost with the acknowledgement that it is in. */
    if ((answer.kind == ANSWER_LATER || answer.guaranteed) && !store(pdc, number, &answer))
        pdc->failed = true;
    take_answer(pdc, header, number, &answer);
}

static uint64_t number_of(const struct pdc *pdc, uint32_t psn)
{
    return serial_expand(psn - pdc->rx_start, pdc->rx->serial.next);
}

void pdc_take_request(struct pdc *pdc, const struct pds_header *header, const uint8_t *body,
                      size_t len)
{
    uint64_t number = number_of(pdc, header->psn);

    pdc->pds->counters.received++;
    if (header->offset > 0) {
        pdc->pds->counters.malformed++;
        return;
    }
    if (!(header->flags & PDS_SYN))
        pdc->rx->told = true;
    /* CLEAR_PSN is of responses; numbers below 0 come from its offset at the beginning. */
    if ((int64_t)number + header->offset >= 0)
        pdc_rx_clear(pdc, number + (uint64_t)(int64_t)header->offset + 1);
    if (serial_has(&pdc->rx->serial, number))
        take_again(pdc, number, header);
    else if (!is_refused(pdc, header, number))
        take_new(pdc, header, number, body, len);
}

void pdc_answer(struct pdc *pdc, uint64_t number, const struct pds_answer *answer)
{
    struct pdc_stored *place = stored_at(pdc, number);
    bool guaranteed = place && answer->guaranteed;

    if (!place || place->finished)
        return;
    drop_stored(pdc, place);
    if (guaranteed && !store(pdc, number, answer))
        pdc->failed = true;
    acknowledge_now(pdc, number, 0, answer);
    pdc_activate(pdc);
}

/* ---- Control packets ---- */

/* Control packets with a number of their own. */
static void take_numbered(struct pdc *pdc, const struct pds_header *header)
{
    uint64_t number = number_of(pdc, header->psn);

    if (serial_has(&pdc->rx->serial, number)) {
        take_again(pdc, number, header);
        return;
    }
    if (is_refused(pdc, header, number))
        return;
    if (header->next == CONTROL_CLOSE) {
        if (pdc->ours)
            return; /* only who opened it closes it */
        if (!pdc_tx_idle(pdc) || number != pdc->rx->serial.next)
            pdc->failed = true;
        pdc_rx_clear(pdc, number);
    }
    note_received(pdc, number, 0);
    acknowledge_now(pdc, number, header->flags & PDS_RETX, &(struct pds_answer){.next = NEXT_NONE});
    if (header->next == CONTROL_CLOSE)
        pdc_end(pdc);
}

static void take_ack_request(struct pdc *pdc, const struct pds_header *header)
{
    uint64_t number = number_of(pdc, header->psn);
    const struct pdc_stored *stored = stored_at(pdc, number);

    if (!serial_has(&pdc->rx->serial, number)) {
        if (number < pdc->rx->serial.next + pdc->rx->serial.size)
            pdc_send_nack(pdc, NACK_NOT_RECEIVED, header->psn, 0, false);
    } else if (stored && !stored->finished) {
        pdc_send_nack(pdc, NACK_IN_PROGRESS, header->psn, 0, false);
    } else if (stored) {
        send_stored(pdc, stored, 0);
    } else {
        send_default(pdc, number, 0, SES_DEFAULT_RESPONSE);
    }
}

static void take_probe(struct pdc *pdc, const struct pds_header *header)
{
    uint64_t base = number_of(pdc, header->payload);
    struct pdc_ack ack = {.probe = true, .opaque = header->opaque, .base = base};

    /* A base that the field of the answer cannot say is none. */
    if (base > pdc->rx->serial.next + pdc->rx->serial.size ||
        base + PDS_MPR_MAX < pdc->rx->serial.next)
        ack.base = pdc_rx_cack(pdc);
    ack.number = pdc->rx->serial.next ? pdc->rx->serial.next - 1 : 0;
    pdc_send_ack(pdc, &ack);
}

/* The only option that there is: PDS_NEG_ON_OFF, of two words, with a mask of features in the
 * second one. None is used here. */
static void take_negotiation(struct pds *pds, const struct pds_header *header, size_t len)
{
    if (header->payload >> 16 == (NEGOTIATE_ON_OFF << 8 | NEGOTIATE_WORDS) &&
        !(header->payload & UINT16_MAX) && len >= 4)
        pds->counters.negotiations++;
    else
        pds->counters.malformed++;
}

void pdc_take_control(struct pdc *pdc, const struct pds_header *header, const uint8_t *body,
                      size_t len)
{
    struct pds *pds = pdc->pds;

    pds->counters.received++;
    switch (header->next) {
    case CONTROL_NOOP:
    case CONTROL_CLOSE: take_numbered(pdc, header); break;
    case CONTROL_ACK_REQUEST: take_ack_request(pdc, header); break;
    case CONTROL_PROBE: take_probe(pdc, header); break;
    case CONTROL_CLEAR:
        pdc_rx_clear(pdc, number_of(pdc, header->payload) + 1);
        pdc_activate(pdc);
        break;
    case CONTROL_CLEAR_REQUEST:
        pdc->tx->clear_at = pds->now;
        pdc_activate(pdc);
        break;
    case CONTROL_CLOSE_REQUEST:
        if (pdc->ours)
            pds_close(pds, pdc_ref(pdc));
        break;
    case CONTROL_CREDIT:
    case CONTROL_CREDIT_REQUEST: pds->counters.credits++; break; /* the window is fixed */
    case CONTROL_NEGOTIATION: take_negotiation(pds, header, len); break;
    default: break;
    }
}
