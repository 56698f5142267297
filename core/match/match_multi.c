/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multi-receive buffers. One stays posted at its place while messages take slices from its front.
 * It is released when less than the minimum is left, or when a message does not fit in the rest
 * (a message longer than the whole buffer is truncated instead). The slice that releases it carries
 * FI_MULTI_RECV if no other is under way; otherwise, since slices may complete in any order, a
 * completion of its own follows the last.
 */
#include "core/match/match_impl.h"

#include <rdma/fi_errno.h>

/* Ends the buffer if nothing keeps it. */
static void settle(struct match *match, struct rx *parent)
{
    struct multi multi = parent->multi;
    const struct side *side = parent->side;
    void *context = parent->entry.context;
    uint64_t tag = parent->key.tag;

    if (match_is_posted(parent) || multi.held || multi.slices)
        return;
    pool_put(&match->pool, parent);
    if (multi.err)
        match_report_error(match, side, context, tag, FI_MULTI_RECV, multi.err);
    else if (!multi.told && match->binding->rx)
        cq_write(match->binding->rx, context, FI_MULTI_RECV, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

bool match_multi_fits(struct match *match, struct rx *parent, size_t len)
{
    struct multi *multi = &parent->multi;

    if (!multi->offset || len <= parent->entry.iov->iov_len - multi->offset)
        return true;
    match_unpost(match, parent);
    settle(match, parent);
    return false;
}

void match_multi_carve(struct match *match, struct rx *parent, struct rx *child, size_t len)
{
    struct fi_peer_rx_entry *entry = &child->entry;
    struct multi *multi = &parent->multi;
    size_t left = parent->entry.iov->iov_len - multi->offset;
    size_t used = len < left ? len : left;

    entry->context = parent->entry.context;
    entry->flags |= parent->entry.flags;
    entry->count = 1;
    entry->iov[0].iov_base = (char *)parent->entry.iov->iov_base + multi->offset;
    entry->iov[0].iov_len = used;
    entry->desc[0] = parent->entry.desc[0];
    child->parent = parent;
    multi->slices++;
    multi->offset += used;
    left -= used;
    if (left && left >= multi->min)
        return;
    match_unpost(match, parent);
    if (multi->slices == 1) {
        multi->told = true;
        entry->flags |= FI_MULTI_RECV | FI_COMPLETION;
    }
}

void match_multi_drop(struct match *match, struct rx *parent)
{
    parent->multi.slices--;
    settle(match, parent);
}

void match_multi_fail(struct match *match, struct rx *parent, int err)
{
    match_unpost(match, parent);
    parent->multi.err = err;
    settle(match, parent);
}

ssize_t match_post_multi(struct match *match, const struct want *want)
{
    struct rx *parent, *message;
    int rc;

    if (want->count != 1)
        return -FI_EINVAL;
    rc = match_post(match, want, &parent);
    if (rc)
        return rc;
    parent->is_multi = true;
    parent->multi = (struct multi){.min = match->attr.min_multi_recv, .held = true};
    while (match_is_posted(parent) && want->side->queued) {
        message = match_find_queued(match, want);
        if (!message || !match_multi_fits(match, parent, message->entry.msg_size))
            break;
        match_unqueue(message);
        match_multi_carve(match, parent, message, message->entry.msg_size);
        match_start(message);
    }
    parent->multi.held = false;
    settle(match, parent);
    return 0;
}
