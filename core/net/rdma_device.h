/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The node's RDMA devices. Each is opened once a process, with the first question that finds it,
 * and stays open: all parts share its context. A forked child opens its own. Built where verbs.h
 * is.
 */
#ifndef WEFT_CORE_NET_RDMA_DEVICE_H
#define WEFT_CORE_NET_RDMA_DEVICE_H

#include <stdbool.h>

#include "core/base/reason.h"
#include "core/net/verbs_lib.h"

enum {
    RDMA_VENDOR_EFA = 0x1d0f
};

#define RDMA_NO_DEVICE "this node has no RDMA device"

struct rdma_device {
    struct rdma_device *next;
    char name[IBV_SYSFS_NAME_MAX];
    struct ibv_context *context;
    struct ibv_device_attr attr;
};

/* Can there be a device? Asks the kernel only: where it knows no RDMA, programs that did not ask
 * for it load no library, and read no warning of one. SYSFS_PATH says where /sys is, as to
 * libibverbs. */
bool rdma_devices_possible(void);

/*
 * All that there are now; devices may come while the process runs. The list grows at its front and
 * an entry never moves or ends, so that it is read without a lock. Devices that cannot be opened
 * leave a line in reasons, which may be NULL. After verbs_lib_load has answered 0.
 */
const struct rdma_device *rdma_devices(struct reasons *reasons);

#endif
