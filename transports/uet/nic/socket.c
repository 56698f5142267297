/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/nic/socket.h"

#include <netinet/ip.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#include "core/net/datagram.h"
#include "core/net/icmp.h"

enum {
    ECN_CAPABLE = 2,
    ECN_MARKED = 3,
};

void uet_socket_set(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof(value));
}

void uet_socket_set_options(int fd, sa_family_t family, const struct uet_socket_options *asked)
{
    int tos = asked->dscp << 2 | ECN_CAPABLE;

    if (family == AF_INET6) {
        uet_socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        uet_socket_set(fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
        uet_socket_set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
        uet_socket_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    } else {
        uet_socket_set(fd, IPPROTO_IP, IP_TOS, tos);
        uet_socket_set(fd, IPPROTO_IP, IP_RECVTOS, 1);
        uet_socket_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    }
    icmp_ask(fd, family);
    if (asked->gro)
        uet_socket_set(fd, SOL_UDP, UDP_GRO, 1);
    if (asked->rx_buffer)
        uet_socket_set(fd, SOL_SOCKET, SO_RCVBUF, (int)asked->rx_buffer);
    if (asked->tx_buffer)
        uet_socket_set(fd, SOL_SOCKET, SO_SNDBUF, (int)asked->tx_buffer);
}

bool uet_socket_notes(struct msghdr *header, size_t *segment)
{
    bool marked = false;
    int value;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        bool four = c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS;
        bool six = c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS;

        if (four || six)
            marked = (*CMSG_DATA(c) & ECN_MARKED) == ECN_MARKED;
        if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_GRO)
            continue;
        memcpy(&value, CMSG_DATA(c), sizeof(value));
        if (value > 0)
            *segment = (size_t)value;
    }
    return marked;
}
