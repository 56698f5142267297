/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups: fi_join(3). A socket that is bound to an address of its own gets nothing that
 * is sent to a group, so a member that receives has one more, bound to the group; several processes
 * of a node may be members. Datagrams to a group leave by the endpoint's own socket and
 * interface.
 */
#ifndef WEFT_UDP_GROUP_H
#define WEFT_UDP_GROUP_H

#include <rdma/fi_cm.h>

#include "core/base/list.h"
#include "transports/udp/udp_ep.h"

/* fi_mc_addr of a group: no index of an address vector is so high. */
#define UDP_GROUP_BIT (1ULL << 62)

struct udp_group {
    struct fid_mc mc;
    struct list link;
    struct udp_ep *ep; /* NULL: closed */
    struct domain *domain;
    union addr addr;
    struct udp_socket sock; /* fd -1: it only sends */
    bool sends;
};

static inline bool udp_group_is(fi_addr_t addr)
{
    return (addr & UDP_GROUP_BIT) && !(addr >> 63);
}

int udp_group_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
                   void *context);
/* Where to send for fi_mc_addr; NULL: it is of no group that the endpoint sends to. Progress domain
 * locked. */
const struct sockaddr *udp_group_target(const struct udp_ep *ep, fi_addr_t addr);
/* The endpoint is being closed: its groups have none. Progress domain locked. */
void udp_groups_orphan(struct udp_ep *ep);

#endif
