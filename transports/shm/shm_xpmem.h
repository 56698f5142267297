/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XPMEM: memory of another process mapped into this one, by a kernel module that is not part of
 * Linux. Requests to its device, /dev/xpmem; errors are the kernel's, negative. Any thread.
 * See docs/decisions/shm.md.
 */
#ifndef WEFT_SHM_XPMEM_H
#define WEFT_SHM_XPMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* There is a device; looked for once. */
bool shm_xpmem_is_there(void);

/*
 * The number under which others of this user may attach to all memory of this process; 0: they may
 * not, the log of `part` says why, unless there is no device. Made by the first call; a forked
 * child has its own. Unless `insists`, only where the kernel's rules for ptrace(2) keep none of
 * these others out.
 */
int64_t shm_xpmem_segment(const char *part, bool insists);

/* The right to attach to memory of a segment's owner; the number may be anything. */
int shm_xpmem_get(int64_t segment, int64_t *permit);
/* All that is attached with it must have been detached. */
void shm_xpmem_release(int64_t permit);

/* Whole pages of the owner, from its address `at`, to be read at *here: some of them may not be
 * there, or vanish (transports/shm/shm_guard.h). Not inherited by children. */
int shm_xpmem_attach(int64_t permit, uint64_t at, size_t len, const char **here);
void shm_xpmem_detach(const char *here);

#endif
