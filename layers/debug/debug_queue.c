/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions: which operations they end, and how the queue is read. */

#include "layers/debug/debug.h"

static struct debug_cq *own_of(const struct hook_cq *cq)
{
    return cq->own ? object_of(cq->own, struct debug_cq, object) : NULL;
}

/* FI_CQ_FORMAT_CONTEXT does not describe the message. */
static void completed(struct hook_cq *cq, const struct completion *completion,
                      enum completion_way way)
{
    struct debug_cq *own = own_of(cq);
    char whom[DEBUG_NAME];

    if (!own)
        return;
    debug_flight_end(own->object.layer, completion->context, completion->flags, false);
    if (way == COMPLETION_READ && completion->flags & FI_REMOTE_CQ_DATA &&
        cq->format < FI_CQ_FORMAT_DATA)
        debug_report(own->object.layer->reporter, DEBUG_FORMAT, "fi_cq_read",
                     debug_name(&own->object, whom),
                     "a completion has data, and entries of FI_CQ_FORMAT_MSG have no room for it");
}

static bool enter(const struct hook_cq *cq, const char *call)
{
    struct debug_cq *own = own_of(cq);
    struct debug_object *guard = own ? debug_cq_guard(own) : NULL;

    return guard && debug_enter(guard, call);
}

static ssize_t leave(const struct hook_cq *cq, bool entered, ssize_t rc)
{
    if (entered)
        debug_leave(debug_cq_guard(own_of(cq)));
    return rc;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    const struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    bool entered = enter(cq, "fi_cq_read");

    return leave(cq, entered, hook_watched_cq_ops.read(fid, buf, count));
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
    const struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    bool entered = enter(cq, "fi_cq_readfrom");

    return leave(cq, entered, hook_watched_cq_ops.readfrom(fid, buf, count, src));
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    const struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    bool entered = enter(cq, "fi_cq_readerr");

    return leave(cq, entered, hook_watched_cq_ops.readerr(fid, entry, flags));
}

static void check_wait(const struct hook_cq *cq, const char *call)
{
    struct debug_cq *own = own_of(cq);
    char whom[DEBUG_NAME];

    if (own && !own->peer && (own->wait == FI_WAIT_NONE || own->wait == FI_WAIT_SET))
        debug_report(own->object.layer->reporter, DEBUG_WAIT, call, debug_name(&own->object, whom),
                     "it was opened with FI_WAIT_%s", own->wait ? "SET" : "NONE");
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
    const struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    bool entered = enter(cq, "fi_cq_sread");

    check_wait(cq, "fi_cq_sread");
    return leave(cq, entered, hook_watched_cq_ops.sread(fid, buf, count, cond, timeout));
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src,
                            const void *cond, int timeout)
{
    const struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    bool entered = enter(cq, "fi_cq_sreadfrom");

    check_wait(cq, "fi_cq_sreadfrom");
    return leave(cq, entered, hook_watched_cq_ops.sreadfrom(fid, buf, count, src, cond, timeout));
}

static struct fi_ops_cq cq_ops = {
    .size = sizeof(cq_ops),
    .read = cq_read,
    .readfrom = cq_readfrom,
    .readerr = cq_readerr,
    .sread = cq_sread,
    .sreadfrom = cq_sreadfrom,
};

void debug_queue_ops(struct hook_ops *ops)
{
    ops->cq = &cq_ops;
    ops->completed = completed;
}
