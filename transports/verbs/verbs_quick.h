/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commonest operations, short enough to be inlined: a message of one buffer with bytes in it,
 * its receive, and their completions. A function that refuses has done nothing, and verbs_post.c
 * does it, which knows everything else. Progress domain locked, but for receives: verbs_quick.c.
 */
#ifndef WEFT_VERBS_QUICK_H
#define WEFT_VERBS_QUICK_H

#include <arpa/inet.h>

#include "transports/verbs/verbs_ep.h"

#define VERBS_QUICK static inline __attribute__((always_inline))

/* An endpoint has just been enabled: its tables. */
void verbs_quick_enable(struct verbs_ep *ep);

/* fi_cq_open: with a read for entries that have nothing special. */
int verbs_quick_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                        void *context);

/* Default flags that ask for nothing but what every transmission has. */
#define VERBS_QUICK_FLAGS (FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE)

/* A segment of that length, which a device takes. */
VERBS_QUICK bool verbs_quick_len(size_t len)
{
    return !(((uint64_t)len - 1) >> 32);
}

VERBS_QUICK bool verbs_quick_receive(struct verbs_ep *ep, void *buf, size_t len,
                                     const struct ibv_mr *mr, void *context, bool wanted)
{
    uint32_t slot = verbs_place(&ep->rx, ep->rx.tail);
    struct ibv_recv_wr *bad;

    if (__builtin_expect(verbs_in_use(&ep->rx) == ep->rx.limit, 0))
        return false;
    ep->recvs[slot] = (struct verbs_recv){.context = context, .buf = buf, .wanted = wanted};
    ep->wr.recv.wr_id = verbs_wr_id(ep->number, true, slot);
    ep->wr.in.addr = (uintptr_t)buf;
    ep->wr.in.length = (uint32_t)len;
    ep->wr.in.lkey = mr->lkey;
    if (__builtin_expect(ibv_post_recv(ep->qp, &ep->wr.recv, &bad), 0))
        return false;
    verbs_posted(&ep->rx);
    return true;
}

/* By ibv_wr_*, or ibv_post_send. mr: NULL for bytes that the device copies. */
VERBS_QUICK int verbs_quick_post(struct verbs_ep *ep, const void *buf, uint32_t len,
                                 const struct ibv_mr *mr, uint32_t slot, bool signal)
{
    const unsigned flags = signal ? IBV_SEND_SIGNALED : 0;
    struct ibv_qp_ex *qp = ep->qp_ex;
    struct ibv_send_wr *bad;

    if (__builtin_expect(qp != NULL, 1)) {
        ibv_wr_start(qp);
        qp->wr_id = verbs_wr_id(ep->number, false, slot);
        qp->wr_flags = flags;
        ibv_wr_send(qp);
        if (mr)
            ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)buf, len);
        else
            ibv_wr_set_inline_data(qp, (void *)(uintptr_t)buf, len);
        return ibv_wr_complete(qp);
    }
    ep->wr.send.wr_id = verbs_wr_id(ep->number, false, slot);
    ep->wr.send.send_flags = flags | (mr ? 0u : (unsigned)IBV_SEND_INLINE);
    ep->wr.out.addr = (uintptr_t)buf;
    ep->wr.out.length = len;
    ep->wr.out.lkey = mr ? mr->lkey : 0;
    return ibv_post_send(ep->qp, &ep->wr.send, &bad);
}

/* The answer of a function that has done nothing. */
#define VERBS_QUICK_NOT 1

/* wanted: a completion; silent: an inject. 0, VERBS_QUICK_NOT, or the device's error. */
VERBS_QUICK ssize_t verbs_quick_send(struct verbs_ep *ep, const void *buf, size_t len,
                                     const struct ibv_mr *mr, void *context, bool wanted,
                                     bool silent)
{
    const struct verbs_send send = {.context = context,
                                    .flags = FI_SEND | FI_MSG,
                                    .kind = BIND_SEND,
                                    .wanted = wanted,
                                    .silent = silent,
                                    .plain = wanted};
    bool signal =
        wanted || ep->base.binding.cntr[BIND_SEND] || ep->unsignaled + 1 >= ep->signal_every;
    uint32_t slot = verbs_place(&ep->tx, ep->tx.tail);
    int rc;

    if (__builtin_expect(ep->tx.tail - ep->tx.head == ep->tx.limit || ep->chain->count, 0))
        return VERBS_QUICK_NOT;
    ep->sends[slot] = send;
    if ((uint64_t)len - 1 < ep->inline_size)
        rc = verbs_quick_post(ep, buf, (uint32_t)len, NULL, slot, signal);
    else if (mr && verbs_quick_len(len) && len <= ep->max_msg_size)
        rc = verbs_quick_post(ep, buf, (uint32_t)len, mr, slot, signal);
    else
        return VERBS_QUICK_NOT;
    if (__builtin_expect(rc, 0))
        return verbs_post_refused(rc);
    ep->tx.tail++;
    ep->unsignaled = signal ? 0 : ep->unsignaled + 1;
    return 0;
}

/* The oldest transmission is done, as it should, and has a completion in that queue. */
VERBS_QUICK bool verbs_quick_is_sent(const struct verbs_ep *ep, uint32_t slot,
                                     const struct ibv_wc *wc)
{
    return __builtin_expect(slot == verbs_place(&ep->tx, ep->tx.head) &&
                                ep->tx.tail != ep->tx.head && wc->status == IBV_WC_SUCCESS &&
                                ep->sends[slot].plain && !ep->base.binding.cntr[BIND_SEND],
                            1);
}

/* The oldest receive has a message without data, and has a completion. */
VERBS_QUICK bool verbs_quick_is_received(const struct verbs_ep *ep, uint32_t slot,
                                         const struct ibv_wc *wc)
{
    return __builtin_expect(slot == verbs_place(&ep->rx, ep->rx.head) && verbs_waits(&ep->rx) &&
                                wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV &&
                                !(wc->wc_flags & IBV_WC_WITH_IMM) && ep->recvs[slot].wanted &&
                                !ep->base.binding.cntr[BIND_RECV],
                            1);
}

/* cq_write, inlined where the queue is an upper's. */
VERBS_QUICK void verbs_quick_write(struct cq *cq, void *context, uint64_t flags, size_t len,
                                   void *buf)
{
    struct fid_peer_cq *sink = cq->sink;

    if (__builtin_expect(cq->forwards, 1))
        sink->owner_ops->write(sink, context, flags, len, buf, 0, 0, FI_ADDR_NOTAVAIL);
    else
        cq_write(cq, context, flags, len, buf, 0, 0, FI_ADDR_NOTAVAIL);
}

VERBS_QUICK bool verbs_quick_sent(struct verbs_ep *ep, uint32_t slot, const struct ibv_wc *wc)
{
    const struct verbs_send *send = &ep->sends[slot];
    struct cq *cq = ep->tx_to;

    if (__builtin_expect(!cq || !verbs_quick_is_sent(ep, slot, wc), 0))
        return false;
    ep->tx.head++;
    verbs_quick_write(cq, send->context, send->flags, 0, NULL);
    return true;
}

VERBS_QUICK bool verbs_quick_received(struct verbs_ep *ep, uint32_t slot, const struct ibv_wc *wc)
{
    struct cq *cq = ep->rx_to;
    struct verbs_recv recv;

    if (__builtin_expect(!cq || !verbs_quick_is_received(ep, slot, wc), 0))
        return false;
    recv = ep->recvs[slot];
    verbs_took(&ep->rx);
    verbs_quick_write(cq, recv.context, FI_RECV | FI_MSG, wc->byte_len, recv.buf);
    return true;
}

#endif
