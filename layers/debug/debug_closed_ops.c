/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of a closed object: every call on it is reported, answered, and goes nowhere. */
#include <rdma/fi_errno.h>

#include "layers/debug/debug.h"

/* The functions of the tables: their parameters stand at the end; those of the second give a text.
 */
#define DEAD(type, name, fid, call, ...)                                                           \
    static type name(__VA_ARGS__)                                                                  \
    {                                                                                              \
        return debug_use_closed(fid, call);                                                        \
    }
#define DEAD_TEXT(name, fid, call, ...)                                                            \
    static const char *name(__VA_ARGS__)                                                           \
    {                                                                                              \
        debug_use_closed(fid, call);                                                               \
        return "";                                                                                 \
    }

/* ---- Objects of every class ---- */

DEAD(int, dead_close, fid, "fi_close", struct fid *fid)
DEAD(int, dead_bind, fid, "fi_bind", struct fid *fid, struct fid *target, uint64_t flags)
DEAD(int, dead_control, fid, command == FI_ENABLE ? "fi_enable" : "fi_control", struct fid *fid,
     int command, void *arg)
DEAD(int, dead_ops_open, fid, "fi_open_ops", struct fid *fid, const char *name, uint64_t flags,
     void **ops, void *context)
DEAD(int, dead_ops_set, fid, "fi_set_ops", struct fid *fid, const char *name, uint64_t flags,
     void *ops, void *context)

static struct fi_ops dead_fid_ops = {
    .size = sizeof(dead_fid_ops),
    .close = dead_close,
    .bind = dead_bind,
    .control = dead_control,
    .ops_open = dead_ops_open,
    .tostr = enosys_tostr,
    .ops_set = dead_ops_set,
};

/* ---- Data transfers ---- */

static ssize_t dead_post(struct ep *ep, struct op *op)
{
    return debug_use_closed(&ep->fid.fid, op_name(op->call));
}

static int dead_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype,
                             enum fi_op op, size_t *count)
{
    const char *call = function == FI_FETCH_ATOMIC     ? "fi_fetch_atomicvalid"
                       : function == FI_COMPARE_ATOMIC ? "fi_compare_atomicvalid"
                                                       : "fi_atomicvalid";

    return debug_use_closed(&ep->fid.fid, call);
}

/* ---- Fabric ---- */

DEAD(int, dead_fabric_domain, &fabric->fid, "fi_domain", struct fid_fabric *fabric,
     struct fi_info *info, struct fid_domain **domain, void *context)
DEAD(int, dead_fabric_passive_ep, &fabric->fid, "fi_passive_ep", struct fid_fabric *fabric,
     struct fi_info *info, struct fid_pep **pep, void *context)
DEAD(int, dead_fabric_eq_open, &fabric->fid, "fi_eq_open", struct fid_fabric *fabric,
     struct fi_eq_attr *attr, struct fid_eq **eq, void *context)
DEAD(int, dead_fabric_wait_open, &fabric->fid, "fi_wait_open", struct fid_fabric *fabric,
     struct fi_wait_attr *attr, struct fid_wait **waitset)
DEAD(int, dead_fabric_trywait, &fabric->fid, "fi_trywait", struct fid_fabric *fabric,
     struct fid **fids, int count)
DEAD(int, dead_fabric_domain2, &fabric->fid, "fi_domain2", struct fid_fabric *fabric,
     struct fi_info *info, struct fid_domain **domain, uint64_t flags, void *context)

static struct fi_ops_fabric dead_fabric_ops = {
    .size = sizeof(dead_fabric_ops),
    .domain = dead_fabric_domain,
    .passive_ep = dead_fabric_passive_ep,
    .eq_open = dead_fabric_eq_open,
    .wait_open = dead_fabric_wait_open,
    .trywait = dead_fabric_trywait,
    .domain2 = dead_fabric_domain2,
};

/* ---- Domain ---- */

DEAD(int, dead_domain_av_open, &domain->fid, "fi_av_open", struct fid_domain *domain,
     struct fi_av_attr *attr, struct fid_av **av, void *context)
DEAD(int, dead_domain_cq_open, &domain->fid, "fi_cq_open", struct fid_domain *domain,
     struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
DEAD(int, dead_domain_endpoint, &domain->fid, "fi_endpoint", struct fid_domain *domain,
     struct fi_info *info, struct fid_ep **ep, void *context)
DEAD(int, dead_domain_scalable_ep, &domain->fid, "fi_scalable_ep", struct fid_domain *domain,
     struct fi_info *info, struct fid_ep **sep, void *context)
DEAD(int, dead_domain_cntr_open, &domain->fid, "fi_cntr_open", struct fid_domain *domain,
     struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context)
DEAD(int, dead_domain_poll_open, &domain->fid, "fi_poll_open", struct fid_domain *domain,
     struct fi_poll_attr *attr, struct fid_poll **pollset)
DEAD(int, dead_domain_stx_ctx, &domain->fid, "fi_stx_context", struct fid_domain *domain,
     struct fi_tx_attr *attr, struct fid_stx **stx, void *context)
DEAD(int, dead_domain_srx_ctx, &domain->fid, "fi_srx_context", struct fid_domain *domain,
     struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context)
DEAD(int, dead_domain_query_atomic, &domain->fid, "fi_query_atomic", struct fid_domain *domain,
     enum fi_datatype datatype, enum fi_op op, struct fi_atomic_attr *attr, uint64_t flags)
DEAD(int, dead_domain_query_collective, &domain->fid, "fi_query_collective",
     struct fid_domain *domain, enum fi_collective_op coll, struct fi_collective_attr *attr,
     uint64_t flags)
DEAD(int, dead_domain_endpoint2, &domain->fid, "fi_endpoint2", struct fid_domain *domain,
     struct fi_info *info, struct fid_ep **ep, uint64_t flags, void *context)

static struct fi_ops_domain dead_domain_ops = {
    .size = sizeof(dead_domain_ops),
    .av_open = dead_domain_av_open,
    .cq_open = dead_domain_cq_open,
    .endpoint = dead_domain_endpoint,
    .scalable_ep = dead_domain_scalable_ep,
    .cntr_open = dead_domain_cntr_open,
    .poll_open = dead_domain_poll_open,
    .stx_ctx = dead_domain_stx_ctx,
    .srx_ctx = dead_domain_srx_ctx,
    .query_atomic = dead_domain_query_atomic,
    .query_collective = dead_domain_query_collective,
    .endpoint2 = dead_domain_endpoint2,
};

/* ---- Memory regions ---- */

DEAD(int, dead_mr_reg, fid, "fi_mr_reg", struct fid *fid, const void *buf, size_t len,
     uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
     void *context)
DEAD(int, dead_mr_regv, fid, "fi_mr_regv", struct fid *fid, const struct iovec *iov, size_t count,
     uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
     void *context)
DEAD(int, dead_mr_regattr, fid, "fi_mr_regattr", struct fid *fid, const struct fi_mr_attr *attr,
     uint64_t flags, struct fid_mr **mr)

static struct fi_ops_mr dead_mr_ops = {
    .size = sizeof(dead_mr_ops),
    .reg = dead_mr_reg,
    .regv = dead_mr_regv,
    .regattr = dead_mr_regattr,
};

/* ---- Endpoints ---- */

DEAD(ssize_t, dead_ep_cancel, fid, "fi_cancel", fid_t fid, void *context)
DEAD(int, dead_ep_getopt, fid, "fi_getopt", fid_t fid, int level, int optname, void *optval,
     size_t *optlen)
DEAD(int, dead_ep_setopt, fid, "fi_setopt", fid_t fid, int level, int optname, const void *optval,
     size_t optlen)
DEAD(int, dead_ep_tx_ctx, &sep->fid, "fi_tx_context", struct fid_ep *sep, int index,
     struct fi_tx_attr *attr, struct fid_ep **tx_ep, void *context)
DEAD(int, dead_ep_rx_ctx, &sep->fid, "fi_rx_context", struct fid_ep *sep, int index,
     struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context)
DEAD(ssize_t, dead_ep_rx_size_left, &ep->fid, "fi_rx_size_left", struct fid_ep *ep)
DEAD(ssize_t, dead_ep_tx_size_left, &ep->fid, "fi_tx_size_left", struct fid_ep *ep)

static struct fi_ops_ep dead_ep_ops = {
    .size = sizeof(dead_ep_ops),
    .cancel = dead_ep_cancel,
    .getopt = dead_ep_getopt,
    .setopt = dead_ep_setopt,
    .tx_ctx = dead_ep_tx_ctx,
    .rx_ctx = dead_ep_rx_ctx,
    .rx_size_left = dead_ep_rx_size_left,
    .tx_size_left = dead_ep_tx_size_left,
};

/* ---- Connections ---- */

DEAD(int, dead_cm_setname, fid, "fi_setname", fid_t fid, void *addr, size_t addrlen)
DEAD(int, dead_cm_getname, fid, "fi_getname", fid_t fid, void *addr, size_t *addrlen)
DEAD(int, dead_cm_getpeer, &ep->fid, "fi_getpeer", struct fid_ep *ep, void *addr, size_t *addrlen)
DEAD(int, dead_cm_connect, &ep->fid, "fi_connect", struct fid_ep *ep, const void *addr,
     const void *param, size_t paramlen)
DEAD(int, dead_cm_listen, &pep->fid, "fi_listen", struct fid_pep *pep)
DEAD(int, dead_cm_accept, &ep->fid, "fi_accept", struct fid_ep *ep, const void *param,
     size_t paramlen)
DEAD(int, dead_cm_reject, &pep->fid, "fi_reject", struct fid_pep *pep, fid_t handle,
     const void *param, size_t paramlen)
DEAD(int, dead_cm_shutdown, &ep->fid, "fi_shutdown", struct fid_ep *ep, uint64_t flags)
DEAD(int, dead_cm_join, &ep->fid, "fi_join", struct fid_ep *ep, const void *addr, uint64_t flags,
     struct fid_mc **mc, void *context)

static struct fi_ops_cm dead_cm_ops = {
    .size = sizeof(dead_cm_ops),
    .setname = dead_cm_setname,
    .getname = dead_cm_getname,
    .getpeer = dead_cm_getpeer,
    .connect = dead_cm_connect,
    .listen = dead_cm_listen,
    .accept = dead_cm_accept,
    .reject = dead_cm_reject,
    .shutdown = dead_cm_shutdown,
    .join = dead_cm_join,
};

/* ---- Queues ---- */

DEAD(ssize_t, dead_cq_read, &cq->fid, "fi_cq_read", struct fid_cq *cq, void *buf, size_t count)
DEAD(ssize_t, dead_cq_readfrom, &cq->fid, "fi_cq_readfrom", struct fid_cq *cq, void *buf,
     size_t count, fi_addr_t *src_addr)
DEAD(ssize_t, dead_cq_readerr, &cq->fid, "fi_cq_readerr", struct fid_cq *cq,
     struct fi_cq_err_entry *buf, uint64_t flags)
DEAD(ssize_t, dead_cq_sread, &cq->fid, "fi_cq_sread", struct fid_cq *cq, void *buf, size_t count,
     const void *cond, int timeout)
DEAD(ssize_t, dead_cq_sreadfrom, &cq->fid, "fi_cq_sreadfrom", struct fid_cq *cq, void *buf,
     size_t count, fi_addr_t *src_addr, const void *cond, int timeout)
DEAD(int, dead_cq_signal, &cq->fid, "fi_cq_signal", struct fid_cq *cq)
DEAD_TEXT(dead_cq_strerror, &cq->fid, "fi_cq_strerror", struct fid_cq *cq, int prov_errno,
          const void *err_data, char *buf, size_t len)

static struct fi_ops_cq dead_cq_ops = {
    .size = sizeof(dead_cq_ops),
    .read = dead_cq_read,
    .readfrom = dead_cq_readfrom,
    .readerr = dead_cq_readerr,
    .sread = dead_cq_sread,
    .sreadfrom = dead_cq_sreadfrom,
    .signal = dead_cq_signal,
    .strerror = dead_cq_strerror,
};

/* ---- Wait sets and poll sets ---- */

DEAD(int, dead_wait, &set->fid, "fi_wait", struct fid_wait *set, int timeout)
DEAD(int, dead_poll, &set->fid, "fi_poll", struct fid_poll *set, void **context, int count)
DEAD(int, dead_poll_add, &set->fid, "fi_poll_add", struct fid_poll *set, struct fid *fid,
     uint64_t flags)
DEAD(int, dead_poll_del, &set->fid, "fi_poll_del", struct fid_poll *set, struct fid *fid,
     uint64_t flags)

static struct fi_ops_wait dead_wait_ops = {
    .size = sizeof(dead_wait_ops),
    .wait = dead_wait,
};

static struct fi_ops_poll dead_poll_ops = {
    .size = sizeof(dead_poll_ops),
    .poll = dead_poll,
    .poll_add = dead_poll_add,
    .poll_del = dead_poll_del,
};

/* ---- Counters ---- */

static uint64_t dead_cntr_read(struct fid_cntr *cntr)
{
    debug_use_closed(&cntr->fid, "fi_cntr_read");
    return 0;
}

static uint64_t dead_cntr_readerr(struct fid_cntr *cntr)
{
    debug_use_closed(&cntr->fid, "fi_cntr_readerr");
    return 0;
}

DEAD(int, dead_cntr_add, &cntr->fid, "fi_cntr_add", struct fid_cntr *cntr, uint64_t value)
DEAD(int, dead_cntr_set, &cntr->fid, "fi_cntr_set", struct fid_cntr *cntr, uint64_t value)
DEAD(int, dead_cntr_wait, &cntr->fid, "fi_cntr_wait", struct fid_cntr *cntr, uint64_t threshold,
     int timeout)
DEAD(int, dead_cntr_adderr, &cntr->fid, "fi_cntr_adderr", struct fid_cntr *cntr, uint64_t value)
DEAD(int, dead_cntr_seterr, &cntr->fid, "fi_cntr_seterr", struct fid_cntr *cntr, uint64_t value)

static struct fi_ops_cntr dead_cntr_ops = {
    .size = sizeof(dead_cntr_ops),
    .read = dead_cntr_read,
    .readerr = dead_cntr_readerr,
    .add = dead_cntr_add,
    .set = dead_cntr_set,
    .wait = dead_cntr_wait,
    .adderr = dead_cntr_adderr,
    .seterr = dead_cntr_seterr,
};

/* ---- Events ---- */

DEAD(ssize_t, dead_eq_read, &eq->fid, "fi_eq_read", struct fid_eq *eq, uint32_t *event, void *buf,
     size_t len, uint64_t flags)
DEAD(ssize_t, dead_eq_readerr, &eq->fid, "fi_eq_readerr", struct fid_eq *eq,
     struct fi_eq_err_entry *buf, uint64_t flags)
DEAD(ssize_t, dead_eq_write, &eq->fid, "fi_eq_write", struct fid_eq *eq, uint32_t event,
     const void *buf, size_t len, uint64_t flags)
DEAD(ssize_t, dead_eq_sread, &eq->fid, "fi_eq_sread", struct fid_eq *eq, uint32_t *event, void *buf,
     size_t len, int timeout, uint64_t flags)
DEAD_TEXT(dead_eq_strerror, &eq->fid, "fi_eq_strerror", struct fid_eq *eq, int prov_errno,
          const void *err_data, char *buf, size_t len)

static struct fi_ops_eq dead_eq_ops = {
    .size = sizeof(dead_eq_ops),
    .read = dead_eq_read,
    .readerr = dead_eq_readerr,
    .write = dead_eq_write,
    .sread = dead_eq_sread,
    .strerror = dead_eq_strerror,
};

/* ---- Address vectors ---- */

DEAD(int, dead_av_insert, &av->fid, "fi_av_insert", struct fid_av *av, const void *addr,
     size_t count, fi_addr_t *fi_addr, uint64_t flags, void *context)
DEAD(int, dead_av_insertsvc, &av->fid, "fi_av_insertsvc", struct fid_av *av, const char *node,
     const char *service, fi_addr_t *fi_addr, uint64_t flags, void *context)
DEAD(int, dead_av_insertsym, &av->fid, "fi_av_insertsym", struct fid_av *av, const char *node,
     size_t nodecnt, const char *service, size_t svccnt, fi_addr_t *fi_addr, uint64_t flags,
     void *context)
DEAD(int, dead_av_remove, &av->fid, "fi_av_remove", struct fid_av *av, fi_addr_t *fi_addr,
     size_t count, uint64_t flags)
DEAD(int, dead_av_lookup, &av->fid, "fi_av_lookup", struct fid_av *av, fi_addr_t fi_addr,
     void *addr, size_t *addrlen)
DEAD_TEXT(dead_av_straddr, &av->fid, "fi_av_straddr", struct fid_av *av, const void *addr,
          char *buf, size_t *len)
DEAD(int, dead_av_av_set, &av->fid, "fi_av_set", struct fid_av *av, struct fi_av_set_attr *attr,
     struct fid_av_set **set, void *context)
DEAD(int, dead_av_insert_auth_key, &av->fid, "fi_av_insert_auth_key", struct fid_av *av,
     const void *auth_key, size_t auth_key_size, fi_addr_t *fi_addr, uint64_t flags)
DEAD(int, dead_av_lookup_auth_key, &av->fid, "fi_av_lookup_auth_key", struct fid_av *av,
     fi_addr_t addr, void *auth_key, size_t *auth_key_size)
DEAD(int, dead_av_set_user_id, &av->fid, "fi_av_set_user_id", struct fid_av *av, fi_addr_t fi_addr,
     fi_addr_t user_id, uint64_t flags)

static struct fi_ops_av dead_av_ops = {
    .size = sizeof(dead_av_ops),
    .insert = dead_av_insert,
    .insertsvc = dead_av_insertsvc,
    .insertsym = dead_av_insertsym,
    .remove = dead_av_remove,
    .lookup = dead_av_lookup,
    .straddr = dead_av_straddr,
    .av_set = dead_av_av_set,
    .insert_auth_key = dead_av_insert_auth_key,
    .lookup_auth_key = dead_av_lookup_auth_key,
    .set_user_id = dead_av_set_user_id,
};

/* ---- Sets of addresses ---- */

DEAD(int, dead_av_set_set_union, &dst->fid, "fi_av_set_union", struct fid_av_set *dst,
     const struct fid_av_set *src)
DEAD(int, dead_av_set_intersect, &dst->fid, "fi_av_set_intersect", struct fid_av_set *dst,
     const struct fid_av_set *src)
DEAD(int, dead_av_set_diff, &dst->fid, "fi_av_set_diff", struct fid_av_set *dst,
     const struct fid_av_set *src)
DEAD(int, dead_av_set_insert, &set->fid, "fi_av_set_insert", struct fid_av_set *set, fi_addr_t addr)
DEAD(int, dead_av_set_remove, &set->fid, "fi_av_set_remove", struct fid_av_set *set, fi_addr_t addr)
DEAD(int, dead_av_set_addr, &set->fid, "fi_av_set_addr", struct fid_av_set *set,
     fi_addr_t *coll_addr)

static struct fi_ops_av_set dead_av_set_ops = {
    .size = sizeof(dead_av_set_ops),
    .set_union = dead_av_set_set_union,
    .intersect = dead_av_set_intersect,
    .diff = dead_av_set_diff,
    .insert = dead_av_set_insert,
    .remove = dead_av_set_remove,
    .addr = dead_av_set_addr,
};

/* ---- Which tables ---- */

static void bury_endpoint(struct fid_ep *fid)
{
    struct hook_ep *ep = object_of(fid, struct hook_ep, fid);

    fid->ops = &dead_ep_ops;
    fid->cm = &dead_cm_ops;
    ep->base.post = dead_post;
    ep->base.groups = OP_GROUP_ALL;
    ep->base.atomic_valid = dead_atomic_valid;
}

static void bury_passive(struct fid_pep *pep)
{
    pep->ops = &dead_ep_ops;
    pep->cm = &dead_cm_ops;
}

static void bury_domain(struct fid_domain *domain)
{
    domain->ops = &dead_domain_ops;
    domain->mr = &dead_mr_ops;
}

void debug_bury(struct fid *fid)
{
    fid->ops = &dead_fid_ops;
    switch (fid->fclass) {
    case FI_CLASS_FABRIC: object_of(fid, struct fid_fabric, fid)->ops = &dead_fabric_ops; break;
    case FI_CLASS_DOMAIN: bury_domain(object_of(fid, struct fid_domain, fid)); break;
    case FI_CLASS_PEP: bury_passive(object_of(fid, struct fid_pep, fid)); break;
    case FI_CLASS_STX_CTX: object_of(fid, struct fid_stx, fid)->ops = &dead_ep_ops; break;
    case FI_CLASS_AV: object_of(fid, struct fid_av, fid)->ops = &dead_av_ops; break;
    case FI_CLASS_AV_SET: object_of(fid, struct fid_av_set, fid)->ops = &dead_av_set_ops; break;
    case FI_CLASS_EQ: object_of(fid, struct fid_eq, fid)->ops = &dead_eq_ops; break;
    case FI_CLASS_CQ: object_of(fid, struct fid_cq, fid)->ops = &dead_cq_ops; break;
    case FI_CLASS_CNTR: object_of(fid, struct fid_cntr, fid)->ops = &dead_cntr_ops; break;
    case FI_CLASS_WAIT: object_of(fid, struct fid_wait, fid)->ops = &dead_wait_ops; break;
    case FI_CLASS_POLL: object_of(fid, struct fid_poll, fid)->ops = &dead_poll_ops; break;
    case FI_CLASS_MR:
    case FI_CLASS_MC: break;
    default: bury_endpoint(object_of(fid, struct fid_ep, fid)); break;
    }
}
