/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that are opened, and whether what they are opened with was ever granted. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/info.h"
#include "core/part.h"
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

static int offers_for(const struct pass_fabric *fabric, const struct fi_info *hints,
                      struct fi_info **offers)
{
    *offers = NULL;
    return fabric->hold->getinfo(fabric->hold, fabric->base.api_version, NULL, NULL, 0, hints,
                                 offers);
}

/* What the lower has of that kind, and where it falls short. */
static void explain(const struct pass_fabric *fabric, const struct fi_info *asked,
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
static void check_granted(const struct debug_object *parent, const struct pass_fabric *fabric,
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

/* ---- Fabric ---- */

static int open_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                        uint64_t flags, void *context)
{
    int rc = pass_fabric_ops.domain2(fabric, info, domain, flags, context);
    struct debug_domain *own =
        rc ? NULL : debug_opened(&(*domain)->fid, &fabric->fid, sizeof(*own));

    if (!own)
        return rc;
    list_init(&own->regions);
    own->threading = info->domain_attr ? info->domain_attr->threading : FI_THREAD_SAFE;
    own->local = info->domain_attr && info_mr_bits(info) & FI_MR_LOCAL;
    own->data_size = info->domain_attr ? info->domain_attr->cq_data_size : 0;
    own->peers = flags & FI_PEER;
    return 0;
}

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    return open_domain2(fabric, info, domain, 0, context);
}

static int open_pep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                    void *context)
{
    int rc = pass_pep_open(fabric, info, pep, context);

    if (!rc)
        debug_opened(&(*pep)->fid, &fabric->fid, sizeof(struct debug_object));
    return rc;
}

static int open_eq(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                   void *context)
{
    int rc = pass_eq_open(fabric, attr, eq, context);

    if (!rc)
        debug_opened(&(*eq)->fid, &fabric->fid, sizeof(struct debug_object));
    return rc;
}

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
    return pass_fabric_ops.trywait(fabric, fids, count);
}

/* ---- Domain ---- */

static int open_cntr(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                     void *context)
{
    int rc = pass_cntr_open(domain, attr, cntr, context);

    if (!rc)
        debug_opened(&(*cntr)->fid, &domain->fid, sizeof(struct debug_object));
    return rc;
}

static int open_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                   void *context)
{
    int rc = pass_cq_open(domain, attr, cq, context);
    struct debug_cq *own = rc ? NULL : debug_opened(&(*cq)->fid, &domain->fid, sizeof(*own));

    if (!own)
        return rc;
    own->domain = object_of(debug_of(&domain->fid), struct debug_domain, object);
    own->format = attr ? attr->format : FI_CQ_FORMAT_UNSPEC;
    own->wait = attr ? attr->wait_obj : FI_WAIT_NONE;
    own->peer = attr && attr->flags & FI_PEER;
    if (own->peer)
        own->domain->peers = true;
    return 0;
}

static int open_av(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                   void *context)
{
    int rc = pass_av_open(domain, attr, av, context);
    struct debug_av *own = rc ? NULL : debug_opened(&(*av)->fid, &domain->fid, sizeof(*own));

    if (!own)
        return rc;
    own->rx_ctx_bits = attr ? attr->rx_ctx_bits : 0;
    own->open = attr && (attr->name || attr->flags & (FI_PEER | FI_EVENT | FI_READ));
    return 0;
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

static struct debug_ep *ep_opened(struct fid_ep *ep, struct fid *parent, struct fid_domain *domain)
{
    struct debug_ep *own = debug_opened(&ep->fid, parent, sizeof(*own));
    struct debug_object *above = debug_of(&domain->fid);

    if (own)
        own->domain = object_of(above, struct debug_domain, object);
    return own;
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
}

static int open_ep2(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep,
                    uint64_t flags, void *context)
{
    struct debug_object *domain = debug_of(&fid->fid);
    struct pass_fabric *fabric = pass_domain_of(fid)->fabric;
    struct fi_info *copy = fabric_info(&fabric->base, info);
    struct debug_ep *own;
    int rc;

    if (copy && debug_is_closed(domain, "fi_endpoint", copy->handle)) {
        info_free(copy);
        return -FI_EINVAL;
    }
    if (domain && copy)
        check_granted(domain, fabric, copy, "fi_endpoint");
    rc = pass_ep_open2(fid, info, ep, flags, context);
    own = rc || !copy || !domain ? NULL : ep_opened(*ep, &fid->fid, fid);
    if (own)
        fill_info(own, copy);
    info_free(copy);
    return rc;
}

static int open_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                   void *context)
{
    return open_ep2(domain, info, ep, 0, context);
}

static int open_sep(struct fid_domain *fid, struct fi_info *info, struct fid_ep **sep,
                    void *context)
{
    struct pass_fabric *fabric = pass_domain_of(fid)->fabric;
    int rc = pass_sep_open(fid, info, sep, context);
    struct fi_info *copy = rc ? NULL : fabric_info(&fabric->base, info);
    struct debug_ep *own = copy && debug_of(&fid->fid) ? ep_opened(*sep, &fid->fid, fid) : NULL;

    if (own)
        fill_info(own, copy);
    info_free(copy);
    return rc;
}

static int open_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
                    void *context)
{
    int rc = pass_srx_open(domain, attr, srx, context);
    struct debug_ep *own =
        rc || !debug_of(&domain->fid) ? NULL : ep_opened(*srx, &domain->fid, domain);

    if (!own)
        return rc;
    own->receives_only = true;
    atomic_store(&own->enabled, true);
    fill_rx(own, attr);
    return 0;
}

static int open_stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                    void *context)
{
    int rc = pass_stx_open(domain, attr, stx, context);

    if (!rc)
        debug_opened(&(*stx)->fid, &domain->fid, sizeof(struct debug_object));
    return rc;
}

/* ---- Contexts of scalable endpoints, groups ---- */

static struct debug_ep *context_opened(struct fid_ep *sep, struct fid_ep *ep)
{
    struct pass_domain *domain = object_of(sep, struct pass_ep, fid)->domain;
    const struct debug_ep *whole;
    struct debug_ep *own;

    if (!debug_of(&sep->fid) || !debug_of(&domain->fid.fid))
        return NULL;
    whole = object_of(debug_of(&sep->fid), struct debug_ep, object);
    own = ep_opened(ep, &sep->fid, &domain->fid);
    if (!own)
        return NULL;
    own->type = whole->type;
    own->contexts = whole->contexts;
    own->max_msg_size = whole->max_msg_size;
    own->av = whole->av;
    return own;
}

static int open_tx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
                   void *context)
{
    int rc = pass_ep_ops.tx_ctx(sep, index, attr, ep, context);
    struct debug_ep *own = rc ? NULL : context_opened(sep, *ep);

    if (own)
        fill_tx(own, attr);
    if (own)
        own->caps = caps_expand(own->caps);
    return rc;
}

static int open_rx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
                   void *context)
{
    int rc = pass_ep_ops.rx_ctx(sep, index, attr, ep, context);
    struct debug_ep *own = rc ? NULL : context_opened(sep, *ep);

    if (own)
        fill_rx(own, attr);
    if (own)
        own->caps = caps_expand(own->caps);
    return rc;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    int rc = pass_ep_ops.setopt(fid, level, name, value, len);
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
    return pass_cm_ops.connect(ep, addr, param, len);
}

static int ep_accept(struct fid_ep *ep, const void *param, size_t len)
{
    connects(ep);
    return pass_cm_ops.accept(ep, param, len);
}

static int ep_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
                   void *context)
{
    struct debug_object *object = debug_of(&ep->fid);
    const struct fi_collective_addr *group = flags & FI_COLLECTIVE ? addr : NULL;
    int rc;

    if (group && group->set && debug_is_closed(object, "fi_join_collective", &group->set->fid))
        return -FI_EINVAL;
    rc = pass_cm_ops.join(ep, addr, flags, mc, context);
    if (rc || !object)
        return rc;
    object_of(object, struct debug_ep, object)->joined = true;
    debug_opened(&(*mc)->fid, (struct fid *)object->parent->fid, sizeof(struct debug_object));
    return 0;
}

static struct fi_ops_fabric fabric_ops;
static struct fi_ops_domain domain_ops;
static struct fi_ops_ep ep_ops;
static struct fi_ops_cm cm_ops;

void debug_open_ops(struct pass_ops *ops)
{
    fabric_ops = pass_fabric_ops;
    fabric_ops.domain = open_domain;
    fabric_ops.domain2 = open_domain2;
    fabric_ops.passive_ep = open_pep;
    fabric_ops.eq_open = open_eq;
    fabric_ops.trywait = trywait;
    domain_ops = pass_domain_ops;
    domain_ops.cq_open = open_cq;
    domain_ops.cntr_open = open_cntr;
    domain_ops.av_open = open_av;
    domain_ops.endpoint = open_ep;
    domain_ops.endpoint2 = open_ep2;
    domain_ops.scalable_ep = open_sep;
    domain_ops.srx_ctx = open_srx;
    domain_ops.stx_ctx = open_stx;
    ep_ops = pass_ep_ops;
    ep_ops.tx_ctx = open_tx;
    ep_ops.rx_ctx = open_rx;
    ep_ops.setopt = ep_setopt;
    cm_ops = pass_cm_ops;
    cm_ops.connect = ep_connect;
    cm_ops.accept = ep_accept;
    cm_ops.join = ep_join;
    ops->fabric = &fabric_ops;
    ops->domain = &domain_ops;
    ops->ep = &ep_ops;
    ops->cm = &cm_ops;
}
