/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same question as near.h's, asked of hwloc: it knows topologies that a file describes
 * (HWLOC_XMLFILE), and finds the PCI device behind one that has no place of its own (virtio).
 * libhwloc.so.15 is loaded with the first question, and the topology with it: both stay. Built
 * where its header is.
 */
#ifndef WEFT_CORE_NET_NEAR_TOPOLOGY_H
#define WEFT_CORE_NET_NEAR_TOPOLOGY_H

#include <sched.h>
#include <stdbool.h>

/* Of a network interface or an OpenFabrics device, as near_distance has it. *far: the most that it
 * may be, and is where there is no distance. False: there is no library, no topology, or no such
 * device in it. */
bool near_topology_distance(const char *name, const cpu_set_t *cpus, unsigned *far);

#endif
