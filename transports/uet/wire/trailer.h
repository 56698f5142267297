/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trailer of packets without security, where it is wanted (UET_Data_Protect = 1): CRC-32C from
 * the IP source address through the end of the payload. Sent as the reference implementation does
 * it, little-endian; taken in either order. The UDP checksum counts as 0, as the specification has
 * it sent; sockets do not show it.
 *
 *   source address | destination address | ports | length, with the trailer | 0 | packet | trailer
 */
#ifndef WEFT_UET_WIRE_TRAILER_H
#define WEFT_UET_WIRE_TRAILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/net/addr.h"

enum {
    TRAILER_SIZE = 4,
};

/* Of the packet that the pieces make, from `from` to `to`, of one family. */
void trailer_put(const union addr *from, const union addr *to, const struct iovec *iov,
                 size_t count, uint8_t trailer[TRAILER_SIZE]);
/* Is the last of len bytes the trailer of those before? */
bool trailer_check(const union addr *from, const union addr *to, const uint8_t *bytes, size_t len);

#endif
