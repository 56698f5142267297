/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/nic/way.h"

#include <stdlib.h>
#include <string.h>

enum {
    PEERS = 4096,
    OWN = 32, /* addresses; the first is that of the name */
};

struct way {
    union addr peer; /* family 0: none */
    uint8_t own;
};

struct uet_ways {
    union addr own[OWN];
    unsigned count;
    struct way ways[PEERS];
};

struct uet_ways *uet_ways_open(const union addr *name)
{
    struct uet_ways *ways = calloc(1, sizeof(*ways));

    if (!ways)
        return NULL;
    ways->own[0] = *name;
    ways->count = 1;
    return ways;
}

void uet_ways_close(struct uet_ways *ways)
{
    free(ways);
}

void uet_ways_ask(int fd, sa_family_t family)
{
    int yes = 1;

    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &yes, sizeof(yes));
    else
        setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &yes, sizeof(yes));
}

/* False: the note is of something else. */
static bool read_note(const struct cmsghdr *note, union addr *own)
{
    struct in_pktinfo four;
    struct in6_pktinfo six;

    memset(own, 0, sizeof(*own));
    if (note->cmsg_level == IPPROTO_IP && note->cmsg_type == IP_PKTINFO) {
        memcpy(&four, CMSG_DATA(note), sizeof(four));
        own->in.sin_family = AF_INET;
        own->in.sin_addr = four.ipi_spec_dst;
        return true;
    }
    if (note->cmsg_level != IPPROTO_IPV6 || note->cmsg_type != IPV6_PKTINFO)
        return false;
    memcpy(&six, CMSG_DATA(note), sizeof(six));
    own->in6.sin6_family = AF_INET6;
    own->in6.sin6_addr = six.ipi6_addr;
    if (IN6_IS_ADDR_LINKLOCAL(&six.ipi6_addr))
        own->in6.sin6_scope_id = six.ipi6_ifindex;
    return true;
}

/* One of `own`; where there are too many, that of the name. */
static unsigned number_of(struct uet_ways *ways, const union addr *own)
{
    unsigned i = 0;

    while (i < ways->count && !addr_same_host(&ways->own[i].sa, &own->sa))
        i++;
    if (i < ways->count)
        return i;
    if (ways->count == OWN)
        return 0;
    ways->own[ways->count] = *own;
    return ways->count++;
}

static size_t place_of(const union addr *peer)
{
    return addr_hash(&peer->sa) % PEERS;
}

void uet_ways_note(struct uet_ways *ways, const union addr *from, const struct cmsghdr *note)
{
    struct way *way = &ways->ways[place_of(from)];
    union addr own;

    if (!read_note(note, &own))
        return;
    way->peer = *from;
    way->own = (uint8_t)number_of(ways, &own);
}

const union addr *uet_ways_to(const struct uet_ways *ways, const union addr *to)
{
    const struct way *way = &ways->ways[place_of(to)];

    return &ways->own[addr_equal(&way->peer.sa, &to->sa) ? way->own : 0];
}
