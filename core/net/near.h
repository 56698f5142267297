/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is a network device near to the process's CPUs? By sysfs: local_cpulist of the device, and the
 * CPUs that the calling thread may run on. Source: Documentation/ABI/testing/sysfs-bus-pci.
 */
#ifndef WEFT_CORE_NET_NEAR_H
#define WEFT_CORE_NET_NEAR_H

#include <sched.h>
#include <stdbool.h>

/* A network interface or an RDMA device. True also where nothing is known, as of virtual ones. */
bool near_device(const char *name);

/* The steps of it. sysfs: "/sys". */
bool near_device_at(const char *sysfs, const char *name, const cpu_set_t *cpus);
/* Has a list such as "0-3,8" one of the CPUs? A text that is no such list has all. */
bool near_cpulist_meets(const char *list, const cpu_set_t *cpus);

#endif
