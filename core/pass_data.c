/* SPDX-License-Identifier: BSD-2-Clause */
/* Data transfers: each operation is the lower's. */
#include "core/pass.h"

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                        void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->msg->recv(lower, buf, len, desc, src_addr, context);
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src_addr, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->msg->recvv(lower, iov, desc, count, src_addr, context);
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->msg->recvmsg(lower, msg, flags);
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                        fi_addr_t dest_addr, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->msg->send(lower, buf, len, desc, dest_addr, context);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest_addr, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->msg->sendv(lower, iov, desc, count, dest_addr, context);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->msg->sendmsg(lower, msg, flags);
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->msg->inject(lower, buf, len, dest_addr);
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                            uint64_t data, fi_addr_t dest_addr, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->msg->senddata(lower, buf, len, desc, data, dest_addr, context);
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest_addr)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->msg->injectdata(lower, buf, len, data, dest_addr);
}

struct fi_ops_msg pass_msg_ops = {
    .size = sizeof(pass_msg_ops),
    .recv = msg_recv,
    .recvv = msg_recvv,
    .recvmsg = msg_recvmsg,
    .send = msg_send,
    .sendv = msg_sendv,
    .sendmsg = msg_sendmsg,
    .inject = msg_inject,
    .senddata = msg_senddata,
    .injectdata = msg_injectdata,
};

static ssize_t tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                           uint64_t tag, uint64_t ignore, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->tagged->recv(lower, buf, len, desc, src_addr, tag, ignore, context);
}

static ssize_t tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->tagged->recvv(lower, iov, desc, count, src_addr, tag, ignore, context);
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->tagged->recvmsg(lower, msg, flags);
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                           fi_addr_t dest_addr, uint64_t tag, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->tagged->send(lower, buf, len, desc, dest_addr, tag, context);
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest_addr, uint64_t tag, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->tagged->sendv(lower, iov, desc, count, dest_addr, tag, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->tagged->sendmsg(lower, msg, flags);
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
                             uint64_t tag)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->tagged->inject(lower, buf, len, dest_addr, tag);
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                               uint64_t data, fi_addr_t dest_addr, uint64_t tag, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->tagged->senddata(lower, buf, len, desc, data, dest_addr, tag, context);
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest_addr, uint64_t tag)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->tagged->injectdata(lower, buf, len, data, dest_addr, tag);
}

struct fi_ops_tagged pass_tagged_ops = {
    .size = sizeof(pass_tagged_ops),
    .recv = tagged_recv,
    .recvv = tagged_recvv,
    .recvmsg = tagged_recvmsg,
    .send = tagged_send,
    .sendv = tagged_sendv,
    .sendmsg = tagged_sendmsg,
    .inject = tagged_inject,
    .senddata = tagged_senddata,
    .injectdata = tagged_injectdata,
};

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                        uint64_t addr, uint64_t key, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->rma->read(lower, buf, len, desc, src_addr, addr, key, context);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->rma->readv(lower, iov, desc, count, src_addr, addr, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->rma->readmsg(lower, msg, flags);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                         fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->rma->write(lower, buf, len, desc, dest_addr, addr, key, context);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->rma->writev(lower, iov, desc, count, dest_addr, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->rma->writemsg(lower, msg, flags);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
                          uint64_t addr, uint64_t key)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->rma->inject(lower, buf, len, dest_addr, addr, key);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                             uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                             void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->rma->writedata(lower, buf, len, desc, data, dest_addr, addr, key, context);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->rma->injectdata(lower, buf, len, data, dest_addr, addr, key);
}

struct fi_ops_rma pass_rma_ops = {
    .size = sizeof(pass_rma_ops),
    .read = rma_read,
    .readv = rma_readv,
    .readmsg = rma_readmsg,
    .write = rma_write,
    .writev = rma_writev,
    .writemsg = rma_writemsg,
    .inject = rma_inject,
    .writedata = rma_writedata,
    .injectdata = rma_injectdata,
};

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                            fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                            enum fi_datatype datatype, enum fi_op op, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->write(lower, buf, count, desc, dest_addr, addr, key, datatype, op,
                                context);
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                             fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                             enum fi_datatype datatype, enum fi_op op, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->writev(lower, iov, desc, count, dest_addr, addr, key, datatype, op,
                                 context);
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->writemsg(lower, msg, flags);
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest_addr,
                             uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->inject(lower, buf, count, dest_addr, addr, key, datatype, op);
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
                                uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->readwrite(lower, buf, count, desc, result, result_desc, dest_addr, addr,
                                    key, datatype, op, context);
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                 size_t count, struct fi_ioc *resultv, void **result_desc,
                                 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
                                 uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                 void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->readwritev(lower, iov, desc, count, resultv, result_desc, result_count,
                                     dest_addr, addr, key, datatype, op, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   struct fi_ioc *resultv, void **result_desc, size_t result_count,
                                   uint64_t flags)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->readwritemsg(lower, msg, resultv, result_desc, result_count, flags);
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                const void *compare, void *compare_desc, void *result,
                                void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                                enum fi_datatype datatype, enum fi_op op, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->compwrite(lower, buf, count, desc, compare, compare_desc, result,
                                    result_desc, dest_addr, addr, key, datatype, op, context);
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                 size_t count, const struct fi_ioc *comparev, void **compare_desc,
                                 size_t compare_count, struct fi_ioc *resultv, void **result_desc,
                                 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
                                 uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                 void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->compwritev(lower, iov, desc, count, comparev, compare_desc, compare_count,
                                     resultv, result_desc, result_count, dest_addr, addr, key,
                                     datatype, op, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   const struct fi_ioc *comparev, void **compare_desc,
                                   size_t compare_count, struct fi_ioc *resultv, void **result_desc,
                                   size_t result_count, uint64_t flags)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->compwritemsg(lower, msg, comparev, compare_desc, compare_count, resultv,
                                       result_desc, result_count, flags);
}

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
                             size_t *count)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->writevalid(lower, datatype, op, count);
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
                                 size_t *count)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->readwritevalid(lower, datatype, op, count);
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
                                 size_t *count)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->atomic->compwritevalid(lower, datatype, op, count);
}

struct fi_ops_atomic pass_atomic_ops = {
    .size = sizeof(pass_atomic_ops),
    .write = atomic_write,
    .writev = atomic_writev,
    .writemsg = atomic_writemsg,
    .inject = atomic_inject,
    .readwrite = atomic_readwrite,
    .readwritev = atomic_readwritev,
    .readwritemsg = atomic_readwritemsg,
    .compwrite = atomic_compwrite,
    .compwritev = atomic_compwritev,
    .compwritemsg = atomic_compwritemsg,
    .writevalid = atomic_writevalid,
    .readwritevalid = atomic_readwritevalid,
    .compwritevalid = atomic_compwritevalid,
};

static ssize_t collective_barrier(struct fid_ep *ep, fi_addr_t coll_addr, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->collective->barrier(lower, coll_addr, context);
}

static ssize_t collective_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc,
                                    fi_addr_t coll_addr, fi_addr_t root_addr,
                                    enum fi_datatype datatype, uint64_t flags, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->collective->broadcast(lower, buf, count, desc, coll_addr, root_addr, datatype,
                                        flags, context);
}

static ssize_t collective_alltoall(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                   void *result, void *result_desc, fi_addr_t coll_addr,
                                   enum fi_datatype datatype, uint64_t flags, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->collective->alltoall(lower, buf, count, desc, result, result_desc, coll_addr,
                                       datatype, flags, context);
}

static ssize_t collective_allreduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                    void *result, void *result_desc, fi_addr_t coll_addr,
                                    enum fi_datatype datatype, enum fi_op op, uint64_t flags,
                                    void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->collective->allreduce(lower, buf, count, desc, result, result_desc, coll_addr,
                                        datatype, op, flags, context);
}

static ssize_t collective_allgather(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                    void *result, void *result_desc, fi_addr_t coll_addr,
                                    enum fi_datatype datatype, uint64_t flags, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->collective->allgather(lower, buf, count, desc, result, result_desc, coll_addr,
                                        datatype, flags, context);
}

static ssize_t collective_reduce_scatter(struct fid_ep *ep, const void *buf, size_t count,
                                         void *desc, void *result, void *result_desc,
                                         fi_addr_t coll_addr, enum fi_datatype datatype,
                                         enum fi_op op, uint64_t flags, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->collective->reduce_scatter(lower, buf, count, desc, result, result_desc,
                                             coll_addr, datatype, op, flags, context);
}

static ssize_t collective_reduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                 void *result, void *result_desc, fi_addr_t coll_addr,
                                 fi_addr_t root_addr, enum fi_datatype datatype, enum fi_op op,
                                 uint64_t flags, void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->collective->reduce(lower, buf, count, desc, result, result_desc, coll_addr,
                                     root_addr, datatype, op, flags, context);
}

static ssize_t collective_scatter(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                  void *result, void *result_desc, fi_addr_t coll_addr,
                                  fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags,
                                  void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->collective->scatter(lower, buf, count, desc, result, result_desc, coll_addr,
                                      root_addr, datatype, flags, context);
}

static ssize_t collective_gather(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                 void *result, void *result_desc, fi_addr_t coll_addr,
                                 fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags,
                                 void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->collective->gather(lower, buf, count, desc, result, result_desc, coll_addr,
                                     root_addr, datatype, flags, context);
}

static ssize_t collective_msg(struct fid_ep *ep, const struct fi_msg_collective *msg,
                              struct fi_ioc *resultv, void **result_desc, size_t result_count,
                              uint64_t flags)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return lower->collective->msg(lower, msg, resultv, result_desc, result_count, flags);
}

static ssize_t collective_barrier2(struct fid_ep *ep, fi_addr_t coll_addr, uint64_t flags,
                                   void *context)
{
    struct fid_ep *lower = pass_lower_ep(ep);

    return fi_barrier2(lower, coll_addr, flags, context);
}

struct fi_ops_collective pass_collective_ops = {
    .size = sizeof(pass_collective_ops),
    .barrier = collective_barrier,
    .broadcast = collective_broadcast,
    .alltoall = collective_alltoall,
    .allreduce = collective_allreduce,
    .allgather = collective_allgather,
    .reduce_scatter = collective_reduce_scatter,
    .reduce = collective_reduce,
    .scatter = collective_scatter,
    .gather = collective_gather,
    .msg = collective_msg,
    .barrier2 = collective_barrier2,
};
