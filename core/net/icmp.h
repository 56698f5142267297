/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ICMP errors about datagrams that a socket sent: the kernel keeps them for a socket that asks for
 * them (Linux ip(7), IP_RECVERR). Each also fails one later call on the socket, whatever its
 * destination: the caller of that call reads the errors and tries again. Any host that knows the
 * addresses of both ends can forge such an error, so it is a hint.
 */
#ifndef WEFT_CORE_NET_ICMP_H
#define WEFT_CORE_NET_ICMP_H

#include <stddef.h>
#include <stdint.h>

#include "core/net/addr.h"

struct icmp_error {
    union addr to; /* of the datagram */
    int err;       /* an errno: ECONNREFUSED where its port is closed */
    uint32_t info; /* with EMSGSIZE: the MTU */
    uint8_t type, code;
    size_t quoted; /* bytes of the datagram that came back */
};

/* The socket of this family keeps errors from now on. */
void icmp_ask(int fd, int family);
/* Reads one without blocking, and up to `room` bytes of its datagram. 1; 0: one was read that is
 * no ICMP error; -1: there is none. */
int icmp_read(int fd, struct icmp_error *error, void *quote, size_t room);

#endif
