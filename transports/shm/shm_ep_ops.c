/* SPDX-License-Identifier: BSD-2-Clause */
/* Options, names, and the tables of an endpoint. */
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/alias.h"
#include "core/no.h"
#include "core/part.h"
#include "core/post.h"
#include "transports/shm/shm_listener.h"
#include "transports/shm/shm_op.h"

static struct shm_ep *ep_of(fid_t fid)
{
    return object_of(fid, struct shm_ep, fid.fid);
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
    struct shm_ep *ep = ep_of(fid);
    ssize_t rc;

    if (!ep->match)
        return -FI_ENOSYS;
    unit_lock(ep->report.unit);
    rc = match_cancel(ep->match, context);
    unit_unlock(ep->report.unit);
    return rc;
}

static size_t unexpected(struct shm_ep *ep)
{
    size_t count;

    if (!ep->match)
        return 0;
    unit_lock(ep->report.unit);
    count = match_queued(ep->match);
    unit_unlock(ep->report.unit);
    return count;
}

static int unexpected_queue(struct shm_ep *ep, void *value, size_t *len)
{
    int rc;

    if (!ep->match)
        return match_tell_queued(NULL, value, len);
    unit_lock(ep->report.unit);
    rc = match_tell_queued(ep->match, value, len);
    unit_unlock(ep->report.unit);
    return rc;
}

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
    struct shm_ep *ep = ep_of(fid);
    size_t answer;

    if (level != FI_OPT_ENDPOINT)
        return -FI_ENOPROTOOPT;
    switch (name) {
    case FI_OPT_MIN_MULTI_RECV: answer = ep->min_multi_recv; break;
    case OPT_UNEXPECTED_QUEUE: return unexpected_queue(ep, value, len);
    case OPT_UNEXPECTED: answer = unexpected(ep); break;
    case FI_OPT_TX_SIZE: answer = ep->tx_size; break;
    case FI_OPT_RX_SIZE: answer = ep->rx_size; break;
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_MAX_RMA_SIZE: answer = SIZE_MAX; break;
    case FI_OPT_MAX_ATOMIC_SIZE: answer = SHM_ATOMIC_MAX; break;
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_TAGGED_SIZE:
    case FI_OPT_INJECT_RMA_SIZE:
    case FI_OPT_INJECT_ATOMIC_SIZE: answer = SHM_INJECT; break;
    default: return -FI_ENOPROTOOPT;
    }
    if (*len < sizeof(answer)) {
        *len = sizeof(answer);
        return -FI_ETOOSMALL;
    }
    *len = sizeof(answer);
    memcpy(value, &answer, sizeof(answer));
    return 0;
}

/* There is no other way here. */
static int set_shared_memory(const void *value, size_t len)
{
    bool permitted;

    if (len != sizeof(permitted))
        return -FI_EINVAL;
    memcpy(&permitted, value, sizeof(permitted));
    return permitted ? 0 : -FI_EOPNOTSUPP;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    struct shm_ep *ep = ep_of(fid);

    if (level == FI_OPT_ENDPOINT && name == FI_OPT_SHARED_MEMORY_PERMITTED)
        return set_shared_memory(value, len);
    if (level == FI_OPT_ENDPOINT && name == OPT_MATCH_WATCH)
        return match_watch_option(ep->match, value);
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (len != sizeof(size_t))
        return -FI_EINVAL;
    memcpy(&ep->min_multi_recv, value, sizeof(size_t));
    if (ep->match) {
        unit_lock(ep->report.unit);
        match_set_min_multi_recv(ep->match, ep->min_multi_recv);
        unit_unlock(ep->report.unit);
    }
    return 0;
}

static ssize_t ep_rx_size_left(struct fid_ep *fid)
{
    struct shm_ep *ep = shm_ep_of(fid);

    return ep->match ? (ssize_t)(ep->rx_size - match_posted(ep->match)) : -FI_EOPBADSTATE;
}

static ssize_t ep_tx_size_left(struct fid_ep *fid)
{
    struct shm_ep *ep = shm_ep_of(fid);

    return (ssize_t)(ep->tx_size - ep->tx_used);
}

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = ep_cancel,
    .getopt = ep_getopt,
    .setopt = ep_setopt,
    .tx_ctx = no_ep_tx_ctx,
    .rx_ctx = no_ep_rx_ctx,
    .rx_size_left = ep_rx_size_left,
    .tx_size_left = ep_tx_size_left,
};

/* ---- Names ---- */

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
    return shm_name_give(ep_of(fid)->name, addr, len);
}

static int ep_setname(fid_t fid, void *addr, size_t len)
{
    struct shm_ep *ep = ep_of(fid);
    char name[SHM_NAME_MAX];
    int rc;

    if (ep->enabled || ep->sep)
        return -FI_EOPBADSTATE;
    rc = addr ? shm_name_import(addr, len, name) : -FI_EINVAL;
    if (!rc)
        rc = shm_listener_open(name, &ep->listener);
    if (!rc)
        memcpy(ep->name, name, sizeof(ep->name));
    return rc;
}

static struct fi_ops_cm cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = ep_setname,
    .getname = ep_getname,
    NO_CM_CONNECTION,
};

/* ---- The object ---- */

static int op_flags(struct shm_ep *ep, int command, uint64_t *flags)
{
    uint64_t *which = *flags & FI_TRANSMIT ? &ep->tx_op_flags : &ep->rx_op_flags;

    if (!(*flags & FI_TRANSMIT) == !(*flags & FI_RECV))
        return -FI_EINVAL;
    if (command == FI_GETOPSFLAG) {
        *flags = *which;
        return 0;
    }
    if (*flags & FI_TRANSMIT && post_refuses(*flags))
        return (int)post_refused();
    *which = *flags & ~(FI_TRANSMIT | FI_RECV);
    return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    switch (command) {
    case FI_ENABLE: return shm_ep_enable(ep_of(fid));
    case FI_ALIAS:
        return alias_open(&ep_of(fid)->fid, &ep_of(fid)->aliases, ep_of(fid)->tx_op_flags,
                          ep_of(fid)->rx_op_flags, arg);
    case FI_GETOPSFLAG:
    case FI_SETOPSFLAG: return op_flags(ep_of(fid), command, arg);
    default: return -FI_ENOSYS;
    }
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = shm_ep_close,
    .bind = shm_ep_bind,
    .control = ep_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static struct fi_ops_msg *msg_of(size_t class)
{
    return class == FI_CLASS_TX_CTX   ? &shm_msg_tx_ops
           : class == FI_CLASS_RX_CTX ? &shm_msg_rx_ops
                                      : &shm_msg_ops;
}

static struct fi_ops_tagged *tagged_of(size_t class)
{
    return class == FI_CLASS_TX_CTX   ? &shm_tagged_tx_ops
           : class == FI_CLASS_RX_CTX ? &shm_tagged_rx_ops
                                      : &shm_tagged_ops;
}

void shm_ep_ops_init(struct shm_ep *ep, size_t class, void *context)
{
    bool sends = class != FI_CLASS_RX_CTX;

    fid_init(&ep->fid.fid, class, context, &fid_ops);
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &cm_ops;
    ep->fid.msg = ep->caps & FI_MSG ? msg_of(class) : &no_msg_ops;
    ep->fid.tagged = ep->caps & FI_TAGGED ? tagged_of(class) : &no_tagged_ops;
    ep->fid.rma = ep->caps & FI_RMA && sends ? &shm_rma_ops : &no_rma_ops;
    ep->fid.atomic = ep->caps & FI_ATOMIC && sends ? &shm_atomic_ops : &no_atomic_ops;
    ep->fid.collective = &no_collective_ops;
}
