/* SPDX-License-Identifier: BSD-2-Clause */
/* The rarer requests: peek, claim, discard, cancel, and the failure of receives. */
#include "core/match/match_impl.h"

#include <rdma/fi_errno.h>

static struct fi_cq_err_entry error_entry(uint64_t flags, void *context, uint64_t tag, int err)
{
    return (struct fi_cq_err_entry){
        .op_context = context,
        .flags = flags,
        .tag = tag,
        .err = err,
        .prov_errno = err,
        .src_addr = FI_ADDR_NOTAVAIL,
    };
}

void match_report_error(struct match *match, const struct side *side, void *context, uint64_t tag,
                        uint64_t more_flags, int err)
{
    struct fi_cq_err_entry entry = error_entry(side->flags | more_flags, context, tag, err);

    complete_error(match->binding, BIND_RECV, &entry);
}

/* Fills in a peek's answer about a message. */
static void report_message(const struct match *match, const struct rx *rx, void *context)
{
    const struct fi_peer_rx_entry *entry = &rx->entry;

    if (match->binding->rx)
        cq_write(match->binding->rx, context, rx->side->flags | (entry->flags & FI_REMOTE_CQ_DATA),
                 entry->msg_size, NULL, entry->cq_data, entry->tag, entry->addr);
}

static ssize_t peek(struct match *match, const struct want *want)
{
    struct rx *rx = match_find_queued(match, want);

    /* A caller that peeks in a loop reads an error each time, and a queue that is not empty drives
     * nothing. */
    if (!rx && match->binding->progress) {
        progress_poll(match->binding->progress);
        rx = match_find_queued(match, want);
    }
    if (!rx) { /* no receive has failed: counters do not move */
        struct fi_cq_err_entry entry =
            error_entry(want->side->flags, want->context, want->tag, FI_ENOMSG);

        if (match->binding->rx)
            cq_write_error(match->binding->rx, &entry);
        return 0;
    }
    if (want->flags & FI_CLAIM) {
        match_unqueue(rx);
        rx->is_claimed = true;
        rx->entry.context = want->context;
        list_attach(&rx->all, &match->claimed);
        report_message(match, rx, want->context);
    } else if (want->flags & FI_DISCARD) {
        match_unqueue(rx);
        report_message(match, rx, want->context);
        match_discard(rx);
    } else {
        report_message(match, rx, want->context);
    }
    return 0;
}

static ssize_t claim(struct match *match, const struct want *want)
{
    struct rx *rx = NULL;

    list_for_each (pos, &match->claimed) {
        rx = list_item(pos, struct rx, all);
        if (rx->entry.context == want->context && rx->side == want->side)
            break;
        rx = NULL;
    }
    if (!rx)
        return -FI_EINVAL;
    list_detach(&rx->all);
    if (!(want->flags & FI_DISCARD)) {
        match_fill(match, rx, want);
        match_start(rx);
        return 0;
    }
    if (match->binding->rx && completion_wanted(match->binding->rx_selective, want->flags))
        report_message(match, rx, want->context);
    match_discard(rx);
    return 0;
}

ssize_t match_probe(struct match *match, const struct want *want)
{
    if (want->flags & FI_PEEK)
        return peek(match, want);
    return want->flags & FI_CLAIM ? claim(match, want) : -FI_EINVAL;
}

/* Ends a posted receive in an error entry. */
static void fail(struct match *match, struct rx *rx, int err)
{
    const struct side *side = rx->side;
    void *context = rx->entry.context;
    uint64_t tag = rx->key.tag;

    if (rx->is_multi) {
        match_multi_fail(match, rx, err);
        return;
    }
    match_unpost(match, rx);
    pool_put(&match->pool, rx);
    match_report_error(match, side, context, tag, 0, err);
}

static struct rx *find_context(struct side *side, const void *context)
{
    list_for_each (pos, &side->posted) {
        struct rx *rx = list_item(pos, struct rx, all);

        if (rx->entry.context == context)
            return rx;
    }
    return NULL;
}

int match_cancel(struct match *match, void *context)
{
    struct rx *rx = find_context(&match->tag, context);

    if (!rx)
        rx = find_context(&match->msg, context);
    if (!rx)
        return -FI_ENOENT;
    fail(match, rx, FI_ECANCELED);
    return 0;
}

/* The first receive posted before `end` that only source can satisfy. */
static struct rx *find_bound(struct side *side, const struct match_source *source, uint64_t end)
{
    list_for_each (pos, &side->posted) {
        struct rx *rx = list_item(pos, struct rx, all);

        if (rx->seq >= end)
            return NULL;
        if (!source || (rx->key.src != FI_ADDR_UNSPEC && rx->key.src == source->addr))
            return rx;
    }
    return NULL;
}

void match_fail(struct match *match, struct match_source *source, int err)
{
    struct side *sides[] = {&match->msg, &match->tag};
    uint64_t end = match->seq; /* receives posted from inside the completions stay */
    struct rx *rx;

    for (size_t i = 0; i < 2; i++)
        while ((rx = find_bound(sides[i], source, end)))
            fail(match, rx, err);
}

/* ---- All that wait ---- */

static size_t tell_side(const struct side *side, struct fi_cq_err_entry *entries)
{
    size_t count = 0;

    for (const struct list *pos = side->arrived.next; pos != &side->arrived; pos = pos->next) {
        const struct fi_peer_rx_entry *entry = &list_item(pos, struct rx, all)->entry;
        bool data = entry->flags & FI_REMOTE_CQ_DATA;

        entries[count++] =
            (struct fi_cq_err_entry){.flags = side->flags | (data ? FI_REMOTE_CQ_DATA : 0),
                                     .len = entry->msg_size,
                                     .data = data ? entry->cq_data : 0,
                                     .tag = side->flags & FI_TAGGED ? entry->tag : 0,
                                     .src_addr = entry->addr};
    }
    return count;
}

int match_tell_queued(const struct match *match, void *value, size_t *len)
{
    size_t needed = match ? match_queued(match) * sizeof(struct fi_cq_err_entry) : 0;
    struct fi_cq_err_entry *entries = value;
    bool fits = *len >= needed;

    *len = needed;
    if (!fits)
        return -FI_ETOOSMALL;
    if (needed)
        tell_side(&match->tag, entries + tell_side(&match->msg, entries));
    return 0;
}
