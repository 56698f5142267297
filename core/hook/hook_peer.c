/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peer objects on their way through (fi_peer(3)). The upper gives us one of its own; the lower gets
 * one of ours, whose calls end in the upper's:
 *
 *      upper    owner: fid_peer_x, owner_ops  <---- write, inc, get_*, queue_*, ...
 *      this     peer:  fid_peer_x, pass_*_owner_ops
 *      lower                                  ----> the same calls, on peer
 *
 * Receive entries carry the receive context that they belong to (entry->srx), and both sides look
 * there for the functions of the other. So it is exchanged at every crossing: an entry has `owner`
 * above us and `peer` below. From `peer` our object is container_of; from `owner`, which is memory
 * of the upper's, the way leads through owner->peer_ops, a table inside our object.
 */
#include <rdma/fi_errno.h>

#include "core/hook/hook.h"

/* ---- Completion queues and counters ---- */

static ssize_t cq_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                        void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct fid_peer_cq *owner = object_of(peer, struct hook_cq, peer)->owner;

    return owner->owner_ops->write(owner, context, flags, len, buf, data, tag, src);
}

static ssize_t cq_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
    struct fid_peer_cq *owner = object_of(peer, struct hook_cq, peer)->owner;

    return owner->owner_ops->writeerr(owner, entry);
}

struct fi_ops_cq_owner hook_cq_owner_ops = {
    .size = sizeof(hook_cq_owner_ops),
    .write = cq_write,
    .writeerr = cq_writeerr,
};

int hook_peer_cq(struct hook_cq *cq, const void *context, struct fi_peer_cq_context *down)
{
    const struct fi_peer_cq_context *theirs = context;

    if (!theirs || theirs->size < sizeof(*theirs) || !theirs->cq)
        return -FI_EINVAL;
    cq->owner = theirs->cq;
    fid_init(&cq->peer.fid, FI_CLASS_PEER_CQ, cq, cq->fid.fid.ops);
    cq->peer.owner_ops = cq->domain->fabric->ops.cq_owner;
    *down = (struct fi_peer_cq_context){.size = sizeof(*down), .cq = &cq->peer};
    return 0;
}

static void cntr_inc(struct fid_peer_cntr *peer)
{
    struct fid_peer_cntr *owner = object_of(peer, struct hook_cntr, peer)->owner;

    owner->owner_ops->inc(owner);
}

static void cntr_incerr(struct fid_peer_cntr *peer)
{
    struct fid_peer_cntr *owner = object_of(peer, struct hook_cntr, peer)->owner;

    owner->owner_ops->incerr(owner);
}

struct fi_ops_cntr_owner hook_cntr_owner_ops = {
    .size = sizeof(hook_cntr_owner_ops),
    .inc = cntr_inc,
    .incerr = cntr_incerr,
};

int hook_peer_cntr(struct hook_cntr *cntr, const void *context, struct fi_peer_cntr_context *down)
{
    const struct fi_peer_cntr_context *theirs = context;

    if (!theirs || theirs->size < sizeof(*theirs) || !theirs->cntr)
        return -FI_EINVAL;
    cntr->owner = theirs->cntr;
    fid_init(&cntr->peer.fid, FI_CLASS_PEER_CNTR, cntr, cntr->fid.fid.ops);
    cntr->peer.owner_ops = cntr->domain->fabric->ops.cntr_owner;
    *down = (struct fi_peer_cntr_context){.size = sizeof(*down), .cntr = &cntr->peer};
    return 0;
}

/* ---- Event queues ---- */

#define EVENT_MAX 1024

static ssize_t peer_eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
                             uint64_t flags)
{
    struct hook_eq *eq = object_of(fid, struct hook_eq, peer);
    _Alignas(max_align_t) unsigned char up[EVENT_MAX];

    if (len > sizeof(up))
        return -FI_EINVAL;
    if (len)
        memcpy(up, buf, len);
    hook_event_up(eq->fabric, event, up, len);
    return fi_eq_write(eq->owner, event, up, len, flags);
}

static struct fi_ops_eq peer_eq_ops = {
    .size = sizeof(peer_eq_ops),
    .read = enosys_eq_read,
    .readerr = enosys_eq_readerr,
    .write = peer_eq_write,
    .sread = enosys_eq_sread,
    .strerror = enosys_eq_strerror,
};

int hook_peer_eq(struct hook_eq *eq, const void *context, struct fi_peer_eq_context *down)
{
    const struct fi_peer_eq_context *theirs = context;

    if (!theirs || theirs->size < sizeof(*theirs) || !theirs->eq)
        return -FI_EINVAL;
    eq->owner = theirs->eq;
    fid_init(&eq->peer.fid, FI_CLASS_EQ, eq, eq->fid.fid.ops);
    eq->peer.ops = &peer_eq_ops;
    *down = (struct fi_peer_eq_context){.size = sizeof(*down), .eq = &eq->peer};
    return 0;
}

/* ---- Address vectors ---- */

static int av_query(struct fid_peer_av *peer, struct fi_av_attr *attr)
{
    struct fid_peer_av *owner = object_of(peer, struct hook_av, peer)->owner;

    return owner->owner_ops->query(owner, attr);
}

static fi_addr_t av_ep_addr(struct fid_peer_av *peer, struct fid_ep *ep)
{
    struct fid_peer_av *owner = object_of(peer, struct hook_av, peer)->owner;
    struct fid *ours = hook_up(&ep->fid);

    return owner->owner_ops->ep_addr(owner, object_of(ours, struct fid_ep, fid));
}

static struct fi_ops_av_owner av_owner_ops = {
    .size = sizeof(av_owner_ops),
    .query = av_query,
    .ep_addr = av_ep_addr,
};

int hook_peer_av(struct hook_av *av, const void *context, struct fi_peer_av_context *down)
{
    const struct fi_peer_av_context *theirs = context;

    if (!theirs || theirs->size < sizeof(*theirs) || !theirs->av)
        return -FI_EINVAL;
    av->owner = theirs->av;
    fid_init(&av->peer.fid, FI_CLASS_PEER_AV, av, av->fid.fid.ops);
    av->peer.owner_ops = &av_owner_ops;
    *down = (struct fi_peer_av_context){.size = sizeof(*down), .av = &av->peer};
    return 0;
}

static int av_set_members(struct fid_peer_av_set *peer, fi_addr_t *addr, size_t *count)
{
    struct fid_peer_av_set *owner = object_of(peer, struct hook_av_set, peer)->owner;

    return owner->owner_ops->members(owner, addr, count);
}

static struct fi_ops_av_set_owner av_set_owner_ops = {
    .size = sizeof(av_set_owner_ops),
    .members = av_set_members,
};

int hook_peer_av_set(struct hook_av_set *set, const void *context,
                     struct fi_peer_av_set_context *down)
{
    const struct fi_peer_av_set_context *theirs = context;

    if (!theirs || theirs->size < sizeof(*theirs) || !theirs->av_set)
        return -FI_EINVAL;
    set->owner = theirs->av_set;
    fid_init(&set->peer.fid, FI_CLASS_PEER_AV_SET, set, set->fid.fid.ops);
    set->peer.owner_ops = &av_set_owner_ops;
    *down = (struct fi_peer_av_set_context){.size = sizeof(*down), .av_set = &set->peer};
    return 0;
}

/* ---- Shared receive contexts: up ---- */

static struct hook_ep *srx_below(struct fid_peer_srx *peer)
{
    return object_of(peer, struct hook_ep, peer);
}

static int entry_down(struct fid_peer_srx *peer, int rc, struct fi_peer_rx_entry *const *entry)
{
    const struct hook_ops *ops = &srx_below(peer)->domain->fabric->ops;

    if (!rc || rc == -FI_ENOENT)
        (*entry)->srx = peer;
    if (rc == -FI_ENOENT && ops->unexpected)
        ops->unexpected(srx_below(peer));
    return rc;
}

static int srx_get_msg(struct fid_peer_srx *peer, struct fi_peer_match_attr *attr,
                       struct fi_peer_rx_entry **entry)
{
    struct fid_peer_srx *owner = srx_below(peer)->owner;

    return entry_down(peer, owner->owner_ops->get_msg(owner, attr, entry), entry);
}

static int srx_get_tag(struct fid_peer_srx *peer, struct fi_peer_match_attr *attr,
                       struct fi_peer_rx_entry **entry)
{
    struct fid_peer_srx *owner = srx_below(peer)->owner;

    return entry_down(peer, owner->owner_ops->get_tag(owner, attr, entry), entry);
}

static int queue_entry(struct fi_peer_rx_entry *entry, bool tagged)
{
    struct fid_peer_srx *peer = entry->srx, *owner = srx_below(peer)->owner;
    int rc;

    entry->srx = owner;
    rc = tagged ? owner->owner_ops->queue_tag(entry) : owner->owner_ops->queue_msg(entry);
    if (rc)
        entry->srx = peer;
    return rc;
}

static int srx_queue_msg(struct fi_peer_rx_entry *entry)
{
    return queue_entry(entry, false);
}

static int srx_queue_tag(struct fi_peer_rx_entry *entry)
{
    return queue_entry(entry, true);
}

static void srx_free_entry(struct fi_peer_rx_entry *entry)
{
    struct fid_peer_srx *owner = srx_below(entry->srx)->owner;

    entry->srx = owner;
    owner->owner_ops->free_entry(entry);
}

/* get_addr takes only the entry, so its other state is kept with the thread: one frame for each
 * pass-through layer that the call is inside of. */
struct frame {
    struct frame *outer;
    struct hook_ep *srx;
    fi_addr_t (*get_addr)(struct fi_peer_rx_entry *entry);
};

static _Thread_local struct frame *innermost;

static fi_addr_t get_addr_below(struct fi_peer_rx_entry *entry)
{
    struct frame *frame = innermost;
    fi_addr_t addr;

    innermost = frame->outer;
    entry->srx = &frame->srx->peer;
    addr = frame->get_addr(entry);
    entry->srx = frame->srx->owner;
    innermost = frame;
    return addr;
}

static void srx_foreach_unspec_addr(struct fid_peer_srx *peer,
                                    fi_addr_t (*get_addr)(struct fi_peer_rx_entry *entry))
{
    struct hook_ep *srx = srx_below(peer);
    struct frame frame = {.outer = innermost, .srx = srx, .get_addr = get_addr};

    innermost = &frame;
    srx->owner->owner_ops->foreach_unspec_addr(srx->owner, get_addr_below);
    innermost = frame.outer;
}

struct fi_ops_srx_owner hook_srx_owner_ops = {
    .size = sizeof(hook_srx_owner_ops),
    .get_msg = srx_get_msg,
    .get_tag = srx_get_tag,
    .queue_msg = srx_queue_msg,
    .queue_tag = srx_queue_tag,
    .foreach_unspec_addr = srx_foreach_unspec_addr,
    .free_entry = srx_free_entry,
};

/* ---- Shared receive contexts: down ---- */

/* Gives the entry to the lower; the functions for it there. */
static const struct fi_ops_srx_peer *entry_to_lower(struct fi_peer_rx_entry *entry)
{
    entry->srx = &object_of(entry->srx->peer_ops, struct hook_ep, peer_ops)->peer;
    return entry->srx->peer_ops;
}

static int srx_start_msg(struct fi_peer_rx_entry *entry)
{
    return entry_to_lower(entry)->start_msg(entry);
}

static int srx_start_tag(struct fi_peer_rx_entry *entry)
{
    return entry_to_lower(entry)->start_tag(entry);
}

static int srx_discard_msg(struct fi_peer_rx_entry *entry)
{
    return entry_to_lower(entry)->discard_msg(entry);
}

static int srx_discard_tag(struct fi_peer_rx_entry *entry)
{
    return entry_to_lower(entry)->discard_tag(entry);
}

struct fi_ops_srx_peer hook_srx_peer_ops = {
    .size = sizeof(hook_srx_peer_ops),
    .start_msg = srx_start_msg,
    .start_tag = srx_start_tag,
    .discard_msg = srx_discard_msg,
    .discard_tag = srx_discard_tag,
};

int hook_peer_srx(struct hook_ep *srx, const void *context, struct fi_peer_srx_context *down)
{
    const struct fi_peer_srx_context *theirs = context;

    if (!theirs || theirs->size < sizeof(*theirs) || !theirs->srx)
        return -FI_EINVAL;
    srx->owner = theirs->srx;
    srx->peer_ops = *srx->domain->fabric->ops.srx_peer;
    fid_init(&srx->peer.ep_fid.fid, FI_CLASS_PEER_SRX, srx, srx->fid.fid.ops);
    srx->peer.owner_ops = srx->domain->fabric->ops.srx_owner;
    *down = (struct fi_peer_srx_context){.size = sizeof(*down), .srx = &srx->peer};
    return 0;
}

void hook_peer_srx_opened(struct hook_ep *srx)
{
    srx->owner->peer_ops = &srx->peer_ops;
}
