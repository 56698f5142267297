/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commonest receive, short enough to be inlined: one buffer, an exact tag, any source. A
 * function that refuses has changed nothing; the caller then uses the engine's own calls (match.h).
 * Progress domain locked.
 */
#ifndef WEFT_CORE_MATCH_MATCH_QUICK_H
#define WEFT_CORE_MATCH_MATCH_QUICK_H

#include <string.h>

#include "core/match/match_impl.h"
#include "core/progress/progress.h"

/* Posts it, as match_receive would. */
static inline __attribute__((always_inline)) bool match_quick_post(struct match *match,
                                                                   const struct want *want)
{
    const uint64_t special = FI_PEEK | FI_CLAIM | FI_DISCARD | FI_MULTI_RECV;
    struct side *side = want->side;
    uint64_t flags;
    struct rx *rx;

    if (__builtin_expect(!match->pool.free || side->queued || want->flags & special ||
                             want->ignore || want->src != FI_ADDR_UNSPEC ||
                             match->posted == match->attr.size,
                         0))
        return false;
    rx = match_new_rx(match);
    flags = side->flags;
    if (completion_wanted(match->binding->rx_selective, want->flags) && match->binding->rx)
        flags |= FI_COMPLETION;
    rx->entry.flags = flags;
    rx->entry.context = want->context;
    rx->entry.count = 1;
    rx->entry.iov[0] = want->iov[0];
    rx->entry.desc[0] = want->desc[0];
    rx->seq = match->seq++;
    rx->ignore = 0;
    rx->side = side;
    if (list_empty(&side->posted)) {
        rx->key.tag = want->tag;
        rx->key.src = FI_ADDR_UNSPEC;
        side->lone = rx;
    } else {
        side_settle(side);
        key_add(&side->exact, &rx->key, want->tag, FI_ADDR_UNSPEC);
    }
    list_attach(&rx->all, &side->posted);
    match->posted++;
    return true;
}

/* Posts it to an engine of that progress domain, which is unlocked. */
static inline __attribute__((always_inline)) bool
match_quick_receive(struct match *match, struct progress *progress, struct want want)
{
    struct progress *root;
    bool done;

    if (!match->attr.directed)
        want.src = FI_ADDR_UNSPEC;
    root = progress_enter_post(progress);
    done = match_quick_post(match, &want);
    progress_leave_post(root);
    return done;
}

/* The receive that a message of len bytes, all of them at hand, is for; it is posted no more. */
static inline __attribute__((always_inline)) struct rx *
match_quick_take(struct match *match, struct side *side, uint64_t tag, size_t len)
{
    struct rx *rx = side->lone;
    struct key_link *link;

    if (rx) { /* of one buffer, and the only one */
        if (__builtin_expect(rx->key.tag != tag || rx->iov[0].iov_len < len, 0))
            return NULL;
        side->lone = NULL;
        list_init(&side->posted);
        match->posted--;
        return rx;
    }
    link = key_find(&side->exact, tag, FI_ADDR_UNSPEC);
    if (__builtin_expect(!link || side->directed || !list_empty(&side->wild), 0))
        return NULL;
    rx = list_item(link, struct rx, key);
    if (__builtin_expect(rx->is_multi || rx->entry.count != 1 || rx->iov[0].iov_len < len, 0))
        return NULL;
    rx->all.prev->next = rx->all.next;
    rx->all.next->prev = rx->all.prev;
    key_remove_leader(&side->exact, link);
    match->posted--;
    return rx;
}

/* It has its bytes: completes and frees it. src: the source for the completion. */
static inline __attribute__((always_inline)) void
match_quick_done(struct match *match, struct rx *rx, size_t len, uint64_t tag, fi_addr_t src)
{
    struct binding *binding = match->binding;

    if (rx->entry.flags & FI_COMPLETION && binding->rx)
        cq_write_inlined(binding->rx, rx->entry.context, rx->entry.flags & ~FI_COMPLETION, len,
                         rx->iov[0].iov_base, 0, tag, src);
    if (binding->cntr[BIND_RECV])
        cntr_add_one(binding->cntr[BIND_RECV]);
    pool_put(&match->pool, rx);
}

#endif
