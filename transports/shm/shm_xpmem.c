/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_xpmem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/fork.h"
#include "core/base/log.h"

/* ---- The interface of the device ---- */

enum command {
    VERSION = _IO('x', 0),
    MAKE = _IO('x', 1),
    GET = _IO('x', 3),
    RELEASE = _IO('x', 4),
    ATTACH = _IO('x', 5),
    DETACH = _IO('x', 6),
};

enum {
    BY_MODE = 1,   /* permits are modes, as those of files */
    READ_WRITE = 2 /* with less nothing can be attached */
};

struct make {
    uint64_t at, len;
    int32_t by;
    uint64_t mode;
    int64_t segment; /* result */
};

struct get {
    int64_t segment;
    int32_t access, by;
    uint64_t mode;
    int64_t permit; /* result */
};

struct attach {
    int64_t permit;
    uint64_t at, len;
    uint64_t here; /* result */
    int32_t unused[2];
};

/* ---- The device ---- */

/* It is never closed, since all that was made through it would go; a child has a copy that is good
 * for nothing. */
static struct device {
    pthread_mutex_t lock;
    bool tried, told;
    unsigned forks; /* fork_generation then */
    int fd;
    int64_t segment;
} device = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static int control(enum command command, void *argument)
{
    return ioctl(device.fd, command, argument) < 0 ? -errno : 0;
}

/* The module has no entry for processes of 32 bits, and the structs above are those of 64. Locked.
 */
static bool is_open(void)
{
    if (sizeof(void *) < sizeof(uint64_t))
        return false;
    if (device.tried && device.forks == fork_generation)
        return device.fd >= 0;
    device.tried = true;
    device.told = false;
    device.forks = fork_generation;
    device.segment = 0;
    device.fd = open("/dev/xpmem", O_RDWR | O_CLOEXEC);
    if (device.fd >= 0 && control(VERSION, NULL)) {
        close(device.fd);
        device.fd = -1;
    }
    return device.fd >= 0;
}

bool shm_xpmem_is_there(void)
{
    bool is;

    pthread_mutex_lock(&device.lock);
    is = is_open();
    pthread_mutex_unlock(&device.lock);
    return is;
}

/* ---- The segment ---- */

static bool yama_restricts(void)
{
    int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    char scope = '1';

    if (fd < 0)
        return errno != ENOENT;
    if (read(fd, &scope, 1) != 1)
        scope = '1';
    close(fd);
    return scope != '0';
}

/* capget(2), version 3: the kernel's headers do not come with every C library. */
struct capability_header {
    uint32_t version;
    int pid;
};

struct capability_data {
    uint32_t effective, permitted, inheritable;
};

/* A process with fewer may not attach. */
static bool has_capabilities(void)
{
    struct capability_header header = {.version = 0x20080522};
    struct capability_data data[2];

    return syscall(SYS_capget, &header, data) || data[0].permitted || data[1].permitted;
}

/* Why some process of this user may not read this one's memory by ptrace(2)'s rules; NULL: all
 * may. */
static const char *protection(void)
{
    if (prctl(PR_GET_DUMPABLE) != 1)
        return "it is not dumpable";
    if (yama_restricts())
        return "kernel.yama.ptrace_scope is not 0";
    return has_capabilities() ? "it has capabilities" : NULL;
}

static int make_segment(void)
{
    struct make make = {.len = UINT64_MAX, .by = BY_MODE, .mode = 0600};
    int rc = control(MAKE, &make);

    if (!rc)
        device.segment = make.segment;
    return rc;
}

static void tell(const char *part, const char *why, bool protected)
{
    if (!device.told)
        LOG_INFO(part, FI_LOG_EP_CTRL, ": others may not attach to this process by XPMEM: %s%s",
                 why, protected ? " (xpmem=on lets them)" : "");
    device.told = true;
}

int64_t shm_xpmem_segment(const char *part, bool insists)
{
    const char *why;
    int64_t segment;
    int rc;

    pthread_mutex_lock(&device.lock);
    if (is_open() && !device.segment) {
        why = insists ? NULL : protection();
        rc = why ? 0 : make_segment();
        if (why || rc)
            tell(part, why ? why : fi_strerror(-rc), why);
    }
    segment = device.segment;
    pthread_mutex_unlock(&device.lock);
    return segment;
}

/* ---- The memory of others ---- */

int shm_xpmem_get(int64_t segment, int64_t *permit)
{
    struct get get = {.segment = segment, .access = READ_WRITE, .by = BY_MODE};
    int rc = shm_xpmem_is_there() ? control(GET, &get) : -ENODEV;

    if (!rc)
        *permit = get.permit;
    return rc;
}

void shm_xpmem_release(int64_t permit)
{
    control(RELEASE, &permit);
}

int shm_xpmem_attach(int64_t permit, uint64_t at, size_t len, const char **here)
{
    struct attach attach = {.permit = permit, .at = at, .len = len};
    int rc = control(ATTACH, &attach);
    void *memory = (void *)(uintptr_t)attach.here;

    if (rc)
        return rc;
    /* Read-only: not even a stray store reaches the peer's memory. Forked children do not inherit
     * it. */
    if (mprotect(memory, len, PROT_READ) || madvise(memory, len, MADV_DONTFORK)) {
        rc = -errno;
        shm_xpmem_detach(memory);
        return rc;
    }
    *here = memory;
    return 0;
}

void shm_xpmem_detach(const char *here)
{
    uint64_t at = (uintptr_t)here;

    control(DETACH, &at);
}
