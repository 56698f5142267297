/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the process is still the one that made an object. The child's copy of an object that
 * has threads, sockets or epoll fds belongs to the parent; the child may only free it.
 */
#ifndef WEFT_CORE_BASE_FORK_H
#define WEFT_CORE_BASE_FORK_H

/* How many forks lie between this process and the first one that called fork_watch. An object keeps
 * the value of its creation and compares. */
extern unsigned fork_generation;

/* From now on forks are counted. Any thread, any number of times. */
void fork_watch(void);

#endif
