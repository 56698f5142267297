/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/near_topology.h"

#include <errno.h>
#include <hwloc.h>
#include <pthread.h>
#include <string.h>

#include "core/base/library.h"
#include "core/base/log.h"

/* X(result, name, parameters): names without hwloc_. */
#define FUNCTIONS(X)                                                                               \
    X(unsigned, get_api_version, (void))                                                           \
    X(int, topology_init, (hwloc_topology_t *))                                                    \
    X(void, topology_destroy, (hwloc_topology_t))                                                  \
    X(int, topology_set_components, (hwloc_topology_t, unsigned long, const char *))               \
    X(int, topology_set_io_types_filter, (hwloc_topology_t, enum hwloc_type_filter_e))             \
    X(int, topology_set_flags, (hwloc_topology_t, unsigned long))                                  \
    X(int, topology_load, (hwloc_topology_t))                                                      \
    X(hwloc_obj_t, get_obj_by_depth, (hwloc_topology_t, int, unsigned))                            \
    X(int, bitmap_isset, (hwloc_const_bitmap_t, unsigned))                                         \
    X(int, distances_get_by_type,                                                                  \
      (hwloc_topology_t, hwloc_obj_type_t, unsigned *, struct hwloc_distances_s **, unsigned long, \
       unsigned long))                                                                             \
    X(void, distances_release, (hwloc_topology_t, struct hwloc_distances_s *))

#define MEMBER(result, name, parameters) result(*name) parameters;
static struct {
    FUNCTIONS(MEMBER)
} lib;

#define SYMBOL(result, name, parameters) {"hwloc_" #name, (void **)(void *)&lib.name},
static const struct library_symbol symbols[] = {FUNCTIONS(SYMBOL)};

/* They initialize GPUs and ask display servers, for devices that nothing here asks of. */
static const char *const unwanted[] = {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static hwloc_topology_t topology; /* or NULL; not changed any more, so it needs no lock */

static int load_library(void)
{
    char why[LIBRARY_WHY];
    int rc =
        library_load("libhwloc.so.15", symbols, sizeof(symbols) / sizeof(symbols[0]), NULL, 0, why);

    if (rc) {
        LOG_DEBUG("core", FI_LOG_DOMAIN, "rails in the order of sysfs alone: %s", why);
        return rc;
    }
    if (lib.get_api_version() >> 16 == HWLOC_API_VERSION >> 16)
        return 0;
    LOG_DEBUG("core", FI_LOG_DOMAIN, "rails in the order of sysfs alone: libhwloc is of version %u",
              lib.get_api_version() >> 16);
    return -1;
}

static void load(void)
{
    hwloc_topology_t found;

    if (load_library() || lib.topology_init(&found))
        return;
    for (size_t i = 0; i < sizeof(unwanted) / sizeof(unwanted[0]); i++)
        lib.topology_set_components(found, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
    if (!lib.topology_set_io_types_filter(found, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) &&
        !lib.topology_set_flags(found, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) &&
        !lib.topology_load(found)) {
        topology = found;
        return;
    }
    LOG_DEBUG("core", FI_LOG_DOMAIN, "rails in the order of sysfs alone: no topology: %s",
              strerror(errno));
    lib.topology_destroy(found);
}

/* The object with CPUs that a device is attached to; NULL: there is no such device. */
static hwloc_obj_t place_of(const char *name)
{
    hwloc_obj_t device;

    for (unsigned i = 0; (device = lib.get_obj_by_depth(topology, HWLOC_TYPE_DEPTH_OS_DEVICE, i));
         i++) {
        if ((device->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK ||
             device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) &&
            device->name && !strcmp(device->name, name))
            break;
    }
    while (device && !device->cpuset)
        device = device->parent;
    return device;
}

static bool meets(const struct hwloc_obj *place, const cpu_set_t *cpus)
{
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, cpus) && lib.bitmap_isset(place->cpuset, cpu))
            return true;
    }
    return false;
}

static bool has_node(const struct hwloc_obj *place, const struct hwloc_obj *node)
{
    return place->nodeset && lib.bitmap_isset(place->nodeset, node->os_index);
}

/* From the nodes of a place to those with one of the CPUs, the least; `most`: there is none. */
static unsigned node_distance(const struct hwloc_obj *place, const cpu_set_t *cpus, unsigned most)
{
    struct hwloc_distances_s *matrix = NULL;
    unsigned least = most, count = 1;

    if (lib.distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &matrix,
                                  HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) ||
        !count)
        return least;
    for (unsigned i = 0; i < matrix->nbobjs * matrix->nbobjs; i++) {
        const struct hwloc_obj *from = matrix->objs[i / matrix->nbobjs];
        const struct hwloc_obj *to = matrix->objs[i % matrix->nbobjs];

        if (matrix->values[i] && matrix->values[i] < least && has_node(place, from) &&
            meets(to, cpus))
            least = (unsigned)matrix->values[i];
    }
    lib.distances_release(topology, matrix);
    return least;
}

bool near_topology_distance(const char *name, const cpu_set_t *cpus, unsigned *far)
{
    hwloc_obj_t place;

    pthread_once(&once, load);
    place = topology ? place_of(name) : NULL;
    if (place)
        *far = meets(place, cpus) ? 0 : node_distance(place, cpus, *far);
    return place;
}
