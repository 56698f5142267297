/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_info.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/net/host.h"
#include "core/net/rdma_nic.h"
#include "transports/verbs/verbs_atomic.h"
#include "transports/verbs/verbs_device.h"

enum {
    ADDRS_MAX = 16,
    WHY_MAX = 200,
    NAME_MAX_LEN = 64,
};

static const uint64_t caps = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE |
                             FI_REMOTE_READ | FI_REMOTE_WRITE | FI_FENCE | FI_LOCAL_COMM |
                             FI_REMOTE_COMM | FI_PEER;
/* A read's answer may leave after what came behind the read was done: nothing follows a read. */
static const uint64_t orders = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW |
                               FI_ORDER_WAS | FI_ORDER_SAW | FI_ORDER_SAS | FI_ORDER_RMA_RAR |
                               FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW;

static const uint64_t atomic_orders =
    FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAW;

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t size_param(const struct params *params, const char *key)
{
    return (size_t)params_int(params, key);
}

static void fill_domain(struct fi_domain_attr *attr, const struct ibv_device_attr *device)
{
    attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    attr->mr_key_size = sizeof(uint32_t);
    attr->cq_data_size = sizeof(uint32_t);
    attr->mr_iov_limit = 1;
    attr->cq_cnt = (size_t)device->max_cq;
    attr->ep_cnt = (size_t)device->max_qp;
    attr->tx_ctx_cnt = (size_t)device->max_qp;
    attr->rx_ctx_cnt = (size_t)device->max_qp;
    attr->mr_cnt = (size_t)device->max_mr;
    attr->cntr_cnt = (size_t)device->max_cq;
    attr->max_ep_srx_ctx = (size_t)device->max_srq;
    attr->max_ep_tx_ctx = 1;
    attr->max_ep_rx_ctx = 1;
    attr->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
    attr->tclass = INFO_ANY_TCLASS;
}

void verbs_info_fill(struct fi_info *info, const struct verbs_place *place,
                     const struct params *params)
{
    const struct ibv_device_attr *device = &place->device->attr;
    size_t most = (size_t)device->max_qp_wr;
    bool atomics = verbs_has_atomics(place->device);

    info->caps = caps | (atomics ? FI_ATOMIC : 0);
    info->mode = FI_RX_CQ_DATA;
    info->tx_attr->caps = info->caps;
    info->tx_attr->op_flags = FI_INJECT | FI_INJECT_COMPLETE | FI_COMPLETION | FI_TRANSMIT_COMPLETE;
    info->tx_attr->msg_order = orders | (atomics ? atomic_orders : 0);
    info->tx_attr->comp_order = FI_ORDER_STRICT | FI_ORDER_DATA;
    info->tx_attr->size = least(size_param(params, "tx_size"), most);
    info->tx_attr->iov_limit = least(size_param(params, "tx_iov_limit"), (size_t)device->max_sge);
    info->tx_attr->rma_iov_limit = 1;
    info->tx_attr->inject_size =
        least(size_param(params, "inline_size"), place->device->inline_max);
    info->tx_attr->tclass = INFO_ANY_TCLASS;
    info->rx_attr->caps = info->caps;
    info->rx_attr->op_flags = FI_COMPLETION;
    info->rx_attr->msg_order = info->tx_attr->msg_order;
    info->rx_attr->comp_order = FI_ORDER_STRICT | FI_ORDER_DATA;
    info->rx_attr->size = least(size_param(params, "rx_size"), most);
    info->rx_attr->iov_limit = least(size_param(params, "rx_iov_limit"), (size_t)device->max_sge);
    info->ep_attr->type = FI_EP_MSG;
    info->ep_attr->protocol = FI_PROTO_RDMA_CM_IB_RC;
    info->ep_attr->protocol_version = 1;
    info->ep_attr->max_msg_size = place->port_attr.max_msg_sz;
    info->ep_attr->max_order_raw_size = info->ep_attr->max_msg_size;
    info->ep_attr->max_order_waw_size = info->ep_attr->max_msg_size;
    info->ep_attr->tx_ctx_cnt = 1;
    info->ep_attr->rx_ctx_cnt = 1;
    fill_domain(info->domain_attr, device);
}

/* ---- Names and addresses ---- */

static bool same_text(const char *a, const char *b)
{
    return a && !strcmp(a, b);
}

/* InfiniBand: the subnet, as libfabric names it. Ethernet: that of the interface, since the prefix
 * of a RoCE GID says nothing of the hosts in reach; a caller that asks by libfabric's name is
 * answered with it. */
static int set_fabric(struct fi_info *info, const struct verbs_place *place, int gid_index,
                      const char *asked)
{
    char text[ADDR_TEXT_MAX + NAME_MAX_LEN], network[ADDR_TEXT_MAX];
    union ibv_gid gid = {{0}};
    uint64_t prefix = 0;

    if (!verbs_lib.query_gid(place->device->context, place->port, gid_index, &gid))
        for (int i = 0; i < 8; i++)
            prefix = prefix << 8 | gid.raw[i];
    snprintf(text, sizeof(text), "IB-0x%016" PRIx64, prefix);
    if (place->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET && !same_text(asked, text))
        snprintf(text, sizeof(text), "RoCE-%s",
                 netif_network_text(&place->netif, network, sizeof(network)));
    return info_set_string(&info->fabric_attr->name, text);
}

/* ---- The question ---- */

struct question {
    const struct request *req;
    union addr src, dest;
    bool has_src, has_dest, any_host;
};

static int read_addr(const struct question *question, bool named, const void *raw, size_t len,
                     const char *field, union addr *addr)
{
    const struct request *req = question->req;
    union addr addrs[ADDRS_MAX];
    size_t count = ADDRS_MAX;
    char why[WHY_MAX];
    int rc;

    if (!named) {
        rc = addr_import(req->hints->addr_format, raw, len, addr);
        if (rc)
            reasons_add(req->reasons, "%s of the hints is not an address of its addr_format",
                        field);
        return rc;
    }
    rc = addr_resolve(req->node, req->service, req->flags, req->hints->addr_format, addrs, &count,
                      why, sizeof(why));
    if (rc)
        reasons_add(req->reasons, "%s", why);
    else
        *addr = addrs[0];
    return rc;
}

static int read_question(struct question *question)
{
    const struct request *req = question->req;
    const struct fi_info *hints = req->hints;
    bool named = req->node || req->service, source = req->flags & FI_SOURCE;
    int rc = 0;

    question->has_src = (named && source) || hints->src_addr;
    question->has_dest = (named && !source) || hints->dest_addr;
    question->any_host = named && source && !req->node;
    if (question->has_src)
        rc = read_addr(question, named && source, hints->src_addr, hints->src_addrlen, "src_addr",
                       &question->src);
    if (!rc && question->has_dest)
        rc = read_addr(question, named && !source, hints->dest_addr, hints->dest_addrlen,
                       "dest_addr", &question->dest);
    return rc;
}

static bool same_host(const union addr *a, const union addr *b)
{
    union addr left = *a, right = *b;

    addr_set_port(&left.sa, 0);
    addr_set_port(&right.sa, 0);
    return addr_equal(&left.sa, &right.sa);
}

static bool suits(const struct question *question, const struct verbs_place *place)
{
    const union addr *addr = &place->netif.addr;
    uint32_t format = question->req->hints->addr_format;

    if (question->has_src && !question->any_host && !addr_is_any(&question->src.sa) &&
        !same_host(&question->src, addr))
        return false;
    if (question->has_dest && (question->dest.sa.sa_family != addr->sa.sa_family ||
                               addr_is_loopback(&question->dest.sa) != addr_is_loopback(&addr->sa)))
        return false;
    if (format == FI_SOCKADDR_IN)
        return addr->sa.sa_family == AF_INET;
    return format != FI_SOCKADDR_IN6 || addr->sa.sa_family == AF_INET6;
}

/* The caller asks by name for a listener on whichever device a request comes over. */
static bool is_wild(const struct question *question)
{
    const struct fi_info *hints = question->req->hints;
    bool host = question->has_src && !question->any_host && !addr_is_any(&question->src.sa);

    if (host || question->has_dest)
        return false;
    return same_text(hints->domain_attr->name, VERBS_ANY_DOMAIN) ||
           same_text(hints->fabric_attr->name, VERBS_ANY_FABRIC);
}

/* Of its address only the port is known; the device comes with a request. */
static int set_wild(struct fi_info *info, const struct question *question, union addr *src)
{
    union addr any = {.sa = {.sa_family = src->sa.sa_family}};
    int rc = info_set_string(&info->domain_attr->name, VERBS_ANY_DOMAIN);

    if (question->has_src)
        addr_set_port(&any.sa, addr_port(&question->src.sa));
    *src = any;
    return rc ? rc : info_set_string(&info->fabric_attr->name, VERBS_ANY_FABRIC);
}

/* A write with CQ data takes a receive, which concerns only an application that has some. */
static bool speaks_of_data(const struct fi_info *hints)
{
    return hints->mode & FI_RX_CQ_DATA || hints->domain_attr->cq_data_size;
}

/* Receives are those of a shared context, where the device has them. */
static void share_receives(struct fi_info *info, const struct ibv_device_attr *device)
{
    if (!device->max_srq)
        return;
    info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    info->rx_attr->size = least(info->rx_attr->size, (size_t)device->max_srq_wr);
    info->rx_attr->iov_limit = least(info->rx_attr->iov_limit, (size_t)device->max_srq_sge);
}

static int set_names(struct fi_info *info, const struct question *question,
                     const struct verbs_place *place)
{
    const union addr *addr = &place->netif.addr;
    const void *host = addr->sa.sa_family == AF_INET6 ? (const void *)&addr->in6.sin6_addr
                                                      : (const void *)&addr->in.sin_addr;
    char text[ADDR_TEXT_MAX] = "";
    int rc;

    inet_ntop(addr->sa.sa_family, host, text, sizeof(text));
    info->nic = rdma_nic(place->device->name, &place->device->attr, &place->port_attr, text);
    if (!info->nic)
        return -FI_ENOMEM;
    rc = set_fabric(info, place, params_int(question->req->params, "gid_idx"),
                    question->req->hints->fabric_attr->name);
    return rc ? rc : info_set_string(&info->domain_attr->name, place->device->name);
}

static struct fi_info *make(const struct question *question, const struct verbs_place *place)
{
    struct fi_info *info = info_alloc();
    union addr src = place->netif.addr;
    int rc;

    if (!info)
        return NULL;
    verbs_info_fill(info, place, question->req->params);
    if (question->req->hints->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT)
        share_receives(info, &place->device->attr);
    if (!speaks_of_data(question->req->hints))
        info->mode &= ~FI_RX_CQ_DATA;
    info->addr_format =
        question->req->hints->addr_format == FI_ADDR_STR ? FI_ADDR_STR : addr_format(&src.sa);
    if (question->has_src)
        addr_set_port(&src.sa, addr_port(&question->src.sa));
    rc = is_wild(question) ? set_wild(info, question, &src) : set_names(info, question, place);
    if (!rc)
        rc = host_set_src(info, &src.sa);
    if (!rc && question->has_dest)
        rc = host_set_dest(info, &question->dest.sa);
    if (!rc)
        return info;
    info_free(info);
    return NULL;
}

int verbs_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    struct question question = {.req = req};
    struct verbs_place *places;
    const char *why;
    size_t count;
    int rc;

    *info = NULL;
    if (!rdma_devices_possible()) {
        reasons_add(req->reasons, RDMA_NO_DEVICE);
        return 0;
    }
    if (verbs_cm_lib_load(&why)) {
        reasons_add(req->reasons, "%s", why);
        return 0;
    }
    rc = verbs_places(req->params, req->reasons, &places, &count);
    if (rc || !count || read_question(&question)) {
        free(places);
        return rc;
    }
    for (size_t i = 0; !rc && i < count && !(*info && is_wild(&question)); i++) {
        struct fi_info *one = NULL;

        if (!suits(&question, &places[i]))
            continue;
        one = make(&question, &places[i]);
        if (one)
            info_append(info, one);
        else
            rc = -FI_ENOMEM;
    }
    free(places);
    if (!rc && !*info)
        reasons_add(req->reasons, "no RDMA device has, or reaches, the address asked");
    if (rc) {
        info_free(*info);
        *info = NULL;
    }
    return rc;
}
