/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/link_state.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

/* A C library may come without the kernel's headers. */
#if !defined(__has_include) || __has_include(<linux/rtnetlink.h>)
#include <linux/rtnetlink.h>

enum {
    READ_BYTES = 16384, /* of one message of the kernel, at most */
    READ_MOST = 64,     /* at once */
};

static int ask_for_all(int fd)
{
    struct {
        struct nlmsghdr head;
        struct ifinfomsg info;
    } request = {
        .head = {.nlmsg_len = sizeof(request),
                 .nlmsg_type = RTM_GETLINK,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .info = {.ifi_family = AF_UNSPEC},
    };
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

    return sendto(fd, &request, sizeof(request), 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0
               ? -errno
               : 0;
}

int link_state_open(int *ret_fd)
{
    struct sockaddr_nl self = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    int rc;

    if (fd < 0)
        return -errno;
    rc = bind(fd, (struct sockaddr *)&self, sizeof(self)) ? -errno : ask_for_all(fd);
    if (rc) {
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

static void take_link(const struct nlmsghdr *head, const uint8_t *payload, link_state_told *told,
                      void *arg)
{
    struct ifinfomsg info;

    if (head->nlmsg_len < sizeof(*head) + sizeof(info))
        return;
    memcpy(&info, payload, sizeof(info));
    if (head->nlmsg_type == RTM_NEWLINK && info.ifi_index > 0)
        told(arg, (unsigned)info.ifi_index,
             info.ifi_flags & IFF_UP && info.ifi_flags & IFF_RUNNING);
    if (head->nlmsg_type == RTM_DELLINK && info.ifi_index > 0)
        told(arg, (unsigned)info.ifi_index, false);
}

void link_state_parse(const uint8_t *bytes, size_t len, link_state_told *told, void *arg)
{
    struct nlmsghdr head;

    while (len >= sizeof(head)) {
        size_t step;

        memcpy(&head, bytes, sizeof(head));
        if (head.nlmsg_len < sizeof(head) || head.nlmsg_len > len)
            return;
        take_link(&head, bytes + sizeof(head), told, arg);
        step = NLMSG_ALIGN((size_t)head.nlmsg_len);
        if (step >= len)
            return;
        bytes += step;
        len -= step;
    }
}

/* Another process may write to our port: only the kernel is believed. */
static ssize_t read_one(int fd, uint8_t *bytes, size_t room, bool *kernel)
{
    struct sockaddr_nl from = {.nl_pid = 0};
    socklen_t size = sizeof(from);
    ssize_t n = recvfrom(fd, bytes, room, MSG_DONTWAIT, (struct sockaddr *)&from, &size);

    *kernel = !from.nl_pid;
    return n;
}

bool link_state_read(int fd, link_state_told *told, void *arg)
{
    uint8_t bytes[READ_BYTES];

    for (int i = 0; i < READ_MOST; i++) {
        bool kernel;
        ssize_t n = read_one(fd, bytes, sizeof(bytes), &kernel);

        if (n < 0 && errno == ENOBUFS && !ask_for_all(fd))
            continue; /* the kernel had to forget some */
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (kernel)
            link_state_parse(bytes, (size_t)n, told, arg);
    }
    return true;
}

#else

int link_state_open(int *ret_fd)
{
    (void)ret_fd;
    return -FI_ENOSYS;
}

bool link_state_read(int fd, link_state_told *told, void *arg)
{
    (void)fd, (void)told, (void)arg;
    return false;
}

void link_state_parse(const uint8_t *bytes, size_t len, link_state_told *told, void *arg)
{
    (void)bytes, (void)len, (void)told, (void)arg;
}

#endif
