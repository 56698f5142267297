/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table, and the hints for the lower. */
#include "layers/order/order.h"

#include <rdma/fi_errno.h>

static struct fi_info *lower_hints(const struct fi_info *info)
{
    struct fi_info *need = layer_hints(info, 0);

    if (!need)
        return NULL;
    need->tx_attr->comp_order &= ~FI_ORDER_STRICT;
    need->rx_attr->comp_order &= ~FI_ORDER_STRICT;
    return need;
}

static int needs(const struct request *req, struct fi_info **lower)
{
    *lower = lower_hints(req->hints);
    return *lower ? 0 : -FI_ENOMEM;
}

static int offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    struct fi_info *mine;

    if (!(lower->caps & FI_PEER)) {
        reasons_add(req->reasons,
                    "FI_ORDER_STRICT needs a lower with our peer interface (FI_PEER), which shows "
                    "each completion and each match");
        return -FI_ENODATA;
    }
    mine = layer_offer(lower, 0);
    if (!mine)
        return -FI_ENOMEM;
    mine->tx_attr->comp_order |= FI_ORDER_STRICT;
    mine->rx_attr->comp_order |= FI_ORDER_STRICT;
    *info = mine;
    return 0;
}

static const struct layer_ops ops = {
    .domain_size = sizeof(struct layer_domain),
    .ep_size = sizeof(struct order_ep),
    .item_size = sizeof(struct order_item),
    .hook = &order_tables,
    .lower_hints = lower_hints,
    .ep_opened = order_ep_opened,
    .ep_enabled = order_ep_enabled,
    .ep_closed = order_ep_closed,
    .completed = order_completed,
};

const struct part order_part = {
    .name = "order",
    .prov_name = "ofi_order",
    .summary = "completions in the order of the posts",
    .description =
        "Adds FI_ORDER_STRICT of comp_order to any lower. It is added when hints ask for this "
        "order, in tx_attr or rx_attr, and need not be named. When it is named, both sides are "
        "ordered whatever the hints are.\n\n"
        "Operations posted to one endpoint or transmit context, or to the endpoints of one "
        "shared transmit context, complete in the order of the posts: messages, RMA, atomics, "
        "collectives, in success or error. An operation that has ended before its turn is held, "
        "and counts as outstanding against the size of the queue, unless it has no completion. "
        "Later operations wait for one without a completion as for any other. Counters count an "
        "operation when its completion is, or would be, reported.\n\n"
        "Receives complete, for each sender, in the order in which its messages have matched. A "
        "message without a posted receive holds nothing back.\n\n"
        "A read or a large message to one peer delays the completion of later operations to "
        "another: programs that do not need this order should not ask for it.",
    .kind = PART_LAYER,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_SET(FI_EP_RDM),
    .nameless = true,
    .adds = PART_ADDS_STRICT,
    .needs = needs,
    .offer = offer,
    .layer = &ops,
    .open_fabric = layer_open_fabric,
};
