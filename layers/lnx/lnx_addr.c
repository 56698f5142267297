/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_addr.h"

#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "layers/lnx/lnx_text.h"

enum {
    HEAD = 3,
    BRANCH_HEAD = 3,
    TOKEN_BITS = 5,
    IN_SIZE = 6,
    IN6_SIZE = 18,
    SCOPE_SIZE = 4,
};

enum form {
    FORM_IN,
    FORM_IN6,
    FORM_TEXT,
    FORM_RAW,
    FORM_IN6_SCOPE,
    FORM_EFA,
    FORM_EFA_WIDE,
};

/* An address of EFA: a GID, the number of a queue pair, 2 zeros, its key, 8 zeros. */
enum {
    EFA_SIZE = 32,
    EFA_GID = 16,
    EFA_HOST = 8, /* in the GID, behind the prefix of a link */
    EFA_QPN = 16,
    EFA_KEY = 20,
    EFA_NUMBERS = 6, /* bytes of both */
};

static const unsigned char link_prefix[EFA_HOST] = {0xfe, 0x80};

uint16_t lnx_addr_kind(const struct fi_info *branch)
{
    const uint64_t mix = 0x9e3779b97f4a7c15ull;
    uint64_t hash = branch->ep_attr->protocol * mix;

    hash = (hash ^ hash >> 32 ^ branch->addr_format) * mix;
    return hash >> 48 ? (uint16_t)(hash >> 48) : 1;
}

size_t lnx_addr_size(size_t branches)
{
    return LNX_ADDR_TWO + (branches > 2 ? branches - 2 : 0) * LNX_ADDR_MORE;
}

/* ---- Writing ---- */

struct room {
    unsigned char *at;
    size_t left;
};

static size_t put_in(const struct sockaddr_in *in, unsigned char *to)
{
    memcpy(to, &in->sin_port, 2);
    memcpy(to + 2, &in->sin_addr, 4);
    return IN_SIZE;
}

static size_t put_in6(const struct sockaddr_in6 *in6, unsigned char *to, size_t room)
{
    uint32_t scope = htonl(in6->sin6_scope_id);
    size_t size = IN6_SIZE + (scope ? SCOPE_SIZE : 0);

    if (room < size)
        return 0;
    memcpy(to, &in6->sin6_port, 2);
    memcpy(to + 2, &in6->sin6_addr, 16);
    memcpy(to + IN6_SIZE, &scope, size - IN6_SIZE);
    return size;
}

static bool has_scope(const void *in6)
{
    return ((const struct sockaddr_in6 *)in6)->sin6_scope_id;
}

static bool is_zero(const unsigned char *bytes, size_t len)
{
    while (len && !bytes[len - 1])
        len--;
    return !len;
}

static enum form efa_form_of(const struct lnx_addr_branch *branch)
{
    const unsigned char *addr = branch->addr;

    if (branch->len != EFA_SIZE || !is_zero(addr + EFA_QPN + 2, 2) ||
        !is_zero(addr + EFA_KEY + 4, EFA_SIZE - EFA_KEY - 4))
        return FORM_RAW;
    return memcmp(addr, link_prefix, sizeof(link_prefix)) ? FORM_EFA_WIDE : FORM_EFA;
}

static size_t put_efa(const unsigned char *addr, size_t from, unsigned char *to, size_t room)
{
    size_t gid = EFA_GID - from;

    if (room < gid + EFA_NUMBERS)
        return 0;
    memcpy(to, addr + from, gid);
    memcpy(to + gid, addr + EFA_QPN, 2);
    memcpy(to + gid + 2, addr + EFA_KEY, 4);
    return gid + EFA_NUMBERS;
}

static enum form form_of(const struct lnx_addr_branch *branch)
{
    switch (branch->format) {
    case FI_SOCKADDR_IN: return FORM_IN;
    case FI_SOCKADDR_IN6: return has_scope(branch->addr) ? FORM_IN6_SCOPE : FORM_IN6;
    case FI_ADDR_STR: return FORM_TEXT;
    case FI_ADDR_EFA: return efa_form_of(branch);
    default: return FORM_RAW;
    }
}

/* The address behind what precedes it; 0: there is no room. */
static size_t put_addr(const struct lnx_addr_branch *branch, enum form form, unsigned char *to,
                       size_t room)
{
    switch (form) {
    case FORM_IN: return room < IN_SIZE ? 0 : put_in((const void *)branch->addr, to);
    case FORM_IN6:
    case FORM_IN6_SCOPE: return put_in6((const void *)branch->addr, to, room);
    case FORM_TEXT: return lnx_text_pack((const char *)branch->addr, to, room);
    case FORM_EFA:
    case FORM_EFA_WIDE: return put_efa(branch->addr, form == FORM_EFA ? EFA_HOST : 0, to, room);
    default: break;
    }
    if (branch->len >= LNX_BRANCH_ADDR_MAX || room < branch->len + 1)
        return 0;
    *to = (unsigned char)branch->len;
    memcpy(to + 1, branch->addr, branch->len);
    return branch->len + 1;
}

static bool put_branch(const struct lnx_addr_branch *branch, struct room *room)
{
    size_t head = BRANCH_HEAD + branch->reach.len, len;
    enum form form = form_of(branch);

    if (!branch->len || branch->reach.len > REACH_MAX || room->left < head)
        return false;
    len = put_addr(branch, form, room->at + head, room->left - head);
    if (!len)
        return false;
    room->at[0] = (unsigned char)branch->kind;
    room->at[1] = (unsigned char)(branch->kind >> 8);
    room->at[2] = (unsigned char)(form << TOKEN_BITS | branch->reach.len);
    memcpy(room->at + BRANCH_HEAD, branch->reach.token, branch->reach.len);
    room->at += head + len;
    room->left -= head + len;
    return true;
}

static unsigned char sum_of(const unsigned char *raw, size_t size)
{
    unsigned sum = (unsigned)size;

    for (size_t i = 0; i < size; i++)
        sum += i == 1 ? 0 : raw[i];
    return (unsigned char)sum;
}

size_t lnx_addr_encode(const struct lnx_addr *addr, unsigned char *raw, size_t size)
{
    struct room room = {raw + HEAD, size - HEAD};
    size_t count = 0;

    memset(raw, 0, size);
    for (size_t i = 0; i < addr->count; i++)
        count += put_branch(&addr->branch[i], &room);
    memset(room.at, 0, room.left);
    raw[0] = LNX_ADDR_VERSION;
    raw[2] = (unsigned char)count;
    raw[1] = sum_of(raw, size);
    return count;
}

size_t lnx_addr_pack(const struct lnx_addr_branch *branch, unsigned char *to, size_t room)
{
    enum form form = form_of(branch);
    size_t len = branch->len && room ? put_addr(branch, form, to + 1, room - 1) : 0;

    if (!len)
        return 0;
    *to = (unsigned char)form;
    return len + 1;
}

/* ---- Reading ---- */

static int fail(char *why, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static int fail(char *why, size_t size, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, size, fmt, args);
    va_end(args);
    return -FI_EINVAL;
}

static size_t get_in(const unsigned char *from, struct lnx_addr_branch *branch)
{
    struct sockaddr_in in = {.sin_family = AF_INET};

    memcpy(&in.sin_port, from, 2);
    memcpy(&in.sin_addr, from + 2, 4);
    memcpy(branch->addr, &in, sizeof(in));
    branch->format = FI_SOCKADDR_IN;
    branch->len = sizeof(in);
    return IN_SIZE;
}

static size_t get_in6(const unsigned char *from, size_t left, bool scoped,
                      struct lnx_addr_branch *branch)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    size_t size = IN6_SIZE + (scoped ? SCOPE_SIZE : 0);
    uint32_t scope = 0;

    if (left < size)
        return 0;
    memcpy(&in6.sin6_port, from, 2);
    memcpy(&in6.sin6_addr, from + 2, 16);
    memcpy(&scope, from + IN6_SIZE, size - IN6_SIZE);
    in6.sin6_scope_id = ntohl(scope);
    memcpy(branch->addr, &in6, sizeof(in6));
    branch->format = FI_SOCKADDR_IN6;
    branch->len = sizeof(in6);
    return size;
}

static size_t get_text(const unsigned char *from, size_t left, struct lnx_addr_branch *branch)
{
    size_t used = lnx_text_unpack(from, left, (char *)branch->addr, sizeof(branch->addr));

    branch->format = FI_ADDR_STR;
    branch->len = used ? strlen((char *)branch->addr) + 1 : 0;
    return used;
}

static size_t get_efa(const unsigned char *from, size_t left, bool wide,
                      struct lnx_addr_branch *branch)
{
    size_t start = wide ? 0 : EFA_HOST, gid = EFA_GID - start;

    if (left < gid + EFA_NUMBERS)
        return 0;
    memset(branch->addr, 0, EFA_SIZE);
    memcpy(branch->addr, link_prefix, sizeof(link_prefix));
    memcpy(branch->addr + start, from, gid);
    memcpy(branch->addr + EFA_QPN, from + gid, 2);
    memcpy(branch->addr + EFA_KEY, from + gid + 2, 4);
    branch->format = FI_ADDR_EFA;
    branch->len = EFA_SIZE;
    return gid + EFA_NUMBERS;
}

static size_t get_raw(const unsigned char *from, size_t left, struct lnx_addr_branch *branch)
{
    size_t len = left ? from[0] : 0;

    if (!len || len >= left)
        return 0;
    memcpy(branch->addr, from + 1, len);
    branch->format = FI_FORMAT_UNSPEC;
    branch->len = len;
    return len + 1;
}

/* Bytes of the address; 0: there is none. */
static size_t get_addr(const unsigned char *from, size_t left, enum form form,
                       struct lnx_addr_branch *branch)
{
    switch (form) {
    case FORM_IN: return left < IN_SIZE ? 0 : get_in(from, branch);
    case FORM_IN6:
    case FORM_IN6_SCOPE: return get_in6(from, left, form == FORM_IN6_SCOPE, branch);
    case FORM_TEXT: return get_text(from, left, branch);
    case FORM_RAW: return get_raw(from, left, branch);
    case FORM_EFA:
    case FORM_EFA_WIDE: return get_efa(from, left, form == FORM_EFA_WIDE, branch);
    default: return 0;
    }
}

/* Bytes of the branch; 0: it is cut short, or none. */
static size_t get_branch(const unsigned char *from, size_t left, struct lnx_addr_branch *branch)
{
    size_t head, len;

    if (left < BRANCH_HEAD)
        return 0;
    branch->kind = (uint16_t)(from[0] | from[1] << 8);
    branch->reach.len = from[2] & ((1u << TOKEN_BITS) - 1);
    head = BRANCH_HEAD + branch->reach.len;
    if (!branch->kind || branch->reach.len > REACH_MAX || left < head)
        return 0;
    memcpy(branch->reach.token, from + BRANCH_HEAD, branch->reach.len);
    len = get_addr(from + head, left - head, (enum form)(from[2] >> TOKEN_BITS), branch);
    return len ? head + len : 0;
}

bool lnx_addr_unpack(const unsigned char *from, size_t len, struct lnx_addr_branch *branch)
{
    return len && get_addr(from + 1, len - 1, (enum form)from[0], branch) == len - 1 && len > 1;
}

int lnx_addr_decode(const unsigned char *raw, size_t size, struct lnx_addr *addr, char *why,
                    size_t why_size)
{
    size_t at = HEAD;

    addr->count = 0;
    if (size < HEAD)
        return fail(why, why_size, "it has %zu bytes, which is cut short", size);
    if (raw[0] != LNX_ADDR_VERSION)
        return fail(why, why_size, "it is of version %u, not %u", raw[0], LNX_ADDR_VERSION);
    if (!raw[2] || raw[2] > LNX_BRANCHES)
        return fail(why, why_size, "it has %u branches, not 1 to %u", raw[2], LNX_BRANCHES);
    if (raw[1] != sum_of(raw, size))
        return fail(why, why_size, "its check sum is wrong: it is cut short, or no address of lnx");
    for (unsigned i = 0; i < raw[2]; i++) {
        size_t len = get_branch(raw + at, size - at, &addr->branch[i]);

        if (!len)
            return fail(why, why_size, "branch %u of it is cut short, or no address", i + 1);
        at += len;
    }
    for (size_t i = at; i < size; i++) {
        if (raw[i])
            return fail(why, why_size, "behind its last branch is more");
    }
    addr->count = raw[2];
    return 0;
}
