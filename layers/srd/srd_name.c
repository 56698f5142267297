/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/srd/srd_name.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "core/base/hash.h"
#include "core/base/little_endian.h"

enum {
    AT_QPN = 16,
    AT_CONNID = 20,
    AT_SCOPE = 24,
    MAPPED = 12, /* bytes in front of an IPv4 address in an IPv6 one */
};

static const uint8_t mapped[MAPPED] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool srd_name_has_format(uint32_t format)
{
    return format == FI_ADDR_EFA || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6 ||
           format == FI_ADDR_STR;
}

int srd_name_import(uint32_t format, const void *raw, size_t len, struct srd_name *name)
{
    static const uint8_t none[AT_QPN];
    union addr addr;
    int rc;

    if (format == FI_ADDR_EFA) {
        if (!raw || len != SRD_ADDR_SIZE || !memcmp(raw, none, sizeof(none)))
            return -FI_EINVAL;
        memcpy(name->bytes, raw, SRD_ADDR_SIZE);
        return 0;
    }
    rc = addr_import(format, raw, len, &addr);
    if (rc)
        return rc;
    memset(name, 0, sizeof(*name));
    if (addr.sa.sa_family == AF_INET6) {
        memcpy(name->bytes, &addr.in6.sin6_addr, sizeof(addr.in6.sin6_addr));
        put32(name->bytes + AT_SCOPE, addr.in6.sin6_scope_id);
    } else {
        memcpy(name->bytes, mapped, MAPPED);
        memcpy(name->bytes + MAPPED, &addr.in.sin_addr, sizeof(addr.in.sin_addr));
    }
    put16(name->bytes + AT_QPN, addr_port(&addr.sa));
    return 0;
}

uint32_t srd_name_connid(const struct srd_name *name)
{
    return get32(name->bytes + AT_CONNID);
}

const char *srd_name_get(uint32_t format, const uint8_t *raw, struct srd_name *name,
                         uint32_t *connid)
{
    union addr addr;

    *connid = get32(raw + AT_CONNID);
    if (format == FI_ADDR_EFA) {
        if (srd_name_import(format, raw, SRD_ADDR_SIZE, name))
            return "an address of no endpoint";
        memset(name->bytes + AT_QPN + 2, 0, 2); /* what a peer keeps there is its own affair */
        memset(name->bytes + AT_SCOPE, 0, SRD_ADDR_SIZE - AT_SCOPE);
        return NULL;
    }
    memcpy(name->bytes, raw, SRD_ADDR_SIZE);
    memset(name->bytes + AT_QPN + 2, 0, 2);
    memset(name->bytes + AT_CONNID, 0, 4);
    memset(name->bytes + AT_SCOPE + 4, 0, 4);
    srd_name_addr(name, &addr);
    return addr_is_any(&addr.sa) || !addr_port(&addr.sa) ? "an address of no endpoint" : NULL;
}

void srd_name_put(const struct srd_name *name, uint32_t connid, uint8_t *raw)
{
    memcpy(raw, name->bytes, SRD_ADDR_SIZE);
    put32(raw + AT_CONNID, connid);
}

static struct sockaddr_in6 in6_of(const struct srd_name *name)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                               .sin6_scope_id = get32(name->bytes + AT_SCOPE)};

    memcpy(&in6.sin6_addr, name->bytes, sizeof(in6.sin6_addr));
    addr_set_port((struct sockaddr *)&in6, get16(name->bytes + AT_QPN));
    return in6;
}

void srd_name_addr(const struct srd_name *name, union addr *addr)
{
    memset(addr, 0, sizeof(*addr));
    if (memcmp(name->bytes, mapped, MAPPED)) {
        addr->in6 = in6_of(name);
        return;
    }
    addr->in.sin_family = AF_INET;
    memcpy(&addr->in.sin_addr, name->bytes + MAPPED, sizeof(addr->in.sin_addr));
    addr_set_port(&addr->sa, get16(name->bytes + AT_QPN));
}

void srd_name_export(uint32_t format, const struct srd_name *name, union addr_raw *raw)
{
    union addr addr;

    memset(raw, 0, sizeof(*raw));
    if (format == FI_ADDR_EFA) {
        memcpy(raw->own, name->bytes, SRD_ADDR_SIZE);
        return;
    }
    srd_name_addr(name, &addr);
    if (format == FI_ADDR_STR)
        addr_to_str(&addr.sa, raw->text, sizeof(raw->text));
    else if (format == FI_SOCKADDR_IN6)
        raw->addr = (union addr){.in6 = in6_of(name)};
    else
        raw->addr = addr;
}

uint64_t srd_name_hash(const struct srd_name *name)
{
    return hash_bytes(HASH_START, name->bytes, sizeof(name->bytes));
}

char *srd_name_text(uint32_t format, const struct srd_name *name, char text[ADDR_TEXT_MAX])
{
    char gid[INET6_ADDRSTRLEN] = "";
    union addr addr;

    if (format != FI_ADDR_EFA) {
        srd_name_addr(name, &addr);
        return addr_text(&addr.sa, text, ADDR_TEXT_MAX);
    }
    inet_ntop(AF_INET6, name->bytes, gid, sizeof(gid));
    snprintf(text, ADDR_TEXT_MAX, "[%s]:%u:%u", gid, get16(name->bytes + AT_QPN),
             srd_name_connid(name));
    return text;
}
