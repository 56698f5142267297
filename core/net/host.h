/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The infos of a transport of IP hosts: one domain for each address of a chosen interface
 * (parameter "iface"), whose network is the fabric's name, in the order in which the kernel would
 * take them for the destinations asked. A source that is a port without a host gets one info for
 * each family instead, whose address is the any address. The transport says which endpoints it has.
 */
#ifndef WEFT_CORE_NET_HOST_H
#define WEFT_CORE_NET_HOST_H

#include "core/net/netif.h"
#include "core/part/part.h"

/* The domain that stands for every interface at once, and its fabric. */
struct host_any {
    const char *fabric, *domain;
    bool longest; /* messages may be as long as any interface takes: the part minds the path */
};

struct host_offer {
    /* Fills all of info but names, addresses, address format and nic. flavour: below `flavours`.
     * False: there is none on this interface, and the ledger of req has the reason. */
    bool (*fill)(struct fi_info *info, const struct request *req, const struct netif *netif,
                 unsigned flavour);
    unsigned flavours;          /* infos for each interface and destination */
    const struct host_any *any; /* NULL: endpoints listen on one interface each */
};

/* `offer` of a part table. */
int host_infos(const struct request *req, const struct host_offer *offer, struct fi_info **info);

/* The name by which peers reach an endpoint that is bound to addr: addr itself, or, where that is
 * the any address, the first chosen interface's that other hosts may know, with addr's port.
 * `choice` as in netif_list. addr and name may be the same. */
void host_name(const char *choice, const union addr *addr, union addr *name);

/* Replaces an address of info in its addr_format (text for FI_ADDR_STR). -FI_ENOMEM. */
int host_set_src(struct fi_info *info, const struct sockaddr *addr);
int host_set_dest(struct fi_info *info, const struct sockaddr *addr);

/* Entries for a part's table of parameters: port ranges for `whom` (text for the help) if the
 * caller names no port. */
#define HOST_PORT_PARAMS(whom)                                                                     \
    {.key = "port_low_range",                                                                      \
     .type = PARAM_INT,                                                                            \
     .default_text = "0",                                                                          \
     .automatic = "any port",                                                                      \
     .max = 65535,                                                                                 \
     .help = "Lowest port of " whom "; 0: any port."},                                             \
    {                                                                                              \
        .key = "port_high_range", .type = PARAM_INT, .default_text = "0", .automatic = "any port", \
        .max = 65535, .help = "Highest port of " whom "."                                          \
    }

/* `agree` of a part table with these: both ends of the range are given, or none. */
bool host_ports_agree(const struct params *params, struct param_conflict *conflict);

/* Binds a socket to addr; where that has no port, to one of the range (low 0: to any).
 * -FI_EADDRINUSE: none of them is free; or a negative errno. */
int host_bind(int fd, const union addr *addr, int low, int high);

#endif
