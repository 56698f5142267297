/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The public functions by which most small messages and accesses go: one look-up, and the same
 * function of the branch, which may have a short way of its own for it. A call that is refused here
 * has changed nothing; lnx_ep.c repeats it, handles all other cases, and reports errors.
 */
#include "layers/lnx/lnx_quick.h"

#include "core/base/table.h"
#include "core/match/match_quick.h"

static struct lnx_ep *ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct lnx_ep, fid);
}

/* ---- One buffer to or from a peer ---- */

/* The peer's path, with the progress domain locked; NULL: take the other way, nothing is locked. */
static inline const struct lnx_path *begin(struct lnx_ep *ep, fi_addr_t peer, size_t len)
{
    const struct lnx_path *path = NULL;

    if (__builtin_expect(!ep->quick || len > ep->quick_size, 0))
        return NULL;
    progress_lock(ep->domain->progress);
    if (__builtin_expect(!atomic_load_explicit(&ep->domain->av_changed, memory_order_relaxed), 1))
        path = lnx_av_path(ep->av, peer);
    if (__builtin_expect(!path, 0))
        progress_unlock(ep->domain->progress);
    return path;
}

static inline struct fid_ep *branch_of(const struct lnx_ep *ep, const struct lnx_path *path)
{
    return ep->branch[path->branch].ep;
}

/* A branch that has no room just now (-FI_EAGAIN) is asked again, with progress made. */
static inline ssize_t end(struct lnx_ep *ep, ssize_t rc)
{
    progress_unlock(ep->domain->progress);
    return rc;
}

static ssize_t quick_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                          fi_addr_t dest, void *context)
{
    struct lnx_ep *ep = ep_of(fid);
    const struct lnx_path *path = begin(ep, dest, len);
    ssize_t rc = -FI_EAGAIN;

    if (path)
        rc = end(ep, fi_send(branch_of(ep, path), buf, len, desc, path->addr, context));
    if (rc != -FI_EAGAIN)
        return rc;
    return ep_msg_ops.send(fid, buf, len, desc, dest, context);
}

static ssize_t quick_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    struct lnx_ep *ep = ep_of(fid);
    const struct lnx_path *path = begin(ep, dest, len);
    ssize_t rc = -FI_EAGAIN;

    if (path)
        rc = end(ep, fi_inject(branch_of(ep, path), buf, len, path->addr));
    if (rc != -FI_EAGAIN)
        return rc;
    return ep_msg_ops.inject(fid, buf, len, dest);
}

static ssize_t quick_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    struct lnx_ep *ep = ep_of(fid);
    const struct lnx_path *path = begin(ep, dest, len);
    ssize_t rc = -FI_EAGAIN;

    if (path)
        rc = end(ep, fi_tsend(branch_of(ep, path), buf, len, desc, path->addr, tag, context));
    if (rc != -FI_EAGAIN)
        return rc;
    return ep_tagged_ops.send(fid, buf, len, desc, dest, tag, context);
}

static ssize_t quick_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                             uint64_t tag)
{
    struct lnx_ep *ep = ep_of(fid);
    const struct lnx_path *path = begin(ep, dest, len);
    ssize_t rc = -FI_EAGAIN;

    if (path)
        rc = end(ep, fi_tinject(branch_of(ep, path), buf, len, path->addr, tag));
    if (rc != -FI_EAGAIN)
        return rc;
    return ep_tagged_ops.inject(fid, buf, len, dest, tag);
}

static ssize_t quick_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                          uint64_t addr, uint64_t key, void *context)
{
    struct lnx_ep *ep = ep_of(fid);
    const struct lnx_path *path = begin(ep, src, len);
    ssize_t rc = -FI_EAGAIN;

    if (path)
        rc = end(ep, fi_read(branch_of(ep, path), buf, len, desc, path->addr, addr, key, context));
    if (rc != -FI_EAGAIN)
        return rc;
    return ep_rma_ops.read(fid, buf, len, desc, src, addr, key, context);
}

static ssize_t quick_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    struct lnx_ep *ep = ep_of(fid);
    const struct lnx_path *path = begin(ep, dest, len);
    ssize_t rc = -FI_EAGAIN;

    if (path)
        rc = end(ep, fi_write(branch_of(ep, path), buf, len, desc, path->addr, addr, key, context));
    if (rc != -FI_EAGAIN)
        return rc;
    return ep_rma_ops.write(fid, buf, len, desc, dest, addr, key, context);
}

static ssize_t quick_inject_write(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                                  uint64_t addr, uint64_t key)
{
    struct lnx_ep *ep = ep_of(fid);
    const struct lnx_path *path = begin(ep, dest, len);
    ssize_t rc = -FI_EAGAIN;

    if (path)
        rc = end(ep, fi_inject_write(branch_of(ep, path), buf, len, path->addr, addr, key));
    if (rc != -FI_EAGAIN)
        return rc;
    return ep_rma_ops.inject(fid, buf, len, dest, addr, key);
}

/* ---- Receives: of the engine that all branches share, or of the only branch ---- */

/* A source counts where the endpoint has directed receives: the other way knows it. */
static inline bool from_anybody(const struct lnx_ep *ep, fi_addr_t src)
{
    return src == FI_ADDR_UNSPEC || !(ep->base.caps & (FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV));
}

static ssize_t quick_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                          void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct lnx_ep *ep = ep_of(fid);
    struct match *match = ep->base.match;
    ssize_t rc = -FI_EAGAIN;

    if (ep->quick && match && !ep->alone) {
        if (match_quick_receive(
                match, ep->domain->progress,
                match_want(&match->msg, &iov, 1, &desc, src, ep->base.rx_op_flags, context)))
            return 0;
    } else if (ep->quick && ep->alone && from_anybody(ep, src)) {
        progress_lock(ep->domain->progress);
        rc = end(ep, fi_recv(ep->branch[0].ep, buf, len, desc, FI_ADDR_UNSPEC, context));
    }
    if (rc != -FI_EAGAIN)
        return rc;
    return ep_msg_ops.recv(fid, buf, len, desc, src, context);
}

static ssize_t quick_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                           uint64_t tag, uint64_t ignore, void *context)
{
    const struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct lnx_ep *ep = ep_of(fid);
    struct match *match = ep->base.match;
    struct want want;
    ssize_t rc = -FI_EAGAIN;

    if (ep->quick && match && !ep->alone) {
        want = match_want(&match->tag, &iov, 1, &desc, src, ep->base.rx_op_flags, context);
        want.tag = tag;
        want.ignore = ignore;
        if (match_quick_receive(match, ep->domain->progress, want))
            return 0;
    } else if (ep->quick && ep->alone && from_anybody(ep, src)) {
        progress_lock(ep->domain->progress);
        rc = end(ep,
                 fi_trecv(ep->branch[0].ep, buf, len, desc, FI_ADDR_UNSPEC, tag, ignore, context));
    }
    if (rc != -FI_EAGAIN)
        return rc;
    return ep_tagged_ops.recv(fid, buf, len, desc, src, tag, ignore, context);
}

/* ---- Tables ---- */

static struct fi_ops_msg msg_tx_ops = {
    .size = sizeof(msg_tx_ops), .send = quick_send, .inject = quick_inject};
static struct fi_ops_msg msg_ops = {
    .size = sizeof(msg_ops), .recv = quick_recv, .send = quick_send, .inject = quick_inject};
static struct fi_ops_tagged tagged_tx_ops = {
    .size = sizeof(tagged_tx_ops), .send = quick_tsend, .inject = quick_tinject};
static struct fi_ops_tagged tagged_ops = {
    .size = sizeof(tagged_ops), .recv = quick_trecv, .send = quick_tsend, .inject = quick_tinject};
static struct fi_ops_rma rma_ops = {.size = sizeof(rma_ops),
                                    .read = quick_read,
                                    .write = quick_write,
                                    .inject = quick_inject_write};

void lnx_quick_set(struct lnx_ep *ep)
{
    const unsigned groups = ep->base.base.groups;

    if (groups & OP_GROUP_SEND)
        ep->fid.msg = table_inherit(groups & OP_GROUP_RECV ? &msg_ops : &msg_tx_ops, &ep_msg_ops);
    if (groups & OP_GROUP_TSEND)
        ep->fid.tagged =
            table_inherit(groups & OP_GROUP_TRECV ? &tagged_ops : &tagged_tx_ops, &ep_tagged_ops);
    if (groups & OP_GROUP_RMA)
        ep->fid.rma = table_inherit(&rma_ops, &ep_rma_ops);
}

void lnx_quick_enable(struct lnx_ep *ep)
{
    const struct lnx_domain *domain = ep->domain;

    ep->quick_size = ep->info->tx_attr->inject_size;
    ep->quick = !domain->own_keys && !domain->per_msg && !domain->local_mr && !ep->context_bits;
}
