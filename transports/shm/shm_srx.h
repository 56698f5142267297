/* SPDX-License-Identifier: BSD-2-Clause */
/* The upper's receive context, opened with FI_PEER. shm has none of its own. */
#ifndef WEFT_SHM_SRX_H
#define WEFT_SHM_SRX_H

#include "core/fid.h"
#include "transports/shm/shm_ep.h"

struct shm_srx {
    struct fid_ep fid;
    struct shm_domain *domain;
    struct children children;
    struct fid_peer_srx *peer;
};

#endif
