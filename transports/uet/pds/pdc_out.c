/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that are not kept: acknowledgements, refusals, control packets without a number. */
#include "transports/uet/pds/pdc.h"

enum {
    SACK_BITS = 64,
};

static void transmit(struct pds *pds, const union addr *to, const struct pds_header *header,
                     const struct iovec *body, size_t count)
{
    uint8_t bytes[PDS_HEADER_MAX];
    struct iovec iov[3] = {
        {.iov_base = bytes, .iov_len = pds_header_put(header, pds->settings.short_rudi, bytes)}};
    size_t used = 1;

    for (size_t i = 0; i < count; i++)
        if (body[i].iov_len)
            iov[used++] = body[i];
    pds->ops->transmit(pds->arg, to, iov, used, true);
}

/* Bit i: base + i has come. */
static uint64_t sack_bits(const struct serial *serial, uint64_t base)
{
    uint64_t below = serial_bits_below(serial, base + SACK_BITS), bits = 0;

    for (int i = 0; i < SACK_BITS; i++)
        bits |= (below >> i & 1) << (SACK_BITS - 1 - i);
    return bits;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The 64 numbers that end with the newest, or that the peer asked for. */
static void fill_sack(const struct pdc *pdc, const struct pdc_ack *ack, uint64_t cack,
                      struct pds_header *header)
{
    uint64_t newest = ack->number + 1;
    uint64_t base =
        ack->probe ? ack->base : most(cack, newest > SACK_BITS ? newest - SACK_BITS : 0);
    struct pds_nscc nscc = {
        .received = (uint32_t)((pdc->rx->received + 255) / 256),
        .out_of_order = (uint16_t)(pdc->rx->serial.end > pdc->rx->serial.next
                                       ? pdc->rx->serial.end - pdc->rx->serial.next
                                       : 0),
    };

    header->type = PDS_ACK_CC;
    header->cc_type = PDS_CC_NSCC;
    header->mpr = (uint8_t)(pdc->pds->settings.mpr / PDS_MPR_UNIT);
    header->sack_offset = (int16_t)(base - (cack - 1));
    header->sack_bitmap = sack_bits(&pdc->rx->serial, base);
    header->cc_state[0] = pds_nscc_put(&nscc);
}

/* The peer must learn mpr once, and of holes while there are any. */
static bool needs_sack(const struct pdc *pdc, const struct pdc_ack *ack)
{
    return ack->probe || pdc->rx->serial.end > pdc->rx->serial.next ||
           (!pdc->ours && !pdc->rx->told);
}

void pdc_send_ack(struct pdc *pdc, const struct pdc_ack *ack)
{
    uint64_t cack = pdc_rx_cack(pdc);
    struct pds_header header = {
        .type = PDS_ACK,
        .next = ack->next,
        .flags = ack->flags,
        .psn = pdc_rx_psn(pdc, cack) - 1,
        .spdcid = pdc->id,
        .dpdcid = pdc->peer_id,
    };
    struct iovec body[2] = {{(void *)(uintptr_t)ack->header, ack->header_len},
                            {(void *)(uintptr_t)ack->data, ack->len}};

    if (ack->probe) {
        header.flags |= PDS_IS_PROBE;
        header.opaque = ack->opaque;
    } else {
        header.offset = (int16_t)(ack->number + 1 - cack);
        if (pdc->wants_close && !(header.flags & PDS_WANTS_CLEAR))
            header.flags |= PDS_WANTS_CLOSE;
    }
    if (needs_sack(pdc, ack))
        fill_sack(pdc, ack, cack, &header);
    pdc->pds->counters.acks_sent++;
    transmit(pdc->pds, &pdc->key.to, &header, body, 2);
}

void pdc_send_nack(struct pdc *pdc, enum pds_nack code, uint32_t psn, uint32_t payload, bool retx)
{
    struct pds_header header = {
        .type = PDS_NACK,
        .flags = (uint8_t)((retx ? PDS_RETX : 0) | (pdc->pds->marked ? PDS_MARKED : 0)),
        .nack_code = (uint8_t)code,
        .psn = psn,
        .spdcid = pdc->id,
        .dpdcid = pdc->peer_id,
        .payload = payload,
    };

    pdc->pds->counters.nacks_sent++;
    transmit(pdc->pds, &pdc->key.to, &header, NULL, 0);
}

void pdc_send_control(struct pdc *pdc, enum pds_control kind, uint32_t psn, uint16_t opaque,
                      uint32_t payload)
{
    struct pds_header header = {
        .type = PDS_CONTROL,
        .next = (uint8_t)kind,
        .opaque = opaque,
        .psn = psn,
        .spdcid = pdc->id,
        .dpdcid = pdc->peer_id,
        .payload = payload,
    };

    transmit(pdc->pds, &pdc->key.to, &header, NULL, 0);
}

void pds_refuse(struct pds *pds, const union addr *to, const struct pds_header *refused,
                enum pds_nack code, uint32_t payload)
{
    struct pds_header header = {
        .type = PDS_NACK,
        .flags = (uint8_t)((refused->flags & PDS_RETX) | (pds->marked ? PDS_MARKED : 0)),
        .nack_code = (uint8_t)code,
        .psn = refused->psn,
        .dpdcid = refused->spdcid,
        .payload = payload,
    };

    pds->counters.nacks_sent++;
    transmit(pds, to, &header, NULL, 0);
}
