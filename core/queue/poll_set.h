/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Poll sets: the completion queues and counters of a domain, driven and looked at by one call. The
 * set keeps them open; they do not refer to it. Source: fi_poll(3).
 */
#ifndef WEFT_CORE_QUEUE_POLL_SET_H
#define WEFT_CORE_QUEUE_POLL_SET_H

#include <rdma/fi_eq.h>

#include "core/base/fid.h"

/*
 * -FI_EINVAL (flags), -FI_ENOMEM. Of the set: fi_poll_add, fi_poll_del: -FI_EINVAL for flags, an
 * object that is no queue or counter of this domain, one that is in the set already, or is not;
 * -FI_ENOMEM. fi_poll: the contexts of those queues that are not empty, and of counters that have
 * counted since their context was last returned, up to count; with fewer places than objects all
 * have their turn. close: -FI_EBUSY while something is in it.
 */
int poll_set_open(struct domain *domain, const struct fi_poll_attr *attr, struct fid_poll **set);

#endif
