/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of an EFA device beside the verbs. */
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
#include "qp.h"
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

unsigned efa_place_bits(void)
{
    long bits = settings()->limits.place_bits;

    return bits < EFA_NUMBER_BITS - WIRE_NODE_BITS ? EFA_NUMBER_BITS - WIRE_NODE_BITS
           : bits > WIRE_PLACE_BITS                ? WIRE_PLACE_BITS
                                                   : (unsigned)bits;
}

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
        if (settings()->limits.unsolicited)
            full.device_caps |= EFA_CAP_UNSOLICITED;
    }
    if (settings()->limits.counters)
        full.device_caps |= EFA_CAP_COUNTERS;
    if (!context_device(context)->efa)
        return EOPNOTSUPP;
    memset(attr, 0, size);
    memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
    return 0;
}

/* The interconnects are numbers 1 to 3; those of accesses where the device has these. */
int efa_query_mr(struct ibv_mr *mr, struct efa_mr_attr *attr, uint32_t size)
{
    struct efa_mr_attr full = {.ic_id_validity = 1, .recv_ic_id = 1};

    if (!context_device(mr->context)->efa)
        return EOPNOTSUPP;
    if (settings()->limits.rdma)
        full = (struct efa_mr_attr){
            .ic_id_validity = 7, .recv_ic_id = 1, .rdma_read_ic_id = 2, .rdma_recv_ic_id = 3};
    memset(attr, 0, size);
    memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
    return 0;
}

/* ---- Queue pairs ---- */

/* As newer releases of efadv.h have struct efadv_qp_init_attr. */
struct qp_attr {
    uint64_t comp_mask;
    uint32_t type;
    uint16_t flags;
    uint8_t service_level, reserved;
};

static bool has_unsolicited(void)
{
    return settings()->limits.rdma && settings()->limits.unsolicited;
}

static const char *qp_fault(const struct ibv_qp_init_attr_ex *attr, const struct qp_attr *efa)
{
    if (attr->qp_type != IBV_QPT_DRIVER || efa->comp_mask || efa->type != EFADV_QP_DRIVER_TYPE_SRD)
        return "a type that there is not";
    if (efa->flags & ~(has_unsolicited() ? EFA_QP_UNSOLICITED : 0) || efa->reserved)
        return "flags that the device has not";
    if (efa->service_level && efa->service_level != settings()->limits.levels)
        return "a service level that the device has not";
    if (attr->srq || attr->cap.max_recv_wr > EFA_RECEIVES || attr->cap.max_send_wr > EFA_SENDS ||
        attr->cap.max_inline_data > EFA_INLINE || attr->cap.max_send_sge > EFA_SGE ||
        attr->cap.max_recv_sge > EFA_SGE)
        return "more than the device has";
    return NULL;
}

struct ibv_qp *efa_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
                             const struct efadv_qp_init_attr *efa, uint32_t size)
{
    const char *wrong = "no device of the kind EFA, or less than its attributes";
    struct qp_attr named;
    struct ibv_qp *qp;

    if (context_device(context)->efa && size >= sizeof(named)) {
        memcpy(&named, efa, sizeof(named));
        wrong = qp_fault(attr, &named);
        if (!wrong && named.service_level)
            report_why("efadv_create_qp: service level %u", named.service_level);
    }
    if (wrong) {
        report_why("efadv_create_qp: %s", wrong);
        errno = EOPNOTSUPP;
        return NULL;
    }
    qp = qp_create_extended(context, attr);
    if (qp)
        qp_of(qp)->unsolicited = named.flags & EFA_QP_UNSOLICITED;
    return qp;
}

/* ---- Completion queues ---- */

static const struct completion *current_of(struct efadv_cq *efa)
{
    return &list_item((struct efa_cq_fields *)(void *)efa, struct cq, efa)->current;
}

static bool is_unsolicited(struct efadv_cq *efa)
{
    return current_of(efa)->unsolicited;
}

static int read_sgid(struct efadv_cq *efa, union ibv_gid *sgid)
{
    const struct completion *current = current_of(efa);

    if (!current->has_gid)
        return -ENOENT;
    memcpy(sgid, current->gid, sizeof(current->gid));
    return 0;
}

struct ibv_cq_ex *efa_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
                                const struct efadv_cq_init_attr *efa, uint32_t size)
{
    uint64_t known = EFADV_WC_EX_WITH_SGID | (has_unsolicited() ? EFA_CQ_UNSOLICITED : 0);
    struct ibv_cq_ex *cq;

    if (!context_device(context)->efa || size < sizeof(*efa) || efa->comp_mask ||
        efa->wc_flags & ~known) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    cq = cq_create_extended(context, attr);
    if (cq && efa->wc_flags & EFADV_WC_EX_WITH_SGID)
        cq_of(ibv_cq_ex_to_cq(cq))->efa.read_sgid = read_sgid;
    if (cq && efa->wc_flags & EFA_CQ_UNSOLICITED)
        cq_of(ibv_cq_ex_to_cq(cq))->efa.is_unsolicited = is_unsolicited;
    return cq;
}

struct efadv_cq *efa_cq_of(struct ibv_cq_ex *cq)
{
    return (struct efadv_cq *)(void *)&list_item(cq, struct cq, ex)->efa;
}
