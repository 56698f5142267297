/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WEFT_EMULATOR_DEVICES: NAME[=INTERFACE[+INTERFACE]...][,NAME...], or nothing for no device;
 * NAME:efa is a device of the kind EFA. Each
 * INTERFACE is a port. A device without any has one port, with the addresses of all interfaces that
 * are up, loopback only where there is no other.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "efa.h"
#include "report.h"
#include "settings.h"

static struct device *devices[DEVICE_MAX];
static unsigned device_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

uint64_t device_guid(const struct device *device)
{
    return htobe64(0x0257450000000000u + ((uint64_t)device->index << 16) + 1);
}

bool device_address_gid(const struct sockaddr *address, union ibv_gid *gid)
{
    memset(gid, 0, sizeof(*gid));
    if (address->sa_family == AF_INET6) {
        memcpy(gid, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, sizeof(*gid));
        return true;
    }
    if (address->sa_family != AF_INET)
        return false;
    gid->raw[10] = 0xff;
    gid->raw[11] = 0xff;
    memcpy(gid->raw + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    return true;
}

static void add_gid(struct port *port, unsigned number, const union ibv_gid *gid, const char *name)
{
    for (unsigned type = IBV_GID_TYPE_ROCE_V1; type <= IBV_GID_TYPE_ROCE_V2; type++) {
        if (port->gid_count == GID_MAX)
            return;
        struct ibv_gid_entry *entry = &port->gids[port->gid_count];
        entry->gid = *gid;
        entry->gid_index = port->gid_count++;
        entry->port_num = number;
        entry->gid_type = type;
        entry->ndev_ifindex = name ? if_nametoindex(name) : 0;
    }
}

static bool is_link_local(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static bool wanted(const struct ifaddrs *entry, const char *interface, bool loopback)
{
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP))
        return false;
    if (interface)
        return strcmp(entry->ifa_name, interface) == 0;
    return !!(entry->ifa_flags & IFF_LOOPBACK) == loopback;
}

/* Adds the addresses of one sort, in the order of the kernel. */
static unsigned add_addresses(struct port *port, unsigned number, const struct ifaddrs *all,
                              const char *interface, bool loopback, int family, bool local)
{
    unsigned count = 0;
    union ibv_gid gid;

    for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
        if (!wanted(entry, interface, loopback) || entry->ifa_addr->sa_family != family ||
            is_link_local(entry->ifa_addr) != local)
            continue;
        device_address_gid(entry->ifa_addr, &gid);
        add_gid(port, number, &gid, entry->ifa_name);
        count++;
    }
    return count;
}

/* Link-local first, as the kernel does, then IPv4, then IPv6. */
static void fill_port(struct device *device, unsigned number, const char *interface,
                      const struct ifaddrs *all)
{
    struct port *port = &device->ports[number - 1];
    union ibv_gid gid = {.global = {.subnet_prefix = htobe64(0xfe80000000000000u),
                                    .interface_id = device_guid(device) + htobe64(number - 1)}};

    if (!add_addresses(port, number, all, interface, false, AF_INET6, true))
        add_gid(port, number, &gid, interface);
    unsigned found = add_addresses(port, number, all, interface, false, AF_INET, false);
    found += add_addresses(port, number, all, interface, false, AF_INET6, false);
    if (found)
        return;
    if (interface)
        report_say("device %s: no interface '%s' with an address", device->device.name, interface);
    else
        add_addresses(port, number, all, NULL, true, AF_INET, false);
}

static void make_device(char *entry, const struct ifaddrs *all)
{
    char *interfaces = strchr(entry, '=');
    char *kind = strstr(entry, ":efa");
    struct device *device = calloc(1, sizeof(*device));
    char *name;

    if (!device)
        return;
    if (interfaces)
        *interfaces++ = '\0';
    if (kind && !kind[4])
        *kind = '\0';
    device->index = device_count;
    device->device.node_type = IBV_NODE_CA;
    device->device.transport_type = IBV_TRANSPORT_IB;
    snprintf(device->device.name, sizeof(device->device.name), "%s", entry);
    snprintf(device->device.dev_name, sizeof(device->device.dev_name), "uverbs%u", device->index);
    snprintf(device->device.dev_path, sizeof(device->device.dev_path),
             "/sys/class/infiniband_verbs/uverbs%u", device->index);
    snprintf(device->device.ibdev_path, sizeof(device->device.ibdev_path),
             "/sys/class/infiniband/%.60s", entry);
    device->efa = kind && !*kind;
    if (device->efa)
        efa_make_port(device);
    while (interfaces && (name = strsep(&interfaces, "+")) && device->port_count < PORT_MAX)
        fill_port(device, ++device->port_count, name, all);
    if (device->port_count == 0)
        fill_port(device, ++device->port_count, NULL, all);
    devices[device_count++] = device;
}

static void make_all(void)
{
    char *copy = strdup(settings()->devices), *rest = copy;
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all))
        all = NULL;
    for (char *entry; copy && (entry = strsep(&rest, ","));) {
        if (!*entry)
            continue;
        if (device_count == DEVICE_MAX)
            report_say("WEFT_EMULATOR_DEVICES: '%s' is one too many, at most %d", entry,
                       DEVICE_MAX);
        else
            make_device(entry, all);
    }
    if (all)
        freeifaddrs(all);
    free(copy);
}

struct device *const *device_all(unsigned *count)
{
    pthread_once(&once, make_all);
    *count = device_count;
    return devices;
}

bool device_has_gid(const struct device *device, unsigned number, const void *gid, unsigned type)
{
    if (number == 0 || number > device->port_count)
        return false;
    const struct port *port = &device->ports[number - 1];
    for (unsigned i = 0; i < port->gid_count; i++)
        if (port->gids[i].gid_type == type && memcmp(&port->gids[i].gid, gid, 16) == 0)
            return true;
    return false;
}

static bool is_any_host(const union ibv_gid *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    static const uint8_t zeros[16];

    if (memcmp(gid->raw, mapped, sizeof(mapped)) == 0)
        return gid->raw[12] == 127 || memcmp(gid->raw + 12, zeros, 4) == 0;
    return memcmp(gid->raw, zeros, 15) == 0 && gid->raw[15] <= 1;
}

unsigned device_find_address(const struct device *device, const struct sockaddr *address,
                             unsigned *index)
{
    union ibv_gid gid;

    if (!device_address_gid(address, &gid))
        return 0;
    bool any = is_any_host(&gid);
    for (unsigned number = 1; number <= device->port_count; number++) {
        const struct port *port = &device->ports[number - 1];
        for (unsigned i = 0; i < port->gid_count; i++) {
            const struct ibv_gid_entry *entry = &port->gids[i];
            bool routable = entry->gid.raw[0] != 0xfe || entry->gid.raw[1] != 0x80;
            if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
                continue;
            if (any ? routable : memcmp(&entry->gid, &gid, sizeof(gid)) == 0) {
                *index = i;
                return number;
            }
        }
    }
    return 0;
}
