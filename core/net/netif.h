/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The node's network interfaces, and the user's choice of them: a list ('|' or ',') of names (with
 * the shell's wildcards), addresses, CIDR blocks ("10.0.0.0/8"), and '!' before any of them to
 * exclude. Unless named, container bridges (docker*, br-*, virbr*, cni*, flannel*, cali*, podman*,
 * lxc*) and link-local addresses of veth* are left out.
 */
#ifndef WEFT_CORE_NET_NETIF_H
#define WEFT_CORE_NET_NETIF_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/net/addr.h"

struct netif {
    char name[IF_NAMESIZE];
    union addr addr;
    unsigned prefix; /* bits of the netmask */
    unsigned index;  /* of the interface */
    bool loopback;
    long speed; /* Mbit/s from /sys, 0 when unknown; loopback counts as slowest */
    int mtu;
};

enum {
    NETIF_FRESH_MS = 100
};

/*
 * The addresses of interfaces that are up, running and chosen, fastest first, loopback last, IPv4
 * before IPv6 on each; IPv6 link-local addresses last of their interface. `choice` may be NULL.
 * *list is freed by the caller with free(). The node's interfaces are read again when they were
 * last read more than NETIF_FRESH_MS ago. -FI_EINVAL (why: the text that does not parse),
 * -FI_ENODATA (why: none is left, of these), -FI_ENOMEM.
 */
int netif_list(const char *choice, struct netif **list, size_t *count, char *why, size_t why_size);

/* The two pure steps of it: keeps what is chosen (in the order given); sorts. */
int netif_filter(const char *choice, struct netif *list, size_t *count, char *why, size_t why_size);
void netif_sort(struct netif *list, size_t count);

/* Network of an address for fabric names: "10.0.0.0/8". Returns text. */
char *netif_network_text(const struct netif *netif, char *text, size_t size);

#endif
