/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A child of fork(2) gives up what it must not keep: its copies of the sockets would keep a dead
 * parent alive for its peers. They are closed in the child, which may happen at any time of any
 * other thread; so a thread that opens or closes a socket, and changes where it is noted, keeps
 * forks away meanwhile.
 */
#ifndef WEFT_SHM_FORK_H
#define WEFT_SHM_FORK_H

struct shm_ep;

/* The endpoint's sockets are closed in children, and it notes how many forks there were. */
void shm_fork_watch(struct shm_ep *ep);
void shm_fork_forget(struct shm_ep *ep);
/* No fork in between. Short; not nested. */
void shm_fork_hold(void);
void shm_fork_let(void);

#endif
