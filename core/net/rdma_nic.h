/* SPDX-License-Identifier: BSD-2-Clause */
/* The fid_nic of an RDMA device and its port. Source: fi_nic(3). Built where verbs.h is. */
#ifndef WEFT_CORE_NET_RDMA_NIC_H
#define WEFT_CORE_NET_RDMA_NIC_H

#include <infiniband/verbs.h>
#include <rdma/fabric.h>

/* address: of the link, as text. The mtu and the type of network are those that the port tells.
 * NULL without memory. */
struct fid_nic *rdma_nic(const char *name, const struct ibv_device_attr *attr,
                         const struct ibv_port_attr *port, const char *address);

/* The place of a device of that name: FI_BUS_PCI, or FI_BUS_UNKNOWN. */
void rdma_bus(struct fi_bus_attr *attr, const char *device);

/* Bits per second of a port, or SIZE_MAX where there are more; 0: codes that no table has. */
size_t rdma_speed(uint8_t active_speed, uint8_t active_width);
/* Bytes of an enum ibv_mtu; 0: none. */
size_t rdma_mtu(enum ibv_mtu mtu);

#endif
