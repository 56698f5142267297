/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hot peer: the one that one lone packet after the other goes to. It gets a socket of its own,
 * bound to the NIC's address too and connected, so that the kernel neither looks up the route of
 * each packet nor checks where it goes. The peer's packets arrive there from then on, those of
 * others at the main socket; both are read. The socket stays until the NIC is closed, since packets
 * may be in it; another peer that becomes hot takes it over. Not locked.
 */
#ifndef WEFT_UET_NIC_HOT_H
#define WEFT_UET_NIC_HOT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "core/net/addr.h"

enum {
    UET_HOT_ROW = 64, /* lone packets in a row that make a peer hot */
};

struct uet_hot {
    int fd;          /* -1: there is none yet */
    union addr peer; /* of packets that leave by it; family 0: none does */
    union addr last; /* of lone packets that did not leave by it: their peer, */
    unsigned row;    /* and how many there were in a row */
    bool barred;     /* the NIC has none, or the kernel refused it */
    /* Of the two sockets, the one that brought the last packet leads. */
    bool leads;
    unsigned alone;  /* reads of the leader since the other one brought any */
    unsigned passed; /* looks since the other one was looked at */
};

/* Which sockets a look reads: the second one, where there is one, if the first has nothing. */
struct uet_hot_order {
    int first, second; /* second -1: there is none */
};

void uet_hot_init(struct uet_hot *hot, bool barred);
void uet_hot_close(struct uet_hot *hot);

static inline bool uet_hot_same(const union addr *a, const union addr *b)
{
    /* Family, port and host of IPv4. */
    if (__builtin_expect(a->sa.sa_family == AF_INET, 1))
        return !memcmp(a, b, offsetof(struct sockaddr_in, sin_zero));
    return addr_equal(&a->sa, &b->sa);
}

static inline bool uet_hot_is(const struct uet_hot *hot, const union addr *to)
{
    return uet_hot_same(to, &hot->peer);
}

/* A lone packet has left by the main socket. */
static inline void uet_hot_note(struct uet_hot *hot, const union addr *to)
{
    if (hot->barred)
        return;
    if (!uet_hot_same(to, &hot->last)) {
        hot->last = *to;
        hot->row = 0;
    }
    hot->row++;
}

/* The last peer is to become hot. */
static inline bool uet_hot_is_due(const struct uet_hot *hot)
{
    return hot->row >= UET_HOT_ROW;
}

/* It does, where the kernel agrees; main is the main socket, at the address own. */
void uet_hot_heat(struct uet_hot *hot, int main, const union addr *own);
/* Nothing leaves by the socket any more: the kernel refused a call of it. */
void uet_hot_cool(struct uet_hot *hot);

struct uet_hot_order uet_hot_order(struct uet_hot *hot, int main);
/* A read of fd brought something. */
static inline void uet_hot_brought(struct uet_hot *hot, int fd)
{
    if ((fd == hot->fd) == hot->leads) {
        hot->alone++;
        return;
    }
    hot->leads = !hot->leads;
    hot->alone = 0;
}
/* The next look is at both. */
void uet_hot_before_sleep(struct uet_hot *hot);

#endif
