/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"

#define MR_BASIC_BITS (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/* Secondary capabilities that cost no data path anything, so infos have them unasked. */
#define FREE_CAPS                                                                                  \
    (FI_LOCAL_COMM | FI_REMOTE_COMM | FI_MULTI_RECV | FI_SHARED_AV | FI_FENCE | FI_RMA_PMEM)

/* Narrower kinds of other bits, younger than most programs. Some compare the returned capabilities
 * with those that they know, so these bits are set only if the hints ask. */
#define ASKED_CAPS (FI_TAGGED_MULTI_RECV | FI_TAGGED_DIRECTED_RECV | FI_EXACT_DIRECTED_RECV)

int info_mr_bits(const struct fi_info *info)
{
    int mode = info->domain_attr->mr_mode;

    if (mode != FI_MR_BASIC && mode != FI_MR_SCALABLE)
        return mode;
    mode = mode == FI_MR_BASIC ? MR_BASIC_BITS : 0;
    return info->mode & FI_LOCAL_MR ? mode | FI_MR_LOCAL : mode;
}

static uint64_t free_caps(uint64_t offered, uint64_t asked)
{
    uint64_t caps = offered & FREE_CAPS;

    if (!(asked & FI_RECV) || !(asked & FI_MSG))
        caps &= ~FI_MULTI_RECV;
    if (!(asked & FI_RMA))
        caps &= ~FI_RMA_PMEM;
    return caps;
}

static void settle_caps(struct fi_info *info, const struct fi_info *hints)
{
    uint64_t tx = hints->tx_attr->caps, rx = hints->rx_attr->caps, offered = info->caps;

    /* The endpoint must also have the capabilities of its contexts. */
    if (hints->caps)
        info->caps = caps_expand(hints->caps) | caps_expand(tx | rx);
    else
        info->caps = caps_expand(offered & (~ASKED_CAPS | rx));
    if (hints->caps)
        info->caps |= free_caps(offered, info->caps);
    info->tx_attr->caps = (tx ? caps_expand(tx) : info->caps) & INFO_TX_CAPS;
    info->rx_attr->caps = (rx ? caps_expand(rx) : info->caps) & INFO_RX_CAPS;
    info->domain_attr->caps |= hints->domain_attr->caps;
}

static void settle_mr_mode(struct fi_info *info, const struct fi_info *hints, uint32_t version)
{
    int asked = hints->domain_attr->mr_mode, needed = info_mr_bits(info);

    info->mode &= ~FI_LOCAL_MR;
    if (!mr_mode_is_old(hints, version)) {
        info->domain_attr->mr_mode = needed;
        return;
    }
    info->domain_attr->mr_mode = asked == FI_MR_SCALABLE ? FI_MR_SCALABLE : FI_MR_BASIC;
    if (needed & FI_MR_LOCAL)
        info->mode |= FI_LOCAL_MR;
}

static void settle_models(struct fi_domain_attr *attr, const struct fi_domain_attr *asked)
{
    if (asked->threading != FI_THREAD_UNSPEC)
        attr->threading = asked->threading;
    if (asked->control_progress != FI_PROGRESS_UNSPEC)
        attr->control_progress = asked->control_progress;
    if (asked->progress != FI_PROGRESS_UNSPEC)
        attr->progress = asked->progress;
    if (asked->resource_mgmt != FI_RM_UNSPEC)
        attr->resource_mgmt = asked->resource_mgmt;
    if (asked->av_type != FI_AV_UNSPEC)
        attr->av_type = asked->av_type;
    if (attr->threading == FI_THREAD_UNSPEC)
        attr->threading = FI_THREAD_SAFE;
    if (attr->progress == FI_PROGRESS_UNSPEC)
        attr->progress = FI_PROGRESS_MANUAL;
    if (attr->control_progress == FI_PROGRESS_UNSPEC)
        attr->control_progress = attr->progress;
    if (attr->resource_mgmt == FI_RM_UNSPEC)
        attr->resource_mgmt = FI_RM_ENABLED;
}

static uint32_t settle_tclass(uint32_t asked, uint32_t offered)
{
    if (asked != FI_TC_UNSPEC)
        return asked;
    return offered == INFO_ANY_TCLASS ? FI_TC_UNSPEC : offered;
}

static void settle_contexts(struct fi_info *info, const struct fi_info *hints)
{
    struct fi_tx_attr *tx = info->tx_attr;
    struct fi_rx_attr *rx = info->rx_attr;

    tx->op_flags = hints->tx_attr->op_flags;
    rx->op_flags = hints->rx_attr->op_flags;
    if (hints->tx_attr->msg_order)
        tx->msg_order = hints->tx_attr->msg_order;
    if (hints->rx_attr->msg_order)
        rx->msg_order = hints->rx_attr->msg_order;
    tx->comp_order = hints->tx_attr->comp_order;
    rx->comp_order = hints->rx_attr->comp_order;
    if (hints->tx_attr->size)
        tx->size = hints->tx_attr->size;
    if (hints->rx_attr->size)
        rx->size = hints->rx_attr->size;
    tx->tclass = settle_tclass(hints->tx_attr->tclass, tx->tclass);
}

/* Data order is promised only where message order is. */
static void settle_order_sizes(struct fi_ep_attr *ep, uint64_t order)
{
    if (!(order & (FI_ORDER_RAW | FI_ORDER_RMA_RAW | FI_ORDER_ATOMIC_RAW)))
        ep->max_order_raw_size = 0;
    if (!(order & (FI_ORDER_WAR | FI_ORDER_RMA_WAR | FI_ORDER_ATOMIC_WAR)))
        ep->max_order_war_size = 0;
    if (!(order & (FI_ORDER_WAW | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_WAW)))
        ep->max_order_waw_size = 0;
}

static void settle_endpoint(struct fi_ep_attr *ep, const struct fi_ep_attr *asked)
{
    if (asked->tx_ctx_cnt)
        ep->tx_ctx_cnt = asked->tx_ctx_cnt;
    if (asked->rx_ctx_cnt)
        ep->rx_ctx_cnt = asked->rx_ctx_cnt;
    if (asked->mem_tag_format && asked->mem_tag_format < FI_TAG_MAX_FORMAT)
        ep->mem_tag_format = asked->mem_tag_format;
}

/* The application's key, where it gave one; the offer held the largest size. False: no memory. */
static bool settle_key(uint8_t **key, size_t *size, const uint8_t *asked, size_t asked_size)
{
    uint8_t *copy = NULL;

    free(*key);
    *key = NULL;
    *size = 0;
    if (asked_size == FI_AV_AUTH_KEY) {
        *size = asked_size;
        return true;
    }
    if (!asked || !asked_size)
        return true;
    copy = malloc(asked_size);
    if (!copy)
        return false;
    *key = memcpy(copy, asked, asked_size);
    *size = asked_size;
    return true;
}

int info_settle(struct fi_info *info, const struct fi_info *hints, uint32_t version)
{
    const struct fi_domain_attr *domain = hints->domain_attr;
    bool keys;

    settle_caps(info, hints);
    settle_mr_mode(info, hints, version);
    settle_models(info->domain_attr, domain);
    settle_contexts(info, hints);
    settle_order_sizes(info->ep_attr, info->tx_attr->msg_order);
    settle_endpoint(info->ep_attr, hints->ep_attr);
    info->domain_attr->tclass = settle_tclass(domain->tclass, info->domain_attr->tclass);
    info->fabric_attr->api_version = version;
    if (!info->domain_attr->max_cntr_value)
        info->domain_attr->max_cntr_value = UINT64_MAX;
    if (!info->domain_attr->max_err_cntr_value)
        info->domain_attr->max_err_cntr_value = UINT64_MAX;
    keys = settle_key(&info->domain_attr->auth_key, &info->domain_attr->auth_key_size,
                      domain->auth_key, domain->auth_key_size);
    return settle_key(&info->ep_attr->auth_key, &info->ep_attr->auth_key_size,
                      hints->ep_attr->auth_key, hints->ep_attr->auth_key_size) &&
                   keys
               ? 0
               : -FI_ENOMEM;
}
