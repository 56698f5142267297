/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/udp/udp_group.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"

static struct udp_group *group_of(struct fid *fid)
{
    return object_of(fid, struct udp_group, mc.fid);
}

/* ---- What is asked ---- */

static bool is_multicast(const union addr *addr)
{
    if (addr->sa.sa_family == AF_INET6)
        return IN6_IS_ADDR_MULTICAST(&addr->in6.sin6_addr);
    return IN_MULTICAST(ntohl(addr->in.sin_addr.s_addr));
}

/* The interface of the endpoint's domain; 0: the kernel chooses one. */
static unsigned index_of(const struct udp_ep *ep)
{
    const char *name = ep->base.domain->info->domain_attr->name;

    return name ? if_nametoindex(name) : 0;
}

static int read_address(const struct udp_ep *ep, const void *raw, union addr *addr)
{
    size_t len = ep->addr_format == FI_ADDR_STR ? strlen(raw) + 1 : addr_size(raw);
    char text[ADDR_TEXT_MAX];
    int rc = addr_import(ep->addr_format, raw, len, addr);

    if (rc)
        return rc;
    if (!is_multicast(addr) || addr->sa.sa_family != ep->main.addr.sa.sa_family) {
        LOG_WARN(ep->fabric->base.part, FI_LOG_EP_CTRL, "fi_join: %s is no %s multicast address",
                 addr_text(&addr->sa, text, sizeof(text)),
                 ep->main.addr.sa.sa_family == AF_INET6 ? "IPv6" : "IPv4");
        return -FI_EINVAL;
    }
    if (!addr_port(&addr->sa))
        addr_set_port(&addr->sa, addr_port(&ep->main.addr.sa));
    if (addr->sa.sa_family == AF_INET6)
        addr->in6.sin6_scope_id = index_of(ep);
    return 0;
}

/* The directions that are meant, of those that the endpoint has. */
static int read_flags(const struct udp_ep *ep, uint64_t *flags)
{
    uint64_t has = ep->base.caps & (FI_SEND | FI_RECV);

    if (*flags & ~(FI_SEND | FI_RECV))
        return -FI_EBADFLAGS;
    if (!(ep->base.caps & FI_MULTICAST))
        return -FI_EOPNOTSUPP;
    if (!has)
        has = FI_SEND | FI_RECV;
    if (*flags & ~has)
        return -FI_EINVAL;
    if (!*flags)
        *flags = has;
    if (!ep->base.enabled || progress_forked(ep->base.binding.progress))
        return -FI_EOPBADSTATE;
    return ep->base.eq ? 0 : -FI_ENOEQ;
}

/* ---- Joining ---- */

/* Datagrams to groups leave by the interface of the domain. */
static int choose_interface(const struct udp_ep *ep)
{
    struct ip_mreqn out = {.imr_address = ep->main.addr.in.sin_addr,
                           .imr_ifindex = (int)index_of(ep)};

    if (ep->main.addr.sa.sa_family == AF_INET6)
        return udp_socket_set(&ep->main, 0, IPV6_MULTICAST_IF, (int)index_of(ep));
    return setsockopt(ep->main.fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof(out)) ? -errno : 0;
}

static int open_group(struct udp_ep *ep, struct udp_group *group, uint64_t flags)
{
    int rc = 0;

    group->sends = flags & FI_SEND;
    if (group->sends)
        rc = choose_interface(ep);
    if (!rc && flags & FI_RECV)
        rc = udp_socket_open_group(ep->fabric, &group->addr, &ep->main.addr, index_of(ep),
                                   &group->sock);
    if (!rc && flags & FI_RECV)
        rc = udp_ep_add_socket(ep, &group->sock);
    return rc;
}

static int tell_joined(struct udp_group *group)
{
    struct fi_eq_entry entry = {.fid = &group->mc.fid, .context = group->mc.fid.context};

    return eq_write(group->ep->base.eq, FI_JOIN_COMPLETE, &entry, sizeof(entry));
}

static struct fi_ops mc_ops;

static int join_locked(struct udp_ep *ep, uint64_t flags, struct udp_group *group)
{
    int rc = open_group(ep, group, flags);

    if (rc)
        return rc;
    group->ep = ep;
    group->mc.fi_addr = UDP_GROUP_BIT | ep->group_count;
    rc = tell_joined(group);
    if (rc)
        return rc;
    ep->group_count++;
    list_attach(&group->link, &ep->groups);
    return 0;
}

int udp_group_join(struct fid_ep *fid, const void *addr, uint64_t flags, struct fid_mc **mc,
                   void *context)
{
    struct udp_ep *ep = object_of(fid, struct udp_ep, fid);
    struct udp_group *group;
    union addr parsed;
    int rc = addr ? read_flags(ep, &flags) : -FI_EINVAL;

    if (!rc)
        rc = read_address(ep, addr, &parsed);
    if (rc)
        return rc;
    group = calloc(1, sizeof(*group));
    if (!group)
        return -FI_ENOMEM;
    fid_init(&group->mc.fid, FI_CLASS_MC, context, &mc_ops);
    list_init(&group->link);
    group->sock.fd = -1;
    group->domain = ep->base.domain;
    group->addr = parsed;
    progress_lock(ep->base.binding.progress);
    rc = join_locked(ep, flags, group);
    progress_unlock(ep->base.binding.progress);
    if (rc) {
        udp_socket_close(&group->sock);
        free(group);
        return rc;
    }
    children_hold(&group->domain->children);
    *mc = &group->mc;
    return 0;
}

/* ---- Sending ---- */

const struct sockaddr *udp_group_target(const struct udp_ep *ep, fi_addr_t addr)
{
    list_for_each (pos, &ep->groups) {
        const struct udp_group *group = list_item(pos, struct udp_group, link);

        if (group->mc.fi_addr == addr)
            return group->sends ? &group->addr.sa : NULL;
    }
    return NULL;
}

/* ---- Leaving ---- */

static int mc_close(struct fid *fid)
{
    struct udp_group *group = group_of(fid);
    struct udp_ep *ep = group->ep;

    if (ep) {
        progress_lock(ep->base.binding.progress);
        list_detach(&group->link);
        udp_socket_close(&group->sock);
        progress_unlock(ep->base.binding.progress);
        eq_forget(ep->base.eq, fid);
    }
    children_release(&group->domain->children);
    free(group);
    return 0;
}

static struct fi_ops mc_ops = {
    .size = sizeof(mc_ops),
    .close = mc_close,
    .bind = enosys_bind,
    .control = enosys_control,
    .ops_open = enosys_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

void udp_groups_orphan(struct udp_ep *ep)
{
    list_for_each_safe (pos, after, &ep->groups) {
        struct udp_group *group = list_item(pos, struct udp_group, link);

        list_detach(&group->link);
        udp_socket_close(&group->sock);
        group->ep = NULL;
        eq_forget(ep->base.eq, &group->mc.fid);
    }
}
