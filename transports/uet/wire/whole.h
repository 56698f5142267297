/* SPDX-License-Identifier: BSD-2-Clause */
/* Is a packet as long as its headers say? Pure. */
#ifndef WEFT_UET_WIRE_WHOLE_H
#define WEFT_UET_WIRE_WHOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False: the bytes are no packet, one that was cut, or more than one. The first packet of several
 * of a message has any legal payload. */
bool packet_is_whole(const uint8_t *bytes, size_t len, bool short_rudi);

#endif
