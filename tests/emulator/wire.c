/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "wire.h"

/* Kinds whose packets are pieces of a message of `total` bytes. */
static bool has_payload(unsigned kind)
{
    return kind == WIRE_SEND || kind == WIRE_WRITE || kind == WIRE_READ_DATA ||
           kind == WIRE_DATAGRAM || kind == WIRE_SRD || kind == WIRE_SRD_WRITE ||
           kind == WIRE_SRD_DATA;
}

static const char *flags_fault(const struct wire_packet *packet)
{
    uint64_t end = (uint64_t)packet->offset + packet->length;

    if (packet->flags & ~(unsigned)WIRE_FLAGS)
        return "unknown flags";
    if (end > packet->total)
        return "a piece reaches past the end of its message";
    if (!!(packet->flags & WIRE_FIRST) != (packet->offset == 0))
        return "FIRST and the offset disagree";
    if (!!(packet->flags & WIRE_LAST) != (end == packet->total))
        return "LAST and the length disagree";
    if (packet->length == 0 && packet->total != 0)
        return "an empty piece of a message";
    return NULL;
}

static const char *fault_of(const struct wire_packet *packet, size_t payload)
{
    if (packet->magic != WIRE_MAGIC)
        return "no packet of this emulator";
    if (packet->kind == 0 || packet->kind >= WIRE_KINDS)
        return "unknown kind";
    if (packet->length != payload || payload > WIRE_PAYLOAD)
        return "the length is not that of the payload";
    if ((packet->source_qpn | packet->target_qpn) >> WIRE_QPN_BITS)
        return "a queue pair's number has 24 bits";
    if (packet->kind == WIRE_NAK && (packet->status == 0 || packet->status >= WIRE_NAKS))
        return "unknown NAK";
    if (packet->kind == WIRE_RNR && packet->status > 31)
        return "an RNR timer has 5 bits";
    if (packet->kind == WIRE_SRD_READ && packet->offset > packet->total)
        return "it begins past the end of its message";
    if (has_payload(packet->kind))
        return flags_fault(packet);
    return payload ? "payload where there is none" : NULL;
}

bool wire_decode(const void *bytes, size_t count, struct wire_packet *packet, const char **why)
{
    if (count < sizeof(*packet)) {
        *why = "shorter than a header";
        return false;
    }
    memcpy(packet, bytes, sizeof(*packet));
    *why = fault_of(packet, count - sizeof(*packet));
    return *why == NULL;
}

void wire_finish(struct wire_packet *packet)
{
    packet->magic = WIRE_MAGIC;
    packet->flags &= (uint8_t) ~(WIRE_FIRST | WIRE_LAST);
    if (packet->offset == 0)
        packet->flags |= WIRE_FIRST;
    if (packet->offset + packet->length == packet->total)
        packet->flags |= WIRE_LAST;
}
