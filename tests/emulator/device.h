/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The emulated devices. Each port stands on network interfaces of the machine, whose addresses make
 * its GID table, as with RoCE: for each address an entry of type v1, then one of type v2. Devices
 * of the kind EFA are others: efa.h.
 */
#ifndef WEFT_EMULATOR_DEVICE_H
#define WEFT_EMULATOR_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <sys/socket.h>

enum {
    DEVICE_MAX = 16,
    PORT_MAX = 4,
    GID_MAX = 32,
    DEVICE_MTU = 4096, /* of the port; datagrams are at most that long */
};

struct port {
    struct ibv_gid_entry gids[GID_MAX];
    unsigned gid_count;
    bool down;
    bool hangs; /* while it is down nothing fails: requests wait for it */
};

struct device {
    struct ibv_device device; /* first: what the interface hands out */
    unsigned index;
    unsigned port_count;
    struct port ports[PORT_MAX]; /* port number n is ports[n - 1] */
    bool removed;
    bool efa; /* efa.h */
};

static inline struct device *device_of(struct ibv_device *device)
{
    return (struct device *)(void *)device;
}

/* The devices that WEFT_EMULATOR_DEVICES names, made at the first call; *count of them. */
struct device *const *device_all(unsigned *count);

/* True if port `number` of the device has this GID with this type. */
bool device_has_gid(const struct device *device, unsigned number, const void *gid, unsigned type);

/* The RoCE v2 entry for an IP address; loopback and "any" have the first routable one. Returns the
 * port's number and *index; 0 if the device does not have it. */
unsigned device_find_address(const struct device *device, const struct sockaddr *address,
                             unsigned *index);

uint64_t device_guid(const struct device *device); /* network order */

/* The GID that an IP address becomes; false for other families. */
bool device_address_gid(const struct sockaddr *address, union ibv_gid *gid);

#endif
