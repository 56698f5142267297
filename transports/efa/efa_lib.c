/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/fork.h"
#include "transports/efa/efa.h"

enum {
    PORT = 1, /* the only one */
};

struct efa_verbs efa_verbs;
struct efa_direct efa_direct;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool looked;
static unsigned forks; /* the process that opened the devices */
static struct efa_device *devices;
static char why[200] = "this node has no EFA device";

int efa_error(int rc)
{
    if (!rc)
        return 0;
    if (rc > 0)
        return -rc;
    return errno ? -errno : -FI_EIO;
}

/* ---- Libraries ---- */

struct symbol {
    const char *name;
    void **function;
};

#define X(result, name, parameters) {"ibv_" #name, (void **)(void *)&efa_verbs.name},
static const struct symbol verbs_symbols[] = {EFA_VERBS(X){NULL, NULL}};
#undef X
#define X(result, name, parameters) {"efadv_" #name, (void **)(void *)&efa_direct.name},
static const struct symbol direct_symbols[] = {EFA_DIRECT(X){NULL, NULL}};
#undef X

/* The library stays loaded: its threads and exit handlers outlive any of our objects. */
static bool load(const char *file, const struct symbol *symbols)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        snprintf(why, sizeof(why), "%s cannot be loaded: %s", file, dlerror());
        return false;
    }
    for (; symbols->name; symbols++) {
        *symbols->function = dlsym(library, symbols->name);
        if (*symbols->function)
            continue;
        snprintf(why, sizeof(why), "%s has no %s: it is too old", file, symbols->name);
        return false;
    }
    return true;
}

/* ---- Devices ---- */

/* False: it is none of EFA's, or cannot be used, for the reason in `why`. */
static bool inquire(struct efa_device *device)
{
    int rc = efa_verbs.query_device(device->context, &device->attr);

    if (rc || device->attr.vendor_id != EFA_VENDOR)
        return false;
    memset(&device->port, 0, sizeof(device->port));
    rc = efa_verbs.query_port(device->context, PORT, &device->port);
    if (!rc)
        rc = efa_direct.query_device(device->context, &device->efa, sizeof(device->efa));
    if (!rc)
        rc = efa_verbs.query_gid(device->context, PORT, 0, &device->gid);
    if (rc)
        snprintf(why, sizeof(why), "the EFA device %s does not answer: %s", device->name,
                 fi_strerror(-efa_error(rc)));
    return !rc;
}

static void add_device(struct ibv_device *ibv)
{
    struct efa_device *device = calloc(1, sizeof(*device));

    if (!device)
        return;
    snprintf(device->name, sizeof(device->name), "%s", efa_verbs.get_device_name(ibv));
    device->context = efa_verbs.open_device(ibv);
    if (!device->context) {
        snprintf(why, sizeof(why), "the RDMA device %s cannot be opened: %s", device->name,
                 fi_strerror(-efa_error(-1)));
        free(device);
    } else if (!inquire(device)) {
        efa_verbs.close_device(device->context);
        free(device);
    } else {
        device->next = devices;
        devices = device;
    }
}

static void find_devices(void)
{
    struct ibv_device **list;

    if (!load("libibverbs.so.1", verbs_symbols) || !load("libefa.so.1", direct_symbols))
        return;
    list = efa_verbs.get_device_list(NULL);
    for (size_t i = 0; list && list[i]; i++)
        add_device(list[i]);
    if (list)
        efa_verbs.free_device_list(list);
}

struct efa_device *efa_devices(struct reasons *reasons)
{
    pthread_mutex_lock(&mutex);
    /* A context is of the process that opened it: a forked child opens its own. */
    if (!looked || forks != fork_generation) {
        devices = NULL;
        find_devices();
        looked = true;
        forks = fork_generation;
    }
    if (!devices)
        reasons_add(reasons, "%s", why);
    pthread_mutex_unlock(&mutex);
    return devices;
}

struct efa_device *efa_device_find(const char *name, size_t len)
{
    struct efa_device *device = efa_devices(NULL);

    while (device && (strlen(device->name) != len || memcmp(device->name, name, len) != 0))
        device = device->next;
    return device;
}
