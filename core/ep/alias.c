/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ep/alias.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/fid.h"
#include "core/ep/ep.h"

struct alias {
    union {
        struct ep base;
        struct fid_ep fid; /* base.fid */
    };
    struct fid_ep *ep;
    struct op_target target;   /* ep */
    struct children *children; /* of the endpoint */
    uint64_t tx_flags, rx_flags;
};

static struct alias *alias_of(struct fid_ep *fid)
{
    return object_of(fid, struct alias, fid);
}

static ssize_t post(struct ep *ep, struct op *op)
{
    const struct alias *alias = object_of(ep, struct alias, base);
    bool receives = op_is_receive(op);

    op_finalize_flags(op, receives ? alias->rx_flags : alias->tx_flags);
    return op_post(&alias->target, op);
}

static int atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                        size_t *count)
{
    return op_atomic_valid(&object_of(ep, struct alias, base)->target, function, datatype, op,
                           count);
}

/* ---- The fid ---- */

static int alias_close(struct fid *fid)
{
    struct alias *alias = object_of(fid, struct alias, fid.fid);

    children_release(alias->children);
    free(alias);
    return 0;
}

static int alias_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct alias *alias = object_of(fid, struct alias, fid.fid);

    return fi_ep_bind(alias->ep, other, flags);
}

static int alias_control(struct fid *fid, int command, void *arg)
{
    struct alias *alias = object_of(fid, struct alias, fid.fid);
    uint64_t *flags = arg;
    uint64_t *mine = command == FI_GETOPSFLAG || command == FI_SETOPSFLAG
                         ? *flags & FI_TRANSMIT ? &alias->tx_flags : &alias->rx_flags
                         : NULL;

    if (!mine)
        return fi_control(&alias->ep->fid, command, arg);
    if (!(*flags & FI_TRANSMIT) == !(*flags & FI_RECV))
        return -FI_EINVAL;
    if (command == FI_GETOPSFLAG)
        *flags = *mine;
    else if (*flags & FI_TRANSMIT && *flags & FI_MATCH_COMPLETE)
        return (int)op_refuse_match();
    else
        *mine = *flags & ~(FI_TRANSMIT | FI_RECV);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = alias_close,
    .bind = alias_bind,
    .control = alias_control,
    .ops_open = ep_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

static ssize_t alias_cancel(fid_t fid, void *context)
{
    return fi_cancel(&object_of(fid, struct alias, fid.fid)->ep->fid, context);
}

static int alias_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    struct alias *alias = object_of(fid, struct alias, fid.fid);

    return fi_getopt(&alias->ep->fid, level, optname, optval, optlen);
}

static int alias_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    struct alias *alias = object_of(fid, struct alias, fid.fid);

    return fi_setopt(&alias->ep->fid, level, optname, optval, optlen);
}

static ssize_t alias_rx_size_left(struct fid_ep *fid)
{
    return fi_rx_size_left(alias_of(fid)->ep);
}

static ssize_t alias_tx_size_left(struct fid_ep *fid)
{
    return fi_tx_size_left(alias_of(fid)->ep);
}

static struct fi_ops_ep ep_ops = {
    .size = sizeof(ep_ops),
    .cancel = alias_cancel,
    .getopt = alias_getopt,
    .setopt = alias_setopt,
    .tx_ctx = enosys_ep_tx_ctx,
    .rx_ctx = enosys_ep_rx_ctx,
    .rx_size_left = alias_rx_size_left,
    .tx_size_left = alias_tx_size_left,
};

int alias_open(struct fid_ep *ep, struct children *children, uint64_t tx_op_flags,
               uint64_t rx_op_flags, struct fi_alias *request)
{
    uint64_t flags = request->flags & ~(FI_TRANSMIT | FI_RECV);
    struct alias *alias;

    if (!(request->flags & FI_TRANSMIT) == !(request->flags & FI_RECV))
        return -FI_EINVAL;
    alias = calloc(1, sizeof(*alias));
    if (!alias)
        return -FI_ENOMEM;
    fid_init(&alias->fid.fid, FI_CLASS_EP, ep->fid.context, &fid_ops);
    alias->fid.ops = &ep_ops;
    alias->fid.cm = &enosys_cm_ops;
    ep_set_data_ops(&alias->base);
    alias->target = op_target_of(ep);
    alias->base.post = post;
    alias->base.groups = op_target_groups(&alias->target) & ~(unsigned)OP_GROUP_COLLECTIVE;
    alias->base.atomic_valid = atomic_valid;
    alias->ep = ep;
    alias->children = children;
    alias->tx_flags = request->flags & FI_TRANSMIT ? flags : tx_op_flags;
    alias->rx_flags = request->flags & FI_RECV ? flags : rx_op_flags;
    children_hold(children);
    *request->fid = &alias->fid.fid;
    return 0;
}
