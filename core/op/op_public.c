/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way out: an op as a call of the public API, for endpoints that are not ours. A call whose
 * flags are as the application made it becomes the same call again, with the same arguments; one
 * whose flags a layer has made final becomes the *msg call of its group. Injects stay injects.
 */
#include <rdma/fi_errno.h>

#include "core/op/op.h"

static void *first_desc(void **desc, size_t count)
{
    return desc && count ? desc[0] : NULL;
}

static void *first_buf(const struct op_operand *operand)
{
    return operand->count ? operand->ioc->addr : NULL;
}

/* The API takes result segments as something that it may change. */
static struct fi_ioc *segments(const struct op_operand *operand)
{
    return (struct fi_ioc *)(uintptr_t)operand->ioc;
}

/* ---- Messages ---- */

static ssize_t post_msg(struct fid_ep *ep, const struct op *op)
{
    const struct fi_msg msg = {.msg_iov = op->iov,
                               .desc = op->desc,
                               .iov_count = op->count,
                               .addr = op->peer,
                               .context = op->context,
                               .data = op->data};

    return op->group == OP_GROUP_RECV ? ep->msg->recvmsg(ep, &msg, op->flags)
                                      : ep->msg->sendmsg(ep, &msg, op->flags);
}

static ssize_t call_msg(struct fid_ep *ep, const struct op *op)
{
    struct fi_ops_msg *ops = ep->msg;
    void *buf = op_buf(op), *desc = first_desc(op->desc, op->count);

    switch (op->call) {
    case OP_RECV: return ops->recv(ep, buf, op->len, desc, op->peer, op->context);
    case OP_RECVV: return ops->recvv(ep, op->iov, op->desc, op->count, op->peer, op->context);
    case OP_SEND: return ops->send(ep, buf, op->len, desc, op->peer, op->context);
    case OP_SENDV: return ops->sendv(ep, op->iov, op->desc, op->count, op->peer, op->context);
    case OP_SENDDATA: return ops->senddata(ep, buf, op->len, desc, op->data, op->peer, op->context);
    case OP_INJECT: return ops->inject(ep, buf, op->len, op->peer);
    case OP_INJECTDATA: return ops->injectdata(ep, buf, op->len, op->data, op->peer);
    default: return post_msg(ep, op);
    }
}

static ssize_t post_tagged(struct fid_ep *ep, const struct op *op)
{
    const struct fi_msg_tagged msg = {.msg_iov = op->iov,
                                      .desc = op->desc,
                                      .iov_count = op->count,
                                      .addr = op->peer,
                                      .tag = op->tag,
                                      .ignore = op->ignore,
                                      .context = op->context,
                                      .data = op->data};

    return op->group == OP_GROUP_TRECV ? ep->tagged->recvmsg(ep, &msg, op->flags)
                                       : ep->tagged->sendmsg(ep, &msg, op->flags);
}

static ssize_t call_tagged(struct fid_ep *ep, const struct op *op)
{
    struct fi_ops_tagged *ops = ep->tagged;
    void *buf = op_buf(op), *desc = first_desc(op->desc, op->count);

    switch (op->call) {
    case OP_TRECV:
        return ops->recv(ep, buf, op->len, desc, op->peer, op->tag, op->ignore, op->context);
    case OP_TRECVV:
        return ops->recvv(ep, op->iov, op->desc, op->count, op->peer, op->tag, op->ignore,
                          op->context);
    case OP_TSEND: return ops->send(ep, buf, op->len, desc, op->peer, op->tag, op->context);
    case OP_TSENDV:
        return ops->sendv(ep, op->iov, op->desc, op->count, op->peer, op->tag, op->context);
    case OP_TSENDDATA:
        return ops->senddata(ep, buf, op->len, desc, op->data, op->peer, op->tag, op->context);
    case OP_TINJECT: return ops->inject(ep, buf, op->len, op->peer, op->tag);
    case OP_TINJECTDATA: return ops->injectdata(ep, buf, op->len, op->data, op->peer, op->tag);
    default: return post_tagged(ep, op);
    }
}

/* ---- RMA ---- */

static ssize_t post_rma(struct fid_ep *ep, const struct op *op)
{
    const struct fi_msg_rma msg = {.msg_iov = op->iov,
                                   .desc = op->desc,
                                   .iov_count = op->count,
                                   .addr = op->peer,
                                   .rma_iov = op->rma,
                                   .rma_iov_count = op->rma_count,
                                   .context = op->context,
                                   .data = op->data};

    return op->kind & FI_READ ? ep->rma->readmsg(ep, &msg, op->flags)
                              : ep->rma->writemsg(ep, &msg, op->flags);
}

static ssize_t call_rma(struct fid_ep *ep, const struct op *op)
{
    struct fi_ops_rma *ops = ep->rma;
    void *buf = op_buf(op), *desc = first_desc(op->desc, op->count);
    uint64_t addr = op->rma_count ? op->rma->addr : 0, key = op->rma_count ? op->rma->key : 0;

    switch (op->call) {
    case OP_READ: return ops->read(ep, buf, op->len, desc, op->peer, addr, key, op->context);
    case OP_READV:
        return ops->readv(ep, op->iov, op->desc, op->count, op->peer, addr, key, op->context);
    case OP_WRITE: return ops->write(ep, buf, op->len, desc, op->peer, addr, key, op->context);
    case OP_WRITEV:
        return ops->writev(ep, op->iov, op->desc, op->count, op->peer, addr, key, op->context);
    case OP_WRITEDATA:
        return ops->writedata(ep, buf, op->len, desc, op->data, op->peer, addr, key, op->context);
    case OP_INJECT_WRITE: return ops->inject(ep, buf, op->len, op->peer, addr, key);
    case OP_INJECT_WRITEDATA:
        return ops->injectdata(ep, buf, op->len, op->data, op->peer, addr, key);
    default: return post_rma(ep, op);
    }
}

/* ---- Atomics ---- */

static ssize_t post_atomic(struct fid_ep *ep, const struct op *op)
{
    const struct fi_msg_atomic msg = {.msg_iov = op->ioc,
                                      .desc = op->desc,
                                      .iov_count = op->count,
                                      .addr = op->peer,
                                      .rma_iov = op->rma_ioc,
                                      .rma_iov_count = op->rma_count,
                                      .datatype = op->datatype,
                                      .op = op->op,
                                      .context = op->context,
                                      .data = op->data};
    const struct op_operand *compare = &op->compare, *result = &op->result;

    switch (op->function) {
    case FI_FETCH_ATOMIC:
        return ep->atomic->readwritemsg(ep, &msg, segments(result), result->desc, result->count,
                                        op->flags);
    case FI_COMPARE_ATOMIC:
        return ep->atomic->compwritemsg(ep, &msg, compare->ioc, compare->desc, compare->count,
                                        segments(result), result->desc, result->count, op->flags);
    default: return ep->atomic->writemsg(ep, &msg, op->flags);
    }
}

static ssize_t call_atomic(struct fid_ep *ep, const struct op *op)
{
    struct fi_ops_atomic *ops = ep->atomic;
    const struct op_operand *compare = &op->compare, *result = &op->result;
    void *buf = op_buf(op), *desc = first_desc(op->desc, op->count), *out = first_buf(result);
    uint64_t addr = op->rma_count ? op->rma_ioc->addr : 0;
    uint64_t key = op->rma_count ? op->rma_ioc->key : 0;

    switch (op->call) {
    case OP_ATOMIC:
        return ops->write(ep, buf, op->len, desc, op->peer, addr, key, op->datatype, op->op,
                          op->context);
    case OP_ATOMICV:
        return ops->writev(ep, op->ioc, op->desc, op->count, op->peer, addr, key, op->datatype,
                           op->op, op->context);
    case OP_INJECT_ATOMIC:
        return ops->inject(ep, buf, op->len, op->peer, addr, key, op->datatype, op->op);
    case OP_FETCH_ATOMIC:
        return ops->readwrite(ep, buf, op->len, desc, out, first_desc(result->desc, result->count),
                              op->peer, addr, key, op->datatype, op->op, op->context);
    case OP_FETCH_ATOMICV:
        return ops->readwritev(ep, op->ioc, op->desc, op->count, segments(result), result->desc,
                               result->count, op->peer, addr, key, op->datatype, op->op,
                               op->context);
    case OP_COMPARE_ATOMIC:
        return ops->compwrite(ep, buf, op->len, desc, first_buf(compare),
                              first_desc(compare->desc, compare->count), out,
                              first_desc(result->desc, result->count), op->peer, addr, key,
                              op->datatype, op->op, op->context);
    case OP_COMPARE_ATOMICV:
        return ops->compwritev(ep, op->ioc, op->desc, op->count, compare->ioc, compare->desc,
                               compare->count, segments(result), result->desc, result->count,
                               op->peer, addr, key, op->datatype, op->op, op->context);
    default: return post_atomic(ep, op);
    }
}

/* ---- Collectives ---- */

static ssize_t call_collective_msg(struct fid_ep *ep, const struct op *op)
{
    const struct fi_msg_collective msg = {.msg_iov = op->ioc,
                                          .desc = op->desc,
                                          .iov_count = op->count,
                                          .coll_addr = op->peer,
                                          .root_addr = op->root,
                                          .coll = op->collective,
                                          .datatype = op->datatype,
                                          .op = op->op,
                                          .context = op->context};

    return ep->collective->msg(ep, &msg, segments(&op->result), op->result.desc, op->result.count,
                               op->flags);
}

/* Their flags are always the call's own, but for fi_barrier, which takes none. */
static ssize_t call_collective(struct fid_ep *ep, const struct op *op)
{
    struct fi_ops_collective *ops = ep->collective;
    void *buf = op_buf(op), *desc = first_desc(op->desc, op->count);
    void *out = first_buf(&op->result), *out_desc = first_desc(op->result.desc, op->result.count);
    enum fi_datatype type = op->datatype;
    uint64_t flags = op->flags;

    switch (op->call) {
    case OP_BARRIER:
        return op->defaults ? ops->barrier(ep, op->peer, op->context)
                            : fi_barrier2(ep, op->peer, flags, op->context);
    case OP_BARRIER2: return fi_barrier2(ep, op->peer, flags, op->context);
    case OP_BROADCAST:
        return ops->broadcast(ep, buf, op->len, desc, op->peer, op->root, type, flags, op->context);
    case OP_ALLTOALL:
        return ops->alltoall(ep, buf, op->len, desc, out, out_desc, op->peer, type, flags,
                             op->context);
    case OP_ALLREDUCE:
        return ops->allreduce(ep, buf, op->len, desc, out, out_desc, op->peer, type, op->op, flags,
                              op->context);
    case OP_ALLGATHER:
        return ops->allgather(ep, buf, op->len, desc, out, out_desc, op->peer, type, flags,
                              op->context);
    case OP_REDUCE_SCATTER:
        return ops->reduce_scatter(ep, buf, op->len, desc, out, out_desc, op->peer, type, op->op,
                                   flags, op->context);
    case OP_REDUCE:
        return ops->reduce(ep, buf, op->len, desc, out, out_desc, op->peer, op->root, type, op->op,
                           flags, op->context);
    case OP_SCATTER:
        return ops->scatter(ep, buf, op->len, desc, out, out_desc, op->peer, op->root, type, flags,
                            op->context);
    case OP_GATHER:
        return ops->gather(ep, buf, op->len, desc, out, out_desc, op->peer, op->root, type, flags,
                           op->context);
    default: return call_collective_msg(ep, op);
    }
}

/* ---- All ---- */

ssize_t op_call_public(struct fid_ep *ep, const struct op *op)
{
    bool as_called = op->defaults || op_is_inject(op);

    switch (op->group) {
    case OP_GROUP_RECV:
    case OP_GROUP_SEND:
        if (!ep->msg)
            return -FI_ENOSYS;
        return as_called ? call_msg(ep, op) : post_msg(ep, op);
    case OP_GROUP_TRECV:
    case OP_GROUP_TSEND:
        if (!ep->tagged)
            return -FI_ENOSYS;
        return as_called ? call_tagged(ep, op) : post_tagged(ep, op);
    case OP_GROUP_RMA:
        if (!ep->rma)
            return -FI_ENOSYS;
        return as_called ? call_rma(ep, op) : post_rma(ep, op);
    case OP_GROUP_ATOMIC:
        if (!ep->atomic)
            return -FI_ENOSYS;
        return as_called ? call_atomic(ep, op) : post_atomic(ep, op);
    default: return ep->collective ? call_collective(ep, op) : -FI_ENOSYS;
    }
}
