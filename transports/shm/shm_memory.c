/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "transports/shm/shm_ep.h"

enum {
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

/* A memfd is a file to the kernel, which kills a process that exceeds RLIMIT_FSIZE (SIGXFSZ). */
static int check_file_size(const struct shm_ep *ep, size_t size)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= size)
        return 0;
    LOG_WARN(ep->domain->base.fabric->part, FI_LOG_EP_CTRL,
             ": %s: files of %zu bytes are not allowed (ulimit -f), nor is shared memory then",
             ep->name, size);
    return -EFBIG;
}

int shm_memory_make(const struct shm_ep *ep, const char *what, size_t size, int *fd, void **memory)
{
    int rc = check_file_size(ep, size);

    *fd = -1;
    if (rc)
        return rc;
    *fd = memfd_create(what, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return -errno;
    *memory = MAP_FAILED;
    if (!ftruncate(*fd, (off_t)size) && !fcntl(*fd, F_ADD_SEALS, SEALS))
        *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (*memory != MAP_FAILED)
        return 0;
    rc = -errno;
    close(*fd);
    return rc;
}

int shm_memory_map(int fd, size_t size, void **ret_memory)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    void *memory;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || st.st_size != (off_t)size)
        return FI_EIO;
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return errno == ENOMEM || errno == EAGAIN ? FI_ENOMEM : FI_EIO;
    *ret_memory = memory;
    return 0;
}
