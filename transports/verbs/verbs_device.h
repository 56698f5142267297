/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The node's RDMA devices, and which addresses rdma_cm has on them. A device is opened once a
 * process, with the first question, and stays open.
 */
#ifndef WEFT_VERBS_DEVICE_H
#define WEFT_VERBS_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/reason.h"
#include "core/net/netif.h"
#include "core/param/param.h"
#include "transports/verbs/verbs_lib.h"

#define VERBS_NO_DEVICE "this node has no RDMA device"

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

/* Can there be a device? Asks the kernel only: where it knows no RDMA, programs that did not ask
 * for it load no library, and read no warning of one. SYSFS_PATH says where /sys is, as to
 * libibverbs. */
bool verbs_devices_possible(void);

/* NULL: there is none of that name. */
struct verbs_device *verbs_device_find(const char *name);

/* All usable addresses, those of the params' choice (device_name, iface); freed with free(). An
 * empty list has its reason in reasons, which may be NULL. -FI_ENOMEM. */
int verbs_places(const struct params *params, struct reasons *reasons, struct verbs_place **places,
                 size_t *count);

#endif
