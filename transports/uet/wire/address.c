/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/wire/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transports/uet/wire/bytes.h"

enum {
    MAGIC = 0x55,
    VERSION = 1,
    HOST = 16, /* offset of the IP address */
    ID_MAX = 0xfff,
};

static const char scheme[] = "fi_addr_uet://";

static bool is_ipv6(const struct uet_address *address)
{
    return address->host.sa.sa_family == AF_INET6;
}

void uet_address_put(const struct uet_address *address, uint8_t bytes[UET_ADDRESS_SIZE])
{
    memset(bytes, 0, UET_ADDRESS_SIZE);
    bytes[0] = MAGIC;
    bytes[1] = VERSION;
    bytes[2] = (uint8_t)((address->flags & ~UET_IPV6) | (is_ipv6(address) ? UET_IPV6 : 0));
    bytes[3] = address->caps;
    put16(bytes + 4, addr_port(&address->host.sa));
    put16(bytes + 6, address->pid);
    put16(bytes + 8, address->index);
    bytes[10] = address->generation;
    bytes[11] = address->index_count;
    put32(bytes + 12, address->initiator);
    if (is_ipv6(address))
        memcpy(bytes + HOST, &address->host.in6.sin6_addr, 16);
    else
        memcpy(bytes + HOST, &address->host.in.sin_addr, 4);
}

static void get_host(const uint8_t *bytes, struct uet_address *address)
{
    if (address->flags & UET_IPV6) {
        address->host.sa.sa_family = AF_INET6;
        memcpy(&address->host.in6.sin6_addr, bytes + HOST, 16);
    } else {
        address->host.sa.sa_family = AF_INET;
        memcpy(&address->host.in.sin_addr, bytes + HOST, 4);
    }
    addr_set_port(&address->host.sa, get16(bytes + 4));
}

/* Does it lead anywhere? */
static bool is_whole(const struct uet_address *address)
{
    return address->flags & UET_HAS_HOST && address->pid <= ID_MAX && address->index <= ID_MAX &&
           addr_port(&address->host.sa) && !addr_is_any(&address->host.sa);
}

bool uet_address_get(const uint8_t bytes[UET_ADDRESS_SIZE], struct uet_address *address)
{
    *address = (struct uet_address){
        .flags = bytes[2],
        .caps = bytes[3],
        .pid = get16(bytes + 6),
        .index = get16(bytes + 8),
        .generation = bytes[10],
        .index_count = bytes[11],
        .initiator = get32(bytes + 12),
    };
    if (bytes[0] != MAGIC || bytes[1] != VERSION)
        return false;
    get_host(bytes, address);
    return is_whole(address);
}

/* ---- Text ---- */

static void print_host(const struct uet_address *address, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "", port[8] = "";
    const void *bytes = is_ipv6(address) ? (const void *)&address->host.in6.sin6_addr
                                         : (const void *)&address->host.in.sin_addr;

    inet_ntop(address->host.sa.sa_family, bytes, host, sizeof(host));
    if (addr_port(&address->host.sa) != UET_PORT)
        snprintf(port, sizeof(port), ":%u", addr_port(&address->host.sa));
    snprintf(text, size, is_ipv6(address) ? "[%s]%s" : "%s%s", host, port);
}

size_t uet_address_print(const struct uet_address *address, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN + 16], generation[8] = "";
    int len;

    print_host(address, host, sizeof(host));
    if (address->generation)
        snprintf(generation, sizeof(generation), "/%u", address->generation);
    len = snprintf(text, size, "%s%s/%u/%u/%u%s", scheme, host, address->pid, address->index,
                   address->initiator, generation);
    return len < 0 ? 0 : (size_t)len;
}

/* A number up to the character `end`; *text is moved behind that. */
static bool parse_number(const char **text, char end, unsigned long max, unsigned long *number)
{
    char *stop;

    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *number = strtoul(*text, &stop, 10);
    if (errno || *stop != end || *number > max)
        return false;
    *text = stop + (end != '\0');
    return true;
}

/* "192.0.2.1", "192.0.2.1:7", "[::1]", "[::1]:7". */
static bool parse_host(char *text, union addr *host)
{
    unsigned long port = UET_PORT;
    char *colon;

    memset(host, 0, sizeof(*host));
    if (text[0] == '[') {
        char *end = strchr(text, ']');

        if (!end || (end[1] && end[1] != ':'))
            return false;
        colon = end[1] ? end + 1 : NULL;
        *end = '\0';
        text++;
        host->sa.sa_family = AF_INET6;
    } else {
        colon = strchr(text, ':');
        host->sa.sa_family = AF_INET;
    }
    if (colon) {
        const char *number = colon + 1;

        *colon = '\0';
        if (!parse_number(&number, '\0', UINT16_MAX, &port))
            return false;
    }
    addr_set_port(&host->sa, (uint16_t)port);
    return inet_pton(host->sa.sa_family, text,
                     host->sa.sa_family == AF_INET6 ? (void *)&host->in6.sin6_addr
                                                    : (void *)&host->in.sin_addr) == 1;
}

bool uet_address_parse(const char *text, struct uet_address *address)
{
    unsigned long pid, index, initiator, generation = 0;
    char host[INET6_ADDRSTRLEN + 16];
    const char *end;

    if (strncmp(text, scheme, sizeof(scheme) - 1) != 0)
        return false;
    text += sizeof(scheme) - 1;
    end = strchr(text, '/');
    if (!end || (size_t)(end - text) >= sizeof(host))
        return false;
    memcpy(host, text, (size_t)(end - text));
    host[end - text] = '\0';
    *address = (struct uet_address){
        .flags = UET_HAS_HOST | UET_HAS_PID | UET_HAS_INDEX | UET_HAS_INITIATOR,
        .index_count = 1,
    };
    end++;
    if (!parse_host(host, &address->host) || !parse_number(&end, '/', ID_MAX, &pid) ||
        !parse_number(&end, '/', ID_MAX, &index) ||
        !(strchr(end, '/') ? parse_number(&end, '/', UINT32_MAX, &initiator) &&
                                 parse_number(&end, '\0', UINT8_MAX, &generation)
                           : parse_number(&end, '\0', UINT32_MAX, &initiator)))
        return false;
    address->pid = (uint16_t)pid;
    address->index = (uint16_t)index;
    address->initiator = (uint32_t)initiator;
    address->generation = (uint8_t)generation;
    return is_whole(address);
}
