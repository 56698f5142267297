/* SPDX-License-Identifier: BSD-2-Clause */
#include "split.h"

#include "core/base/enosys.h"
#include "core/base/fid.h"

static ssize_t split_post(struct ep *ep, struct op *op)
{
    const struct split *split = object_of(ep, struct split, base);
    const struct op_target *target = &split->lower[op->peer & 1];

    if (op->group & (OP_GROUP_RECV | OP_GROUP_TRECV))
        return op_post(&split->receives, op);
    op->peer >>= 1;
    return op_post(target, op);
}

static int split_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype,
                              enum fi_op op, size_t *count)
{
    const struct split *split = object_of(ep, struct split, base);
    size_t other;
    int rc = op_atomic_valid(&split->lower[0], function, datatype, op, count);

    if (!rc)
        rc = op_atomic_valid(&split->lower[1], function, datatype, op, &other);
    if (!rc && other < *count)
        *count = other;
    return rc;
}

/* The memory is the opener's. */
static int split_close(struct fid *fid)
{
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = split_close,
    .bind = enosys_bind,
    .control = enosys_control,
    .ops_open = ep_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

void split_open(struct split *split, struct fid_ep *even, struct fid_ep *odd,
                struct fid_ep *receives)
{
    fid_init(&split->fid.fid, FI_CLASS_EP, NULL, &fid_ops);
    split->fid.ops = &enosys_ep_ops;
    split->fid.cm = &enosys_cm_ops;
    ep_set_data_ops(&split->base);
    split->lower[0] = op_target_of(even);
    split->lower[1] = op_target_of(odd);
    split->receives = op_target_of(receives);
    split->base.post = split_post;
    split->base.atomic_valid = split_atomic_valid;
    split->base.groups = (op_target_groups(&split->lower[0]) & op_target_groups(&split->lower[1])) |
                         op_target_groups(&split->receives);
}
