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

/* May this one be posted? */
VERBS_QUICK bool connected(const struct verbs_ep *ep, size_t len)
{
    return __builtin_expect(verbs_quick_len(len) && ep->forks == fork_generation &&
                                atomic_load_explicit(&ep->state, memory_order_relaxed) ==
                                    VERBS_CONNECTED,
                            1);
}

static ssize_t quick_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                          fi_addr_t dest, void *context)
{
    struct verbs_ep *ep = verbs_ep_of(fid);

    if (connected(ep, len) && __builtin_expect(ep->base.tx_op_flags == ep->quick_flags, 1)) {
        struct progress *root = progress_enter_post(ep->base.binding.progress);
        bool done = verbs_quick_send(ep, buf, len, desc, context, true, false);

        progress_leave_post(root);
        if (__builtin_expect(done, 1))
            return 0;
    }
    return ep_msg_ops.send(fid, buf, len, desc, FI_ADDR_UNSPEC, context);
}

static ssize_t quick_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    struct verbs_ep *ep = verbs_ep_of(fid);

    if (connected(ep, len)) {
        struct progress *root = progress_enter_post(ep->base.binding.progress);
        bool done = verbs_quick_send(ep, buf, len, NULL, NULL, false, true);

        progress_leave_post(root);
        if (__builtin_expect(done, 1))
            return 0;
    }
    return ep_msg_ops.inject(fid, buf, len, FI_ADDR_UNSPEC);
}

static struct fi_ops_msg tx_ops = {
    .size = sizeof(tx_ops), .send = quick_send, .inject = quick_inject};
static struct fi_ops_msg ops = {
    .size = sizeof(ops), .recv = quick_recv, .send = quick_send, .inject = quick_inject};

static bool is_serial(const struct verbs_ep *ep)
{
    return ep->domain->base.info->domain_attr->threading == FI_THREAD_DOMAIN &&
           !progress_has_thread(ep->base.binding.progress);
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
    ep->fid.msg = table_inherit(!ep->srx && is_serial(ep) ? &ops : &tx_ops, &ep_msg_ops);
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
    bool plain = !attr || !(attr->flags & FI_PEER);
    int rc = domain_cq_open(domain, attr, cq, context);

    if (!rc && plain && (!attr || attr->format <= FI_CQ_FORMAT_CONTEXT))
        (*cq)->ops = table_inherit(&cq_read_ops, cq_ops);
    return rc;
}
