/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams that leave together. Neighbours of one length and one destination are a run, which
 * leaves in one piece that the kernel or the device cuts (UDP_SEGMENT, Linux udp(7)); several runs
 * are one sendmmsg.
 */
#ifndef WEFT_CORE_NET_DATAGRAM_H
#define WEFT_CORE_NET_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "core/net/addr.h"

/* Names of the kernel's that headers of the C library may lack. */
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
    DATAGRAM_IOV = 8,               /* segments of memory of one datagram */
    DATAGRAM_BATCH_MAX = 64,        /* datagrams; no kernel cuts a run into more */
    DATAGRAM_RUN_BYTES_MAX = 65000, /* of a run: with headers below what a length field can say */
    DATAGRAM_MEMORY = 128 << 10,    /* bytes: runs of a batch of Ethernet's packets */
};

/* len: bytes of all segments. flow: datagrams of two flows never leave in one piece, nor do those
 * with two pointers `from`: the source of one that leaves from a socket without an address, whose
 * port does not count; NULL: the socket's, or the kernel's choice. */
struct datagram {
    union addr to;
    const union addr *from;
    uint32_t flow;
    size_t len, count;
    struct iovec iov[DATAGRAM_IOV];
};

/* Datagrams that are each the first member of a structure of `stride` bytes. */
struct datagrams {
    const struct datagram *first;
    size_t stride;
    unsigned count; /* DATAGRAM_BATCH_MAX at most */
    bool connected; /* the socket is, to where all of them go */
    /* DATAGRAM_MEMORY bytes, in which runs of many segments are put together, as far as it goes:
     * the kernel takes up to twice the time for these segments (docs/decisions). NULL: none. */
    void *memory;
};

/* Makes it, if there is none yet, for a caller that keeps it; it is of malloc. */
void datagram_memory(void **memory);

/* How many from the first on may leave in one piece: of one destination and flow, all of the
 * length of the first but the last, which may be shorter, and none empty. At least 1. */
unsigned datagrams_run(const struct datagrams *datagrams);

/* Sends without blocking as much as fits one system call. How many datagrams the kernel took; -1:
 * none, errno says why, and *refused, which may be NULL, how many made the first piece. cut: runs
 * leave in one piece. */
int datagrams_send(int fd, const struct datagrams *datagrams, bool cut, unsigned *refused);

#endif
