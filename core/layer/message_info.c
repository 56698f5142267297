/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/layer/message_info.h"

#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/layer/message_ep.h"
#include "core/op/remote.h"

#define ADDED_CAPS                                                                                 \
    (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_RECV | FI_READ | FI_WRITE |            \
     FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT | FI_DIRECTED_RECV | FI_MULTI_RECV |          \
     FI_SOURCE | FI_PEER)
/* Of the lower's: which peers it reaches. */
#define PASSED_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
/* Capabilities that an application gets only when it asks, because they change the content of its
 * queues, or the meaning of names. */
#define ASKED_CAPS (FI_SOURCE_ERR | FI_AV_USER_ID | FI_SHARED_AV)

enum {
    OBJECTS = 65536,
    SHARED_MAX = 1024,
    QUEUE = 65536,
};

/* Any bit may be a field of its own: fi_endpoint(3). */
static const uint64_t TAG_FORMAT = 0xaaaaaaaaaaaaaaaaULL;

static struct fi_info *to_lower(const struct fi_info *hints, uint32_t version)
{
    struct fi_info *need = info_for_lower(hints);

    if (!need)
        return NULL;
    if (mr_mode_is_old(need, version)) {
        need->domain_attr->mr_mode = FI_MR_BASIC;
        need->mode |= FI_LOCAL_MR;
    } else {
        need->domain_attr->mr_mode =
            (int)(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                  (hints->caps & FI_HMEM ? FI_MR_HMEM : 0));
    }
    need->caps = (hints->caps & PASSED_CAPS) | FI_MSG | FI_SEND | FI_RECV | FI_SOURCE;
    need->mode |= FI_MSG_PREFIX | FI_CONTEXT | FI_CONTEXT2;
    *need->tx_attr = (struct fi_tx_attr){.tclass = hints->tx_attr->tclass};
    *need->rx_attr = (struct fi_rx_attr){0};
    need->ep_attr->type = FI_EP_RDM;
    need->ep_attr->protocol = FI_PROTO_UNSPEC;
    need->ep_attr->protocol_version = 0;
    need->ep_attr->max_msg_size = 0;
    need->ep_attr->max_order_raw_size = 0;
    need->ep_attr->max_order_war_size = 0;
    need->ep_attr->max_order_waw_size = 0;
    need->ep_attr->mem_tag_format = 0;
    need->ep_attr->tx_ctx_cnt = 0;
    need->ep_attr->rx_ctx_cnt = 0;
    need->domain_attr->caps = hints->domain_attr->caps & PASSED_CAPS;
    need->domain_attr->mode = 0;
    need->domain_attr->av_type = FI_AV_UNSPEC;
    need->domain_attr->resource_mgmt = FI_RM_UNSPEC;
    need->domain_attr->mr_key_size = 0;
    need->domain_attr->mr_iov_limit = 0;
    need->domain_attr->mr_cnt = 0;
    need->domain_attr->cq_data_size = 0;
    need->domain_attr->cntr_cnt = 0;
    need->domain_attr->max_ep_tx_ctx = 0;
    need->domain_attr->max_ep_rx_ctx = 0;
    need->domain_attr->max_ep_stx_ctx = 0;
    need->domain_attr->max_ep_srx_ctx = 0;
    return need;
}

int message_needs(const struct request *req, struct fi_info **lower_hints)
{
    if (req->hints->caps & (FI_COLLECTIVE | FI_MULTICAST)) {
        reasons_add_at(req->reasons, REASON_CAPS,
                       "caps: collectives and multicast are not offered");
        return -FI_ENODATA;
    }
    *lower_hints = to_lower(req->hints, req->version);
    return *lower_hints ? 0 : -FI_ENOMEM;
}

int message_check_lower(const struct request *req, const struct fi_info *lower, const char *part)
{
    if (!(req->lower_traits & PEER_PACKETS) || lower->ep_attr->type != FI_EP_RDM) {
        reasons_add_at(req->reasons, REASON_TYPE,
                       "%s needs a lower that gives reliable packets, and nothing more: the "
                       "lower's endpoints are complete",
                       part);
        return -FI_ENODATA;
    }
    if (lower->ep_attr->max_msg_size >= MESSAGE_LEAST_PACKET)
        return 0;
    reasons_add(req->reasons, "the lower's packets have %zu bytes, %s's at least %d",
                lower->ep_attr->max_msg_size, part, MESSAGE_LEAST_PACKET);
    return -FI_ENODATA;
}

static void describe(struct fi_info *info, const struct request *req,
                     const struct message_offer *offer)
{
    uint64_t asked = req->hints->caps | req->hints->domain_attr->caps;
    struct fi_domain_attr *domain = info->domain_attr;

    info->handle = NULL;
    info->mode = 0;
    if (offer->own_addresses)
        asked &= ~(uint64_t)FI_SHARED_AV;
    info->caps = (info->caps & PASSED_CAPS) | ADDED_CAPS | offer->caps | (asked & ASKED_CAPS);
    *info->tx_attr = (struct fi_tx_attr){
        .caps = info->caps,
        .op_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
                    FI_DELIVERY_COMPLETE,
        .msg_order = offer->order,
        .inject_size = offer->inject_size,
        .size = MESSAGE_SIZE,
        .iov_limit = MESSAGE_IOV,
        .rma_iov_limit = MESSAGE_PLACES,
        .tclass = info->tx_attr->tclass,
    };
    *info->rx_attr = (struct fi_rx_attr){
        .caps = info->caps,
        .op_flags = FI_COMPLETION | FI_MULTI_RECV,
        .msg_order = offer->order,
        .size = QUEUE,
        .iov_limit = MESSAGE_IOV,
    };
    *info->ep_attr = (struct fi_ep_attr){
        .type = FI_EP_RDM,
        .protocol = offer->protocol,
        .protocol_version = offer->protocol_version,
        .max_msg_size = SIZE_MAX,
        .max_order_raw_size = offer->max_order_size,
        .max_order_war_size = offer->max_order_size,
        .max_order_waw_size = offer->max_order_size,
        .mem_tag_format = TAG_FORMAT,
        .tx_ctx_cnt = 1,
        .rx_ctx_cnt = 1,
    };
    domain->domain = NULL;
    domain->threading = FI_THREAD_SAFE;
    domain->progress = FI_PROGRESS_UNSPEC;
    domain->control_progress = FI_PROGRESS_UNSPEC;
    domain->av_type = FI_AV_UNSPEC;
    domain->mr_mode = 0;
    domain->mode = 0;
    domain->mr_key_size = sizeof(uint64_t);
    domain->cq_data_size = sizeof(uint64_t);
    domain->mr_iov_limit = REMOTE_PIECES;
    domain->mr_cnt = OBJECTS;
    domain->cntr_cnt = OBJECTS;
    domain->max_ep_tx_ctx = offer->contexts;
    domain->max_ep_rx_ctx = offer->contexts;
    domain->max_ep_stx_ctx = SHARED_MAX;
    domain->max_ep_srx_ctx = SHARED_MAX;
    domain->caps = (domain->caps & PASSED_CAPS) | (asked & (FI_AV_USER_ID | FI_SHARED_AV));
    info->fabric_attr->fabric = NULL;
}

int message_describe(const struct request *req, const struct fi_info *lower,
                     const struct message_offer *offer, struct fi_info **info)
{
    *info = info_dup(lower);
    if (!*info)
        return -FI_ENOMEM;
    describe(*info, req, offer);
    return 0;
}

int message_lower_info(const struct lower_fabric *fabric, const struct fi_info *info, uint64_t more,
                       struct fi_info **lower_info)
{
    const struct lower *lower = fabric->lower;
    uint32_t version = fabric->base.api_version;
    struct fi_info *need = to_lower(info, version), *list = NULL;
    int rc;

    if (!need || info_set_dest(need, NULL, 0)) {
        info_free(need);
        return -FI_ENOMEM;
    }
    need->caps |= more;
    rc = lower->getinfo(lower, version, NULL, NULL, 0, need, &list);
    info_free(need);
    if (rc)
        return rc;
    *lower_info = list;
    info_free(list->next);
    list->next = NULL;
    return 0;
}
