/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

static const struct sockaddr_in *as_in(const struct sockaddr *sa)
{
    return (const struct sockaddr_in *)(const void *)sa;
}

static const struct sockaddr_in6 *as_in6(const struct sockaddr *sa)
{
    return (const struct sockaddr_in6 *)(const void *)sa;
}

socklen_t addr_size(const struct sockaddr *sa)
{
    switch (sa->sa_family) {
    case AF_INET: return sizeof(struct sockaddr_in);
    case AF_INET6: return sizeof(struct sockaddr_in6);
    default: return 0;
    }
}

uint32_t addr_format(const struct sockaddr *sa)
{
    switch (sa->sa_family) {
    case AF_INET: return FI_SOCKADDR_IN;
    case AF_INET6: return FI_SOCKADDR_IN6;
    default: return FI_FORMAT_UNSPEC;
    }
}

bool addr_equal(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    switch (a->sa_family) {
    case AF_INET:
        return as_in(a)->sin_addr.s_addr == as_in(b)->sin_addr.s_addr &&
               as_in(a)->sin_port == as_in(b)->sin_port;
    case AF_INET6:
        return as_in6(a)->sin6_port == as_in6(b)->sin6_port &&
               as_in6(a)->sin6_scope_id == as_in6(b)->sin6_scope_id &&
               !memcmp(&as_in6(a)->sin6_addr, &as_in6(b)->sin6_addr, sizeof(struct in6_addr));
    default: return false;
    }
}

/* The finalizer of MurmurHash3: every input bit reaches every output bit. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
}

uint64_t addr_hash(const struct sockaddr *sa)
{
    uint64_t high, low;

    switch (sa->sa_family) {
    case AF_INET: return mix((uint64_t)as_in(sa)->sin_addr.s_addr << 16 | as_in(sa)->sin_port);
    case AF_INET6:
        memcpy(&high, &as_in6(sa)->sin6_addr, 8);
        memcpy(&low, (const char *)&as_in6(sa)->sin6_addr + 8, 8);
        return mix(mix(high ^ as_in6(sa)->sin6_port) ^ low ^
                   (uint64_t)as_in6(sa)->sin6_scope_id << 32);
    default: return 0;
    }
}

int addr_compare(const struct sockaddr *a, const struct sockaddr *b)
{
    uint16_t port_a, port_b;
    int order;

    if (a->sa_family != b->sa_family)
        return a->sa_family == AF_INET ? -1 : 1;
    if (a->sa_family == AF_INET)
        order = memcmp(&as_in(a)->sin_addr, &as_in(b)->sin_addr, sizeof(struct in_addr));
    else
        order = memcmp(&as_in6(a)->sin6_addr, &as_in6(b)->sin6_addr, sizeof(struct in6_addr));
    if (order)
        return order;
    port_a = addr_port(a);
    port_b = addr_port(b);
    return (port_a > port_b) - (port_a < port_b);
}

uint16_t addr_port(const struct sockaddr *sa)
{
    switch (sa->sa_family) {
    case AF_INET: return ntohs(as_in(sa)->sin_port);
    case AF_INET6: return ntohs(as_in6(sa)->sin6_port);
    default: return 0;
    }
}

void addr_set_port(struct sockaddr *sa, uint16_t port)
{
    if (sa->sa_family == AF_INET)
        ((struct sockaddr_in *)(void *)sa)->sin_port = htons(port);
    else if (sa->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)sa)->sin6_port = htons(port);
}

bool addr_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    union addr left = {.sa = {.sa_family = AF_UNSPEC}}, right = left;

    memcpy(&left, a, addr_size(a));
    memcpy(&right, b, addr_size(b));
    addr_set_port(&left.sa, 0);
    addr_set_port(&right.sa, 0);
    return addr_equal(&left.sa, &right.sa);
}

bool addr_is_any(const struct sockaddr *sa)
{
    switch (sa->sa_family) {
    case AF_INET: return as_in(sa)->sin_addr.s_addr == htonl(INADDR_ANY);
    case AF_INET6: return IN6_IS_ADDR_UNSPECIFIED(&as_in6(sa)->sin6_addr);
    default: return false;
    }
}

bool addr_is_loopback(const struct sockaddr *sa)
{
    switch (sa->sa_family) {
    case AF_INET: return ntohl(as_in(sa)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    case AF_INET6: return IN6_IS_ADDR_LOOPBACK(&as_in6(sa)->sin6_addr);
    default: return false;
    }
}

char *addr_text(const struct sockaddr *sa, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?", scope[16] = "";

    if (sa->sa_family == AF_INET) {
        inet_ntop(AF_INET, &as_in(sa)->sin_addr, host, sizeof(host));
        snprintf(text, size, "%s:%u", host, addr_port(sa));
    } else if (sa->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &as_in6(sa)->sin6_addr, host, sizeof(host));
        if (as_in6(sa)->sin6_scope_id)
            snprintf(scope, sizeof(scope), "%%%u", as_in6(sa)->sin6_scope_id);
        snprintf(text, size, "[%s%s]:%u", host, scope, addr_port(sa));
    } else {
        snprintf(text, size, "address family %d", sa->sa_family);
    }
    return text;
}

size_t addr_to_str(const struct sockaddr *sa, char *text, size_t size)
{
    const char *scheme = sa->sa_family == AF_INET6 ? "fi_sockaddr_in6" : "fi_sockaddr_in";
    char plain[ADDR_TEXT_MAX];
    int len = snprintf(text, size, "%s://%s", scheme, addr_text(sa, plain, sizeof(plain)));

    return len < 0 ? 0 : (size_t)len;
}

/* The family that a scheme allows: AF_UNSPEC either, -1 not one of ours. */
static int scheme_family(const char *scheme, size_t len)
{
    static const struct {
        const char *name;
        int family;
    } schemes[] = {
        {"fi_sockaddr", AF_UNSPEC},
        {"fi_sockaddr_ip", AF_UNSPEC},
        {"fi_sockaddr_in", AF_INET},
        {"fi_sockaddr_in6", AF_INET6},
    };

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strlen(schemes[i].name) == len && !strncmp(schemes[i].name, scheme, len))
            return schemes[i].family;
    return -1;
}

/* "1.2.3.4", "::1", "fe80::1%eth0", "fe80::1%2" without brackets; "" is any address of `family`. */
static int parse_host(char *host, int family, union addr *addr)
{
    char *scope = strchr(host, '%');

    memset(addr, 0, sizeof(*addr));
    if (!*host || (!scope && inet_pton(AF_INET, host, &addr->in.sin_addr) == 1)) {
        addr->sa.sa_family = *host || family == AF_UNSPEC ? AF_INET : (sa_family_t)family;
        return 0;
    }
    if (scope)
        *scope++ = '\0';
    if (inet_pton(AF_INET6, host, &addr->in6.sin6_addr) != 1)
        return -FI_EINVAL;
    addr->sa.sa_family = AF_INET6;
    if (scope) {
        addr->in6.sin6_scope_id = if_nametoindex(scope);
        if (!addr->in6.sin6_scope_id)
            addr->in6.sin6_scope_id = (uint32_t)strtoul(scope, NULL, 10);
        if (!addr->in6.sin6_scope_id)
            return -FI_EINVAL;
    }
    return 0;
}

static int parse_port(const char *text, uint16_t *port)
{
    char *end;
    unsigned long value;

    if (*text < '0' || *text > '9')
        return -FI_EINVAL;
    value = strtoul(text, &end, 10);
    if (*end || value > UINT16_MAX)
        return -FI_EINVAL;
    *port = (uint16_t)value;
    return 0;
}

/* Cuts "host:port" or "[host]:port" in two, in place; the port may be absent ("0"). */
static int split_port(char *text, char **host, const char **port)
{
    char *end = *text == '[' ? strchr(text, ']') : strchr(text, ':');

    *host = *text == '[' ? text + 1 : text;
    *port = "0";
    if (*text == '[') {
        if (!end || (end[1] && end[1] != ':'))
            return -FI_EINVAL;
        if (end[1])
            *port = end + 2;
    } else if (!end) {
        return 0;
    } else if (strchr(end + 1, ':')) { /* a bare IPv6 address */
        return 0;
    } else {
        *port = end + 1;
    }
    *end = '\0';
    return 0;
}

int addr_from_str(const char *text, size_t len, union addr *addr)
{
    char copy[128], *host, *rest;
    const char *port_text;
    int family = AF_UNSPEC;
    union addr parsed;
    uint16_t port;

    len = strnlen(text, len);
    if (!len || len >= sizeof(copy))
        return -FI_EINVAL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    rest = strstr(copy, "://");
    if (rest) {
        family = scheme_family(copy, (size_t)(rest - copy));
        rest += 3;
        /* Further fields and key=value pairs belong to other providers. */
        rest[strcspn(rest, "/?")] = '\0';
    } else {
        rest = copy;
    }
    if (family < 0 || split_port(rest, &host, &port_text) || parse_port(port_text, &port) ||
        parse_host(host, family, &parsed))
        return -FI_EINVAL;
    if (family != AF_UNSPEC && parsed.sa.sa_family != family)
        return -FI_EINVAL;
    addr_set_port(&parsed.sa, port);
    *addr = parsed;
    return 0;
}

static bool format_takes(uint32_t format, sa_family_t family)
{
    switch (format) {
    case FI_SOCKADDR_IN: return family == AF_INET;
    case FI_SOCKADDR_IN6: return family == AF_INET6;
    case FI_FORMAT_UNSPEC:
    case FI_SOCKADDR:
    case FI_SOCKADDR_IP:
    case FI_ADDR_STR: return family == AF_INET || family == AF_INET6;
    default: return false;
    }
}

int addr_import(uint32_t format, const void *raw, size_t len, union addr *addr)
{
    union addr copy = {.sa.sa_family = AF_UNSPEC};
    socklen_t size;

    if (!raw)
        return -FI_EINVAL;
    if (format == FI_ADDR_STR)
        return addr_from_str(raw, len, addr);
    if (len < sizeof(sa_family_t))
        return -FI_EINVAL;
    /* No byte behind the address is touched, whatever len says. */
    memcpy(&copy.sa.sa_family, raw, sizeof(sa_family_t));
    size = addr_size(&copy.sa);
    if (!format_takes(format, copy.sa.sa_family) || len < size)
        return -FI_EINVAL;
    memset(addr, 0, sizeof(*addr));
    memcpy(addr, raw, size);
    return 0;
}

static int resolve_str(const char *node, const char *service, uint32_t format, union addr *addrs,
                       size_t *count, char *why, size_t why_size)
{
    if (service) {
        snprintf(why, why_size, "'%s' is a whole address, service must not be given ('%s')", node,
                 service);
        return -FI_ENODATA;
    }
    if (addr_from_str(node, SIZE_MAX, addrs)) {
        snprintf(why, why_size, "'%s' is no address like fi_sockaddr_in://1.2.3.4:80", node);
        return -FI_ENODATA;
    }
    if (!format_takes(format, addrs->sa.sa_family)) {
        snprintf(why, why_size, "'%s' is not of the address format asked for", node);
        return -FI_ENODATA;
    }
    *count = 1;
    return 0;
}

static size_t collect(const struct addrinfo *list, uint32_t format, union addr *addrs, size_t count)
{
    size_t found = 0;

    for (; list && found < count; list = list->ai_next) {
        bool seen = false;

        if (addr_import(format == FI_ADDR_STR ? FI_SOCKADDR : format, list->ai_addr,
                        list->ai_addrlen, &addrs[found]))
            continue;
        for (size_t i = 0; i < found && !seen; i++)
            seen = addr_equal(&addrs[i].sa, &addrs[found].sa);
        found += !seen;
    }
    return found;
}

int addr_resolve(const char *node, const char *service, uint64_t flags, uint32_t format,
                 union addr *addrs, size_t *count, char *why, size_t why_size)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    const char *cause = "it has no address of the format asked for";
    size_t found;
    int rc;

    if (!*count)
        return -FI_EINVAL;
    if (node && strstr(node, "://"))
        return resolve_str(node, service, format, addrs, count, why, why_size);
    if (format == FI_SOCKADDR_IN)
        hints.ai_family = AF_INET;
    else if (format == FI_SOCKADDR_IN6)
        hints.ai_family = AF_INET6;
    if (flags & FI_NUMERICHOST)
        hints.ai_flags |= AI_NUMERICHOST;
    if (flags & FI_SOURCE)
        hints.ai_flags |= AI_PASSIVE;
    if (node && !*node)
        node = NULL;
    rc = getaddrinfo(node, service ? service : "0", &hints, &list);
    if (rc)
        cause = rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc);
    found = rc ? 0 : collect(list, format, addrs, *count);
    if (list)
        freeaddrinfo(list);
    if (!found) {
        snprintf(why, why_size, "cannot resolve '%s%s%s': %s", node ? node : "", service ? ":" : "",
                 service ? service : "", cause);
        return -FI_ENODATA;
    }
    *count = found;
    return 0;
}

int addr_export(uint32_t format, const struct sockaddr *addr, void *raw, size_t *len)
{
    char text[ADDR_TEXT_MAX];
    const void *from = addr;
    size_t size = addr_size(addr), room = *len;

    if (format == FI_ADDR_STR) {
        size = addr_to_str(addr, text, sizeof(text)) + 1;
        from = text;
    }
    *len = size;
    if (room && raw)
        memcpy(raw, from, size < room ? size : room);
    return room < size ? -FI_ETOOSMALL : 0;
}
