/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/enosys.h"

#include <rdma/fi_errno.h>

int enosys_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    return -FI_ENOSYS;
}

int enosys_control(struct fid *fid, int command, void *arg)
{
    return -FI_ENOSYS;
}

int enosys_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    return -FI_ENOSYS;
}

int enosys_tostr(const struct fid *fid, char *buf, size_t len)
{
    return -FI_ENOSYS;
}

int enosys_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
    return -FI_ENOSYS;
}

int enosys_fabric_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                             void *context)
{
    return -FI_ENOSYS;
}

int enosys_domain_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                              void *context)
{
    return -FI_ENOSYS;
}

int enosys_domain_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                          void *context)
{
    return -FI_ENOSYS;
}

int enosys_domain_srx_ctx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
                          void *context)
{
    return -FI_ENOSYS;
}

int enosys_domain_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                               struct fi_atomic_attr *attr, uint64_t flags)
{
    return -FI_ENOSYS;
}

int enosys_domain_query_collective(struct fid_domain *domain, enum fi_collective_op coll,
                                   struct fi_collective_attr *attr, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t enosys_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t enosys_cq_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout)
{
    return -FI_ENOSYS;
}

ssize_t enosys_cq_sreadfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
                            const void *cond, int timeout)
{
    return -FI_ENOSYS;
}

int enosys_cq_signal(struct fid_cq *cq)
{
    return -FI_ENOSYS;
}

uint64_t enosys_cntr_readerr(struct fid_cntr *cntr)
{
    return (uint64_t)-FI_ENOSYS;
}

int enosys_cntr_add(struct fid_cntr *cntr, uint64_t value)
{
    return -FI_ENOSYS;
}

int enosys_cntr_set(struct fid_cntr *cntr, uint64_t value)
{
    return -FI_ENOSYS;
}

int enosys_cntr_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
{
    return -FI_ENOSYS;
}

int enosys_cntr_adderr(struct fid_cntr *cntr, uint64_t value)
{
    return -FI_ENOSYS;
}

int enosys_cntr_seterr(struct fid_cntr *cntr, uint64_t value)
{
    return -FI_ENOSYS;
}

ssize_t enosys_eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t enosys_eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t enosys_eq_sread(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout,
                        uint64_t flags)
{
    return -FI_ENOSYS;
}

const char *enosys_eq_strerror(struct fid_eq *eq, int prov_errno, const void *err_data, char *buf,
                               size_t len)
{
    return "";
}

int enosys_av_av_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set,
                     void *context)
{
    return -FI_ENOSYS;
}
