/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The next reads of an endpoint, as far as the last ones tell: how many datagrams it asks for at
 * once, whether the kernel puts trains together (UDP_GRO), and whether it times what comes.
 * Progress domain locked.
 */
#ifndef WEFT_UDP_TRAFFIC_H
#define WEFT_UDP_TRAFFIC_H

#include "transports/udp/udp_ep.h"

enum {
    UDP_BURST_MAX = 32,    /* datagrams of a look */
    UDP_TRAIN_BYTES = 512, /* of a datagram: trains have none that are shorter */
    UDP_TRAIN_PAIRS = 32,  /* after which they are expected */
};

/* A look has ended, which brought so many from the socket that brought most. */
void udp_traffic_follow(struct udp_ep *ep, unsigned most);
/* There is a receive that takes what UDP_GRO brings. */
void udp_traffic_want_gro(struct udp_ep *ep);
/* From now on the kernel is to put trains together, if it does that. */
void udp_traffic_gather(struct udp_ep *ep);

/* A datagram of `len` bytes was read by itself. Where trains come that are too short for a look to
 * bring many, their datagrams tell: of one length, with no look between them that finds nothing. */
static inline void udp_traffic_note(struct udp_ep *ep, size_t len)
{
    if (len < UDP_TRAIN_BYTES || ep->gro || !ep->gro_wanted)
        return;
    if (len != ep->row_len)
        ep->row_len = len;
    else if (++ep->row_pairs == UDP_TRAIN_PAIRS)
        udp_traffic_gather(ep);
}

#endif
