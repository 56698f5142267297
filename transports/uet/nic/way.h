/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A NIC at every address of its node: by which of them each peer knows it. Answers leave from the
 * address that a peer sent to, since a peer takes them from no other; what is sent to one that has
 * sent nothing yet leaves from the address that the endpoint's name has. A peer that was forgotten,
 * for another in its place, is one that has sent nothing. Not locked.
 */
#ifndef WEFT_UET_NIC_WAY_H
#define WEFT_UET_NIC_WAY_H

#include <sys/socket.h>

#include "core/net/addr.h"

struct uet_ways;

/* name: of the endpoint. NULL: there is no memory. */
struct uet_ways *uet_ways_open(const union addr *name);
/* Takes NULL. */
void uet_ways_close(struct uet_ways *ways);
/* The socket tells where each packet was sent to. */
void uet_ways_ask(int fd, sa_family_t family);
/* A note of a packet from there; those of other things are left alone. */
void uet_ways_note(struct uet_ways *ways, const union addr *from, const struct cmsghdr *note);
/* Valid as long as ways is. */
const union addr *uet_ways_to(const struct uet_ways *ways, const union addr *to);

#endif
