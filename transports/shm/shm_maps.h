/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of one peer as this process sees it, through XPMEM: windows at fixed places of its address
 * space, attached when something in them is read, and kept. Progress domain of the endpoint locked.
 */
#ifndef WEFT_SHM_MAPS_H
#define WEFT_SHM_MAPS_H

#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>
#include <sys/uio.h>

enum {
    SHM_WINDOW = 16 << 20,
    SHM_WINDOWS = 16,          /* of one peer; the one that was not used for longest goes */
    SHM_MAPS_LEAST = 64 << 10, /* bytes that are worth the system calls of a guard */
};

struct shm_maps;

/* For the segment's maker; the kernel's error if it refuses, or -ENOMEM. */
int shm_maps_open(int64_t segment, struct shm_maps **maps);
/* NULL does nothing. After a fork it frees only the child's memory. */
void shm_maps_close(struct shm_maps *maps);

/*
 * As process_vm_readv: how many bytes it has copied. Refusals are -EFAULT (memory that the peer
 * does not have, or not any more), -EBUSY (handlers, shm_guard.h), or the kernel's error from an
 * attachment. `there` is not trusted.
 */
ssize_t shm_maps_readv(struct shm_maps *maps, const struct iovec *here, size_t here_count,
                       const struct iovec *there, size_t there_count);

#endif
