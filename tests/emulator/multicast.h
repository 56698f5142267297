/* SPDX-License-Identifier: BSD-2-Clause */
/* Which queue pairs of this process are attached to which multicast groups. */
#ifndef WEFT_EMULATOR_MULTICAST_H
#define WEFT_EMULATOR_MULTICAST_H

#include "qp.h"

/* Gives a datagram to all that are attached, but the one that sent it. The lock is held. */
void multicast_receive(const struct wire_packet *packet, const void *payload);

#endif
