/* SPDX-License-Identifier: BSD-2-Clause */
/* What a device of the kind EFA has beside the verbs. */
#include "efa.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ah.h"
#include "context.h"
#include "loop.h"
#include "operations.h"
#include "report.h"
#include "settings.h"

/* ---- Numbers of address handles ---- */

enum {
    AH_MAX = 4096,
};

static struct {
    const struct ibv_pd *pd; /* NULL: free */
    union ibv_gid gid;
    unsigned users;
} handles[AH_MAX];
static unsigned handles_end; /* behind the last one that was used */

int efa_ah_hold(struct ibv_pd *pd, const union ibv_gid *gid)
{
    unsigned at = efa_ah_find(pd, gid), most = (unsigned)settings()->limits.max_ah;

    for (unsigned i = 0; at == EFA_NO_AHN && i < AH_MAX && i < most; i++)
        if (!handles[i].users)
            at = i;
    if (at == EFA_NO_AHN)
        return -1;
    handles[at].pd = pd;
    handles[at].gid = *gid;
    handles[at].users++;
    if (at >= handles_end)
        handles_end = at + 1;
    return (int)at;
}

void efa_ah_release(int ahn)
{
    handles[ahn].users--;
    if (!handles[ahn].users)
        handles[ahn].pd = NULL;
}

unsigned efa_ah_find(const struct ibv_pd *pd, const void *gid)
{
    for (unsigned i = 0; i < handles_end; i++)
        if (handles[i].users && handles[i].pd == pd && !memcmp(&handles[i].gid, gid, 16))
            return i;
    return EFA_NO_AHN;
}

int efa_query_ah(struct ibv_ah *ah, struct efadv_ah_attr *attr, uint32_t size)
{
    struct efadv_ah_attr full = {.ahn = (uint16_t)ah_of(ah)->ahn};

    if (!context_device(ah->context)->efa)
        return EOPNOTSUPP;
    memset(attr, 0, size);
    memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
    return 0;
}

/* ---- The device ---- */

void efa_make_port(struct device *device)
{
    struct port *port = &device->ports[0];
    struct ibv_gid_entry *entry = &port->gids[0];
    const char *sys = getenv("SYSFS_PATH");

    device->port_count = 1;
    port->gid_count = 1;
    entry->port_num = 1;
    entry->gid_type = IBV_GID_TYPE_IB;
    entry->gid.global.subnet_prefix = htobe64(0xfe80000000000000u);
    entry->gid.global.interface_id =
        htobe64(0x0257450000000000u + ((uint64_t)settings()->host << 16) + device->index + 1);
    device->device.node_type = IBV_NODE_UNSPECIFIED;
    device->device.transport_type = IBV_TRANSPORT_UNSPECIFIED;
    if (sys)
        snprintf(device->device.ibdev_path, sizeof(device->device.ibdev_path),
                 "%.150s/class/infiniband/%.60s", sys, device->device.name);
}

void efa_fill_device(struct ibv_device_attr *attr)
{
    attr->vendor_id = EFA_VENDOR;
    attr->vendor_part_id = EFA_PART;
    attr->hw_ver = EFA_PART;
    attr->max_qp_wr = EFA_SENDS;
    attr->max_sge = EFA_SGE;
    attr->max_sge_rd = EFA_SGE_RDMA;
    attr->max_srq = attr->max_srq_wr = attr->max_srq_sge = 0;
    attr->max_mcast_grp = attr->max_mcast_qp_attach = attr->max_total_mcast_qp_attach = 0;
    attr->atomic_cap = IBV_ATOMIC_NONE;
    if (attr->max_ah > AH_MAX)
        attr->max_ah = AH_MAX;
    attr->device_cap_flags = 0;
}

void efa_fill_port(struct ibv_port_attr *attr)
{
    attr->max_msg_sz = EFA_MTU;
    attr->gid_tbl_len = 1;
    attr->port_cap_flags = 0;
    attr->link_layer = IBV_LINK_LAYER_UNSPECIFIED;
}

int efa_query_device(struct ibv_context *context, struct efadv_device_attr *attr, uint32_t size)
{
    struct efadv_device_attr full = {
        .max_sq_wr = EFA_SENDS,
        .max_rq_wr = EFA_RECEIVES,
        .max_sq_sge = EFA_SGE,
        .max_rq_sge = EFA_SGE,
        .inline_buf_size = EFA_INLINE,
        .device_caps = EFADV_DEVICE_ATTR_CAPS_RNR_RETRY | EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID,
    };

    if (settings()->limits.rdma) {
        full.device_caps |= EFADV_DEVICE_ATTR_CAPS_RDMA_READ | EFA_CAP_WRITE;
        full.max_rdma_size = EFA_RDMA;
    }
    if (!context_device(context)->efa)
        return EOPNOTSUPP;
    memset(attr, 0, size);
    memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
    return 0;
}

/* ---- Queue pairs ---- */

struct ibv_qp *efa_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
                             const struct efadv_qp_init_attr *efa, uint32_t size)
{
    const char *wrong = NULL;

    if (!context_device(context)->efa || attr->qp_type != IBV_QPT_DRIVER || size < sizeof(*efa) ||
        efa->comp_mask || efa->driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD)
        wrong = "a type that there is not";
    else if (attr->srq || attr->cap.max_recv_wr > EFA_RECEIVES ||
             attr->cap.max_send_wr > EFA_SENDS || attr->cap.max_inline_data > EFA_INLINE ||
             attr->cap.max_send_sge > EFA_SGE || attr->cap.max_recv_sge > EFA_SGE)
        wrong = "more than the device has";
    if (!wrong)
        return qp_create_extended(context, attr);
    report_why("efadv_create_qp: %s", wrong);
    errno = EOPNOTSUPP;
    return NULL;
}

/* ---- Completion queues ---- */

static int read_sgid(struct efadv_cq *efa, union ibv_gid *sgid)
{
    const struct completion *current = &list_item(efa, struct cq, efa)->current;

    if (!current->has_gid)
        return -ENOENT;
    memcpy(sgid, current->gid, sizeof(current->gid));
    return 0;
}

struct ibv_cq_ex *efa_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
                                const struct efadv_cq_init_attr *efa, uint32_t size)
{
    struct ibv_cq_ex *cq;

    if (!context_device(context)->efa || size < sizeof(*efa) || efa->comp_mask ||
        efa->wc_flags & ~(uint64_t)EFADV_WC_EX_WITH_SGID) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    cq = cq_create_extended(context, attr);
    if (cq && efa->wc_flags & EFADV_WC_EX_WITH_SGID)
        list_item(cq, struct cq, ex)->efa.wc_read_sgid = read_sgid;
    return cq;
}

struct efadv_cq *efa_cq_of(struct ibv_cq_ex *cq)
{
    return &list_item(cq, struct cq, ex)->efa;
}
