/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations become requests of the device: one each, but for accesses from more segments than a
 * read or write of the device has, which are one for each segment.
 */
#include <errno.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "transports/efa/efa.h"

static bool is_host_memory(const struct op *op)
{
    for (size_t i = 0; i < op->count && op->desc; i++) {
        const struct efa_mr *mr = op->desc[i];

        if (mr && mr->is_device_memory)
            return false;
    }
    return true;
}

/* Local memory is registered, unless all of it goes inline, which the CPU has to read. `skip` bytes
 * in front are the prefix of a datagram. */
static int set_pieces(const struct op *op, size_t skip, size_t inline_max,
                      struct efa_pieces *pieces)
{
    if (op->len < skip || (skip && op->iov[0].iov_len < skip))
        return -FI_EINVAL;
    pieces->count = 0;
    pieces->len = op->len - skip;
    pieces->is_inline = pieces->len <= inline_max && is_host_memory(op);
    if (op->flags & FI_INJECT && !pieces->is_inline)
        return -FI_EOPNOTSUPP;
    if (__builtin_expect(op->count == 1 && op->len && !skip && op->desc && op->desc[0], 1)) {
        const struct efa_mr *mr = op->desc[0];

        pieces->count = 1;
        pieces->sges[0] = (struct ibv_sge){
            .addr = (uintptr_t)op->iov[0].iov_base, .length = (uint32_t)op->len, .lkey = mr->lkey};
        return 0;
    }
    for (size_t i = 0; i < op->count; i++) {
        size_t cut = i ? 0 : skip, len = op->iov[i].iov_len - cut;
        const struct efa_mr *mr = op->desc ? op->desc[i] : NULL;

        if (!len)
            continue;
        if (!mr && !pieces->is_inline)
            return -FI_EINVAL;
        pieces->sges[pieces->count++] =
            (struct ibv_sge){.addr = (uintptr_t)op->iov[i].iov_base + cut,
                             .length = (uint32_t)len,
                             .lkey = mr ? mr->lkey : 0};
    }
    return 0;
}

static struct efa_wr *wr_get(struct efa_ep *ep, const struct op *op)
{
    struct efa_wr *wr = pool_get(&ep->wrs);

    if (!wr)
        return NULL;
    *wr = (struct efa_wr){.context = op->context, .kind = op->kind, .state = EFA_WR_PLAIN};
    wr->buf = op->count ? op->iov[0].iov_base : NULL;
    if (!(op->kind & FI_RECV))
        wr->state.wanted =
            !op_is_inject(op) && completion_wanted(ep->base.binding.tx_selective, op->flags);
    return wr;
}

/* The device has refused it: nothing of it was posted. */
static ssize_t give_back(struct efa_ep *ep, struct efa_wr *wr, int rc)
{
    efa_inject_give(&ep->inject, wr->state.slot);
    pool_put(&ep->wrs, wr);
    return rc == ENOMEM ? -FI_EAGAIN : verbs_error(rc);
}

/* ---- Messages ---- */

static ssize_t start_send(struct efa_ep *ep, const struct op *op)
{
    struct efa_request request;
    int rc;

    if (op->len > (op->flags & FI_INJECT ? ep->inline_max : ep->max) + ep->prefix)
        return -FI_EMSGSIZE;
    rc = set_pieces(op, ep->prefix, ep->inline_max, &request.pieces);
    if (rc)
        return rc;
    rc = efa_route(ep, op->peer);
    if (rc)
        return rc;
    if (ep->sends == ep->base.tx_size)
        return -FI_EAGAIN;
    request.wr = wr_get(ep, op);
    if (!request.wr)
        return -FI_ENOMEM;
    request.route = ep->route;
    request.opcode = op->flags & FI_REMOTE_CQ_DATA ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
    request.data = (uint32_t)op->data;
    ep->sends++;
    rc = efa_chain_post(ep, &request, 1, op->flags & FI_MORE);
    if (!rc)
        return 0;
    ep->sends--;
    return give_back(ep, request.wr, rc);
}

static ssize_t start_receive(struct efa_ep *ep, const struct op *op)
{
    struct efa_pieces pieces;
    struct ibv_recv_wr receive = {.sg_list = pieces.sges};
    struct efa_wr *wr;
    int rc = set_pieces(op, 0, 0, &pieces);

    if (rc)
        return rc;
    if (ep->receives == ep->base.rx_size)
        return -FI_EAGAIN;
    wr = wr_get(ep, op);
    if (!wr)
        return -FI_ENOMEM;
    wr->state.wanted =
        completion_wanted(ep->base.binding.rx_selective, op_final_flags(op, ep->base.rx_op_flags));
    receive.wr_id = (uintptr_t)wr;
    receive.num_sge = (int)pieces.count;
    ep->receives++;
    rc = efa_chain_receive(ep, &receive, op->flags & FI_MORE);
    if (!rc)
        return 0;
    ep->receives--;
    return give_back(ep, wr, rc);
}

/* ---- Accesses ---- */

static enum ibv_wr_opcode access_opcode(const struct op *op)
{
    if (op->kind & FI_READ)
        return IBV_WR_RDMA_READ;
    return op->flags & FI_REMOTE_CQ_DATA ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
}

/* An injected write's bytes are copied; nothing is read or written from memory of our own. */
static int own_memory(struct efa_ep *ep, const struct op *op, struct efa_wr *wr,
                      struct efa_pieces *pieces)
{
    char *to;

    wr->state.slot = efa_inject_take(&ep->inject);
    if (wr->state.slot < 0)
        return -FI_EAGAIN;
    to = efa_inject_at(&ep->inject, wr->state.slot);
    pieces->sges[0] = (struct ibv_sge){
        .addr = (uintptr_t)to, .length = (uint32_t)pieces->len, .lkey = ep->inject.mr->lkey};
    pieces->count = 1;
    for (size_t i = 0; i < op->count && pieces->len; i++) {
        memcpy(to, op->iov[i].iov_base, op->iov[i].iov_len);
        to += op->iov[i].iov_len;
    }
    return 0;
}

static int check_access(const struct efa_ep *ep, const struct op *op)
{
    if (op->rma_count != 1 || op->rma->len != op->len)
        return -FI_EINVAL;
    return op->len > (op->flags & FI_INJECT ? ep->inline_max : ep->max_rma) ? -FI_EMSGSIZE : 0;
}

static int check_pieces(const struct efa_ep *ep, const struct op *op,
                        const struct efa_pieces *pieces, bool copied)
{
    /* Its data would be there before all of its bytes are. */
    if (op->flags & FI_REMOTE_CQ_DATA && pieces->count > 1 && !copied)
        return -FI_EOPNOTSUPP;
    return ep->sends + (copied ? 1 : pieces->count) > ep->base.tx_size ? -FI_EAGAIN : 0;
}

/* A request of each segment. */
static int post_pieces(struct efa_ep *ep, const struct op *op, struct efa_wr *wr,
                       const struct efa_pieces *pieces)
{
    struct efa_request requests[EFA_SEGMENTS];
    uint64_t addr = op->rma->addr;

    wr->state.left = (uint16_t)pieces->count;
    for (size_t i = 0; i < pieces->count; i++) {
        requests[i] = (struct efa_request){.wr = wr,
                                           .route = ep->route,
                                           .opcode = access_opcode(op),
                                           .data = (uint32_t)op->data,
                                           .key = (uint32_t)op->rma->key,
                                           .addr = addr,
                                           .pieces = {.count = 1, .sges = {pieces->sges[i]}}};
        addr += pieces->sges[i].length;
    }
    return efa_chain_post(ep, requests, pieces->count, op->flags & FI_MORE);
}

static ssize_t start_access(struct efa_ep *ep, const struct op *op)
{
    bool copied = op->flags & FI_INJECT || !op->len;
    struct efa_pieces pieces;
    struct efa_wr *wr;
    int rc = check_access(ep, op);

    if (!rc)
        rc = set_pieces(op, 0, op->flags & FI_INJECT ? ep->inline_max : 0, &pieces);
    if (!rc)
        rc = check_pieces(ep, op, &pieces, copied);
    if (!rc)
        rc = efa_route(ep, op->peer);
    if (rc)
        return rc;
    wr = wr_get(ep, op);
    if (!wr)
        return -FI_ENOMEM;
    rc = copied ? own_memory(ep, op, wr, &pieces) : 0;
    if (rc) {
        pool_put(&ep->wrs, wr);
        return rc;
    }
    ep->sends += pieces.count;
    rc = post_pieces(ep, op, wr, &pieces);
    if (!rc)
        return 0;
    ep->sends -= pieces.count;
    return give_back(ep, wr, rc);
}

/* ---- The entry ---- */

static ssize_t check(const struct efa_ep *ep, const struct op *op)
{
    if (!ep->base.enabled || progress_forked(ep->progress))
        return -FI_EOPBADSTATE;
    return op->count > EFA_SEGMENTS ? -FI_EINVAL : 0;
}

ssize_t efa_post(struct ep *base, struct op *op)
{
    struct efa_ep *ep = object_of(base, struct efa_ep, base);
    ssize_t rc = op->group == OP_GROUP_RECV ? 0 : endpoint_settle(&ep->base, op);

    if (!rc)
        rc = check(ep, op);
    if (rc)
        return rc;
    progress_lock(ep->progress);
    switch (op->group) {
    case OP_GROUP_SEND: rc = start_send(ep, op); break;
    case OP_GROUP_RECV: rc = start_receive(ep, op); break;
    default: rc = start_access(ep, op); break;
    }
    progress_unlock(ep->progress);
    return rc;
}
