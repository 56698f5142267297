/* SPDX-License-Identifier: BSD-2-Clause */
/* Triggered operations: the counter in their context. */
#include "core/pass_trigger.h"

#include <stdlib.h>

struct fid *pass_trigger_down(const struct pass_fabric *fabric, struct fid *fid)
{
    if (!fid || (fid->ops != fabric->ops.ep_fid && fid->ops != fabric->ops.cntr_fid))
        return fid;
    return pass_down(fid);
}

static const struct pass_ops *own(struct fid_ep *fid)
{
    return &object_of(fid, struct pass_ep, fid)->domain->fabric->ops;
}

/* Ours, if there is a counter of ours, which then is the lower's. */
static struct fid_cntr *put_lower(struct fid_ep *fid, void *context)
{
    const struct pass_fabric *fabric = object_of(fid, struct pass_ep, fid)->domain->fabric;
    struct fi_triggered_context *triggered = context;
    struct fid_cntr *ours, *lower;

    if (!context || triggered->event_type != FI_TRIGGER_THRESHOLD)
        return NULL;
    ours = triggered->trigger.threshold.cntr;
    if (!ours)
        return NULL;
    lower = object_of(pass_trigger_down(fabric, &ours->fid), struct fid_cntr, fid);
    if (lower == ours)
        return NULL;
    triggered->trigger.threshold.cntr = lower;
    return ours;
}

/* Only what was refused is still the application's: the rest may have completed by now. */
static ssize_t put_back(void *context, struct fid_cntr *ours, ssize_t rc)
{
    if (rc && ours)
        ((struct fi_triggered_context *)context)->trigger.threshold.cntr = ours;
    return rc;
}

/* A call of the part's own table, with a triggered operation's context or NULL. */
#define PASS(context, call)                                                                        \
    do {                                                                                           \
        void *triggered = (context);                                                               \
        struct fid_cntr *ours = put_lower(ep, triggered);                                          \
                                                                                                   \
        return put_back(triggered, ours, own(ep)->call);                                           \
    } while (0)

/* ---- By their flags ---- */

static void *context_if(uint64_t flags, void *context)
{
    return flags & FI_TRIGGER ? context : NULL;
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    PASS(context_if(flags, msg->context), msg->recvmsg(ep, msg, flags));
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    PASS(context_if(flags, msg->context), msg->sendmsg(ep, msg, flags));
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    PASS(context_if(flags, msg->context), tagged->recvmsg(ep, msg, flags));
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    PASS(context_if(flags, msg->context), tagged->sendmsg(ep, msg, flags));
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    PASS(context_if(flags, msg->context), rma->readmsg(ep, msg, flags));
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    PASS(context_if(flags, msg->context), rma->writemsg(ep, msg, flags));
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    PASS(context_if(flags, msg->context), atomic->writemsg(ep, msg, flags));
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   struct fi_ioc *result, void **desc, size_t count, uint64_t flags)
{
    PASS(context_if(flags, msg->context),
         atomic->readwritemsg(ep, msg, result, desc, count, flags));
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   const struct fi_ioc *compare, void **compare_desc,
                                   size_t compare_count, struct fi_ioc *result, void **desc,
                                   size_t count, uint64_t flags)
{
    PASS(context_if(flags, msg->context),
         atomic->compwritemsg(ep, msg, compare, compare_desc, compare_count, result, desc, count,
                              flags));
}

/* ---- All that have a context, on an alias ---- */

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
                        void *context)
{
    PASS(context, msg->recv(ep, buf, len, desc, src, context));
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src, void *context)
{
    PASS(context, msg->recvv(ep, iov, desc, count, src, context));
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
                        void *context)
{
    PASS(context, msg->send(ep, buf, len, desc, dest, context));
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest, void *context)
{
    PASS(context, msg->sendv(ep, iov, desc, count, dest, context));
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                            uint64_t data, fi_addr_t dest, void *context)
{
    PASS(context, msg->senddata(ep, buf, len, desc, data, dest, context));
}

static ssize_t tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
                           uint64_t tag, uint64_t ignore, void *context)
{
    PASS(context, tagged->recv(ep, buf, len, desc, src, tag, ignore, context));
}

static ssize_t tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
{
    PASS(context, tagged->recvv(ep, iov, desc, count, src, tag, ignore, context));
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    PASS(context, tagged->send(ep, buf, len, desc, dest, tag, context));
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest, uint64_t tag, void *context)
{
    PASS(context, tagged->sendv(ep, iov, desc, count, dest, tag, context));
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                               uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
    PASS(context, tagged->senddata(ep, buf, len, desc, data, dest, tag, context));
}

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
                        uint64_t addr, uint64_t key, void *context)
{
    PASS(context, rma->read(ep, buf, len, desc, src, addr, key, context));
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
    PASS(context, rma->readv(ep, iov, desc, count, src, addr, key, context));
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
                         uint64_t addr, uint64_t key, void *context)
{
    PASS(context, rma->write(ep, buf, len, desc, dest, addr, key, context));
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    PASS(context, rma->writev(ep, iov, desc, count, dest, addr, key, context));
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                             uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                             void *context)
{
    PASS(context, rma->writedata(ep, buf, len, desc, data, dest, addr, key, context));
}

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                            fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                            enum fi_op op, void *context)
{
    PASS(context, atomic->write(ep, buf, count, desc, dest, addr, key, datatype, op, context));
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                             fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                             enum fi_op op, void *context)
{
    PASS(context, atomic->writev(ep, iov, desc, count, dest, addr, key, datatype, op, context));
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                void *result, void *result_desc, fi_addr_t dest, uint64_t addr,
                                uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                void *context)
{
    PASS(context, atomic->readwrite(ep, buf, count, desc, result, result_desc, dest, addr, key,
                                    datatype, op, context));
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                 size_t count, struct fi_ioc *result, void **result_desc,
                                 size_t result_count, fi_addr_t dest, uint64_t addr, uint64_t key,
                                 enum fi_datatype datatype, enum fi_op op, void *context)
{
    PASS(context, atomic->readwritev(ep, iov, desc, count, result, result_desc, result_count, dest,
                                     addr, key, datatype, op, context));
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                const void *compare, void *compare_desc, void *result,
                                void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key,
                                enum fi_datatype datatype, enum fi_op op, void *context)
{
    PASS(context, atomic->compwrite(ep, buf, count, desc, compare, compare_desc, result,
                                    result_desc, dest, addr, key, datatype, op, context));
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                 size_t count, const struct fi_ioc *compare, void **compare_desc,
                                 size_t compare_count, struct fi_ioc *result, void **result_desc,
                                 size_t result_count, fi_addr_t dest, uint64_t addr, uint64_t key,
                                 enum fi_datatype datatype, enum fi_op op, void *context)
{
    PASS(context,
         atomic->compwritev(ep, iov, desc, count, compare, compare_desc, compare_count, result,
                            result_desc, result_count, dest, addr, key, datatype, op, context));
}

/* ---- Tables ---- */

static void flagged_tables(struct pass_triggers *tables, const struct pass_ops *ops)
{
    tables->msg = *ops->msg;
    tables->msg.recvmsg = msg_recvmsg;
    tables->msg.sendmsg = msg_sendmsg;
    tables->tagged = *ops->tagged;
    tables->tagged.recvmsg = tagged_recvmsg;
    tables->tagged.sendmsg = tagged_sendmsg;
    tables->rma = *ops->rma;
    tables->rma.readmsg = rma_readmsg;
    tables->rma.writemsg = rma_writemsg;
    tables->atomic = *ops->atomic;
    tables->atomic.writemsg = atomic_writemsg;
    tables->atomic.readwritemsg = atomic_readwritemsg;
    tables->atomic.compwritemsg = atomic_compwritemsg;
}

static void rx_tables(struct pass_triggers *tables)
{
    tables->rx_msg = tables->msg;
    tables->rx_msg.recv = msg_recv;
    tables->rx_msg.recvv = msg_recvv;
    tables->rx_tagged = tables->tagged;
    tables->rx_tagged.recv = tagged_recv;
    tables->rx_tagged.recvv = tagged_recvv;
}

static void tx_tables(struct pass_triggers *tables)
{
    tables->tx_msg = tables->msg;
    tables->tx_msg.send = msg_send;
    tables->tx_msg.sendv = msg_sendv;
    tables->tx_msg.senddata = msg_senddata;
    tables->tx_tagged = tables->tagged;
    tables->tx_tagged.send = tagged_send;
    tables->tx_tagged.sendv = tagged_sendv;
    tables->tx_tagged.senddata = tagged_senddata;
    tables->tx_rma = tables->rma;
    tables->tx_rma.read = rma_read;
    tables->tx_rma.readv = rma_readv;
    tables->tx_rma.write = rma_write;
    tables->tx_rma.writev = rma_writev;
    tables->tx_rma.writedata = rma_writedata;
    tables->tx_atomic = tables->atomic;
    tables->tx_atomic.write = atomic_write;
    tables->tx_atomic.writev = atomic_writev;
    tables->tx_atomic.readwrite = atomic_readwrite;
    tables->tx_atomic.readwritev = atomic_readwritev;
    tables->tx_atomic.compwrite = atomic_compwrite;
    tables->tx_atomic.compwritev = atomic_compwritev;
}

struct pass_triggers *pass_triggers_create(const struct pass_ops *ops)
{
    struct pass_triggers *tables = calloc(1, sizeof(*tables));

    if (!tables)
        return NULL;
    flagged_tables(tables, ops);
    rx_tables(tables);
    tx_tables(tables);
    return tables;
}

void pass_triggers_set(struct pass_ep *ep)
{
    struct pass_triggers *tables = ep->domain->fabric->triggers;

    if (ep->lower->msg)
        ep->fid.msg = &tables->msg;
    if (ep->lower->tagged)
        ep->fid.tagged = &tables->tagged;
    if (ep->lower->rma)
        ep->fid.rma = &tables->rma;
    if (ep->lower->atomic)
        ep->fid.atomic = &tables->atomic;
}

void pass_triggers_set_alias(struct pass_ep *ep, uint64_t flags)
{
    struct pass_triggers *tables = ep->domain->fabric->triggers;
    bool tx = flags & FI_TRANSMIT;

    if (!(flags & FI_TRIGGER))
        return;
    if (ep->lower->msg)
        ep->fid.msg = tx ? &tables->tx_msg : &tables->rx_msg;
    if (ep->lower->tagged)
        ep->fid.tagged = tx ? &tables->tx_tagged : &tables->rx_tagged;
    if (tx && ep->lower->rma)
        ep->fid.rma = &tables->tx_rma;
    if (tx && ep->lower->atomic)
        ep->fid.atomic = &tables->tx_atomic;
}
