/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls and completions, counted. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/hook/hook_watch.h"
#include "core/op/atomic.h"
#include "layers/profile/profile.h"

enum {
    DATATYPES = 64
};
static unsigned char datatype_bytes[DATATYPES]; /* atomic_size, in one load */

/* Atomics and collectives count elements. */
static inline uint64_t bytes_of(const struct op *op)
{
    if (!(op->group & (OP_GROUP_ATOMIC | OP_GROUP_COLLECTIVE)))
        return op->len;
    return (unsigned)op->datatype < DATATYPES ? op->len * datatype_bytes[op->datatype] : 0;
}

static inline bool is_peek(const struct op *op)
{
    return (op->call == OP_RECVMSG || op->call == OP_TRECVMSG) && op->flags & FI_PEEK;
}

/* One that never completed must not be taken for the next with its context. */
static inline void before(const struct profile_seat *seat, struct profile_block *block,
                          const struct op *op)
{
    struct op_timer *timer = &seat->profile->timer;

    if (!op->context)
        return;
    if (__builtin_expect(is_peek(op), 0))
        op_timer_follow(timer, OP_CLASS_RECV, PROFILE_PEEK, op->context);
    else if (__builtin_expect(op_timer_due(&block->turns, op->call), 0))
        op_timer_begin(timer, &block->turns, op->call, profile_band(bytes_of(op)), op->context);
    else if (__builtin_expect(op_timer_runs(timer, op->context), 0))
        op_timer_forget(timer, op->context);
}

/* Rarely: it costs nothing to look. */
static __attribute__((noinline, cold)) void refused(struct profile *profile,
                                                    struct profile_block *block, enum op_call kind,
                                                    const void *context, ssize_t rc)
{
    if (rc == -FI_EAGAIN)
        block->refused |= (uint64_t)1 << kind;
    per_thread_add(rc == -FI_EAGAIN ? &block->counts.again[kind] : &block->counts.failed[kind], 1);
    if (context)
        op_timer_refused(&profile->timer, &block->turns, kind, context);
}

/* Collectives go to groups. */
static inline void count_peer(const struct profile_seat *seat, struct profile_block *block,
                              fi_addr_t peer, uint64_t bytes)
{
    uint64_t index = peer < seat->room ? peer : seat->room;
    struct profile_cell *cell = &block->peers[seat->first + index];

    per_thread_add(&cell->messages, 1);
    per_thread_add(&cell->bytes, bytes);
}

/* Received bytes are counted at their completion. */
static inline void count_accepted(const struct profile_seat *seat, struct profile_block *block,
                                  enum op_call call, enum op_group group, uint64_t bytes,
                                  fi_addr_t peer)
{
    if (__builtin_expect(block->refused >> call & 1, 0)) {
        block->refused &= ~((uint64_t)1 << call);
        per_thread_add(&block->counts.retried[call], 1);
    }
    if (group & (OP_GROUP_RECV | OP_GROUP_TRECV)) {
        per_thread_add(&block->counts.sizes[call][0], 1);
        return;
    }
    per_thread_add(&block->counts.bytes[call], bytes);
    per_thread_add(&block->counts.sizes[call][profile_size_class(bytes)], 1);
    if (group != OP_GROUP_COLLECTIVE)
        count_peer(seat, block, peer, bytes);
}

static ssize_t profile_post(struct ep *base, struct op *op)
{
    const struct profile_seat *seat = hook_ep_of(base)->own;
    struct profile_block *block = seat ? profile_block_of(seat->profile) : NULL;
    const void *context = op->context; /* the lower may change the op */
    uint64_t bytes = bytes_of(op);
    enum op_group group = op->group;
    enum op_call call = op->call;
    fi_addr_t peer = op->peer;
    ssize_t rc;

    if (!block)
        return hook_post(base, op);
    before(seat, block, op);
    rc = hook_post(base, op);
    if (__builtin_expect(rc < 0, 0))
        refused(seat->profile, block, call, context, rc);
    else
        count_accepted(seat, block, call, group, bytes, peer);
    return rc;
}

static void reading_seen(struct hook_cq *cq, ssize_t rc)
{
    struct profile *profile = cq->own;
    struct profile_block *block = profile ? profile_block_of(profile) : NULL;
    uint64_t *count;

    if (!block)
        return;
    count = rc == -FI_EAGAIN || !rc ? &block->counts.empty_reads : &block->counts.reads;
    per_thread_add(count, 1);
    if (__builtin_expect(*count % PROFILE_ASK == 0, 0) &&
        atomic_load_explicit(&profile->depth.any, memory_order_relaxed))
        profile_depth_sample(&profile->depth, cq);
}

/* Entries of FI_CQ_FORMAT_CONTEXT have neither flags nor a length. */
static void completion_seen(struct hook_cq *cq, const struct completion *completion,
                            enum completion_way way)
{
    struct profile *profile = cq->own;
    struct profile_block *block = profile ? profile_block_of(profile) : NULL;

    if (!block)
        return;
    per_thread_add(completion->err ? &block->counts.errors : &block->counts.completions, 1);
    if (__builtin_expect(op_timer_runs(&profile->timer, completion->context), 0) &&
        !profile_time_end(profile, completion->context, completion->flags, completion->len))
        return;
    if (completion->flags & FI_RECV && !completion->err) {
        per_thread_add(&block->counts.received_bytes, completion->len);
        per_thread_add(&block->counts.received_sizes[profile_size_class(completion->len)], 1);
    }
}

/* ---- Messages that came before their receive ---- */

static void count_unexpected(struct hook_ep *ep)
{
    const struct profile_seat *seat = ep->own;
    struct profile_block *block = seat ? profile_block_of(seat->profile) : NULL;

    if (block)
        per_thread_add(&block->counts.unexpected, 1);
}

static struct profile *profile_of(const struct profile_seat *seat)
{
    return seat ? seat->profile : NULL;
}

/* The profile that stands below an entry's owner, and the one above its user. */
static struct profile *below(const struct fi_peer_rx_entry *entry)
{
    return profile_of(object_of(entry->srx, struct hook_ep, peer)->own);
}

static struct profile *above(const struct fi_peer_rx_entry *entry)
{
    return profile_of(object_of(entry->srx->peer_ops, struct hook_ep, peer_ops)->own);
}

static void waits(struct profile *profile, bool begins)
{
    if (!profile)
        return;
    profile_depth_count(&profile->depth, begins);
    profile_tell(profile, begins ? FI_EVENT_UNEXP_MSG_RECVD : FI_EVENT_UNEXP_MSG_MATCHED);
}

static int queue_msg(struct fi_peer_rx_entry *entry)
{
    struct profile *profile = below(entry);
    int rc = hook_srx_owner_ops.queue_msg(entry);

    if (!rc)
        waits(profile, true);
    return rc;
}

static int queue_tag(struct fi_peer_rx_entry *entry)
{
    struct profile *profile = below(entry);
    int rc = hook_srx_owner_ops.queue_tag(entry);

    if (!rc)
        waits(profile, true);
    return rc;
}

static int start_msg(struct fi_peer_rx_entry *entry)
{
    waits(above(entry), false);
    return hook_srx_peer_ops.start_msg(entry);
}

static int start_tag(struct fi_peer_rx_entry *entry)
{
    waits(above(entry), false);
    return hook_srx_peer_ops.start_tag(entry);
}

static int discard_msg(struct fi_peer_rx_entry *entry)
{
    waits(above(entry), false);
    return hook_srx_peer_ops.discard_msg(entry);
}

static int discard_tag(struct fi_peer_rx_entry *entry)
{
    waits(above(entry), false);
    return hook_srx_peer_ops.discard_tag(entry);
}

static struct fi_ops_srx_peer srx_peer_ops = {
    .size = sizeof(srx_peer_ops),
    .start_msg = start_msg,
    .start_tag = start_tag,
    .discard_msg = discard_msg,
    .discard_tag = discard_tag,
};

/* ---- Connections ---- */

static int count_cm(struct profile *profile, size_t which, int rc)
{
    struct profile_block *block = profile && !rc ? profile_block_of(profile) : NULL;

    if (block)
        per_thread_add((uint64_t *)((char *)&block->counts + which), 1);
    return rc;
}

static int ep_connect(struct fid_ep *ep, const void *addr, const void *param, size_t len)
{
    return count_cm(profile_of(*hook_own(&ep->fid)), offsetof(struct profile_counts, connects),
                    hook_cm_ops.connect(ep, addr, param, len));
}

static int ep_accept(struct fid_ep *ep, const void *param, size_t len)
{
    return count_cm(profile_of(*hook_own(&ep->fid)), offsetof(struct profile_counts, accepts),
                    hook_cm_ops.accept(ep, param, len));
}

static int pep_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t len)
{
    const struct hook_fabric *fabric = object_of(pep, struct hook_pep, fid)->fabric;
    const struct profile_layer *layer = fabric->own;

    return count_cm(layer ? layer->profile : NULL, offsetof(struct profile_counts, rejects),
                    hook_pep_cm_ops.reject(pep, handle, param, len));
}

/* ---- Objects that count ---- */

/* Contexts and aliases have the vector of their endpoint. */
static struct profile_seat *seat_of(struct profile *profile, struct fid *parent)
{
    struct profile_seat *seat =
        hook_transfers(parent) || parent->fclass == FI_CLASS_SEP ? *hook_own(parent) : NULL;

    return seat ? seat : &profile->peers.seats[0];
}

static void opened(const struct hook_fabric *fabric, struct fid *fid,
                   const struct hook_opening *opening)
{
    const struct profile_layer *layer = fabric->own;

    if (!layer)
        return;
    switch (fid->fclass) {
    case FI_CLASS_CQ: *hook_own(fid) = layer->profile; break;
    case FI_CLASS_AV: *hook_own(fid) = profile_seat_take(&layer->profile->peers); break;
    default:
        if (hook_transfers(fid) || fid->fclass == FI_CLASS_SEP)
            *hook_own(fid) = seat_of(layer->profile, opening->parent);
    }
    if (fid->fclass == FI_CLASS_SRX_CTX && opening->peer)
        profile_matches_above(layer->profile);
}

static int bind_ep(struct fid *fid, struct fid *target, uint64_t flags)
{
    struct profile *profile = profile_of(*hook_own(fid));
    int rc = hook_ep_fid_ops.bind(fid, target, flags);

    if (rc || !profile || !target)
        return rc;
    if (target->fclass == FI_CLASS_AV && *hook_own(target))
        *hook_own(fid) = *hook_own(target);
    else if (target->fclass == FI_CLASS_CQ && flags & FI_RECV)
        profile_depth_add(&profile->depth, object_of(fid, struct hook_ep, fid.fid),
                          object_of(target, struct hook_cq, fid.fid));
    return rc;
}

static int control_ep(struct fid *fid, int command, void *arg)
{
    struct profile *profile = profile_of(*hook_own(fid));
    int rc = hook_ep_fid_ops.control(fid, command, arg);

    if (!rc && command == FI_ENABLE && profile)
        profile_own_address(&profile->peers, object_of(fid, struct hook_ep, fid.fid)->lower);
    return rc;
}

static int remove_peers(struct fid_av *av, fi_addr_t *peers, size_t count, uint64_t flags)
{
    struct profile_seat *seat = *hook_own(&av->fid);

    for (size_t i = 0; seat && peers && i < count; i++)
        profile_seat_forget(seat, object_of(av, struct hook_av, fid)->lower, peers[i]);
    return hook_av_ops.remove(av, peers, count, flags);
}

static int close_av(struct fid *fid)
{
    struct profile_seat *seat = *hook_own(fid);
    struct profile_peer *found = NULL;
    size_t count = 0;
    int rc;

    if (seat)
        found = profile_seat_read(seat, object_of(fid, struct hook_av, fid.fid)->lower, &count);
    rc = hook_object_fid_ops.close(fid);
    if (seat && !rc)
        profile_seat_leave(seat, found, count);
    else
        profile_peers_free(found, count);
    return rc;
}

/* It is asked no more, also if it does not close after all. */
static int close_ep(struct fid *fid)
{
    struct profile *profile = profile_of(*hook_own(fid));

    if (profile) {
        profile_depth_remove(&profile->depth, object_of(fid, struct hook_ep, fid.fid));
        profile_handles_forget(&profile->handles, fid);
    }
    return hook_ep_fid_ops.close(fid);
}

static int close_domain(struct fid *fid)
{
    const struct profile_layer *layer = object_of(fid, struct hook_domain, fid.fid)->fabric->own;
    int rc = hook_domain_fid_ops.close(fid);

    if (!rc && layer)
        profile_handles_forget(&layer->profile->handles, fid);
    return rc;
}

static int open_profile(struct fid *fid, const char *name, uint64_t flags, void **ops,
                        void *context)
{
    bool domain = fid->fclass == FI_CLASS_DOMAIN;
    const struct hook_fabric *fabric =
        domain ? object_of(fid, struct hook_domain, fid.fid)->fabric
               : object_of(fid, struct hook_ep, fid.fid)->domain->fabric;
    const struct profile_layer *layer = fabric->own;

    if (!layer || !name || strcmp(name, "fi_profile_ops") != 0)
        return hook_ops_open(fid, name, flags, ops, context);
    return profile_handle_open(layer->profile, fid, flags, context, ops);
}

static const struct hook_watch watch = {.opened = opened};

static struct fi_ops_srx_owner srx_owner_ops = {
    .size = sizeof(srx_owner_ops),
    .queue_msg = queue_msg,
    .queue_tag = queue_tag,
};
static struct fi_ops ep_fid_ops = {
    .size = sizeof(ep_fid_ops),
    .bind = bind_ep,
    .close = close_ep,
    .control = control_ep,
    .ops_open = open_profile,
};
static struct fi_ops domain_fid_ops = {
    .size = sizeof(domain_fid_ops), .close = close_domain, .ops_open = open_profile};
static struct fi_ops av_fid_ops = {.size = sizeof(av_fid_ops), .close = close_av};
static struct fi_ops_av av_ops = {.size = sizeof(av_ops), .remove = remove_peers};
static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops), .connect = ep_connect, .accept = ep_accept};
static struct fi_ops_cm pep_cm_ops = {.size = sizeof(pep_cm_ops), .reject = pep_reject};

void profile_data_ops(struct hook_ops *ops)
{
    for (int i = 0; i < DATATYPES; i++)
        datatype_bytes[i] = (unsigned char)atomic_size((enum fi_datatype)i);
    ops->post = profile_post;
    ops->completed = completion_seen;
    ops->cq_read = reading_seen;
    ops->srx_owner = &srx_owner_ops;
    ops->unexpected = count_unexpected;
    ops->srx_peer = &srx_peer_ops;
    ops->ep_fid = &ep_fid_ops;
    ops->domain_fid = &domain_fid_ops;
    ops->av_fid = &av_fid_ops;
    ops->av = &av_ops;
    ops->cm = &cm_ops;
    ops->pep_cm = &pep_cm_ops;
    ops->watch = &watch;
}
