/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_info.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/info.h"
#include "core/log.h"
#include "core/netif.h"
#include "core/nic.h"
#include "transports/tcp/tcp_order.h"
#include "transports/tcp/tcp_wire.h"

enum {
    ADDRS_MAX = 16, /* of one resolved name */
    WHY_MAX = 256,
    OBJECTS_MAX = 65536,
};

/* Any bit may be a field of its own: fi_endpoint(3). */
static const uint64_t TAG_FORMAT = 0xaaaaaaaaaaaaaaaaULL;

/* What of addresses a request asks for. */
struct question {
    const struct request *req;
    bool text;       /* FI_ADDR_STR */
    bool has_src;    /* src is of use: an address, or a port only */
    bool any_family; /* only the port of src counts */
    union addr src;
    size_t dest_count;
    union addr dest[ADDRS_MAX];
};

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

/* ---- Addresses in and out of infos ---- */

static int set_addr(struct fi_info *info, const struct sockaddr *addr,
                    int (*set)(struct fi_info *info, const void *addr, size_t len))
{
    char text[ADDR_TEXT_MAX];

    if (info->addr_format != FI_ADDR_STR)
        return set(info, addr, addr_size(addr));
    return set(info, text, addr_to_str(addr, text, sizeof(text)) + 1);
}

int tcp_info_set_src(struct fi_info *info, const struct sockaddr *addr)
{
    return set_addr(info, addr, info_set_src);
}

int tcp_info_set_dest(struct fi_info *info, const struct sockaddr *addr)
{
    return set_addr(info, addr, info_set_dest);
}

int tcp_addr_export(uint32_t format, const struct sockaddr *addr, void *raw, size_t *len)
{
    char text[ADDR_TEXT_MAX];
    const void *from = addr;
    size_t size = addr_size(addr), room = *len;

    if (format == FI_ADDR_STR) {
        size = addr_to_str(addr, text, sizeof(text)) + 1;
        from = text;
    }
    *len = size;
    if (room && raw)
        memcpy(raw, from, size < room ? size : room);
    return room < size ? -FI_ETOOSMALL : 0;
}

/* ---- Attributes ---- */

static struct fid_nic *describe_nic(const struct netif *netif)
{
    struct fid_nic *nic = nic_create();
    char text[INET6_ADDRSTRLEN] = "";
    const void *host = netif->addr.sa.sa_family == AF_INET6
                           ? (const void *)&netif->addr.in6.sin6_addr
                           : (const void *)&netif->addr.in.sin_addr;

    if (!nic)
        return NULL;
    inet_ntop(netif->addr.sa.sa_family, host, text, sizeof(text));
    nic->device_attr->name = strdup(netif->name);
    nic->link_attr->address = strdup(text);
    nic->link_attr->network_type = strdup("Ethernet");
    nic->link_attr->mtu = (size_t)netif->mtu;
    nic->link_attr->speed = (size_t)netif->speed * 1000000;
    nic->link_attr->state = FI_LINK_UP;
    return nic;
}

static void fill_domain(struct fi_domain_attr *attr)
{
    attr->mr_key_size = sizeof(uint64_t);
    attr->cq_data_size = sizeof(uint64_t);
    attr->cq_cnt = OBJECTS_MAX;
    attr->ep_cnt = OBJECTS_MAX;
    attr->tx_ctx_cnt = OBJECTS_MAX;
    attr->rx_ctx_cnt = OBJECTS_MAX;
    attr->max_ep_tx_ctx = 1;
    attr->max_ep_rx_ctx = 1;
    attr->max_ep_stx_ctx = OBJECTS_MAX;
    attr->max_ep_srx_ctx = OBJECTS_MAX;
    attr->cntr_cnt = OBJECTS_MAX;
    attr->mr_cnt = OBJECTS_MAX;
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

/* With an own receive queue only when asked: tags complete receives in the order in which they
 * match, and who asks for none keeps that of posting. */
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

static void fill_attrs(struct fi_info *info, const struct request *req, bool shared)
{
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
}

/* ---- One offer ---- */

static int fill_names(struct fi_info *info, const struct netif *netif)
{
    char text[ADDR_TEXT_MAX];

    info->nic = describe_nic(netif);
    if (!info->nic || info_set_string(&info->domain_attr->name, netif->name))
        return -FI_ENOMEM;
    return info_set_string(&info->fabric_attr->name, netif_network_text(netif, text, sizeof(text)));
}

static struct fi_info *make(const struct question *question, const struct netif *netif,
                            const union addr *dest, bool shared)
{
    struct fi_info *info = info_alloc();
    union addr src = netif->addr;

    if (!info)
        return NULL;
    if (question->has_src)
        addr_set_port(&src.sa, addr_port(&question->src.sa));
    info->addr_format = question->text ? FI_ADDR_STR : addr_format(&netif->addr.sa);
    fill_attrs(info, question->req, shared);
    if (fill_names(info, netif) || tcp_info_set_src(info, &src.sa) ||
        (dest && tcp_info_set_dest(info, &dest->sa))) {
        info_free(info);
        return NULL;
    }
    return info;
}

static int add(struct fi_info **list, const struct question *question, const struct netif *netif,
               const union addr *dest)
{
    for (int shared = 0; shared <= 1; shared++) {
        struct fi_info *info = make(question, netif, dest, shared);

        if (!info)
            return -FI_ENOMEM;
        info_append(list, info);
    }
    return 0;
}

/* ---- Which interface goes with which address ---- */

static bool same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    union addr left, right;

    memcpy(&left, a, addr_size(a));
    memcpy(&right, b, addr_size(b));
    addr_set_port(&left.sa, 0);
    addr_set_port(&right.sa, 0);
    return addr_equal(&left.sa, &right.sa);
}

static bool suits_source(const struct question *question, const struct netif *netif)
{
    if (!question->has_src || question->any_family)
        return true;
    if (question->src.sa.sa_family != netif->addr.sa.sa_family)
        return false;
    return addr_is_any(&question->src.sa) || same_host(&question->src.sa, &netif->addr.sa);
}

static bool suits_format(uint32_t format, const struct netif *netif)
{
    if (format == FI_SOCKADDR_IN)
        return netif->addr.sa.sa_family == AF_INET;
    if (format == FI_SOCKADDR_IN6)
        return netif->addr.sa.sa_family == AF_INET6;
    return true;
}

static bool is_link_local(const union addr *addr)
{
    return addr->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&addr->in6.sin6_addr);
}

static bool suits_dest(const struct netif *netif, const union addr *dest)
{
    if (netif->addr.sa.sa_family != dest->sa.sa_family)
        return false;
    if (addr_is_loopback(&netif->addr.sa) != addr_is_loopback(&dest->sa))
        return false;
    if (is_link_local(&netif->addr) != is_link_local(dest))
        return false;
    return !is_link_local(dest) || netif->addr.in6.sin6_scope_id == dest->in6.sin6_scope_id;
}

/* The local address from which the kernel would reach dest; false when it cannot say. */
static bool route_source(const union addr *dest, union addr *src)
{
    socklen_t size = sizeof(*src);
    int fd = socket(dest->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    bool known = !connect(fd, &dest->sa, addr_size(&dest->sa)) && !getsockname(fd, &src->sa, &size);
    close(fd);
    return known;
}

/* Those that fit one destination (or none), the one that the kernel would take first. */
static int add_all(struct fi_info **list, const struct question *question,
                   const struct netif *netifs, size_t count, const union addr *dest)
{
    uint32_t format = question->req->hints->addr_format;
    union addr preferred;
    bool routed = dest && route_source(dest, &preferred);

    for (int pass = routed ? 0 : 1; pass <= 1; pass++) {
        for (size_t i = 0; i < count; i++) {
            bool first = routed && same_host(&preferred.sa, &netifs[i].addr.sa);

            if (first != (pass == 0) || !suits_source(question, &netifs[i]) ||
                !suits_format(format, &netifs[i]) || (dest && !suits_dest(&netifs[i], dest)))
                continue;
            int rc = add(list, question, &netifs[i], dest);
            if (rc)
                return rc;
        }
    }
    return 0;
}

/* ---- The question ---- */

static int resolve(struct question *question, union addr *addrs, size_t *count)
{
    const struct request *req = question->req;
    char why[WHY_MAX];
    int rc = addr_resolve(req->node, req->service, req->flags, req->hints->addr_format, addrs,
                          count, why, sizeof(why));

    if (rc)
        reasons_add(req->reasons, "%s", why);
    return rc;
}

static int import_hint(const struct request *req, const char *name, const void *raw, size_t len,
                       union addr *addr)
{
    int rc = addr_import(req->hints->addr_format, raw, len, addr);

    if (rc)
        reasons_add(req->reasons, "%s of the hints is not an address of its addr_format", name);
    return rc;
}

static int read_source(struct question *question)
{
    const struct request *req = question->req;
    const struct fi_info *hints = req->hints;
    int rc = 0;

    if (req->flags & FI_SOURCE && (req->node || req->service)) {
        union addr addrs[ADDRS_MAX];
        size_t count = ADDRS_MAX;

        rc = resolve(question, addrs, &count);
        if (!rc)
            question->src = addrs[0];
        question->has_src = !rc;
        /* A service alone is a port of every interface. */
        question->any_family = !req->node;
    } else if (hints->src_addr) {
        rc = import_hint(req, "src_addr", hints->src_addr, hints->src_addrlen, &question->src);
        question->has_src = !rc;
    }
    return rc;
}

static int read_dest(struct question *question)
{
    const struct request *req = question->req;
    const struct fi_info *hints = req->hints;

    if (!(req->flags & FI_SOURCE) && (req->node || req->service)) {
        question->dest_count = ADDRS_MAX;
        return resolve(question, question->dest, &question->dest_count);
    }
    if (!hints->dest_addr)
        return 0;
    question->dest_count = 1;
    return import_hint(req, "dest_addr", hints->dest_addr, hints->dest_addrlen, question->dest);
}

static void explain_nothing(const struct question *question)
{
    struct reasons *reasons = question->req->reasons;
    char text[ADDR_TEXT_MAX];

    if (question->has_src && !question->any_family && !addr_is_any(&question->src.sa))
        reasons_add(reasons, "no chosen interface has the source address %s",
                    addr_text(&question->src.sa, text, sizeof(text)));
    else if (question->dest_count)
        reasons_add(reasons, "no chosen interface has an address that reaches %s",
                    addr_text(&question->dest[0].sa, text, sizeof(text)));
    else
        reasons_add(reasons, "no chosen interface has an address of the addr_format asked");
}

int tcp_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    struct question question = {.req = req, .text = req->hints->addr_format == FI_ADDR_STR};
    struct netif *netifs;
    struct fi_info *list = NULL;
    size_t count;
    char why[WHY_MAX];

    *info = NULL;
    if (req->hints->caps & FI_ATOMIC && !offers_atomics(req))
        reasons_add(req->reasons, "atomics over FI_EP_MSG need FI_PEER, for an upper that asks the "
                                  "peer whether it knows them: rxm does");
    if (read_source(&question) || read_dest(&question))
        return 0;
    int rc = netif_list(params_string(req->params, "iface"), &netifs, &count, why, sizeof(why));
    if (rc) {
        reasons_add(req->reasons, "%s", why);
        if (params_given(req->params, "iface"))
            log_user("tcp(iface=%s): %s", params_string(req->params, "iface"), why);
        return rc == -FI_ENOMEM ? rc : 0;
    }
    for (size_t i = 0; !rc && i < question.dest_count; i++)
        rc = add_all(&list, &question, netifs, count, &question.dest[i]);
    if (!rc && !question.dest_count)
        rc = add_all(&list, &question, netifs, count, NULL);
    free(netifs);
    if (rc) {
        info_free(list);
        return rc;
    }
    if (!list)
        explain_nothing(&question);
    *info = list;
    return 0;
}
