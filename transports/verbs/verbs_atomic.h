/* SPDX-License-Identifier: BSD-2-Clause */
/* The atomic operations that devices have. */
#ifndef WEFT_VERBS_ATOMIC_H
#define WEFT_VERBS_ATOMIC_H

#include "core/ep/ep.h"
#include "transports/verbs/verbs_device.h"

struct verbs_ep;

bool verbs_has_atomics(const struct verbs_device *device);
/* The *valid functions of an endpoint, and fi_query_atomic. -FI_EOPNOTSUPP. */
int verbs_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                       size_t *count);
int verbs_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                       struct fi_atomic_attr *attr, uint64_t flags);

/* Can the device do it? Pure. As atomic_check_op, and -FI_EINVAL for an address that is not
 * aligned. */
int verbs_atomic_check(const struct op *op);
/* The request for one that was checked. Its segments, or -FI_EINVAL: no descriptor. */
int verbs_atomic_fill(const struct verbs_ep *ep, const struct op *op, struct ibv_send_wr *wr,
                      struct ibv_sge *sge);

/* Of an endpoint that is enabled with FI_ATOMIC: memory for results that no caller wants. */
int verbs_atomic_open(struct verbs_ep *ep);
void verbs_atomic_close(struct verbs_ep *ep);

#endif
