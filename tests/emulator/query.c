/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "efa.h"
#include "operations.h"
#include "settings.h"

#undef ibv_query_port

enum {
    PKEY = 0xffff,
};

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    const struct device *device = context_device(context);
    const struct limits *limits = &settings()->limits;

    memset(attr, 0, sizeof(*attr));
    snprintf(attr->fw_ver, sizeof(attr->fw_ver), "%s", WEFT_VERSION);
    attr->node_guid = device_guid(device);
    attr->sys_image_guid = attr->node_guid;
    attr->max_mr_size = (uint64_t)limits->max_mr_bytes;
    attr->page_size_cap = 0xfffffffffffff000u;
    attr->vendor_id = 0x1e5f;
    attr->vendor_part_id = 1;
    attr->hw_ver = 1;
    attr->max_qp = (int)limits->max_qp;
    attr->max_qp_wr = (int)limits->max_qp_wr;
    attr->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT |
                             IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_CURR_QP_STATE_MOD;
    attr->max_sge = (int)limits->max_sge;
    attr->max_sge_rd = (int)limits->max_sge_rd;
    attr->max_cq = (int)limits->max_cq;
    attr->max_cqe = (int)limits->max_cqe;
    attr->max_mr = (int)limits->max_mr;
    attr->max_pd = (int)limits->max_pd;
    attr->max_qp_rd_atom = (int)limits->max_qp_rd_atom;
    attr->max_qp_init_rd_atom = (int)limits->max_qp_rd_atom;
    attr->max_res_rd_atom = (int)(limits->max_qp_rd_atom * limits->max_qp);
    attr->atomic_cap = IBV_ATOMIC_HCA;
    attr->max_mcast_grp = (int)limits->max_mcast_grp;
    attr->max_mcast_qp_attach = (int)limits->max_qp;
    attr->max_total_mcast_qp_attach = (int)(limits->max_mcast_grp * limits->max_qp);
    attr->max_ah = (int)limits->max_ah;
    attr->max_srq = (int)limits->max_srq;
    attr->max_srq_wr = (int)limits->max_srq_wr;
    attr->max_srq_sge = (int)limits->max_srq_sge;
    attr->max_pkeys = 1;
    attr->local_ca_ack_delay = 15;
    attr->phys_port_cnt = (uint8_t)device->port_count;
    if (device->efa)
        efa_fill_device(attr);
    return context_gone(context) ? EIO : 0;
}

int query_device_extended(struct ibv_context *context,
                          const struct ibv_query_device_ex_input *input,
                          struct ibv_device_attr_ex *result, size_t size)
{
    struct ibv_device_attr_ex attr;

    if (size < sizeof(attr.orig_attr))
        return EINVAL;
    memset(&attr, 0, sizeof(attr));
    int rc = ibv_query_device(context, &attr.orig_attr);
    attr.device_cap_flags_ex = attr.orig_attr.device_cap_flags;
    attr.cq_mod_caps.max_cq_count = 0xffff;
    attr.cq_mod_caps.max_cq_period = 0xffff;
    attr.phys_port_cnt_ex = attr.orig_attr.phys_port_cnt;
    memset(result, 0, size);
    memcpy(result, &attr, size < sizeof(attr) ? size : sizeof(attr));
    return rc;
}

int query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *result,
               size_t size)
{
    const struct device *device = context_device(context);
    struct ibv_port_attr attr = {
        .state = IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = IBV_MTU_4096,
        .max_msg_sz = (uint32_t)settings()->limits.max_msg_sz,
        .pkey_tbl_len = 1,
        .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        .max_vl_num = 1,
        .active_width = 2,  /* 4 lanes */
        .active_speed = 32, /* 25 Gb/s each */
        .phys_state = 5,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
    };

    if (number == 0 || number > device->port_count)
        return EINVAL;
    if (context_gone(context))
        return EIO;
    attr.gid_tbl_len = GID_MAX;
    if (device->efa)
        efa_fill_port(&attr);
    if (device->ports[number - 1].down) {
        attr.state = IBV_PORT_DOWN;
        attr.phys_state = 3;
    }
    memset(result, 0, size);
    memcpy(result, &attr, size < sizeof(attr) ? size : sizeof(attr));
    return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *attr)
{
    /* The structure as it was before flags and port_cap_flags2. */
    return query_port(context, number, (struct ibv_port_attr *)(void *)attr,
                      offsetof(struct ibv_port_attr, flags));
}

int ibv_query_gid(struct ibv_context *context, uint8_t number, int index, union ibv_gid *gid)
{
    const struct device *device = context_device(context);

    if (number == 0 || number > device->port_count || index < 0 || index >= GID_MAX) {
        errno = EINVAL;
        return -1;
    }
    const struct port *port = &device->ports[number - 1];
    memset(gid, 0, sizeof(*gid));
    if ((unsigned)index < port->gid_count)
        *gid = port->gids[index].gid;
    return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t number, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    const struct device *device = context_device(context);

    if (flags || size < sizeof(*entry) || number == 0 || number > device->port_count)
        return EINVAL;
    const struct port *port = &device->ports[number - 1];
    if (index >= port->gid_count)
        return index < GID_MAX ? ENODATA : EINVAL;
    *entry = port->gids[index];
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                             uint32_t flags, size_t size)
{
    const struct device *device = context_device(context);
    size_t count = 0;

    if (flags || size < sizeof(*entries))
        return -EINVAL;
    for (unsigned p = 0; p < device->port_count; p++) {
        const struct port *port = &device->ports[p];
        for (unsigned i = 0; i < port->gid_count && count < max; i++, count++)
            memcpy((char *)entries + count * size, &port->gids[i], sizeof(*entries));
    }
    return (ssize_t)count;
}

int ibv_query_gid_type(struct ibv_context *context, uint8_t number, unsigned index, unsigned *type);
int ibv_query_gid_type(struct ibv_context *context, uint8_t number, unsigned index, unsigned *type)
{
    struct ibv_gid_entry entry;
    int rc = _ibv_query_gid_ex(context, number, index, &entry, 0, sizeof(entry));

    /* The old numbering knows "IB or RoCE v1" and "RoCE v2". */
    *type = !rc && entry.gid_type == IBV_GID_TYPE_ROCE_V2;
    errno = rc;
    return rc ? -1 : 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t number, int index, __be16 *pkey)
{
    if (number == 0 || number > context_device(context)->port_count || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *pkey = PKEY;
    return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t number, __be16 pkey)
{
    if (number == 0 || number > context_device(context)->port_count || pkey != PKEY) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}
