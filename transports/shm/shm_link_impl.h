/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the two halves of shm_link.h: links (shm_link.c) and handshakes (shm_handshake.c). */
#ifndef WEFT_SHM_LINK_IMPL_H
#define WEFT_SHM_LINK_IMPL_H

#include "transports/shm/shm_ep.h"
#include "transports/shm/shm_link.h"

/* A link without a socket yet, or NULL; shm_link_open comes next. Forks are held for both. */
struct shm_link *shm_link_new(struct shm_ep *ep);

/* Gives the link a connected socket, which it takes over. On errors there is no link any more, and
 * the caller keeps the socket: -FI_ENOMEM, -FI_EACCES (a peer of another user), or what the kernel
 * said. */
int shm_link_open(struct shm_link *link, int fd);
/* The memory, of which that half is ours to write (0: its maker), and the peer's name. False
 * without room for these; the region is the link's in any case. */
bool shm_link_set_region(struct shm_link *link, void *region, int half, const char *name);
/* The socket and the memory go; the struct stays for its referrers. */
void shm_link_tear_down(struct shm_link *link);

#endif
