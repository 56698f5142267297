/* SPDX-License-Identifier: BSD-2-Clause */
/* The infos of shm. */
#ifndef WEFT_SHM_INFO_H
#define WEFT_SHM_INFO_H

#include "core/part/part.h"

int shm_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);

#endif
