/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_info.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/net/host.h"
#include "transports/tcp/tcp_order.h"
#include "transports/tcp/tcp_wire.h"

enum {
    OBJECTS_MAX = 65536,
};

/* Any bit may be a field of its own: fi_endpoint(3). */
static const uint64_t TAG_FORMAT = 0xaaaaaaaaaaaaaaaaULL;

static const uint64_t common_caps =
    FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE |
    FI_MULTI_RECV | FI_RMA_EVENT | FI_FENCE | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_PEER;
static const uint64_t tx_caps =
    FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_SEND | FI_READ | FI_WRITE | FI_FENCE;
static const uint64_t rx_caps = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_RECV | FI_REMOTE_READ |
                                FI_REMOTE_WRITE | FI_MULTI_RECV | FI_RMA_EVENT;
static const uint64_t tx_op_flags =
    FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
/* TCP_ORDERS_ASKED are not for all. */
static const uint64_t msg_order = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW |
                                  FI_ORDER_WAS | FI_ORDER_SAW | FI_ORDER_SAS | FI_ORDER_RMA_RAR |
                                  FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW;
/* The target does atomics when their requests arrive, and keeps what they fetched. */
static const uint64_t atomic_order =
    FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;

/* ---- Attributes ---- */

static void fill_domain(struct fi_domain_attr *attr)
{
    info_set_limits(attr, OBJECTS_MAX);
    attr->tclass = INFO_ANY_TCLASS;
    attr->mr_iov_limit = TCP_MR_IOV_MAX;
    attr->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
}

static void fill_sizes(struct fi_info *info, const struct params *params, bool shared)
{
    size_t size = shared ? TCP_SHARED_SIZE : TCP_PLAIN_SIZE;
    size_t tx_size = (size_t)params_int(params, "tx_size");
    size_t rx_size = (size_t)params_int(params, "rx_size");

    info->tx_attr->size = tx_size ? tx_size : size;
    info->rx_attr->size = rx_size ? rx_size : info->tx_attr->size;
    info->tx_attr->inject_size = params_size(params, "max_inject");
    info->tx_attr->iov_limit = TCP_IOV_LIMIT;
    info->tx_attr->rma_iov_limit = TCP_IOV_LIMIT;
    info->rx_attr->iov_limit = TCP_IOV_LIMIT;
}

/* Only an upper that has an exchange of its own learns whether the peer knows these records. */
static bool offers_atomics(const struct request *req)
{
    return req->hints->caps & FI_PEER;
}

/* With an own receive queue only when asked: with tags receives complete in the order in which they
 * match; without, in the order of posting. */
static bool offers_tags(const struct request *req, bool shared)
{
    return shared ||
           (req->hints->caps & FI_TAGGED && req->hints->ep_attr->rx_ctx_cnt != FI_SHARED_CONTEXT);
}

static void fill_atomics(struct fi_info *info)
{
    info->caps |= FI_ATOMIC;
    info->tx_attr->msg_order |= atomic_order;
    info->rx_attr->msg_order |= atomic_order;
    info->ep_attr->max_order_war_size = TCP_ATOMIC_MAX;
}

/* By an order, or by the size of data that is to be in order. */
static void add_asked_orders(struct fi_info *info, const struct fi_info *hints)
{
    uint64_t may = TCP_ORDERS_ASKED | atomic_order; /* which mean nothing where there are none */
    uint64_t tx = hints->tx_attr->msg_order & may, rx = hints->rx_attr->msg_order & may;

    if (hints->ep_attr->max_order_war_size > info->ep_attr->max_order_war_size)
        tx |= FI_ORDER_WAR;
    info->tx_attr->msg_order |= tx;
    info->rx_attr->msg_order |= tx | rx;
    if (tx & (FI_ORDER_WAR | FI_ORDER_RMA_WAR))
        info->ep_attr->max_order_war_size = SIZE_MAX;
}

/* flavour 1: with a shared receive context. */
static bool fill_attrs(struct fi_info *info, const struct request *req, const struct netif *netif,
                       unsigned flavour)
{
    bool shared = flavour;
    bool tagged = offers_tags(req, shared);

    info->caps = common_caps | (tagged ? FI_TAGGED : 0);
    info->tx_attr->msg_order = msg_order;
    info->rx_attr->msg_order = msg_order;
    if (offers_atomics(req))
        fill_atomics(info);
    add_asked_orders(info, req->hints);
    info->tx_attr->caps = info->caps & tx_caps;
    info->tx_attr->op_flags = tx_op_flags;
    info->tx_attr->comp_order = FI_ORDER_NONE;
    info->tx_attr->tclass = INFO_ANY_TCLASS;
    info->rx_attr->caps = info->caps & rx_caps;
    info->rx_attr->op_flags = FI_COMPLETION | FI_MULTI_RECV;
    info->rx_attr->comp_order = tagged ? FI_ORDER_DATA : FI_ORDER_STRICT | FI_ORDER_DATA;
    info->ep_attr->type = FI_EP_MSG;
    info->ep_attr->protocol = FI_PROTO_SOCK_TCP;
    info->ep_attr->max_msg_size = SIZE_MAX;
    info->ep_attr->max_order_raw_size = SIZE_MAX;
    info->ep_attr->max_order_waw_size = SIZE_MAX;
    info->ep_attr->mem_tag_format = tagged ? TAG_FORMAT : 0;
    info->ep_attr->tx_ctx_cnt = 1;
    info->ep_attr->rx_ctx_cnt = shared ? FI_SHARED_CONTEXT : 1;
    fill_sizes(info, req->params, shared);
    fill_domain(info->domain_attr);
    return true;
}

int tcp_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    static const struct host_any any = {.fabric = "tcp", .domain = "tcp"};
    static const struct host_offer offer = {.fill = fill_attrs, .flavours = 2, .any = &any};

    if (req->hints->caps & FI_ATOMIC && !offers_atomics(req))
        reasons_add(req->reasons, "atomics over FI_EP_MSG need FI_PEER, for an upper that asks the "
                                  "peer whether it knows them: rxm does");
    return host_infos(req, &offer, info);
}
