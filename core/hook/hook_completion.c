/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues whose entries a hook looks at: those that the upper reads, and those that the
 * lower writes into a peer queue. The hook's two functions are in struct hook_ops.
 */
#include "core/hook/hook.h"
#include "core/queue/cq_entry.h"

/* The formats are prefixes of each other. */
static inline struct completion entry_completion(enum fi_cq_format format, const void *entry)
{
    const struct fi_cq_tagged_entry *full = entry;
    struct completion completion = {.context = full->op_context, .src = FI_ADDR_NOTAVAIL};

    if (format >= FI_CQ_FORMAT_MSG) {
        completion.flags = full->flags;
        completion.len = full->len;
    }
    if (format >= FI_CQ_FORMAT_DATA) {
        completion.buf = full->buf;
        completion.data = full->data;
    }
    if (format == FI_CQ_FORMAT_TAGGED)
        completion.tag = full->tag;
    return completion;
}

static inline ssize_t entries_seen(struct hook_cq *cq, const void *buf, const fi_addr_t *src,
                                   ssize_t rc)
{
    if (cq->read)
        cq->read(cq, rc);
    for (ssize_t i = 0; buf && i < rc; i++) {
        struct completion completion =
            entry_completion(cq->format, (const char *)buf + (size_t)i * cq_entry_size(cq->format));

        if (src)
            completion.src = src[i];
        cq->completed(cq, &completion, COMPLETION_READ);
    }
    return rc;
}

static ssize_t watched_read(struct fid_cq *fid, void *buf, size_t count)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);

    return entries_seen(cq, buf, NULL, fi_cq_read(cq->lower, buf, count));
}

static ssize_t watched_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);

    return entries_seen(cq, buf, src, fi_cq_readfrom(cq->lower, buf, count, src));
}

static ssize_t watched_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond,
                             int timeout)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);

    return entries_seen(cq, buf, NULL, fi_cq_sread(cq->lower, buf, count, cond, timeout));
}

static ssize_t watched_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src,
                                 const void *cond, int timeout)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);

    return entries_seen(cq, buf, src, fi_cq_sreadfrom(cq->lower, buf, count, src, cond, timeout));
}

/* All that is read was there in the oldest layout of the entry. */
static inline void error_seen(struct hook_cq *cq, const struct fi_cq_err_entry *entry,
                              enum completion_way way)
{
    const struct completion completion = {.context = entry->op_context,
                                          .flags = entry->flags,
                                          .len = entry->len,
                                          .buf = entry->buf,
                                          .data = entry->data,
                                          .tag = entry->tag,
                                          .src = FI_ADDR_NOTAVAIL,
                                          .err = entry->err};

    cq->completed(cq, &completion, way);
}

static ssize_t watched_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    ssize_t rc = fi_cq_readerr(cq->lower, entry, flags);

    if (rc == 1)
        error_seen(cq, entry, COMPLETION_READ_ERROR);
    return rc;
}

/* The rest of it is hook_cq_ops: hook_open_fabric. */
struct fi_ops_cq hook_watched_cq_ops = {
    .size = sizeof(hook_watched_cq_ops),
    .read = watched_read,
    .readfrom = watched_readfrom,
    .readerr = watched_readerr,
    .sread = watched_sread,
    .sreadfrom = watched_sreadfrom,
};

static ssize_t owner_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                           void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct hook_cq *cq = object_of(peer, struct hook_cq, peer);
    const struct completion completion = {context, flags, len, buf, data, tag, src, 0};

    cq->completed(cq, &completion, COMPLETION_WRITTEN);
    return cq->owner->owner_ops->write(cq->owner, context, flags, len, buf, data, tag, src);
}

static ssize_t owner_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
    struct hook_cq *cq = object_of(peer, struct hook_cq, peer);

    error_seen(cq, entry, COMPLETION_WRITTEN);
    return cq->owner->owner_ops->writeerr(cq->owner, entry);
}

struct fi_ops_cq_owner hook_watched_cq_owner_ops = {
    .size = sizeof(hook_watched_cq_owner_ops),
    .write = owner_write,
    .writeerr = owner_writeerr,
};
