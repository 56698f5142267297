/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_sep.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/fork.h"
#include "core/info.h"
#include "core/log.h"
#include "core/no.h"

static struct shm_sep *sep_of(struct fid *fid)
{
    return object_of(fid, struct shm_sep, fid.fid);
}

/* ---- Contexts ---- */

void shm_sep_leave(struct shm_ep *context)
{
    struct shm_sep *sep = context->sep;

    if (context->fid.fid.fclass == FI_CLASS_TX_CTX) {
        sep->tx[context->context] = NULL;
        return;
    }
    sep->rx[context->context] = NULL;
    if (context->context || context->forks != fork_generation)
        return;
    if (shm_listener_bind(sep->name, 0, &sep->listener))
        LOG_WARN(sep->domain->base.fabric->part, FI_LOG_EP_CTRL, ": somebody else is %s now",
                 sep->name);
}

static int sep_tx_ctx(struct fid_ep *fid, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
                      void *context)
{
    struct shm_sep *sep = sep_of(&fid->fid);
    int rc;

    if (index < 0 || (size_t)index >= sep->info->ep_attr->tx_ctx_cnt)
        return -FI_EINVAL;
    if (sep->tx[index])
        return -FI_EBUSY;
    rc = shm_ep_open_tx(sep, (unsigned)index, attr, ep, context);
    if (!rc)
        sep->tx[index] = shm_ep_of(*ep);
    return rc;
}

static int sep_rx_ctx(struct fid_ep *fid, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
                      void *context)
{
    struct shm_sep *sep = sep_of(&fid->fid);
    int rc;

    if (index < 0 || (size_t)index >= sep->info->ep_attr->rx_ctx_cnt)
        return -FI_EINVAL;
    if (sep->rx[index])
        return -FI_EBUSY;
    rc = shm_ep_open_rx(sep, (unsigned)index, attr, ep, context);
    if (!rc)
        sep->rx[index] = shm_ep_of(*ep);
    return rc;
}

static bool has_contexts(const struct shm_sep *sep)
{
    for (int i = 0; i < SHM_CONTEXTS; i++)
        if (sep->tx[i] || sep->rx[i])
            return true;
    return false;
}

/* ---- The endpoint itself ---- */

static int sep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct shm_sep *sep = sep_of(fid);
    struct av *av;

    if (other->fclass == FI_CLASS_EQ)
        return 0; /* nothing is reported to it */
    if (other->fclass != FI_CLASS_AV)
        return -FI_EINVAL; /* queues and counters are the contexts' */
    av = object_of(other, struct av, fid.fid);
    if (sep->av || av->domain != &sep->domain->base)
        return -FI_EINVAL;
    sep->av = av;
    children_hold(&av->children);
    return 0;
}

static int sep_control(struct fid *fid, int command, void *arg)
{
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    return sep_of(fid)->av ? 0 : -FI_ENOAV; /* contexts are enabled one by one */
}

static int sep_setname(fid_t fid, void *addr, size_t len)
{
    struct shm_sep *sep = sep_of(fid);
    char name[SHM_NAME_MAX];
    int rc;

    if (has_contexts(sep))
        return -FI_EOPBADSTATE;
    rc = addr ? shm_name_import(addr, len, name) : -FI_EINVAL;
    if (!rc)
        rc = shm_listener_open(name, &sep->listener);
    if (!rc)
        memcpy(sep->name, name, sizeof(sep->name));
    return rc;
}

static int sep_getname(fid_t fid, void *addr, size_t *len)
{
    return shm_name_give(sep_of(fid)->name, addr, len);
}

static int sep_close(struct fid *fid)
{
    struct shm_sep *sep = sep_of(fid);

    if (has_contexts(sep))
        return -FI_EBUSY;
    if (sep->listener >= 0)
        close(sep->listener);
    if (sep->av)
        children_release(&sep->av->children);
    children_release(&sep->domain->base.children);
    info_free(sep->info);
    free(sep);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = sep_close,
    .bind = sep_bind,
    .control = sep_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static struct fi_ops_ep ep_ops = {
    .size = sizeof(ep_ops),
    .cancel = no_ep_cancel,
    .getopt = no_ep_getopt,
    .setopt = no_ep_setopt,
    .tx_ctx = sep_tx_ctx,
    .rx_ctx = sep_rx_ctx,
    .rx_size_left = no_ep_rx_size_left,
    .tx_size_left = no_ep_tx_size_left,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = sep_setname,
    .getname = sep_getname,
    .getpeer = no_cm_getpeer,
    .connect = no_cm_connect,
    .listen = no_cm_listen,
    .accept = no_cm_accept,
    .reject = no_cm_reject,
    .shutdown = no_cm_shutdown,
    .join = no_cm_join,
};

static int count_of(size_t *count)
{
    if (!*count)
        *count = 1;
    return *count <= SHM_CONTEXTS ? 0 : -FI_EINVAL;
}

static int read_info(struct shm_sep *sep, const struct fi_info *info)
{
    int rc;

    sep->info = fabric_info(sep->domain->base.fabric, info);
    if (!sep->info)
        return -FI_ENOMEM;
    rc = count_of(&sep->info->ep_attr->tx_ctx_cnt);
    if (!rc)
        rc = count_of(&sep->info->ep_attr->rx_ctx_cnt);
    if (!rc && sep->info->src_addr)
        rc = shm_name_import(sep->info->src_addr, sep->info->src_addrlen, sep->name);
    else if (!rc)
        rc = shm_name_make(NULL, NULL, sep->name);
    return rc ? rc : shm_listener_open(sep->name, &sep->listener);
}

int shm_sep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_sep,
                 void *context)
{
    struct shm_sep *sep = calloc(1, sizeof(*sep));
    int rc;

    if (!sep)
        return -FI_ENOMEM;
    sep->domain = object_of(fid, struct shm_domain, base.fid);
    sep->listener = -1;
    children_hold(&sep->domain->base.children);
    fid_init(&sep->fid.fid, FI_CLASS_SEP, context, &fid_ops);
    sep->fid.ops = &ep_ops;
    sep->fid.cm = &cm_ops;
    sep->fid.msg = &no_msg_ops;
    sep->fid.tagged = &no_tagged_ops;
    sep->fid.rma = &no_rma_ops;
    sep->fid.atomic = &no_atomic_ops;
    sep->fid.collective = &no_collective_ops;
    rc = read_info(sep, info);
    if (rc) {
        LOG_WARN(sep->domain->base.fabric->part, FI_LOG_EP_CTRL,
                 ": no scalable endpoint at '%s': %s", sep->name, fi_strerror(-rc));
        sep_close(&sep->fid.fid);
        return rc;
    }
    *ret_sep = &sep->fid;
    return 0;
}
