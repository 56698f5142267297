/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/udp/udp_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/net/datagram.h"
#include "core/net/host.h"
#include "core/net/netif.h"

enum {
    WHY_SIZE = 1024
};

static const char *part_of(const struct udp_fabric *fabric)
{
    return fabric->base.part;
}

int udp_socket_set(const struct udp_socket *sock, int option, int option6, int value)
{
    bool six = sock->addr.sa.sa_family == AF_INET6;
    int rc = setsockopt(sock->fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? option6 : option, &value,
                        sizeof(value));

    return rc ? -errno : 0;
}

/* ---- Buffers ---- */

/* One of the two buffers, and one line for all sockets where the kernel gives less. */
struct buffer {
    const char *key, *limit;
    int option, forced; /* of SOL_SOCKET; the second is for who may exceed the limit */
};

static const struct buffer rx_buffer = {"rx_buffer", "net.core.rmem_max", SO_RCVBUF,
                                        SO_RCVBUFFORCE};
static const struct buffer tx_buffer = {"tx_buffer", "net.core.wmem_max", SO_SNDBUF,
                                        SO_SNDBUFFORCE};

static void set_buffer(struct udp_fabric *fabric, const struct udp_socket *sock,
                       const struct buffer *buffer, size_t wanted, bool given, atomic_bool *said)
{
    int size = (int)wanted, has = 0;
    socklen_t len = sizeof(has);

    if (!size)
        return;
    if (setsockopt(sock->fd, SOL_SOCKET, buffer->forced, &size, sizeof(size)))
        setsockopt(sock->fd, SOL_SOCKET, buffer->option, &size, sizeof(size));
    getsockopt(sock->fd, SOL_SOCKET, buffer->option, &has, &len);
    has /= 2; /* the kernel counts its own share, too */
    if (has >= size || atomic_exchange(said, true))
        return;
    if (given)
        LOG_WARN(part_of(fabric), FI_LOG_EP_CTRL,
                 "%s: %zu bytes were asked, the kernel gives %d: "
                 "%s is the limit",
                 buffer->key, wanted, has, buffer->limit);
    else
        LOG_INFO(part_of(fabric), FI_LOG_EP_CTRL,
                 "%s: %zu bytes were asked, the kernel gives %d: "
                 "%s is the limit",
                 buffer->key, wanted, has, buffer->limit);
}

static void set_busy_poll(struct udp_fabric *fabric, const struct udp_socket *sock)
{
    int usec = fabric->settings.busy_poll;

    if (!usec || !setsockopt(sock->fd, SOL_SOCKET, SO_BUSY_POLL, &usec, sizeof(usec)) ||
        atomic_exchange(&fabric->said_busy_poll, true))
        return;
    LOG_WARN(
        part_of(fabric), FI_LOG_EP_CTRL,
        "busy_poll: the kernel refuses %d microseconds: %s; beyond net.core.busy_read it takes "
        "CAP_NET_ADMIN",
        usec, strerror(errno));
}

/* ---- Opening ---- */

static int make(struct udp_fabric *fabric, const union addr *addr, struct udp_socket *sock)
{
    const struct udp_settings *settings = &fabric->settings;
    int on = 1;

    *sock = (struct udp_socket){.addr = *addr};
    sock->fd = socket(addr->sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (sock->fd < 0)
        return -errno;
    if (addr->sa.sa_family == AF_INET6)
        setsockopt(sock->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    setsockopt(sock->fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on));
    set_buffer(fabric, sock, &rx_buffer, settings->rx_buffer, settings->rx_given,
               &fabric->said_rx_buffer);
    set_buffer(fabric, sock, &tx_buffer, settings->tx_buffer, settings->tx_given,
               &fabric->said_tx_buffer);
    set_busy_poll(fabric, sock);
    return 0;
}

/* Of an address that no interface has, or has any more: "; no interface matches ..., there are".
 * Empty where there is nothing to say. */
static void say_interfaces(const union addr *addr, char *why, size_t size)
{
    char host[INET6_ADDRSTRLEN];
    bool six = addr->sa.sa_family == AF_INET6;
    const void *bytes = six ? (const void *)&addr->in6.sin6_addr : &addr->in.sin_addr;
    struct netif *list = NULL;
    size_t count;
    int rc = 0;

    memcpy(why, "; ", 3);
    if (inet_ntop(addr->sa.sa_family, bytes, host, sizeof(host)))
        rc = netif_list(host, &list, &count, why + 2, size - 2);
    if (rc == -FI_ENODATA)
        return;
    free(list);
    *why = 0;
}

static int refused(struct udp_fabric *fabric, const char *what, struct udp_socket *sock, int rc)
{
    char text[ADDR_TEXT_MAX], why[WHY_SIZE] = "";

    if (rc == -EADDRNOTAVAIL)
        say_interfaces(&sock->addr, why, sizeof(why));
    LOG_WARN(part_of(fabric), FI_LOG_EP_CTRL, "cannot %s %s: %s%s", what,
             addr_text(&sock->addr.sa, text, sizeof(text)), fi_strerror(-rc), why);
    udp_socket_close(sock);
    return rc;
}

int udp_socket_open(struct udp_fabric *fabric, const union addr *addr, struct udp_socket *sock)
{
    const struct udp_settings *settings = &fabric->settings;
    socklen_t len = sizeof(sock->addr);
    int rc = make(fabric, addr, sock);

    if (!rc)
        rc = host_bind(sock->fd, addr, settings->port_low, settings->port_high);
    if (!rc && getsockname(sock->fd, &sock->addr.sa, &len))
        rc = -errno;
    if (rc)
        return refused(fabric, "open an endpoint at", sock, rc);
    host_name(params_string(fabric->plain.params, "iface"), &sock->addr, &sock->name);
    sock->flow = pcap_socket_open(fabric->pcap, &sock->addr.sa);
    return 0;
}

static int join_group(const struct udp_socket *sock, const union addr *local, unsigned index)
{
    int off = 0;

    if (sock->addr.sa.sa_family == AF_INET6) {
        struct ipv6_mreq member = {.ipv6mr_multiaddr = sock->addr.in6.sin6_addr,
                                   .ipv6mr_interface = index};

        return setsockopt(sock->fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &member, sizeof(member)) ? -errno
                                                                                            : 0;
    }
    struct ip_mreqn member = {.imr_multiaddr = sock->addr.in.sin_addr,
                              .imr_address = local->in.sin_addr,
                              .imr_ifindex = (int)index};

    if (setsockopt(sock->fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof(member)))
        return -errno;
    /* Not what other sockets of the node have joined. */
    setsockopt(sock->fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off));
    return 0;
}

int udp_socket_open_group(struct udp_fabric *fabric, const union addr *group,
                          const union addr *local, unsigned index, struct udp_socket *sock)
{
    int on = 1, rc = make(fabric, group, sock);

    if (!rc && setsockopt(sock->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
        rc = -errno;
    if (!rc && sock->addr.sa.sa_family == AF_INET6)
        sock->addr.in6.sin6_scope_id = index;
    if (!rc && bind(sock->fd, &sock->addr.sa, addr_size(&sock->addr.sa)))
        rc = -errno;
    if (!rc)
        rc = join_group(sock, local, index);
    if (rc)
        return refused(fabric, "join the group", sock, rc);
    sock->flow = pcap_socket_open(fabric->pcap, &sock->addr.sa);
    return 0;
}

/* ---- Beside another ---- */

/* Its owner, or an upper, has asked the kernel for more since the main one was opened. */
static void copy_options(const struct udp_socket *main, const struct udp_socket *sock)
{
    bool six = main->addr.sa.sa_family == AF_INET6;
    const int options[][2] = {
        {SOL_SOCKET, SO_PRIORITY},
        {six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_TCLASS : IP_TOS},
        {six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER},
        {six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_RECVERR : IP_RECVERR},
        {SOL_UDP, UDP_GRO},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
        int value;
        socklen_t len = sizeof(value);

        if (!getsockopt(main->fd, options[i][0], options[i][1], &value, &len))
            setsockopt(sock->fd, options[i][0], options[i][1], &value, sizeof(value));
    }
}

static int share_address(const struct udp_socket *main, const struct udp_socket *sock)
{
    int on = 1, off = 0, rc = 0;

    if (setsockopt(sock->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
        setsockopt(main->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
        return -errno;
    if (bind(sock->fd, &main->addr.sa, addr_size(&main->addr.sa)))
        rc = -errno;
    /* Else others could share it too. */
    setsockopt(main->fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off));
    setsockopt(sock->fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off));
    return rc;
}

int udp_socket_open_beside(struct udp_fabric *fabric, const struct udp_socket *main,
                           struct udp_socket *sock)
{
    int rc = make(fabric, &main->addr, sock);

    if (rc)
        return rc;
    copy_options(main, sock);
    rc = share_address(main, sock);
    if (rc)
        udp_socket_close(sock);
    return rc;
}

void udp_socket_close(struct udp_socket *sock)
{
    pcap_flow_close(sock->flow);
    sock->flow = NULL;
    if (sock->fd >= 0)
        close(sock->fd);
    sock->fd = -1;
}
