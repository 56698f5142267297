/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hot peer: the one that one lone datagram, or train, after the other goes to. It gets a socket
 * of its own, bound to the endpoint's address too and connected, so that the kernel neither looks
 * up the route of each datagram nor checks where it goes: a seventh of the time of a call that
 * sends. The peer's datagrams arrive there from then on, those of others at the endpoint's main
 * socket; both are read. The socket stays until the endpoint is closed, since datagrams may be in
 * it; another peer that becomes hot takes it over. Guarded by the endpoint's progress domain.
 */
#ifndef WEFT_UDP_HOT_H
#define WEFT_UDP_HOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "transports/udp/udp_socket.h"

struct udp_ep;

enum {
    UDP_HOT_SAME = 1024, /* datagrams in a row of one sender, after which it is not asked for */
};

struct udp_hot {
    struct udp_socket sock; /* fd -1: there is none yet */
    union addr peer;        /* of what leaves by it; family 0: nothing does */
    union addr last;        /* whom those went to that did not leave by it */
    unsigned row;           /* how many in a row */
    bool refused;           /* by the kernel: not tried again */
    uint16_t cut;           /* what is longer the kernel cuts to datagrams of so many bytes; or 0 */
    atomic_int errors;      /* the socket, for who reads errors without a lock; -1 */
    /* The sender of what comes by the socket. Datagrams of others may be in it that the kernel gave
     * to it before it was connected, so senders are asked for until many in a row had the same. */
    union addr sender;
    unsigned same; /* datagrams in a row of `sender`'s, since the socket was connected */
    /* Of the two sockets, the one that brought the last datagram leads. */
    bool leads;
    unsigned alone;  /* datagrams of the leader since the other one brought any */
    unsigned passed; /* looks since the other one was looked at */
};

static inline bool udp_hot_same(const struct sockaddr *a, const union addr *b)
{
    /* Family, port and host of IPv4. */
    if (__builtin_expect(a->sa_family == AF_INET, 1))
        return !memcmp(a, b, offsetof(struct sockaddr_in, sin_zero));
    return addr_equal(a, &b->sa);
}

static inline bool udp_hot_is(const struct udp_hot *hot, const struct sockaddr *to)
{
    return udp_hot_same(to, &hot->peer);
}

/* A lone datagram or a train has left for a peer that is not the hot one. It may be by now. */
void udp_hot_note(struct udp_ep *ep, const struct sockaddr *to);
/* Nothing leaves by the socket any more: a call of it was refused, so the main one is asked. */
void udp_hot_cool(struct udp_hot *hot);
/* The socket cuts so from now on, without a word of each call. False: the kernel refuses. */
bool udp_hot_cut(struct udp_hot *hot, size_t cut);
/* A lone datagram of so many bytes is to leave by it. */
static inline void udp_hot_spare(struct udp_hot *hot, size_t len)
{
    if (__builtin_expect(hot->cut && len > hot->cut, 0))
        udp_hot_cut(hot, 0);
}
/* Which of the two sockets is to be read: sets the one that is first, and the second or NULL. */
void udp_hot_order(struct udp_ep *ep, struct udp_socket **first, struct udp_socket **second);
/* Is the sender of the next datagram of sock known, without the kernel saying so? */
static inline bool udp_hot_knows(const struct udp_hot *hot, const struct udp_socket *sock)
{
    return sock == &hot->sock && hot->same >= UDP_HOT_SAME;
}

/* A lone datagram of `from` came by sock, as the kernel says. */
void udp_hot_came_from(struct udp_hot *hot, const struct udp_socket *sock, const union addr *from);
/* `count` datagrams came by sock. */
void udp_hot_brought(struct udp_ep *ep, const struct udp_socket *sock, unsigned count);
/* The next look is at both. Forgets an error that would keep a sleeper awake. */
void udp_hot_before_sleep(struct udp_hot *hot);

#endif
