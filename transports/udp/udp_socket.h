/* SPDX-License-Identifier: BSD-2-Clause */
/* One UDP socket, bound, with what the parameters say of it. */
#ifndef WEFT_UDP_SOCKET_H
#define WEFT_UDP_SOCKET_H

#include "core/net/addr.h"
#include "core/net/pcap.h"
#include "transports/udp/udp_fabric.h"

struct udp_socket {
    int fd;                 /* -1: closed */
    struct pcap_flow *flow; /* NULL: no capture */
    uint32_t drops;         /* as the kernel counts them */
    union addr addr;        /* that it is bound to */
    union addr name;        /* an endpoint's: how peers reach it */
};

/* Of an endpoint at addr; port 0: a free one, of the range if there is one. Else -FI_EADDRINUSE,
 * -FI_EADDRNOTAVAIL or another error of the system, with a line in the log. */
int udp_socket_open(struct udp_fabric *fabric, const union addr *addr, struct udp_socket *sock);
/* Of a member of the group, which others on the node may be too. iface: an address of the interface
 * (IPv4), or its index (IPv6). Errors as above. */
int udp_socket_open_group(struct udp_fabric *fabric, const union addr *group,
                          const union addr *local, unsigned index, struct udp_socket *sock);
/* Another one at the address of a main socket, with its options, which takes nothing from it until
 * it is connected but what comes meanwhile. A negative errno. */
int udp_socket_open_beside(struct udp_fabric *fabric, const struct udp_socket *main,
                           struct udp_socket *sock);
/* Also one that is closed. */
void udp_socket_close(struct udp_socket *sock);

/* A number as an option of IPv4 or of IPv6. 0, or a negative errno. */
int udp_socket_set(const struct udp_socket *sock, int option, int option6, int value);

#endif
