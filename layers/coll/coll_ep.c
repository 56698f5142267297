/* SPDX-License-Identifier: BSD-2-Clause */
/* The collective operations of an endpoint, and the layer's checks of the others. */

#include <rdma/fi_errno.h>

#include "core/op/atomic.h"
#include "layers/coll/coll.h"
#include "layers/coll/coll_tag.h"

enum {
    /* Above these a ring moves less than a tree, and its rounds weigh less. */
    RING_REDUCE_BYTES = 65536,
    RING_GATHER_BYTES = 131072,
};

/* ---- What is asked ---- */

static const uint64_t set_flags[] = {
    [FI_BARRIER] = FI_BARRIER_SET,     [FI_BROADCAST] = FI_BROADCAST_SET,
    [FI_ALLTOALL] = FI_ALLTOALL_SET,   [FI_ALLREDUCE] = FI_ALLREDUCE_SET,
    [FI_ALLGATHER] = FI_ALLGATHER_SET, [FI_REDUCE_SCATTER] = FI_REDUCE_SCATTER_SET,
    [FI_REDUCE] = FI_REDUCE_SET,       [FI_SCATTER] = FI_SCATTER_SET,
    [FI_GATHER] = FI_GATHER_SET,
};

static bool reduces(enum fi_collective_op coll)
{
    return coll == FI_ALLREDUCE || coll == FI_REDUCE_SCATTER || coll == FI_REDUCE;
}

static bool has_root(enum fi_collective_op coll)
{
    return coll == FI_BROADCAST || coll == FI_REDUCE || coll == FI_SCATTER || coll == FI_GATHER;
}

static bool combines(enum fi_datatype datatype, enum fi_op op)
{
    switch (op) {
    case FI_MIN:
    case FI_MAX:
    case FI_SUM:
    case FI_PROD:
    case FI_LOR:
    case FI_LAND:
    case FI_BOR:
    case FI_BAND:
    case FI_LXOR:
    case FI_BXOR: return atomic_valid(datatype, op, 0);
    default: return false;
    }
}

static enum coll_algorithm algorithm_of(enum fi_collective_op coll, uint32_t size, size_t count,
                                        size_t element)
{
    size_t bytes = count * element;

    switch (coll) {
    case FI_BARRIER: return COLL_BARRIER;
    case FI_BROADCAST: return COLL_BROADCAST;
    case FI_ALLTOALL: return COLL_ALLTOALL;
    case FI_ALLREDUCE:
        return size > 2 && count >= size && bytes >= RING_REDUCE_BYTES ? COLL_ALLREDUCE_RING
                                                                       : COLL_ALLREDUCE_DOUBLING;
    case FI_ALLGATHER:
        return size > 2 && bytes * size >= RING_GATHER_BYTES ? COLL_ALLGATHER_RING
                                                             : COLL_ALLGATHER_BRUCK;
    case FI_REDUCE_SCATTER: return COLL_REDUCE_SCATTER;
    case FI_REDUCE: return COLL_REDUCE;
    case FI_SCATTER: return COLL_SCATTER;
    default: return COLL_GATHER;
    }
}

/* A collective, in the form that all of them have. */
struct asked {
    enum fi_collective_op coll;
    const void *in;
    void *out; /* of a broadcast the only one */
    size_t count;
    void *in_desc, *out_desc;
    fi_addr_t group, root;
    enum fi_datatype datatype;
    enum fi_op op;
    uint64_t flags;
    void *context;
};

/* -FI_EOPNOTSUPP for a type or an operation that the collective does not take. */
static int check_kind(const struct asked *asked)
{
    if (asked->coll == FI_BARRIER)
        return 0;
    if (!atomic_size(asked->datatype))
        return -FI_EOPNOTSUPP;
    return reduces(asked->coll) && !combines(asked->datatype, asked->op) ? -FI_EOPNOTSUPP : 0;
}

/* The largest message, and all that a member holds, in bytes. */
static int check_size(const struct coll_ep *ep, const struct coll_group *group,
                      const struct asked *asked, size_t element)
{
    size_t bytes;

    if (__builtin_mul_overflow(asked->count, element, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)group->size, &bytes) || bytes > SIZE_MAX / 4 ||
        bytes > ep->cover.info->ep_attr->max_msg_size)
        return -FI_EMSGSIZE;
    return 0;
}

static int find_root(const struct coll_group *group, fi_addr_t addr, uint32_t *root)
{
    for (uint32_t i = 0; i < group->size; i++) {
        if (group->members[i] == addr) {
            *root = i;
            return 0;
        }
    }
    return -FI_EINVAL;
}

static int check_group(struct coll_ep *ep, const struct coll_group *group,
                       const struct asked *asked)
{
    size_t outstanding = 0;

    if (!ep->enabled || progress_forked(ep->cover.domain->progress))
        return -FI_EOPBADSTATE;
    if (!group || !group->joined)
        return -FI_EINVAL;
    if (group->broken || group->breaking)
        return -FI_ECONNABORTED;
    if (group->allowed && !(group->allowed & set_flags[asked->coll]))
        return -FI_EOPNOTSUPP;
    list_for_each (pos, &group->ops)
        outstanding++;
    return outstanding < COLL_OUTSTANDING ? 0 : -FI_EAGAIN;
}

/* In place: what others still need must not be written over. */
static int check_buffers(const struct coll_group *group, const struct asked *asked)
{
    bool spread = asked->coll == FI_ALLTOALL || asked->coll == FI_REDUCE_SCATTER;

    return spread && group->size > 1 && asked->count && asked->in == asked->out ? -FI_EINVAL : 0;
}

static int start(struct coll_ep *ep, const struct asked *asked)
{
    struct coll_group *group = coll_group_find(ep, asked->group);
    size_t element = asked->coll == FI_BARRIER ? 1 : atomic_size(asked->datatype);
    uint64_t flags = asked->flags | ep->cover.info->tx_attr->op_flags;
    struct coll_request request = {
        .element = element,
        .datatype = asked->datatype,
        .op = asked->op,
        .in = asked->in,
        .out = asked->out,
        .in_desc = asked->in_desc,
        .out_desc = asked->out_desc,
        .context = asked->context,
        .wanted = completion_wanted(ep->cover.binding.tx_selective, flags),
    };
    uint32_t root = 0;
    int rc = check_group(ep, group, asked);

    if (!rc)
        rc = check_size(ep, group, asked, element);
    if (!rc)
        rc = check_buffers(group, asked);
    if (!rc && has_root(asked->coll))
        rc = find_root(group, asked->root, &root);
    if (rc)
        return rc;
    request.plan = (struct coll_plan){
        .algorithm = algorithm_of(asked->coll, group->size, asked->count, element),
        .rank = group->rank,
        .size = group->size,
        .root = root,
        .count = asked->count,
    };
    request.tag = group->sequence;
    group->sequence++;
    rc = coll_op_start(group, &request);
    if (rc)
        group->sequence--;
    return rc;
}

/* One segment on either side; a broadcast has one buffer for both. -FI_EINVAL. */
static int read_op(struct asked *asked, const struct op *op)
{
    const struct fi_ioc *in = op->count ? op->ioc : NULL;
    const struct op_operand *result = &op->result;
    bool broadcasts = op->collective == FI_BROADCAST;

    if (op->count > 1 || result->count > 1 || (unsigned)op->collective > FI_GATHER)
        return -FI_EINVAL;
    *asked = (struct asked){
        .coll = op->collective,
        .in = in ? in->addr : NULL,
        .out = result->count      ? result->ioc->addr
               : broadcasts && in ? in->addr
                                  : NULL,
        .count = in              ? in->count
                 : result->count ? result->ioc->count
                                 : 0,
        .in_desc = in && op->desc ? op->desc[0] : NULL,
        .out_desc = result->count && result->desc ? result->desc[0] : NULL,
        .group = op->peer,
        .root = op->root,
        .datatype = op->datatype,
        .op = op->op,
        .flags = op->flags,
        .context = op->context,
    };
    if (broadcasts)
        asked->out_desc = asked->in_desc;
    if (op->collective == FI_SCATTER && result->count)
        asked->count = result->ioc->count;
    return 0;
}

/* The flags that the endpoint was opened with are added when it starts. */
static ssize_t post_collective(struct coll_ep *ep, const struct op *op)
{
    struct asked asked;
    int rc = read_op(&asked, op);

    if (!rc)
        rc = asked.flags & FI_TRIGGER ? -FI_ENOSYS : check_kind(&asked);
    if (rc)
        return rc;
    progress_lock(ep->cover.domain->progress);
    rc = start(ep, &asked);
    progress_unlock(ep->cover.domain->progress);
    return rc;
}

/* Receives of the application match no message of ours. */
ssize_t coll_post(struct ep *base, struct op *op)
{
    struct coll_ep *ep = coll_ep_of(&base->fid);

    if (op->group == OP_GROUP_COLLECTIVE)
        return ep->collects ? post_collective(ep, op) : -FI_ENOSYS;
    if (op->group == OP_GROUP_TRECV)
        op->ignore &= ~COLL_TAGS;
    return layer_post(base, op);
}

int coll_query(struct fid_domain *fid, enum fi_collective_op coll, struct fi_collective_attr *attr,
               uint64_t flags)
{
    struct layer_domain *domain = layer_domain_of(fid);
    struct asked asked = {.coll = coll};
    size_t size;
    int rc;

    if ((unsigned)coll > FI_GATHER)
        return -FI_EOPNOTSUPP;
    if (flags & ~FI_SCATTER || !attr || attr->mode)
        return -FI_EINVAL;
    asked.datatype = attr->datatype;
    asked.op = attr->op;
    rc = check_kind(&asked);
    if (rc)
        return rc;
    size = coll == FI_BARRIER ? 0 : atomic_size(attr->datatype);
    attr->datatype_attr.size = size;
    attr->datatype_attr.count = size ? domain->base.info->ep_attr->max_msg_size / size : 0;
    attr->max_members = COLL_MEMBERS_MAX;
    attr->mode = 0;
    return 0;
}

/* ---- Tables ---- */

static int bind_eq(struct fid *fid, struct fid *target, uint64_t flags)
{
    struct coll_ep *ep = *hook_own(fid);
    int rc = target->fclass == FI_CLASS_EQ && ep->eq ? -FI_EINVAL
                                                     : layer_ep_fid_ops.bind(fid, target, flags);

    if (!rc && target->fclass == FI_CLASS_EQ)
        coll_eq_bind(ep, object_of(target, struct hook_eq, fid.fid));
    return rc;
}

static int ep_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
                   void *context)
{
    return flags & FI_COLLECTIVE ? coll_join(ep, addr, flags, mc, context)
                                 : layer_cm_ops.join(ep, addr, flags, mc, context);
}

struct fi_ops coll_ep_fid_ops = {.size = sizeof(coll_ep_fid_ops), .bind = bind_eq};
struct fi_ops_cm coll_cm_ops = {.size = sizeof(coll_cm_ops), .join = ep_join};
