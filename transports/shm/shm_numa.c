/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_numa.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "transports/shm/shm_ring.h"

static void place_half(const struct shm_numa *numa, char *region, int half, int node)
{
    if (node < 0)
        return;
    numa->prefer(region + half * SHM_HALF, SHM_HALF, node);
    numa->prefer(region + 2 * SHM_HALF + half * SHM_BULK, SHM_BULK, node);
}

void shm_numa_place(const struct shm_numa *numa, void *region, int half, pid_t pid)
{
    if (!numa)
        return;
    place_half(numa, region, half, numa->node_here());
    place_half(numa, region, !half, pid ? numa->node_of(pid) : -1);
}

#ifdef WEFT_HAVE_NUMA

#include <numa.h>
#include <numaif.h>
#include <sched.h>

static int node_here(void)
{
    int cpu = sched_getcpu();

    return cpu < 0 ? -1 : numa_node_of_cpu(cpu);
}

/* The 39th word of its stat; the second one is a name in parentheses, of any characters. */
static int node_of(pid_t pid)
{
    enum {
        BEFORE = 36
    };
    char path[64], line[1024], *at;
    FILE *file;
    int cpu;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (!file)
        return -1;
    at = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
    fclose(file);
    for (int word = 0; at && word <= BEFORE; word++)
        at = strchr(at + 1, ' ');
    return at && sscanf(at, "%d", &cpu) == 1 ? numa_node_of_cpu(cpu) : -1;
}

/* Where it is refused (containers do) pages come from wherever the kernel likes. */
static int prefer(void *memory, size_t size, int node)
{
    unsigned long mask[16] = {0};
    const unsigned bits = 8 * sizeof(mask[0]);

    if ((unsigned)node >= sizeof(mask) * 8)
        return -1;
    mask[(unsigned)node / bits] = 1ul << (unsigned)node % bits;
    return (int)mbind(memory, size, MPOL_PREFERRED, mask, sizeof(mask) * 8, 0);
}

static const struct shm_numa real = {node_here, node_of, prefer};
static bool several;

static void count_nodes(void)
{
    several = numa_available() >= 0 && numa_num_configured_nodes() > 1;
}

const struct shm_numa *shm_numa_real(void)
{
    return &real;
}

const struct shm_numa *shm_numa(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, count_nodes);
    return several ? &real : NULL;
}

#else

const struct shm_numa *shm_numa_real(void)
{
    return NULL;
}

const struct shm_numa *shm_numa(void)
{
    return NULL;
}

#endif
