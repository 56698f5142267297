/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_VERBS_FABRIC_H
#define WEFT_VERBS_FABRIC_H

#include "core/base/fid.h"
#include "core/part/part.h"

struct verbs_fabric {
    struct fabric base;
    struct params *params;
    int resolve_ms;
    int64_t answer_ms;
    pthread_mutex_t mutex; /* of eqs */
    struct list eqs;       /* struct verbs_eq */
};

int verbs_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

#endif
