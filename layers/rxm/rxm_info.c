/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_info.h"

#include <string.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "layers/rxm/conn/rxm_peer.h"
#include "layers/rxm/conn/rxm_wire.h"
#include "layers/rxm/msgproto/msgproto.h"

/* Capabilities that the connections must have; SEND and RECV they always have. */
#define PASSED_CAPS                                                                                \
    (FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT |   \
     FI_RMA_PMEM | FI_HMEM | FI_FENCE | FI_LOCAL_COMM | FI_REMOTE_COMM)
/* Capabilities that large messages need of the connections. */
#define RNDV_CAPS (FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PASS_CAPS (FI_MSG | FI_TAGGED | FI_PEER)
#define ADDED_CAPS                                                                                 \
    (FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE |       \
     FI_NAMED_RX_CTX | FI_PEER)
/* Capabilities that an application gets only when it asks, because they change the content of its
 * queues, or the meaning of names. */
#define ASKED_CAPS (FI_SOURCE_ERR | FI_AV_USER_ID | FI_SHARED_AV)

enum {
    RX_SIZE = 65536,
    SHARED_MAX = 1024 /* shared contexts of a domain; any number, applications want to hear one */
};

/* Any bit may be a field of its own: fi_endpoint(3). */
static const uint64_t TAG_FORMAT = 0xaaaaaaaaaaaaaaaaULL;

/* Atomics are packets, done as they come. */
#define ATOMIC_ORDERS                                                                              \
    ((uint64_t)(FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |                  \
                FI_ORDER_ATOMIC_WAW))

/* A lower that does not work in turn (PEER_IN_TURN) may have done an access before we see the
 * packet that came first. */
#define ACCESS_AFTER_SEND ((uint64_t)(FI_ORDER_RAS | FI_ORDER_WAS))

/* Modes that an application with remote memory of its own deals with; else rxm can. */
#define REMOTE_MR ((int)(FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY))

/* Do these hints, or does this info of ours, speak of memory that peers access? */
static bool has_remote_memory(const struct fi_info *info)
{
    uint64_t caps = info->caps | info->tx_attr->caps | info->rx_attr->caps;

    return !info->caps || caps & (FI_RMA | FI_ATOMIC);
}

/* Does the application say that it registers its buffers? Then nothing needs to be copied, or
 * registered for each use. */
static bool registers_buffers(const struct fi_info *info, uint32_t version)
{
    int mode = info->domain_attr->mr_mode;

    if (info_mr_is_any(mode))
        return false;
    return mr_mode_is_old(info, version) ? info->mode & FI_LOCAL_MR : mode & FI_MR_LOCAL;
}

/* The lower may demand the registration that rxm does itself. */
static void allow_registration(struct fi_info *need, uint32_t version, bool remote)
{
    int *mode = &need->domain_attr->mr_mode;

    if (!mr_mode_is_old(need, version)) {
        *mode |= (int)FI_MR_LOCAL | (remote ? 0 : REMOTE_MR);
        return;
    }
    need->mode |= FI_LOCAL_MR;
    if (*mode == FI_MR_SCALABLE && !remote)
        *mode = FI_MR_BASIC;
}

/* hints or an info of ours, as the lower should see it in either mode. */
static struct fi_info *to_lower(const struct fi_info *hints)
{
    struct fi_info *need = info_for_lower(hints);

    if (!need)
        return NULL;
    need->caps = (hints->caps & PASSED_CAPS) | PASS_CAPS;
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
    need->domain_attr->av_type = FI_AV_UNSPEC;
    need->domain_attr->mr_mode &= ~FI_MR_ENDPOINT; /* a region serves every connection */
    need->domain_attr->max_ep_tx_ctx = 0;
    need->domain_attr->max_ep_rx_ctx = 0;
    need->domain_attr->max_ep_stx_ctx = 0;
    need->domain_attr->max_ep_srx_ctx = 0;
    return need;
}

/* Whether there is an order is the lower's affair; how far it goes is that of pieces (lift). */
static void ask_any_size(size_t *order_size)
{
    if (*order_size)
        *order_size = 1;
}

static void ask_any_sizes(struct fi_ep_attr *attr)
{
    attr->max_msg_size = 0;
    ask_any_size(&attr->max_order_raw_size);
    ask_any_size(&attr->max_order_war_size);
    ask_any_size(&attr->max_order_waw_size);
}

/* With packets of ours only the connection counts: the limits of messages are rxm's own. */
static struct fi_info *to_plain_lower(const struct fi_info *hints, uint32_t version, bool shared)
{
    struct fi_info *need = to_lower(hints);

    if (!need)
        return NULL;
    allow_registration(need, version, has_remote_memory(hints));
    need->caps = (hints->caps & PASSED_CAPS & ~FI_ATOMIC) | FI_MSG | RNDV_CAPS;
    if (shared || (hints->tx_attr->msg_order | hints->rx_attr->msg_order) & ACCESS_AFTER_SEND)
        need->caps |= FI_PEER;
    need->ep_attr->rx_ctx_cnt = shared ? FI_SHARED_CONTEXT : 0;
    need->ep_attr->mem_tag_format = 0;
    ask_any_sizes(need->ep_attr);
    need->mode |= FI_RX_CQ_DATA; /* credits see to it */
    need->tx_attr->inject_size = 0;
    need->tx_attr->iov_limit = 0;
    need->tx_attr->rma_iov_limit = 0;
    need->tx_attr->op_flags &= ~FI_DELIVERY_COMPLETE; /* packets see to it */
    need->tx_attr->msg_order &= ~ATOMIC_ORDERS;
    need->rx_attr->msg_order &= ~ATOMIC_ORDERS;
    need->tx_attr->msg_order |= FI_ORDER_SAS; /* packets come in their order */
    if (need->tx_attr->msg_order & FI_ORDER_WAR)
        need->tx_attr->msg_order |= FI_ORDER_SAR; /* atomics are packets */
    need->tx_attr->comp_order = 0;
    need->rx_attr->msg_order |= FI_ORDER_SAS;
    need->rx_attr->comp_order = 0;
    need->rx_attr->iov_limit = 0;
    return need;
}

static bool tags_are(const struct params *params, const char *choice)
{
    return !strcmp(params_string(params, "tags"), choice);
}

bool rxm_emulates(const struct params *params, const struct fi_info *info)
{
    switch (info->ep_attr->protocol) {
    case FI_PROTO_RXM: return true;
    case FI_PROTO_XNET: return false;
    default: return !tags_are(params, "pass");
    }
}

/* Prefers a lower that asks for buffers: only active peers use memory. */
static struct fi_info *emulated_needs(const struct request *req)
{
    struct fi_info *list = NULL, *need;

    for (int shared = params_bool(req->params, "use_srx"); shared >= 0; shared--) {
        need = to_plain_lower(req->hints, req->version, shared);
        if (!need) {
            info_free(list);
            return NULL;
        }
        info_append(&list, need);
    }
    return list;
}

int rxm_needs(const struct request *req, struct fi_info **lower_hints)
{
    struct fi_info *need;

    if (req->hints->caps & (FI_COLLECTIVE | FI_MULTICAST)) {
        reasons_add_at(req->reasons, REASON_CAPS,
                       "caps: collectives and multicast are not offered");
        return -FI_ENODATA;
    }
    need = tags_are(req->params, "pass") ? to_lower(req->hints) : emulated_needs(req);
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

static void describe(struct fi_info *info, const struct request *req)
{
    uint64_t asked = req->hints->caps | req->hints->domain_attr->caps;

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
    info->domain_attr->max_ep_tx_ctx = RXM_CONTEXTS;
    info->domain_attr->max_ep_rx_ctx = RXM_CONTEXTS;
    info->domain_attr->max_ep_stx_ctx = SHARED_MAX;
    info->domain_attr->max_ep_srx_ctx = SHARED_MAX;
    info->domain_attr->caps |= asked & (FI_AV_USER_ID | FI_SHARED_AV);
    info->fabric_attr->fabric = NULL;
}

/* rxm registers, but for what peers access, and for an application that likes to do it. Since it
 * copies into registered memory anyway, it can inject whatever fits a packet. */
static void describe_registration(struct fi_info *info, const struct request *req)
{
    int mode = info_mr_bits(info);

    info->tx_attr->inject_size =
        mode & FI_MR_LOCAL ? params_size(req->params, "buffer_size") : MSGPROTO_INJECT;
    if (!registers_buffers(req->hints, req->version))
        mode &= ~(int)FI_MR_LOCAL;
    if (!has_remote_memory(req->hints))
        mode &= ~REMOTE_MR;
    info->domain_attr->mr_mode = mode;
    info->mode &= ~FI_LOCAL_MR;
}

/* Accesses are split at the lower's largest, which it keeps in order. */
static void lift(size_t *order_size, size_t lower_max)
{
    if (*order_size >= lower_max)
        *order_size = SIZE_MAX;
}

static void describe_sizes(struct fi_ep_attr *attr)
{
    lift(&attr->max_order_raw_size, attr->max_msg_size);
    lift(&attr->max_order_war_size, attr->max_msg_size);
    lift(&attr->max_order_waw_size, attr->max_msg_size);
    attr->max_msg_size = SIZE_MAX;
}

static void describe_emulated(struct fi_info *info, const struct request *req)
{
    bool told_in_order = info->caps & FI_PEER && req->lower_traits & PEER_IN_TURN;

    describe(info, req);
    describe_registration(info, req);
    describe_sizes(info->ep_attr);
    info->caps |= FI_ATOMIC;
    info->tx_attr->caps = info->caps;
    info->rx_attr->caps = info->caps;
    info->mode &= ~FI_RX_CQ_DATA;
    info->ep_attr->protocol = FI_PROTO_RXM;
    info->ep_attr->protocol_version = 1;
    info->ep_attr->mem_tag_format = TAG_FORMAT;
    info->tx_attr->op_flags |= FI_DELIVERY_COMPLETE;
    info->tx_attr->iov_limit = MSGPROTO_IOV;
    info->tx_attr->rma_iov_limit = RXM_PLACES;
    info->rx_attr->iov_limit = MSGPROTO_IOV;
    if (!told_in_order) {
        info->tx_attr->msg_order &= ~ACCESS_AFTER_SEND;
        info->rx_attr->msg_order &= ~ACCESS_AFTER_SEND;
    }
    info->tx_attr->msg_order |= ATOMIC_ORDERS;
    info->rx_attr->msg_order |= ATOMIC_ORDERS;
    info->tx_attr->comp_order = FI_ORDER_NONE;
    info->rx_attr->comp_order = FI_ORDER_NONE;
}

static int add(struct fi_info **list, const struct fi_info *lower, const struct request *req,
               void (*describe_it)(struct fi_info *info, const struct request *req))
{
    struct fi_info *mine = info_dup(lower);

    if (!mine)
        return -FI_ENOMEM;
    describe_it(mine, req);
    info_append(list, mine);
    return 0;
}

static bool can_pass(const struct fi_info *lower, unsigned traits)
{
    return traits & PEER_ASKS && (lower->caps & PASS_CAPS) == PASS_CAPS &&
           lower->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
}

/* Of a lower that offers both, that which asks us for buffers, unless it is not to be used; else
 * they are posted to each connection. */
static bool wants_shared(const struct params *params, const struct fi_info *lower, unsigned traits)
{
    return params_bool(params, "use_srx") && lower->caps & FI_PEER && traits & PEER_ASKS &&
           lower->domain_attr->max_ep_srx_ctx;
}

static bool holds_packet(const struct params *params, const struct fi_info *lower)
{
    return lower->ep_attr->max_msg_size >= RXM_PACKET_SIZE + params_size(params, "buffer_size");
}

static bool can_emulate(const struct params *params, const struct fi_info *lower, unsigned traits)
{
    return lower->caps & FI_MSG && holds_packet(params, lower) &&
           wants_shared(params, lower, traits) == (lower->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT);
}

static const char *refusal(const struct params *params, const struct fi_info *lower,
                           unsigned traits)
{
    if (tags_are(params, "pass"))
        return "tags=pass needs a lower that carries tags into a shared receive context of ours "
               "(FI_TAGGED, FI_PEER, FI_SHARED_CONTEXT)";
    if (!(lower->caps & FI_MSG))
        return "rxm needs FI_MSG of its lower";
    if (!holds_packet(params, lower))
        return "the lower's max_msg_size is less than a packet of rxm's (64 bytes and buffer_size)";
    return wants_shared(params, lower, traits)
               ? "of the lower's offers rxm takes those with a shared "
                 "receive context (use_srx)"
               : "of the lower's offers rxm takes those without a shared "
                 "receive context (use_srx=no, or it has none for us)";
}

int rxm_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    bool emulate =
        !tags_are(req->params, "pass") && can_emulate(req->params, lower, req->lower_traits);
    bool pass = !tags_are(req->params, "emulate") && can_pass(lower, req->lower_traits);
    int rc = 0;

    *info = NULL;
    if (!emulate && !pass) {
        reasons_add_at(req->reasons, REASON_TYPE, "%s",
                       refusal(req->params, lower, req->lower_traits));
        return -FI_ENODATA;
    }
    if (!format_known(lower->addr_format)) {
        reasons_add(req->reasons, "addr_format: the lower's is neither an IP address nor a text");
        return -FI_ENODATA;
    }
    if (emulate)
        rc = add(info, lower, req, describe_emulated);
    if (!rc && pass)
        rc = add(info, lower, req, describe);
    if (rc) {
        info_free(*info);
        *info = NULL;
    }
    return rc;
}

/* Takes need. */
static int find_lower(const struct lower *lower, uint32_t version, const struct params *params,
                      struct fi_info *need, bool emulate, struct fi_info **ret_lower_info)
{
    struct fi_info *list = NULL, **pos = &list, *found;
    unsigned traits = lower->peer_traits;
    int rc;

    if (!need || info_set_dest(need, NULL, 0)) {
        info_free(need);
        return -FI_ENOMEM;
    }
    rc = lower->getinfo(lower, version, NULL, NULL, 0, need, &list);
    info_free(need);
    if (rc)
        return rc;
    while (*pos && !(emulate ? can_emulate(params, *pos, traits) : can_pass(*pos, traits)))
        pos = &(*pos)->next;
    found = *pos;
    if (found) {
        *pos = found->next;
        found->next = NULL;
        *ret_lower_info = found;
    }
    info_free(list);
    return found ? 0 : -FI_ENODATA;
}

static struct fi_info *with_tags(struct fi_info *need)
{
    if (need)
        need->caps |= FI_TAGGED;
    return need;
}

int rxm_lower_info(const struct lower_fabric *fabric, const struct fi_info *info,
                   struct fi_info **ret_lower_info)
{
    const struct lower *lower = fabric->lower;
    const struct params *params = fabric->plain.params;
    uint32_t version = fabric->base.api_version;
    int rc = -FI_ENODATA;

    if (!rxm_emulates(params, info))
        return find_lower(lower, version, params, to_lower(info), false, ret_lower_info);
    /* Tags of the lower's own are of use where there are any: 1.17 sends small messages in them. */
    if (params_bool(params, "use_srx"))
        rc = find_lower(lower, version, params, with_tags(to_plain_lower(info, version, true)),
                        true, ret_lower_info);
    for (int shared = params_bool(params, "use_srx"); rc == -FI_ENODATA && shared >= 0; shared--)
        rc = find_lower(lower, version, params, to_plain_lower(info, version, shared), true,
                        ret_lower_info);
    return rc;
}

bool rxm_lower_delivers(const struct lower_fabric *fabric, const struct fi_info *lower_info)
{
    const struct lower *lower = fabric->lower;
    struct fi_info *need = info_dup(lower_info), *list = NULL;
    int rc = -FI_ENOMEM;

    if (need) {
        need->tx_attr->op_flags |= FI_DELIVERY_COMPLETE;
        need->handle = NULL;
        rc = lower->getinfo(lower, fabric->base.api_version, NULL, NULL, 0, need, &list);
    }
    info_free(need);
    info_free(list);
    return !rc;
}
