/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/info/nic.h"

enum {
    ADDRS_MAX = 16, /* of one resolved name */
    WHY_MAX = 1000,
};

/* The addresses that a request asks for. */
struct question {
    const struct request *req;
    const struct host_offer *offer;
    bool text;       /* FI_ADDR_STR */
    bool has_src;    /* src is of use: an address, or a port only */
    bool any_family; /* only the port of src counts */
    bool refused;    /* the transport has said why there is no info for an interface */
    union addr src;
    size_t dest_count;
    union addr dest[ADDRS_MAX];
};

/* ---- Addresses in and out of infos ---- */

static int set_addr(struct fi_info *info, const struct sockaddr *addr,
                    int (*set)(struct fi_info *info, const void *addr, size_t len))
{
    char text[ADDR_TEXT_MAX];

    if (info->addr_format != FI_ADDR_STR)
        return set(info, addr, addr_size(addr));
    return set(info, text, addr_to_str(addr, text, sizeof(text)) + 1);
}

int host_set_src(struct fi_info *info, const struct sockaddr *addr)
{
    return set_addr(info, addr, info_set_src);
}

int host_set_dest(struct fi_info *info, const struct sockaddr *addr)
{
    return set_addr(info, addr, info_set_dest);
}

static struct fid_nic *describe_nic(const struct netif *netif)
{
    struct fid_nic *nic = nic_create();
    char text[INET6_ADDRSTRLEN] = "";
    const void *host = netif->addr.sa.sa_family == AF_INET6
                           ? (const void *)&netif->addr.in6.sin6_addr
                           : (const void *)&netif->addr.in.sin_addr;

    if (!nic)
        return NULL;
    inet_ntop(netif->addr.sa.sa_family, host, text, sizeof(text));
    nic->device_attr->name = strdup(netif->name);
    nic->link_attr->address = strdup(text);
    nic->link_attr->network_type = strdup("Ethernet");
    nic->link_attr->mtu = (size_t)netif->mtu;
    nic->link_attr->speed = (size_t)netif->speed * 1000000;
    nic->link_attr->state = FI_LINK_UP;
    return nic;
}

/* ---- One offer ---- */

static int fill_names(struct fi_info *info, const struct host_any *any, const struct netif *netif)
{
    char text[ADDR_TEXT_MAX];
    const char *network;

    if (addr_is_any(&netif->addr.sa)) {
        network = any->fabric;
    } else {
        network = netif_network_text(netif, text, sizeof(text));
        info->nic = describe_nic(netif);
        if (!info->nic)
            return -FI_ENOMEM;
    }
    return info_set_string(&info->domain_attr->name, netif->name) ||
                   info_set_string(&info->fabric_attr->name, network)
               ? -FI_ENOMEM
               : 0;
}

static int fill_addrs(const struct question *question, const struct netif *netif,
                      const union addr *dest, struct fi_info *info)
{
    union addr src = netif->addr;
    int rc;

    if (question->has_src && !question->any_family && addr_is_any(&src.sa))
        src = question->src;
    else if (question->has_src)
        addr_set_port(&src.sa, addr_port(&question->src.sa));
    info->addr_format = question->text ? FI_ADDR_STR : addr_format(&netif->addr.sa);
    rc = host_set_src(info, &src.sa);
    return rc || !dest ? rc : host_set_dest(info, &dest->sa);
}

static int add(struct fi_info **list, struct question *question, const struct netif *netif,
               const union addr *dest)
{
    const struct host_offer *offer = question->offer;

    for (unsigned flavour = 0; flavour < offer->flavours; flavour++) {
        struct fi_info *info = info_alloc();

        if (!info)
            return -FI_ENOMEM;
        if (!offer->fill(info, question->req, netif, flavour)) {
            question->refused = true;
            info_free(info);
            continue;
        }
        if (fill_names(info, offer->any, netif) || fill_addrs(question, netif, dest, info)) {
            info_free(info);
            return -FI_ENOMEM;
        }
        info_append(list, info);
    }
    return 0;
}

/* ---- Which interface goes with which address ---- */

static bool suits_source(const struct question *question, const struct netif *netif)
{
    if (!question->has_src || question->any_family)
        return true;
    if (question->src.sa.sa_family != netif->addr.sa.sa_family)
        return false;
    return addr_is_any(&question->src.sa) || addr_same_host(&question->src.sa, &netif->addr.sa);
}

static bool suits_format(uint32_t format, const struct netif *netif)
{
    if (format == FI_SOCKADDR_IN)
        return netif->addr.sa.sa_family == AF_INET;
    if (format == FI_SOCKADDR_IN6)
        return netif->addr.sa.sa_family == AF_INET6;
    return true;
}

static bool suits_dest(const struct netif *netif, const union addr *dest)
{
    if (netif->addr.sa.sa_family != dest->sa.sa_family)
        return false;
    if (addr_is_loopback(&netif->addr.sa) != addr_is_loopback(&dest->sa))
        return false;
    if (addr_is_link_local(&netif->addr) != addr_is_link_local(dest))
        return false;
    return !addr_is_link_local(dest) || netif->addr.in6.sin6_scope_id == dest->in6.sin6_scope_id;
}

/* The local address from which the kernel would reach dest; false when it cannot say. */
static bool route_source(const union addr *dest, union addr *src)
{
    socklen_t size = sizeof(*src);
    int fd = socket(dest->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    bool known = !connect(fd, &dest->sa, addr_size(&dest->sa)) && !getsockname(fd, &src->sa, &size);
    close(fd);
    return known;
}

/* Sources that fit one destination (or none), the one that the kernel would take first. */
static int add_all(struct fi_info **list, struct question *question, const struct netif *netifs,
                   size_t count, const union addr *dest)
{
    uint32_t format = question->req->hints->addr_format;
    union addr preferred;
    bool routed = dest && route_source(dest, &preferred);

    for (int pass = routed ? 0 : 1; pass <= 1; pass++) {
        for (size_t i = 0; i < count; i++) {
            bool first = routed && addr_same_host(&preferred.sa, &netifs[i].addr.sa);

            if (first != (pass == 0) || !suits_source(question, &netifs[i]) ||
                !suits_format(format, &netifs[i]) || (dest && !suits_dest(&netifs[i], dest)))
                continue;
            int rc = add(list, question, &netifs[i], dest);
            if (rc)
                return rc;
        }
    }
    return 0;
}

/* ---- Every interface at once ---- */

static bool same_text(const char *a, const char *b)
{
    return a && !strcmp(a, b);
}

/* Does the application ask for a port of every interface, or by name for the domain of them all?
 * An interface that is chosen or named is what it gets. */
static bool asks_any(const struct question *question)
{
    const struct host_any *any = question->offer->any;
    const struct fi_info *hints = question->req->hints;
    const char *domain = hints->domain_attr->name, *fabric = hints->fabric_attr->name;

    if (!any || params_given(question->req->params, "iface"))
        return false;
    if (!domain)
        domain = question->req->domains;
    if (domain || fabric)
        return same_text(domain, any->domain) || same_text(fabric, any->fabric);
    return !question->dest_count && question->has_src &&
           (question->any_family || addr_is_any(&question->src.sa));
}

/* False: no chosen interface has that family. A message must fit each of those that have it, or
 * (any->longest) one of them. */
static bool any_of_family(const struct host_any *any, sa_family_t family,
                          const struct netif *netifs, size_t count, struct netif *all)
{
    bool found = false;

    *all = (struct netif){.addr.sa.sa_family = family, .mtu = any->longest ? 0 : INT_MAX};
    snprintf(all->name, sizeof(all->name), "%s", any->domain);
    for (size_t i = 0; i < count; i++) {
        if (netifs[i].addr.sa.sa_family != family)
            continue;
        found = true;
        if (any->longest ? netifs[i].mtu > all->mtu : netifs[i].mtu < all->mtu)
            all->mtu = netifs[i].mtu;
    }
    return found;
}

static bool is_family(const union addr *addr, sa_family_t family)
{
    return addr->sa.sa_family == family;
}

static int add_any(struct fi_info **list, struct question *question, const struct netif *netifs,
                   size_t count, const union addr *dest)
{
    static const sa_family_t families[] = {AF_INET, AF_INET6};
    bool one_family = question->has_src && !question->any_family;
    struct netif all;
    int rc = 0;

    for (size_t i = 0; !rc && i < sizeof(families) / sizeof(families[0]); i++) {
        if ((one_family && !is_family(&question->src, families[i])) ||
            (dest && !is_family(dest, families[i])) ||
            !any_of_family(question->offer->any, families[i], netifs, count, &all) ||
            !suits_format(question->req->hints->addr_format, &all))
            continue;
        rc = add(list, question, &all, dest);
    }
    return rc;
}

void host_name(const char *choice, const union addr *addr, union addr *name)
{
    uint16_t port = addr_port(&addr->sa);
    struct netif *netifs;
    size_t count, i = 0;
    char why[WHY_MAX];

    *name = *addr;
    if (!addr_is_any(&addr->sa) || netif_list(choice, &netifs, &count, why, sizeof(why)))
        return;
    while (i < count &&
           (!is_family(&netifs[i].addr, addr->sa.sa_family) || addr_is_link_local(&netifs[i].addr)))
        i++;
    if (i < count)
        *name = netifs[i].addr;
    addr_set_port(&name->sa, port);
    free(netifs);
}

/* ---- The question ---- */

static int resolve(struct question *question, union addr *addrs, size_t *count)
{
    const struct request *req = question->req;
    char why[WHY_MAX];
    int rc = addr_resolve(req->node, req->service, req->flags, req->hints->addr_format, addrs,
                          count, why, sizeof(why));

    if (rc)
        reasons_add(req->reasons, "%s", why);
    return rc;
}

static int import_hint(const struct request *req, const char *name, const void *raw, size_t len,
                       union addr *addr)
{
    int rc = addr_import(req->hints->addr_format, raw, len, addr);

    if (rc)
        reasons_add(req->reasons, "%s of the hints is not an address of its addr_format", name);
    return rc;
}

static int read_source(struct question *question)
{
    const struct request *req = question->req;
    const struct fi_info *hints = req->hints;
    int rc = 0;

    if (req->flags & FI_SOURCE && (req->node || req->service)) {
        union addr addrs[ADDRS_MAX];
        size_t count = ADDRS_MAX;

        rc = resolve(question, addrs, &count);
        if (!rc)
            question->src = addrs[0];
        question->has_src = !rc;
        /* A service alone is a port of every interface. */
        question->any_family = !req->node;
    } else if (hints->src_addr) {
        rc = import_hint(req, "src_addr", hints->src_addr, hints->src_addrlen, &question->src);
        question->has_src = !rc;
    }
    return rc;
}

static int read_dest(struct question *question)
{
    const struct request *req = question->req;
    const struct fi_info *hints = req->hints;

    if (!(req->flags & FI_SOURCE) && (req->node || req->service)) {
        question->dest_count = ADDRS_MAX;
        return resolve(question, question->dest, &question->dest_count);
    }
    if (!hints->dest_addr)
        return 0;
    question->dest_count = 1;
    return import_hint(req, "dest_addr", hints->dest_addr, hints->dest_addrlen, question->dest);
}

static void explain_nothing(const struct question *question)
{
    struct reasons *reasons = question->req->reasons;
    char text[ADDR_TEXT_MAX];

    if (question->has_src && !question->any_family && !addr_is_any(&question->src.sa))
        reasons_add(reasons, "no chosen interface has the source address %s",
                    addr_text(&question->src.sa, text, sizeof(text)));
    else if (question->dest_count)
        reasons_add(reasons, "no chosen interface has an address that reaches %s",
                    addr_text(&question->dest[0].sa, text, sizeof(text)));
    else
        reasons_add(reasons, "no chosen interface has an address of the addr_format asked");
}

/* Answers the question from the chosen interfaces. */
static int answer(struct question *question, const struct netif *netifs, size_t count,
                  struct fi_info **info)
{
    int (*add_for)(struct fi_info * *list, struct question * question, const struct netif *netifs,
                   size_t count, const union addr *dest) = asks_any(question) ? add_any : add_all;
    struct fi_info *list = NULL;
    int rc = 0;

    for (size_t i = 0; !rc && i < question->dest_count; i++)
        rc = add_for(&list, question, netifs, count, &question->dest[i]);
    if (!rc && !question->dest_count)
        rc = add_for(&list, question, netifs, count, NULL);
    if (rc) {
        info_free(list);
        return rc;
    }
    if (!list && !question->refused)
        explain_nothing(question);
    *info = list;
    return 0;
}

int host_infos(const struct request *req, const struct host_offer *offer, struct fi_info **info)
{
    struct question question = {
        .req = req, .offer = offer, .text = req->hints->addr_format == FI_ADDR_STR};
    struct netif *netifs;
    size_t count;
    char why[WHY_MAX];
    int rc;

    *info = NULL;
    if (read_source(&question) || read_dest(&question))
        return 0;
    rc = netif_list(params_string(req->params, "iface"), &netifs, &count, why, sizeof(why));
    if (rc) {
        reasons_add(req->reasons, "%s%s", params_given(req->params, "iface") ? "iface: " : "", why);
        return rc == -FI_ENOMEM ? rc : 0;
    }
    rc = answer(&question, netifs, count, info);
    free(netifs);
    return rc;
}

/* ---- Ports ---- */

bool host_ports_agree(const struct params *params, struct param_conflict *conflict)
{
    int low = (int)params_int(params, "port_low_range");
    int high = (int)params_int(params, "port_high_range");
    const char *why = "it is above port_high_range";

    if (!low == !high && low <= high)
        return true;
    if (!low || !high)
        why = low ? "port_high_range, the other end of the range, is missing"
                  : "port_low_range, the other end of the range, is missing";
    conflict->key = low ? "port_low_range" : "port_high_range";
    snprintf(conflict->why, sizeof(conflict->why), "%s", why);
    if (low)
        snprintf(conflict->used, sizeof(conflict->used), "port %d alone is used", low);
    else
        snprintf(conflict->used, sizeof(conflict->used), "any port is used");
    return false;
}

static int bind_range(int fd, const union addr *host, int low, int high)
{
    unsigned count = (unsigned)(high - low) + 1;
    unsigned start = 0;

    if (getrandom(&start, sizeof(start), GRND_NONBLOCK) < 0)
        start = (unsigned)getpid();
    for (unsigned i = 0; i < count; i++) {
        union addr addr = *host;

        addr_set_port(&addr.sa, (uint16_t)((unsigned)low + (start + i) % count));
        if (!bind(fd, &addr.sa, addr_size(&addr.sa)))
            return 0;
        if (errno != EADDRINUSE)
            return -errno;
    }
    return -FI_EADDRINUSE;
}

int host_bind(int fd, const union addr *addr, int low, int high)
{
    if (!addr_port(&addr->sa) && low)
        return bind_range(fd, addr, low, high);
    return bind(fd, &addr->sa, addr_size(&addr->sa)) ? -errno : 0;
}
