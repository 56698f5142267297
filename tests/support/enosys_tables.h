/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole tables of a fabric, a domain and regions that answer -FI_ENOSYS, for lowers of tests that
 * replace a function or two. */
#ifndef WEFT_TESTS_SUPPORT_ENOSYS_TABLES_H
#define WEFT_TESTS_SUPPORT_ENOSYS_TABLES_H

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"

/* A function that answers -FI_ENOSYS; its parameters stand at the end. */
#define LACKS(name, ...)                                                                           \
    static inline int name(__VA_ARGS__)                                                            \
    {                                                                                              \
        return -FI_ENOSYS;                                                                         \
    }

LACKS(enosys_fabric_domain, struct fid_fabric *fabric, struct fi_info *info,
      struct fid_domain **domain, void *context)
LACKS(enosys_fabric_eq_open, struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
      void *context)
LACKS(enosys_fabric_wait_open, struct fid_fabric *fabric, struct fi_wait_attr *attr,
      struct fid_wait **waitset)
LACKS(enosys_fabric_trywait, struct fid_fabric *fabric, struct fid **fids, int count)
LACKS(enosys_fabric_domain2, struct fid_fabric *fabric, struct fi_info *info,
      struct fid_domain **domain, uint64_t flags, void *context)

static struct fi_ops_fabric enosys_fabric_ops __attribute__((unused)) = {
    .size = sizeof(enosys_fabric_ops),
    .domain = enosys_fabric_domain,
    .passive_ep = enosys_fabric_passive_ep,
    .eq_open = enosys_fabric_eq_open,
    .wait_open = enosys_fabric_wait_open,
    .trywait = enosys_fabric_trywait,
    .domain2 = enosys_fabric_domain2,
};

LACKS(enosys_domain_av_open, struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
      void *context)
LACKS(enosys_domain_cq_open, struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
      void *context)
LACKS(enosys_domain_endpoint, struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
      void *context)
LACKS(enosys_domain_cntr_open, struct fid_domain *domain, struct fi_cntr_attr *attr,
      struct fid_cntr **cntr, void *context)
LACKS(enosys_domain_poll_open, struct fid_domain *domain, struct fi_poll_attr *attr,
      struct fid_poll **pollset)
LACKS(enosys_domain_endpoint2, struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
      uint64_t flags, void *context)

static struct fi_ops_domain enosys_domain_ops __attribute__((unused)) = {
    .size = sizeof(enosys_domain_ops),
    .av_open = enosys_domain_av_open,
    .cq_open = enosys_domain_cq_open,
    .endpoint = enosys_domain_endpoint,
    .scalable_ep = enosys_domain_scalable_ep,
    .cntr_open = enosys_domain_cntr_open,
    .poll_open = enosys_domain_poll_open,
    .stx_ctx = enosys_domain_stx_ctx,
    .srx_ctx = enosys_domain_srx_ctx,
    .query_atomic = enosys_domain_query_atomic,
    .query_collective = enosys_domain_query_collective,
    .endpoint2 = enosys_domain_endpoint2,
};

LACKS(enosys_mr_reg, struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
      uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
LACKS(enosys_mr_regv, struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
      uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
LACKS(enosys_mr_regattr, struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
      struct fid_mr **mr)

static struct fi_ops_mr enosys_mr_ops __attribute__((unused)) = {
    .size = sizeof(enosys_mr_ops),
    .reg = enosys_mr_reg,
    .regv = enosys_mr_regv,
    .regattr = enosys_mr_regattr,
};

#endif
