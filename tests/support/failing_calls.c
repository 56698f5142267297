/* SPDX-License-Identifier: BSD-2-Clause */
/* The system calls that fail: before those of the C library. */
#include "failing.h"
#include "mmsg.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <search.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* dlsym gives functions as objects, and the C library declares some as unions of pointers. */
#pragma GCC diagnostic ignored "-Wpedantic"

#define CALLER ((uintptr_t)__builtin_return_address(0))

/* Where longs have 32 bits, glibc has a second function for places of 64 bits in a file, as which
 * the headers declare ours. */
#if defined(__GLIBC__) && UINTPTR_MAX < UINT64_MAX
#define OF_FILES(name) #name "64"
#else
#define OF_FILES(name) #name
#endif

/* The next definition behind ours. Threads may look for it at once, and find the same. */
#define NEXT_AS(name, symbol)                                                                      \
    static __typeof__(&name) known;                                                                \
    __typeof__(&name) next = __atomic_load_n(&known, __ATOMIC_RELAXED);                            \
    if (!next) {                                                                                   \
        next = (__typeof__(&name))dlsym(RTLD_NEXT, symbol);                                        \
        __atomic_store_n(&known, next, __ATOMIC_RELAXED);                                          \
    }
#define NEXT(name) NEXT_AS(name, #name)
#define NEXT_OF_FILES(name) NEXT_AS(name, OF_FILES(name))

#define FAIL_AS(name, symbol, err)                                                                 \
    NEXT_AS(name, symbol);                                                                         \
    if (failing_hit(FAILING_SYSTEM_CALL, CALLER, #name, err))                                      \
    return -1
#define FAIL(name, err) FAIL_AS(name, #name, err)
#define FAIL_OF_FILES(name, err) FAIL_AS(name, OF_FILES(name), err)

static bool has_connection(int fd)
{
    int type = 0;
    socklen_t len = sizeof(type);

    return !syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &len) && type != SOCK_DGRAM;
}

/* A connection that is lost shows to everybody who looks, at both ends. A socket of datagrams has
 * none to lose. */
#define LOSE(name, fd)                                                                             \
    NEXT(name);                                                                                    \
    if (failing_hit(FAILING_SYSTEM_CALL, CALLER, #name, ECONNRESET)) {                             \
        errno = ENOBUFS;                                                                           \
        if (has_connection(fd)) {                                                                  \
            shutdown(fd, SHUT_RDWR);                                                               \
            errno = ECONNRESET;                                                                    \
        }                                                                                          \
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

ssize_t sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to,
               socklen_t to_len)
{
    FAIL(sendto, ENOBUFS);
    return next(fd, data, len, flags, to, to_len);
}

int sendmmsg(int fd, struct mmsghdr *msgs, unsigned count, mmsg_flags flags)
{
    FAIL(sendmmsg, ENOBUFS);
    return next(fd, msgs, count, flags);
}

int recvmmsg(int fd, struct mmsghdr *msgs, unsigned count, mmsg_flags flags,
             struct timespec *timeout)
{
    FAIL(recvmmsg, ENOBUFS);
    return next(fd, msgs, count, flags, timeout);
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

/* Members of a set can be taken out: that needs nothing that could be missing. */
int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
    NEXT(epoll_ctl);
    if (op != EPOLL_CTL_DEL && failing_hit(FAILING_SYSTEM_CALL, CALLER, "epoll_ctl", ENOSPC))
        return -1;
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
    FAIL_OF_FILES(ftruncate, ENOSPC);
    return next(fd, len);
}

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
    NEXT_OF_FILES(mmap);
    if (failing_hit(FAILING_SYSTEM_CALL, CALLER, "mmap", ENOMEM))
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
    if (failing_hit(FAILING_SYSTEM_CALL, CALLER, "pthread_create", EAGAIN))
        return EAGAIN;
    return next(thread, attr, start, arg);
}

#ifndef __SANITIZE_THREAD__ /* which calls some of these before it is ready to be called */

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    NEXT(pthread_key_create);
    if (failing_hit(FAILING_SYSTEM_CALL, CALLER, "pthread_key_create", EAGAIN))
        return EAGAIN;
    return next(key, destructor);
}

int open(const char *path, int flags, ...)
{
    mode_t mode;
    va_list args;

    FAIL_OF_FILES(open, EMFILE);
    va_start(args, flags);
    mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return next(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    NEXT_OF_FILES(fopen);
    if (failing_hit(FAILING_SYSTEM_CALL, CALLER, "fopen", EMFILE))
        return NULL;
    return next(path, mode);
}

int fcntl(int fd, int command, ...)
{
    va_list args;
    void *value;

    FAIL_OF_FILES(fcntl, EPERM);
    va_start(args, command);
    value = va_arg(args, void *);
    va_end(args);
    return next(fd, command, value);
}

int posix_fallocate(int fd, off_t offset, off_t len)
{
    NEXT_OF_FILES(posix_fallocate);
    if (failing_hit(FAILING_SYSTEM_CALL, CALLER, "posix_fallocate", ENOSPC))
        return ENOSPC;
    return next(fd, offset, len);
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    FAIL(poll, EINTR);
    return next(fds, count, timeout);
}

int getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
    FAIL(getpeername, ENOTCONN);
    return next(fd, addr, len);
}

int getifaddrs(struct ifaddrs **list)
{
    FAIL(getifaddrs, ENOMEM);
    return next(list);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **list)
{
    NEXT(getaddrinfo);
    if (failing_hit(FAILING_SYSTEM_CALL, CALLER, "getaddrinfo", ENOMEM))
        return EAI_MEMORY;
    return next(node, service, hints, list);
}

/* Memory behind functions of the C library. */

FILE *open_memstream(char **text, size_t *len)
{
    NEXT(open_memstream);
    if (failing_hit(FAILING_ALLOCATION, CALLER, "open_memstream", ENOMEM))
        return NULL;
    return next(text, len);
}

void *tsearch(const void *key, void **root, int (*compare)(const void *, const void *))
{
    NEXT(tsearch);
    if (failing_hit(FAILING_ALLOCATION, CALLER, "tsearch", ENOMEM))
        return NULL;
    return next(key, root, compare);
}

#endif
