/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ep/passive.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/base.h"
#include "core/info/info.h"

static int request_close(struct fid *fid)
{
    return -FI_ENOSYS;
}

struct fi_ops passive_request_ops = {
    .size = sizeof(struct fi_ops),
    .close = request_close,
    FID_CLOSES_ONLY,
};

static struct passive *pep_of(struct fid *fid)
{
    return object_of(fid, struct passive, fid.fid);
}

static int pep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct passive *pep = pep_of(fid);
    struct eq *eq = other->fclass == FI_CLASS_EQ ? eq_of(other) : NULL;
    int rc = 0;

    if (!eq || eq->fabric != pep->fabric)
        return -FI_EINVAL;
    if (pep->ops->bind_eq)
        rc = pep->ops->bind_eq(pep, eq);
    else if (pep->eq)
        rc = -FI_EINVAL;
    else
        pep->eq = eq;
    if (!rc)
        children_hold(&eq->children);
    return rc;
}

static int pep_control(struct fid *fid, int command, void *arg)
{
    struct passive *pep = pep_of(fid);

    if (command == FI_BACKLOG && *(const int *)arg < 0)
        return -FI_EINVAL;
    if (pep->ops->control)
        return pep->ops->control(pep, command, arg);
    return command == FI_BACKLOG ? 0 : -FI_ENOSYS;
}

static int pep_close(struct fid *fid)
{
    struct passive *pep = pep_of(fid);

    pep->ops->close(pep);
    return 0;
}

static int pep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
    size_t room = *len;

    if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE)
        return -FI_ENOPROTOOPT;
    *len = sizeof(size_t);
    if (room < sizeof(size_t))
        return -FI_ETOOSMALL;
    memcpy(value, &pep_of(fid)->ops->cm_data_size, sizeof(size_t));
    return 0;
}

static int pep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    struct passive *pep = pep_of(fid);

    if (level != FI_OPT_ENDPOINT || !pep->ops->setopt)
        return -FI_ENOPROTOOPT;
    return pep->ops->setopt(pep, name, value, len);
}

static int pep_listen(struct fid_pep *fid)
{
    struct passive *pep = pep_of(&fid->fid);

    return pep->ops->listen(pep);
}

static int pep_reject(struct fid_pep *fid, fid_t handle, const void *param, size_t paramlen)
{
    struct passive *pep = pep_of(&fid->fid);

    if (paramlen > pep->ops->cm_data_size || (paramlen && !param))
        return -FI_EINVAL;
    return pep->ops->reject(pep, handle, param, paramlen);
}

static int pep_setname(fid_t fid, void *addr, size_t len)
{
    return pep_of(fid)->ops->setname(pep_of(fid), addr, len);
}

static int pep_getname(fid_t fid, void *addr, size_t *len)
{
    return pep_of(fid)->ops->getname(pep_of(fid), addr, len);
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = pep_close,
    .bind = pep_bind,
    .control = pep_control,
    NO_FID_TABLES,
};

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = enosys_ep_cancel,
    .getopt = pep_getopt,
    .setopt = pep_setopt,
    NO_EP_CONTEXTS,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = pep_setname,
    .getname = pep_getname,
    .getpeer = enosys_cm_getpeer,
    .connect = enosys_cm_connect,
    .listen = pep_listen,
    .accept = enosys_cm_accept,
    .reject = pep_reject,
    .shutdown = enosys_cm_shutdown,
    .join = enosys_cm_join,
};

int passive_init(struct passive *pep, struct fabric *fabric, const struct fi_info *info,
                 const struct passive_ops *ops, void *context)
{
    struct fi_info *own = fabric_info(fabric, info);

    if (!own)
        return -FI_ENOMEM;
    if (own->ep_attr->type != FI_EP_MSG) {
        info_free(own);
        return -FI_EINVAL;
    }
    own->handle = NULL;
    fid_init(&pep->fid.fid, FI_CLASS_PEP, context, &fid_ops);
    pep->fid.ops = &ep_ops;
    pep->fid.cm = &cm_ops;
    pep->ops = ops;
    pep->info = own;
    pep->fabric = fabric;
    children_hold(&fabric->children);
    return 0;
}

void passive_finish(struct passive *pep)
{
    if (pep->eq) {
        eq_forget(pep->eq, &pep->fid.fid);
        children_release(&pep->eq->children);
    }
    info_free(pep->info);
    children_release(&pep->fabric->children);
}
