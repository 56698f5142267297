/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults that WEFT_EMULATOR_FAULTS asks for; the grammar is in fault.c. The lock is held. */
#ifndef WEFT_EMULATOR_FAULT_H
#define WEFT_EMULATOR_FAULT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "device.h"

/* Starts the clocks of ports and removals, at the first opened device. */
void fault_start(void);

/* The status that a request fails with, as its turn comes; IBV_WC_SUCCESS: it does not fail. */
enum ibv_wc_status fault_request(const struct device *device, enum ibv_wr_opcode opcode);

/* True if a packet is to be lost. */
bool fault_drop(const struct device *device);

/* Nanoseconds that the next packet is to wait. */
uint64_t fault_delay(const struct device *device);

/* True if a receive that is there is not to be found. */
bool fault_not_ready(const struct device *device);

/* An errno value that a registration is to fail with; 0: none. */
int fault_registration(void);

/* An errno value that the opening of the device is to fail with; 0: none. */
int fault_open(const struct device *device);

/* True if the GID that a queue pair is to use leaves the table just now. */
bool fault_gid(const struct device *device);

enum fault_connect {
    FAULT_CONNECT_NONE,
    FAULT_CONNECT_REJECT,
    FAULT_CONNECT_TIMEOUT,
    FAULT_CONNECT_UNREACHABLE,
    FAULT_CONNECT_LATE, /* it is made, and the peer turns out to be unreachable afterwards */
    FAULT_CONNECT_ADDRESS,
    FAULT_CONNECT_ROUTE,
};

/* The fate of a step of a connection: address resolution, route resolution, connect. */
enum fault_connect fault_connect(const struct device *device, enum fault_connect step);

/* Called when a device is removed, by the other library too. */
extern void (*fault_on_removal)(const struct device *device);

#endif
