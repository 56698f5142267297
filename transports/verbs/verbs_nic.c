/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_nic.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "core/info/nic.h"

enum {
    TEXT = 64
};

size_t verbs_mtu(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? (size_t)128 << mtu : 0;
}

/* InfiniBand Architecture, PortInfo: link speed and width. */
size_t verbs_speed(uint8_t active_speed, uint8_t active_width)
{
    static const struct {
        uint8_t code;
        unsigned mbit; /* of a lane */
    } speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                  {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
    static const struct {
        uint8_t code, lanes;
    } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    size_t mbit = 0, lanes = 0;

    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
        if (speeds[i].code == active_speed)
            mbit = speeds[i].mbit;
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        if (widths[i].code == active_width)
            lanes = widths[i].lanes;
    return mbit * lanes * 1000000;
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

/* The last component of a link under /sys/class/infiniband/NAME; NULL without one. */
static char *link_name(const char *device, const char *link)
{
    char path[PATH_MAX], target[PATH_MAX];
    const char *name;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/%s", device, link);
    if (!realpath(path, target))
        return NULL;
    name = strrchr(target, '/');
    return name ? strdup(name + 1) : NULL;
}

static void fill_bus(struct fi_bus_attr *attr, const char *device)
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

struct fid_nic *verbs_nic(const struct verbs_place *place)
{
    const struct verbs_device *device = place->device;
    const struct ibv_port_attr *port = &place->port_attr;
    struct fid_nic *nic = nic_create();
    char text[ADDR_TEXT_MAX] = "";
    const union addr *addr = &place->netif.addr;
    const void *host = addr->sa.sa_family == AF_INET6 ? (const void *)&addr->in6.sin6_addr
                                                      : (const void *)&addr->in.sin_addr;

    if (!nic)
        return NULL;
    nic->device_attr->name = strdup(device->name);
    nic->device_attr->device_id = number_text("0x%04x", device->attr.vendor_part_id);
    nic->device_attr->vendor_id = number_text("0x%04x", device->attr.vendor_id);
    nic->device_attr->device_version = number_text("%u", device->attr.hw_ver);
    nic->device_attr->driver = link_name(device->name, "device/driver");
    nic->device_attr->firmware = strdup(device->attr.fw_ver);
    fill_bus(nic->bus_attr, device->name);
    inet_ntop(addr->sa.sa_family, host, text, sizeof(text));
    nic->link_attr->address = strdup(text);
    nic->link_attr->mtu = verbs_mtu(port->active_mtu);
    nic->link_attr->speed = verbs_speed(port->active_speed, port->active_width);
    nic->link_attr->state = link_state(port->state);
    nic->link_attr->network_type =
        strdup(port->link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
    return nic;
}
