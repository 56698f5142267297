/* SPDX-License-Identifier: BSD-2-Clause */
/* The layer: what is behind `hook` of its objects, and its tables. */
#ifndef WEFT_FAULT_H
#define WEFT_FAULT_H

#include "core/pass.h"
#include "layers/fault/fault_plan.h"

/* Of a fabric the hook is a struct fault_plan. */
struct fault_ep {
    struct fault_plan *plan;
    uint64_t number;
    atomic_uint_fast64_t calls;
    struct fid_eq *eq; /* bound to it; ours */
};

/* The event that stands in the lower's queue for the FI_SHUTDOWN of the connection that was ended:
 * one about an endpoint would outlive it there. */
enum {
    FAULT_ENDED = 0x46415554
};

struct fault_cq {
    struct fault_plan *plan;
    atomic_uint_fast64_t silent_until; /* CLOCK_MONOTONIC, ns: until then nothing comes */
};

static inline struct fault_plan *fault_of(struct fid_domain *domain)
{
    return pass_domain_of(domain)->fabric->hook;
}

void fault_data_ops(struct pass_ops *ops);
void fault_control_ops(struct pass_ops *ops);

/* Does fi_trywait have to say no? */
bool fault_cq_is_silent(const struct fid *fid);

#endif
