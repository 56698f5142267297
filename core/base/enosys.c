/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/enosys.h"

#include <rdma/fi_errno.h>

/* A function that only answers; its parameters stand at the end. */
#define ANSWER(type, name, answer, ...)                                                            \
    type name(__VA_ARGS__)                                                                         \
    {                                                                                              \
        return answer;                                                                             \
    }

ANSWER(int, enosys_bind, -FI_ENOSYS, struct fid *fid, struct fid *bfid, uint64_t flags)
ANSWER(int, enosys_control, -FI_ENOSYS, struct fid *fid, int command, void *arg)
ANSWER(int, enosys_ops_open, -FI_ENOSYS, struct fid *fid, const char *name, uint64_t flags,
       void **ops, void *context)
ANSWER(int, enosys_tostr, -FI_ENOSYS, const struct fid *fid, char *buf, size_t len)
ANSWER(int, enosys_ops_set, -FI_ENOSYS, struct fid *fid, const char *name, uint64_t flags,
       void *ops, void *context)
ANSWER(int, enosys_fabric_passive_ep, -FI_ENOSYS, struct fid_fabric *fabric, struct fi_info *info,
       struct fid_pep **pep, void *context)
ANSWER(int, enosys_domain_scalable_ep, -FI_ENOSYS, struct fid_domain *domain, struct fi_info *info,
       struct fid_ep **sep, void *context)
ANSWER(int, enosys_domain_stx_ctx, -FI_ENOSYS, struct fid_domain *domain, struct fi_tx_attr *attr,
       struct fid_stx **stx, void *context)
ANSWER(int, enosys_domain_srx_ctx, -FI_ENOSYS, struct fid_domain *domain, struct fi_rx_attr *attr,
       struct fid_ep **rx_ep, void *context)
ANSWER(int, enosys_domain_query_atomic, -FI_ENOSYS, struct fid_domain *domain,
       enum fi_datatype datatype, enum fi_op op, struct fi_atomic_attr *attr, uint64_t flags)
ANSWER(int, enosys_domain_query_collective, -FI_ENOSYS, struct fid_domain *domain,
       enum fi_collective_op coll, struct fi_collective_attr *attr, uint64_t flags)

ANSWER(ssize_t, enosys_ep_cancel, -FI_ENOSYS, fid_t fid, void *context)
ANSWER(int, enosys_ep_getopt, -FI_ENOPROTOOPT, fid_t fid, int level, int optname, void *optval,
       size_t *optlen)
ANSWER(int, enosys_ep_setopt, -FI_ENOPROTOOPT, fid_t fid, int level, int optname,
       const void *optval, size_t optlen)
ANSWER(int, enosys_ep_tx_ctx, -FI_ENOSYS, struct fid_ep *sep, int index, struct fi_tx_attr *attr,
       struct fid_ep **tx_ep, void *context)
ANSWER(int, enosys_ep_rx_ctx, -FI_ENOSYS, struct fid_ep *sep, int index, struct fi_rx_attr *attr,
       struct fid_ep **rx_ep, void *context)
ANSWER(ssize_t, enosys_ep_rx_size_left, -FI_ENOSYS, struct fid_ep *ep)
ANSWER(ssize_t, enosys_ep_tx_size_left, -FI_ENOSYS, struct fid_ep *ep)

struct fi_ops_ep enosys_ep_ops = {
    .size = sizeof(enosys_ep_ops),
    .cancel = enosys_ep_cancel,
    .getopt = enosys_ep_getopt,
    .setopt = enosys_ep_setopt,
    NO_EP_CONTEXTS,
};

ANSWER(int, enosys_cm_setname, -FI_ENOSYS, fid_t fid, void *addr, size_t addrlen)
ANSWER(int, enosys_cm_getname, -FI_ENOSYS, fid_t fid, void *addr, size_t *addrlen)
ANSWER(int, enosys_cm_getpeer, -FI_ENOSYS, struct fid_ep *ep, void *addr, size_t *addrlen)
ANSWER(int, enosys_cm_connect, -FI_ENOSYS, struct fid_ep *ep, const void *addr, const void *param,
       size_t paramlen)
ANSWER(int, enosys_cm_listen, -FI_ENOSYS, struct fid_pep *pep)
ANSWER(int, enosys_cm_accept, -FI_ENOSYS, struct fid_ep *ep, const void *param, size_t paramlen)
ANSWER(int, enosys_cm_reject, -FI_ENOSYS, struct fid_pep *pep, fid_t handle, const void *param,
       size_t paramlen)
ANSWER(int, enosys_cm_shutdown, -FI_ENOSYS, struct fid_ep *ep, uint64_t flags)
ANSWER(int, enosys_cm_join, -FI_ENOSYS, struct fid_ep *ep, const void *addr, uint64_t flags,
       struct fid_mc **mc, void *context)

struct fi_ops_cm enosys_cm_ops = {
    .size = sizeof(enosys_cm_ops),
    .setname = enosys_cm_setname,
    .getname = enosys_cm_getname,
    NO_CM_CONNECTION,
};

ANSWER(ssize_t, enosys_cq_readerr, -FI_ENOSYS, struct fid_cq *cq, struct fi_cq_err_entry *buf,
       uint64_t flags)
ANSWER(ssize_t, enosys_cq_sread, -FI_ENOSYS, struct fid_cq *cq, void *buf, size_t count,
       const void *cond, int timeout)
ANSWER(ssize_t, enosys_cq_sreadfrom, -FI_ENOSYS, struct fid_cq *cq, void *buf, size_t count,
       fi_addr_t *src_addr, const void *cond, int timeout)
ANSWER(int, enosys_cq_signal, -FI_ENOSYS, struct fid_cq *cq)
ANSWER(uint64_t, enosys_cntr_readerr, (uint64_t)-FI_ENOSYS, struct fid_cntr *cntr)
ANSWER(int, enosys_cntr_add, -FI_ENOSYS, struct fid_cntr *cntr, uint64_t value)
ANSWER(int, enosys_cntr_set, -FI_ENOSYS, struct fid_cntr *cntr, uint64_t value)
ANSWER(int, enosys_cntr_wait, -FI_ENOSYS, struct fid_cntr *cntr, uint64_t threshold, int timeout)
ANSWER(int, enosys_cntr_adderr, -FI_ENOSYS, struct fid_cntr *cntr, uint64_t value)
ANSWER(int, enosys_cntr_seterr, -FI_ENOSYS, struct fid_cntr *cntr, uint64_t value)
ANSWER(ssize_t, enosys_eq_read, -FI_ENOSYS, struct fid_eq *eq, uint32_t *event, void *buf,
       size_t len, uint64_t flags)
ANSWER(ssize_t, enosys_eq_readerr, -FI_ENOSYS, struct fid_eq *eq, struct fi_eq_err_entry *buf,
       uint64_t flags)
ANSWER(ssize_t, enosys_eq_sread, -FI_ENOSYS, struct fid_eq *eq, uint32_t *event, void *buf,
       size_t len, int timeout, uint64_t flags)
ANSWER(const char *, enosys_eq_strerror, "", struct fid_eq *eq, int prov_errno,
       const void *err_data, char *buf, size_t len)
ANSWER(int, enosys_av_av_set, -FI_ENOSYS, struct fid_av *av, struct fi_av_set_attr *attr,
       struct fid_av_set **set, void *context)
