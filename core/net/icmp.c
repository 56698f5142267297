/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/icmp.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

#if !defined(__has_include) || __has_include(<linux/errqueue.h>)
#include <linux/errqueue.h>
#else
/* A C library may come without the kernel's headers: this is its interface (ip(7)). */
struct sock_extended_err {
    uint32_t ee_errno;
    uint8_t ee_origin, ee_type, ee_code, ee_pad;
    uint32_t ee_info, ee_data;
};
enum {
    SO_EE_ORIGIN_ICMP = 2,
    SO_EE_ORIGIN_ICMP6 = 3,
};
#endif

enum {
    CONTROL_SIZE = 512,
};

void icmp_ask(int fd, int family)
{
    int one = 1;

    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &one, sizeof(one));
    else
        setsockopt(fd, IPPROTO_IP, IP_RECVERR, &one, sizeof(one));
}

static const struct sock_extended_err *find_error(struct msghdr *header)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg; cmsg = CMSG_NXTHDR(header, cmsg))
        if ((cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_RECVERR) ||
            (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_RECVERR))
            return (const struct sock_extended_err *)(const void *)CMSG_DATA(cmsg);
    return NULL;
}

int icmp_read(int fd, struct icmp_error *error, void *quote, size_t room)
{
    union {
        size_t align; /* of a struct cmsghdr */
        char bytes[CONTROL_SIZE];
    } control;
    struct iovec iov = {quote, room};
    struct msghdr header = {
        .msg_name = &error->to,
        .msg_namelen = sizeof(error->to),
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    const struct sock_extended_err *what;
    ssize_t len;

    error->to.sa.sa_family = AF_UNSPEC;
    len = recvmsg(fd, &header, MSG_ERRQUEUE | MSG_DONTWAIT);
    if (len < 0)
        return -1;
    what = find_error(&header);
    /* The call that sends answers errors of this node. */
    if (!what || !addr_size(&error->to.sa) ||
        (what->ee_origin != SO_EE_ORIGIN_ICMP && what->ee_origin != SO_EE_ORIGIN_ICMP6))
        return 0;
    error->err = (int)what->ee_errno;
    error->info = what->ee_info;
    error->type = what->ee_type;
    error->code = what->ee_code;
    error->quoted = (size_t)len;
    return 1;
}
