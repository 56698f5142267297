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

int enosys_fabric_domain(struct fid_fabric *fabric, struct fi_info *info,
                         struct fid_domain **domain, void *context)
{
    return -FI_ENOSYS;
}

int enosys_fabric_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                             void *context)
{
    return -FI_ENOSYS;
}

int enosys_fabric_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                          void *context)
{
    return -FI_ENOSYS;
}

int enosys_fabric_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
                            struct fid_wait **waitset)
{
    return -FI_ENOSYS;
}

int enosys_fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return -FI_ENOSYS;
}

int enosys_fabric_domain2(struct fid_fabric *fabric, struct fi_info *info,
                          struct fid_domain **domain, uint64_t flags, void *context)
{
    return -FI_ENOSYS;
}

struct fi_ops_fabric enosys_fabric_ops = {
    .size = sizeof(enosys_fabric_ops),
    .domain = enosys_fabric_domain,
    .passive_ep = enosys_fabric_passive_ep,
    .eq_open = enosys_fabric_eq_open,
    .wait_open = enosys_fabric_wait_open,
    .trywait = enosys_fabric_trywait,
    .domain2 = enosys_fabric_domain2,
};

int enosys_domain_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                          void *context)
{
    return -FI_ENOSYS;
}

int enosys_domain_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                          void *context)
{
    return -FI_ENOSYS;
}

int enosys_domain_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                           void *context)
{
    return -FI_ENOSYS;
}

int enosys_domain_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                              void *context)
{
    return -FI_ENOSYS;
}

int enosys_domain_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
                            struct fid_cntr **cntr, void *context)
{
    return -FI_ENOSYS;
}

int enosys_domain_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
                            struct fid_poll **pollset)
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

int enosys_domain_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                            uint64_t flags, void *context)
{
    return -FI_ENOSYS;
}

struct fi_ops_domain enosys_domain_ops = {
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

int enosys_mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    return -FI_ENOSYS;
}

int enosys_mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                   uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
                   void *context)
{
    return -FI_ENOSYS;
}

int enosys_mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **mr)
{
    return -FI_ENOSYS;
}

struct fi_ops_mr enosys_mr_ops = {
    .size = sizeof(enosys_mr_ops),
    .reg = enosys_mr_reg,
    .regv = enosys_mr_regv,
    .regattr = enosys_mr_regattr,
};

ssize_t enosys_cq_read(struct fid_cq *cq, void *buf, size_t count)
{
    return -FI_ENOSYS;
}

ssize_t enosys_cq_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
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

const char *enosys_cq_strerror(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf,
                               size_t len)
{
    return "";
}

struct fi_ops_cq enosys_cq_ops = {
    .size = sizeof(enosys_cq_ops),
    .read = enosys_cq_read,
    .readfrom = enosys_cq_readfrom,
    .readerr = enosys_cq_readerr,
    .sread = enosys_cq_sread,
    .sreadfrom = enosys_cq_sreadfrom,
    .signal = enosys_cq_signal,
    .strerror = enosys_cq_strerror,
};

uint64_t enosys_cntr_read(struct fid_cntr *cntr)
{
    return (uint64_t)-FI_ENOSYS;
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

struct fi_ops_cntr enosys_cntr_ops = {
    .size = sizeof(enosys_cntr_ops),
    .read = enosys_cntr_read,
    .readerr = enosys_cntr_readerr,
    .add = enosys_cntr_add,
    .set = enosys_cntr_set,
    .wait = enosys_cntr_wait,
    .adderr = enosys_cntr_adderr,
    .seterr = enosys_cntr_seterr,
};

ssize_t enosys_eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t enosys_eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t enosys_eq_write(struct fid_eq *eq, uint32_t event, const void *buf, size_t len,
                        uint64_t flags)
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

struct fi_ops_eq enosys_eq_ops = {
    .size = sizeof(enosys_eq_ops),
    .read = enosys_eq_read,
    .readerr = enosys_eq_readerr,
    .write = enosys_eq_write,
    .sread = enosys_eq_sread,
    .strerror = enosys_eq_strerror,
};

int enosys_av_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr,
                     uint64_t flags, void *context)
{
    return -FI_ENOSYS;
}

int enosys_av_insertsvc(struct fid_av *av, const char *node, const char *service,
                        fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    return -FI_ENOSYS;
}

int enosys_av_insertsym(struct fid_av *av, const char *node, size_t nodecnt, const char *service,
                        size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    return -FI_ENOSYS;
}

int enosys_av_remove(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    return -FI_ENOSYS;
}

int enosys_av_lookup(struct fid_av *av, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
    return -FI_ENOSYS;
}

const char *enosys_av_straddr(struct fid_av *av, const void *addr, char *buf, size_t *len)
{
    return "";
}

int enosys_av_av_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set,
                     void *context)
{
    return -FI_ENOSYS;
}

int enosys_av_insert_auth_key(struct fid_av *av, const void *auth_key, size_t auth_key_size,
                              fi_addr_t *fi_addr, uint64_t flags)
{
    return -FI_ENOSYS;
}

int enosys_av_lookup_auth_key(struct fid_av *av, fi_addr_t addr, void *auth_key,
                              size_t *auth_key_size)
{
    return -FI_ENOSYS;
}

int enosys_av_set_user_id(struct fid_av *av, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags)
{
    return -FI_ENOSYS;
}

struct fi_ops_av enosys_av_ops = {
    .size = sizeof(enosys_av_ops),
    .insert = enosys_av_insert,
    .insertsvc = enosys_av_insertsvc,
    .insertsym = enosys_av_insertsym,
    .remove = enosys_av_remove,
    .lookup = enosys_av_lookup,
    .straddr = enosys_av_straddr,
    .av_set = enosys_av_av_set,
    .insert_auth_key = enosys_av_insert_auth_key,
    .lookup_auth_key = enosys_av_lookup_auth_key,
    .set_user_id = enosys_av_set_user_id,
};

int enosys_av_set_set_union(struct fid_av_set *dst, const struct fid_av_set *src)
{
    return -FI_ENOSYS;
}

int enosys_av_set_intersect(struct fid_av_set *dst, const struct fid_av_set *src)
{
    return -FI_ENOSYS;
}

int enosys_av_set_diff(struct fid_av_set *dst, const struct fid_av_set *src)
{
    return -FI_ENOSYS;
}

int enosys_av_set_insert(struct fid_av_set *set, fi_addr_t addr)
{
    return -FI_ENOSYS;
}

int enosys_av_set_remove(struct fid_av_set *set, fi_addr_t addr)
{
    return -FI_ENOSYS;
}

int enosys_av_set_addr(struct fid_av_set *set, fi_addr_t *coll_addr)
{
    return -FI_ENOSYS;
}

struct fi_ops_av_set enosys_av_set_ops = {
    .size = sizeof(enosys_av_set_ops),
    .set_union = enosys_av_set_set_union,
    .intersect = enosys_av_set_intersect,
    .diff = enosys_av_set_diff,
    .insert = enosys_av_set_insert,
    .remove = enosys_av_set_remove,
    .addr = enosys_av_set_addr,
};
