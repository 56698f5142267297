/* SPDX-License-Identifier: BSD-2-Clause */
/* The fabric and domain objects. Each has one of the lower's; regions are the lower's. */
#ifndef WEFT_LAYERS_ARQ_ARQ_DOMAIN_H
#define WEFT_LAYERS_ARQ_ARQ_DOMAIN_H

#include "core/layer/lower_domain.h"

/* Of the part table. */
int arq_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

#endif
