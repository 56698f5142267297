/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool near_device_at(const char *sysfs, const char *name, const cpu_set_t *cpus)
{
    static const char *const classes[] = {"net", "infiniband"};
    char path[256], line[1024];
    bool near = true;

    if (!*name || strchr(name, '/'))
        return true;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        FILE *file;

        snprintf(path, sizeof(path), "%s/class/%s/%s/device/local_cpulist", sysfs, classes[i],
                 name);
        file = fopen(path, "re");
        if (!file)
            continue;
        near = !fgets(line, sizeof(line), file) || near_cpulist_meets(line, cpus);
        fclose(file);
        return near;
    }
    return true;
}

bool near_device(const char *name)
{
    cpu_set_t cpus;

    return sched_getaffinity(0, sizeof(cpus), &cpus) || near_device_at("/sys", name, &cpus);
}
