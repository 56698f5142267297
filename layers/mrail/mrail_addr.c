/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_addr.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

enum {
    HEAD = 6,
    RAIL_HEAD = 3,
    IN_SIZE = 6,
    IN6_SIZE = 22,
    TEXT_ROOM = 64,
};

enum form {
    FORM_IN = 1,
    FORM_IN6 = 2,
    FORM_RAW = 0x80, /* and the length */
};

uint16_t mrail_addr_kind(const struct fi_info *rail)
{
    const uint64_t mix = 0x9e3779b97f4a7c15ull;
    uint64_t hash = rail->ep_attr->protocol * mix;

    hash = (hash ^ hash >> 32 ^ rail->addr_format) * mix;
    return hash >> 48 ? (uint16_t)(hash >> 48) : 1;
}

static size_t room_of(const struct fi_info *rail)
{
    if (rail->addr_format == FI_ADDR_STR)
        return TEXT_ROOM;
    return rail->addr_format >> 31 && rail->src_addrlen > IN6_SIZE ? rail->src_addrlen : IN6_SIZE;
}

size_t mrail_addr_size(const struct fi_info *const *rails, size_t count)
{
    size_t size = HEAD, steps;

    for (size_t i = 0; i < count; i++)
        size += rails[i] ? RAIL_HEAD + room_of(rails[i]) : 0;
    if (size <= MRAIL_ADDR_MIN)
        return MRAIL_ADDR_MIN;
    steps = (size - MRAIL_ADDR_MIN + MRAIL_ADDR_STEP - 1) / MRAIL_ADDR_STEP;
    size = MRAIL_ADDR_MIN + steps * MRAIL_ADDR_STEP;
    return size > MRAIL_ADDR_MAX ? 0 : size;
}

/* ---- Writing ---- */

static unsigned char sum_of(const unsigned char *raw, size_t size)
{
    size_t sum = size;

    for (size_t i = 0; i < size; i++)
        sum += i == 1 ? 0 : raw[i] * (i + 1);
    return (unsigned char)(sum ^ sum >> 8);
}

static size_t put_in(const struct mrail_addr_rail *rail, unsigned char *to)
{
    struct sockaddr_in in;

    memcpy(&in, rail->addr, sizeof(in));
    memcpy(to, &in.sin_port, 2);
    memcpy(to + 2, &in.sin_addr, 4);
    return IN_SIZE;
}

static size_t put_in6(const struct mrail_addr_rail *rail, unsigned char *to)
{
    struct sockaddr_in6 in6;
    uint32_t scope;

    memcpy(&in6, rail->addr, sizeof(in6));
    scope = htonl(in6.sin6_scope_id);
    memcpy(to, &in6.sin6_port, 2);
    memcpy(to + 2, &in6.sin6_addr, 16);
    memcpy(to + 18, &scope, 4);
    return IN6_SIZE;
}

static enum form form_of(const struct mrail_addr_rail *rail)
{
    if (rail->format == FI_SOCKADDR_IN && rail->len == sizeof(struct sockaddr_in))
        return FORM_IN;
    if (rail->format == FI_SOCKADDR_IN6 && rail->len == sizeof(struct sockaddr_in6))
        return FORM_IN6;
    return FORM_RAW;
}

static size_t raw_len(const struct mrail_addr_rail *rail)
{
    size_t len = rail->len;

    while (len && !rail->addr[len - 1])
        len--;
    return len;
}

static size_t packed_len(const struct mrail_addr_rail *rail)
{
    switch (form_of(rail)) {
    case FORM_IN: return IN_SIZE;
    case FORM_IN6: return IN6_SIZE;
    default: return raw_len(rail);
    }
}

static void put_rail(const struct mrail_addr_rail *rail, unsigned char *to)
{
    enum form form = form_of(rail);

    to[0] = (unsigned char)rail->kind;
    to[1] = (unsigned char)(rail->kind >> 8);
    to[2] = (unsigned char)(form == FORM_RAW ? form | packed_len(rail) : form);
    to += RAIL_HEAD;
    if (form == FORM_IN)
        put_in(rail, to);
    else if (form == FORM_IN6)
        put_in6(rail, to);
    else
        memcpy(to, rail->addr, raw_len(rail));
}

int mrail_addr_encode(const struct mrail_addr *addr, unsigned char *raw, size_t size)
{
    size_t at = HEAD;

    if (addr->packet > MRAIL_PACKET_MAX)
        return -FI_EINVAL;
    memset(raw, 0, size);
    raw[0] = MRAIL_ADDR_VERSION;
    raw[2] = (unsigned char)addr->count;
    for (int i = 0; i < 3; i++)
        raw[3 + i] = (unsigned char)(addr->packet >> 8 * i);
    for (size_t i = 0; i < addr->count; i++) {
        size_t len = packed_len(&addr->rail[i]);

        if (!len || len > size - at || size - at - len < RAIL_HEAD)
            return -FI_EINVAL;
        put_rail(&addr->rail[i], raw + at);
        at += RAIL_HEAD + len;
    }
    raw[1] = sum_of(raw, size);
    return 0;
}

/* ---- Reading ---- */

/* Says why, and is -FI_EINVAL. */
#define FAIL(why, size, ...) (snprintf(why, size, __VA_ARGS__), -FI_EINVAL)

static void get_in(const unsigned char *from, struct mrail_addr_rail *rail)
{
    struct sockaddr_in in = {.sin_family = AF_INET};

    memcpy(&in.sin_port, from, 2);
    memcpy(&in.sin_addr, from + 2, 4);
    memcpy(rail->addr, &in, sizeof(in));
    rail->format = FI_SOCKADDR_IN;
    rail->len = sizeof(in);
}

static void get_in6(const unsigned char *from, struct mrail_addr_rail *rail)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    uint32_t scope;

    memcpy(&in6.sin6_port, from, 2);
    memcpy(&in6.sin6_addr, from + 2, 16);
    memcpy(&scope, from + 18, 4);
    in6.sin6_scope_id = ntohl(scope);
    memcpy(rail->addr, &in6, sizeof(in6));
    rail->format = FI_SOCKADDR_IN6;
    rail->len = sizeof(in6);
}

/* Bytes that one of that form has, perhaps none. */
static size_t len_of(unsigned char form)
{
    switch (form) {
    case FORM_IN: return IN_SIZE;
    case FORM_IN6: return IN6_SIZE;
    default: return form & FORM_RAW ? form & ~FORM_RAW : 0;
    }
}

/* len bytes of that form, which there are. False: no address. */
static bool get_rail(unsigned char form, const unsigned char *from, size_t len,
                     struct mrail_addr_rail *rail)
{
    memset(rail->addr, 0, sizeof(rail->addr));
    if (form == FORM_IN) {
        get_in(from, rail);
    } else if (form == FORM_IN6) {
        get_in6(from, rail);
    } else {
        if (!len || len >= sizeof(rail->addr) || !from[len - 1])
            return false;
        memcpy(rail->addr, from, len);
        rail->format = FI_FORMAT_UNSPEC;
        rail->len = sizeof(rail->addr);
    }
    return true;
}

static int get_rails(const unsigned char *raw, size_t size, struct mrail_addr *addr, char *why,
                     size_t why_size)
{
    size_t at = HEAD;

    for (size_t i = 0; i < addr->count; i++) {
        struct mrail_addr_rail *rail = &addr->rail[i];
        size_t len;

        if (size - at < RAIL_HEAD || len_of(raw[at + 2]) > size - at - RAIL_HEAD)
            return FAIL(why, why_size, "rail %zu of %zu is cut short", i + 1, addr->count);
        len = len_of(raw[at + 2]);
        rail->kind = (uint16_t)(raw[at] | raw[at + 1] << 8);
        if (!rail->kind || !get_rail(raw[at + 2], raw + at + RAIL_HEAD, len, rail))
            return FAIL(why, why_size, "the address on rail %zu is none", i + 1);
        at += RAIL_HEAD + len;
    }
    for (; at < size; at++) {
        if (raw[at])
            return FAIL(why, why_size, "there is something behind the rails");
    }
    return 0;
}

int mrail_addr_decode(const unsigned char *raw, size_t size, struct mrail_addr *addr, char *why,
                      size_t why_size)
{
    if (size < MRAIL_ADDR_MIN)
        return FAIL(why, why_size, "%zu bytes are no address", size);
    if (raw[0] != MRAIL_ADDR_VERSION)
        return FAIL(why, why_size, "version %u, and this library speaks %d", raw[0],
                    MRAIL_ADDR_VERSION);
    if (size > MRAIL_ADDR_MAX || (size - MRAIL_ADDR_MIN) % MRAIL_ADDR_STEP)
        return FAIL(why, why_size, "%zu bytes are no address", size);
    if (raw[1] != sum_of(raw, size))
        return FAIL(why, why_size, "its check sum is wrong");
    addr->count = raw[2];
    addr->packet = 0;
    for (int i = 0; i < 3; i++)
        addr->packet |= (uint32_t)raw[3 + i] << 8 * i;
    if (!addr->count || addr->count > MRAIL_RAILS || !addr->packet)
        return FAIL(why, why_size, "%zu rails, with packets of %u bytes", addr->count,
                    addr->packet);
    return get_rails(raw, size, addr, why, why_size);
}

const struct mrail_addr_rail *mrail_addr_meets(const struct mrail_addr *addr, const uint16_t *kinds,
                                               size_t index)
{
    size_t before = 0;

    for (size_t i = 0; i < index; i++)
        before += kinds[i] == kinds[index];
    for (size_t i = 0; i < addr->count; i++) {
        if (addr->rail[i].kind == kinds[index] && !before--)
            return &addr->rail[i];
    }
    return NULL;
}
