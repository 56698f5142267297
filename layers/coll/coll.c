/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table, and what opens and closes with the domain and its endpoints. */
#include "layers/coll/coll.h"

#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "layers/coll/coll_tag.h"

/* ---- Infos ---- */

#define LOWER_CAPS (FI_TAGGED | FI_SEND | FI_RECV)

static void need_order(uint64_t *order)
{
    if (*order)
        *order |= FI_ORDER_SAS;
}

static void need_context(uint64_t *caps, uint64_t more)
{
    if (*caps)
        *caps |= FI_TAGGED | more;
}

static struct fi_info *lower_hints(const struct fi_info *info)
{
    struct fi_info *need = layer_hints(info, FI_COLLECTIVE);

    if (!need)
        return NULL;
    if (need->caps)
        need->caps |= LOWER_CAPS;
    need_context(&need->tx_attr->caps, FI_SEND);
    need_context(&need->rx_attr->caps, FI_RECV);
    need_order(&need->tx_attr->msg_order);
    need_order(&need->rx_attr->msg_order);
    if (need->rx_attr->size)
        need->rx_attr->size += COLL_RX_RESERVE;
    if (need->ep_attr->mem_tag_format >= FI_TAG_MAX_FORMAT)
        need->ep_attr->mem_tag_format = 0;
    need->mode &= ~FI_LOCAL_MR; /* scratch is not registered */
    need->domain_attr->mr_mode &= ~FI_MR_LOCAL;
    return need;
}

static int needs(const struct request *req, struct fi_info **lower)
{
    struct fi_info *need = lower_hints(req->hints);

    if (!need)
        return -FI_ENOMEM;
    *lower = need;
    return 0;
}

/* Infos that the lower offers for a shared context as for others say so only when they are asked.
 */
static bool shares(const struct request *req, const struct fi_info *lower)
{
    return req->hints->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT ||
           lower->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
}

static int offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    struct fi_info *mine;

    if ((caps_expand(lower->caps) & (LOWER_CAPS | FI_PEER)) != (LOWER_CAPS | FI_PEER)) {
        reasons_add(req->reasons,
                    "collectives need a lower that sends and receives tagged messages, with our "
                    "peer interface (FI_TAGGED, FI_PEER)");
        return -FI_ENODATA;
    }
    if (lower->ep_attr->mem_tag_format >= FI_TAG_MAX_FORMAT &&
        !(lower->ep_attr->mem_tag_format & COLL_TAGS)) {
        reasons_add(req->reasons, "collectives need bit 63 of the lower's tags, which it does not "
                                  "have (mem_tag_format)");
        return -FI_ENODATA;
    }
    if (shares(req, lower) && req->hints->caps & FI_COLLECTIVE) {
        reasons_add(req->reasons,
                    "a collective receives on its own endpoint: FI_COLLECTIVE goes without a "
                    "shared receive context (rx_ctx_cnt FI_SHARED_CONTEXT)");
        return -FI_ENODATA;
    }
    mine = layer_offer(lower, shares(req, lower) ? 0 : FI_COLLECTIVE);
    if (!mine)
        return -FI_ENOMEM;
    /* Work at the lower's domain would name counters of this one. */
    mine->caps &= ~FI_TRIGGER;
    mine->tx_attr->caps &= ~FI_TRIGGER;
    mine->rx_attr->caps &= ~FI_TRIGGER;
    if (mine->ep_attr->mem_tag_format >= FI_TAG_MAX_FORMAT)
        mine->ep_attr->mem_tag_format &= ~COLL_TAGS;
    if (mine->rx_attr->size > 2 * COLL_RX_RESERVE)
        mine->rx_attr->size -= COLL_RX_RESERVE;
    *info = mine;
    return 0;
}

/* ---- Endpoints and domains ---- */

static int domain_opened(struct layer_domain *cover)
{
    struct coll_domain *domain = (struct coll_domain *)cover;

    pool_init(&domain->ops, sizeof(struct coll_op), 0);
    list_init(&domain->ready);
    list_init(&domain->stalled);
    list_init(&domain->controls);
    list_init(&domain->breaking);
    list_init(&domain->deaf);
    list_init(&domain->active);
    domain->timer.fd = -1;
    return 0;
}

static void domain_closing(struct layer_domain *cover)
{
    struct coll_domain *domain = (struct coll_domain *)cover;

    coll_timer_close(domain);
    pool_finish(&domain->ops);
}

bool coll_ep_collects(const struct coll_ep *ep)
{
    const struct fi_info *info = ep->cover.info;

    return layer_ep_class(&ep->cover) == FI_CLASS_EP && info->caps & FI_COLLECTIVE &&
           info->ep_attr->rx_ctx_cnt != FI_SHARED_CONTEXT;
}

static int ep_opened(struct layer_ep *cover)
{
    struct coll_ep *ep = (struct coll_ep *)cover;

    list_init(&ep->groups);
    list_init(&ep->controls);
    list_init(&ep->todo);
    ep->collects = coll_ep_collects(ep);
    if (ep->collects)
        cover->hook->base.groups |= OP_GROUP_COLLECTIVE;
    return 0;
}

static int ep_enabled(struct layer_ep *cover)
{
    struct coll_ep *ep = (struct coll_ep *)cover;

    if (!coll_ep_collects(ep))
        return 0;
    ep->enabled = true;
    if (!coll_listen(ep))
        list_attach(&ep->todo, &coll_domain_of(ep)->deaf);
    return 0;
}

static void ep_closed(struct layer_ep *cover)
{
    struct coll_ep *ep = (struct coll_ep *)cover;

    if (!ep->groups.next)
        return;
    coll_groups_orphan(ep);
    coll_controls_discard(ep);
    coll_eq_bind(ep, NULL);
}

/* ---- The part ---- */

static const struct hook_ops tables = {
    .fabric = &coll_fabric_ops,
    .domain = &coll_domain_ops,
    .ep_fid = &coll_ep_fid_ops,
    .cm = &coll_cm_ops,
    .av_fid = &coll_av_fid_ops,
    .av = &coll_av_ops,
    .eq_fid = &coll_eq_fid_ops,
    .eq = &coll_eq_ops,
    .post = coll_post,
};

static const struct layer_ops ops = {
    .domain_size = sizeof(struct coll_domain),
    .ep_size = sizeof(struct coll_ep),
    .item_size = sizeof(struct coll_item),
    .tags = COLL_TAGS,
    .adds = FI_COLLECTIVE,
    .hook = &tables,
    .lower_hints = lower_hints,
    .domain_opened = domain_opened,
    .domain_closing = domain_closing,
    .ep_opened = ep_opened,
    .ep_enabled = ep_enabled,
    .ep_closed = ep_closed,
    .completed = coll_completed,
    .pump = coll_pump,
    .busy = coll_busy,
};

const struct part coll_part = {
    .name = "coll",
    .prov_name = "ofi_coll",
    .summary = "collectives over reliable datagrams",
    .description =
        "Adds FI_COLLECTIVE to a lower with tagged messages: sets of addresses, joins, barrier, "
        "broadcast, alltoall, allreduce, allgather, reduce_scatter, reduce, scatter and gather, "
        "on every datatype of fi_atomic(3) and its commutative operations. It is added when "
        "hints ask for FI_COLLECTIVE, and need not be named.\n\n"
        "count is the number of elements that one member sends to or gets from one other: the "
        "buffer of alltoall, reduce_scatter and the root of scatter, and the result of "
        "alltoall, allgather and the root of gather, hold count elements for each member. "
        "Members of a group post the same collectives in the same order; several may be "
        "outstanding.\n\n"
        "Tags of the application have 63 bits: bit 63 marks the messages of this layer. A "
        "collective completes in the transmit queue with FI_COLLECTIVE, and counts as a write. "
        "Members are told apart by their addresses, so all must have inserted the same ones, "
        "and the endpoint's own, as fi_getname gives it, must be in the set. Joins of the same "
        "members complete in the order in which they were made; a communication key in the set "
        "separates them from others.\n\n"
        "When a member dies, or leaves the group while a collective is outstanding, the "
        "collectives of the others end in error and the group is of no more use. Memberships "
        "that the application manages (coll_addr FI_ADDR_NOTAVAIL) are not offered, nor is a "
        "lower that needs FI_MR_LOCAL.\n\n"
        "Scalable endpoints and shared contexts pass through, but only a plain endpoint can be "
        "a member of a group: fi_join on others returns -FI_EOPNOTSUPP.",
    .kind = PART_LAYER,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_SET(FI_EP_RDM),
    .adds = FI_COLLECTIVE,
    .needs = needs,
    .offer = offer,
    .layer = &ops,
    .open_fabric = layer_open_fabric,
};
