/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socket addresses and their text: FI_SOCKADDR_IN, FI_SOCKADDR_IN6, and FI_ADDR_STR in the forms
 * "fi_sockaddr_in://1.2.3.4:80", "fi_sockaddr_in6://[::1]:80" (fi_getinfo(3), fi_av(3)).
 */
#ifndef WEFT_CORE_NET_ADDR_H
#define WEFT_CORE_NET_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Large enough for either family. */
union addr {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

#define ADDR_TEXT_MAX 80 /* any text of this room, with its 0 */

enum {
    ADDR_OWN_MAX = 240 /* bytes of a form that only a part reads */
};

/* An entry of an address vector of any format. */
union addr_raw {
    union addr addr;
    char text[ADDR_TEXT_MAX];
    uint8_t own[ADDR_OWN_MAX];
};

/* Bytes of a family's or format's sockaddr; 0 when unknown. */
socklen_t addr_size(const struct sockaddr *sa);
uint32_t addr_format(const struct sockaddr *sa); /* FI_SOCKADDR_IN or FI_SOCKADDR_IN6; 0 */

/* Same family, address, port (and scope). */
bool addr_equal(const struct sockaddr *a, const struct sockaddr *b);
/* The same, whatever the ports. */
bool addr_same_host(const struct sockaddr *a, const struct sockaddr *b);
uint64_t addr_hash(const struct sockaddr *sa);
/* <0, 0, >0: by address bytes, then port, both in network order, unsigned. IPv4 before IPv6. */
int addr_compare(const struct sockaddr *a, const struct sockaddr *b);
uint16_t addr_port(const struct sockaddr *sa);
void addr_set_port(struct sockaddr *sa, uint16_t port);
bool addr_is_any(const struct sockaddr *sa);
bool addr_is_loopback(const struct sockaddr *sa);
static inline bool addr_is_link_local(const union addr *addr)
{
    return addr->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&addr->in6.sin6_addr);
}

/* "10.0.0.1:7471", "[fe80::1%2]:7471". Returns text. */
char *addr_text(const struct sockaddr *sa, char *text, size_t size);
/* "fi_sockaddr_in://10.0.0.1:7471". Returns the length without its 0. */
size_t addr_to_str(const struct sockaddr *sa, char *text, size_t size);
/* From either the FI_ADDR_STR form or plain "host:port" numbers. -FI_EINVAL. */
int addr_from_str(const char *text, size_t len, union addr *addr);

/*
 * An address of an fi_info or AV call, in `format` (FI_FORMAT_UNSPEC, FI_SOCKADDR, _IN,
 * _IN6, _IP, FI_ADDR_STR), checked:
 * length, family, termination. -FI_EINVAL.
 */
int addr_import(uint32_t format, const void *raw, size_t len, union addr *addr);

/* The other direction, a copy for fi_getname and its kin: -FI_ETOOSMALL, with the needed length in
 * *len. A text has its 0. */
int addr_export(uint32_t format, const struct sockaddr *addr, void *raw, size_t *len);

/*
 * Resolves node and service (names or numbers; node may be an FI_ADDR_STR) for `format`
 * (FI_FORMAT_UNSPEC, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_ADDR_STR). FI_NUMERICHOST in
 * flags forbids the resolver; FI_SOURCE makes no node the any address. Fills at most *count
 * addresses and sets it. why gets a sentence on failure ("cannot resolve 'nosuch': Name or service
 * not known"). -FI_ENODATA. May block in the resolver.
 */
int addr_resolve(const char *node, const char *service, uint64_t flags, uint32_t format,
                 union addr *addrs, size_t *count, char *why, size_t why_size);

#endif
