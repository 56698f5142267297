/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/near.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/net/near_topology.h"

enum {
    LINE = 4096,
    NODES = 1024,
};

bool near_cpulist_meets(const char *list, const cpu_set_t *cpus)
{
    bool any = false;

    while (*list >= '0' && *list <= '9') {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;

        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        any = true;
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(cpu, cpus))
                return true;
        }
        if (*end != ',')
            break;
        list = end + 1;
    }
    return !any;
}

/* A line of a file; false: there is none. */
static bool read_line(char line[LINE], const char *sysfs, const char *fmt, ...)
{
    char path[256];
    int used = snprintf(path, sizeof(path), "%s/", sysfs);
    va_list args;
    FILE *file;
    bool any;

    if (used < 0 || (size_t)used >= sizeof(path))
        return false;
    va_start(args, fmt);
    vsnprintf(path + used, sizeof(path) - (size_t)used, fmt, args);
    va_end(args);
    file = fopen(path, "re");
    if (!file)
        return false;
    any = fgets(line, LINE, file) != NULL;
    fclose(file);
    return any;
}

/* With one node there is one place. */
static bool has_nodes(const char *sysfs)
{
    char line[LINE];

    return read_line(line, sysfs, "devices/system/node/online") && strpbrk(line, ",-");
}

/* A text of the device's; or is there the device at least? Its folder always has this file. */
static bool read_device(char line[LINE], const char *sysfs, const char *class, const char *name,
                        const char *file)
{
    return read_line(line, sysfs, "class/%s/%s/device/%s", class, name, file);
}

/* The least distance of a node to those that have one of the CPUs. */
static unsigned node_distance(const char *sysfs, unsigned node, const cpu_set_t *cpus)
{
    char distances[LINE], list[LINE], *at = distances, *end;
    unsigned least = NEAR_FAR, other = 0;

    if (!read_line(distances, sysfs, "devices/system/node/node%u/distance", node))
        return least;
    for (unsigned long far = strtoul(at, &end, 10); end != at && other < NODES;
         at = end, far = strtoul(at, &end, 10)) {
        /* The n-th distance is of the n-th node that there is. */
        while (!read_line(list, sysfs, "devices/system/node/node%u/cpulist", other))
            if (++other == NODES)
                return least;
        if (list[0] >= '0' && near_cpulist_meets(list, cpus) && far && far < least)
            least = (unsigned)far;
        other++;
    }
    return least;
}

unsigned near_distance_at(const char *sysfs, const char *name, const cpu_set_t *cpus)
{
    static const char *const classes[] = {"net", "infiniband"};
    char line[LINE];

    if (!*name || strchr(name, '/'))
        return 0;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        int node;

        if (!read_device(line, sysfs, classes[i], name, "local_cpulist")) {
            if (read_device(line, sysfs, classes[i], name, "uevent") && has_nodes(sysfs))
                return NEAR_UNKNOWN;
            continue;
        }
        if (near_cpulist_meets(line, cpus))
            return 0;
        if (!read_device(line, sysfs, classes[i], name, "numa_node"))
            return NEAR_FAR;
        node = atoi(line);
        return node < 0 || node >= NODES ? NEAR_FAR : node_distance(sysfs, (unsigned)node, cpus);
    }
    return 0;
}

static unsigned ask_hwloc(const char *name, const cpu_set_t *cpus)
{
#ifdef WEFT_HAVE_HWLOC
    unsigned far = NEAR_FAR;

    if (near_topology_distance(name, cpus, &far))
        return far;
#endif
    return NEAR_UNKNOWN;
}

unsigned near_distance(const char *name)
{
    bool described = getenv("HWLOC_XMLFILE");
    unsigned far = NEAR_UNKNOWN;
    cpu_set_t cpus;

    if (!*name || sched_getaffinity(0, sizeof(cpus), &cpus))
        return 0;
    if (described)
        far = ask_hwloc(name, &cpus);
    if (far == NEAR_UNKNOWN)
        far = near_distance_at("/sys", name, &cpus);
    if (far == NEAR_UNKNOWN && !described)
        far = ask_hwloc(name, &cpus);
    return far == NEAR_UNKNOWN ? 0 : far;
}
