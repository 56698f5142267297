/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the link to a peer: by the numbers of the AV, for each receive context of the peers, and by
 * name; and keeps addresses without a listener. Progress domain of the endpoint locked.
 */
#ifndef WEFT_SHM_PEERS_H
#define WEFT_SHM_PEERS_H

#include "transports/shm/shm_ep.h"

/* NULL: not known yet. context is below SHM_CONTEXTS. */
struct shm_link *shm_peers_get(const struct shm_ep *ep, unsigned context, fi_addr_t index);
/* -FI_ENOMEM. */
int shm_peers_set(struct shm_ep *ep, unsigned context, fi_addr_t index, struct shm_link *link);
/* The next operation looks the link up again; NULL: every link. */
void shm_peers_forget(struct shm_ep *ep, const struct shm_link *link);

/* A link that has its name now. False without memory. */
bool shm_peers_add(struct shm_link *link);
void shm_peers_remove(struct shm_link *link);
/* One that can be sent on, or NULL. */
struct shm_link *shm_peers_find(const struct shm_ep *ep, const char *name, unsigned context);

/* No listener at dest within this millisecond: a loop of posts need not ask the kernel each
 * time. */
bool shm_absent_lately(const struct shm_ep *ep, fi_addr_t dest);
/* No listener at dest: -FI_EAGAIN as long as there is hope, then positive FI_ECONNREFUSED. */
int shm_absent_wait(struct shm_ep *ep, fi_addr_t dest, const char *name);
/* The peer has gone, and is not waited for. */
void shm_absent_gone(struct shm_ep *ep, const char *name, unsigned context);
/* An address is another one now; FI_ADDR_UNSPEC: all. */
void shm_absent_forget(struct shm_ep *ep, fi_addr_t dest);

#endif
