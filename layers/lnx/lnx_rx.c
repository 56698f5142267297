/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_rx.h"

#include "layers/lnx/lnx_ep.h"

static struct lnx_rx *rx_of(const struct match_branch *branch)
{
    return object_of((struct match_branch *)(uintptr_t)branch, struct lnx_rx, branch);
}

static fi_addr_t addr_up(const struct match_branch *branch, fi_addr_t addr)
{
    const struct lnx_rx *rx = rx_of(branch);

    return lnx_av_up(rx->av, rx->index, addr);
}

static fi_addr_t addr_down(const struct match_branch *branch, fi_addr_t addr)
{
    const struct lnx_rx *rx = rx_of(branch);
    const struct lnx_path *path = lnx_av_path_by(rx->av, addr, rx->index);

    return path ? path->addr : FI_ADDR_UNSPEC;
}

static void own_message(struct match_branch *branch, const struct fi_peer_rx_entry *message)
{
    struct lnx_rx *rx = rx_of(branch);

    lnx_keys_message(rx->ep, rx->index, message);
}

static const struct match_branch_map map = {.up = addr_up, .down = addr_down};
static const struct match_branch_map map_with_keys = {
    .up = addr_up,
    .down = addr_down,
    .own_tags = LNX_KEY_TAGS,
    .own = own_message,
};

int lnx_rx_open(struct lnx_rx *rx, struct lnx_ep *ep, unsigned index, struct match *match,
                struct fid_peer_srx *upper)
{
    const struct lnx_domain *domain = ep->domain;
    struct fi_peer_srx_context context = {
        .size = sizeof(context),
        .srx = &rx->branch.forward.source.srx,
    };
    struct fi_rx_attr attr = {.op_flags = FI_PEER};

    rx->ep = ep;
    rx->av = ep->av;
    rx->index = index;
    match_branch_init(&rx->branch, match, upper, domain->own_keys ? &map_with_keys : &map);
    rx->branch.direct = match && match == ep->base.match;
    return fi_srx_context(domain->branch[index].domain, &attr, &rx->context, &context);
}

void lnx_rx_discard(struct lnx_rx *rx)
{
    match_branch_discard(&rx->branch);
}

void lnx_rx_close(struct lnx_rx *rx)
{
    if (!rx->context)
        return;
    match_forward_finish(&rx->branch.forward);
    fi_close(&rx->context->fid);
    rx->context = NULL;
}
