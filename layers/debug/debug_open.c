/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that are opened, and whether what they are opened with was ever granted. */

#include <rdma/fi_errno.h>

#include "core/domain/base.h"
#include "core/ep/group.h"
#include "core/info/info.h"
#include "core/part/part.h"
#include "layers/debug/debug.h"

/* ---- Granted? ---- */

/* Hints that ask for nothing but the kind of endpoint, and take every mode. */
static struct fi_info *open_hints(const struct fi_info *asked)
{
    struct fi_info *hints = info_complete(NULL);

    if (!hints)
        return NULL;
    hints->ep_attr->type = asked->ep_attr->type;
    hints->ep_attr->rx_ctx_cnt =
        asked->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT ? FI_SHARED_CONTEXT : 0;
    hints->addr_format = asked->addr_format;
    return hints;
}

/* An info as hints: without what says where, or is an object. This layer demands modes by itself,
 * and the application may have had a mode taken away. */
static struct fi_info *as_hints(const struct fi_info *info)
{
    struct fi_info *hints = info_complete(info);

    if (!hints || info_set_src(hints, NULL, 0) || info_set_dest(hints, NULL, 0) ||
        info_set_string(&hints->fabric_attr->prov_name, NULL)) {
        info_free(hints);
        return NULL;
    }
    hints->handle = NULL;
    hints->domain_attr->domain = NULL;
    hints->fabric_attr->fabric = NULL;
    hints->mode = INFO_ANY_MODE;
    hints->domain_attr->mr_mode = (int)INFO_ANY_MR_MODE;
    return hints;
}

static int offers_for(const struct hook_fabric *fabric, const struct fi_info *hints,
                      struct fi_info **offers)
{
    *offers = NULL;
    return fabric->hold->getinfo(fabric->hold, fabric->base.api_version, NULL, NULL, 0, hints,
                                 offers);
}

/* The lower's objects of that kind, and where the lower falls short. */
static void explain(const struct hook_fabric *fabric, const struct fi_info *asked,
                    struct reasons *reasons)
{
    struct fi_info *hints = open_hints(asked), *offers = NULL;

    if (hints)
        offers_for(fabric, hints, &offers);
    for (const struct fi_info *offer = offers; offer; offer = offer->next)
        info_check(offer, asked, fabric->base.api_version, reasons);
    info_free(hints);
    info_free(offers);
}

/* info: in the current layout. */
static void check_granted(const struct debug_object *parent, const struct hook_fabric *fabric,
                          const struct fi_info *info, const char *call)
{
    struct fi_info *asked = as_hints(info), *offers = NULL;
    struct reasons *reasons = reasons_create();
    char whom[DEBUG_NAME];

    if (asked && reasons && offers_for(fabric, asked, &offers) == -FI_ENODATA) {
        explain(fabric, asked, reasons);
        debug_report(parent->layer->reporter, DEBUG_GRANTED, call, debug_name(parent, whom),
                     "fi_getinfo grants no such info: %s",
                     reasons_summary(reasons) ? reasons_summary(reasons) : "no such endpoints");
    }
    info_free(offers);
    info_free(asked);
    reasons_destroy(reasons);
}

/* ---- Notes on opened objects ---- */

/* Sets, groups and aliases depend on other objects than their fid's parent. */
static struct fid *parent_of(const struct fid *fid, const struct hook_opening *opening)
{
    bool beside = opening->alias || fid->fclass == FI_CLASS_AV_SET || fid->fclass == FI_CLASS_MC;
    const struct debug_object *from = debug_of(opening->parent);

    return beside && from ? (struct fid *)from->parent->fid : opening->parent;
}

static void domain_opened(struct fid *fid, const struct hook_opening *opening)
{
    struct debug_domain *own = debug_opened(fid, opening->parent, sizeof(*own));
    const struct fi_info *info = opening->info;

    if (!own)
        return;
    list_init(&own->regions);
    own->threading = info->domain_attr ? info->domain_attr->threading : FI_THREAD_SAFE;
    own->local = info->domain_attr && info_mr_bits(info) & FI_MR_LOCAL;
    own->data_size = info->domain_attr ? info->domain_attr->cq_data_size : 0;
    own->peers = opening->peer;
}

static void cq_opened(struct fid *fid, const struct hook_opening *opening)
{
    struct debug_cq *own = debug_opened(fid, opening->parent, sizeof(*own));

    if (!own)
        return;
    own->domain = object_of(own->object.parent, struct debug_domain, object);
    own->format = opening->cq ? opening->cq->format : FI_CQ_FORMAT_UNSPEC;
    own->wait = opening->cq ? opening->cq->wait_obj : FI_WAIT_NONE;
    own->peer = opening->peer;
    if (own->peer)
        own->domain->peers = true;
}

static void av_opened(struct fid *fid, const struct hook_opening *opening)
{
    struct debug_av *own = debug_opened(fid, opening->parent, sizeof(*own));
    const struct fi_av_attr *attr = opening->av;

    if (!own || !attr)
        return;
    own->rx_ctx_bits = attr->rx_ctx_bits;
    own->open = attr->name || attr->flags & (FI_PEER | FI_EVENT | FI_READ);
}

static void fill_tx(struct debug_ep *own, const struct fi_tx_attr *attr)
{
    if (!attr)
        return;
    own->caps |= attr->caps;
    own->tx_op_flags = attr->op_flags;
    own->tx_iov = attr->iov_limit;
    own->rma_iov = attr->rma_iov_limit;
    own->inject_size = attr->inject_size;
    own->contexts = own->contexts || attr->mode & (FI_CONTEXT | FI_CONTEXT2);
}

static void fill_rx(struct debug_ep *own, const struct fi_rx_attr *attr)
{
    if (!attr)
        return;
    own->caps |= attr->caps;
    own->rx_op_flags = attr->op_flags;
    own->rx_iov = attr->iov_limit;
    own->contexts = own->contexts || attr->mode & (FI_CONTEXT | FI_CONTEXT2);
}

/* Lengths of calls count the prefix of FI_MSG_PREFIX, limits do not. */
static void add_prefix(struct debug_ep *own, const struct fi_info *info)
{
    size_t prefix =
        info->ep_attr && info->mode & FI_MSG_PREFIX ? info->ep_attr->msg_prefix_size : 0;

    if (own->max_msg_size)
        own->max_msg_size += prefix;
    if (own->inject_size)
        own->inject_size += prefix;
}

static void fill_info(struct debug_ep *own, const struct fi_info *info)
{
    own->contexts = info->mode & (FI_CONTEXT | FI_CONTEXT2);
    own->caps = info->caps;
    own->type = info->ep_attr ? info->ep_attr->type : FI_EP_UNSPEC;
    own->max_msg_size = info->ep_attr ? info->ep_attr->max_msg_size : 0;
    fill_tx(own, info->tx_attr);
    fill_rx(own, info->rx_attr);
    own->caps = caps_expand(own->caps);
    add_prefix(own, info);
}

static void fill_context(struct debug_ep *own, const struct debug_ep *whole,
                         const struct hook_opening *opening)
{
    own->type = whole->type;
    own->contexts = whole->contexts;
    own->max_msg_size = whole->max_msg_size;
    own->av = whole->av;
    fill_tx(own, opening->tx);
    fill_rx(own, opening->rx);
    own->caps = caps_expand(own->caps);
}

static void fill_alias(struct debug_ep *own, struct debug_ep *from, const struct fi_alias *alias)
{
    own->type = from->type;
    own->contexts = from->contexts;
    own->caps = from->caps;
    own->tx_op_flags = alias->flags & FI_TRANSMIT ? alias->flags & ~FI_TRANSMIT : from->tx_op_flags;
    own->rx_op_flags = alias->flags & FI_RECV ? alias->flags & ~FI_RECV : from->rx_op_flags;
    own->tx_iov = from->tx_iov;
    own->rx_iov = from->rx_iov;
    own->rma_iov = from->rma_iov;
    own->inject_size = from->inject_size;
    own->max_msg_size = from->max_msg_size;
    own->tx_selective = from->tx_selective;
    own->rx_selective = from->rx_selective;
    own->tx = from->tx;
    own->rx = from->rx;
    own->av = from->av;
    atomic_store(&own->enabled, true);
    debug_used(&own->object, &from->object);
}

static void ep_opened(struct fid *fid, const struct hook_opening *opening)
{
    struct debug_ep *own = debug_opened(fid, parent_of(fid, opening), sizeof(*own));
    struct hook_domain *domain = object_of(fid, struct hook_ep, fid.fid)->domain;
    struct debug_ep *from;

    if (!own)
        return;
    own->domain = object_of(debug_of(&domain->fid.fid), struct debug_domain, object);
    if (opening->info) {
        fill_info(own, opening->info);
        return;
    }
    if (fid->fclass == FI_CLASS_SRX_CTX && !opening->alias) {
        own->receives_only = true;
        atomic_store(&own->enabled, true);
        fill_rx(own, opening->rx);
        return;
    }
    from = object_of(debug_of(opening->parent), struct debug_ep, object);
    if (opening->alias)
        fill_alias(own, from, opening->alias);
    else
        fill_context(own, from, opening);
}

static void group_opened(struct fid *fid, const struct hook_opening *opening)
{
    struct debug_group *own = debug_opened(fid, parent_of(fid, opening), sizeof(*own));
    struct group_facts facts;

    if (!own || group_ask(object_of(fid, struct hook_mc, fid.fid)->lower, &facts))
        return;
    own->ep = debug_of(opening->parent);
    own->size = facts.size;
    own->self = facts.members[facts.rank];
}

static void opened(const struct hook_fabric *fabric, struct fid *fid,
                   const struct hook_opening *opening)
{
    switch (fid->fclass) {
    case FI_CLASS_DOMAIN: domain_opened(fid, opening); break;
    case FI_CLASS_CQ: cq_opened(fid, opening); break;
    case FI_CLASS_AV: av_opened(fid, opening); break;
    case FI_CLASS_MR: debug_region_opened(fid, opening); break;
    case FI_CLASS_MC: group_opened(fid, opening); break;
    case FI_CLASS_EP:
    case FI_CLASS_SEP:
    case FI_CLASS_TX_CTX:
    case FI_CLASS_RX_CTX:
    case FI_CLASS_SRX_CTX: ep_opened(fid, opening); break;
    default: debug_opened(fid, parent_of(fid, opening), sizeof(struct debug_object)); break;
    }
    debug_hold_set(fid, opening);
}

static int opening_object(const struct hook_fabric *fabric, struct fid *fid,
                          struct hook_opening *opening)
{
    const struct fi_mr_attr *mr = opening->mr;

    if (mr && mr->base_mr &&
        debug_is_closed(debug_of(opening->parent), "fi_mr_regattr", &mr->base_mr->fid))
        return -FI_EINVAL;
    return debug_check_set(fid, opening);
}

/* ---- Calls that are checked ---- */

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    const struct debug_object *root = debug_of(&fabric->fid);
    char whom[DEBUG_NAME];

    for (int i = 0; root && i < count; i++) {
        if (debug_is_open(root->layer, fids[i]))
            continue;
        debug_report(root->layer->reporter, DEBUG_CLOSED, "fi_trywait", debug_name(root, whom),
                     "%p is no open object of this stack", (void *)fids[i]);
        return -FI_EINVAL;
    }
    return hook_fabric_ops.trywait(fabric, fids, count);
}

static int open_ep2(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep,
                    uint64_t flags, void *context)
{
    struct debug_object *domain = debug_of(&fid->fid);
    struct hook_fabric *fabric = hook_domain_of(fid)->fabric;
    struct fi_info *copy = domain ? fabric_info(&fabric->base, info) : NULL;
    bool bad = copy && debug_is_closed(domain, "fi_endpoint", copy->handle);

    if (copy && !bad)
        check_granted(domain, fabric, copy, "fi_endpoint");
    info_free(copy);
    return bad ? -FI_EINVAL : hook_ep_open2(fid, info, ep, flags, context);
}

static int open_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                   void *context)
{
    return open_ep2(domain, info, ep, 0, context);
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    int rc = hook_ep_ops.setopt(fid, level, name, value, len);
    struct debug_object *object = debug_of(fid);
    struct debug_ep *ep = object ? object_of(object, struct debug_ep, object) : NULL;

    if (rc || !ep || level != FI_OPT_ENDPOINT || len != sizeof(size_t))
        return rc;
    switch (name) {
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_MAX_RMA_SIZE:
    case FI_OPT_MAX_ATOMIC_SIZE: ep->max_msg_size = 0; break;
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_TAGGED_SIZE:
    case FI_OPT_INJECT_RMA_SIZE:
    case FI_OPT_INJECT_ATOMIC_SIZE: ep->inject_size = 0; break;
    default: break;
    }
    return 0;
}

static void connects(struct fid_ep *ep)
{
    struct debug_object *object = debug_of(&ep->fid);

    if (object)
        atomic_store(&object_of(object, struct debug_ep, object)->enabled, true);
}

static int ep_connect(struct fid_ep *ep, const void *addr, const void *param, size_t len)
{
    connects(ep);
    return hook_cm_ops.connect(ep, addr, param, len);
}

static int ep_accept(struct fid_ep *ep, const void *param, size_t len)
{
    connects(ep);
    return hook_cm_ops.accept(ep, param, len);
}

static int ep_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
                   void *context)
{
    struct debug_object *object = debug_of(&ep->fid);
    const struct fi_collective_addr *group = flags & FI_COLLECTIVE ? addr : NULL;
    int rc;

    if (group && group->set && debug_is_closed(object, "fi_join_collective", &group->set->fid))
        return -FI_EINVAL;
    rc = hook_cm_ops.join(ep, addr, flags, mc, context);
    if (!rc && object)
        object_of(object, struct debug_ep, object)->joined = true;
    return rc;
}

static const struct hook_watch watch = {.opening = opening_object, .opened = opened};

static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .trywait = trywait};
static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops), .endpoint = open_ep, .endpoint2 = open_ep2};
static struct fi_ops_ep ep_ops = {.size = sizeof(ep_ops), .setopt = ep_setopt};
static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops), .connect = ep_connect, .accept = ep_accept, .join = ep_join};

void debug_open_ops(struct hook_ops *ops)
{
    ops->watch = &watch;
    ops->fabric = &fabric_ops;
    ops->domain = &domain_ops;
    ops->ep = &ep_ops;
    ops->cm = &cm_ops;
}
