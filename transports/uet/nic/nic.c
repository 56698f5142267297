/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/nic/nic.h"

#include <errno.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

enum {
    HEADERS = 160, /* of a packet: IPv6, UDP, security, PDS, SES, extension, tag */
    ECN_CAPABLE = 2,
    ECN_MARKED = 3,
    PAYLOAD_MAX = 8192,
    PAYLOAD_MIN = 1024,
};

/* One of a batch. */
struct slot {
    union addr from;
    struct iovec iov;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
};

struct uet_nic {
    int fd;
    union addr addr;
    uint32_t packet;
    struct mmsghdr messages[UET_NIC_BATCH];
    struct slot slots[UET_NIC_BATCH];
    uint8_t bytes[];
};

uint32_t uet_nic_payload(int mtu)
{
    for (uint32_t payload = PAYLOAD_MAX; payload >= PAYLOAD_MIN; payload /= 2)
        if (mtu >= (int)(payload + HEADERS))
            return payload;
    return 0;
}

/* ---- Opening ---- */

static void set(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof(value));
}

static void set_options(const struct uet_nic *nic, const struct uet_nic_settings *settings)
{
    int tos = settings->dscp << 2 | ECN_CAPABLE;

    if (nic->addr.sa.sa_family == AF_INET6) {
        set(nic->fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        set(nic->fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
        set(nic->fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
        set(nic->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    } else {
        set(nic->fd, IPPROTO_IP, IP_TOS, tos);
        set(nic->fd, IPPROTO_IP, IP_RECVTOS, 1);
        set(nic->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    }
    if (settings->rx_buffer)
        set(nic->fd, SOL_SOCKET, SO_RCVBUF, (int)settings->rx_buffer);
    if (settings->tx_buffer)
        set(nic->fd, SOL_SOCKET, SO_SNDBUF, (int)settings->tx_buffer);
}

static int bind_to(struct uet_nic *nic, int port)
{
    union addr addr = nic->addr;

    addr_set_port(&addr.sa, (uint16_t)port);
    return bind(nic->fd, &addr.sa, addr_size(&addr.sa)) ? -errno : 0;
}

static int open_socket(struct uet_nic *nic, const struct uet_nic_settings *settings)
{
    socklen_t len = sizeof(nic->addr);
    int port = addr_port(&nic->addr.sa), rc;

    nic->fd = socket(nic->addr.sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (nic->fd < 0)
        return -errno;
    set_options(nic, settings);
    rc = bind_to(nic, port ? port : settings->port);
    if (rc == -EADDRINUSE && !port)
        rc = bind_to(nic, 0);
    if (!rc && getsockname(nic->fd, &nic->addr.sa, &len))
        rc = -errno;
    return rc;
}

static void set_slots(struct uet_nic *nic)
{
    for (int i = 0; i < UET_NIC_BATCH; i++) {
        struct slot *slot = &nic->slots[i];

        slot->iov = (struct iovec){nic->bytes + (size_t)i * nic->packet, nic->packet};
        nic->messages[i].msg_hdr = (struct msghdr){
            .msg_name = &slot->from,
            .msg_iov = &slot->iov,
            .msg_iovlen = 1,
            .msg_control = slot->control,
        };
    }
}

int uet_nic_open(const union addr *addr, const struct uet_nic_settings *settings,
                 struct uet_nic **ret_nic)
{
    size_t packet = settings->packet + HEADERS;
    struct uet_nic *nic = calloc(1, sizeof(*nic) + UET_NIC_BATCH * packet);
    int rc;

    if (!nic)
        return -FI_ENOMEM;
    nic->addr = *addr;
    nic->packet = (uint32_t)packet;
    set_slots(nic);
    rc = open_socket(nic, settings);
    if (rc) {
        uet_nic_close(nic);
        return rc;
    }
    *ret_nic = nic;
    return 0;
}

void uet_nic_close(struct uet_nic *nic)
{
    if (!nic)
        return;
    if (nic->fd >= 0)
        close(nic->fd);
    free(nic);
}

const union addr *uet_nic_addr(const struct uet_nic *nic)
{
    return &nic->addr;
}

int uet_nic_fd(const struct uet_nic *nic)
{
    return nic->fd;
}

/* ---- Packets ---- */

bool uet_nic_send(struct uet_nic *nic, const union addr *to, const struct iovec *iov, size_t count)
{
    struct msghdr header = {
        .msg_name = (void *)(uintptr_t)to,
        .msg_namelen = addr_size(&to->sa),
        .msg_iov = (struct iovec *)(uintptr_t)iov,
        .msg_iovlen = count,
    };

    for (int i = 0; i < 2; i++) {
        if (sendmsg(nic->fd, &header, MSG_DONTWAIT) >= 0)
            return true;
        /* The kernel tells of an earlier packet's end once: nobody was there. */
        if (errno != ECONNREFUSED && errno != EINTR)
            return false;
    }
    return false;
}

static bool is_marked(struct msghdr *header)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        bool four = c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS;
        bool six = c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS;

        if (four || six)
            return (*CMSG_DATA(c) & ECN_MARKED) == ECN_MARKED;
    }
    return false;
}

static void prepare(struct uet_nic *nic)
{
    for (int i = 0; i < UET_NIC_BATCH; i++) {
        nic->messages[i].msg_hdr.msg_namelen = sizeof(union addr);
        nic->messages[i].msg_hdr.msg_controllen = sizeof(nic->slots[i].control);
        nic->messages[i].msg_hdr.msg_flags = 0;
    }
}

unsigned uet_nic_receive(struct uet_nic *nic,
                         void (*take)(void *arg, const union addr *from, const uint8_t *bytes,
                                      size_t len, bool marked),
                         void *arg)
{
    int count;

    prepare(nic);
    do {
        count = recvmmsg(nic->fd, nic->messages, UET_NIC_BATCH, MSG_DONTWAIT, NULL);
    } while (count < 0 && (errno == EINTR || errno == ECONNREFUSED));
    for (int i = 0; i < count; i++) {
        struct mmsghdr *message = &nic->messages[i];

        if (!(message->msg_hdr.msg_flags & MSG_TRUNC))
            take(arg, &nic->slots[i].from, nic->slots[i].iov.iov_base, message->msg_len,
                 is_marked(&message->msg_hdr));
    }
    return count > 0 ? (unsigned)count : 0;
}
