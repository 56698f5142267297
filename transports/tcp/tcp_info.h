/* SPDX-License-Identifier: BSD-2-Clause */
/* The infos of tcp: one for each address of a chosen interface and each flavour. */
#ifndef WEFT_TCP_INFO_H
#define WEFT_TCP_INFO_H

#include <rdma/fi_errno.h>

#include "core/net/addr.h"
#include "core/part/part.h"

enum {
    TCP_IOV_LIMIT = 4,  /* local segments of an operation */
    TCP_MR_IOV_MAX = 4, /* segments of a memory region */
    TCP_PLAIN_SIZE = 4096,
    TCP_SHARED_SIZE = 65536,
};

/* `offer` of the part table. */
int tcp_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);

/* fi_setopt of FI_OPT_SHARED_MEMORY_PERMITTED: tcp uses none, permitted or not. */
static inline int tcp_shared_memory(size_t optlen)
{
    return optlen == sizeof(bool) ? 0 : -FI_EINVAL;
}

#endif
