/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of a layer above, several in one call: sends and receives past struct op, and their
 * completions to its queue. Such a request has no record: the layer's context is its number, with
 * two bits of ours. Where anything is special efa_post.c and efa_cq.c do it, which know these
 * requests, too.
 */
#include <stdlib.h>

#include "transports/efa/efa.h"

#define QUICK static inline __attribute__((always_inline))

static struct efa_ep *ep_of(struct ep *base)
{
    return object_of(base, struct efa_ep, base);
}

/* ---- Sends ---- */

QUICK bool may_send(const struct efa_ep *ep, const struct ep_send *send)
{
    const size_t len = send->len + send->slice.iov_len;
    const struct efa_mr *mr = send->desc;

    if (__builtin_expect(!efa_is_bare(send->context) || !send->len || len > ep->max, 0))
        return false;
    if (send->slice.iov_len)
        return mr && send->slice_desc;
    return len <= ep->inline_max ? !mr || !mr->is_device_memory : mr != NULL;
}

QUICK void put(const struct efa_ep *ep, const struct ep_send *send)
{
    struct ibv_qp_ex *ex = ep->ex;
    const struct efa_mr *mr = send->desc, *slice_mr = send->slice_desc;

    ex->wr_id = (uintptr_t)send->context | EFA_BARE;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    if (send->slice.iov_len) {
        struct ibv_sge sges[] = {
            {.addr = (uintptr_t)send->buf, .length = (uint32_t)send->len, .lkey = mr->lkey},
            {.addr = (uintptr_t)send->slice.iov_base,
             .length = (uint32_t)send->slice.iov_len,
             .lkey = slice_mr->lkey},
        };

        ibv_wr_set_sge_list(ex, 2, sges);
    } else if (send->len <= ep->inline_max) {
        ibv_wr_set_inline_data(ex, send->buf, send->len);
    } else {
        ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)send->buf, (uint32_t)send->len);
    }
    ibv_wr_set_ud_addr(ex, ep->route.ah, ep->route.qpn, ep->route.qkey);
}

/* It stops at the first that is special. */
static size_t burst_send(struct ep *base, fi_addr_t dest, const struct ep_send *sends, size_t count)
{
    struct efa_ep *ep = ep_of(base);
    size_t room = ep->base.tx_size - ep->sends, usual = 0;

    if (count > room)
        count = room;
    while (usual < count && may_send(ep, &sends[usual]))
        usual++;
    if (__builtin_expect(!usual || progress_forked(ep->progress) || efa_route(ep, dest), 0))
        return 0;
    if (__builtin_expect(efa_chain_waits(ep), 0))
        efa_chain_flush(ep);
    ibv_wr_start(ep->ex);
    for (size_t i = 0; i < usual; i++)
        put(ep, &sends[i]);
    if (__builtin_expect(ibv_wr_complete(ep->ex), 0))
        return 0;
    ep->sends += usual;
    return usual;
}

/* ---- Receives ---- */

QUICK bool fill_receive(struct efa_burst *burst, size_t at, const struct ep_receive *receive)
{
    const struct efa_mr *mr = receive->desc;

    if (__builtin_expect(!efa_is_bare(receive->context) || !mr || receive->len - 1 >= UINT32_MAX,
                         0))
        return false;
    burst->wrs[at].wr_id = (uintptr_t)receive->context | EFA_BARE | EFA_BARE_RECV;
    burst->sges[at].addr = (uintptr_t)receive->buf;
    burst->sges[at].length = (uint32_t)receive->len;
    burst->sges[at].lkey = mr->lkey;
    return true;
}

static size_t burst_receive(struct ep *base, const struct ep_receive *const *receives, size_t count)
{
    struct efa_ep *ep = ep_of(base);
    struct efa_burst *burst = ep->burst;
    size_t room = ep->base.rx_size - ep->receives, filled = 0;
    struct ibv_recv_wr *bad, *last;

    if (room > EFA_CHAIN)
        room = EFA_CHAIN;
    if (count > room)
        count = room;
    while (filled < count && fill_receive(burst, filled, receives[filled]))
        filled++;
    if (__builtin_expect(!filled || progress_forked(ep->progress) || efa_chain_waits(ep), 0))
        return 0;
    last = &burst->wrs[filled - 1];
    last->next = NULL;
    if (__builtin_expect(ibv_post_recv(ep->qp, burst->wrs, &bad), 0))
        filled = (size_t)(bad - burst->wrs);
    if (last < &burst->wrs[EFA_CHAIN - 1])
        last->next = last + 1;
    ep->receives += filled;
    return filled;
}

/* ---- Completions ---- */

/* A success of such a request, which is a message of a sender that is known. A peer's write may
 * have taken a receive, and a sender without a handle is known by more than its numbers. One that
 * is not known may be when its message ends, since those before it may introduce it. */
QUICK bool read_bare(struct efa_ep *ep, struct cq_done *done)
{
    struct ibv_cq_ex *cq = ep->extended;
    uint64_t id = cq->wr_id;
    unsigned handle;

    if (__builtin_expect(!(id & EFA_BARE) || cq->status, 0))
        return false;
    done->context = efa_bare_context(id);
    if (!(id & EFA_BARE_RECV)) {
        ep->sends--;
        return true;
    }
    handle = ibv_wc_read_slid(cq);
    if (__builtin_expect(handle == EFA_NO_HANDLE || (ep->is_written && efa_cq_is_of_write(ep)), 0))
        return false;
    done->src = efa_source(ep, handle, ibv_wc_read_src_qp(cq));
    if (__builtin_expect(done->src == FI_ADDR_NOTAVAIL, 0))
        return false;
    done->len = ibv_wc_read_byte_len(cq);
    ep->receives--;
    return true;
}

/* In place of efa_cq_poll_usual. All are read before any ends, since ends post. */
static void poll(struct progress_source *source)
{
    struct efa_ep *ep = object_of(source, struct efa_ep, source);
    const struct binding *binding = &ep->base.binding;
    struct ibv_poll_cq_attr attr = {.comp_mask = 0};
    struct efa_burst *burst = ep->burst;
    size_t count = 0;

    if (__builtin_expect(binding->cntr[BIND_SEND] || binding->cntr[BIND_RECV], 0)) {
        efa_cq_poll_usual(source);
        return;
    }
    if (ibv_start_poll(ep->extended, &attr)) {
        efa_cq_poll_idle(ep);
        return;
    }
    do {
        if (__builtin_expect(!read_bare(ep, &burst->done[count]), 0)) {
            efa_cq_poll_behind(ep, count);
            return;
        }
        count++;
    } while (count < EFA_CHAIN && !ibv_next_poll(ep->extended));
    ibv_end_poll(ep->extended);
    burst->sink->take(burst->sink, burst->done, count);
}

/* ---- Its endpoint ---- */

/* The layer's queue, if it hears of all messages; else NULL. */
static struct cq_sink *sink_of(const struct efa_ep *ep)
{
    const struct binding *binding = &ep->base.binding;

    if (!binding->tx || binding->tx != binding->rx || binding->rx_selective)
        return NULL;
    return cq_sink_of(binding->tx);
}

void efa_burst_enable(struct efa_ep *ep)
{
    struct cq_sink *sink = sink_of(ep);
    struct efa_burst *burst;

    if (!sink || !ep->extended || ep->prefix || ep->base.binding.progress->locked)
        return;
    burst = calloc(1, sizeof(*burst));
    if (!burst)
        return;
    for (size_t i = 0; i < EFA_CHAIN; i++) {
        burst->wrs[i].next = i + 1 < EFA_CHAIN ? &burst->wrs[i + 1] : NULL;
        burst->wrs[i].sg_list = &burst->sges[i];
        burst->wrs[i].num_sge = 1;
    }
    burst->sink = sink;
    ep->burst = burst;
    ep->is_written = efa_device_accesses(ep->domain->device);
    ep->usual = poll;
    ep->base.base.send = burst_send;
    ep->base.base.receive = burst_receive;
}
