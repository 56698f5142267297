/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of fi_open_ops: fi_ext_efa.h. Their functions take handles of any cover, and ask for the
 * object of this part under it (CONTROL_OWN). Source: fi_efa(7).
 */
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_efa.h>

#include "core/base/log.h"
#include "transports/efa/efa.h"

/* As efadv.h of rdma-core 50 and later has it. */
struct mr_attr {
    uint64_t comp_mask;
    uint16_t ic_id_validity, recv_ic_id, rdma_read_ic_id, rdma_recv_ic_id;
};

/* The object of ours of that class under a handle, or NULL. */
static struct fid *own_of(struct fid *fid, const char *table, size_t fclass)
{
    struct own_object own = {.table = table};

    if (!fid || fi_control(fid, CONTROL_OWN, &own) || own.fid->fclass != fclass)
        return NULL;
    return own.fid;
}

int efa_ops_own(struct fid *fid, int command, void *arg)
{
    struct own_object *own = arg;

    if (command != CONTROL_OWN || !own->table)
        return -FI_ENOSYS;
    if (strcmp(own->table, FI_EFA_DOMAIN_OPS) != 0 && strcmp(own->table, FI_EFA_GDA_OPS) != 0 &&
        strcmp(own->table, FI_EFA_FEATURE_OPS) != 0)
        return -FI_ENOSYS;
    own->fid = fid;
    return 0;
}

/* ---- FI_EFA_DOMAIN_OPS ---- */

static const struct ibv_mr *ibv_mr_of(struct fid_mr *mr, const char *table)
{
    struct fid *own = own_of(mr ? &mr->fid : NULL, table, FI_CLASS_MR);

    return own ? object_of(own, struct efa_mr, fid.fid)->ibv : NULL;
}

static int query_mr(struct fid_mr *mr, struct fi_efa_mr_attr *ret_attr)
{
    const struct ibv_mr *ibv = ibv_mr_of(mr, FI_EFA_DOMAIN_OPS);
    struct mr_attr attr = {.comp_mask = 0};
    int rc;

    if (!ret_attr)
        return -FI_EINVAL;
    if (!ibv) {
        LOG_WARN("efa", FI_LOG_MR, "query_mr: the region is not registered with the device");
        return -FI_EOPNOTSUPP;
    }
    if (!efa_direct.query_mr) {
        LOG_WARN("efa", FI_LOG_MR, "query_mr: libefa.so.1 has no efadv_query_mr");
        return -FI_EOPNOTSUPP;
    }
    rc = efa_direct.query_mr((struct ibv_mr *)ibv, &attr, sizeof(attr));
    if (rc)
        return verbs_error(rc);
    *ret_attr = (struct fi_efa_mr_attr){.ic_id_validity = attr.ic_id_validity,
                                        .recv_ic_id = attr.recv_ic_id,
                                        .rdma_read_ic_id = attr.rdma_read_ic_id,
                                        .rdma_recv_ic_id = attr.rdma_recv_ic_id};
    return 0;
}

static struct fi_efa_ops_domain domain_ops = {.query_mr = query_mr};

/* ---- FI_EFA_GDA_OPS ---- */

static int query_addr(struct fid_ep *ep, fi_addr_t addr, uint16_t *ahn, uint16_t *remote_qpn,
                      uint32_t *remote_qkey)
{
    struct fid *own = own_of(ep ? &ep->fid : NULL, FI_EFA_GDA_OPS, FI_CLASS_EP);
    struct efa_ep *efa = own ? object_of(own, struct efa_ep, fid.fid) : NULL;
    int rc;

    if (!efa || !efa->base.av || !ahn || !remote_qpn || !remote_qkey)
        return -FI_EINVAL;
    progress_lock(efa->progress);
    rc = efa_route(efa, addr);
    if (!rc) {
        *ahn = efa->route.number;
        *remote_qpn = (uint16_t)efa->route.qpn;
        *remote_qkey = efa->route.qkey;
    }
    progress_unlock(efa->progress);
    return rc;
}

static int refuse(const char *function, const char *why)
{
    LOG_WARN("efa", FI_LOG_DOMAIN, "%s: %s", function, why);
    return -FI_EOPNOTSUPP;
}

static int query_qp_wqs(struct fid_ep *ep, struct fi_efa_wq_attr *sq_attr,
                        struct fi_efa_wq_attr *rq_attr)
{
    return refuse("query_qp_wqs", "the queues of the device are libibverbs' alone");
}

static int query_cq(struct fid_cq *cq, struct fi_efa_cq_attr *attr)
{
    return refuse("query_cq", "each endpoint has a queue of the device, and libibverbs reads it");
}

/* An ordinary queue of the handle's own domain, so that every cover has its part of it. */
static int cq_open_ext(struct fid_domain *domain, struct fi_cq_attr *attr,
                       struct fi_efa_cq_init_attr *efa_attr, struct fid_cq **cq, void *context)
{
    if (!domain || !cq)
        return -FI_EINVAL;
    if (efa_attr && efa_attr->flags)
        return refuse("cq_open_ext", "queues in memory of the application are not offered");
    return fi_cq_open(domain, attr, cq, context);
}

static uint64_t get_mr_lkey(struct fid_mr *mr)
{
    const struct ibv_mr *ibv = ibv_mr_of(mr, FI_EFA_GDA_OPS);

    return ibv ? ibv->lkey : FI_KEY_NOTAVAIL;
}

static int cntr_open_ext(struct fid_domain *domain, struct fi_cntr_attr *attr,
                         struct fid_cntr **cntr, void *context,
                         struct fi_efa_comp_cntr_init_attr *efa_attr)
{
    struct fid *own = own_of(domain ? &domain->fid : NULL, FI_EFA_GDA_OPS, FI_CLASS_DOMAIN);
    struct fi_efa_comp_cntr_init_attr none = {.flags = 0};
    struct efa_domain *efa;
    const char *why;

    if (!own || !cntr)
        return -FI_EINVAL;
    efa = object_of(own, struct efa_domain, base.fid.fid);
    why = own == &domain->fid ? efa_cntr_lacking(efa)
                              : "what is above the part has no part of a counter of the device";
    if (why)
        return refuse("cntr_open_ext", why);
    return efa_cntr_open(efa, attr, efa_attr ? efa_attr : &none, sizeof(none), cntr, context);
}

static struct fi_efa_ops_gda gda_ops = {
    .query_addr = query_addr,
    .query_qp_wqs = query_qp_wqs,
    .query_cq = query_cq,
    .cq_open_ext = cq_open_ext,
    .get_mr_lkey = get_mr_lkey,
    .cntr_open_ext = cntr_open_ext,
};

/* ---- FI_EFA_FEATURE_OPS ---- */

static bool query_direct(const char *feature)
{
    return feature && !strcmp(feature, "mixed_hmem_iov");
}

static bool query_none(const char *feature)
{
    return false;
}

static struct fi_efa_feature_ops direct_features = {.query = query_direct};
static struct fi_efa_feature_ops no_features = {.query = query_none};

/* ---- The entries ---- */

int efa_ops_open_domain(struct fid *fid, const char *name, uint64_t flags, void **ops,
                        void *context)
{
    const struct efa_domain *domain = object_of(fid, struct efa_domain, base.fid.fid);

    if (!name)
        return -FI_EINVAL;
    if (!strcmp(name, FI_EFA_DOMAIN_OPS)) {
        *ops = &domain_ops;
        return 0;
    }
    if (strcmp(name, FI_EFA_GDA_OPS) != 0)
        return -FI_EINVAL;
    if (!efa_is_direct(domain->base.info->fabric_attr))
        return refuse("fi_open_ops", "\"" FI_EFA_GDA_OPS "\" is of fabric efa-direct");
    *ops = &gda_ops;
    return 0;
}

int efa_ops_open_fabric(struct fid *fid, const char *name, uint64_t flags, void **ops,
                        void *context)
{
    if (!name || strcmp(name, FI_EFA_FEATURE_OPS) != 0)
        return -FI_EINVAL;
    *ops = object_of(fid, struct efa_fabric, plain.base.fid.fid)->direct ? &direct_features
                                                                         : &no_features;
    return 0;
}
