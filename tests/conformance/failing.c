/* SPDX-License-Identifier: BSD-2-Clause */
#include "failing.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* dlsym gives functions as objects, and the C library declares some as unions of pointers. */
#pragma GCC diagnostic ignored "-Wpedantic"

enum {
    SITES_MAX = 4096,
    EACH_SITE = 3
};

static enum failing_kind failing;
static unsigned failing_at, counted;
static const char *failed_name;
static int failed_err;
static _Atomic long live;
static uintptr_t base, text_begin, text_end, failed_at;
static struct {
    uintptr_t caller;
    unsigned calls;
} sites[SITES_MAX];

static int find_library(struct dl_phdr_info *info, size_t size, void *opaque)
{
    (void)size;
    (void)opaque;
    if (!strstr(info->dlpi_name, "libfabric.so"))
        return 0;
    base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];

        if (header->p_type == PT_LOAD && header->p_flags & PF_X) {
            text_begin = info->dlpi_addr + header->p_vaddr;
            text_end = text_begin + header->p_memsz;
        }
    }
    return 1;
}

void failing_start(enum failing_kind kind, unsigned at)
{
    dl_iterate_phdr(find_library, NULL);
    memset(sites, 0, sizeof sites);
    counted = 0;
    failed_name = NULL;
    failing_at = at;
    failing = kind;
}

unsigned failing_stop(void)
{
    failing = FAILING_NONE;
    return counted;
}

const char *failing_what(int *err, unsigned long *place)
{
    *err = failed_err;
    *place = failed_at;
    return failed_name;
}

long failing_live(void)
{
    return live;
}

/* Is this the call that fails? Then errno is set. */
static bool fails(enum failing_kind kind, uintptr_t caller, const char *name, int err)
{
    unsigned slot = (unsigned)(caller * 2654435761U >> 8) % SITES_MAX;

    if (failing != kind || caller < text_begin || caller >= text_end)
        return false;
    while (sites[slot].caller && sites[slot].caller != caller)
        slot = (slot + 1) % SITES_MAX;
    sites[slot].caller = caller;
    if (sites[slot].calls++ >= EACH_SITE || ++counted != failing_at)
        return false;
    failed_name = name;
    failed_err = err;
    failed_at = caller - base;
    errno = err;
    return true;
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

#if FAILING_ALLOCATIONS
#ifdef __SANITIZE_ADDRESS__
#define REAL(name) __interceptor_##name
#else
#define REAL(name) __libc_##name
#endif
void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t count, size_t size);
void *REAL(realloc)(void *ptr, size_t size);
void REAL(free)(void *ptr);

void *malloc(size_t size)
{
    void *ptr;

    if (fails(FAILING_ALLOCATION, CALLER, "malloc", ENOMEM))
        return NULL;
    ptr = REAL(malloc)(size);
    live += !!ptr;
    return ptr;
}

void *calloc(size_t count, size_t size)
{
    void *ptr;

    if (fails(FAILING_ALLOCATION, CALLER, "calloc", ENOMEM))
        return NULL;
    ptr = REAL(calloc)(count, size);
    live += !!ptr;
    return ptr;
}

void *realloc(void *old, size_t size)
{
    void *ptr;

    if (fails(FAILING_ALLOCATION, CALLER, "realloc", ENOMEM))
        return NULL;
    ptr = REAL(realloc)(old, size);
    live += ptr && !old;
    return ptr;
}

void free(void *ptr)
{
    live -= !!ptr;
    REAL(free)(ptr);
}
#endif

/* The next definition behind ours. */
#define NEXT(name)                                                                                 \
    static __typeof__(&name) next;                                                                 \
    if (!next)                                                                                     \
    next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define FAIL(name, err)                                                                            \
    NEXT(name);                                                                                    \
    if (fails(FAILING_SYSTEM_CALL, CALLER, #name, err))                                            \
    return -1

/* A connection that is lost shows to everybody who looks, at both ends. */
#define LOSE(name, fd)                                                                             \
    NEXT(name);                                                                                    \
    if (fails(FAILING_SYSTEM_CALL, CALLER, #name, ECONNRESET)) {                                   \
        shutdown(fd, SHUT_RDWR);                                                                   \
        errno = ECONNRESET;                                                                        \
        return -1;                                                                                 \
    }

int socket(int domain, int type, int protocol)
{
    FAIL(socket, EMFILE);
    return next(domain, type, protocol);
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    FAIL(connect, ECONNREFUSED);
    return next(fd, addr, len);
}

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
    FAIL(bind, EADDRINUSE);
    return next(fd, addr, len);
}

int listen(int fd, int backlog)
{
    FAIL(listen, EADDRINUSE);
    return next(fd, backlog);
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
    FAIL(accept4, EMFILE);
    return next(fd, addr, len, flags);
}

int getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
    FAIL(getsockname, ENOBUFS);
    return next(fd, addr, len);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    FAIL(getsockopt, ENOBUFS);
    return next(fd, level, name, value, len);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    FAIL(setsockopt, ENOPROTOOPT);
    return next(fd, level, name, value, len);
}

ssize_t send(int fd, const void *data, size_t len, int flags)
{
    LOSE(send, fd)
    return next(fd, data, len, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    LOSE(sendmsg, fd)
    return next(fd, msg, flags);
}

ssize_t recv(int fd, void *data, size_t len, int flags)
{
    LOSE(recv, fd)
    return next(fd, data, len, flags);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    LOSE(recvmsg, fd)
    return next(fd, msg, flags);
}

int epoll_create1(int flags)
{
    FAIL(epoll_create1, EMFILE);
    return next(flags);
}

int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
    FAIL(epoll_ctl, ENOSPC);
    return next(set, op, fd, event);
}

int epoll_wait(int set, struct epoll_event *events, int count, int timeout)
{
    FAIL(epoll_wait, EINTR);
    return next(set, events, count, timeout);
}

int eventfd(unsigned value, int flags)
{
    FAIL(eventfd, EMFILE);
    return next(value, flags);
}

int timerfd_create(int clock, int flags)
{
    FAIL(timerfd_create, EMFILE);
    return next(clock, flags);
}

int memfd_create(const char *name, unsigned flags)
{
    FAIL(memfd_create, EMFILE);
    return next(name, flags);
}

int ftruncate(int fd, off_t len)
{
    FAIL(ftruncate, ENOSPC);
    return next(fd, len);
}

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
    NEXT(mmap);
    if (fails(FAILING_SYSTEM_CALL, CALLER, "mmap", ENOMEM))
        return MAP_FAILED;
    return next(addr, len, prot, flags, fd, offset);
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                         const struct iovec *remote, unsigned long remote_count,
                         unsigned long flags)
{
    FAIL(process_vm_readv, EPERM);
    return next(pid, local, local_count, remote, remote_count, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
                          const struct iovec *remote, unsigned long remote_count,
                          unsigned long flags)
{
    FAIL(process_vm_writev, EPERM);
    return next(pid, local, local_count, remote, remote_count, flags);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    NEXT(pthread_create);
    if (fails(FAILING_SYSTEM_CALL, CALLER, "pthread_create", EAGAIN))
        return EAGAIN;
    return next(thread, attr, start, arg);
}
