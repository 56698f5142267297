/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/rdma_nic.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/info/nic.h"

enum {
    TEXT = 64
};

size_t rdma_mtu(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? (size_t)128 << mtu : 0;
}

/* InfiniBand Architecture, PortInfo: link speed and width. */
size_t rdma_speed(uint8_t active_speed, uint8_t active_width)
{
    static const struct {
        uint8_t code;
        unsigned mbit; /* of a lane */
    } speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                  {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
    static const struct {
        uint8_t code, lanes;
    } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    uint64_t mbit = 0, lanes = 0, speed;

    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
        if (speeds[i].code == active_speed)
            mbit = speeds[i].mbit;
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        if (widths[i].code == active_width)
            lanes = widths[i].lanes;
    speed = mbit * lanes * 1000000;
    return speed < SIZE_MAX ? (size_t)speed : SIZE_MAX;
}

static enum fi_link_state link_state(enum ibv_port_state state)
{
    switch (state) {
    case IBV_PORT_ACTIVE: return FI_LINK_UP;
    case IBV_PORT_DOWN:
    case IBV_PORT_INIT:
    case IBV_PORT_ARMED: return FI_LINK_DOWN;
    default: return FI_LINK_UNKNOWN;
    }
}

static char *number_text(const char *format, unsigned number)
{
    char text[TEXT];

    snprintf(text, sizeof(text), format, number);
    return strdup(text);
}

/* The last component of a link under class/infiniband/NAME of sysfs; NULL without one. */
static char *link_name(const char *device, const char *link)
{
    const char *sysfs = secure_getenv("SYSFS_PATH"), *name;
    char path[PATH_MAX], target[PATH_MAX];

    snprintf(path, sizeof(path), "%s/class/infiniband/%s/%s", sysfs ? sysfs : "/sys", device, link);
    if (!realpath(path, target))
        return NULL;
    name = strrchr(target, '/');
    return name ? strdup(name + 1) : NULL;
}

void rdma_bus(struct fi_bus_attr *attr, const char *device)
{
    char *name = link_name(device, "device");
    struct fi_pci_attr pci;
    unsigned domain, bus, slot, function;

    attr->bus_type = FI_BUS_UNKNOWN;
    if (name && sscanf(name, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4) {
        pci = (struct fi_pci_attr){.domain_id = (uint16_t)domain,
                                   .bus_id = (uint8_t)bus,
                                   .device_id = (uint8_t)slot,
                                   .function_id = (uint8_t)function};
        attr->bus_type = FI_BUS_PCI;
        attr->attr.pci = pci;
    }
    free(name);
}

struct fid_nic *rdma_nic(const char *name, const struct ibv_device_attr *attr,
                         const struct ibv_port_attr *port, const char *address)
{
    struct fid_nic *nic = nic_create();

    if (!nic)
        return NULL;
    nic->device_attr->name = strdup(name);
    nic->device_attr->device_id = number_text("0x%04x", attr->vendor_part_id);
    nic->device_attr->vendor_id = number_text("0x%04x", attr->vendor_id);
    nic->device_attr->device_version = number_text("%u", attr->hw_ver);
    nic->device_attr->driver = link_name(name, "device/driver");
    nic->device_attr->firmware = strdup(attr->fw_ver);
    rdma_bus(nic->bus_attr, name);
    nic->link_attr->address = strdup(address);
    nic->link_attr->mtu = rdma_mtu(port->active_mtu);
    nic->link_attr->speed = rdma_speed(port->active_speed, port->active_width);
    nic->link_attr->state = link_state(port->state);
    nic->link_attr->network_type =
        strdup(port->link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
    return nic;
}
