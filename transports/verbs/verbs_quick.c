/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_send, fi_recv and fi_inject of an endpoint that is enabled, past struct op, and fi_cq_read. */
#include "transports/verbs/verbs_quick.h"

#include <string.h>

#include "core/base/fork.h"
#include "core/base/table.h"
#include "core/domain/domain.h"

/* Where posts and reads come from one thread at a time. Then a receive needs no lock: of what it
 * changes nothing is changed by another thread, but by fi_close, which may take receives of other
 * endpoints from their common queue. */
static ssize_t quick_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                          void *context)
{
    struct verbs_ep *ep = verbs_ep_of(fid);
    bool wanted = completion_wanted(ep->base.binding.rx_selective, ep->base.rx_op_flags);

    if (__builtin_expect(desc && verbs_quick_len(len) && ep->forks == fork_generation &&
                             verbs_quick_receive(ep, buf, len, desc, context, wanted),
                         1))
        return 0;
    return ep_msg_ops.recv(fid, buf, len, desc, FI_ADDR_UNSPEC, context);
}

/* As many as there is room for, of those that the short way takes, as a chain. */
static uint32_t fill_receives(struct verbs_ep *ep, const struct ep_receive *const *receives,
                              size_t count)
{
    bool wanted = completion_wanted(ep->base.binding.rx_selective, ep->base.rx_op_flags);
    uint32_t room = ep->rx.limit - verbs_in_use(&ep->rx), filled = 0;
    struct verbs_receives *chain = &ep->cq->receives;

    if (room > VERBS_RECEIVES)
        room = VERBS_RECEIVES;
    for (; filled < count && filled < room; filled++) {
        const struct ep_receive *one = receives[filled];
        const struct ibv_mr *mr = one->desc;
        uint32_t slot = verbs_place(&ep->rx, ep->rx.tail + filled);

        if (__builtin_expect(!mr || !verbs_quick_len(one->len), 0))
            break;
        ep->recvs[slot] =
            (struct verbs_recv){.context = one->context, .buf = one->buf, .wanted = wanted};
        chain->wrs[filled].wr_id = verbs_wr_id(ep->number, true, slot);
        chain->sges[filled] = (struct ibv_sge){
            .addr = (uintptr_t)one->buf, .length = (uint32_t)one->len, .lkey = mr->lkey};
    }
    return filled;
}

static size_t quick_receives(struct ep *base, const struct ep_receive *const *receives,
                             size_t count)
{
    struct verbs_ep *ep = object_of(base, struct verbs_ep, base);
    struct ibv_recv_wr *first = ep->cq->receives.wrs, *bad = first, *last;
    uint32_t filled;

    if (ep->forks != fork_generation)
        return 0;
    filled = fill_receives(ep, receives, count);
    if (!filled)
        return 0;
    last = &first[filled - 1];
    last->next = NULL;
    if (__builtin_expect(ibv_post_recv(ep->qp, first, &bad), 0))
        filled = (uint32_t)(bad - first);
    if (last < &first[VERBS_RECEIVES - 1])
        last->next = last + 1;
    __atomic_store_n(&ep->rx.tail, ep->rx.tail + filled, __ATOMIC_RELEASE);
    return filled;
}

/* May this one be posted? */
VERBS_QUICK bool connected(const struct verbs_ep *ep)
{
    return __builtin_expect(ep->forks == fork_generation &&
                                atomic_load_explicit(&ep->state, memory_order_relaxed) ==
                                    VERBS_CONNECTED,
                            1);
}

/* locked: the progress domain may have a lock. */
VERBS_QUICK ssize_t send_by(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                            void *context, bool locked)
{
    struct verbs_ep *ep = verbs_ep_of(fid);

    if (connected(ep) && __builtin_expect(ep->base.tx_op_flags == ep->quick_flags, 1)) {
        struct progress *root = locked ? progress_enter_post(ep->base.binding.progress) : NULL;
        ssize_t rc = verbs_quick_send(ep, buf, len, desc, context, true, false);

        progress_leave_post(root);
        if (__builtin_expect(rc != VERBS_QUICK_NOT, 1))
            return rc;
    }
    return ep_msg_ops.send(fid, buf, len, desc, FI_ADDR_UNSPEC, context);
}

static ssize_t quick_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                          fi_addr_t dest, void *context)
{
    return send_by(fid, buf, len, desc, context, true);
}

static ssize_t quick_send_unlocked(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                                   fi_addr_t dest, void *context)
{
    return send_by(fid, buf, len, desc, context, false);
}

static ssize_t quick_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    struct verbs_ep *ep = verbs_ep_of(fid);

    if (connected(ep)) {
        struct progress *root = progress_enter_post(ep->base.binding.progress);
        ssize_t rc = verbs_quick_send(ep, buf, len, NULL, NULL, false, true);

        progress_leave_post(root);
        if (__builtin_expect(rc != VERBS_QUICK_NOT, 1))
            return rc;
    }
    return ep_msg_ops.inject(fid, buf, len, FI_ADDR_UNSPEC);
}

static struct fi_ops_msg tx_ops = {
    .size = sizeof(tx_ops), .send = quick_send, .inject = quick_inject};
static struct fi_ops_msg ops = {
    .size = sizeof(ops), .recv = quick_recv, .send = quick_send, .inject = quick_inject};
static struct fi_ops_msg unlocked_ops = {.size = sizeof(unlocked_ops),
                                         .recv = quick_recv,
                                         .send = quick_send_unlocked,
                                         .inject = quick_inject};

static bool is_serial(const struct verbs_ep *ep)
{
    return ep->domain->base.info->domain_attr->threading == FI_THREAD_DOMAIN &&
           !progress_has_thread(ep->base.binding.progress);
}

/* Receives of a shared context are posted there. */
static struct fi_ops_msg *ops_for(const struct verbs_ep *ep)
{
    if (ep->srx)
        return &tx_ops;
    if (!ep->base.binding.progress->locked)
        return &unlocked_ops;
    return is_serial(ep) ? &ops : &tx_ops;
}

void verbs_quick_enable(struct verbs_ep *ep)
{
    const struct binding *binding = &ep->base.binding;
    bool plain = !(ep->base.tx_op_flags & ~VERBS_QUICK_FLAGS) &&
                 completion_wanted(binding->tx_selective, ep->base.tx_op_flags);

    ep->forks = fork_generation;
    ep->tx_to = binding->tx;
    ep->rx_to = binding->rx;
    ep->quick_flags = plain ? ep->base.tx_op_flags : UINT64_MAX;
    ep->wr.send.sg_list = &ep->wr.out;
    ep->wr.send.num_sge = 1;
    ep->wr.send.opcode = IBV_WR_SEND;
    ep->wr.recv.sg_list = &ep->wr.in;
    ep->wr.recv.num_sge = 1;
    ep->fid.msg = table_inherit(ops_for(ep), &ep_msg_ops);
    if (!ep->srx && !binding->progress->locked)
        ep->base.base.receive = quick_receives;
}

/* ---- Reads ---- */

/* The device's queue that alone feeds a progress domain, if nothing but its entries is to be looked
 * at; else NULL. */
static inline struct verbs_cq *plain_source(const struct progress *root)
{
    struct progress_source *source = root->sole;
    struct verbs_cq *cq;

    if (__builtin_expect(!source || source->poll != verbs_cq_poll || root->driving || root->watched,
                         0))
        return NULL;
    cq = object_of(source, struct verbs_cq, source);
    return cq->armed || cq->has_chained ? NULL : cq;
}

/* Takes an entry that has nothing special, and is this queue's: its context, and of how many. */
static inline bool take_plain(struct verbs_cq *cq, const struct cq *reader, const struct ibv_wc *wc,
                              void *buf, uint32_t *count)
{
    struct verbs_ep *ep = cq->last_ep;
    uint32_t slot = (uint32_t)wc->wr_id & 0x7fffffff;

    if (__builtin_expect(wc->wr_id >> 32 != cq->last, 0))
        return false;
    if (wc->wr_id >> 31 & 1) {
        if (__builtin_expect(ep->rx_to != reader || !verbs_quick_is_received(ep, slot, wc), 0))
            return false;
        memcpy(buf, &ep->recvs[slot].context, sizeof(void *));
        *count = verbs_took(&ep->rx);
        return true;
    }
    if (__builtin_expect(ep->tx_to != reader || !verbs_quick_is_sent(ep, slot, wc), 0))
        return false;
    memcpy(buf, &ep->sends[slot].context, sizeof(void *));
    *count = ++ep->tx.head;
    return true;
}

/* Of a queue with FI_CQ_FORMAT_CONTEXT. */
static ssize_t quick_read(struct fid_cq *fid, void *buf, size_t count)
{
    struct cq *reader = object_of(fid, struct cq, fid);
    struct progress *root;
    struct ibv_wc wcs[VERBS_CQ_BATCH];
    struct verbs_cq *cq;
    uint32_t taken;
    int polled;

    if (progress_forked(reader->progress))
        return -FI_EOPBADSTATE;
    root = progress_enter(reader->progress);
    cq = plain_source(root);
    if (__builtin_expect(!cq || !cq_is_empty(reader) || !count, 0))
        return cq_read_entered(reader, root, buf, count);
    atomic_store_explicit(&root->driven, true, memory_order_relaxed);
    polled = ibv_poll_cq(cq->ibv, cq->batch, wcs);
    if (__builtin_expect(polled == 1 && take_plain(cq, reader, wcs, buf, &taken), 1)) {
        if (__builtin_expect(!(taken % PROGRESS_FULL), 0))
            return cq_read_end(reader, root, 1);
        progress_leave(root);
        return 1;
    }
    cq_direct(reader, buf, count);
    root->driving = true;
    verbs_cq_take(cq, wcs, polled);
    root->driving = false;
    return cq_read_end(reader, root, cq_direct_end(reader));
}

static struct fi_ops_cq cq_read_ops = {.size = sizeof(cq_read_ops), .read = quick_read};

int verbs_quick_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                        void *context)
{
    return domain_cq_open_read(domain, attr, cq, context, &cq_read_ops);
}
