/* SPDX-License-Identifier: BSD-2-Clause */
/* Collectives of a layer below: they have their place among what is posted, and the lower counts
 * them as writes. */
#include <rdma/fi_errno.h>

#include "core/post.h"
#include "layers/order/order.h"

static uint64_t tx_flags(struct fid_ep *fid)
{
    return order_tx_flags(fid);
}

static ssize_t post_down(struct fid_ep *lower, const struct post_collective *post, uint64_t flags,
                         void *context)
{
    bool one = post->coll == FI_BROADCAST;
    const struct fi_ioc in = {.addr = one ? post->out : (void *)(uintptr_t)post->in,
                              .count = post->count};
    struct fi_ioc out = {.addr = post->out, .count = post->count};
    void *in_desc = one ? post->out_desc : post->in_desc, *out_desc = post->out_desc;
    const struct fi_msg_collective msg = {
        .msg_iov = &in,
        .desc = &in_desc,
        .iov_count = post->coll != FI_BARRIER,
        .coll_addr = post->group,
        .root_addr = post->root,
        .coll = post->coll,
        .datatype = post->datatype,
        .op = post->op,
        .context = context,
    };

    return lower->collective->msg(lower, &msg, &out, &out_desc, post->coll != FI_BARRIER && !one,
                                  flags);
}

static ssize_t post_collective(struct fid_ep *fid, const struct post_collective *post)
{
    struct order_ep *ep = object_of(fid, struct pass_ep, fid)->hook;
    const struct report *report = &ep->cover.report;
    struct order_item *item;
    ssize_t rc = -FI_EAGAIN;

    cover_enter(&ep->cover);
    item = order_post(ep, REPORT_WRITE, post->context,
                      report->tx && report_wanted(report->tx_selective, post->flags));
    if (item)
        rc = order_posted(
            item, post_down(ep->cover.pass->lower, post, post->flags | FI_COMPLETION, item));
    return cover_leave(&ep->cover, rc);
}

#include "core/post_collective.inc"

static struct fi_ops_collective ops = {.size = sizeof(ops), POST_COLLECTIVE};

void order_collective_tables(struct pass_ops *tables)
{
    tables->collective = &ops;
}
