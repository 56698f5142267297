/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams that the kernel's queue or device drops at once, which a socket that hears of errors is
 * told (ENOBUFS). A full queue has room again soon, and the datagram is tried again. One that is
 * longer than what the device takes never has: a veth whose other end has a smaller MTU drops it
 * so. A datagram that is refused for UDP_REFUSAL_LASTS is therefore lost, as it would be further on
 * the way, and those behind it go on. Pure: time comes in.
 */
#ifndef WEFT_UDP_REFUSAL_H
#define WEFT_UDP_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UDP_REFUSAL_LASTS UINT64_C(20000000) /* ns */

struct udp_refusal {
    size_t len;     /* bytes of the shortest that is refused; 0: none is */
    uint64_t since; /* ns: since when none as long was taken */
};

/* A datagram of len bytes was taken. */
static inline void udp_refusal_taken(struct udp_refusal *refusal, size_t len)
{
    if (__builtin_expect(refusal->len && len >= refusal->len, 0))
        refusal->len = 0;
}

/* One was refused. True: it, and any other as long, is lost until one is taken. */
static inline bool udp_refusal_lasts(struct udp_refusal *refusal, size_t len, uint64_t now)
{
    size_t counted = len ? len : 1;

    if (!refusal->len || counted < refusal->len) {
        refusal->len = counted;
        refusal->since = now;
    }
    return now - refusal->since >= UDP_REFUSAL_LASTS;
}

#endif
