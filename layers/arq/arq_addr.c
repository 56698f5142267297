/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/arq/arq_addr.h"

#include <stdio.h>
#include <string.h>

#include <rdma/fabric.h>

/* Field by field, since there may be anything in the padding. */
static void put(struct arq_addr *addr, const union addr *from)
{
    union addr clean = {.sa.sa_family = from->sa.sa_family};

    if (from->sa.sa_family == AF_INET) {
        clean.in.sin_port = from->in.sin_port;
        clean.in.sin_addr = from->in.sin_addr;
    } else {
        clean.in6.sin6_port = from->in6.sin6_port;
        clean.in6.sin6_addr = from->in6.sin6_addr;
        clean.in6.sin6_scope_id = from->in6.sin6_scope_id;
    }
    addr->len = addr_size(&clean.sa);
    memcpy(addr->bytes, &clean, addr->len);
}

/* A text of an IP address has one spelling; others (loop://7) are what they are. */
static void put_text(struct arq_addr *addr, const char *text, size_t len)
{
    union addr ip;

    len = strnlen(text, len);
    if (!len || len >= ARQ_ADDR_MAX)
        return;
    if (addr_from_str(text, len, &ip)) {
        memcpy(addr->bytes, text, len);
        addr->bytes[len] = 0;
        addr->len = len + 1;
    } else {
        addr->len = addr_to_str(&ip.sa, (char *)addr->bytes, ARQ_ADDR_MAX) + 1;
    }
}

bool arq_addr_takes(uint32_t format)
{
    switch (format) {
    case FI_FORMAT_UNSPEC:
    case FI_SOCKADDR:
    case FI_SOCKADDR_IP:
    case FI_SOCKADDR_IN:
    case FI_SOCKADDR_IN6:
    case FI_ADDR_STR: return true;
    default: return false;
    }
}

bool arq_addr_take(uint32_t format, const void *raw, size_t len, struct arq_addr *addr)
{
    union addr ip;

    addr->len = 0;
    if (format == FI_ADDR_STR)
        put_text(addr, raw, len);
    else if (!addr_import(format, raw, len, &ip))
        put(addr, &ip);
    return addr->len;
}

bool arq_addr_of_av(uint32_t format, const void *raw, struct arq_addr *addr)
{
    return arq_addr_take(format, raw, format == FI_ADDR_STR ? ARQ_ADDR_MAX : addr_size(raw), addr);
}

uint64_t arq_addr_hash(const struct arq_addr *addr)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < addr->len; i++)
        hash = (hash ^ addr->bytes[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

char *arq_addr_text(uint32_t format, const struct arq_addr *addr, char text[ADDR_TEXT_MAX])
{
    if (!addr->len)
        snprintf(text, ADDR_TEXT_MAX, "an unknown address");
    else if (format == FI_ADDR_STR)
        snprintf(text, ADDR_TEXT_MAX, "%s", (const char *)addr->bytes);
    else
        addr_text((const struct sockaddr *)(const void *)addr->bytes, text, ADDR_TEXT_MAX);
    return text;
}
