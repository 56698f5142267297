/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_send and fi_recv of an endpoint that is enabled, past struct op: a message of one buffer with
 * bytes in it. Where anything is special they have done nothing, and efa_post.c does it, which
 * knows everything else.
 */
#include "core/base/table.h"
#include "transports/efa/efa.h"

#define QUICK static inline __attribute__((always_inline))

/* Default flags that ask for nothing but what every transmission has. */
static const uint64_t plain_flags = FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;

static struct efa_ep *ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct efa_ep, fid);
}

QUICK struct efa_wr *wr_get(struct efa_ep *ep, void *context, const void *buf, uint64_t kind,
                            bool wanted)
{
    struct efa_wr *wr = pool_get(&ep->wrs);

    if (__builtin_expect(wr != NULL, 1))
        *wr = (struct efa_wr){.context = context,
                              .buf = (void *)(uintptr_t)buf,
                              .kind = kind,
                              .left = 1,
                              .slot = -1,
                              .wanted = wanted};
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
    struct efa_route route;
    struct efa_wr *wr;

    if (!efa_av_route(ep->base.av, dest, &route))
        return false;
    wr = wr_get(ep, context, buf, FI_MSG | FI_SEND, true);
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
    ibv_wr_set_ud_addr(ex, route.ah, route.qpn, route.qkey);
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

QUICK bool post_receive(struct efa_ep *ep, void *buf, size_t len, const struct efa_mr *mr,
                        void *context)
{
    struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = (uint32_t)len, .lkey = mr->lkey};
    struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad;
    struct efa_wr *wr =
        wr_get(ep, context, buf, FI_MSG | FI_RECV,
               completion_wanted(ep->base.binding.rx_selective, ep->base.rx_op_flags));

    if (!wr)
        return false;
    receive.wr_id = (uintptr_t)wr;
    if (__builtin_expect(ibv_post_recv(ep->qp, &receive, &bad), 0)) {
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
    done = __builtin_expect(len && len <= UINT32_MAX && desc && !efa_chain_waits(ep) &&
                                ep->receives < ep->base.rx_size,
                            1) &&
           post_receive(ep, buf, len, desc, context);

    progress_leave_post(root);
    return __builtin_expect(done, 1) ? 0 : ep_msg_ops.recv(fid, buf, len, desc, src, context);
}

static struct fi_ops_msg msg_ops = {
    .size = sizeof(msg_ops), .send = quick_send, .recv = quick_recv};

/* Datagrams have a prefix. */
void efa_quick_enable(struct efa_ep *ep)
{
    const struct binding *binding = &ep->base.binding;
    bool plain = !(ep->base.tx_op_flags & ~plain_flags) &&
                 completion_wanted(binding->tx_selective, ep->base.tx_op_flags);

    ep->quick_flags = plain ? ep->base.tx_op_flags : UINT64_MAX;
    if (!ep->prefix)
        ep->fid.msg = table_inherit(&msg_ops, &ep_msg_ops);
}
