/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Offer against hints, with the most telling refusals first: endpoint type, capabilities, duties of
 * the application, then attributes and limits. The first one is recorded.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/info/tostr.h"

#define MSG_MODIFIERS (FI_SEND | FI_RECV)
#define RMA_MODIFIERS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define MSG_CAPS (FI_MSG | FI_TAGGED | FI_MULTICAST | FI_COLLECTIVE)
#define RMA_CAPS (FI_RMA | FI_ATOMIC)
#define MR_OLD (FI_MR_BASIC | FI_MR_SCALABLE)
#define MR_BASIC_BITS (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

struct check {
    const struct fi_info *offer, *hints;
    uint32_t version;
    struct reasons *reasons;
};

uint64_t caps_expand(uint64_t caps)
{
    if ((caps & MSG_CAPS) && !(caps & MSG_MODIFIERS))
        caps |= MSG_MODIFIERS;
    if ((caps & RMA_CAPS) && !(caps & RMA_MODIFIERS))
        caps |= RMA_MODIFIERS;
    return caps;
}

/* Adds capabilities that others include: receives directed by source the narrower kinds. */
static uint64_t caps_offered(uint64_t caps)
{
    if (caps & FI_DIRECTED_RECV)
        caps |= FI_TAGGED_DIRECTED_RECV | FI_EXACT_DIRECTED_RECV;
    if (caps & FI_TAGGED_DIRECTED_RECV)
        caps |= FI_EXACT_DIRECTED_RECV;
    return caps_expand(caps);
}

/* ---- Refusals: each returns -FI_ENODATA; nothing is formatted without a ledger ---- */

static int refuse_flags(const struct check *c, enum reason_progress progress, const char *attr,
                        enum fi_type type, uint64_t asked, uint64_t offered)
{
    char asked_text[TOSTR_MAX], offered_text[TOSTR_MAX];

    if (c->reasons)
        reasons_add_at(c->reasons, progress, "%s: asked %s, offered %s", attr,
                       tostr_value(asked_text, sizeof(asked_text), type, asked),
                       tostr_value(offered_text, sizeof(offered_text), type, offered));
    return -FI_ENODATA;
}

static int refuse_text(const struct check *c, enum reason_progress progress, const char *attr,
                       const char *asked, const char *offered)
{
    if (c->reasons)
        reasons_add_at(c->reasons, progress, "%s: asked '%s', offered '%s'", attr, asked,
                       offered ? offered : "");
    return -FI_ENODATA;
}

static int refuse_size(const struct check *c, const char *attr, uint64_t asked, uint64_t offered)
{
    if (c->reasons)
        reasons_add_at(c->reasons, REASON_LIMIT, "%s: asked %" PRIu64 ", offered %" PRIu64, attr,
                       asked, offered);
    return -FI_ENODATA;
}

/* ---- Type ---- */

static int check_type(const struct check *c)
{
    enum fi_ep_type asked = c->hints->ep_attr->type, offered = c->offer->ep_attr->type;

    if (asked == FI_EP_UNSPEC || asked == offered)
        return 0;
    return refuse_flags(c, REASON_TYPE, "ep_attr->type", FI_TYPE_EP_TYPE, asked, offered);
}

static int check_name(const struct check *c, const char *attr, const char *asked,
                      const char *offered)
{
    if (!asked || (offered && !strcmp(asked, offered)))
        return 0;
    return refuse_text(c, REASON_TYPE, attr, asked, offered);
}

static int check_names(const struct check *c)
{
    int ret = check_name(c, "fabric_attr->name", c->hints->fabric_attr->name,
                         c->offer->fabric_attr->name);

    return ret ? ret
               : check_name(c, "domain_attr->name", c->hints->domain_attr->name,
                            c->offer->domain_attr->name);
}

/* ---- Capabilities ---- */

static int check_caps_of(const struct check *c, const char *attr, uint64_t asked, uint64_t offered)
{
    uint64_t missing = caps_expand(asked) & ~caps_offered(offered);
    uint64_t shown = offered;

    if (!missing)
        return 0;
    /* Modifiers that only an absent capability implied say nothing new. */
    if (missing & ~INFO_CAPS_MODIFIERS)
        missing &= ~(INFO_CAPS_MODIFIERS & ~asked);
    if (!(missing & INFO_CAPS_MODIFIERS))
        shown &= ~INFO_CAPS_MODIFIERS;
    if (!(missing & INFO_SECONDARY_CAPS))
        shown &= ~INFO_SECONDARY_CAPS;
    return refuse_flags(c, REASON_CAPS, attr, FI_TYPE_CAPS, missing, shown);
}

/* A context that could do nothing of its own kind. */
static int check_context_caps(const struct check *c, const char *attr, uint64_t asked,
                              uint64_t offered, uint64_t kind)
{
    if (asked && !(asked & kind))
        return refuse_flags(c, REASON_CAPS, attr, FI_TYPE_CAPS, asked, offered & kind);
    return check_caps_of(c, attr, asked, offered);
}

static int check_caps(const struct check *c)
{
    uint64_t all = c->offer->caps | c->offer->tx_attr->caps | c->offer->rx_attr->caps;
    int ret = check_caps_of(c, "caps", c->hints->caps, c->offer->caps);

    if (!ret)
        ret = check_context_caps(c, "tx_attr->caps", c->hints->tx_attr->caps, all, INFO_TX_CAPS);
    if (!ret)
        ret = check_context_caps(c, "rx_attr->caps", c->hints->rx_attr->caps, all, INFO_RX_CAPS);
    if (!ret)
        ret = check_caps_of(c, "domain_attr->caps", c->hints->domain_attr->caps,
                            all | c->offer->domain_attr->caps);
    return ret;
}

static int check_protocol(const struct check *c)
{
    const struct fi_ep_attr *asked = c->hints->ep_attr, *offered = c->offer->ep_attr;

    if (asked->protocol != FI_PROTO_UNSPEC && asked->protocol != offered->protocol)
        return refuse_flags(c, REASON_CAPS, "ep_attr->protocol", FI_TYPE_PROTOCOL, asked->protocol,
                            offered->protocol);
    if (asked->protocol_version > offered->protocol_version)
        return refuse_size(c, "ep_attr->protocol_version", asked->protocol_version,
                           offered->protocol_version);
    return 0;
}

/* ---- How the application must behave ---- */

static int needs(const struct check *c, const char *attr, enum fi_type type, uint64_t needed,
                 const char *hint)
{
    char text[TOSTR_MAX];

    if (c->reasons)
        reasons_add_at(c->reasons, REASON_MODE, "%s: needs %s, which %s", attr,
                       tostr_value(text, sizeof(text), type, needed), hint);
    return -FI_ENODATA;
}

static int check_mode(const struct check *c)
{
    uint64_t all = c->offer->mode | c->offer->tx_attr->mode | c->offer->rx_attr->mode;
    uint64_t missing = all & ~c->hints->mode & ~FI_LOCAL_MR;

    return missing ? needs(c, "mode", FI_TYPE_MODE, missing, "the hints do not allow") : 0;
}

bool mr_mode_is_old(const struct fi_info *hints, uint32_t version)
{
    return FI_VERSION_LT(version, FI_VERSION(1, 5)) || hints->domain_attr->mr_mode & MR_OLD;
}

/* Bits that hints in the old spelling (BASIC, SCALABLE, FI_LOCAL_MR) allow an offer to need. */
static int old_mr_allowed(const struct fi_info *hints)
{
    int mode = hints->domain_attr->mr_mode;
    int bits = mode == FI_MR_SCALABLE ? 0 : MR_BASIC_BITS;

    if (info_mr_is_any(mode))
        bits &= mode;
    return hints->mode & FI_LOCAL_MR ? bits | FI_MR_LOCAL : bits;
}

static int check_mr_mode(const struct check *c)
{
    int asked = c->hints->domain_attr->mr_mode, offered = info_mr_bits(c->offer), missing;
    bool old = mr_mode_is_old(c->hints, c->version);

    if (old && asked != FI_MR_UNSPEC && asked != FI_MR_BASIC && asked != FI_MR_SCALABLE &&
        !info_mr_is_any(asked)) {
        char text[TOSTR_MAX];

        if (c->reasons)
            reasons_add_at(c->reasons, REASON_MODE,
                           "domain_attr->mr_mode: asked %s; FI_MR_BASIC and FI_MR_SCALABLE stand "
                           "alone, and other bits need API version 1.5",
                           tostr_value(text, sizeof(text), FI_TYPE_MR_MODE, (unsigned)asked));
        return -FI_ENODATA;
    }
    missing = offered & ~(old ? old_mr_allowed(c->hints) : asked);
    if (!missing)
        return 0;
    if (old && missing == FI_MR_LOCAL)
        return needs(c, "mode", FI_TYPE_MODE, FI_LOCAL_MR, "the hints do not allow");
    return needs(c, "domain_attr->mr_mode", FI_TYPE_MR_MODE, (unsigned)missing,
                 old ? "the hints and API version do not allow" : "the hints do not allow");
}

/* ---- Attributes ---- */

static bool format_fits(uint32_t asked, uint32_t offered)
{
    bool is_ip = offered == FI_SOCKADDR_IN || offered == FI_SOCKADDR_IN6;

    switch (asked) {
    case FI_FORMAT_UNSPEC: return true;
    case FI_SOCKADDR:
        return is_ip || offered == FI_SOCKADDR_IP || offered == FI_SOCKADDR_IB ||
               offered == FI_SOCKADDR;
    case FI_SOCKADDR_IP: return is_ip || offered == FI_SOCKADDR_IP;
    default: return asked == offered;
    }
}

static int check_addr_format(const struct check *c)
{
    uint32_t asked = c->hints->addr_format, offered = c->offer->addr_format;

    if (format_fits(asked, offered))
        return 0;
    return refuse_flags(c, REASON_ATTR, "addr_format", FI_TYPE_ADDR_FORMAT, asked, offered);
}

/* How much an application may do at once: an offer takes its own rank and all below. */
static int threading_rank(enum fi_threading threading)
{
    switch (threading) {
    case FI_THREAD_UNSPEC:
    case FI_THREAD_SAFE: return 4;
    case FI_THREAD_FID: return 3;
    case FI_THREAD_ENDPOINT: return 2;
    case FI_THREAD_COMPLETION: return 1;
    case FI_THREAD_DOMAIN: return 0;
    default: return 5; /* unknown: no offer has it */
    }
}

static int check_progress(const struct check *c, const char *attr, enum fi_progress asked,
                          enum fi_progress offered)
{
    bool known = asked <= FI_PROGRESS_CONTROL_UNIFIED;

    if (known &&
        (asked != FI_PROGRESS_AUTO || offered == FI_PROGRESS_AUTO || offered == FI_PROGRESS_UNSPEC))
        return 0;
    return refuse_flags(c, REASON_ATTR, attr, FI_TYPE_PROGRESS, asked, offered);
}

/* Of enumerations that begin with 0. */
static int check_known(const struct check *c, const char *attr, unsigned asked, unsigned last)
{
    char text[16];

    if (asked <= last)
        return 0;
    snprintf(text, sizeof(text), "%u", asked);
    return refuse_text(c, REASON_ATTR, attr, text, "the values of fi_domain(3)");
}

static int check_models(const struct check *c)
{
    const struct fi_domain_attr *asked = c->hints->domain_attr, *offered = c->offer->domain_attr;
    int ret;

    if (asked->threading != FI_THREAD_UNSPEC &&
        threading_rank(asked->threading) > threading_rank(offered->threading))
        return refuse_flags(c, REASON_ATTR, "domain_attr->threading", FI_TYPE_THREADING,
                            asked->threading, offered->threading);
    ret = check_progress(c, "domain_attr->control_progress", asked->control_progress,
                         offered->control_progress);
    if (!ret)
        ret = check_progress(c, "domain_attr->progress", asked->progress, offered->progress);
    if (ret)
        return ret;
    ret = check_known(c, "domain_attr->resource_mgmt", asked->resource_mgmt, FI_RM_ENABLED);
    if (!ret)
        ret = check_known(c, "domain_attr->av_type", asked->av_type, FI_AV_TABLE);
    if (ret)
        return ret;
    if (asked->resource_mgmt == FI_RM_ENABLED && offered->resource_mgmt == FI_RM_DISABLED)
        return refuse_text(c, REASON_ATTR, "domain_attr->resource_mgmt", "FI_RM_ENABLED",
                           "FI_RM_DISABLED");
    if (asked->av_type != FI_AV_UNSPEC && offered->av_type != FI_AV_UNSPEC &&
        asked->av_type != offered->av_type)
        return refuse_flags(c, REASON_ATTR, "domain_attr->av_type", FI_TYPE_AV_TYPE, asked->av_type,
                            offered->av_type);
    return 0;
}

static int check_tclass(const struct check *c, const char *attr, uint32_t asked, uint32_t offered)
{
    bool known =
        (asked & ~63u) == FI_TC_DSCP || (asked >= FI_TC_LABEL && asked <= FI_TC_NETWORK_CTRL);

    if (asked == FI_TC_UNSPEC || asked == FI_TC_BEST_EFFORT || asked == offered ||
        (offered == INFO_ANY_TCLASS && known))
        return 0;
    if (c->reasons && offered == INFO_ANY_TCLASS)
        reasons_add_at(c->reasons, REASON_ATTR,
                       "%s: asked 0x%x, which is neither a DSCP of 0 to 63 nor a label", attr,
                       asked);
    else if (c->reasons)
        reasons_add_at(c->reasons, REASON_ATTR, "%s: asked 0x%x, offered 0x%x", attr, asked,
                       offered);
    return -FI_ENODATA;
}

static int check_set(const struct check *c, const char *attr, enum fi_type type, uint64_t asked,
                     uint64_t offered)
{
    uint64_t missing = asked & ~offered;

    return missing ? refuse_flags(c, REASON_ATTR, attr, type, missing, offered) : 0;
}

/* FI_ORDER_DATA, the other value, says what every part does. Hints for connections get
 * FI_ORDER_STRICT as everywhere else (0136). */
static int check_strict(const struct check *c, const char *attr, uint64_t asked, uint64_t offered)
{
    uint64_t unknown = asked & ~(FI_ORDER_STRICT | FI_ORDER_DATA);

    if (unknown)
        return refuse_flags(c, REASON_ATTR, attr, FI_TYPE_MSG_ORDER, unknown, offered);
    if (!(asked & ~offered & FI_ORDER_STRICT) || c->offer->ep_attr->type == FI_EP_MSG)
        return 0;
    return refuse_text(c, REASON_ATTR, attr, "FI_ORDER_STRICT",
                       "no order of completions; layer `order` adds it to FI_EP_RDM");
}

static int check_orders(const struct check *c)
{
    const struct fi_info *h = c->hints, *o = c->offer;
    int ret = check_set(c, "tx_attr->msg_order", FI_TYPE_MSG_ORDER, h->tx_attr->msg_order,
                        o->tx_attr->msg_order);

    if (!ret)
        ret = check_set(c, "rx_attr->msg_order", FI_TYPE_MSG_ORDER, h->rx_attr->msg_order,
                        o->rx_attr->msg_order);
    if (!ret)
        ret =
            check_strict(c, "tx_attr->comp_order", h->tx_attr->comp_order, o->tx_attr->comp_order);
    if (!ret)
        ret =
            check_strict(c, "rx_attr->comp_order", h->rx_attr->comp_order, o->rx_attr->comp_order);
    if (!ret)
        ret = check_set(c, "tx_attr->op_flags", FI_TYPE_OP_FLAGS,
                        h->tx_attr->op_flags & ~FI_COMPLETION, o->tx_attr->op_flags);
    if (!ret)
        ret = check_set(c, "rx_attr->op_flags", FI_TYPE_OP_FLAGS,
                        h->rx_attr->op_flags & ~FI_COMPLETION, o->rx_attr->op_flags);
    return ret;
}

/* ---- Limits ---- */

struct limit {
    const char *attr;
    uint64_t asked, offered;
};

static int check_limits(const struct check *c, const struct limit *limits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (limits[i].asked > limits[i].offered)
            return refuse_size(c, limits[i].attr, limits[i].asked, limits[i].offered);
    }
    return 0;
}

#define LIMIT(attr, field)                                                                         \
    {                                                                                              \
#attr "->" #field, c->hints->attr->field, c->offer->attr->field                            \
    }

static int check_endpoint_limits(const struct check *c)
{
    const struct limit limits[] = {
        LIMIT(ep_attr, max_msg_size),
        LIMIT(tx_attr, inject_size),
        LIMIT(tx_attr, size),
        LIMIT(rx_attr, size),
        LIMIT(tx_attr, iov_limit),
        LIMIT(rx_attr, iov_limit),
        LIMIT(tx_attr, rma_iov_limit),
        LIMIT(ep_attr, max_order_raw_size),
        LIMIT(ep_attr, max_order_war_size),
        LIMIT(ep_attr, max_order_waw_size),
    };

    return check_limits(c, limits, sizeof(limits) / sizeof(*limits));
}

/* Counts and sizes that an offer leaves at 0 are not limited by it. */
static uint64_t or_any(uint64_t limit)
{
    return limit ? limit : UINT64_MAX;
}

static int check_domain_limits(const struct check *c)
{
    const struct fi_domain_attr *h = c->hints->domain_attr, *o = c->offer->domain_attr;
    const struct limit limits[] = {
        LIMIT(domain_attr, cq_data_size),
        {"domain_attr->mr_key_size", h->mr_key_size, or_any(o->mr_key_size)},
        {"domain_attr->mr_iov_limit", h->mr_iov_limit, or_any(o->mr_iov_limit)},
        {"domain_attr->cq_cnt", h->cq_cnt, or_any(o->cq_cnt)},
        {"domain_attr->ep_cnt", h->ep_cnt, or_any(o->ep_cnt)},
        {"domain_attr->cntr_cnt", h->cntr_cnt, or_any(o->cntr_cnt)},
        {"domain_attr->tx_ctx_cnt", h->tx_ctx_cnt, or_any(o->tx_ctx_cnt)},
        {"domain_attr->rx_ctx_cnt", h->rx_ctx_cnt, or_any(o->rx_ctx_cnt)},
        LIMIT(domain_attr, max_ep_tx_ctx),
        LIMIT(domain_attr, max_ep_rx_ctx),
        LIMIT(domain_attr, max_ep_stx_ctx),
        LIMIT(domain_attr, max_ep_srx_ctx),
        LIMIT(domain_attr, max_err_data),
        {"domain_attr->mr_cnt", h->mr_cnt, or_any(o->mr_cnt)},
        LIMIT(domain_attr, max_ep_auth_key),
        LIMIT(domain_attr, max_group_id),
        {"domain_attr->max_cntr_value", h->max_cntr_value, or_any(o->max_cntr_value)},
        {"domain_attr->max_err_cntr_value", h->max_err_cntr_value, or_any(o->max_err_cntr_value)},
        {"fabric_attr->prov_version", c->hints->fabric_attr->prov_version,
         or_any(c->offer->fabric_attr->prov_version)},
    };

    return check_limits(c, limits, sizeof(limits) / sizeof(*limits));
}

/* A count of contexts, or FI_SHARED_CONTEXT. An offer that is made for a shared one is only that.
 */
static int check_contexts(const struct check *c, const char *attr, size_t asked, size_t offered,
                          size_t max_own, size_t max_shared)
{
    char text[32];

    if (!asked)
        return 0;
    if (asked == FI_SHARED_CONTEXT) {
        if (max_shared || offered == FI_SHARED_CONTEXT)
            return 0;
        snprintf(text, sizeof(text), "%zu", offered);
        return refuse_text(c, REASON_ATTR, attr, "FI_SHARED_CONTEXT", text);
    }
    if (offered == FI_SHARED_CONTEXT) {
        snprintf(text, sizeof(text), "%zu", asked);
        return refuse_text(c, REASON_ATTR, attr, text, "FI_SHARED_CONTEXT");
    }
    if (max_own < offered)
        max_own = offered;
    return asked > max_own ? refuse_size(c, attr, asked, max_own) : 0;
}

static int check_all_contexts(const struct check *c)
{
    const struct fi_ep_attr *asked = c->hints->ep_attr, *offered = c->offer->ep_attr;
    const struct fi_domain_attr *domain = c->offer->domain_attr;
    int ret = check_contexts(c, "ep_attr->tx_ctx_cnt", asked->tx_ctx_cnt, offered->tx_ctx_cnt,
                             domain->max_ep_tx_ctx, domain->max_ep_stx_ctx);

    return ret ? ret
               : check_contexts(c, "ep_attr->rx_ctx_cnt", asked->rx_ctx_cnt, offered->rx_ctx_cnt,
                                domain->max_ep_rx_ctx, domain->max_ep_srx_ctx);
}

static unsigned significant_bits(uint64_t value)
{
    return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

/* Fields of an older format fit when its bits do: ours match tags bit by bit. */
static int check_tag_format(const struct check *c)
{
    uint64_t asked = c->hints->ep_attr->mem_tag_format;
    uint64_t offered = c->offer->ep_attr->mem_tag_format;

    if (!offered || asked < FI_TAG_MAX_FORMAT ||
        significant_bits(asked) <= significant_bits(offered))
        return 0;
    if (c->reasons)
        reasons_add_at(c->reasons, REASON_LIMIT,
                       "ep_attr->mem_tag_format: asked 0x%" PRIx64 ", offered 0x%" PRIx64, asked,
                       offered);
    return -FI_ENODATA;
}

static int check_auth_keys(const struct check *c)
{
    const struct fi_domain_attr *asked = c->hints->domain_attr, *offered = c->offer->domain_attr;

    if (FI_VERSION_LT(c->version, FI_VERSION(1, 5)))
        return 0;
    if (asked->auth_key_size == FI_AV_AUTH_KEY) {
        if (!offered->max_ep_auth_key)
            return refuse_text(c, REASON_ATTR, "domain_attr->auth_key_size", "FI_AV_AUTH_KEY",
                               "no authorization keys");
    } else if (asked->auth_key_size > offered->auth_key_size) {
        return refuse_size(c, "domain_attr->auth_key_size", asked->auth_key_size,
                           offered->auth_key_size);
    }
    if (c->hints->ep_attr->auth_key_size > c->offer->ep_attr->auth_key_size)
        return refuse_size(c, "ep_attr->auth_key_size", c->hints->ep_attr->auth_key_size,
                           c->offer->ep_attr->auth_key_size);
    return 0;
}

int info_check(const struct fi_info *offer, const struct fi_info *hints, uint32_t version,
               struct reasons *reasons)
{
    static int (*const steps[])(const struct check *) = {
        check_type,
        check_names,
        check_caps,
        check_protocol,
        check_mode,
        check_mr_mode,
        check_addr_format,
        check_models,
        check_orders,
        check_all_contexts,
        check_tag_format,
        check_auth_keys,
        check_endpoint_limits,
        check_domain_limits,
    };
    struct check c = {.offer = offer, .hints = hints, .version = version, .reasons = reasons};
    int ret = 0;

    for (size_t i = 0; !ret && i < sizeof(steps) / sizeof(*steps); i++)
        ret = steps[i](&c);
    if (!ret)
        ret = check_tclass(&c, "tx_attr->tclass", hints->tx_attr->tclass, offer->tx_attr->tclass);
    if (!ret)
        ret = check_tclass(&c, "domain_attr->tclass", hints->domain_attr->tclass,
                           offer->domain_attr->tclass);
    return ret;
}
