/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints of several processes of one user at one address and port (SO_REUSEPORT). Each has a
 * slot of PIDonFEPs and blocks of PDC ids (steer.h), by which the kernel finds it. A page of shared
 * memory says who has what. A claim is a lock on a byte of its file, so the kernel gives it back
 * when a process dies. Not locked.
 */
#ifndef WEFT_UET_NIC_SHARE_H
#define WEFT_UET_NIC_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/net/addr.h"

struct uet_share;

/* The page of addr, with its port; no other joins or leaves until uet_share_join or
 * uet_share_close. -FI_EADDRINUSE: the port is taken by what is not on the page; -FI_EAGAIN:
 * another process is at it for too long; -FI_ENOMEM; an error of the system. */
int uet_share_open(const union addr *addr, struct uet_share **share);
/* fd is bound to that address. slot: the one wanted, or -1. -FI_EADDRINUSE: it, or all of them, are
 * taken; -FI_EOPNOTSUPP: the kernel steers nothing. */
int uet_share_join(struct uet_share *share, int fd, int slot);
/* Leaves, and closes fd (-1: none) before another joins, since the kernel numbers the sockets that
 * there are. In a child of the process that joined, it only forgets. share may be NULL. */
void uet_share_close(struct uet_share *share, int fd);

unsigned uet_share_slot(const struct uet_share *share);
/* Bit b: PDC ids from b * STEER_IDS on are of this endpoint. */
uint64_t uet_share_blocks(const struct uet_share *share);
/* Claims one more block. False: there is none. */
bool uet_share_grow(struct uet_share *share);
/* There are others at the address, or may be. */
bool uet_share_has_company(const struct uet_share *share);
/* Is the packet another endpoint's, which lives? It came here because the kernel's view, or ours of
 * it, has changed; uet_share_look finds out. */
bool uet_share_is_foreign(struct uet_share *share, uint64_t now, const uint8_t *bytes, size_t len);
/* An inquiry has come (steer_is_inquiry). */
void uet_share_hear(struct uet_share *share, const uint8_t *bytes);
/* No more packets are there for now; came: some were, since it was called last. Where the
 * endpoint's packets may go astray, which silence shows, too, it asks for its number. */
void uet_share_look(struct uet_share *share, uint64_t now, bool came);
/* When an endpoint that hears nothing is to look again. UINT64_MAX: it need not. */
uint64_t uet_share_due(const struct uet_share *share);

#endif
