/* SPDX-License-Identifier: BSD-2-Clause */
/* An address of this node with another MTU than the loopback interface has, where there is one. */
#ifndef WEFT_TESTS_SUPPORT_OTHER_HOST_H
#define WEFT_TESTS_SUPPORT_OTHER_HOST_H

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* The first IPv4 address of an interface that is up and no loopback; false: none. */
static inline bool other_host(char text[INET_ADDRSTRLEN])
{
    struct ifaddrs *list = NULL;
    bool found = false;

    if (getifaddrs(&list))
        return false;
    for (const struct ifaddrs *at = list; at && !found; at = at->ifa_next) {
        const struct sockaddr_in *in = (const void *)at->ifa_addr;

        if (in && in->sin_family == AF_INET && at->ifa_flags & IFF_UP &&
            !(at->ifa_flags & IFF_LOOPBACK))
            found = inet_ntop(AF_INET, &in->sin_addr, text, INET_ADDRSTRLEN);
    }
    freeifaddrs(list);
    return found;
}

#endif
