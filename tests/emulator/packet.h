/* SPDX-License-Identifier: BSD-2-Clause */
/* Where arriving packets go: to a queue pair, if a device would give them to one. */
#ifndef WEFT_EMULATOR_PACKET_H
#define WEFT_EMULATOR_PACKET_H

#include "wire.h"

/* The lock is held. payload has packet->length bytes and is the caller's. */
void packet_receive(const struct wire_packet *packet, const void *payload);

/* The connection to a process ended: packets on the way to it are lost. */
void packet_peer_gone(unsigned node);

#endif
