/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric and domain. */
#ifndef WEFT_SHM_DOMAIN_H
#define WEFT_SHM_DOMAIN_H

#include "core/domain/plain_fabric.h"
#include "core/part/part.h"
#include "core/progress/progress.h"

/* Of a way to copy large transfers. */
enum shm_use {
    SHM_AUTO,
    SHM_ON,
    SHM_OFF,
};

struct shm_fabric {
    union {
        struct plain_fabric plain;
        struct fabric base; /* plain.base */
    };
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
