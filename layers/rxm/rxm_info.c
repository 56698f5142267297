/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_info.h"

#include <string.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/info.h"
#include "layers/rxm/rxm_wire.h"

/* What the connections themselves must be able to do; SEND and RECV they always are. */
#define PASSED_CAPS                                                                                \
    (FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT | FI_RMA_PMEM | \
     FI_HMEM | FI_FENCE | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define NEEDED_CAPS (FI_MSG | FI_TAGGED | FI_PEER)
#define ADDED_CAPS                                                                                 \
    (FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE |       \
     FI_PEER)
/* What an application gets only when it asks, because it changes what its queues say. */
#define ASKED_CAPS (FI_SOURCE_ERR | FI_AV_USER_ID)

enum {
    RX_SIZE = 65536
};

/* hints or an info of ours, as the lower should see it. */
static struct fi_info *to_lower(const struct fi_info *hints)
{
    struct fi_info *need = info_dup(hints);

    if (!need)
        return NULL;
    if (info_set_string(&need->fabric_attr->prov_name, NULL)) {
        info_free(need);
        return NULL;
    }
    need->handle = NULL;
    need->fabric_attr->fabric = NULL;
    need->domain_attr->domain = NULL;
    need->caps = (hints->caps & PASSED_CAPS) | NEEDED_CAPS;
    need->tx_attr->caps = 0;
    need->rx_attr->caps = 0;
    need->rx_attr->op_flags = 0;
    need->rx_attr->size = 0;
    need->ep_attr->type = FI_EP_MSG;
    need->ep_attr->protocol = FI_PROTO_UNSPEC;
    need->ep_attr->protocol_version = 0;
    need->ep_attr->tx_ctx_cnt = 0;
    need->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    need->domain_attr->caps = 0;
    need->domain_attr->threading = FI_THREAD_DOMAIN;
    need->domain_attr->progress = FI_PROGRESS_MANUAL;
    need->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    need->domain_attr->av_type = FI_AV_UNSPEC;
    need->domain_attr->mr_mode &= ~FI_MR_ENDPOINT; /* a region serves every connection */
    need->domain_attr->max_ep_tx_ctx = 0;
    need->domain_attr->max_ep_rx_ctx = 0;
    need->domain_attr->max_ep_stx_ctx = 0;
    need->domain_attr->max_ep_srx_ctx = 0;
    return need;
}

int rxm_needs(const struct request *req, struct fi_info **lower_hints)
{
    struct fi_info *need;

    if (strcmp(params_string(req->params, "tags"), "pass")) {
        reasons_add(req->reasons, "tags: 'emulate' is not there yet, use tags=pass");
        return -FI_ENODATA;
    }
    if (req->hints->caps & (FI_ATOMIC | FI_COLLECTIVE | FI_MULTICAST)) {
        reasons_add(req->reasons, "caps: atomics, collectives and multicast are not offered");
        return -FI_ENODATA;
    }
    need = to_lower(req->hints);
    if (!need)
        return -FI_ENOMEM;
    *lower_hints = need;
    return 0;
}

static bool format_known(uint32_t format)
{
    return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6 ||
           format == FI_ADDR_STR;
}

static void describe(struct fi_info *info, uint64_t asked)
{
    info->handle = NULL;
    info->caps = (info->caps & PASSED_CAPS) | ADDED_CAPS | (asked & ASKED_CAPS);
    info->tx_attr->caps = info->caps;
    info->rx_attr->caps = info->caps;
    info->rx_attr->op_flags = FI_COMPLETION | FI_MULTI_RECV;
    info->rx_attr->size = RX_SIZE;
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->protocol = FI_PROTO_XNET;
    info->ep_attr->protocol_version = RXM_WIRE_VERSION;
    info->ep_attr->tx_ctx_cnt = 1;
    info->ep_attr->rx_ctx_cnt = 1;
    info->domain_attr->domain = NULL;
    info->domain_attr->threading = FI_THREAD_SAFE;
    info->domain_attr->progress = FI_PROGRESS_UNSPEC;
    info->domain_attr->control_progress = FI_PROGRESS_UNSPEC;
    info->domain_attr->av_type = FI_AV_UNSPEC;
    info->domain_attr->max_ep_tx_ctx = 1;
    info->domain_attr->max_ep_rx_ctx = 1;
    info->domain_attr->max_ep_stx_ctx = 0;
    info->domain_attr->max_ep_srx_ctx = 0;
    info->domain_attr->caps |= asked & FI_AV_USER_ID;
    info->fabric_attr->fabric = NULL;
}

int rxm_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    struct fi_info *mine;

    if ((lower->caps & NEEDED_CAPS) != NEEDED_CAPS ||
        lower->ep_attr->rx_ctx_cnt != FI_SHARED_CONTEXT) {
        reasons_add(req->reasons, "tags=pass needs a lower that carries tags into a shared receive "
                                  "context of ours (FI_TAGGED, FI_PEER, FI_SHARED_CONTEXT)");
        return -FI_ENODATA;
    }
    if (!format_known(lower->addr_format)) {
        reasons_add(req->reasons, "addr_format: the lower's is neither an IP address nor a text");
        return -FI_ENODATA;
    }
    mine = info_dup(lower);
    if (!mine)
        return -FI_ENOMEM;
    describe(mine, req->hints->caps | req->hints->domain_attr->caps);
    *info = mine;
    return 0;
}

int rxm_lower_info(const struct lower *lower, uint32_t version, const struct fi_info *info,
                   struct fi_info **ret_lower_info)
{
    struct fi_info *need = to_lower(info), *list = NULL;
    int rc;

    if (!need || info_set_dest(need, NULL, 0)) {
        info_free(need);
        return -FI_ENOMEM;
    }
    rc = lower->getinfo(lower, version, NULL, NULL, 0, need, &list);
    info_free(need);
    if (rc)
        return rc;
    info_free(list->next);
    list->next = NULL;
    *ret_lower_info = list;
    return 0;
}
