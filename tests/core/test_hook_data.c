/* SPDX-License-Identifier: BSD-2-Clause */
/* Every data transfer operation makes one call on the lower, with the same arguments and result,
 * and nothing else: no allocation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <malloc.h>
#include <unistd.h>

#include <rdma/fi_endpoint.h>

#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/hook/hook.h"
#include "core/info/abi.h"
#include "core/info/info.h"

/* Memory for arguments that are read on the way: AT(n) is seen as the number n. */
static char arena[64][1024];
#define AT(n) ((void *)arena[n])

/* The last call of the fake lower, and its arguments. */
static int calls;
static const char *called;
static uintptr_t seen[16];
static struct fid_ep lower;

static int note(const char *name, size_t count, const uintptr_t *args)
{
    calls++;
    called = name;
    for (size_t i = 0; i < count; i++) {
        uintptr_t at = args[i] - (uintptr_t)arena;

        seen[i] = at < sizeof(arena) ? at / sizeof(arena[0]) : args[i];
    }
    return 4711;
}

/* Is a message as it was sent? As a number: 11, or 0. */
#define SAME(msg, type) (memcmp(msg, &(type), sizeof(type)) == 0 ? 11 : 0)

static const struct fi_msg sent_msg = {AT(1), AT(2), 3, 4, AT(5), 6};
static const struct fi_msg_tagged sent_tagged = {AT(1), AT(2), 3, 4, 5, 6, AT(7), 8};
static const struct fi_msg_rma sent_rma = {AT(1), AT(2), 3, 4, AT(5), 6, AT(7), 8};
static const struct fi_msg_atomic sent_atomic = {
    AT(1), AT(2), 3, 4, AT(5), 6, (enum fi_datatype)7, (enum fi_op)8, AT(9), 10};
static const struct fi_msg_collective sent_collective = {
    AT(1), AT(2), 3, 4, 5, (enum fi_collective_op)6, (enum fi_datatype)7, (enum fi_op)8, AT(9)};

static int same_collective(const struct fi_msg_collective *msg)
{
    const struct fi_msg_collective *sent = &sent_collective;

    return msg->msg_iov == sent->msg_iov && msg->desc == sent->desc &&
                   msg->iov_count == sent->iov_count && msg->coll_addr == sent->coll_addr &&
                   msg->root_addr == sent->root_addr && msg->coll == sent->coll &&
                   msg->datatype == sent->datatype && msg->op == sent->op &&
                   msg->context == sent->context
               ? 11
               : 0;
}

#define ARG(value) (uintptr_t)(value)
#define NOTE(name, ...)                                                                            \
    return note(name, sizeof((uintptr_t[]){__VA_ARGS__}) / sizeof(uintptr_t),                      \
                (uintptr_t[]){__VA_ARGS__})

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                        void *context)
{
    NOTE("msg.recv", ARG(ep), ARG(buf), ARG(len), ARG(desc), ARG(src_addr), ARG(context));
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src_addr, void *context)
{
    NOTE("msg.recvv", ARG(ep), ARG(iov), ARG(desc), ARG(count), ARG(src_addr), ARG(context));
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    NOTE("msg.recvmsg", ARG(ep), ARG(SAME(msg, sent_msg)), ARG(flags));
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                        fi_addr_t dest_addr, void *context)
{
    NOTE("msg.send", ARG(ep), ARG(buf), ARG(len), ARG(desc), ARG(dest_addr), ARG(context));
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest_addr, void *context)
{
    NOTE("msg.sendv", ARG(ep), ARG(iov), ARG(desc), ARG(count), ARG(dest_addr), ARG(context));
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    NOTE("msg.sendmsg", ARG(ep), ARG(SAME(msg, sent_msg)), ARG(flags));
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr)
{
    NOTE("msg.inject", ARG(ep), ARG(buf), ARG(len), ARG(dest_addr));
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                            uint64_t data, fi_addr_t dest_addr, void *context)
{
    NOTE("msg.senddata", ARG(ep), ARG(buf), ARG(len), ARG(desc), ARG(data), ARG(dest_addr),
         ARG(context));
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest_addr)
{
    NOTE("msg.injectdata", ARG(ep), ARG(buf), ARG(len), ARG(data), ARG(dest_addr));
}

static struct fi_ops_msg msg_ops = {
    .size = sizeof(msg_ops),
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
    NOTE("tagged.recv", ARG(ep), ARG(buf), ARG(len), ARG(desc), ARG(src_addr), ARG(tag),
         ARG(ignore), ARG(context));
}

static ssize_t tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
    NOTE("tagged.recvv", ARG(ep), ARG(iov), ARG(desc), ARG(count), ARG(src_addr), ARG(tag),
         ARG(ignore), ARG(context));
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    NOTE("tagged.recvmsg", ARG(ep), ARG(SAME(msg, sent_tagged)), ARG(flags));
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                           fi_addr_t dest_addr, uint64_t tag, void *context)
{
    NOTE("tagged.send", ARG(ep), ARG(buf), ARG(len), ARG(desc), ARG(dest_addr), ARG(tag),
         ARG(context));
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest_addr, uint64_t tag, void *context)
{
    NOTE("tagged.sendv", ARG(ep), ARG(iov), ARG(desc), ARG(count), ARG(dest_addr), ARG(tag),
         ARG(context));
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    NOTE("tagged.sendmsg", ARG(ep), ARG(SAME(msg, sent_tagged)), ARG(flags));
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
                             uint64_t tag)
{
    NOTE("tagged.inject", ARG(ep), ARG(buf), ARG(len), ARG(dest_addr), ARG(tag));
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                               uint64_t data, fi_addr_t dest_addr, uint64_t tag, void *context)
{
    NOTE("tagged.senddata", ARG(ep), ARG(buf), ARG(len), ARG(desc), ARG(data), ARG(dest_addr),
         ARG(tag), ARG(context));
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest_addr, uint64_t tag)
{
    NOTE("tagged.injectdata", ARG(ep), ARG(buf), ARG(len), ARG(data), ARG(dest_addr), ARG(tag));
}

static struct fi_ops_tagged tagged_ops = {
    .size = sizeof(tagged_ops),
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
    NOTE("rma.read", ARG(ep), ARG(buf), ARG(len), ARG(desc), ARG(src_addr), ARG(addr), ARG(key),
         ARG(context));
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
    NOTE("rma.readv", ARG(ep), ARG(iov), ARG(desc), ARG(count), ARG(src_addr), ARG(addr), ARG(key),
         ARG(context));
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    NOTE("rma.readmsg", ARG(ep), ARG(SAME(msg, sent_rma)), ARG(flags));
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                         fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    NOTE("rma.write", ARG(ep), ARG(buf), ARG(len), ARG(desc), ARG(dest_addr), ARG(addr), ARG(key),
         ARG(context));
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    NOTE("rma.writev", ARG(ep), ARG(iov), ARG(desc), ARG(count), ARG(dest_addr), ARG(addr),
         ARG(key), ARG(context));
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    NOTE("rma.writemsg", ARG(ep), ARG(SAME(msg, sent_rma)), ARG(flags));
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
                          uint64_t addr, uint64_t key)
{
    NOTE("rma.inject", ARG(ep), ARG(buf), ARG(len), ARG(dest_addr), ARG(addr), ARG(key));
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                             uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                             void *context)
{
    NOTE("rma.writedata", ARG(ep), ARG(buf), ARG(len), ARG(desc), ARG(data), ARG(dest_addr),
         ARG(addr), ARG(key), ARG(context));
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
    NOTE("rma.injectdata", ARG(ep), ARG(buf), ARG(len), ARG(data), ARG(dest_addr), ARG(addr),
         ARG(key));
}

static struct fi_ops_rma rma_ops = {
    .size = sizeof(rma_ops),
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
    NOTE("atomic.write", ARG(ep), ARG(buf), ARG(count), ARG(desc), ARG(dest_addr), ARG(addr),
         ARG(key), ARG(datatype), ARG(op), ARG(context));
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                             fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                             enum fi_datatype datatype, enum fi_op op, void *context)
{
    NOTE("atomic.writev", ARG(ep), ARG(iov), ARG(desc), ARG(count), ARG(dest_addr), ARG(addr),
         ARG(key), ARG(datatype), ARG(op), ARG(context));
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    NOTE("atomic.writemsg", ARG(ep), ARG(SAME(msg, sent_atomic)), ARG(flags));
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest_addr,
                             uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
    NOTE("atomic.inject", ARG(ep), ARG(buf), ARG(count), ARG(dest_addr), ARG(addr), ARG(key),
         ARG(datatype), ARG(op));
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
                                uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                void *context)
{
    NOTE("atomic.readwrite", ARG(ep), ARG(buf), ARG(count), ARG(desc), ARG(result),
         ARG(result_desc), ARG(dest_addr), ARG(addr), ARG(key), ARG(datatype), ARG(op),
         ARG(context));
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                 size_t count, struct fi_ioc *resultv, void **result_desc,
                                 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
                                 uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                 void *context)
{
    NOTE("atomic.readwritev", ARG(ep), ARG(iov), ARG(desc), ARG(count), ARG(resultv),
         ARG(result_desc), ARG(result_count), ARG(dest_addr), ARG(addr), ARG(key), ARG(datatype),
         ARG(op), ARG(context));
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   struct fi_ioc *resultv, void **result_desc, size_t result_count,
                                   uint64_t flags)
{
    NOTE("atomic.readwritemsg", ARG(ep), ARG(SAME(msg, sent_atomic)), ARG(resultv),
         ARG(result_desc), ARG(result_count), ARG(flags));
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                const void *compare, void *compare_desc, void *result,
                                void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                                enum fi_datatype datatype, enum fi_op op, void *context)
{
    NOTE("atomic.compwrite", ARG(ep), ARG(buf), ARG(count), ARG(desc), ARG(compare),
         ARG(compare_desc), ARG(result), ARG(result_desc), ARG(dest_addr), ARG(addr), ARG(key),
         ARG(datatype), ARG(op), ARG(context));
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                 size_t count, const struct fi_ioc *comparev, void **compare_desc,
                                 size_t compare_count, struct fi_ioc *resultv, void **result_desc,
                                 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
                                 uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                 void *context)
{
    NOTE("atomic.compwritev", ARG(ep), ARG(iov), ARG(desc), ARG(count), ARG(comparev),
         ARG(compare_desc), ARG(compare_count), ARG(resultv), ARG(result_desc), ARG(result_count),
         ARG(dest_addr), ARG(addr), ARG(key), ARG(datatype), ARG(op), ARG(context));
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   const struct fi_ioc *comparev, void **compare_desc,
                                   size_t compare_count, struct fi_ioc *resultv, void **result_desc,
                                   size_t result_count, uint64_t flags)
{
    NOTE("atomic.compwritemsg", ARG(ep), ARG(SAME(msg, sent_atomic)), ARG(comparev),
         ARG(compare_desc), ARG(compare_count), ARG(resultv), ARG(result_desc), ARG(result_count),
         ARG(flags));
}

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
                             size_t *count)
{
    NOTE("atomic.writevalid", ARG(ep), ARG(datatype), ARG(op), ARG(count));
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
                                 size_t *count)
{
    NOTE("atomic.readwritevalid", ARG(ep), ARG(datatype), ARG(op), ARG(count));
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
                                 size_t *count)
{
    NOTE("atomic.compwritevalid", ARG(ep), ARG(datatype), ARG(op), ARG(count));
}

static struct fi_ops_atomic atomic_ops = {
    .size = sizeof(atomic_ops),
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
    NOTE("collective.barrier", ARG(ep), ARG(coll_addr), ARG(context));
}

static ssize_t collective_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc,
                                    fi_addr_t coll_addr, fi_addr_t root_addr,
                                    enum fi_datatype datatype, uint64_t flags, void *context)
{
    NOTE("collective.broadcast", ARG(ep), ARG(buf), ARG(count), ARG(desc), ARG(coll_addr),
         ARG(root_addr), ARG(datatype), ARG(flags), ARG(context));
}

static ssize_t collective_alltoall(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                   void *result, void *result_desc, fi_addr_t coll_addr,
                                   enum fi_datatype datatype, uint64_t flags, void *context)
{
    NOTE("collective.alltoall", ARG(ep), ARG(buf), ARG(count), ARG(desc), ARG(result),
         ARG(result_desc), ARG(coll_addr), ARG(datatype), ARG(flags), ARG(context));
}

static ssize_t collective_allreduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                    void *result, void *result_desc, fi_addr_t coll_addr,
                                    enum fi_datatype datatype, enum fi_op op, uint64_t flags,
                                    void *context)
{
    NOTE("collective.allreduce", ARG(ep), ARG(buf), ARG(count), ARG(desc), ARG(result),
         ARG(result_desc), ARG(coll_addr), ARG(datatype), ARG(op), ARG(flags), ARG(context));
}

static ssize_t collective_allgather(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                    void *result, void *result_desc, fi_addr_t coll_addr,
                                    enum fi_datatype datatype, uint64_t flags, void *context)
{
    NOTE("collective.allgather", ARG(ep), ARG(buf), ARG(count), ARG(desc), ARG(result),
         ARG(result_desc), ARG(coll_addr), ARG(datatype), ARG(flags), ARG(context));
}

static ssize_t collective_reduce_scatter(struct fid_ep *ep, const void *buf, size_t count,
                                         void *desc, void *result, void *result_desc,
                                         fi_addr_t coll_addr, enum fi_datatype datatype,
                                         enum fi_op op, uint64_t flags, void *context)
{
    NOTE("collective.reduce_scatter", ARG(ep), ARG(buf), ARG(count), ARG(desc), ARG(result),
         ARG(result_desc), ARG(coll_addr), ARG(datatype), ARG(op), ARG(flags), ARG(context));
}

static ssize_t collective_reduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                 void *result, void *result_desc, fi_addr_t coll_addr,
                                 fi_addr_t root_addr, enum fi_datatype datatype, enum fi_op op,
                                 uint64_t flags, void *context)
{
    NOTE("collective.reduce", ARG(ep), ARG(buf), ARG(count), ARG(desc), ARG(result),
         ARG(result_desc), ARG(coll_addr), ARG(root_addr), ARG(datatype), ARG(op), ARG(flags),
         ARG(context));
}

static ssize_t collective_scatter(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                  void *result, void *result_desc, fi_addr_t coll_addr,
                                  fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags,
                                  void *context)
{
    NOTE("collective.scatter", ARG(ep), ARG(buf), ARG(count), ARG(desc), ARG(result),
         ARG(result_desc), ARG(coll_addr), ARG(root_addr), ARG(datatype), ARG(flags), ARG(context));
}

static ssize_t collective_gather(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                 void *result, void *result_desc, fi_addr_t coll_addr,
                                 fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags,
                                 void *context)
{
    NOTE("collective.gather", ARG(ep), ARG(buf), ARG(count), ARG(desc), ARG(result),
         ARG(result_desc), ARG(coll_addr), ARG(root_addr), ARG(datatype), ARG(flags), ARG(context));
}

static ssize_t collective_msg(struct fid_ep *ep, const struct fi_msg_collective *msg,
                              struct fi_ioc *resultv, void **result_desc, size_t result_count,
                              uint64_t flags)
{
    NOTE("collective.msg", ARG(ep), ARG(same_collective(msg)), ARG(resultv), ARG(result_desc),
         ARG(result_count), ARG(flags));
}

static ssize_t collective_barrier2(struct fid_ep *ep, fi_addr_t coll_addr, uint64_t flags,
                                   void *context)
{
    NOTE("collective.barrier2", ARG(ep), ARG(coll_addr), ARG(flags), ARG(context));
}

static struct fi_ops_collective collective_ops = {
    .size = sizeof(collective_ops),
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

static struct fid_ep lower = {
    .msg = &msg_ops,
    .tagged = &tagged_ops,
    .rma = &rma_ops,
    .atomic = &atomic_ops,
    .collective = &collective_ops,
};

#define TABLES                                                                                     \
    {                                                                                              \
        .msg = &ep_msg_ops, .tagged = &ep_tagged_ops, .rma = &ep_rma_ops,                          \
        .atomic = &ep_atomic_ops, .collective = &ep_collective_ops                                 \
    }
#define PASSED                                                                                     \
    {                                                                                              \
        .fid = TABLES, .post = hook_post, .groups = OP_GROUP_ALL,                                  \
        .atomic_valid = hook_atomic_valid                                                          \
    }

/* Two of them, one over the other; the lower is not ours. */
static struct hook_ep inner = {.base = PASSED, .lower = &lower, .target = {.fid = &lower}};
static struct hook_ep outer = {
    .base = PASSED, .lower = &inner.fid, .target = {.ep = &inner.base, .fid = &inner.fid}};

/* The endpoint that the cases call. */
static struct fid_ep *top = &outer.fid;

/* One call of that name, its arguments 11, 12, ... behind the endpoint. */
static void check(const char *name, ssize_t result, size_t count)
{
    assert_int_equal(calls, 1);
    assert_string_equal(called, name);
    assert_int_equal(result, 4711);
    assert_int_equal(seen[0], (uintptr_t)&lower);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(seen[i + 1], 11 + i);
}

#define CHECK(name, count, call)                                                                   \
    do {                                                                                           \
        calls = 0;                                                                                 \
        check(name, call, count);                                                                  \
    } while (0)

static void msg_passes_through(void **state)
{
    struct fid_ep *ep = top;

    CHECK("msg.recv", 5, ep->msg->recv(ep, AT(11), 12, AT(13), 14, AT(15)));
    CHECK("msg.recvv", 5, ep->msg->recvv(ep, AT(11), AT(12), 13, 14, AT(15)));
    CHECK("msg.recvmsg", 2, ep->msg->recvmsg(ep, &sent_msg, 12));
    CHECK("msg.send", 5, ep->msg->send(ep, (void *)11, 12, (void *)13, 14, (void *)15));
    CHECK("msg.sendv", 5, ep->msg->sendv(ep, AT(11), AT(12), 13, 14, AT(15)));
    CHECK("msg.sendmsg", 2, ep->msg->sendmsg(ep, &sent_msg, 12));
    CHECK("msg.inject", 3, ep->msg->inject(ep, (void *)11, 12, 13));
    CHECK("msg.senddata", 6, ep->msg->senddata(ep, (void *)11, 12, (void *)13, 14, 15, (void *)16));
    CHECK("msg.injectdata", 4, ep->msg->injectdata(ep, (void *)11, 12, 13, 14));
}

static void tagged_passes_through(void **state)
{
    struct fid_ep *ep = top;

    CHECK("tagged.recv", 7, ep->tagged->recv(ep, AT(11), 12, AT(13), 14, 15, 16, AT(17)));
    CHECK("tagged.recvv", 7, ep->tagged->recvv(ep, AT(11), AT(12), 13, 14, 15, 16, AT(17)));
    CHECK("tagged.recvmsg", 2, ep->tagged->recvmsg(ep, &sent_tagged, 12));
    CHECK("tagged.send", 6, ep->tagged->send(ep, (void *)11, 12, (void *)13, 14, 15, (void *)16));
    CHECK("tagged.sendv", 6, ep->tagged->sendv(ep, AT(11), AT(12), 13, 14, 15, AT(16)));
    CHECK("tagged.sendmsg", 2, ep->tagged->sendmsg(ep, &sent_tagged, 12));
    CHECK("tagged.inject", 4, ep->tagged->inject(ep, (void *)11, 12, 13, 14));
    CHECK("tagged.senddata", 7,
          ep->tagged->senddata(ep, (void *)11, 12, (void *)13, 14, 15, 16, (void *)17));
    CHECK("tagged.injectdata", 5, ep->tagged->injectdata(ep, (void *)11, 12, 13, 14, 15));
}

static void rma_passes_through(void **state)
{
    struct fid_ep *ep = top;

    CHECK("rma.read", 7, ep->rma->read(ep, (void *)11, 12, (void *)13, 14, 15, 16, (void *)17));
    CHECK("rma.readv", 7, ep->rma->readv(ep, AT(11), AT(12), 13, 14, 15, 16, AT(17)));
    CHECK("rma.readmsg", 2, ep->rma->readmsg(ep, &sent_rma, 12));
    CHECK("rma.write", 7, ep->rma->write(ep, (void *)11, 12, (void *)13, 14, 15, 16, (void *)17));
    CHECK("rma.writev", 7, ep->rma->writev(ep, AT(11), AT(12), 13, 14, 15, 16, AT(17)));
    CHECK("rma.writemsg", 2, ep->rma->writemsg(ep, &sent_rma, 12));
    CHECK("rma.inject", 5, ep->rma->inject(ep, (void *)11, 12, 13, 14, 15));
    CHECK("rma.writedata", 8,
          ep->rma->writedata(ep, (void *)11, 12, (void *)13, 14, 15, 16, 17, (void *)18));
    CHECK("rma.injectdata", 6, ep->rma->injectdata(ep, (void *)11, 12, 13, 14, 15, 16));
}

static void atomic_passes_through(void **state)
{
    struct fid_ep *ep = top;

    CHECK("atomic.write", 9,
          ep->atomic->write(ep, AT(11), 12, AT(13), 14, 15, 16, (enum fi_datatype)17,
                            (enum fi_op)18, AT(19)));
    CHECK("atomic.writev", 9,
          ep->atomic->writev(ep, AT(11), AT(12), 13, 14, 15, 16, (enum fi_datatype)17,
                             (enum fi_op)18, AT(19)));
    CHECK("atomic.writemsg", 2, ep->atomic->writemsg(ep, &sent_atomic, 12));
    CHECK("atomic.inject", 7,
          ep->atomic->inject(ep, AT(11), 12, 13, 14, 15, (enum fi_datatype)16, (enum fi_op)17));
    CHECK("atomic.readwrite", 11,
          ep->atomic->readwrite(ep, AT(11), 12, AT(13), AT(14), AT(15), 16, 17, 18,
                                (enum fi_datatype)19, (enum fi_op)20, AT(21)));
    CHECK("atomic.readwritev", 12,
          ep->atomic->readwritev(ep, AT(11), AT(12), 13, AT(14), AT(15), 16, 17, 18, 19,
                                 (enum fi_datatype)20, (enum fi_op)21, AT(22)));
    CHECK("atomic.readwritemsg", 5,
          ep->atomic->readwritemsg(ep, &sent_atomic, AT(12), AT(13), 14, 15));
    CHECK("atomic.compwrite", 13,
          ep->atomic->compwrite(ep, AT(11), 12, AT(13), AT(14), AT(15), AT(16), AT(17), 18, 19, 20,
                                (enum fi_datatype)21, (enum fi_op)22, AT(23)));
    CHECK("atomic.compwritev", 15,
          ep->atomic->compwritev(ep, AT(11), AT(12), 13, AT(14), AT(15), 16, AT(17), AT(18), 19, 20,
                                 21, 22, (enum fi_datatype)23, (enum fi_op)24, AT(25)));
    CHECK("atomic.compwritemsg", 8,
          ep->atomic->compwritemsg(ep, &sent_atomic, AT(12), AT(13), 14, AT(15), AT(16), 17, 18));
    CHECK("atomic.writevalid", 3,
          ep->atomic->writevalid(ep, (enum fi_datatype)11, (enum fi_op)12, AT(13)));
    CHECK("atomic.readwritevalid", 3,
          ep->atomic->readwritevalid(ep, (enum fi_datatype)11, (enum fi_op)12, AT(13)));
    CHECK("atomic.compwritevalid", 3,
          ep->atomic->compwritevalid(ep, (enum fi_datatype)11, (enum fi_op)12, AT(13)));
}

static void collective_passes_through(void **state)
{
    struct fid_ep *ep = top;

    CHECK("collective.barrier", 2, ep->collective->barrier(ep, 11, (void *)12));
    CHECK("collective.broadcast", 8,
          ep->collective->broadcast(ep, (void *)11, 12, (void *)13, 14, 15, (enum fi_datatype)16,
                                    17, (void *)18));
    CHECK("collective.alltoall", 9,
          ep->collective->alltoall(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16,
                                   (enum fi_datatype)17, 18, (void *)19));
    CHECK("collective.allreduce", 10,
          ep->collective->allreduce(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16,
                                    (enum fi_datatype)17, (enum fi_op)18, 19, (void *)20));
    CHECK("collective.allgather", 9,
          ep->collective->allgather(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16,
                                    (enum fi_datatype)17, 18, (void *)19));
    CHECK("collective.reduce_scatter", 10,
          ep->collective->reduce_scatter(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16,
                                         (enum fi_datatype)17, (enum fi_op)18, 19, (void *)20));
    CHECK("collective.reduce", 11,
          ep->collective->reduce(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16, 17,
                                 (enum fi_datatype)18, (enum fi_op)19, 20, (void *)21));
    CHECK("collective.scatter", 10,
          ep->collective->scatter(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16, 17,
                                  (enum fi_datatype)18, 19, (void *)20));
    CHECK("collective.gather", 10,
          ep->collective->gather(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16, 17,
                                 (enum fi_datatype)18, 19, (void *)20));
    CHECK("collective.msg", 5, ep->collective->msg(ep, &sent_collective, AT(12), AT(13), 14, 15));
    CHECK("collective.barrier2", 3, ep->collective->barrier2(ep, 11, 12, (void *)13));
}

static void transfers_allocate_nothing(void **state)
{
#ifdef __GLIBC__
    struct mallinfo2 before = mallinfo2(), after;

    for (int i = 0; i < 1000; i++)
        outer.fid.msg->send(&outer.fid, NULL, 0, NULL, 0, NULL);
    after = mallinfo2();
    assert_int_equal(before.uordblks, after.uordblks);
#else
    print_message("only glibc says how much is allocated\n");
    skip();
#endif
}

/* A part that only looks, opened over loop, whose endpoint then gets the lower above. */
static void hook_passes_through(const char *spec)
{
    struct fi_info *hints = info_alloc(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *fid;
    struct hook_ep *hook;
    struct op_target target;

    assert_non_null(hints);
    hints->ep_attr->type = FI_EP_RDM;
    setenv("FI_PROVIDER", spec, 1);
    assert_int_equal(getinfo_run(FI_VERSION(2, 6), NULL, NULL, 0, hints, ABI_1_9, &info), 0);
    assert_int_equal(fabric_open(info->fabric_attr, NULL, ABI_1_9, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &fid, NULL), 0);
    hook = object_of(fid, struct hook_ep, fid);
    target = hook->target;
    hook->target = (struct op_target){.fid = &lower};
    hook->base.groups = OP_GROUP_ALL;
    top = fid;
    msg_passes_through(NULL);
    tagged_passes_through(NULL);
    rma_passes_through(NULL);
    atomic_passes_through(NULL);
    collective_passes_through(NULL);
    hook->target = target;
    assert_int_equal(fi_close(&fid->fid), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    info_free(info);
    info_free(hints);
    top = &outer.fid;
}

static void hooks_that_look_pass_through(void **state)
{
    char spec[100];

    snprintf(spec, sizeof(spec), "trace(file=/tmp/weft-test-hook-data.%d);loop", (int)getpid());
    hook_passes_through("noop;loop");
    hook_passes_through(spec);
    unlink(strtok(strchr(spec, '/'), ")"));
    hook_passes_through("profile(file=/dev/null);loop");
    hook_passes_through("monitor;loop");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(msg_passes_through),
        cmocka_unit_test(tagged_passes_through),
        cmocka_unit_test(rma_passes_through),
        cmocka_unit_test(atomic_passes_through),
        cmocka_unit_test(collective_passes_through),
        cmocka_unit_test(transfers_allocate_nothing),
        cmocka_unit_test(hooks_that_look_pass_through),
    };

    return cmocka_run_group_tests_name("pass_data", tests, NULL, NULL);
}
