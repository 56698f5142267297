/* SPDX-License-Identifier: BSD-2-Clause */
/* Names: the address that the socket is bound to, from fi_endpoint on. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "transports/udp/udp_ep.h"
#include "transports/udp/udp_group.h"

static struct udp_ep *ep_of(fid_t fid)
{
    return object_of(fid, struct udp_ep, fid.fid);
}

static int ep_getname(fid_t fid, void *raw, size_t *len)
{
    struct udp_ep *ep = ep_of(fid);

    return addr_export(ep->addr_format, &ep->main.name.sa, raw, len);
}

static int ep_setname(fid_t fid, void *raw, size_t len)
{
    struct udp_ep *ep = ep_of(fid);
    struct udp_socket sock;
    union addr addr;
    int rc;

    if (ep->base.enabled)
        return -FI_EOPBADSTATE;
    rc = raw ? addr_import(ep->addr_format, raw, len, &addr) : -FI_EINVAL;
    if (!rc)
        rc = udp_socket_open(ep->fabric, &addr, &sock);
    if (rc)
        return rc;
    udp_socket_close(&ep->main);
    ep->main = sock;
    return 0;
}

struct fi_ops_cm udp_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = ep_setname,
    .getname = ep_getname,
    .getpeer = enosys_cm_getpeer,
    .connect = enosys_cm_connect,
    .listen = enosys_cm_listen,
    .accept = enosys_cm_accept,
    .reject = enosys_cm_reject,
    .shutdown = enosys_cm_shutdown,
    .join = udp_group_join,
};
