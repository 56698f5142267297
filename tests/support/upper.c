/* SPDX-License-Identifier: BSD-2-Clause */
#include "upper.h"

#include <string.h>

/* ---- Receives ---- */

static struct upper_entry *new_entry(struct upper *upper, uint64_t kind, uint64_t tag)
{
    struct upper_entry *entry = upper->entries;

    while (entry->rx.srx)
        assert_true(++entry < upper->entries + UPPER_ENTRIES);
    memset(entry, 0, sizeof(*entry));
    entry->iov = (struct iovec){entry->buf, sizeof(entry->buf)};
    entry->rx = (struct fi_peer_rx_entry){.srx = &upper->srx,
                                          .tag = tag,
                                          .count = 1,
                                          .iov = &entry->iov,
                                          .context = entry,
                                          .flags = FI_COMPLETION | FI_RECV | kind};
    upper->live++;
    return entry;
}

static int get(struct fid_peer_srx *srx, const struct fi_peer_match_attr *attr, uint64_t kind,
               struct fi_peer_rx_entry **ret)
{
    struct upper *upper = (struct upper *)(void *)srx;

    upper->asked++;
    upper->addr = attr->addr;
    for (int i = 0; i < UPPER_ENTRIES; i++) {
        struct upper_entry *entry = &upper->entries[i];

        if (!entry->rx.srx || !entry->posted || !(entry->rx.flags & kind) ||
            entry->rx.tag != attr->tag)
            continue;
        entry->posted = false;
        entry->rx.addr = attr->addr;
        entry->rx.msg_size = attr->msg_size;
        *ret = &entry->rx;
        return 0;
    }
    *ret = &new_entry(upper, kind, attr->tag)->rx;
    (*ret)->addr = attr->addr;
    (*ret)->msg_size = attr->msg_size;
    return -FI_ENOENT;
}

static int get_msg(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **ret)
{
    return get(srx, attr, FI_MSG, ret);
}

static int get_tag(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **ret)
{
    return get(srx, attr, FI_TAGGED, ret);
}

static int queue(struct fi_peer_rx_entry *rx)
{
    struct upper_entry *entry = rx->context;

    assert_non_null(rx->srx);
    entry->waiting = true;
    return 0;
}

static void foreach_unspec_addr(struct fid_peer_srx *srx,
                                fi_addr_t (*get_addr)(struct fi_peer_rx_entry *entry))
{
    struct upper *upper = (struct upper *)(void *)srx;

    for (int i = 0; i < UPPER_ENTRIES; i++) {
        struct upper_entry *entry = &upper->entries[i];

        if (entry->waiting && entry->rx.addr == FI_ADDR_UNSPEC)
            entry->rx.addr = get_addr(&entry->rx);
    }
}

static void free_entry(struct fi_peer_rx_entry *rx)
{
    struct upper *upper = (struct upper *)(void *)rx->srx;

    assert_non_null(upper);
    rx->srx = NULL;
    upper->live--;
}

static struct fi_ops_srx_owner srx_ops = {
    .size = sizeof(srx_ops),
    .get_msg = get_msg,
    .get_tag = get_tag,
    .queue_msg = queue,
    .queue_tag = queue,
    .foreach_unspec_addr = foreach_unspec_addr,
    .free_entry = free_entry,
};

void upper_init(struct upper *upper)
{
    memset(upper, 0, sizeof(*upper));
    upper->srx.owner_ops = &srx_ops;
}

struct upper_entry *upper_post(struct upper *upper, uint64_t kind, uint64_t tag, size_t room)
{
    struct upper_entry *entry = new_entry(upper, kind, tag);

    entry->iov.iov_len = room;
    entry->posted = true;
    return entry;
}

int upper_start(struct upper *upper, uint64_t kind, uint64_t tag)
{
    struct fi_ops_srx_peer *ops = upper->srx.peer_ops;

    for (int i = 0; i < UPPER_ENTRIES; i++) {
        struct upper_entry *entry = &upper->entries[i];

        if (!entry->rx.srx || !entry->waiting || !(entry->rx.flags & kind) || entry->rx.tag != tag)
            continue;
        entry->waiting = false;
        return kind == FI_TAGGED ? ops->start_tag(&entry->rx) : ops->start_msg(&entry->rx);
    }
    return 1;
}

void upper_discard(struct upper *upper)
{
    struct fi_ops_srx_peer *ops = upper->srx.peer_ops;

    for (int i = 0; i < UPPER_ENTRIES; i++) {
        struct upper_entry *entry = &upper->entries[i];

        if (!entry->rx.srx || !entry->waiting)
            continue;
        entry->waiting = false;
        assert_int_equal(entry->rx.flags & FI_TAGGED ? ops->discard_tag(&entry->rx)
                                                     : ops->discard_msg(&entry->rx),
                         0);
    }
}

/* ---- Completions ---- */

static struct upper_done *new_done(struct fid_peer_cq *cq)
{
    struct upper_queue *queue = (struct upper_queue *)(void *)cq;

    assert_true(queue->count < UPPER_ENTRIES);
    return &queue->done[queue->count++];
}

static ssize_t write_done(struct fid_peer_cq *cq, void *context, uint64_t flags, size_t len,
                          void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    *new_done(cq) = (struct upper_done){.entry = {.op_context = context,
                                                  .flags = flags,
                                                  .len = len,
                                                  .buf = buf,
                                                  .data = data,
                                                  .tag = tag},
                                        .src = src};
    return 0;
}

static ssize_t write_error(struct fid_peer_cq *cq, const struct fi_cq_err_entry *entry)
{
    assert_true(entry->err > 0);
    *new_done(cq) = (struct upper_done){.entry = *entry, .src = entry->src_addr};
    return 0;
}

static struct fi_ops_cq_owner cq_ops = {
    .size = sizeof(cq_ops), .write = write_done, .writeerr = write_error};

void upper_queue_init(struct upper_queue *queue)
{
    memset(queue, 0, sizeof(*queue));
    queue->cq.owner_ops = &cq_ops;
}

bool upper_queue_take(struct upper_queue *queue, struct upper_done *done)
{
    if (!queue->count)
        return false;
    *done = queue->done[0];
    memmove(queue->done, queue->done + 1, --queue->count * sizeof(*done));
    return true;
}

/* ---- Counters ---- */

static void inc(struct fid_peer_cntr *cntr)
{
    ((struct upper_count *)(void *)cntr)->value++;
}

static void incerr(struct fid_peer_cntr *cntr)
{
    ((struct upper_count *)(void *)cntr)->errors++;
}

static struct fi_ops_cntr_owner cntr_ops = {.size = sizeof(cntr_ops), .inc = inc, .incerr = incerr};

void upper_count_init(struct upper_count *count)
{
    memset(count, 0, sizeof(*count));
    count->cntr.owner_ops = &cntr_ops;
}
