/* SPDX-License-Identifier: BSD-2-Clause */
/* Collectives of a layer below: they have their place among what is posted, and the lower counts
 * them as writes. */
#include <rdma/fi_errno.h>

#include "layers/order/order.h"

/* One that is posted, between begin and finish. */
struct posting {
    struct order_ep *ep;
    struct fid_ep *lower;
    struct order_item *item;
    uint64_t flags; /* the lower's */
};

/* item NULL: there is no room. */
static inline struct posting begin(struct fid_ep *fid, uint64_t flags, void *context)
{
    struct order_ep *ep = object_of(fid, struct pass_ep, fid)->hook;
    const struct report *report = &ep->cover.report;
    struct posting posting = {ep, ep->cover.pass->lower, NULL, flags | FI_COMPLETION};

    cover_enter(&ep->cover);
    posting.item = order_post(ep, REPORT_WRITE, context,
                              report->tx && report_wanted(report->tx_selective, flags));
    return posting;
}

static inline ssize_t finish(const struct posting *posting, ssize_t rc)
{
    return cover_leave(&posting->ep->cover,
                       posting->item ? order_posted(posting->item, rc) : -FI_EAGAIN);
}

static ssize_t barrier2(struct fid_ep *fid, fi_addr_t group, uint64_t flags, void *context)
{
    struct posting p = begin(fid, flags, context);

    return finish(&p, p.item ? p.lower->collective->barrier2(p.lower, group, p.flags, p.item) : 0);
}

static ssize_t barrier(struct fid_ep *fid, fi_addr_t group, void *context)
{
    return barrier2(fid, group, order_tx_flags(fid), context);
}

static ssize_t broadcast(struct fid_ep *fid, void *buf, size_t count, void *desc, fi_addr_t group,
                         fi_addr_t root, enum fi_datatype datatype, uint64_t flags, void *context)
{
    struct posting p = begin(fid, flags, context);
    ssize_t rc = 0;

    if (p.item)
        rc = p.lower->collective->broadcast(p.lower, buf, count, desc, group, root, datatype,
                                            p.flags, p.item);
    return finish(&p, rc);
}

static ssize_t alltoall(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
                        void *result_desc, fi_addr_t group, enum fi_datatype datatype,
                        uint64_t flags, void *context)
{
    struct posting p = begin(fid, flags, context);
    ssize_t rc = 0;

    if (p.item)
        rc = p.lower->collective->alltoall(p.lower, buf, count, desc, result, result_desc, group,
                                           datatype, p.flags, p.item);
    return finish(&p, rc);
}

static ssize_t allreduce(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                         void *result, void *result_desc, fi_addr_t group,
                         enum fi_datatype datatype, enum fi_op op, uint64_t flags, void *context)
{
    struct posting p = begin(fid, flags, context);
    ssize_t rc = 0;

    if (p.item)
        rc = p.lower->collective->allreduce(p.lower, buf, count, desc, result, result_desc, group,
                                            datatype, op, p.flags, p.item);
    return finish(&p, rc);
}

static ssize_t allgather(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                         void *result, void *result_desc, fi_addr_t group,
                         enum fi_datatype datatype, uint64_t flags, void *context)
{
    struct posting p = begin(fid, flags, context);
    ssize_t rc = 0;

    if (p.item)
        rc = p.lower->collective->allgather(p.lower, buf, count, desc, result, result_desc, group,
                                            datatype, p.flags, p.item);
    return finish(&p, rc);
}

static ssize_t reduce_scatter(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                              void *result, void *result_desc, fi_addr_t group,
                              enum fi_datatype datatype, enum fi_op op, uint64_t flags,
                              void *context)
{
    struct posting p = begin(fid, flags, context);
    ssize_t rc = 0;

    if (p.item)
        rc = p.lower->collective->reduce_scatter(p.lower, buf, count, desc, result, result_desc,
                                                 group, datatype, op, p.flags, p.item);
    return finish(&p, rc);
}

static ssize_t reduce(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
                      void *result_desc, fi_addr_t group, fi_addr_t root, enum fi_datatype datatype,
                      enum fi_op op, uint64_t flags, void *context)
{
    struct posting p = begin(fid, flags, context);
    ssize_t rc = 0;

    if (p.item)
        rc = p.lower->collective->reduce(p.lower, buf, count, desc, result, result_desc, group,
                                         root, datatype, op, p.flags, p.item);
    return finish(&p, rc);
}

static ssize_t scatter(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
                       void *result_desc, fi_addr_t group, fi_addr_t root,
                       enum fi_datatype datatype, uint64_t flags, void *context)
{
    struct posting p = begin(fid, flags, context);
    ssize_t rc = 0;

    if (p.item)
        rc = p.lower->collective->scatter(p.lower, buf, count, desc, result, result_desc, group,
                                          root, datatype, p.flags, p.item);
    return finish(&p, rc);
}

static ssize_t gather(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
                      void *result_desc, fi_addr_t group, fi_addr_t root, enum fi_datatype datatype,
                      uint64_t flags, void *context)
{
    struct posting p = begin(fid, flags, context);
    ssize_t rc = 0;

    if (p.item)
        rc = p.lower->collective->gather(p.lower, buf, count, desc, result, result_desc, group,
                                         root, datatype, p.flags, p.item);
    return finish(&p, rc);
}

static ssize_t message(struct fid_ep *fid, const struct fi_msg_collective *msg,
                       struct fi_ioc *result, void **result_desc, size_t result_count,
                       uint64_t flags)
{
    struct posting p = begin(fid, flags, msg->context);
    struct fi_msg_collective down = *msg;
    ssize_t rc = 0;

    down.context = p.item;
    if (p.item)
        rc = p.lower->collective->msg(p.lower, &down, result, result_desc, result_count, p.flags);
    return finish(&p, rc);
}

static struct fi_ops_collective ops = {
    .size = sizeof(ops),
    .barrier = barrier,
    .broadcast = broadcast,
    .alltoall = alltoall,
    .allreduce = allreduce,
    .allgather = allgather,
    .reduce_scatter = reduce_scatter,
    .reduce = reduce,
    .scatter = scatter,
    .gather = gather,
    .msg = message,
    .barrier2 = barrier2,
};

void order_collective_tables(struct pass_ops *tables)
{
    tables->collective = &ops;
}
