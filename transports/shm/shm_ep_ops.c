/* SPDX-License-Identifier: BSD-2-Clause */
/* Options, names, and the tables of an endpoint. */
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/info/info.h"
#include "transports/shm/shm_listener.h"
#include "transports/shm/shm_op.h"

/* ---- Options ---- */

static size_t limit(struct endpoint *base, int option)
{
    switch (option) {
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_MAX_RMA_SIZE: return SIZE_MAX;
    case FI_OPT_MAX_ATOMIC_SIZE: return SHM_ATOMIC_MAX;
    default: return SHM_INJECT;
    }
}

/* There is no other way here. */
static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    bool permitted;

    if (len != sizeof(permitted))
        return -FI_EINVAL;
    memcpy(&permitted, value, sizeof(permitted));
    return permitted ? 0 : -FI_EOPNOTSUPP;
}

/* The sender that a cancelled receive waited for may have gone: the next post then fails. */
static int cancel(struct endpoint *base, void *context)
{
    int rc = base->match ? match_cancel(base->match, context) : -FI_ENOENT;

    shm_look_soon(object_of(base, struct shm_ep, base));
    return rc;
}

static size_t tx_used(const struct endpoint *base)
{
    return object_of(base, struct shm_ep, base)->tx_used;
}

static const struct endpoint_option options[] = {
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = 0},
};

static const struct endpoint_ops ops = {
    .post = shm_post,
    .atomic_valid = shm_atomic_valid,
    .limit = limit,
    .join = shm_ep_join,
    .enable = shm_ep_enable,
    .bound = shm_ep_bound,
    .close = shm_ep_close,
    .cancel = cancel,
    .tx_used = tx_used,
    .options = options,
    .srx_ops = &shm_srx_peer_ops,
};

/* ---- Names ---- */

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
    return shm_name_give(shm_ep_of(object_of(fid, struct fid_ep, fid))->name, addr, len);
}

static int ep_setname(fid_t fid, void *addr, size_t len)
{
    struct shm_ep *ep = shm_ep_of(object_of(fid, struct fid_ep, fid));
    char name[SHM_NAME_MAX];
    int rc;

    if (ep->base.enabled || ep->sep)
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

void shm_ep_ops_init(struct shm_ep *ep, const struct fi_info *info, size_t class, void *context)
{
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &ep->domain->base,
        .info = info,
        .caps = caps_expand(info->caps ? info->caps : FI_MSG | FI_TAGGED | FI_RMA),
        .fclass = class,
        .context = context,
        .size = SHM_SIZE,
        .iov_limit = SHM_IOV_LIMIT,
        .min_multi_recv = SHM_MIN_MULTI_RECV,
    };

    endpoint_init(&ep->base, &attr);
    ep->fid.cm = &cm_ops;
    if (!(attr.caps & FI_MSG))
        ep->base.base.groups &= ~(unsigned)OP_GROUP_MSG;
    shm_set_data_ops(ep, class);
}
