/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/nic/hot.h"

#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/net/datagram.h"

enum {
    ALONE = 32, /* reads in a row after which the leader is looked at more often */
    LOOKS = 8,  /* of the leader then, for one of the other socket */
};

void uet_hot_init(struct uet_hot *hot, bool barred)
{
    *hot = (struct uet_hot){.fd = -1, .barred = barred};
}

void uet_hot_close(struct uet_hot *hot)
{
    if (hot->fd >= 0)
        close(hot->fd);
    uet_hot_init(hot, true);
}

/* ---- Becoming hot ---- */

static int copy_option(int from, int to, int level, int option)
{
    int value;
    socklen_t len = sizeof(value);

    if (getsockopt(from, level, option, &value, &len))
        return -errno;
    /* The kernel doubles what it is asked for, and tells that. */
    if (level == SOL_SOCKET)
        value /= 2;
    return setsockopt(to, level, option, &value, sizeof(value)) ? -errno : 0;
}

static int copy_options(int from, int to, sa_family_t family)
{
    static const int six[] = {IPV6_V6ONLY, IPV6_TCLASS, IPV6_RECVTCLASS, IPV6_MTU_DISCOVER,
                              IPV6_RECVERR};
    static const int four[] = {IP_TOS, IP_RECVTOS, IP_MTU_DISCOVER, IP_RECVERR};
    bool is_six = family == AF_INET6;
    const int *options = is_six ? six : four;
    size_t count = is_six ? sizeof(six) / sizeof(*six) : sizeof(four) / sizeof(*four);
    int rc = 0;

    for (size_t i = 0; !rc && i < count; i++)
        rc = copy_option(from, to, is_six ? IPPROTO_IPV6 : IPPROTO_IP, options[i]);
    copy_option(from, to, SOL_UDP, UDP_GRO);
    copy_option(from, to, SOL_SOCKET, SO_RCVBUF);
    copy_option(from, to, SOL_SOCKET, SO_SNDBUF);
    return rc;
}

static int share_address(int main, int fd, const union addr *own)
{
    int on = 1, off = 0, rc = 0;

    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
        setsockopt(main, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
        return -errno;
    if (bind(fd, &own->sa, addr_size(&own->sa)))
        rc = -errno;
    /* Else other programs could share it too. */
    setsockopt(main, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off));
    return rc;
}

static int open_socket(struct uet_hot *hot, int main, const union addr *own)
{
    int rc;

    hot->fd = socket(own->sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (hot->fd < 0)
        return -errno;
    rc = copy_options(main, hot->fd, own->sa.sa_family);
    return rc ? rc : share_address(main, hot->fd, own);
}

void uet_hot_heat(struct uet_hot *hot, int main, const union addr *own)
{
    bool fresh = hot->fd < 0;
    int rc = fresh ? open_socket(hot, main, own) : 0;
    char text[ADDR_TEXT_MAX];

    hot->row = 0;
    hot->alone = hot->passed = 0;
    uet_hot_cool(hot);
    if (!rc && connect(hot->fd, &hot->last.sa, addr_size(&hot->last.sa)))
        rc = -errno;
    if (!rc) {
        hot->peer = hot->last;
        return;
    }
    LOG_INFO("uet", FI_LOG_EP_DATA, "%s has no socket of its own: %s",
             addr_text(&hot->last.sa, text, sizeof(text)), strerror(-rc));
    if (fresh)
        uet_hot_close(hot); /* packets that were in it are lost, and come again */
    hot->barred = true;
}

void uet_hot_cool(struct uet_hot *hot)
{
    hot->peer.sa.sa_family = AF_UNSPEC;
    hot->row = 0;
}

/* ---- Reading ---- */

struct uet_hot_order uet_hot_order(struct uet_hot *hot, int main)
{
    struct uet_hot_order order = {hot->leads ? hot->fd : main, -1};

    if (__builtin_expect(hot->fd < 0, 0))
        return order;
    if (__builtin_expect(hot->alone >= ALONE && ++hot->passed < LOOKS, 1))
        return order;
    hot->passed = 0;
    /* The other one is first: behind a leader that always brings something it would never be. */
    order.second = order.first;
    order.first = hot->leads ? main : hot->fd;
    return order;
}

void uet_hot_before_sleep(struct uet_hot *hot)
{
    hot->passed = LOOKS;
}
