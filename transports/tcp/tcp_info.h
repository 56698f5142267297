/* SPDX-License-Identifier: BSD-2-Clause */
/* What tcp offers: one info for each address of a chosen interface and each flavour. */
#ifndef WEFT_TCP_INFO_H
#define WEFT_TCP_INFO_H

#include <rdma/fi_errno.h>

#include "core/addr.h"
#include "core/part.h"

enum {
    TCP_IOV_LIMIT = 4,  /* local segments of an operation */
    TCP_MR_IOV_MAX = 4, /* segments of a memory region */
    TCP_PLAIN_SIZE = 4096,
    TCP_SHARED_SIZE = 65536,
};

/* `offer` of the part table. */
int tcp_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);

/* Replaces an address of info in its addr_format (text for FI_ADDR_STR). -FI_ENOMEM. */
int tcp_info_set_src(struct fi_info *info, const struct sockaddr *addr);
int tcp_info_set_dest(struct fi_info *info, const struct sockaddr *addr);
/* fi_getname's copy of an address in `format`; -FI_ETOOSMALL, with the needed length in *len. */
int tcp_addr_export(uint32_t format, const struct sockaddr *addr, void *raw, size_t *len);

/* What fi_setopt answers to FI_OPT_SHARED_MEMORY_PERMITTED: none is used, permitted or not. */
static inline int tcp_shared_memory(size_t optlen)
{
    return optlen == sizeof(bool) ? 0 : -FI_EINVAL;
}

#endif
