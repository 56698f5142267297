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
    AT_VIEW = 28,
    MAPPED = 12, /* bytes in front of an IPv4 address in an IPv6 one */
};

static const uint8_t mapped[MAPPED] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* Any that only the lower reads, and that packets carry as it is. */
static bool is_own(uint32_t format)
{
    switch (format) {
    case FI_FORMAT_UNSPEC:
    case FI_SOCKADDR:
    case FI_SOCKADDR_IN:
    case FI_SOCKADDR_IN6:
    case FI_ADDR_STR:
    case FI_ADDR_EFA: return false;
    default: return true;
    }
}

size_t srd_name_own_size(const struct fi_info *lower)
{
    if (lower->addr_format == FI_ADDR_EFA)
        return SRD_ADDR_SIZE;
    return is_own(lower->addr_format) ? lower->src_addrlen : 0;
}

static int import_own(const void *raw, size_t len, struct srd_name *name)
{
    if (!raw || !len || len > SRD_NAME_MOST)
        return -FI_EINVAL;
    name->len = len;
    memcpy(name->bytes, raw, len);
    return 0;
}

int srd_name_import(uint32_t format, const void *raw, size_t len, struct srd_name *name)
{
    static const uint8_t none[AT_QPN];
    union addr addr;
    int rc;

    if (is_own(format))
        return import_own(raw, len, name);
    if (format == FI_ADDR_EFA)
        return !raw || len != SRD_ADDR_SIZE || !memcmp(raw, none, sizeof(none))
                   ? -FI_EINVAL
                   : import_own(raw, len, name);
    rc = addr_import(format, raw, len, &addr);
    if (rc)
        return rc;
    memset(name->bytes, 0, SRD_ADDR_SIZE);
    name->len = SRD_ADDR_SIZE;
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

static const char *const too_short = "an address that is too short";

const char *srd_name_get(const struct fi_info *lower, const struct srd_header *header,
                         struct srd_name *name, struct srd_lives *lives)
{
    const uint8_t *raw = header->raw_addr;
    size_t own = is_own(lower->addr_format) ? lower->src_addrlen : 0;
    union addr addr;

    if (header->raw_len < (own ? own + 4 : SRD_ADDR_SIZE))
        return too_short;
    lives->connid = get32(raw + (own ? own : AT_CONNID));
    lives->view = own ? 0 : get32(raw + AT_VIEW);
    if (own && header->raw_len >= own + SRD_LIVES)
        lives->view = get32(raw + own + 4);
    if (own)
        return import_own(raw, own, name) ? too_short : NULL;
    if (lower->addr_format == FI_ADDR_EFA) {
        if (srd_name_import(FI_ADDR_EFA, raw, SRD_ADDR_SIZE, name))
            return "an address of no endpoint";
        memset(name->bytes + AT_QPN + 2, 0, 2); /* what a peer keeps there is its own affair */
        memset(name->bytes + AT_SCOPE, 0, SRD_ADDR_SIZE - AT_SCOPE);
        return NULL;
    }
    import_own(raw, SRD_ADDR_SIZE, name);
    memset(name->bytes + AT_QPN + 2, 0, 2);
    memset(name->bytes + AT_CONNID, 0, 4);
    memset(name->bytes + AT_VIEW, 0, 4);
    srd_name_addr(name, &addr);
    return addr_is_any(&addr.sa) || !addr_port(&addr.sa) ? "an address of no endpoint" : NULL;
}

size_t srd_name_put(uint32_t format, const struct srd_name *name, uint8_t *raw)
{
    memset(raw, 0, SRD_RAW_MOST);
    memcpy(raw, name->bytes, name->len);
    return name->len + (is_own(format) ? SRD_LIVES : 0);
}

void srd_name_put_lives(uint32_t format, const struct srd_lives *lives, uint8_t *raw, size_t len)
{
    bool own = is_own(format);

    put32(raw + (own ? len - SRD_LIVES : AT_CONNID), lives->connid);
    put32(raw + (own ? len - SRD_LIVES + 4 : AT_VIEW), lives->view);
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
    if (format == FI_ADDR_EFA || is_own(format)) {
        memcpy(raw->own, name->bytes, name->len);
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
    return hash_bytes(HASH_START, name->bytes, name->len);
}

char *srd_name_text(uint32_t format, const struct srd_name *name, char text[ADDR_TEXT_MAX])
{
    char gid[INET6_ADDRSTRLEN] = "";
    union addr addr;

    if (is_own(format)) {
        snprintf(text, ADDR_TEXT_MAX, "the peer %016llx", (unsigned long long)srd_name_hash(name));
        return text;
    }
    if (format != FI_ADDR_EFA) {
        srd_name_addr(name, &addr);
        return addr_text(&addr.sa, text, ADDR_TEXT_MAX);
    }
    inet_ntop(AF_INET6, name->bytes, gid, sizeof(gid));
    snprintf(text, ADDR_TEXT_MAX, "[%s]:%u:%u", gid, get16(name->bytes + AT_QPN),
             srd_name_connid(name));
    return text;
}
