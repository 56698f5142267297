/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_info.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "transports/shm/shm_op.h"

enum {
    OBJECTS = 65536,
};

static const uint64_t all_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_RECV |
                                 FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE |
                                 FI_MULTI_RECV | FI_TAGGED_MULTI_RECV | FI_DIRECTED_RECV |
                                 FI_TAGGED_DIRECTED_RECV | FI_SOURCE | FI_RMA_EVENT | FI_FENCE |
                                 FI_LOCAL_COMM | FI_PEER | FI_AV_USER_ID | FI_NAMED_RX_CTX;
static const uint64_t orders = FI_ORDER_RAS | FI_ORDER_WAS | FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR |
                               FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
/* A side that attaches copies at a time of its own choice, and with these orders later operations
 * wait for it. So they are offered only to an application that asks for them. */
static const uint64_t asked_orders = FI_ORDER_RAR | FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_RAR |
                                     FI_ORDER_RMA_WAR | FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_SAW |
                                     FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW;
/* Alternating bits: a tag without structure. */
static const uint64_t tag_format = 0xaaaaaaaaaaaaaaaaull;

static void fill_domain(struct fi_domain_attr *attr, uint64_t caps)
{
    info_set_limits(attr, OBJECTS);
    attr->max_ep_tx_ctx = attr->max_ep_rx_ctx = SHM_CONTEXTS;
    attr->tclass = INFO_ANY_TCLASS;
    attr->mr_iov_limit = SHM_IOV_LIMIT;
    attr->caps = caps & (FI_LOCAL_COMM | FI_REMOTE_COMM | FI_AV_USER_ID | FI_SHARED_AV);
}

static size_t ordered(uint64_t asked, uint64_t bits)
{
    return asked & bits ? SIZE_MAX : SHM_ATOMIC_MAX;
}

static void fill_orders(struct fi_info *info, const struct fi_info *hints)
{
    uint64_t asked = (hints->tx_attr->msg_order | hints->rx_attr->msg_order) & asked_orders;

    if (hints->ep_attr->max_order_raw_size > SHM_ATOMIC_MAX)
        asked |= FI_ORDER_RAW;
    if (hints->ep_attr->max_order_war_size > SHM_ATOMIC_MAX)
        asked |= FI_ORDER_WAR;
    if (hints->ep_attr->max_order_waw_size > SHM_ATOMIC_MAX)
        asked |= FI_ORDER_WAW;
    info->tx_attr->msg_order = info->rx_attr->msg_order = orders | asked;
    info->ep_attr->max_order_raw_size = ordered(asked, FI_ORDER_RAW | FI_ORDER_RMA_RAW);
    info->ep_attr->max_order_war_size = ordered(asked, FI_ORDER_WAR | FI_ORDER_RMA_WAR);
    info->ep_attr->max_order_waw_size = ordered(asked, FI_ORDER_WAW | FI_ORDER_RMA_WAW);
}

static void fill(struct fi_info *info, const struct params *params, const struct fi_info *hints)
{
    uint64_t asked = hints->caps | hints->domain_attr->caps;

    info->caps = all_caps | (params_bool(params, "single_node") ? FI_REMOTE_COMM : 0);
    /* These bits change entries of queues and the meaning of names, so they are set only if the
     * hints ask. */
    info->caps |= asked & (FI_SOURCE_ERR | FI_SHARED_AV);
    info->addr_format = FI_ADDR_STR;
    info->tx_attr->caps = info->caps;
    info->tx_attr->op_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE |
                              FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
    info->tx_attr->tclass = INFO_ANY_TCLASS; /* no network, no classes to tell apart */
    info->tx_attr->inject_size = SHM_INJECT;
    info->tx_attr->size = (size_t)params_int(params, "tx_size");
    info->tx_attr->iov_limit = SHM_IOV_LIMIT;
    info->tx_attr->rma_iov_limit = SHM_IOV_LIMIT;
    info->rx_attr->caps = info->caps;
    info->rx_attr->op_flags = FI_COMPLETION | FI_MULTI_RECV;
    info->rx_attr->size = (size_t)params_int(params, "rx_size");
    info->rx_attr->iov_limit = SHM_IOV_LIMIT;
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->protocol = FI_PROTO_SHM;
    info->ep_attr->protocol_version = 1;
    info->ep_attr->max_msg_size = SIZE_MAX;
    info->ep_attr->mem_tag_format = tag_format;
    info->ep_attr->tx_ctx_cnt = 1;
    info->ep_attr->rx_ctx_cnt = 1;
    fill_orders(info, hints);
    fill_domain(info->domain_attr, info->caps);
}

/* ---- The question ---- */

static int from_hint(const struct request *req, const char *which, const void *raw, size_t len,
                     char *name)
{
    int rc = req->hints->addr_format && req->hints->addr_format != FI_ADDR_STR
                 ? -FI_EINVAL
                 : shm_name_import(raw, len, name);

    if (rc)
        reasons_add(req->reasons, "%s of the hints is not a text address, as fi_shm://name", which);
    return rc;
}

static int from_text(const struct request *req, char *name)
{
    int rc = shm_name_make(req->node, req->service, name);

    if (rc)
        reasons_add(req->reasons, "'%s' cannot be made an address of shared memory",
                    req->node ? req->node : req->service);
    return rc;
}

static int read_names(const struct request *req, char *src, char *dest)
{
    const struct fi_info *hints = req->hints;
    bool named = req->node || req->service, source = req->flags & FI_SOURCE;
    int rc;

    dest[0] = 0;
    if (named && source)
        rc = from_text(req, src);
    else if (hints->src_addr)
        rc = from_hint(req, "src_addr", hints->src_addr, hints->src_addrlen, src);
    else
        rc = shm_name_make(NULL, NULL, src);
    if (!rc && named && !source)
        rc = from_text(req, dest);
    else if (!rc && hints->dest_addr)
        rc = from_hint(req, "dest_addr", hints->dest_addr, hints->dest_addrlen, dest);
    return rc;
}

int shm_offer(const struct request *req, const struct fi_info *lower, struct fi_info **ret_info)
{
    char src[SHM_NAME_MAX], dest[SHM_NAME_MAX];
    struct fi_info *info;

    *ret_info = NULL;
    if (read_names(req, src, dest))
        return 0;
    info = info_alloc();
    if (!info)
        return -FI_ENOMEM;
    fill(info, req->params, req->hints);
    if (info_set_string(&info->domain_attr->name, "shm") ||
        info_set_string(&info->fabric_attr->name, "shm") ||
        info_set_src(info, src, strlen(src) + 1) ||
        (dest[0] && info_set_dest(info, dest, strlen(dest) + 1))) {
        info_free(info);
        return -FI_ENOMEM;
    }
    *ret_info = info;
    return 0;
}
