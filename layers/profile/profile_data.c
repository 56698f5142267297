/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls and completions, counted. */
#include <rdma/fi_errno.h>

#include "layers/profile/profile.h"

static unsigned char classes[CALL_KINDS]; /* call_class, in one load */

static void begin_time(struct profile *profile, const struct call *call)
{
    struct profile_open_op *op = profile_slot(profile, call->context);

    atomic_store_explicit(&op->start, profile_now(), memory_order_relaxed);
    atomic_store_explicit(&op->class, classes[call->kind], memory_order_relaxed);
    atomic_store_explicit(&op->context, call->context, memory_order_release);
}

/* One that never completed, or was refused, must not be taken for the next with its context. */
static inline void forget(struct profile *profile, const void *context)
{
    struct profile_open_op *op = profile_slot(profile, context);

    if (atomic_load_explicit(&op->context, memory_order_relaxed) == context)
        atomic_store_explicit(&op->context, NULL, memory_order_relaxed);
}

static inline ssize_t call_enter(struct pass_ep *ep, struct call *call)
{
    struct profile *profile = ep->hook;
    struct profile_block *block;

    if (!profile || !profile->sample || !call->context)
        return 0;
    block = profile_block_of(profile);
    if (__builtin_expect(block && --block->until_sample == 0, 0)) {
        block->until_sample = profile->sample;
        begin_time(profile, call);
    } else {
        forget(profile, call->context);
    }
    return 0;
}

static inline ssize_t call_leave(struct pass_ep *ep, const struct call *call, ssize_t rc)
{
    struct profile *profile = ep->hook;
    struct profile_block *block = profile ? profile_block_of(profile) : NULL;

    if (!block)
        return rc;
    profile_add(&block->counts.calls[call->kind], 1);
    if (__builtin_expect(rc >= 0, 1)) {
        profile_add(&block->counts.bytes[call->kind], call->len);
        profile_add(&block->counts.sizes[classes[call->kind]][profile_size_class(call->len)], 1);
        return rc;
    }
    profile_add(
        rc == -FI_EAGAIN ? &block->counts.again[call->kind] : &block->counts.failed[call->kind], 1);
    if (call->context)
        forget(profile, call->context);
    return rc;
}

static inline void reading_seen(struct pass_cq *cq, ssize_t rc)
{
    struct profile *profile = cq->hook;
    struct profile_block *block = profile ? profile_block_of(profile) : NULL;

    if (block)
        profile_add(rc == -FI_EAGAIN || !rc ? &block->counts.empty_reads : &block->counts.reads, 1);
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
    profile_add(completion->err ? &block->counts.errors : &block->counts.completions, 1);
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
        profile_add(&block->counts.unexpected, 1);
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

static struct fi_ops_srx_owner srx_owner_ops;

/* ---- Objects that count ---- */

/* An endpoint or queue of domain has been opened: it counts for the fabric's profile. */
static void counts(struct fid_domain *domain, struct fid *fid)
{
    const struct profile_layer *layer = pass_domain_of(domain)->fabric->hook;

    *pass_hook(fid) = layer ? layer->profile : NULL;
}

static int open_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                   void *context)
{
    int rc = pass_cq_open(domain, attr, cq, context);

    if (!rc)
        counts(domain, &(*cq)->fid);
    return rc;
}

static int open_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                   void *context)
{
    int rc = pass_ep_open(domain, info, ep, context);

    if (!rc)
        counts(domain, &(*ep)->fid);
    return rc;
}

static int open_ep2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                    uint64_t flags, void *context)
{
    int rc = pass_ep_open2(domain, info, ep, flags, context);

    if (!rc)
        counts(domain, &(*ep)->fid);
    return rc;
}

static int open_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
                    void *context)
{
    int rc = pass_srx_open(domain, attr, srx, context);

    if (!rc)
        counts(domain, &(*srx)->fid);
    return rc;
}

static int open_tx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
                   void *context)
{
    int rc = pass_ep_ops.tx_ctx(sep, index, attr, ep, context);

    if (!rc)
        counts(&object_of(sep, struct pass_ep, fid)->domain->fid, &(*ep)->fid);
    return rc;
}

static int open_rx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
                   void *context)
{
    int rc = pass_ep_ops.rx_ctx(sep, index, attr, ep, context);

    if (!rc)
        counts(&object_of(sep, struct pass_ep, fid)->domain->fid, &(*ep)->fid);
    return rc;
}

static int control(struct fid *fid, int command, void *arg)
{
    int rc = pass_ep_fid_ops.control(fid, command, arg);

    if (!rc && command == FI_ALIAS)
        *pass_hook(*((struct fi_alias *)arg)->fid) = *pass_hook(fid);
    return rc;
}

static struct fi_ops ep_fid_ops;
static struct fi_ops_ep ep_ops;
static struct fi_ops_domain domain_ops;

void profile_data_ops(struct pass_ops *ops)
{
    for (int i = 0; i < CALL_KINDS; i++)
        classes[i] = (unsigned char)call_class(i);
    srx_owner_ops = pass_srx_owner_ops;
    srx_owner_ops.get_msg = get_msg;
    srx_owner_ops.get_tag = get_tag;
    ep_fid_ops = pass_ep_fid_ops;
    ep_fid_ops.control = control;
    ep_ops = pass_ep_ops;
    ep_ops.tx_ctx = open_tx;
    ep_ops.rx_ctx = open_rx;
    domain_ops = pass_domain_ops;
    domain_ops.cq_open = open_cq;
    domain_ops.endpoint = open_ep;
    domain_ops.endpoint2 = open_ep2;
    domain_ops.scalable_ep = pass_sep_open;
    domain_ops.srx_ctx = open_srx;
    ops->msg = &seen_msg_ops;
    ops->tagged = &seen_tagged_ops;
    ops->rma = &seen_rma_ops;
    ops->atomic = &seen_atomic_ops;
    ops->collective = &seen_collective_ops;
    ops->cq = &seen_cq_ops;
    ops->cq_owner = &seen_cq_owner_ops;
    ops->srx_owner = &srx_owner_ops;
    ops->ep_fid = &ep_fid_ops;
    ops->ep = &ep_ops;
    ops->domain = &domain_ops;
}
