/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/nic/entropy.h"

#include <stdbool.h>
#include <stdlib.h>

#include "transports/uet/wire/bytes.h"
#include "transports/uet/wire/pds_header.h"

enum {
    IDS = 65536,
    HEADER = 12,
    SPDCID_AT = 8,
    DPDCID_AT = 10,
    STAYS =
        64, /* packets that leave by a port before it may be left: what is told of them is news */
};

struct uet_entropy {
    unsigned sources;
    struct {
        uint8_t moves; /* from the port that its id says */
        uint8_t stays;
        bool ordered;
    } pdcs[IDS];
};

struct uet_entropy *uet_entropy_open(unsigned sources)
{
    struct uet_entropy *entropy = calloc(1, sizeof(*entropy));

    if (entropy)
        entropy->sources = sources;
    return entropy;
}

void uet_entropy_close(struct uet_entropy *entropy)
{
    free(entropy);
}

static bool is_ordered(uint8_t type)
{
    return type == PDS_ROD || type == PDS_ROD_CC;
}

static void move(struct uet_entropy *entropy, uint16_t id)
{
    if (entropy->pdcs[id].stays)
        return;
    entropy->pdcs[id].moves = (uint8_t)((entropy->pdcs[id].moves + 1u) % entropy->sources);
    entropy->pdcs[id].stays = STAYS;
}

unsigned uet_entropy_of(struct uet_entropy *entropy, const uint8_t *bytes, size_t len)
{
    uint16_t id;

    if (len < HEADER || !pds_is_request(bytes[0] >> 3))
        return entropy->sources;
    id = get16(bytes + SPDCID_AT);
    entropy->pdcs[id].ordered = is_ordered(bytes[0] >> 3);
    if (entropy->pdcs[id].stays)
        entropy->pdcs[id].stays--;
    if (bytes[1] & PDS_RETX)
        move(entropy, id);
    return (id + entropy->pdcs[id].moves) % entropy->sources;
}

/* An ordered PDC keeps its path while its packets come: on two they would overtake each other. */
void uet_entropy_hear(struct uet_entropy *entropy, const uint8_t *bytes, size_t len)
{
    uint16_t id;

    if (len < HEADER || !pds_is_ack(bytes[0] >> 3) || !(bytes[1] & PDS_MARKED))
        return;
    id = get16(bytes + DPDCID_AT);
    if (!entropy->pdcs[id].ordered)
        move(entropy, id);
}
