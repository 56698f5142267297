/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/arq/arq_info.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/arq/packet.h"
#include "core/arq/path_mtu.h"
#include "core/ep/recv_queue.h"
#include "core/info/info.h"
#include "layers/arq/arq_addr.h"

static const uint64_t own_caps = FI_MSG | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_SOURCE | FI_PEER;
static const uint64_t place_caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
static const uint64_t asked_caps = FI_AV_USER_ID | FI_SHARED_AV;

/* Peers are those that speak the header of core/arq/packet.h. */
static const uint32_t protocol = 1u << 31 | 0x2000 | ARQ_MAGIC;

/* Capabilities that we ask a lower for, best first: the addresses of strangers, completions that it
 * writes itself, and receives that take many datagrams. */
static const uint64_t lower_wishes[] = {
    FI_SOURCE | FI_SOURCE_ERR | FI_PEER | FI_MULTI_RECV,
    FI_SOURCE | FI_SOURCE_ERR | FI_PEER,
    FI_SOURCE | FI_PEER,
    FI_PEER,
    FI_SOURCE | FI_SOURCE_ERR,
    FI_SOURCE,
    0,
};

enum {
    WISHES = sizeof(lower_wishes) / sizeof(lower_wishes[0])
};

/* ---- To the lower ---- */

static void ask_domain(struct fi_info *need, uint32_t version)
{
    struct fi_domain_attr *attr = need->domain_attr;

    attr->caps = 0;
    attr->resource_mgmt = FI_RM_UNSPEC;
    attr->av_type = FI_AV_UNSPEC;
    attr->max_ep_tx_ctx = attr->max_ep_rx_ctx = 0;
    attr->max_ep_stx_ctx = attr->max_ep_srx_ctx = 0;
    if (mr_mode_is_old(need, version))
        need->mode |= FI_LOCAL_MR;
    else
        attr->mr_mode |= (int)FI_MR_LOCAL;
}

/* hints or an info of ours, as the lower should see it. */
static struct fi_info *to_lower(const struct fi_info *hints, uint32_t version, uint64_t wish)
{
    struct fi_info *need = info_for_lower(hints);

    if (!need)
        return NULL;
    need->caps = FI_MSG | (hints->caps & place_caps) | wish;
    need->mode |= FI_MSG_PREFIX;
    need->tx_attr->caps = need->rx_attr->caps = 0;
    need->tx_attr->op_flags = need->rx_attr->op_flags = 0;
    need->tx_attr->msg_order = need->rx_attr->msg_order = 0;
    need->tx_attr->comp_order = need->rx_attr->comp_order = 0;
    need->tx_attr->inject_size = 0;
    need->tx_attr->size = need->rx_attr->size = 0;
    need->tx_attr->iov_limit = need->rx_attr->iov_limit = 0;
    need->tx_attr->rma_iov_limit = 0;
    need->ep_attr->type = FI_EP_DGRAM;
    need->ep_attr->protocol = FI_PROTO_UNSPEC;
    need->ep_attr->protocol_version = 0;
    need->ep_attr->max_msg_size = 0;
    need->ep_attr->msg_prefix_size = 0;
    need->ep_attr->mem_tag_format = 0;
    need->ep_attr->tx_ctx_cnt = need->ep_attr->rx_ctx_cnt = 0;
    ask_domain(need, version);
    return need;
}

int arq_needs(const struct request *req, struct fi_info **lower_hints)
{
    struct fi_info *list = NULL;

    for (size_t i = 0; i < WISHES; i++) {
        struct fi_info *need = to_lower(req->hints, req->version, lower_wishes[i]);

        if (!need) {
            info_free(list);
            return -FI_ENOMEM;
        }
        info_append(&list, need);
    }
    *lower_hints = list;
    return 0;
}

int arq_lower_info(const struct lower_fabric *fabric, const struct fi_info *info,
                   struct fi_info **lower_info)
{
    const struct lower *lower = fabric->lower;
    uint32_t version = fabric->base.api_version;
    int rc = -FI_ENODATA;

    for (size_t i = 0; rc == -FI_ENODATA && i < WISHES; i++) {
        struct fi_info *need = to_lower(info, version, lower_wishes[i]);

        if (!need || info_set_dest(need, NULL, 0)) {
            info_free(need);
            return -FI_ENOMEM;
        }
        rc = lower->getinfo(lower, version, NULL, NULL, 0, need, lower_info);
        info_free(need);
    }
    if (!rc) {
        info_free((*lower_info)->next);
        (*lower_info)->next = NULL;
    }
    return rc;
}

/* ---- What there is ---- */

/* Bytes of the largest message: it is one packet, or pieces that reach any peer. */
static size_t largest(const struct fi_info *lower)
{
    size_t most = lower->ep_attr->max_msg_size;
    size_t pieces = arq_pieces_room(ARQ_PIECES, PATH_MTU_BASE);

    return most - ARQ_HEADER < pieces ? most - ARQ_HEADER : pieces;
}

static bool registers(const struct fi_info *hints, uint32_t version)
{
    int mode = hints->domain_attr->mr_mode;

    if (info_mr_is_any(mode))
        return false;
    return mr_mode_is_old(hints, version) ? hints->mode & FI_LOCAL_MR : mode & FI_MR_LOCAL;
}

static void describe_domain(struct fi_info *info, const struct request *req)
{
    struct fi_domain_attr *attr = info->domain_attr;
    uint64_t asked = req->hints->caps | req->hints->domain_attr->caps;

    attr->domain = NULL;
    attr->threading = FI_THREAD_SAFE;
    attr->progress = FI_PROGRESS_UNSPEC;
    attr->control_progress = FI_PROGRESS_UNSPEC;
    attr->resource_mgmt = FI_RM_UNSPEC;
    attr->av_type = FI_AV_UNSPEC;
    attr->cq_data_size = 0;
    attr->max_ep_tx_ctx = attr->max_ep_rx_ctx = 1;
    attr->max_ep_stx_ctx = attr->max_ep_srx_ctx = 0;
    attr->caps = (attr->caps & place_caps) | FI_AV_USER_ID | (asked & FI_SHARED_AV);
    if (!registers(req->hints, req->version))
        attr->mr_mode &= ~(int)FI_MR_LOCAL;
}

static void describe(struct fi_info *info, const struct request *req, size_t most)
{
    uint64_t asked = req->hints->caps | req->hints->domain_attr->caps;
    bool copies = info_mr_bits(info) & FI_MR_LOCAL && !registers(req->hints, req->version);

    info->handle = NULL;
    info->mode = info->tx_attr->mode = info->rx_attr->mode = 0;
    info->caps = own_caps | (info->caps & place_caps) | (asked & asked_caps);
    info->tx_attr->caps = info->caps & INFO_TX_CAPS;
    info->rx_attr->caps = info->caps & INFO_RX_CAPS;
    info->tx_attr->op_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;
    info->rx_attr->op_flags = FI_COMPLETION | FI_MULTI_RECV;
    info->tx_attr->msg_order = info->rx_attr->msg_order = FI_ORDER_NONE;
    info->tx_attr->comp_order = info->rx_attr->comp_order = FI_ORDER_NONE;
    info->tx_attr->inject_size = most < ARQ_INJECT || copies ? most : ARQ_INJECT;
    info->tx_attr->size = info->rx_attr->size = ARQ_SIZE;
    info->tx_attr->iov_limit = ARQ_SEGMENTS;
    info->rx_attr->iov_limit = RECV_QUEUE_IOV;
    info->tx_attr->rma_iov_limit = 0;
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->protocol = protocol;
    info->ep_attr->protocol_version = ARQ_VERSION;
    info->ep_attr->max_msg_size = most;
    info->ep_attr->msg_prefix_size = 0;
    info->ep_attr->mem_tag_format = 0;
    info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
    info->fabric_attr->fabric = NULL;
    describe_domain(info, req);
}

int arq_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    struct fi_info *mine;

    *info = NULL;
    if (!arq_addr_takes(lower->addr_format)) {
        reasons_add(req->reasons, "addr_format: arq takes socket addresses and texts; those of the "
                                  "lower are of its own form");
        return -FI_ENODATA;
    }
    if (lower->ep_attr->max_msg_size < ARQ_OPEN_SIZE) {
        reasons_add(req->reasons,
                    "max_msg_size: datagrams of the lower have %zu bytes; a packet that opens a "
                    "session has %d",
                    lower->ep_attr->max_msg_size, ARQ_OPEN_SIZE);
        return -FI_ENODATA;
    }
    if (lower->mode & FI_MSG_PREFIX && lower->ep_attr->msg_prefix_size > ARQ_PREFIX_MAX) {
        reasons_add(req->reasons, "msg_prefix_size: the lower's is %zu; arq takes up to %d",
                    lower->ep_attr->msg_prefix_size, ARQ_PREFIX_MAX);
        return -FI_ENODATA;
    }
    mine = info_dup(lower);
    if (!mine)
        return -FI_ENOMEM;
    describe(mine, req, largest(lower));
    *info = mine;
    return 0;
}

unsigned arq_peer_traits(const struct params *params)
{
    return PEER_PACKETS;
}
