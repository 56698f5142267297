/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A number for each process of a user on a node, the smallest that no other has: so that processes
 * begin at different ones of several equal things. Held until the process ends, by a lock on a byte
 * of a file in /dev/shm that has nothing in it; a forked child has its parent's.
 */
#ifndef WEFT_CORE_BASE_NODE_TURN_H
#define WEFT_CORE_BASE_NODE_TURN_H

/* From 0; 0 also where there can be no such file, or too many processes. Takes the number with the
 * first call. */
unsigned node_turn(void);

#endif
