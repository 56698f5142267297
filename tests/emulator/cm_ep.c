/* SPDX-License-Identifier: BSD-2-Clause */
/* Address information and endpoints: a way to rdma_cm without events. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_verbs.h>

#include "cm.h"

static struct sockaddr *copy_address(const struct sockaddr *address, socklen_t size)
{
    struct sockaddr *copy = calloc(1, sizeof(struct sockaddr_storage));

    if (copy)
        memcpy(copy, address, size);
    return copy;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *info)
{
    while (info) {
        struct rdma_addrinfo *next = info->ai_next;
        free(info->ai_src_addr);
        free(info->ai_dst_addr);
        free(info->ai_src_canonname);
        free(info->ai_dst_canonname);
        free(info->ai_route);
        free(info->ai_connect);
        free(info);
        info = next;
    }
}

static int fill_types(struct rdma_addrinfo *info, const struct rdma_addrinfo *hints)
{
    info->ai_flags = hints->ai_flags;
    info->ai_qp_type = hints->ai_qp_type;
    info->ai_port_space = hints->ai_port_space;
    if (!info->ai_qp_type)
        info->ai_qp_type = info->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
    if (!info->ai_port_space)
        info->ai_port_space = info->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
    return info->ai_qp_type == IBV_QPT_UD || info->ai_qp_type == IBV_QPT_RC ? 0 : EAI_SOCKTYPE;
}

static int look_up(struct rdma_addrinfo *info, const char *node, const char *service,
                   const struct rdma_addrinfo *hints)
{
    bool passive = hints->ai_flags & RAI_PASSIVE;
    struct addrinfo wanted = {
        .ai_family = hints->ai_family,
        .ai_socktype = info->ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM,
        .ai_flags =
            (passive ? AI_PASSIVE : 0) | (hints->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0),
    };
    struct addrinfo *found;
    int rc = getaddrinfo(node, service, &wanted, &found);

    if (rc)
        return rc;
    struct sockaddr *copy = copy_address(found->ai_addr, found->ai_addrlen);
    info->ai_family = found->ai_family;
    if (passive) {
        info->ai_src_addr = copy;
        info->ai_src_len = found->ai_addrlen;
    } else {
        info->ai_dst_addr = copy;
        info->ai_dst_len = found->ai_addrlen;
    }
    freeaddrinfo(found);
    return copy ? 0 : EAI_MEMORY;
}

static int copy_hints(struct rdma_addrinfo *info, const struct rdma_addrinfo *hints)
{
    if (hints->ai_src_len && hints->ai_src_addr && !info->ai_src_addr) {
        info->ai_src_addr = copy_address(hints->ai_src_addr, hints->ai_src_len);
        info->ai_src_len = hints->ai_src_len;
        info->ai_family = hints->ai_src_addr->sa_family;
    }
    if (hints->ai_dst_len && hints->ai_dst_addr && !info->ai_dst_addr) {
        info->ai_dst_addr = copy_address(hints->ai_dst_addr, hints->ai_dst_len);
        info->ai_dst_len = hints->ai_dst_len;
        info->ai_family = hints->ai_dst_addr->sa_family;
    }
    return 0;
}

/* The source that the kernel's routes choose. */
static void find_source(struct rdma_addrinfo *info)
{
    struct sockaddr_storage source;
    socklen_t size = sizeof(source);
    int fd = socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return;
    if (connect(fd, info->ai_dst_addr, info->ai_dst_len) == 0 &&
        getsockname(fd, (struct sockaddr *)&source, &size) == 0) {
        cm_set_port((struct sockaddr *)&source, 0);
        info->ai_src_addr = copy_address((struct sockaddr *)&source, size);
        info->ai_src_len = size;
    }
    close(fd);
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                     struct rdma_addrinfo **result)
{
    static const struct rdma_addrinfo none;
    struct rdma_addrinfo *info = calloc(1, sizeof(*info));

    if (!info)
        return EAI_MEMORY;
    if (!hints)
        hints = &none;
    int rc = fill_types(info, hints);
    if (!rc && (node || service))
        rc = look_up(info, node, service, hints);
    else if (!rc && !hints->ai_src_len && !hints->ai_dst_len)
        rc = EAI_NONAME;
    if (!rc)
        rc = copy_hints(info, hints);
    if (!rc && info->ai_dst_addr && !info->ai_src_addr && !(hints->ai_flags & RAI_NOROUTE))
        find_source(info);
    if (rc) {
        rdma_freeaddrinfo(info);
        return rc;
    }
    *result = info;
    return 0;
}

static int make_active(struct rdma_cm_id *id, const struct rdma_addrinfo *info, struct ibv_pd *pd,
                       struct ibv_qp_init_attr *attr)
{
    if (rdma_resolve_addr(id, info->ai_src_addr, info->ai_dst_addr, 2000) ||
        rdma_resolve_route(id, 2000))
        return errno;
    if (!attr)
        return 0;
    attr->qp_type = (enum ibv_qp_type)info->ai_qp_type;
    return rdma_create_qp(id, pd, attr) ? errno : 0;
}

static int make_passive(struct rdma_cm_id *id, const struct rdma_addrinfo *info, struct ibv_pd *pd,
                        struct ibv_qp_init_attr *attr)
{
    if (rdma_bind_addr(id, info->ai_src_addr))
        return errno;
    if (!attr)
        return 0;
    cm_of(id)->qp_attr = malloc(sizeof(*attr));
    if (!cm_of(id)->qp_attr)
        return ENOMEM;
    *cm_of(id)->qp_attr = *attr;
    cm_of(id)->qp_attr->qp_type = (enum ibv_qp_type)info->ai_qp_type;
    id->pd = pd;
    return 0;
}

int rdma_create_ep(struct rdma_cm_id **result, struct rdma_addrinfo *info, struct ibv_pd *pd,
                   struct ibv_qp_init_attr *attr)
{
    struct rdma_cm_id *id;

    if (rdma_create_id(NULL, &id, NULL, (enum rdma_port_space)info->ai_port_space))
        return -1;
    int rc = info->ai_flags & RAI_PASSIVE ? make_passive(id, info, pd, attr)
                                          : make_active(id, info, pd, attr);
    if (rc) {
        rdma_destroy_ep(id);
        return cm_result(rc);
    }
    *result = id;
    return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
    rdma_destroy_qp(id);
    rdma_destroy_srq(id);
    rdma_destroy_id(id);
}

int rdma_get_request(struct rdma_cm_id *listener, struct rdma_cm_id **result)
{
    if (!cm_of(listener)->synchronous)
        return cm_result(EINVAL);
    int rc = cm_wait(cm_of(listener), RDMA_CM_EVENT_CONNECT_REQUEST);
    if (rc)
        return cm_result(rc);
    struct rdma_cm_event *event = listener->event;
    struct rdma_cm_id *id = event->id;
    listener->event = NULL;
    if (rdma_migrate_id(id, NULL))
        return -1;
    /* The request stays with the new identifier, for its private data. */
    id->event = event;
    if (cm_of(listener)->qp_attr) {
        struct ibv_qp_init_attr attr = *cm_of(listener)->qp_attr;
        if (rdma_create_qp(id, listener->pd, &attr)) {
            rc = errno;
            rdma_reject(id, NULL, 0);
            rdma_destroy_id(id);
            return cm_result(rc);
        }
    }
    *result = id;
    return 0;
}
