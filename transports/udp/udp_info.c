/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/udp/udp_info.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/net/host.h"

enum {
    OBJECTS_MAX = 65536,
    IPV4_HEAD = 20,
    IPV6_HEAD = 40,
    UDP_HEAD = 8,
    LENGTH_MAX = 65535, /* of the field: of IPv4 with its header, of IPv6 without */
};

static const uint64_t common_caps = FI_MSG | FI_MULTICAST | FI_SEND | FI_RECV | FI_MULTI_RECV |
                                    FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_AV_USER_ID |
                                    FI_PEER;
static const uint64_t tx_caps = FI_MSG | FI_MULTICAST | FI_SEND;
static const uint64_t rx_caps =
    FI_MSG | FI_MULTICAST | FI_RECV | FI_MULTI_RECV | FI_SOURCE | FI_SOURCE_ERR;

static size_t headers(int family)
{
    return (family == AF_INET6 ? IPV6_HEAD : IPV4_HEAD) + UDP_HEAD;
}

size_t udp_message_max(int family, int mtu)
{
    size_t most = LENGTH_MAX - (family == AF_INET6 ? UDP_HEAD : headers(family));
    size_t fits = mtu > (int)headers(family) ? (size_t)mtu - headers(family) : 0;

    return fits < most ? fits : most;
}

static void fill_domain(struct fi_domain_attr *attr)
{
    attr->mr_key_size = sizeof(uint64_t);
    attr->cq_cnt = OBJECTS_MAX;
    attr->ep_cnt = OBJECTS_MAX;
    attr->tx_ctx_cnt = OBJECTS_MAX;
    attr->rx_ctx_cnt = OBJECTS_MAX;
    attr->max_ep_tx_ctx = 1;
    attr->max_ep_rx_ctx = 1;
    attr->cntr_cnt = OBJECTS_MAX;
    attr->mr_cnt = OBJECTS_MAX;
    attr->mr_iov_limit = 1;
    attr->tclass = INFO_ANY_TCLASS;
    attr->caps = FI_LOCAL_COMM | FI_REMOTE_COMM | FI_AV_USER_ID;
}

static bool fill(struct fi_info *info, const struct request *req, const struct netif *netif,
                 unsigned flavour)
{
    int family = netif->addr.sa.sa_family;
    size_t most = udp_message_max(family, netif->mtu);
    /* They change what queues say, and what names mean, so only for who asks. */
    uint64_t asked = req->hints->caps | req->hints->domain_attr->caps;

    if (!most) {
        reasons_add(req->reasons,
                    "the MTU of %s, %d bytes, leaves no room beside headers of %zu bytes",
                    netif->name, netif->mtu, headers(family));
        return false;
    }
    fill_domain(info->domain_attr);
    info->caps = common_caps | (asked & (FI_SOURCE_ERR | FI_SHARED_AV));
    info->domain_attr->caps |= asked & FI_SHARED_AV;
    info->tx_attr->caps = info->caps & tx_caps;
    info->tx_attr->op_flags =
        FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_MULTICAST;
    info->tx_attr->comp_order = FI_ORDER_STRICT;
    info->tx_attr->inject_size = most;
    info->tx_attr->size = UDP_SIZE;
    info->tx_attr->iov_limit = UDP_IOV_LIMIT;
    info->tx_attr->tclass = INFO_ANY_TCLASS;
    info->rx_attr->caps = info->caps & rx_caps;
    info->rx_attr->op_flags = FI_COMPLETION | FI_MULTI_RECV;
    info->rx_attr->comp_order = FI_ORDER_STRICT;
    info->rx_attr->size = UDP_SIZE;
    info->rx_attr->iov_limit = UDP_IOV_LIMIT;
    info->ep_attr->type = FI_EP_DGRAM;
    info->ep_attr->protocol = FI_PROTO_UDP;
    info->ep_attr->max_msg_size = most;
    info->ep_attr->tx_ctx_cnt = 1;
    info->ep_attr->rx_ctx_cnt = 1;
    return true;
}

int udp_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    /* A layer finds out what fits a path. One that puts a name of its endpoint into packets, which
     * each peer must know it by, has one interface. */
    const struct host_any any = {
        .fabric = "UDP-IP", .domain = "udp", .longest = req->upper & UPPER_NAMELESS};
    const bool named = req->upper && !(req->upper & UPPER_NAMELESS);
    const struct host_offer offer = {.fill = fill, .flavours = 1, .any = named ? NULL : &any};

    return host_infos(req, &offer, info);
}
