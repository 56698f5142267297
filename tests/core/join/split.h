/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The smallest join: one endpoint over two, which sends each operation to one of them by its peer.
 * Even addresses are the first lower's, odd ones the second's, both at half the number. Receives
 * are posted to a shared context from which both lowers take them; the lowers write completions to
 * the queue that both are bound to.
 */
#ifndef TESTS_CORE_JOIN_SPLIT_H
#define TESTS_CORE_JOIN_SPLIT_H

#include "core/ep/ep.h"

struct split {
    union {
        struct ep base;
        struct fid_ep fid; /* base.fid */
    };
    struct op_target lower[2], receives;
};

/* An endpoint in *split over two that are enabled; the caller closes those. */
void split_open(struct split *split, struct fid_ep *even, struct fid_ep *odd,
                struct fid_ep *receives);

#endif
