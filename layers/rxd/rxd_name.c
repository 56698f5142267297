/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxd/rxd_name.h"

#include <stdio.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

bool rxd_name_equal(const struct rxd_name *a, const struct rxd_name *b)
{
    if (a->own_len || b->own_len)
        return a->own_len == b->own_len && !memcmp(a->own, b->own, a->own_len);
    return addr_equal(&a->addr.sa, &b->addr.sa);
}

uint64_t rxd_name_hash(const struct rxd_name *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (!name->own_len)
        return addr_hash(&name->addr.sa);
    for (size_t i = 0; i < name->own_len; i++)
        hash = (hash ^ name->own[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

int rxd_name_import(uint32_t format, const void *raw, size_t len, struct rxd_name *name)
{
    *name = (struct rxd_name){.own_len = 0};
    if (!rxd_name_is_own(format))
        return addr_import(format, raw, len, &name->addr);
    if (!raw || !len || len > ADDR_OWN_MAX)
        return -FI_EINVAL;
    name->own = raw;
    name->own_len = (uint8_t)len;
    return 0;
}

void rxd_name_export(uint32_t format, const struct rxd_name *name, union addr_raw *raw)
{
    memset(raw, 0, sizeof(*raw));
    if (name->own_len)
        memcpy(raw->own, name->own, name->own_len);
    else if (format == FI_ADDR_STR)
        addr_to_str(&name->addr.sa, raw->text, sizeof(raw->text));
    else
        raw->addr = name->addr;
}

char *rxd_name_text(const struct rxd_name *name, char text[ADDR_TEXT_MAX])
{
    if (!name->own_len)
        return addr_text(&name->addr.sa, text, ADDR_TEXT_MAX);
    snprintf(text, ADDR_TEXT_MAX, "the peer %016llx", (unsigned long long)rxd_name_hash(name));
    return text;
}
