/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_EMULATOR_AH_H
#define WEFT_EMULATOR_AH_H

#include <infiniband/verbs.h>

#include "object.h"
#include "wire.h"

struct address_handle {
    struct ibv_ah ah;
    struct ibv_ah_attr attr;
    struct ibv_gid_entry source;
    int ahn; /* of EFA, or -1 */
    struct object object;
};

static inline const struct address_handle *ah_of(const struct ibv_ah *ah)
{
    return (const struct address_handle *)(const void *)ah;
}

/* 0, or an errno value with a reason: RoCE needs a global route over a GID that the port has. */
int ah_check(struct ibv_context *context, const struct ibv_ah_attr *attr, const char *what);

/* The 40 bytes before a datagram: an IPv6 header, or 20 bytes and an IPv4 header. */
void ah_write_header(const struct wire_packet *packet, void *header);

#endif
