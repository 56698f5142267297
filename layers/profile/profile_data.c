/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls and completions, counted. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/pass_watch.h"
#include "layers/profile/profile.h"

static unsigned char classes[CALL_KINDS]; /* call_class, in one load */

static void begin_time(struct profile *profile, const void *context, enum call_kind kind)
{
    struct profile_open_op *op = profile_slot(profile, context);

    atomic_store_explicit(&op->start, profile_now(), memory_order_relaxed);
    atomic_store_explicit(&op->class, classes[kind], memory_order_relaxed);
    atomic_store_explicit(&op->context, context, memory_order_release);
}

/* One that never completed, or was refused, must not be taken for the next with its context. */
static inline void forget(struct profile *profile, const void *context)
{
    struct profile_open_op *op = profile_slot(profile, context);

    if (atomic_load_explicit(&op->context, memory_order_relaxed) == context)
        atomic_store_explicit(&op->context, NULL, memory_order_relaxed);
}

static inline __attribute__((always_inline)) ssize_t call_enter(struct pass_ep *ep,
                                                                struct call *call)
{
    struct profile *profile = ep->hook;
    struct profile_block *block;

    if (!profile || !profile->sample || !call->context)
        return 0;
    block = profile_block_of(profile);
    if (__builtin_expect(block && --block->until_sample == 0, 0)) {
        block->until_sample = profile->sample;
        begin_time(profile, call->context, call->kind);
    } else {
        forget(profile, call->context);
    }
    return 0;
}

/* Inline for certain, and nothing here gives a function a pointer to the call: then it is never
 * built. */
static inline __attribute__((always_inline)) ssize_t call_leave(struct pass_ep *ep,
                                                                const struct call *call, ssize_t rc)
{
    struct profile *profile = ep->hook;
    struct profile_block *block = profile ? profile_block_of(profile) : NULL;

    if (!block)
        return rc;
    block_add(&block->counts.calls[call->kind], 1);
    if (__builtin_expect(rc >= 0, 1)) {
        block_add(&block->counts.bytes[call->kind], call->len);
        block_add(&block->counts.sizes[call->kind][profile_size_class(call->len)], 1);
        if (__builtin_expect(block->refused >> call->kind & 1, 0)) {
            block->refused &= ~((uint64_t)1 << call->kind);
            block_add(&block->counts.retried[call->kind], 1);
        }
        return rc;
    }
    if (rc == -FI_EAGAIN)
        block->refused |= (uint64_t)1 << call->kind;
    block_add(
        rc == -FI_EAGAIN ? &block->counts.again[call->kind] : &block->counts.failed[call->kind], 1);
    if (call->context)
        forget(profile, call->context);
    return rc;
}

static inline void reading_seen(struct pass_cq *cq, ssize_t rc)
{
    struct profile *profile = cq->hook;
    struct profile_block *block = profile ? profile_block_of(profile) : NULL;

    if (!block)
        return;
    block_add(rc == -FI_EAGAIN || !rc ? &block->counts.empty_reads : &block->counts.reads, 1);
    if (__builtin_expect(++block->until_asked >= PROFILE_ASK, 0)) {
        block->until_asked = 0;
        if (atomic_load_explicit(&profile->depth.any, memory_order_relaxed))
            profile_depth_sample(&profile->depth, cq);
    }
}

/* A receive and a send may have one context. */
static inline bool ends(const struct completion *completion, struct profile_open_op *op)
{
    bool receiving = atomic_load_explicit(&op->class, memory_order_relaxed) == CALL_CLASS_RECV;

    return atomic_load_explicit(&op->context, memory_order_acquire) == completion->context &&
           (!completion->flags || receiving == !!(completion->flags & FI_RECV));
}

static inline void completion_seen(struct pass_cq *cq, const struct completion *completion,
                                   enum completion_way way)
{
    struct profile *profile = cq->hook;
    struct profile_block *block = profile ? profile_block_of(profile) : NULL;
    struct profile_open_op *op;

    if (!block)
        return;
    block_add(completion->err ? &block->counts.errors : &block->counts.completions, 1);
    if (!completion->context)
        return;
    op = profile_slot(profile, completion->context);
    if (ends(completion, op))
        profile_time(profile, op);
}

#include "core/call_transfers.inc"

#include "core/call_atomics.inc"
#include "core/completions.inc"

/* ---- Messages that came before their receive ---- */

static int count_get(struct fid_peer_srx *peer, int rc)
{
    struct profile *profile = object_of(peer, struct pass_ep, peer)->hook;
    struct profile_block *block = profile && rc == -FI_ENOENT ? profile_block_of(profile) : NULL;

    if (block)
        block_add(&block->counts.unexpected, 1);
    return rc;
}

static int get_msg(struct fid_peer_srx *peer, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    return count_get(peer, pass_srx_owner_ops.get_msg(peer, attr, entry));
}

static int get_tag(struct fid_peer_srx *peer, struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry)
{
    return count_get(peer, pass_srx_owner_ops.get_tag(peer, attr, entry));
}

/* The profile that stands below an entry's owner, and the one above its user. */
static struct profile *below(const struct fi_peer_rx_entry *entry)
{
    return object_of(entry->srx, struct pass_ep, peer)->hook;
}

static struct profile *above(const struct fi_peer_rx_entry *entry)
{
    return object_of(entry->srx->peer_ops, struct pass_ep, peer_ops)->hook;
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
    int rc = pass_srx_owner_ops.queue_msg(entry);

    if (!rc)
        waits(profile, true);
    return rc;
}

static int queue_tag(struct fi_peer_rx_entry *entry)
{
    struct profile *profile = below(entry);
    int rc = pass_srx_owner_ops.queue_tag(entry);

    if (!rc)
        waits(profile, true);
    return rc;
}

static struct fi_ops_srx_owner srx_owner_ops;

static int start_msg(struct fi_peer_rx_entry *entry)
{
    waits(above(entry), false);
    return pass_srx_peer_ops.start_msg(entry);
}

static int start_tag(struct fi_peer_rx_entry *entry)
{
    waits(above(entry), false);
    return pass_srx_peer_ops.start_tag(entry);
}

static int discard_msg(struct fi_peer_rx_entry *entry)
{
    waits(above(entry), false);
    return pass_srx_peer_ops.discard_msg(entry);
}

static int discard_tag(struct fi_peer_rx_entry *entry)
{
    waits(above(entry), false);
    return pass_srx_peer_ops.discard_tag(entry);
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
        block_add((uint64_t *)((char *)&block->counts + which), 1);
    return rc;
}

static int ep_connect(struct fid_ep *ep, const void *addr, const void *param, size_t len)
{
    return count_cm(*pass_hook(&ep->fid), offsetof(struct profile_counts, connects),
                    pass_cm_ops.connect(ep, addr, param, len));
}

static int ep_accept(struct fid_ep *ep, const void *param, size_t len)
{
    return count_cm(*pass_hook(&ep->fid), offsetof(struct profile_counts, accepts),
                    pass_cm_ops.accept(ep, param, len));
}

static int pep_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t len)
{
    const struct pass_fabric *fabric = object_of(pep, struct pass_pep, fid)->fabric;
    const struct profile_layer *layer = fabric->hook;

    return count_cm(layer ? layer->profile : NULL, offsetof(struct profile_counts, rejects),
                    pass_pep_cm_ops.reject(pep, handle, param, len));
}

static struct fi_ops_cm cm_ops, pep_cm_ops;

/* ---- Objects that count ---- */

static void opened(const struct pass_fabric *fabric, struct fid *fid,
                   const struct pass_opening *opening)
{
    const struct profile_layer *layer = fabric->hook;

    if (!layer || (!pass_transfers(fid) && fid->fclass != FI_CLASS_CQ))
        return;
    *pass_hook(fid) = layer->profile;
    if (fid->fclass == FI_CLASS_SRX_CTX && opening->peer)
        profile_matches_above(layer->profile);
}

static int bind_ep(struct fid *fid, struct fid *target, uint64_t flags)
{
    struct profile *profile = *pass_hook(fid);
    int rc = pass_ep_fid_ops.bind(fid, target, flags);

    if (!rc && profile && target && target->fclass == FI_CLASS_CQ && flags & FI_RECV)
        profile_depth_add(&profile->depth, object_of(fid, struct pass_ep, fid.fid),
                          object_of(target, struct pass_cq, fid.fid));
    return rc;
}

/* It is asked no more, also if it does not close after all. */
static int close_ep(struct fid *fid)
{
    struct profile *profile = *pass_hook(fid);

    if (profile) {
        profile_depth_remove(&profile->depth, object_of(fid, struct pass_ep, fid.fid));
        profile_handles_forget(&profile->handles, fid);
    }
    return pass_ep_fid_ops.close(fid);
}

static int close_domain(struct fid *fid)
{
    const struct profile_layer *layer = object_of(fid, struct pass_domain, fid.fid)->fabric->hook;
    int rc = pass_domain_fid_ops.close(fid);

    if (!rc && layer)
        profile_handles_forget(&layer->profile->handles, fid);
    return rc;
}

static int open_profile(struct fid *fid, const char *name, uint64_t flags, void **ops,
                        void *context)
{
    bool domain = fid->fclass == FI_CLASS_DOMAIN;
    const struct pass_fabric *fabric =
        domain ? object_of(fid, struct pass_domain, fid.fid)->fabric
               : object_of(fid, struct pass_ep, fid.fid)->domain->fabric;
    const struct profile_layer *layer = fabric->hook;

    if (!layer || !name || strcmp(name, "fi_profile_ops") != 0)
        return pass_ops_open(fid, name, flags, ops, context);
    return profile_handle_open(layer->profile, fid, flags, context, ops);
}

static struct fi_ops ep_fid_ops, domain_fid_ops;
static const struct pass_watch watch = {.opened = opened};

void profile_data_ops(struct pass_ops *ops)
{
    for (int i = 0; i < CALL_KINDS; i++)
        classes[i] = (unsigned char)call_class(i);
    srx_owner_ops = pass_srx_owner_ops;
    srx_owner_ops.get_msg = get_msg;
    srx_owner_ops.get_tag = get_tag;
    srx_owner_ops.queue_msg = queue_msg;
    srx_owner_ops.queue_tag = queue_tag;
    ep_fid_ops = pass_ep_fid_ops;
    ep_fid_ops.bind = bind_ep;
    ep_fid_ops.close = close_ep;
    ep_fid_ops.ops_open = open_profile;
    domain_fid_ops = pass_domain_fid_ops;
    domain_fid_ops.close = close_domain;
    domain_fid_ops.ops_open = open_profile;
    cm_ops = pass_cm_ops;
    cm_ops.connect = ep_connect;
    cm_ops.accept = ep_accept;
    pep_cm_ops = pass_pep_cm_ops;
    pep_cm_ops.reject = pep_reject;
    ops->msg = &seen_msg_ops;
    ops->tagged = &seen_tagged_ops;
    ops->rma = &seen_rma_ops;
    ops->atomic = &seen_atomic_ops;
    ops->collective = &seen_collective_ops;
    ops->cq = &seen_cq_ops;
    ops->cq_owner = &seen_cq_owner_ops;
    ops->srx_owner = &srx_owner_ops;
    ops->srx_peer = &srx_peer_ops;
    ops->ep_fid = &ep_fid_ops;
    ops->domain_fid = &domain_fid_ops;
    ops->cm = &cm_ops;
    ops->pep_cm = &pep_cm_ops;
    ops->watch = &watch;
}
