/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric and domain. */
#ifndef WEFT_SHM_DOMAIN_H
#define WEFT_SHM_DOMAIN_H

#include "core/fid.h"
#include "core/part.h"
#include "core/unit.h"

/* Of a way to copy large transfers. */
enum shm_use {
    SHM_AUTO,
    SHM_ON,
    SHM_OFF,
};

struct shm_fabric {
    struct fabric base;
    struct unit *unit; /* of event queues */
    struct params *params;
    enum shm_use cma, xpmem;
    int64_t connect_ms;
    size_t max_saved;
};

struct shm_domain {
    struct domain base;
    struct shm_fabric *fabric;
};

int shm_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

#endif
