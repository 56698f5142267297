/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An endpoint or context of ours: the public fid, and the one function by which it takes
 * operations. struct ep is the first member of every such object.
 *
 * Upwards an endpoint shows the public tables below, which build a struct op and post it. Between
 * two parts of ours the op itself goes down: op_post. An endpoint that is not ours (of an external
 * provider) gets the public call instead.
 */
#ifndef WEFT_CORE_EP_EP_H
#define WEFT_CORE_EP_EP_H

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/op/op.h"

/* A receive of one buffer, from anybody, with the endpoint's own flags. */
struct ep_receive {
    void *buf, *desc, *context;
    size_t len;
};

/* A message of one segment and, where `slice` has bytes, a second one, posted with FI_COMPLETION
 * and no other flag. */
struct ep_send {
    void *buf, *desc, *context;
    size_t len;
    struct iovec slice;
    void *slice_desc;
};

struct ep {
    struct fid_ep fid;
    /* Starts the operation, as the public functions do: 0, or a negative FI_E code and nothing has
     * happened. May be called with any op whose group is in `groups`. */
    ssize_t (*post)(struct ep *ep, struct op *op);
    unsigned groups; /* enum op_group: groups that it was opened for; others are -FI_ENOSYS */
    /* fi_atomicvalid and its kin; function as in struct op. May be NULL without OP_GROUP_ATOMIC. */
    int (*atomic_valid)(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                        size_t *count);
    /* Receives of FI_MSG, as fi_recv posts each, in fewer calls of what is below; how many of them,
     * from the first on, were posted. May be NULL: each by `post`. */
    size_t (*receive)(struct ep *ep, const struct ep_receive *const *receives, size_t count);
    /* Messages of FI_MSG to one address, as fi_sendmsg posts each, likewise. It takes those that
     * are as usual and that there is room for now: the first that it does not take goes by `post`,
     * which says why. May be NULL. */
    size_t (*send)(struct ep *ep, fi_addr_t dest, const struct ep_send *sends, size_t count);
};

/* The public data tables of every endpoint of ours. */
extern struct fi_ops_msg ep_msg_ops;
extern struct fi_ops_tagged ep_tagged_ops;
extern struct fi_ops_rma ep_rma_ops;
extern struct fi_ops_atomic ep_atomic_ops;
extern struct fi_ops_collective ep_collective_ops;

/* The groups of an endpoint with these capabilities (FI_TAGGED, FI_RMA, FI_ATOMIC; untagged
 * messages always). Without own_receives they are posted to a shared context. */
unsigned ep_groups(uint64_t caps, bool own_receives);

/* Sets the five tables. */
void ep_set_data_ops(struct ep *ep);

/* Where a layer posts: an endpoint of its lower. */
struct op_target {
    struct ep *ep;      /* NULL: not ours */
    struct fid_ep *fid; /* the same endpoint */
};

/* The target that lower is. lower must outlive it. */
struct op_target op_target_of(struct fid_ep *lower);
/* The groups that can be posted there. */
unsigned op_target_groups(const struct op_target *target);

/* fi_atomicvalid and its kin there; function as in struct op. */
int op_atomic_valid(const struct op_target *target, uint64_t function, enum fi_datatype datatype,
                    enum fi_op op, size_t *count);

/* Posts op on a lower's endpoint. */
static inline ssize_t op_post(const struct op_target *target, struct op *op)
{
    struct ep *ep = target->ep;

    if (__builtin_expect(!ep, 0))
        return op_call_public(target->fid, op);
    if (__builtin_expect(!(ep->groups & op->group), 0))
        return -FI_ENOSYS;
    return ep->post(ep, op);
}

/* Posts a receive there, as fi_recv does. */
int op_receive_one(const struct op_target *target, const struct ep_receive *receive);

/* Posts receives there; how many of them, from the first on, were taken. */
static inline size_t op_receive(const struct op_target *target,
                                const struct ep_receive *const *receives, size_t count)
{
    size_t posted = 0;

    if (target->ep && target->ep->receive)
        return target->ep->receive(target->ep, receives, count);
    while (posted < count && !op_receive_one(target, receives[posted]))
        posted++;
    return posted;
}

/* Posts messages there in one call; how many of them, from the first on, were taken. */
static inline size_t op_send(const struct op_target *target, fi_addr_t dest,
                             const struct ep_send *sends, size_t count)
{
    return target->ep && target->ep->send ? target->ep->send(target->ep, dest, sends, count) : 0;
}

/* fi_open_ops with this name gives the struct ep that a fid of ours is the first member of. */
#define EP_OPS_NAME "weft_ep"

/* fi_ops.ops_open of an endpoint that has no operations of its own to give. */
int ep_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

#endif
