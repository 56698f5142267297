/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/udp/udp_hot.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "core/base/log.h"
#include "transports/udp/udp_ep.h"

enum {
    HOT_ROW = 64, /* lone datagrams and trains in a row that make a peer hot */
    ALONE = 32,   /* datagrams in a row after which the leader is looked at more often */
    LOOKS = 8,    /* of the leader then, for one of the other socket */
};

/* ---- Becoming hot ---- */

static int open_socket(struct udp_ep *ep)
{
    struct udp_hot *hot = &ep->hot;
    int rc = udp_socket_open_beside(ep->fabric, &ep->main, &hot->sock);

    if (!rc)
        rc = udp_ep_add_socket(ep, &hot->sock);
    if (rc)
        udp_socket_close(&hot->sock);
    else
        udp_errors_add_hot(ep);
    return rc;
}

static __attribute__((noinline)) void make_hot(struct udp_ep *ep, const struct sockaddr *to)
{
    struct udp_hot *hot = &ep->hot;
    char text[ADDR_TEXT_MAX];
    int rc = hot->sock.fd < 0 ? open_socket(ep) : 0;

    if (!rc && connect(hot->sock.fd, to, addr_size(to)))
        rc = -errno;
    hot->leads = false;
    hot->alone = hot->passed = hot->same = 0;
    if (!rc) {
        memcpy(&hot->peer, to, addr_size(to));
        return;
    }
    hot->refused = true;
    LOG_INFO(ep->fabric->base.part, FI_LOG_EP_DATA, "%s has no socket of its own: %s",
             addr_text(to, text, sizeof(text)), strerror(-rc));
}

void udp_hot_note(struct udp_ep *ep, const struct sockaddr *to)
{
    struct udp_hot *hot = &ep->hot;

    if (!udp_hot_same(to, &hot->last)) {
        memcpy(&hot->last, to, addr_size(to));
        hot->row = 0;
    }
    if (__builtin_expect(++hot->row < HOT_ROW, 1))
        return;
    hot->row = 0;
    if (!hot->refused && !pcap_on(ep->main.flow))
        make_hot(ep, to);
}

bool udp_hot_cut(struct udp_hot *hot, size_t cut)
{
    int bytes = (int)cut;

    if (setsockopt(hot->sock.fd, SOL_UDP, UDP_SEGMENT, &bytes, sizeof(bytes)))
        return false;
    hot->cut = (uint16_t)cut;
    return true;
}

/* Where a cut is longer than the path takes, some kernels refuse lone datagrams, too. */
void udp_hot_cool(struct udp_hot *hot)
{
    hot->peer.sa.sa_family = AF_UNSPEC;
    hot->row = 0;
    if (hot->cut)
        udp_hot_cut(hot, 0);
}

/* ---- Reading ---- */

void udp_hot_order(struct udp_ep *ep, struct udp_socket **first, struct udp_socket **second)
{
    struct udp_hot *hot = &ep->hot;
    struct udp_socket *leader = hot->leads ? &hot->sock : &ep->main;

    *first = leader;
    *second = NULL;
    if (__builtin_expect(hot->alone >= ALONE && ++hot->passed < LOOKS, 1))
        return;
    hot->passed = 0;
    /* The other one is first: where each look uses up the receives, the leader would be alone. */
    *first = hot->leads ? &ep->main : &hot->sock;
    *second = leader;
}

void udp_hot_came_from(struct udp_hot *hot, const struct udp_socket *sock, const union addr *from)
{
    if (sock != &hot->sock)
        return;
    if (!hot->same || !addr_equal(&from->sa, &hot->sender.sa)) {
        hot->sender = *from;
        hot->same = 0;
    }
    hot->same++;
}

void udp_hot_brought(struct udp_ep *ep, const struct udp_socket *sock, unsigned count)
{
    struct udp_hot *hot = &ep->hot;

    if ((sock == &hot->sock) == hot->leads) {
        hot->alone += hot->alone < ALONE ? count : 0;
        return;
    }
    hot->leads = !hot->leads;
    hot->alone = 0;
}

void udp_hot_before_sleep(struct udp_hot *hot)
{
    int error;
    socklen_t len = sizeof(error);

    if (hot->sock.fd < 0)
        return;
    hot->passed = LOOKS;
    getsockopt(hot->sock.fd, SOL_SOCKET, SO_ERROR, &error, &len);
}
