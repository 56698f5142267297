/* SPDX-License-Identifier: BSD-2-Clause */
/* An info for each device: endpoints of reliable packets. */
#include <stdio.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "transports/efa/efa.h"

#define CAPS (FI_MSG | FI_SEND | FI_RECV | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_PEER)

enum {
    OBJECTS = 65536,
    NAME_ROOM = IBV_SYSFS_NAME_MAX + 8
};

static void fill(struct fi_info *info, const struct efa_device *device)
{
    info->caps = info->tx_attr->caps = info->rx_attr->caps = CAPS;
    info->addr_format = FI_ADDR_EFA;
    info->tx_attr->op_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;
    info->tx_attr->inject_size = device->efa.inline_buf_size;
    info->tx_attr->size = device->efa.max_sq_wr;
    info->tx_attr->iov_limit = device->efa.max_sq_sge;
    info->rx_attr->op_flags = FI_COMPLETION;
    info->rx_attr->size = device->efa.max_rq_wr;
    info->rx_attr->iov_limit = device->efa.max_rq_sge < EFA_SEGMENTS ? 1 : EFA_SEGMENTS;
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->protocol = FI_PROTO_EFA;
    info->ep_attr->protocol_version = 1;
    info->ep_attr->max_msg_size = device->port.max_msg_sz;
    info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
    info->domain_attr->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
    info->domain_attr->mr_mode =
        (int)(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
    info->domain_attr->mr_key_size = sizeof(uint32_t);
    info->domain_attr->mr_iov_limit = 1;
    info->domain_attr->mr_cnt = (size_t)device->attr.max_mr;
    info->domain_attr->cq_cnt = info->domain_attr->ep_cnt = OBJECTS;
    info->domain_attr->cntr_cnt = OBJECTS;
    info->domain_attr->max_ep_tx_ctx = info->domain_attr->max_ep_rx_ctx = 1;
}

static int add(struct fi_info **list, const struct request *req, const struct efa_device *device)
{
    struct efa_addr src = {.qpn = 0};
    struct fi_info *info = info_alloc();
    char domain[NAME_ROOM];

    if (!info)
        return -FI_ENOMEM;
    fill(info, device);
    memcpy(src.gid, &device->gid, sizeof(src.gid));
    snprintf(domain, sizeof(domain), "%s-rdm", device->name);
    if (info_set_string(&info->domain_attr->name, domain) ||
        info_set_string(&info->fabric_attr->name, "efa") || info_set_src(info, &src, sizeof(src)) ||
        (req->hints->dest_addr && info_set_dest(info, req->hints->dest_addr, EFA_ADDR_SIZE))) {
        info_free(info);
        return -FI_ENOMEM;
    }
    info_append(list, info);
    return 0;
}

/* An application may name no node or service: addresses are raw ones. */
static bool addresses_known(const struct request *req)
{
    const struct fi_info *hints = req->hints;

    if (req->node || req->service) {
        reasons_add(req->reasons, "node: addresses of EFA are exchanged by their applications");
        return false;
    }
    if (hints->dest_addr && hints->dest_addrlen != EFA_ADDR_SIZE) {
        reasons_add(req->reasons, "dest_addr: an address of EFA has %d bytes", EFA_ADDR_SIZE);
        return false;
    }
    return true;
}

int efa_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    int rc = 0;

    *info = NULL;
    if (!addresses_known(req))
        return 0;
    for (struct efa_device *device = efa_devices(req->reasons); device && !rc;
         device = device->next)
        rc = add(info, req, device);
    if (rc) {
        info_free(*info);
        *info = NULL;
    }
    return rc;
}
