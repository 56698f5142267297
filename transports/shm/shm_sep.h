/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scalable endpoints. A context is a struct shm_ep with links of its own: a transmit context dials,
 * a receive context listens under the endpoint's name and its index (shm_name_socket), and is a
 * progress domain of its own, unless one of them has no queue (core/ep/sep.h). See
 * docs/decisions/contexts.md.
 */
#ifndef WEFT_SHM_SEP_H
#define WEFT_SHM_SEP_H

#include "core/ep/sep.h"
#include "transports/shm/shm_ep.h"

struct shm_sep {
    struct sep base;
    int listener; /* keeps the name while receive context 0 does not listen under it, or -1 */
    char name[SHM_NAME_MAX];
};

int shm_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                 void *context);
/* A context is closed, and does not listen any more. */
void shm_sep_leave(struct shm_ep *context);

#endif
