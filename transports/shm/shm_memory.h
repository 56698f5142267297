/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that two processes share: memfds, which no process can cut off. */
#ifndef WEFT_SHM_MEMORY_H
#define WEFT_SHM_MEMORY_H

#include <stddef.h>

struct shm_ep;

/* Makes and maps `size` zeroed bytes; *fd is the caller's to close, the memory his to unmap. 0, or
 * a negative errno, with a line in the log where a limit forbids files of that size. */
int shm_memory_make(const struct shm_ep *ep, const char *what, size_t size, int *fd, void **memory);
/* Maps what a peer has made, if it has the size that it must have. 0, FI_EIO, or FI_ENOMEM, which
 * is not the peer's fault. */
int shm_memory_map(int fd, size_t size, void **memory);

#endif
