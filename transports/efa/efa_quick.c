/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_send and fi_recv of an endpoint that is enabled, past struct op: a message of one buffer with
 * bytes in it; and fi_cq_read of the contexts of such messages. Where anything is special they have
 * done nothing, and efa_post.c and efa_cq.c do it, which know everything else.
 */
#include "core/base/table.h"
#include "core/domain/domain.h"
#include "transports/efa/efa.h"

#define QUICK static inline __attribute__((always_inline))

/* Default flags that ask for nothing but what every transmission has. */
static const uint64_t plain_flags = FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;

static struct efa_ep *ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct efa_ep, fid);
}

/* An operation with nothing special. */
QUICK struct efa_wr *wr_get(struct efa_ep *ep, void *context, const void *buf, uint64_t kind)
{
    struct efa_wr *wr = pool_get(&ep->wrs);

    if (__builtin_expect(!wr, 0))
        return NULL;
    wr->context = context;
    wr->buf = (void *)(uintptr_t)buf;
    wr->kind = kind;
    wr->state.all = EFA_WR_PLAIN.all;
    return wr;
}

/* ---- Sends ---- */

QUICK bool may_send(const struct efa_ep *ep, size_t len, const struct efa_mr *mr)
{
    return __builtin_expect(
        ep->base.tx_op_flags == ep->quick_flags && len &&
            (len <= ep->inline_max ? !mr || !mr->is_device_memory : mr && len <= ep->max) &&
            !efa_chain_waits(ep) && ep->sends < ep->base.tx_size,
        1);
}

/* False: the device refuses it now, or there is no memory, or no such address. */
QUICK bool post_send(struct efa_ep *ep, const void *buf, size_t len, const struct efa_mr *mr,
                     fi_addr_t dest, void *context)
{
    struct ibv_qp_ex *ex = ep->ex;
    struct efa_wr *wr;

    if (__builtin_expect(efa_route(ep, dest), 0))
        return false;
    wr = wr_get(ep, context, buf, FI_MSG | FI_SEND);
    if (!wr)
        return false;
    ibv_wr_start(ex);
    ex->wr_id = (uintptr_t)wr;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    if (len <= ep->inline_max)
        ibv_wr_set_inline_data(ex, (void *)(uintptr_t)buf, len);
    else
        ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buf, (uint32_t)len);
    ibv_wr_set_ud_addr(ex, ep->route.ah, ep->route.qpn, ep->route.qkey);
    if (__builtin_expect(ibv_wr_complete(ex), 0)) {
        pool_put(&ep->wrs, wr);
        return false;
    }
    ep->sends++;
    return true;
}

static ssize_t quick_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                          fi_addr_t dest, void *context)
{
    struct efa_ep *ep = ep_of(fid);
    struct progress *root;
    bool done;

    if (progress_forked(ep->progress))
        return -FI_EOPBADSTATE;
    root = progress_enter_post(ep->progress);
    done = may_send(ep, len, desc) && post_send(ep, buf, len, desc, dest, context);
    progress_leave_post(root);
    return __builtin_expect(done, 1) ? 0 : ep_msg_ops.send(fid, buf, len, desc, dest, context);
}

/* ---- Receives ---- */

QUICK bool may_receive(const struct efa_ep *ep, size_t len, const struct efa_mr *mr)
{
    return __builtin_expect(ep->base.rx_op_flags == ep->quick_rx_flags && len - 1 < UINT32_MAX &&
                                mr && !efa_chain_waits(ep) && ep->receives < ep->base.rx_size,
                            1);
}

QUICK bool post_receive(struct efa_ep *ep, void *buf, size_t len, const struct efa_mr *mr,
                        void *context)
{
    struct efa_wr *wr = wr_get(ep, context, buf, FI_MSG | FI_RECV);
    struct ibv_recv_wr *bad;

    if (!wr)
        return false;
    ep->quick_recv.wr_id = (uintptr_t)wr;
    ep->quick_sge.addr = (uintptr_t)buf;
    ep->quick_sge.length = (uint32_t)len;
    ep->quick_sge.lkey = mr->lkey;
    if (__builtin_expect(ibv_post_recv(ep->qp, &ep->quick_recv, &bad), 0)) {
        pool_put(&ep->wrs, wr);
        return false;
    }
    ep->receives++;
    return true;
}

static ssize_t quick_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                          void *context)
{
    struct efa_ep *ep = ep_of(fid);
    struct progress *root;
    bool done;

    if (progress_forked(ep->progress))
        return -FI_EOPBADSTATE;
    root = progress_enter_post(ep->progress);
    done = may_receive(ep, len, desc) && post_receive(ep, buf, len, desc, context);
    progress_leave_post(root);
    return __builtin_expect(done, 1) ? 0 : ep_msg_ops.recv(fid, buf, len, desc, src, context);
}

static struct fi_ops_msg msg_ops = {
    .size = sizeof(msg_ops), .send = quick_send, .recv = quick_recv};

/* Datagrams have a prefix. */
void efa_quick_enable(struct efa_ep *ep)
{
    const struct binding *binding = &ep->base.binding;
    bool is_told = completion_wanted(binding->rx_selective, ep->base.rx_op_flags);
    bool plain = !(ep->base.tx_op_flags & ~plain_flags) &&
                 completion_wanted(binding->tx_selective, ep->base.tx_op_flags);

    ep->quick_flags = plain ? ep->base.tx_op_flags : UINT64_MAX;
    ep->quick_rx_flags = is_told ? ep->base.rx_op_flags : UINT64_MAX;
    ep->quick_recv = (struct ibv_recv_wr){.sg_list = &ep->quick_sge, .num_sge = 1};
    if (!ep->prefix)
        ep->fid.msg = table_inherit(&msg_ops, &ep_msg_ops);
}

/* ---- Reads ---- */

/* The endpoint whose device's queue alone feeds a progress domain, if nothing but that is to be
 * looked at; else NULL. */
QUICK struct efa_ep *sole_endpoint(const struct progress *root)
{
    struct progress_source *source = root->sole;

    if (__builtin_expect(!source || source->poll != efa_cq_poll_usual || root->driving, 0))
        return NULL;
    return object_of(source, struct efa_ep, source);
}

/* A message sent or received, with nothing special, and that reader has its completions. */
QUICK bool is_plain(const struct efa_ep *ep, const struct cq *reader, const struct efa_wr *wr)
{
    const struct binding *binding = &ep->base.binding;

    if (__builtin_expect(wr->state.all != EFA_WR_PLAIN.all, 0))
        return false;
    if (wr->kind == (FI_MSG | FI_RECV))
        return binding->rx == reader && !binding->cntr[BIND_RECV];
    return wr->kind == (FI_MSG | FI_SEND) && binding->tx == reader && !binding->cntr[BIND_SEND];
}

/* Gives its context to the reader. */
QUICK void take(struct efa_ep *ep, struct efa_wr *wr, char *buf)
{
    memcpy(buf, &wr->context, sizeof(wr->context));
    if (wr->kind & FI_RECV)
        ep->receives--;
    else
        ep->sends--;
    pool_put(&ep->wrs, wr);
}

/* The entry that the device shows is such a message's: where receives may be of writes, its code
 * tells. */
QUICK struct efa_wr *plain_entry(const struct efa_ep *ep, const struct cq *reader)
{
    struct ibv_cq_ex *cq = ep->extended;
    struct efa_wr *wr = (struct efa_wr *)(uintptr_t)cq->wr_id;

    if (__builtin_expect(cq->status || (ep->max_rma && efa_cq_is_of_write(ep)), 0))
        return NULL;
    return __builtin_expect(is_plain(ep, reader, wr), 1) ? wr : NULL;
}

/* The device shows an entry that is special. `got` have gone to the reader before. */
__attribute__((noinline)) static ssize_t read_rest(struct efa_ep *ep, struct cq *reader,
                                                   struct progress *root, char *buf, size_t count,
                                                   size_t got)
{
    cq_direct(reader, buf + got * sizeof(struct fi_cq_entry), count - got);
    root->driving = true;
    efa_cq_poll_started(ep);
    root->driving = false;
    return cq_read_end(reader, root, got + cq_direct_end(reader));
}

/* The device had nothing. */
__attribute__((noinline)) static ssize_t read_none(struct efa_ep *ep, struct cq *reader,
                                                   struct progress *root)
{
    efa_cq_poll_idle(ep);
    return cq_read_end(reader, root, 0);
}

/* Of a queue with FI_CQ_FORMAT_CONTEXT: entries go to the reader as the device shows them, up to
 * one that is special. */
static ssize_t quick_read(struct fid_cq *fid, void *buf, size_t count)
{
    struct cq *reader = object_of(fid, struct cq, fid);
    struct ibv_poll_cq_attr attr = {.comp_mask = 0};
    struct progress *root;
    struct efa_ep *ep;
    size_t got = 0;

    if (progress_forked(reader->progress))
        return -FI_EOPBADSTATE;
    root = progress_enter(reader->progress);
    ep = sole_endpoint(root);
    if (__builtin_expect(!ep || !cq_is_empty(reader) || !count, 0))
        return cq_read_entered(reader, root, buf, count);
    progress_note_reader(root);
    if (ibv_start_poll(ep->extended, &attr))
        return read_none(ep, reader, root);
    do {
        struct efa_wr *wr = plain_entry(ep, reader);

        if (__builtin_expect(!wr, 0))
            return read_rest(ep, reader, root, buf, count, got);
        take(ep, wr, (char *)buf + got++ * sizeof(struct fi_cq_entry));
    } while (got < count && !ibv_next_poll(ep->extended));
    ibv_end_poll(ep->extended);
    if (__builtin_expect(!(++reader->full % PROGRESS_FULL), 0)) {
        reader->full--; /* which counts it */
        return cq_read_end(reader, root, got);
    }
    progress_leave(root);
    return (ssize_t)got;
}

static struct fi_ops_cq cq_read_ops = {.size = sizeof(cq_read_ops), .read = quick_read};

int efa_quick_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                      void *context)
{
    return domain_cq_open_read(domain, attr, cq, context, &cq_read_ops);
}
