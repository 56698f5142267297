/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which source port the requests of each PDC leave from. The network takes paths by ports; one that
 * loses a PDC's packets, or marks them as congested, is left for the next. Pure.
 */
#ifndef WEFT_UET_NIC_ENTROPY_H
#define WEFT_UET_NIC_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

struct uet_entropy;

/* sources: how many ports there are, at least 1. NULL: there is no memory. */
struct uet_entropy *uet_entropy_open(unsigned sources);
/* Takes NULL. */
void uet_entropy_close(struct uet_entropy *entropy);
/* That of a packet, which leaves now; the number of ports: of none, it is no request. */
unsigned uet_entropy_of(struct uet_entropy *entropy, const uint8_t *bytes, size_t len);
/* A packet has come. */
void uet_entropy_hear(struct uet_entropy *entropy, const uint8_t *bytes, size_t len);

#endif
