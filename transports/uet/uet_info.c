/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The infos of uet: one for each address of a chosen interface, in 32-byte addresses. The question
 * is put to core/net/host with socket addresses in their place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/net/host.h"
#include "transports/uet/uet.h"

enum {
    OBJECTS_MAX = 65536,
};

static const uint64_t message_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
static const uint64_t common_caps = FI_LOCAL_COMM | FI_REMOTE_COMM | FI_RMA_EVENT | FI_PEER;
static const uint64_t tx_caps = FI_SEND | FI_READ | FI_WRITE | FI_FENCE;
static const uint64_t rx_caps = FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV |
                                FI_SOURCE | FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV;

/* Of an ordered PDC: what comes is carried out in turn. The data of a read leaves later, and what
 * follows the read may change it before; so nothing is ordered behind reads. */
static const uint64_t orders = FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAS | FI_ORDER_WAW |
                               FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW |
                               FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |
                               FI_ORDER_ATOMIC_WAW;

/* Profiles of the infos of an interface where none is named; the last is that of datagrams. */
static const uint8_t flavours[] = {
    UET_AI_BASE | UET_AI_FULL | UET_HPC,
    UET_AI_BASE | UET_AI_FULL,
    UET_AI_BASE,
    UET_AI_BASE | UET_AI_FULL | UET_HPC,
};

enum {
    FLAVOURS = sizeof(flavours)
};

/* The profile that infos have; 0: there is an info for each. Programs that spread over infos that
 * look alike do not see that these differ, so there is one unless more are asked for. */
static uint8_t profile_of(const struct request *req)
{
    uint8_t asked = uet_protocol_caps(req->hints->ep_attr->protocol);

    if (strcmp(params_string(req->params, "profile"), "auto"))
        return uet_profile_caps(req->params);
    return asked ? asked : UET_AI_BASE | UET_AI_FULL | UET_HPC;
}

static void fill_domain(struct fi_domain_attr *attr)
{
    info_set_limits(attr, OBJECTS_MAX);
    attr->mr_iov_limit = PDS_IOV;
    attr->caps = FI_LOCAL_COMM | FI_REMOTE_COMM | FI_AV_USER_ID;
    attr->tclass = INFO_ANY_TCLASS;
    attr->auth_key_size = UET_JOB_SIZE;
    attr->max_ep_auth_key = UET_JOBS;
}

static void fill_tx(struct fi_info *info)
{
    struct fi_tx_attr *attr = info->tx_attr;

    attr->caps = message_caps | common_caps | tx_caps;
    attr->op_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
                     FI_DELIVERY_COMPLETE;
    attr->msg_order = orders;
    attr->tclass = INFO_ANY_TCLASS;
    attr->inject_size = UET_INJECT;
    attr->size = UET_SIZE;
    attr->iov_limit = UET_IOV;
    attr->rma_iov_limit = UET_RMA;
}

static void fill_rx(struct fi_info *info)
{
    struct fi_rx_attr *attr = info->rx_attr;

    attr->caps = message_caps | common_caps | rx_caps;
    attr->op_flags = FI_COMPLETION | FI_MULTI_RECV;
    attr->msg_order = orders;
    attr->size = UET_RX_SIZE;
    attr->iov_limit = UET_IOV;
}

static void fill_rdm(struct fi_info *info, uint8_t caps)
{
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->protocol = uet_protocol_of(caps);
    info->ep_attr->max_msg_size = UET_MESSAGE_MAX;
    info->ep_attr->max_order_raw_size = UET_MESSAGE_MAX;
    info->ep_attr->max_order_waw_size = UET_MESSAGE_MAX;
    info->ep_attr->max_order_war_size = 0;
    info->ep_attr->mem_tag_format = UINT64_C(0xaaaaaaaaaaaaaaaa);
}

/* Nothing is read, and messages are packets. max_msg_size is the maximum over all operations: the
 * options of an endpoint tell that of each. */
static void make_base(struct fi_info *info)
{
    info->tx_attr->caps &= ~FI_READ;
    info->rx_attr->caps &= ~FI_REMOTE_READ;
    info->ep_attr->max_order_raw_size = 0;
}

/* Its upper makes of packets what it has to offer. */
static void make_packets(struct fi_info *info, uint32_t payload)
{
    const uint64_t none = FI_TAGGED | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_REMOTE_READ |
                          FI_REMOTE_WRITE | FI_RMA_EVENT | FI_FENCE | FI_TAGGED_DIRECTED_RECV;

    info->tx_attr->caps &= ~none;
    info->rx_attr->caps &= ~none;
    info->tx_attr->op_flags &= ~FI_DELIVERY_COMPLETE;
    info->tx_attr->msg_order = info->rx_attr->msg_order = 0;
    info->tx_attr->rma_iov_limit = 0;
    info->ep_attr->max_msg_size = payload;
    info->ep_attr->max_order_raw_size = info->ep_attr->max_order_waw_size = 0;
    info->ep_attr->mem_tag_format = 0;
}

static void make_datagrams(struct fi_info *info, uint32_t payload)
{
    make_packets(info, payload);
    info->ep_attr->type = FI_EP_DGRAM;
    info->ep_attr->protocol = FI_PROTO_UET;
    info->tx_attr->inject_size = payload;
}

static bool fill(struct fi_info *info, const struct request *req, const struct netif *netif,
                 unsigned flavour)
{
    uint32_t payload = uet_payload(req->params, netif->mtu);
    uint8_t named = profile_of(req);
    uint8_t caps = named ? named : flavours[flavour];

    if (!payload) {
        reasons_add(req->reasons,
                    "the MTU of %s, %d bytes, leaves no room for packets of the payload asked",
                    netif->name, netif->mtu);
        return false;
    }
    fill_domain(info->domain_attr);
    fill_tx(info);
    fill_rx(info);
    fill_rdm(info, caps);
    /* It changes what queues say, so only for who asks. */
    info->rx_attr->caps |= req->hints->caps & FI_SOURCE_ERR;
    if (!uet_is_full(caps))
        make_base(info);
    if (uet_profile_caps(req->params) == UET_AI_BASE)
        make_packets(info, payload);
    if (flavour == (named ? 1 : FLAVOURS - 1))
        make_datagrams(info, payload);
    info->caps = info->tx_attr->caps | info->rx_attr->caps | FI_AV_USER_ID;
    info->ep_attr->protocol_version = 1;
    info->ep_attr->auth_key_size = UET_JOB_SIZE;
    info->ep_attr->tx_ctx_cnt = 1;
    info->ep_attr->rx_ctx_cnt = 1;
    return true;
}

/* ---- Addresses ---- */

/* An address of the hints that is 32 bytes, as a socket address; *named: all of it. False: it is
 * none. */
static bool import(const struct request *req, const char *what, void **raw, size_t *len,
                   struct uet_address *named)
{
    struct uet_address address;
    union addr *host;

    if (!*raw)
        return true;
    if (*len != UET_ADDRESS_SIZE) {
        reasons_add(req->reasons, "%s of the hints has %zu bytes, not the %d of uet", what, *len,
                    UET_ADDRESS_SIZE);
        return false;
    }
    uet_address_get(*raw, &address); /* without a port, too */
    host = calloc(1, sizeof(*host));
    if (!host)
        return false;
    *host = address.host;
    *named = address;
    free(*raw);
    *raw = host;
    *len = addr_size(&host->sa);
    return true;
}

/* caps: 0 where they are not known. named: what was asked for beside the host, or zeroed. */
static void export_one(void **raw, size_t *len, uint8_t caps, const struct uet_address *named)
{
    struct uet_address address = {
        .flags = (caps ? UET_HAS_CAPS : 0) | UET_HAS_HOST | UET_HAS_PID | UET_HAS_INDEX,
        .caps = caps,
        .pid = named->pid,
        .index = UET_INDEX,
        .index_count = 1,
    };

    if (named->flags & UET_HAS_INITIATOR) {
        address.flags |= UET_HAS_INITIATOR;
        address.initiator = named->initiator;
    }
    memcpy(&address.host, *raw, *len < sizeof(address.host) ? *len : sizeof(address.host));
    uet_address_put(&address, *raw);
    *len = UET_ADDRESS_SIZE;
}

/* In memory of its own, which has room for either form. */
static int export_addr(void **raw, size_t *len, uint8_t caps, const struct uet_address *named)
{
    void *more;

    if (!*raw)
        return 0;
    more = realloc(*raw, UET_ADDRESS_SIZE + sizeof(union addr));
    if (!more)
        return -FI_ENOMEM;
    *raw = more;
    export_one(raw, len, caps, named);
    return 0;
}

/* Addresses that the caller named, with more than a host. */
struct named {
    struct uet_address src, dest;
};

static int export_all(struct fi_info *list, const struct named *named)
{
    for (struct fi_info *info = list; info; info = info->next) {
        uint8_t caps = uet_protocol_caps(info->ep_attr->protocol);
        int rc = export_addr(&info->src_addr, &info->src_addrlen, caps, &named->src);

        if (!rc)
            rc = export_addr(&info->dest_addr, &info->dest_addrlen, 0, &named->dest);
        if (rc)
            return rc;
        info->addr_format = FI_ADDR_UET;
    }
    return 0;
}

/* ---- The question ---- */

/* "fi_addr_uet://..." as a node and a service. */
static bool split_node(const struct request *req, char node[ADDR_TEXT_MAX],
                       char service[ADDR_TEXT_MAX], struct named *named)
{
    struct uet_address address;
    char text[ADDR_TEXT_MAX], *colon;

    if (!req->node || !uet_address_parse(req->node, &address))
        return false;
    *(req->flags & FI_SOURCE ? &named->src : &named->dest) = address;
    addr_text(&address.host.sa, text, sizeof(text));
    colon = strrchr(text, ':');
    *colon = '\0';
    snprintf(service, ADDR_TEXT_MAX, "%s", colon + 1);
    if (text[0] == '[')
        text[strlen(text) - 1] = '\0';
    snprintf(node, ADDR_TEXT_MAX, "%s", text[0] == '[' ? text + 1 : text);
    return true;
}

static bool is_ours(const struct request *req)
{
    uint32_t format = req->hints->addr_format;

    if (format == FI_FORMAT_UNSPEC || format == FI_ADDR_UET)
        return true;
    reasons_add(req->reasons, "uet has addresses of its own form only (FI_ADDR_UET)");
    return false;
}

static int ask(const struct request *req, struct fi_info *hints, struct named *named,
               struct fi_info **info)
{
    static const struct host_any any = {.fabric = "UET", .domain = "uet"};
    /* A layer has its own idea of who it is; a trailer is of both addresses. */
    bool one = req->upper || params_bool(req->params, "crc");
    const struct host_offer offer = {
        .fill = fill, .flavours = profile_of(req) ? 2 : FLAVOURS, .any = one ? NULL : &any};
    char node[ADDR_TEXT_MAX], service[ADDR_TEXT_MAX];
    struct request inner = *req;

    inner.hints = hints;
    if (split_node(req, node, service, named)) {
        inner.node = node;
        inner.service = service;
    } else if (req->node && !req->service && !(req->flags & FI_SOURCE)) {
        inner.service = "4793";
    }
    return host_infos(&inner, &offer, info);
}

/* A service file that is wrong is told here, where a program asks for the first time. */
static bool has_service(const struct request *req)
{
    struct uet_service service;
    char why[300];

    if (!uet_service_of(req->params, &service, why, sizeof(why)))
        return true;
    reasons_add(req->reasons, "%s", why);
    return false;
}

int uet_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    struct named named = {.src = {.pid = 0}};
    struct fi_info *hints;
    int rc;

    *info = NULL;
    if (!is_ours(req) || !has_service(req))
        return 0;
    hints = info_dup(req->hints);
    if (!hints)
        return -FI_ENOMEM;
    hints->addr_format = FI_FORMAT_UNSPEC;
    if (!import(req, "src_addr", &hints->src_addr, &hints->src_addrlen, &named.src) ||
        !import(req, "dest_addr", &hints->dest_addr, &hints->dest_addrlen, &named.dest)) {
        info_free(hints);
        return 0;
    }
    rc = ask(req, hints, &named, info);
    info_free(hints);
    if (!rc)
        rc = export_all(*info, &named);
    if (rc) {
        info_free(*info);
        *info = NULL;
    }
    return rc;
}
