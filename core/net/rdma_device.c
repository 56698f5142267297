/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/rdma_device.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/fork.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct rdma_device *devices;
static unsigned forks; /* the process that opened them */

static bool has_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry = NULL;

    do
        entry = dir ? readdir(dir) : NULL;
    while (entry && entry->d_name[0] == '.');
    if (dir)
        closedir(dir);
    return entry;
}

bool rdma_devices_possible(void)
{
    const char *sysfs = secure_getenv("SYSFS_PATH");
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%s/class/infiniband", sysfs ? sysfs : "/sys");
    return has_entries(folder) || access("/dev/infiniband", F_OK) == 0;
}

static bool is_open(const char *name)
{
    const struct rdma_device *device = devices;

    while (device && strcmp(device->name, name))
        device = device->next;
    return device;
}

static void open_one(struct ibv_device *ibv, const char *name, struct reasons *reasons)
{
    struct rdma_device *device = calloc(1, sizeof(*device));
    int rc;

    if (!device)
        return;
    snprintf(device->name, sizeof(device->name), "%s", name);
    device->context = verbs_lib.open_device(ibv);
    rc = device->context ? verbs_lib.query_device(device->context, &device->attr) : -1;
    if (!rc) {
        device->next = devices;
        devices = device;
        return;
    }
    reasons_add(reasons, "the RDMA device %s cannot be opened: %s", name,
                fi_strerror(-verbs_error(rc)));
    if (device->context)
        verbs_lib.close_device(device->context);
    free(device);
}

const struct rdma_device *rdma_devices(struct reasons *reasons)
{
    int count = 0;
    struct ibv_device **list = verbs_lib.get_device_list(&count);
    const struct rdma_device *found;

    if (!list || !count)
        reasons_add(reasons, RDMA_NO_DEVICE);
    pthread_mutex_lock(&mutex);
    /* A context is of the process that opened it. */
    if (forks != fork_generation)
        devices = NULL;
    forks = fork_generation;
    for (int i = 0; list && i < count; i++) {
        const char *name = verbs_lib.get_device_name(list[i]);

        if (!is_open(name))
            open_one(list[i], name, reasons);
    }
    found = devices;
    pthread_mutex_unlock(&mutex);
    if (list)
        verbs_lib.free_device_list(list);
    return found;
}
