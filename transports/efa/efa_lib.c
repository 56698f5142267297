/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/fork.h"
#include "core/base/library.h"
#include "core/net/rdma_device.h"
#include "transports/efa/efa.h"

enum {
    PORT = 1, /* the only one */
};

struct efa_direct efa_direct;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool tried;     /* to load libefa */
static unsigned forks; /* the process whose the devices are */
static struct efa_device *devices;
static char why[LIBRARY_WHY];

#define X(result, name, parameters) {"efadv_" #name, (void **)(void *)&efa_direct.name},
static const struct library_symbol symbols[] = {EFA_DIRECT(X)};
static const struct library_symbol newer[] = {EFA_NEWER(X)};
#undef X

/* Looks up once; a refusal stays, with its reason in `why`. */
static bool load(void)
{
    const char *reason;

    if (!tried) {
        if (verbs_lib_load(&reason))
            snprintf(why, sizeof(why), "%s", reason);
        else
            library_load("libefa.so.1", symbols, sizeof(symbols) / sizeof(symbols[0]), newer,
                         sizeof(newer) / sizeof(newer[0]), why);
    }
    tried = true;
    return !*why;
}

/* ---- Devices ---- */

static int inquire(struct efa_device *device)
{
    int rc = verbs_lib.query_port(device->context, PORT, &device->port);

    if (!rc)
        rc = efa_direct.query_device(device->context, &device->efa, sizeof(device->efa));
    if (!rc)
        rc = verbs_lib.query_gid(device->context, PORT, 0, &device->gid);
    return verbs_error(rc);
}

static void take(const struct rdma_device *found, struct reasons *reasons)
{
    struct efa_device *device = calloc(1, sizeof(*device));
    int rc;

    if (!device)
        return;
    memcpy(device->name, found->name, sizeof(device->name));
    device->context = found->context;
    device->attr = found->attr;
    rc = inquire(device);
    if (!rc) {
        device->next = devices;
        devices = device;
        return;
    }
    reasons_add(reasons, "the EFA device %s does not answer: %s", device->name, fi_strerror(-rc));
    free(device);
}

static struct efa_device *find_locked(const char *name, size_t len)
{
    struct efa_device *device = devices;

    while (device && (strlen(device->name) != len || memcmp(device->name, name, len) != 0))
        device = device->next;
    return device;
}

static void refresh(struct reasons *reasons)
{
    const struct rdma_device *found = rdma_devices(reasons);
    bool any = found;

    if (forks != fork_generation)
        devices = NULL;
    forks = fork_generation;
    for (; found; found = found->next) {
        if (found->attr.vendor_id == RDMA_VENDOR_EFA &&
            !find_locked(found->name, strlen(found->name)))
            take(found, reasons);
    }
    if (any && !devices)
        reasons_add(reasons, "none of this node's RDMA devices is EFA's");
}

struct efa_device *efa_devices(struct reasons *reasons)
{
    struct efa_device *found = NULL;

    if (!rdma_devices_possible()) {
        reasons_add(reasons, RDMA_NO_DEVICE);
        return NULL;
    }
    pthread_mutex_lock(&mutex);
    if (load()) {
        refresh(reasons);
        found = devices;
    } else {
        reasons_add(reasons, "%s", why);
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

struct efa_device *efa_device_find(const char *name, size_t len)
{
    struct efa_device *device;

    efa_devices(NULL);
    pthread_mutex_lock(&mutex);
    device = find_locked(name, len);
    pthread_mutex_unlock(&mutex);
    return device;
}
