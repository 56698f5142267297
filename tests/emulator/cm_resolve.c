/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses and routes: the emulated network reaches the addresses of this machine. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm.h"
#include "context.h"
#include "fault.h"
#include "report.h"

static socklen_t address_size(const struct sockaddr *address)
{
    return address->sa_family == AF_INET    ? sizeof(struct sockaddr_in)
           : address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                            : 0;
}

static bool is_multicast(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr[0] == 0xff;
    return IN_MULTICAST(
        ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
}

/* The source that the kernel's routes choose; the port stays what it was. */
static int choose_source(struct cm_id *id)
{
    struct rdma_addr *addresses = &id->id.route.addr;
    struct sockaddr_storage found;
    socklen_t size = address_size(&addresses->dst_addr);
    uint16_t port = addresses->src_addr.sa_family ? cm_port(&addresses->src_addr) : 0;
    int fd = socket(addresses->dst_addr.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    memcpy(&found, &addresses->dst_storage, sizeof(found));
    /* Port 0 cannot be connected to, and any other one gives the same route. */
    cm_set_port((struct sockaddr *)&found, 9);
    int rc = connect(fd, (struct sockaddr *)&found, size) ? errno : 0;
    size = sizeof(found);
    if (!rc && getsockname(fd, (struct sockaddr *)&found, &size))
        rc = errno;
    close(fd);
    if (rc)
        return rc;
    memcpy(&addresses->src_storage, &found, sizeof(found));
    cm_set_port(&addresses->src_addr, port);
    return 0;
}

/* The GID of the target: that of its address, or of our own port for loopback. */
static int find_target(struct cm_id *id)
{
    struct rdma_addr *addresses = &id->id.route.addr;
    unsigned count, index;
    struct device *const *all = device_all(&count);

    if (is_multicast(&addresses->dst_addr))
        return 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned port = device_find_address(all[i], &addresses->dst_addr, &index);
        if (!port)
            continue;
        addresses->addr.ibaddr.dgid = all[i]->ports[port - 1].gids[index].gid;
        return 0;
    }
    return EHOSTUNREACH;
}

static bool is_bound_to_any(const struct cm_id *id)
{
    return !id->id.verbs;
}

static int resolve(struct cm_id *id, struct sockaddr *source, struct sockaddr *target)
{
    struct rdma_addr *addresses = &id->id.route.addr;
    int rc = 0;

    memcpy(&addresses->dst_storage, target, address_size(target));
    if (source && id->state == CM_IDLE)
        memcpy(&addresses->src_storage, source, address_size(source));
    if (is_bound_to_any(id) && (!source || id->state == CM_BOUND || !addresses->src_addr.sa_family))
        rc = choose_source(id);
    if (!rc && !id->id.verbs)
        rc = cm_bind_device(id);
    if (!rc && id->port_fd < 0)
        rc = cm_bind_port(id);
    if (!rc && fault_connect(context_device(id->id.verbs), FAULT_CONNECT_ADDRESS))
        rc = ETIMEDOUT;
    return rc ? rc : find_target(id);
}

static int check_resolve(const struct cm_id *id, const struct sockaddr *source,
                         const struct sockaddr *target)
{
    if (id->state != CM_IDLE && id->state != CM_BOUND)
        return EINVAL;
    if (!target || !address_size(target) || (source && !address_size(source)))
        return EAFNOSUPPORT;
    return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *public, struct sockaddr *source, struct sockaddr *target,
                      int timeout_ms)
{
    struct cm_id *id = cm_of(public);

    loop_lock();
    int rc = check_resolve(id, source, target);
    if (!rc) {
        int failed = resolve(id, source, target);
        if (failed) {
            report_why("rdma_resolve_addr: %s", strerror(failed));
            cm_report(id, RDMA_CM_EVENT_ADDR_ERROR, -failed, NULL);
        } else {
            id->state = CM_ADDRESS_RESOLVED;
            cm_report(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
        }
    }
    loop_unlock();
    if (!rc && id->synchronous)
        rc = cm_wait(id, RDMA_CM_EVENT_ADDR_RESOLVED);
    return cm_result(rc);
}

static int make_path(struct cm_id *id)
{
    struct ibv_sa_path_rec *path = calloc(1, sizeof(*path));
    const struct rdma_ib_addr *ib = &id->id.route.addr.addr.ibaddr;

    if (!path)
        return ENOMEM;
    path->dgid = ib->dgid;
    path->sgid = ib->sgid;
    path->reversible = 1;
    path->numb_path = 1;
    path->hop_limit = 64;
    path->pkey = ib->pkey;
    path->mtu = IBV_MTU_4096;
    path->mtu_selector = path->rate_selector = 2; /* exactly */
    path->rate = IBV_RATE_100_GBPS;
    free(id->id.route.path_rec);
    id->id.route.path_rec = path;
    id->id.route.num_paths = 1;
    return 0;
}

int rdma_resolve_route(struct rdma_cm_id *public, int timeout_ms)
{
    struct cm_id *id = cm_of(public);

    loop_lock();
    int rc = id->state == CM_ADDRESS_RESOLVED ? make_path(id) : EINVAL;
    if (!rc) {
        if (fault_connect(context_device(public->verbs), FAULT_CONNECT_ROUTE)) {
            cm_report(id, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT, NULL);
        } else {
            id->state = CM_ROUTE_RESOLVED;
            cm_report(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
        }
    }
    loop_unlock();
    if (!rc && id->synchronous)
        rc = cm_wait(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
    return cm_result(rc);
}
