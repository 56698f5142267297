/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a payload goes: a cursor over the segments of a receive, a region or a read. Bytes beyond
 * its end are dropped. */
#ifndef WEFT_TCP_DEST_H
#define WEFT_TCP_DEST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct tcp_dest {
    const struct iovec *iov; /* the caller's; not changed */
    size_t count;
    size_t offset; /* in iov[0] */
    uint64_t room; /* bytes left in all of iov */
};

void tcp_dest_set(struct tcp_dest *dest, const struct iovec *iov, size_t count);
/* Copies len bytes in. */
void tcp_dest_put(struct tcp_dest *dest, const uint8_t *bytes, size_t len);
/* Moves on over len bytes that were put there by others (at most room). */
void tcp_dest_skip(struct tcp_dest *dest, size_t len);
/* The next `want` bytes of memory as at most max segments; *total gets their size. */
size_t tcp_dest_iov(const struct tcp_dest *dest, uint64_t want, struct iovec *out, size_t max,
                    size_t *total);

#endif
