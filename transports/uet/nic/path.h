/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The payload of packets between two hosts, by the MTU that the kernel has for the route: both ends
 * see the same one, whichever interfaces their own addresses belong to. All messages of a pair are
 * cut at it.
 */
#ifndef WEFT_UET_NIC_PATH_H
#define WEFT_UET_NIC_PATH_H

#include <stdint.h>

#include "core/net/addr.h"

enum {
    UET_PATHS = 32,         /* hosts that are remembered */
    UET_PATH_HEADERS = 160, /* bytes: IPv6, UDP, security, PDS, SES, extension, tag */
};

struct uet_paths {
    struct {
        union addr host; /* family 0: none */
        uint32_t payload;
    } slots[UET_PATHS];
};

/* The longest payload that is legal (1024, 2048, 4096, 8192 bytes) and fits packets of an interface
 * with this MTU. 0: none does. */
uint32_t uet_path_longest(int mtu);

/* As uet_path_longest, of the route from one host to another; `most` at most. The kernel is asked
 * once for each of the hosts that are remembered; where it has no route, it is `otherwise`. */
uint32_t uet_path_payload(struct uet_paths *paths, const union addr *from, const union addr *to,
                          uint32_t most, uint32_t otherwise);

#endif
