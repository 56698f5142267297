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

/* ---- The branch ---- */

static inline struct fid_ep *branch_of(const struct lnx_ep *ep, fi_addr_t *peer)
{
    const struct lnx_path *path = NULL;

    if (__builtin_expect(!(lnx_av_state(ep->domain) & LNX_AV_CHANGED), 1))
        path = lnx_av_path(ep->av, *peer);
    if (__builtin_expect(!path, 0))
        return NULL;
    *peer = path->addr;
    return ep->quick.branch[path->branch];
}

/* Unless something holds them back, the next calls are made without a look. */
static inline void look(struct lnx_ep *ep)
{
    const unsigned back = ep->quick.straight ? LNX_AV_CHANGED | LNX_AV_RENUMBERED : LNX_AV_CHANGED;

    if (!ep->quick.below)
        return;
    ep->quick.unseen = lnx_av_state(ep->domain) & back ? 1 : LNX_UNSEEN;
    ep->quick.paths = ep->av->paths;
    ep->quick.path_count = ep->av->path_count;
}

void lnx_av_note(struct lnx_domain *domain, unsigned state)
{
    unsigned before = atomic_fetch_or(&domain->av_state, state);

    if ((before & state) == state)
        return;
    list_for_each (pos, &domain->unlocked)
        list_item(pos, struct lnx_ep, quick.link)->quick.unseen = 1;
}

/* The branch that the call is for, with the progress domain locked and the peer's number there in
 * peer; NULL: take the other way, nothing is locked. */
static inline struct fid_ep *begin(struct lnx_ep *ep, fi_addr_t *peer, size_t len)
{
    struct fid_ep *below;

    if (!ep->quick.locked)
        look(ep);
    if (__builtin_expect(len >= ep->quick.below, 0))
        return NULL;
    if (ep->quick.locked)
        progress_lock(ep->domain->progress);
    below = branch_of(ep, peer);
    if (ep->quick.locked && !below)
        progress_unlock(ep->domain->progress);
    return below;
}

/* A branch that has no room just now is driven, so that the caller may try again. */
static inline ssize_t end(struct lnx_ep *ep, ssize_t rc)
{
    if (__builtin_expect(rc == -FI_EAGAIN, 0))
        lnx_ep_drive(ep);
    if (ep->quick.locked)
        progress_unlock(ep->domain->progress);
    return rc;
}

/* ---- One buffer to or from a peer ---- */

static ssize_t quick_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                          fi_addr_t dest, void *context)
{
    struct lnx_ep *ep = ep_of(fid);
    struct fid_ep *below = begin(ep, &dest, len);

    if (__builtin_expect(below != NULL, 1))
        return end(ep, fi_send(below, buf, len, desc, dest, context));
    return ep_msg_ops.send(fid, buf, len, desc, dest, context);
}

static ssize_t quick_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    struct lnx_ep *ep = ep_of(fid);
    struct fid_ep *below = begin(ep, &dest, len);

    if (__builtin_expect(below != NULL, 1))
        return end(ep, fi_inject(below, buf, len, dest));
    return ep_msg_ops.inject(fid, buf, len, dest);
}

static ssize_t quick_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    struct lnx_ep *ep = ep_of(fid);
    struct fid_ep *below = begin(ep, &dest, len);

    if (__builtin_expect(below != NULL, 1))
        return end(ep, fi_tsend(below, buf, len, desc, dest, tag, context));
    return ep_tagged_ops.send(fid, buf, len, desc, dest, tag, context);
}

static ssize_t quick_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                             uint64_t tag)
{
    struct lnx_ep *ep = ep_of(fid);
    struct fid_ep *below = begin(ep, &dest, len);

    if (__builtin_expect(below != NULL, 1))
        return end(ep, fi_tinject(below, buf, len, dest, tag));
    return ep_tagged_ops.inject(fid, buf, len, dest, tag);
}

static ssize_t quick_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                          uint64_t addr, uint64_t key, void *context)
{
    struct lnx_ep *ep = ep_of(fid);
    struct fid_ep *below = begin(ep, &src, len);

    if (__builtin_expect(below != NULL, 1))
        return end(ep, fi_read(below, buf, len, desc, src, addr, key, context));
    return ep_rma_ops.read(fid, buf, len, desc, src, addr, key, context);
}

static ssize_t quick_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    struct lnx_ep *ep = ep_of(fid);
    struct fid_ep *below = begin(ep, &dest, len);

    if (__builtin_expect(below != NULL, 1))
        return end(ep, fi_write(below, buf, len, desc, dest, addr, key, context));
    return ep_rma_ops.write(fid, buf, len, desc, dest, addr, key, context);
}

static ssize_t quick_inject_write(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                                  uint64_t addr, uint64_t key)
{
    struct lnx_ep *ep = ep_of(fid);
    struct fid_ep *below = begin(ep, &dest, len);

    if (__builtin_expect(below != NULL, 1))
        return end(ep, fi_inject_write(below, buf, len, dest, addr, key));
    return ep_rma_ops.inject(fid, buf, len, dest, addr, key);
}

/* ---- Receives: of the engine that all branches share, or of the only branch ---- */

/* The only branch, with the progress domain locked; NULL: take the other way. A source counts where
 * the endpoint has directed receives: the other way knows it. */
static inline struct fid_ep *begin_receive(struct lnx_ep *ep, fi_addr_t src)
{
    if (!ep->quick.below || !ep->alone ||
        (src != FI_ADDR_UNSPEC && ep->base.caps & (FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV)))
        return NULL;
    if (ep->quick.locked)
        progress_lock(ep->domain->progress);
    return ep->quick.branch[0];
}

/* Posts it to the engine. */
static inline __attribute__((always_inline)) bool match_here(struct lnx_ep *ep, struct want want)
{
    want.flags = ep->base.rx_op_flags;
    return match_quick_receive(ep->base.match, ep->domain->progress, want);
}

static ssize_t quick_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                          void *context)
{
    struct lnx_ep *ep = ep_of(fid);
    struct match *match = ep->quick.matches ? ep->base.match : NULL;
    struct fid_ep *below;

    if (__builtin_expect(match != NULL, 1)) {
        const struct iovec iov = {.iov_base = buf, .iov_len = len};

        if (match_here(ep, match_want(&match->msg, &iov, 1, &desc, src, 0, context)))
            return 0;
    }
    below = begin_receive(ep, src);
    if (below)
        return end(ep, fi_recv(below, buf, len, desc, FI_ADDR_UNSPEC, context));
    return ep_msg_ops.recv(fid, buf, len, desc, src, context);
}

static ssize_t quick_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                           uint64_t tag, uint64_t ignore, void *context)
{
    struct lnx_ep *ep = ep_of(fid);
    struct match *match = ep->quick.matches ? ep->base.match : NULL;
    struct fid_ep *below;

    if (__builtin_expect(match != NULL, 1)) {
        const struct iovec iov = {.iov_base = buf, .iov_len = len};
        struct want want = match_want(&match->tag, &iov, 1, &desc, src, 0, context);

        want.tag = tag;
        want.ignore = ignore;
        if (match_here(ep, want))
            return 0;
    }
    below = begin_receive(ep, src);
    if (below)
        return end(ep, fi_trecv(below, buf, len, desc, FI_ADDR_UNSPEC, tag, ignore, context));
    return ep_tagged_ops.recv(fid, buf, len, desc, src, tag, ignore, context);
}

/*
 * ---- Without a lock, and without a look at more than the call needs ----
 *
 * They end in a jump to the branch's function, which so finds the caller's arguments where they
 * are. One call in LNX_UNSEEN looks at all that changes rarely, or the next one if there is
 * something to see (lnx_av_note); that call goes by the functions above, which drive a branch
 * without room. A caller that does nothing but try again so makes progress, too.
 */

static inline __attribute__((always_inline)) bool is_unseen(struct fid_ep *fid)
{
    return __builtin_expect(--ep_of(fid)->quick.unseen != 0, 1);
}

/* Has the peer one path, of which nothing is known that holds the call back? */
static inline __attribute__((always_inline)) bool is_short(struct fid_ep *fid, fi_addr_t peer,
                                                           size_t len)
{
    const struct lnx_short *quick = &ep_of(fid)->quick;

    return __builtin_expect(len < quick->below && peer < quick->path_count, 1) && is_unseen(fid);
}

/* The branch, and the peer's number there, as one. The first branch mostly knows the peer by our
 * number: the two are compared, which the processor guesses, so that it need not wait for the path
 * to know what to do. */
static inline __attribute__((always_inline)) uint64_t way_to(struct fid_ep *fid, fi_addr_t peer)
{
    const struct lnx_path *path = &ep_of(fid)->quick.paths[peer];

    return (uint64_t)path->branch << 32 | path->addr;
}

static inline struct fid_ep *branch_at(struct fid_ep *fid, size_t branch)
{
    return ep_of(fid)->quick.branch[branch];
}

static ssize_t unlocked_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                             fi_addr_t dest, void *context)
{
    if (is_short(fid, dest, len)) {
        uint64_t way = way_to(fid, dest);
        struct fid_ep *below;

        if (__builtin_expect(way == dest, 1))
            return fi_send(branch_at(fid, 0), buf, len, desc, dest, context);
        below = branch_at(fid, way >> 32);
        if (below)
            return fi_send(below, buf, len, desc, (uint32_t)way, context);
    }
    return quick_send(fid, buf, len, desc, dest, context);
}

static ssize_t unlocked_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    if (is_short(fid, dest, len)) {
        uint64_t way = way_to(fid, dest);
        struct fid_ep *below;

        if (__builtin_expect(way == dest, 1))
            return fi_inject(branch_at(fid, 0), buf, len, dest);
        below = branch_at(fid, way >> 32);
        if (below)
            return fi_inject(below, buf, len, (uint32_t)way);
    }
    return quick_inject(fid, buf, len, dest);
}

static ssize_t unlocked_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                              fi_addr_t dest, uint64_t tag, void *context)
{
    if (is_short(fid, dest, len)) {
        uint64_t way = way_to(fid, dest);
        struct fid_ep *below;

        if (__builtin_expect(way == dest, 1))
            return fi_tsend(branch_at(fid, 0), buf, len, desc, dest, tag, context);
        below = branch_at(fid, way >> 32);
        if (below)
            return fi_tsend(below, buf, len, desc, (uint32_t)way, tag, context);
    }
    return quick_tsend(fid, buf, len, desc, dest, tag, context);
}

static ssize_t unlocked_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                                uint64_t tag)
{
    if (is_short(fid, dest, len)) {
        uint64_t way = way_to(fid, dest);
        struct fid_ep *below;

        if (__builtin_expect(way == dest, 1))
            return fi_tinject(branch_at(fid, 0), buf, len, dest, tag);
        below = branch_at(fid, way >> 32);
        if (below)
            return fi_tinject(below, buf, len, (uint32_t)way, tag);
    }
    return quick_tinject(fid, buf, len, dest, tag);
}

/* ---- Calls that the only branch takes as they are ---- */

/* It numbers peers as the join does, just now: for receives from one of them. */
static inline bool is_straight(struct fid_ep *fid)
{
    return __builtin_expect(!lnx_av_state(ep_of(fid)->domain), 1);
}

static ssize_t straight_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                             fi_addr_t dest, void *context)
{
    if (is_unseen(fid))
        return fi_send(branch_at(fid, 0), buf, len, desc, dest, context);
    return quick_send(fid, buf, len, desc, dest, context);
}

static ssize_t straight_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    if (is_unseen(fid))
        return fi_inject(branch_at(fid, 0), buf, len, dest);
    return quick_inject(fid, buf, len, dest);
}

/* Without directed receives a source does not count. */
static ssize_t any_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                        void *context)
{
    (void)src;
    return fi_recv(branch_at(fid, 0), buf, len, desc, FI_ADDR_UNSPEC, context);
}

static ssize_t straight_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                             void *context)
{
    if (is_straight(fid))
        return fi_recv(branch_at(fid, 0), buf, len, desc, src, context);
    return quick_recv(fid, buf, len, desc, src, context);
}

static ssize_t straight_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                              fi_addr_t dest, uint64_t tag, void *context)
{
    if (is_unseen(fid))
        return fi_tsend(branch_at(fid, 0), buf, len, desc, dest, tag, context);
    return quick_tsend(fid, buf, len, desc, dest, tag, context);
}

static ssize_t straight_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                                uint64_t tag)
{
    if (is_unseen(fid))
        return fi_tinject(branch_at(fid, 0), buf, len, dest, tag);
    return quick_tinject(fid, buf, len, dest, tag);
}

/* As any_recv. */
static ssize_t any_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                         uint64_t tag, uint64_t ignore, void *context)
{
    (void)src;
    return fi_trecv(branch_at(fid, 0), buf, len, desc, FI_ADDR_UNSPEC, tag, ignore, context);
}

static ssize_t straight_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                              uint64_t tag, uint64_t ignore, void *context)
{
    if (is_straight(fid))
        return fi_trecv(branch_at(fid, 0), buf, len, desc, src, tag, ignore, context);
    return quick_trecv(fid, buf, len, desc, src, tag, ignore, context);
}

static ssize_t straight_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                             uint64_t addr, uint64_t key, void *context)
{
    if (is_unseen(fid))
        return fi_read(branch_at(fid, 0), buf, len, desc, src, addr, key, context);
    return quick_read(fid, buf, len, desc, src, addr, key, context);
}

static ssize_t straight_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                              fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    if (is_unseen(fid))
        return fi_write(branch_at(fid, 0), buf, len, desc, dest, addr, key, context);
    return quick_write(fid, buf, len, desc, dest, addr, key, context);
}

static ssize_t straight_inject_write(struct fid_ep *fid, const void *buf, size_t len,
                                     fi_addr_t dest, uint64_t addr, uint64_t key)
{
    if (is_unseen(fid))
        return fi_inject_write(branch_at(fid, 0), buf, len, dest, addr, key);
    return quick_inject_write(fid, buf, len, dest, addr, key);
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

static struct fi_ops_msg unlocked_msg_ops = {.size = sizeof(unlocked_msg_ops),
                                             .recv = quick_recv,
                                             .send = unlocked_send,
                                             .inject = unlocked_inject};
static struct fi_ops_tagged unlocked_tagged_ops = {.size = sizeof(unlocked_tagged_ops),
                                                   .recv = quick_trecv,
                                                   .send = unlocked_tsend,
                                                   .inject = unlocked_tinject};

static struct fi_ops_msg straight_msg_ops = {.size = sizeof(straight_msg_ops),
                                             .recv = any_recv,
                                             .send = straight_send,
                                             .inject = straight_inject};
static struct fi_ops_tagged straight_tagged_ops = {.size = sizeof(straight_tagged_ops),
                                                   .recv = any_trecv,
                                                   .send = straight_tsend,
                                                   .inject = straight_tinject};
static struct fi_ops_msg directed_msg_ops = {.size = sizeof(directed_msg_ops),
                                             .recv = straight_recv};
static struct fi_ops_tagged directed_tagged_ops = {.size = sizeof(directed_tagged_ops),
                                                   .recv = straight_trecv};
static struct fi_ops_rma straight_rma_ops = {.size = sizeof(straight_rma_ops),
                                             .read = straight_read,
                                             .write = straight_write,
                                             .inject = straight_inject_write};

void lnx_quick_set(struct lnx_ep *ep)
{
    const unsigned groups = ep->base.base.groups;

    list_init(&ep->quick.link);
    if (groups & OP_GROUP_SEND)
        ep->fid.msg = table_inherit(groups & OP_GROUP_RECV ? &msg_ops : &msg_tx_ops, &ep_msg_ops);
    if (groups & OP_GROUP_TSEND)
        ep->fid.tagged =
            table_inherit(groups & OP_GROUP_TRECV ? &tagged_ops : &tagged_tx_ops, &ep_tagged_ops);
    if (groups & OP_GROUP_RMA)
        ep->fid.rma = table_inherit(&rma_ops, &ep_rma_ops);
}

static bool has_all(const struct lnx_ep *ep, unsigned groups)
{
    return (ep->base.base.groups & groups) == groups;
}

static void set_straight(struct lnx_ep *ep)
{
    const uint64_t directed = FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV;

    ep->quick.straight = true;
    if (has_all(ep, OP_GROUP_MSG))
        ep->fid.msg = table_inherit(&straight_msg_ops, &ep_msg_ops);
    if (has_all(ep, OP_GROUP_TAGGED))
        ep->fid.tagged = table_inherit(&straight_tagged_ops, &ep_tagged_ops);
    if (has_all(ep, OP_GROUP_RMA))
        ep->fid.rma = table_inherit(&straight_rma_ops, &ep_rma_ops);
    if (ep->base.caps & directed && has_all(ep, OP_GROUP_MSG))
        ep->fid.msg = table_inherit(&directed_msg_ops, ep->fid.msg);
    if (ep->base.caps & directed && has_all(ep, OP_GROUP_TAGGED))
        ep->fid.tagged = table_inherit(&directed_tagged_ops, ep->fid.tagged);
}

static void set_unlocked(struct lnx_ep *ep)
{
    if (has_all(ep, OP_GROUP_MSG))
        ep->fid.msg = table_inherit(&unlocked_msg_ops, &ep_msg_ops);
    if (has_all(ep, OP_GROUP_TAGGED))
        ep->fid.tagged = table_inherit(&unlocked_tagged_ops, &ep_tagged_ops);
}

void lnx_quick_enable(struct lnx_ep *ep)
{
    const struct lnx_domain *domain = ep->domain;

    if (domain->own_keys || domain->per_msg || domain->local_mr || ep->context_bits)
        return;
    for (size_t i = 0; i < ep->count; i++)
        ep->quick.branch[i] = ep->branch[i].ep;
    ep->quick.locked = domain->progress->locked;
    ep->quick.below = ep->info->tx_attr->inject_size + 1;
    ep->quick.matches = !ep->alone;
    if (ep->quick.locked)
        return;
    ep->quick.unseen = 1;
    list_attach(&ep->quick.link, &ep->domain->unlocked);
    if (ep->alone)
        set_straight(ep);
    else if (domain->rails == 1)
        set_unlocked(ep);
}

void lnx_quick_disable(struct lnx_ep *ep)
{
    list_detach(&ep->quick.link);
}
