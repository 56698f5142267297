/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The address of an endpoint as rxd knows it: an IP address, or bytes of a form that only the lower
 * reads (a device's, or one of a part's own), of one length for all endpoints of a domain.
 */
#ifndef WEFT_LAYERS_RXD_RXD_NAME_H
#define WEFT_LAYERS_RXD_RXD_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

#include "core/net/addr.h"

struct rxd_name {
    union addr addr;    /* where own_len is 0 */
    uint8_t own_len;    /* 0: it is an IP address */
    const uint8_t *own; /* the caller's memory */
};

static inline bool rxd_name_is_own(uint32_t format)
{
    switch (format) {
    case FI_FORMAT_UNSPEC:
    case FI_SOCKADDR:
    case FI_SOCKADDR_IN:
    case FI_SOCKADDR_IN6:
    case FI_ADDR_STR: return false;
    default: return true;
    }
}

/* The sender is known by the lower's source only: it has an address of each interface. */
static inline bool rxd_name_is_any(const struct rxd_name *name)
{
    return !name->own_len && addr_is_any(&name->addr.sa);
}

bool rxd_name_equal(const struct rxd_name *a, const struct rxd_name *b);
uint64_t rxd_name_hash(const struct rxd_name *name);
/* Of an address in that format; an own one points to raw. -FI_EINVAL. */
int rxd_name_import(uint32_t format, const void *raw, size_t len, struct rxd_name *name);
/* Bytes for an address vector of that format. */
void rxd_name_export(uint32_t format, const struct rxd_name *name, union addr_raw *raw);
char *rxd_name_text(const struct rxd_name *name, char text[ADDR_TEXT_MAX]);

#endif
