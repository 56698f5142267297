/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "transports/loop/device/loop_device.h"

enum {
    WHY_MAX = 200,
    OBJECTS = 65536,
};

static const uint64_t common_caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_SEND | FI_RECV | FI_READ |
                                    FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV |
                                    FI_RMA_EVENT | FI_LOCAL_COMM | FI_FENCE | FI_PEER;
static const uint64_t rdm_caps = FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV |
                                 FI_TAGGED_DIRECTED_RECV | FI_TAGGED_MULTI_RECV | FI_AV_USER_ID;
static const uint64_t all_orders = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAR |
                                   FI_ORDER_WAW | FI_ORDER_WAS | FI_ORDER_SAR | FI_ORDER_SAW |
                                   FI_ORDER_SAS | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW |
                                   FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR |
                                   FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;

/* Endpoints of loop talk to those of the same process only: not a wire that others know. */
static const uint32_t protocol = 1u << 31 | 0x100b;

/* Alternating bits: a tag without structure. */
static const uint64_t tag_format = 0xaaaaaaaaaaaaaaaaull;

/* ---- Addresses ---- */

/* "loop://7" is port 7 of 127.0.0.1; any IPv4 address is one, of no interface. */
static int from_text(const char *text, size_t len, union addr *addr)
{
    static const char scheme[] = "loop://";
    char plain[LOOP_ADDR_MAX];

    len = strnlen(text, len);
    if (len < sizeof(scheme) - 1 || strncmp(text, scheme, sizeof(scheme) - 1))
        return addr_from_str(text, len, addr);
    text += sizeof(scheme) - 1;
    len -= sizeof(scheme) - 1;
    if (len > 16)
        return -FI_EINVAL;
    snprintf(plain, sizeof(plain), "127.0.0.1:%.*s", (int)len, len ? text : "0");
    return addr_from_str(plain, sizeof(plain), addr);
}

int loop_addr_import(uint32_t format, const void *raw, size_t len, union addr *addr)
{
    int rc =
        format == FI_ADDR_STR ? from_text(raw, len, addr) : addr_import(format, raw, len, addr);

    return rc || addr->sa.sa_family != AF_INET ? -FI_EINVAL : 0;
}

size_t loop_addr_export(uint32_t format, bool rdm, const union addr *addr, void *raw)
{
    if (format != FI_ADDR_STR) {
        memcpy(raw, &addr->in, sizeof(addr->in));
        return sizeof(addr->in);
    }
    if (rdm && addr->in.sin_addr.s_addr == htonl(INADDR_LOOPBACK))
        return (size_t)snprintf(raw, LOOP_ADDR_MAX, "loop://%u", addr_port(&addr->sa)) + 1;
    return addr_to_str(&addr->sa, raw, LOOP_ADDR_MAX) + 1;
}

int loop_addr_give(uint32_t format, bool rdm, const union addr *addr, void *raw, size_t *len)
{
    char text[LOOP_ADDR_MAX];
    size_t need = loop_addr_export(format, rdm, addr, text), room = *len;

    *len = need;
    if (raw && room)
        memcpy(raw, text, room < need ? room : need);
    return room < need ? -FI_ETOOSMALL : 0;
}

/* ---- Infos ---- */

static void fill_domain(struct fi_domain_attr *attr)
{
    info_set_limits(attr, OBJECTS);
    attr->mr_iov_limit = LOOP_IOV_LIMIT;
    attr->caps = FI_LOCAL_COMM;
}

static void fill(struct fi_info *info, bool rdm, bool shared)
{
    info->caps = common_caps | (rdm ? rdm_caps : 0) | (shared ? FI_TAGGED : 0);
    info->tx_attr->caps = info->caps;
    info->tx_attr->op_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE |
                              FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
    info->tx_attr->msg_order = all_orders;
    info->tx_attr->inject_size = LOOP_INJECT;
    info->tx_attr->size = LOOP_SIZE;
    info->tx_attr->iov_limit = LOOP_IOV_LIMIT;
    info->tx_attr->rma_iov_limit = LOOP_IOV_LIMIT;
    info->rx_attr->caps = info->caps;
    info->rx_attr->op_flags = FI_COMPLETION | FI_MULTI_RECV;
    info->rx_attr->msg_order = all_orders;
    info->rx_attr->size = LOOP_SIZE;
    info->rx_attr->iov_limit = LOOP_IOV_LIMIT;
    info->ep_attr->type = rdm ? FI_EP_RDM : FI_EP_MSG;
    info->ep_attr->protocol = protocol;
    info->ep_attr->protocol_version = 1;
    info->ep_attr->max_msg_size = SIZE_MAX;
    info->ep_attr->max_order_raw_size = SIZE_MAX;
    info->ep_attr->max_order_war_size = SIZE_MAX;
    info->ep_attr->max_order_waw_size = SIZE_MAX;
    info->ep_attr->mem_tag_format = info->caps & FI_TAGGED ? tag_format : 0;
    info->ep_attr->tx_ctx_cnt = 1;
    info->ep_attr->rx_ctx_cnt = shared ? FI_SHARED_CONTEXT : 1;
    fill_domain(info->domain_attr);
    if (rdm)
        info->domain_attr->caps |= FI_AV_USER_ID;
}

/* Datagrams promise no order and no arrival; only messages, up to a size. */
static void make_dgram(struct fi_info *info)
{
    info->caps = info->tx_attr->caps = info->rx_attr->caps = LOOP_DGRAM_CAPS;
    info->tx_attr->op_flags &= ~FI_DELIVERY_COMPLETE;
    info->tx_attr->msg_order = info->rx_attr->msg_order = FI_ORDER_NONE;
    info->tx_attr->rma_iov_limit = 0;
    info->ep_attr->type = FI_EP_DGRAM;
    info->ep_attr->max_msg_size = LOOP_MTU;
    info->ep_attr->max_order_raw_size = 0;
    info->ep_attr->max_order_war_size = 0;
    info->ep_attr->max_order_waw_size = 0;
    info->ep_attr->mem_tag_format = 0;
}

static int set_addrs(struct fi_info *info, const union addr *src, const union addr *dest)
{
    bool rdm = info->ep_attr->type != FI_EP_MSG;
    char raw[LOOP_ADDR_MAX];
    int rc = info_set_src(info, raw, loop_addr_export(info->addr_format, rdm, src, raw));

    if (!rc && dest)
        rc = info_set_dest(info, raw, loop_addr_export(info->addr_format, rdm, dest, raw));
    return rc;
}

static int add(struct fi_info **list, const struct fi_info *hints, enum loop_offer offer,
               const union addr *src, const union addr *dest)
{
    bool rdm = offer == LOOP_OFFER_RDM || offer == LOOP_OFFER_DGRAM;
    uint64_t asked = rdm ? hints->caps | hints->domain_attr->caps : 0;
    struct fi_info *info = info_alloc();

    if (!info)
        return -FI_ENOMEM;
    fill(info, rdm, offer == LOOP_OFFER_MSG_SHARED);
    if (offer == LOOP_OFFER_DGRAM)
        make_dgram(info);
    /* They change what queues say and names mean: only for callers that ask. */
    info->caps |= asked & ((offer == LOOP_OFFER_RDM ? FI_SOURCE_ERR : 0) | FI_SHARED_AV);
    info->domain_attr->caps |= asked & FI_SHARED_AV;
    info->addr_format = hints->addr_format == FI_ADDR_STR ? FI_ADDR_STR : FI_SOCKADDR_IN;
    if (info_set_string(&info->domain_attr->name, "loop") ||
        info_set_string(&info->fabric_attr->name, "loop") || set_addrs(info, src, dest)) {
        info_free(info);
        return -FI_ENOMEM;
    }
    info_append(list, info);
    return 0;
}

/* ---- The question ---- */

static int resolve(const struct request *req, union addr *addr)
{
    char why[WHY_MAX];
    size_t count = 1;
    int rc;

    if (req->node && !strncmp(req->node, "loop://", 7))
        rc = loop_addr_import(FI_ADDR_STR, req->node, SIZE_MAX, addr);
    else
        rc = addr_resolve(req->node, req->service, req->flags | FI_NUMERICHOST, FI_SOCKADDR_IN,
                          addr, &count, why, sizeof(why));
    if (rc)
        reasons_add(req->reasons, "loop takes addresses like loop://7 and 127.0.0.1: '%s' is none",
                    req->node ? req->node : "");
    return rc;
}

static int import(const struct request *req, const char *name, const void *raw, size_t len,
                  union addr *addr)
{
    uint32_t format = req->hints->addr_format;
    int rc = loop_addr_import(format ? format : FI_SOCKADDR, raw, len, addr);

    if (rc)
        reasons_add(req->reasons, "%s of the hints is not an IPv4 address or loop://N", name);
    return rc;
}

int loop_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    const struct fi_info *hints = req->hints;
    enum loop_shape shape = loop_shape_of(req->params);
    bool named = req->node || req->service, source = req->flags & FI_SOURCE;
    union addr src, dest;
    bool has_dest = false;
    int rc = addr_from_str("127.0.0.1:0", SIZE_MAX, &src);

    *info = NULL;
    if (named && source)
        rc = resolve(req, &src);
    else if (hints->src_addr)
        rc = import(req, "src_addr", hints->src_addr, hints->src_addrlen, &src);
    if (!rc && named && !source) {
        rc = resolve(req, &dest);
        has_dest = true;
    } else if (!rc && hints->dest_addr) {
        rc = import(req, "dest_addr", hints->dest_addr, hints->dest_addrlen, &dest);
        has_dest = true;
    }
    if (rc)
        return 0;
    if (addr_is_any(&src.sa))
        src.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; !rc && i < LOOP_OFFERS; i++) {
        if (shape != LOOP_FULL && (enum loop_offer)i != loop_device_offer(shape))
            continue;
        rc = add(info, hints, (enum loop_offer)i, &src, has_dest ? &dest : NULL);
    }
    if (!rc && shape != LOOP_FULL)
        loop_device_restrict(*info, shape);
    if (rc) {
        info_free(*info);
        *info = NULL;
    }
    return rc;
}
