/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How far is a network device from the process's CPUs? By sysfs: local_cpulist and numa_node of the
 * device, cpulist and distance of the nodes, and the CPUs that the calling thread may run on.
 * hwloc, where it is installed (near_topology.h), is asked before it if HWLOC_XMLFILE is set, and
 * else for a device of which sysfs gives no distance.
 * Sources: Documentation/ABI/testing/sysfs-bus-pci, Documentation/ABI/stable/sysfs-devices-node.
 */
#ifndef WEFT_CORE_NET_NEAR_H
#define WEFT_CORE_NET_NEAR_H

#include <sched.h>
#include <stdbool.h>

enum {
    NEAR_FAR = 255,     /* it is not near, and nothing more is known */
    NEAR_UNKNOWN = 256, /* of the steps only: of its place nothing is said */
};

/* Of a network interface or an RDMA device: 0, it has a CPU of ours, or nothing is known of it, as
 * of virtual ones; else the distance of its node to the nearest node that has one (10: the node
 * itself), or NEAR_FAR. */
unsigned near_distance(const char *name);

/* The steps of it. sysfs: "/sys". NEAR_UNKNOWN: a device without a place, of several nodes. */
unsigned near_distance_at(const char *sysfs, const char *name, const cpu_set_t *cpus);
/* Has a list such as "0-3,8" one of the CPUs? A text that is no such list has all. */
bool near_cpulist_meets(const char *list, const cpu_set_t *cpus);

#endif
