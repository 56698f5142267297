/* SPDX-License-Identifier: BSD-2-Clause */
/* Error numbers: fi_errno(3). Calls return them negated; error entries carry them positive. */
#ifndef RDMA_FI_ERRNO_H
#define RDMA_FI_ERRNO_H

#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FI_SUCCESS 0

/* The system's numbers under OFI names. */
#define FI_EPERM EPERM
#define FI_ENOENT ENOENT
#define FI_EINTR EINTR
#define FI_EIO EIO
#define FI_E2BIG E2BIG
#define FI_EBADF EBADF
#define FI_EAGAIN EAGAIN
#define FI_EWOULDBLOCK EWOULDBLOCK
#define FI_ENOMEM ENOMEM
#define FI_EACCES EACCES
#define FI_EFAULT EFAULT
#define FI_EBUSY EBUSY
#define FI_ENODEV ENODEV
#define FI_EINVAL EINVAL
#define FI_EMFILE EMFILE
#define FI_ENOSPC ENOSPC
#define FI_ENOSYS ENOSYS
#define FI_ENOMSG ENOMSG
#define FI_ENODATA ENODATA
#define FI_EPROTO EPROTO
#define FI_EOVERFLOW EOVERFLOW
#define FI_EMSGSIZE EMSGSIZE
#define FI_ENOPROTOOPT ENOPROTOOPT
#define FI_EOPNOTSUPP EOPNOTSUPP
#define FI_EADDRINUSE EADDRINUSE
#define FI_EADDRNOTAVAIL EADDRNOTAVAIL
#define FI_ENETDOWN ENETDOWN
#define FI_ENETUNREACH ENETUNREACH
#define FI_ECONNABORTED ECONNABORTED
#define FI_ECONNRESET ECONNRESET
#define FI_ENOBUFS ENOBUFS
#define FI_EISCONN EISCONN
#define FI_ENOTCONN ENOTCONN
#define FI_ESHUTDOWN ESHUTDOWN
#define FI_ETIMEDOUT ETIMEDOUT
#define FI_ECONNREFUSED ECONNREFUSED
#define FI_EHOSTDOWN EHOSTDOWN
#define FI_EHOSTUNREACH EHOSTUNREACH
#define FI_EALREADY EALREADY
#define FI_EINPROGRESS EINPROGRESS
#define FI_EREMOTEIO EREMOTEIO
#define FI_ECANCELED ECANCELED
#define FI_EKEYREJECTED EKEYREJECTED

/* Numbers that only OFI has start here. */
#define FI_ERRNO_OFFSET 256

enum {
    FI_EOTHER = FI_ERRNO_OFFSET, /* none of the others */
    FI_ETOOSMALL,                /* the given buffer is too small */
    FI_EOPBADSTATE,              /* not permitted in the current state */
    FI_EAVAIL,                   /* an error entry waits to be read */
    FI_EBADFLAGS,                /* flags not supported */
    FI_ENOEQ,                    /* event queue missing or not usable */
    FI_EDOMAIN,                  /* resource of another or a wrong domain */
    FI_ENOCQ,                    /* completion queue missing or not usable */
    FI_ECRC,                     /* checksum failed */
    FI_ETRUNC,                   /* message cut off at the buffer's end */
    FI_ENOKEY,                   /* required key not available */
    FI_ENOAV,                    /* address vector missing or not usable */
    FI_EOVERRUN,                 /* a queue overran */
    FI_ENORX,                    /* the receiver is not ready: no buffer posted */
    FI_ENOMR,                    /* memory registration limit reached */
    FI_EFIREWALLADDR,            /* the address is behind a firewall */
    FI_ERRNO_MAX
};

const char *fi_strerror(int errnum);

#ifdef __cplusplus
}
#endif

#endif
