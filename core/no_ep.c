/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/no.h"

#include <rdma/fi_errno.h>

ssize_t no_ep_cancel(fid_t fid, void *context)
{
    return -FI_ENOSYS;
}

int no_ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    return -FI_ENOPROTOOPT;
}

int no_ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    return -FI_ENOPROTOOPT;
}

int no_ep_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
                 void *context)
{
    return -FI_ENOSYS;
}

int no_ep_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
                 void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_ep_rx_size_left(struct fid_ep *ep)
{
    return -FI_ENOSYS;
}

ssize_t no_ep_tx_size_left(struct fid_ep *ep)
{
    return -FI_ENOSYS;
}

struct fi_ops_ep no_ep_ops = {
    .size = sizeof(no_ep_ops),
    .cancel = no_ep_cancel,
    .getopt = no_ep_getopt,
    .setopt = no_ep_setopt,
    .tx_ctx = no_ep_tx_ctx,
    .rx_ctx = no_ep_rx_ctx,
    .rx_size_left = no_ep_rx_size_left,
    .tx_size_left = no_ep_tx_size_left,
};

int no_cm_setname(fid_t fid, void *addr, size_t addrlen)
{
    return -FI_ENOSYS;
}

int no_cm_getname(fid_t fid, void *addr, size_t *addrlen)
{
    return -FI_ENOSYS;
}

int no_cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
    return -FI_ENOSYS;
}

int no_cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
    return -FI_ENOSYS;
}

int no_cm_listen(struct fid_pep *pep)
{
    return -FI_ENOSYS;
}

int no_cm_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
    return -FI_ENOSYS;
}

int no_cm_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
    return -FI_ENOSYS;
}

int no_cm_shutdown(struct fid_ep *ep, uint64_t flags)
{
    return -FI_ENOSYS;
}

int no_cm_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
               void *context)
{
    return -FI_ENOSYS;
}

struct fi_ops_cm no_cm_ops = {
    .size = sizeof(no_cm_ops),
    .setname = no_cm_setname,
    .getname = no_cm_getname,
    NO_CM_CONNECTION,
};

ssize_t no_msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                    void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                     fi_addr_t src_addr, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t no_msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
                    void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                     fi_addr_t dest_addr, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t no_msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr)
{
    return -FI_ENOSYS;
}

ssize_t no_msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
                        fi_addr_t dest_addr, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                          fi_addr_t dest_addr)
{
    return -FI_ENOSYS;
}

struct fi_ops_msg no_msg_ops = {
    .size = sizeof(no_msg_ops),
    .recv = no_msg_recv,
    .recvv = no_msg_recvv,
    .recvmsg = no_msg_recvmsg,
    .send = no_msg_send,
    .sendv = no_msg_sendv,
    .sendmsg = no_msg_sendmsg,
    .inject = no_msg_inject,
    .senddata = no_msg_senddata,
    .injectdata = no_msg_injectdata,
};

ssize_t no_tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                       uint64_t tag, uint64_t ignore, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                        fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t no_tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                       fi_addr_t dest_addr, uint64_t tag, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                        fi_addr_t dest_addr, uint64_t tag, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t no_tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
                         uint64_t tag)
{
    return -FI_ENOSYS;
}

ssize_t no_tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                           uint64_t data, fi_addr_t dest_addr, uint64_t tag, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                             fi_addr_t dest_addr, uint64_t tag)
{
    return -FI_ENOSYS;
}

struct fi_ops_tagged no_tagged_ops = {
    .size = sizeof(no_tagged_ops),
    .recv = no_tagged_recv,
    .recvv = no_tagged_recvv,
    .recvmsg = no_tagged_recvmsg,
    .send = no_tagged_send,
    .sendv = no_tagged_sendv,
    .sendmsg = no_tagged_sendmsg,
    .inject = no_tagged_inject,
    .senddata = no_tagged_senddata,
    .injectdata = no_tagged_injectdata,
};

ssize_t no_rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                    uint64_t addr, uint64_t key, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                     fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t no_rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                     fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                      fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t no_rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
                      uint64_t addr, uint64_t key)
{
    return -FI_ENOSYS;
}

ssize_t no_rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
                         fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                          fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
    return -FI_ENOSYS;
}

struct fi_ops_rma no_rma_ops = {
    .size = sizeof(no_rma_ops),
    .read = no_rma_read,
    .readv = no_rma_readv,
    .readmsg = no_rma_readmsg,
    .write = no_rma_write,
    .writev = no_rma_writev,
    .writemsg = no_rma_writemsg,
    .inject = no_rma_inject,
    .writedata = no_rma_writedata,
    .injectdata = no_rma_injectdata,
};

ssize_t no_atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                        fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                        enum fi_op op, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                         fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                         enum fi_datatype datatype, enum fi_op op, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t no_atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest_addr,
                         uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
    return -FI_ENOSYS;
}

ssize_t no_atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                            void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
                            uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                             struct fi_ioc *resultv, void **result_desc, size_t result_count,
                             fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                             enum fi_datatype datatype, enum fi_op op, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                               struct fi_ioc *resultv, void **result_desc, size_t result_count,
                               uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t no_atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                            const void *compare, void *compare_desc, void *result,
                            void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                            enum fi_datatype datatype, enum fi_op op, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                             const struct fi_ioc *comparev, void **compare_desc,
                             size_t compare_count, struct fi_ioc *resultv, void **result_desc,
                             size_t result_count, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                             enum fi_datatype datatype, enum fi_op op, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                               const struct fi_ioc *comparev, void **compare_desc,
                               size_t compare_count, struct fi_ioc *resultv, void **result_desc,
                               size_t result_count, uint64_t flags)
{
    return -FI_ENOSYS;
}

int no_atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
    return -FI_ENOSYS;
}

int no_atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
                             size_t *count)
{
    return -FI_ENOSYS;
}

int no_atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
                             size_t *count)
{
    return -FI_ENOSYS;
}

struct fi_ops_atomic no_atomic_ops = {
    .size = sizeof(no_atomic_ops),
    .write = no_atomic_write,
    .writev = no_atomic_writev,
    .writemsg = no_atomic_writemsg,
    .inject = no_atomic_inject,
    .readwrite = no_atomic_readwrite,
    .readwritev = no_atomic_readwritev,
    .readwritemsg = no_atomic_readwritemsg,
    .compwrite = no_atomic_compwrite,
    .compwritev = no_atomic_compwritev,
    .compwritemsg = no_atomic_compwritemsg,
    .writevalid = no_atomic_writevalid,
    .readwritevalid = no_atomic_readwritevalid,
    .compwritevalid = no_atomic_compwritevalid,
};

ssize_t no_collective_barrier(struct fid_ep *ep, fi_addr_t coll_addr, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_collective_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc,
                                fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
                                uint64_t flags, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_collective_alltoall(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                               void *result, void *result_desc, fi_addr_t coll_addr,
                               enum fi_datatype datatype, uint64_t flags, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_collective_allreduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                void *result, void *result_desc, fi_addr_t coll_addr,
                                enum fi_datatype datatype, enum fi_op op, uint64_t flags,
                                void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_collective_allgather(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                void *result, void *result_desc, fi_addr_t coll_addr,
                                enum fi_datatype datatype, uint64_t flags, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_collective_reduce_scatter(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                     void *result, void *result_desc, fi_addr_t coll_addr,
                                     enum fi_datatype datatype, enum fi_op op, uint64_t flags,
                                     void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_collective_reduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                             void *result, void *result_desc, fi_addr_t coll_addr,
                             fi_addr_t root_addr, enum fi_datatype datatype, enum fi_op op,
                             uint64_t flags, void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_collective_scatter(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                              void *result, void *result_desc, fi_addr_t coll_addr,
                              fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags,
                              void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_collective_gather(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                             void *result, void *result_desc, fi_addr_t coll_addr,
                             fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags,
                             void *context)
{
    return -FI_ENOSYS;
}

ssize_t no_collective_msg(struct fid_ep *ep, const struct fi_msg_collective *msg,
                          struct fi_ioc *resultv, void **result_desc, size_t result_count,
                          uint64_t flags)
{
    return -FI_ENOSYS;
}

ssize_t no_collective_barrier2(struct fid_ep *ep, fi_addr_t coll_addr, uint64_t flags,
                               void *context)
{
    return -FI_ENOSYS;
}

struct fi_ops_collective no_collective_ops = {
    .size = sizeof(no_collective_ops),
    .barrier = no_collective_barrier,
    .broadcast = no_collective_broadcast,
    .alltoall = no_collective_alltoall,
    .allreduce = no_collective_allreduce,
    .allgather = no_collective_allgather,
    .reduce_scatter = no_collective_reduce_scatter,
    .reduce = no_collective_reduce,
    .scatter = no_collective_scatter,
    .gather = no_collective_gather,
    .msg = no_collective_msg,
    .barrier2 = no_collective_barrier2,
};
