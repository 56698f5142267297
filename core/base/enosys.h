/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers for functions that a part does not offer, as far as some part leaves them out:
 * -FI_ENOSYS, but -FI_ENOPROTOOPT for options, and the empty text where a text is asked.
 */
#ifndef WEFT_CORE_BASE_ENOSYS_H
#define WEFT_CORE_BASE_ENOSYS_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/* struct fi_ops. */
int enosys_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int enosys_control(struct fid *fid, int command, void *arg);
int enosys_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int enosys_tostr(const struct fid *fid, char *buf, size_t len);
int enosys_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);
/* The rest of a struct fi_ops of an object that gives and takes no tables of functions, and has no
 * text; */
#define NO_FID_TABLES .ops_open = enosys_ops_open, .tostr = enosys_tostr, .ops_set = enosys_ops_set
/* and of one that does nothing but close. */
#define FID_CLOSES_ONLY .bind = enosys_bind, .control = enosys_control, NO_FID_TABLES

/* Whole tables, */
extern struct fi_ops_ep enosys_ep_ops;
extern struct fi_ops_cm enosys_cm_ops;

/* and functions one by one, for tables that do something else too. */
int enosys_fabric_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                             void *context);
int enosys_domain_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                              void *context);
int enosys_domain_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                          void *context);
int enosys_domain_srx_ctx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
                          void *context);
int enosys_domain_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                               struct fi_atomic_attr *attr, uint64_t flags);
int enosys_domain_query_collective(struct fid_domain *domain, enum fi_collective_op coll,
                                   struct fi_collective_attr *attr, uint64_t flags);
ssize_t enosys_ep_cancel(fid_t fid, void *context);
int enosys_ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen);
int enosys_ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen);
int enosys_ep_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
                     void *context);
int enosys_ep_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
                     void *context);
ssize_t enosys_ep_rx_size_left(struct fid_ep *ep);
ssize_t enosys_ep_tx_size_left(struct fid_ep *ep);
/* In a struct fi_ops_ep of an object that neither has contexts nor transfers data. */
#define NO_EP_CONTEXTS                                                                             \
    .tx_ctx = enosys_ep_tx_ctx, .rx_ctx = enosys_ep_rx_ctx,                                        \
    .rx_size_left = enosys_ep_rx_size_left, .tx_size_left = enosys_ep_tx_size_left
int enosys_cm_setname(fid_t fid, void *addr, size_t addrlen);
int enosys_cm_getname(fid_t fid, void *addr, size_t *addrlen);
int enosys_cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);
int enosys_cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
int enosys_cm_listen(struct fid_pep *pep);
int enosys_cm_accept(struct fid_ep *ep, const void *param, size_t paramlen);
int enosys_cm_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen);
int enosys_cm_shutdown(struct fid_ep *ep, uint64_t flags);
int enosys_cm_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
                   void *context);
/* In a struct fi_ops_cm of an endpoint that has a name and no connection: the rest of it. */
#define NO_CM_CONNECTION                                                                           \
    .getpeer = enosys_cm_getpeer, .connect = enosys_cm_connect, .listen = enosys_cm_listen,        \
    .accept = enosys_cm_accept, .reject = enosys_cm_reject, .shutdown = enosys_cm_shutdown,        \
    .join = enosys_cm_join
ssize_t enosys_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags);
ssize_t enosys_cq_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout);
ssize_t enosys_cq_sreadfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
                            const void *cond, int timeout);
int enosys_cq_signal(struct fid_cq *cq);
uint64_t enosys_cntr_readerr(struct fid_cntr *cntr);
int enosys_cntr_add(struct fid_cntr *cntr, uint64_t value);
int enosys_cntr_set(struct fid_cntr *cntr, uint64_t value);
int enosys_cntr_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout);
int enosys_cntr_adderr(struct fid_cntr *cntr, uint64_t value);
int enosys_cntr_seterr(struct fid_cntr *cntr, uint64_t value);
ssize_t enosys_eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags);
ssize_t enosys_eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags);
ssize_t enosys_eq_sread(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout,
                        uint64_t flags);
const char *enosys_eq_strerror(struct fid_eq *eq, int prov_errno, const void *err_data, char *buf,
                               size_t len);
int enosys_av_av_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set,
                     void *context);

#endif
