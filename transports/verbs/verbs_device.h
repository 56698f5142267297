/* SPDX-License-Identifier: BSD-2-Clause */
/* The node's devices that are verbs' (core/net/rdma_device.h), and which addresses rdma_cm has on
 * them. */
#ifndef WEFT_VERBS_DEVICE_H
#define WEFT_VERBS_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/reason.h"
#include "core/net/netif.h"
#include "core/net/rdma_device.h"
#include "core/param/param.h"
#include "transports/verbs/verbs_cm_lib.h"

struct verbs_device {
    struct verbs_device *next;
    char name[IBV_SYSFS_NAME_MAX];
    struct ibv_context *context;
    struct ibv_device_attr attr;
    uint32_t inline_max; /* bytes that an operation can carry in itself */
    atomic_uint downs;   /* times that a port went down: verbs_port.h */
};

/* An address of this node that rdma_cm can use. */
struct verbs_place {
    struct verbs_device *device;
    uint8_t port;
    struct ibv_port_attr port_attr;
    struct netif netif;
};

/* NULL: there is none of that name. */
struct verbs_device *verbs_device_find(const char *name);

/* All usable addresses, those of the params' choice (device_name, iface); freed with free(). An
 * empty list has its reason in reasons, which may be NULL. -FI_ENOMEM. */
int verbs_places(const struct params *params, struct reasons *reasons, struct verbs_place **places,
                 size_t *count);

#endif
