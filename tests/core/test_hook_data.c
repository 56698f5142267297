/* SPDX-License-Identifier: BSD-2-Clause */
/* Every data transfer operation makes one call on the lower, with the same arguments and result,
 * and nothing else: no allocation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <malloc.h>

#include "core/hook/hook.h"

/* Memory for arguments that are read on the way: AT(n) is seen as the number n. */
static char arena[64][1024];
#define AT(n) ((void *)arena[n])

/* What the fake lower was called with. */
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

static void msg_passes_through(void **state)
{
    struct fid_ep *ep = &outer.fid;
    ssize_t result;

    calls = 0;
    result = ep->msg->recv(ep, AT(11), 12, AT(13), 14, AT(15));
    check("msg.recv", result, 5);
    calls = 0;
    result = ep->msg->recvv(ep, AT(11), AT(12), 13, 14, AT(15));
    check("msg.recvv", result, 5);
    calls = 0;
    result = ep->msg->recvmsg(ep, &sent_msg, 12);
    check("msg.recvmsg", result, 2);
    calls = 0;
    result = ep->msg->send(ep, (void *)11, 12, (void *)13, 14, (void *)15);
    check("msg.send", result, 5);
    calls = 0;
    result = ep->msg->sendv(ep, AT(11), AT(12), 13, 14, AT(15));
    check("msg.sendv", result, 5);
    calls = 0;
    result = ep->msg->sendmsg(ep, &sent_msg, 12);
    check("msg.sendmsg", result, 2);
    calls = 0;
    result = ep->msg->inject(ep, (void *)11, 12, 13);
    check("msg.inject", result, 3);
    calls = 0;
    result = ep->msg->senddata(ep, (void *)11, 12, (void *)13, 14, 15, (void *)16);
    check("msg.senddata", result, 6);
    calls = 0;
    result = ep->msg->injectdata(ep, (void *)11, 12, 13, 14);
    check("msg.injectdata", result, 4);
}

static void tagged_passes_through(void **state)
{
    struct fid_ep *ep = &outer.fid;
    ssize_t result;

    calls = 0;
    result = ep->tagged->recv(ep, AT(11), 12, AT(13), 14, 15, 16, AT(17));
    check("tagged.recv", result, 7);
    calls = 0;
    result = ep->tagged->recvv(ep, AT(11), AT(12), 13, 14, 15, 16, AT(17));
    check("tagged.recvv", result, 7);
    calls = 0;
    result = ep->tagged->recvmsg(ep, &sent_tagged, 12);
    check("tagged.recvmsg", result, 2);
    calls = 0;
    result = ep->tagged->send(ep, (void *)11, 12, (void *)13, 14, 15, (void *)16);
    check("tagged.send", result, 6);
    calls = 0;
    result = ep->tagged->sendv(ep, AT(11), AT(12), 13, 14, 15, AT(16));
    check("tagged.sendv", result, 6);
    calls = 0;
    result = ep->tagged->sendmsg(ep, &sent_tagged, 12);
    check("tagged.sendmsg", result, 2);
    calls = 0;
    result = ep->tagged->inject(ep, (void *)11, 12, 13, 14);
    check("tagged.inject", result, 4);
    calls = 0;
    result = ep->tagged->senddata(ep, (void *)11, 12, (void *)13, 14, 15, 16, (void *)17);
    check("tagged.senddata", result, 7);
    calls = 0;
    result = ep->tagged->injectdata(ep, (void *)11, 12, 13, 14, 15);
    check("tagged.injectdata", result, 5);
}

static void rma_passes_through(void **state)
{
    struct fid_ep *ep = &outer.fid;
    ssize_t result;

    calls = 0;
    result = ep->rma->read(ep, (void *)11, 12, (void *)13, 14, 15, 16, (void *)17);
    check("rma.read", result, 7);
    calls = 0;
    result = ep->rma->readv(ep, AT(11), AT(12), 13, 14, 15, 16, AT(17));
    check("rma.readv", result, 7);
    calls = 0;
    result = ep->rma->readmsg(ep, &sent_rma, 12);
    check("rma.readmsg", result, 2);
    calls = 0;
    result = ep->rma->write(ep, (void *)11, 12, (void *)13, 14, 15, 16, (void *)17);
    check("rma.write", result, 7);
    calls = 0;
    result = ep->rma->writev(ep, AT(11), AT(12), 13, 14, 15, 16, AT(17));
    check("rma.writev", result, 7);
    calls = 0;
    result = ep->rma->writemsg(ep, &sent_rma, 12);
    check("rma.writemsg", result, 2);
    calls = 0;
    result = ep->rma->inject(ep, (void *)11, 12, 13, 14, 15);
    check("rma.inject", result, 5);
    calls = 0;
    result = ep->rma->writedata(ep, (void *)11, 12, (void *)13, 14, 15, 16, 17, (void *)18);
    check("rma.writedata", result, 8);
    calls = 0;
    result = ep->rma->injectdata(ep, (void *)11, 12, 13, 14, 15, 16);
    check("rma.injectdata", result, 6);
}

static void atomic_passes_through(void **state)
{
    struct fid_ep *ep = &outer.fid;
    ssize_t result;

    calls = 0;
    result = ep->atomic->write(ep, (void *)11, 12, (void *)13, 14, 15, 16, (enum fi_datatype)17,
                               (enum fi_op)18, (void *)19);
    check("atomic.write", result, 9);
    calls = 0;
    result = ep->atomic->writev(ep, AT(11), AT(12), 13, 14, 15, 16, (enum fi_datatype)17,
                                (enum fi_op)18, AT(19));
    check("atomic.writev", result, 9);
    calls = 0;
    result = ep->atomic->writemsg(ep, &sent_atomic, 12);
    check("atomic.writemsg", result, 2);
    calls = 0;
    result =
        ep->atomic->inject(ep, (void *)11, 12, 13, 14, 15, (enum fi_datatype)16, (enum fi_op)17);
    check("atomic.inject", result, 7);
    calls = 0;
    result = ep->atomic->readwrite(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16, 17,
                                   18, (enum fi_datatype)19, (enum fi_op)20, (void *)21);
    check("atomic.readwrite", result, 11);
    calls = 0;
    result = ep->atomic->readwritev(ep, AT(11), AT(12), 13, AT(14), AT(15), 16, 17, 18, 19,
                                    (enum fi_datatype)20, (enum fi_op)21, AT(22));
    check("atomic.readwritev", result, 12);
    calls = 0;
    result = ep->atomic->readwritemsg(ep, &sent_atomic, AT(12), AT(13), 14, 15);
    check("atomic.readwritemsg", result, 5);
    calls = 0;
    result = ep->atomic->compwrite(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15,
                                   (void *)16, (void *)17, 18, 19, 20, (enum fi_datatype)21,
                                   (enum fi_op)22, (void *)23);
    check("atomic.compwrite", result, 13);
    calls = 0;
    result = ep->atomic->compwritev(ep, AT(11), AT(12), 13, AT(14), AT(15), 16, AT(17), AT(18), 19,
                                    20, 21, 22, (enum fi_datatype)23, (enum fi_op)24, AT(25));
    check("atomic.compwritev", result, 15);
    calls = 0;
    result = ep->atomic->compwritemsg(ep, &sent_atomic, AT(12), AT(13), 14, AT(15), AT(16), 17, 18);
    check("atomic.compwritemsg", result, 8);
    calls = 0;
    result = ep->atomic->writevalid(ep, (enum fi_datatype)11, (enum fi_op)12, (void *)13);
    check("atomic.writevalid", result, 3);
    calls = 0;
    result = ep->atomic->readwritevalid(ep, (enum fi_datatype)11, (enum fi_op)12, (void *)13);
    check("atomic.readwritevalid", result, 3);
    calls = 0;
    result = ep->atomic->compwritevalid(ep, (enum fi_datatype)11, (enum fi_op)12, (void *)13);
    check("atomic.compwritevalid", result, 3);
}

static void collective_passes_through(void **state)
{
    struct fid_ep *ep = &outer.fid;
    ssize_t result;

    calls = 0;
    result = ep->collective->barrier(ep, 11, (void *)12);
    check("collective.barrier", result, 2);
    calls = 0;
    result = ep->collective->broadcast(ep, (void *)11, 12, (void *)13, 14, 15, (enum fi_datatype)16,
                                       17, (void *)18);
    check("collective.broadcast", result, 8);
    calls = 0;
    result = ep->collective->alltoall(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16,
                                      (enum fi_datatype)17, 18, (void *)19);
    check("collective.alltoall", result, 9);
    calls = 0;
    result = ep->collective->allreduce(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16,
                                       (enum fi_datatype)17, (enum fi_op)18, 19, (void *)20);
    check("collective.allreduce", result, 10);
    calls = 0;
    result = ep->collective->allgather(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16,
                                       (enum fi_datatype)17, 18, (void *)19);
    check("collective.allgather", result, 9);
    calls = 0;
    result =
        ep->collective->reduce_scatter(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16,
                                       (enum fi_datatype)17, (enum fi_op)18, 19, (void *)20);
    check("collective.reduce_scatter", result, 10);
    calls = 0;
    result = ep->collective->reduce(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16, 17,
                                    (enum fi_datatype)18, (enum fi_op)19, 20, (void *)21);
    check("collective.reduce", result, 11);
    calls = 0;
    result = ep->collective->scatter(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16, 17,
                                     (enum fi_datatype)18, 19, (void *)20);
    check("collective.scatter", result, 10);
    calls = 0;
    result = ep->collective->gather(ep, (void *)11, 12, (void *)13, (void *)14, (void *)15, 16, 17,
                                    (enum fi_datatype)18, 19, (void *)20);
    check("collective.gather", result, 10);
    calls = 0;
    result = ep->collective->msg(ep, &sent_collective, AT(12), AT(13), 14, 15);
    check("collective.msg", result, 5);
    calls = 0;
    result = ep->collective->barrier2(ep, 11, 12, (void *)13);
    check("collective.barrier2", result, 3);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(msg_passes_through),        cmocka_unit_test(tagged_passes_through),
        cmocka_unit_test(rma_passes_through),        cmocka_unit_test(atomic_passes_through),
        cmocka_unit_test(collective_passes_through), cmocka_unit_test(transfers_allocate_nothing),
    };

    return cmocka_run_group_tests_name("pass_data", tests, NULL, NULL);
}
