/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ep/sep.h"

#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/base.h"
#include "core/ep/endpoint.h"
#include "core/info/abi.h"
#include "core/info/info.h"

/* ---- Progress of contexts ---- */

static struct sep_slot *slot_of(struct sep *sep, size_t class, unsigned index)
{
    return class == FI_CLASS_TX_CTX ? &sep->tx[index] : &sep->rx[index];
}

int sep_share_progress(struct sep *sep)
{
    const struct fi_domain_attr *attr = sep->domain->info->domain_attr;
    const char *part = sep->domain->fabric->part;
    struct progress *progress;
    int rc = progress_create(attr, part, sep->domain->progress_group, &progress);

    if (rc)
        return rc;
    for (int i = 0; i < SEP_CONTEXTS && !rc; i++) {
        if (sep->tx[i].binding)
            rc = progress_merge(progress, sep->tx[i].binding->progress);
        if (!rc && sep->rx[i].binding)
            rc = progress_merge(progress, sep->rx[i].binding->progress);
    }
    if (rc)
        progress_release(progress);
    else
        sep->progress = progress;
    return rc;
}

int sep_join(struct sep *sep, size_t class, unsigned index, struct binding *binding, struct av **av)
{
    bool quiet = !binding->progress;
    int rc = 0;

    if (!sep->av)
        return -FI_ENOAV;
    /* A transmit context reports failures; a receive context may be a target without a queue. */
    if (quiet && class == FI_CLASS_TX_CTX)
        return -FI_ENOCQ;
    pthread_mutex_lock(&sep->mutex);
    if (quiet && !sep->progress)
        rc = sep_share_progress(sep);
    if (!rc && sep->progress)
        rc = binding_join(binding, sep->domain, sep->progress);
    if (!rc)
        slot_of(sep, class, index)->binding = binding;
    pthread_mutex_unlock(&sep->mutex);
    if (rc || *av)
        return rc;
    *av = sep->av;
    children_hold(&sep->av->children);
    return 0;
}

void sep_leave(struct sep *sep, size_t class, unsigned index)
{
    pthread_mutex_lock(&sep->mutex);
    *slot_of(sep, class, index) = (struct sep_slot){.taken = false};
    pthread_mutex_unlock(&sep->mutex);
}

/* ---- Contexts ---- */

static int open_context(struct sep *sep, const struct sep_opening *opening, size_t count,
                        struct endpoint **ep)
{
    struct sep_slot *slot;
    int rc;

    if (opening->index >= count)
        return -FI_EINVAL;
    slot = slot_of(sep, opening->class, opening->index);
    pthread_mutex_lock(&sep->mutex);
    rc = slot->taken ? -FI_EBUSY : sep->ops->open(sep, opening, ep);
    if (!rc)
        slot->taken = true;
    pthread_mutex_unlock(&sep->mutex);
    return rc;
}

static int tx_ctx(struct fid_ep *fid, int index, struct fi_tx_attr *attr, struct fid_ep **ret_ep,
                  void *context)
{
    struct sep *sep = sep_of(&fid->fid);
    const struct sep_opening opening = {FI_CLASS_TX_CTX, (unsigned)index,
                                        attr ? &attr->op_flags : NULL, attr ? attr->size : 0,
                                        context};
    struct fi_tx_attr got = *sep->info->tx_attr;
    struct endpoint *ep;
    int rc = open_context(sep, &opening, sep->info->ep_attr->tx_ctx_cnt, &ep);

    if (rc)
        return rc;
    *ret_ep = &ep->fid;
    if (!attr)
        return 0;
    got.op_flags = ep->tx_op_flags = attr->op_flags;
    got.size = ep->tx_size;
    memcpy(attr, &got, abi_tx_attr_size(sep->domain->fabric->abi));
    return 0;
}

static int rx_ctx(struct fid_ep *fid, int index, struct fi_rx_attr *attr, struct fid_ep **ret_ep,
                  void *context)
{
    struct sep *sep = sep_of(&fid->fid);
    const struct sep_opening opening = {FI_CLASS_RX_CTX, (unsigned)index,
                                        attr ? &attr->op_flags : NULL, attr ? attr->size : 0,
                                        context};
    struct fi_rx_attr got = *sep->info->rx_attr;
    struct endpoint *ep;
    int rc = open_context(sep, &opening, sep->info->ep_attr->rx_ctx_cnt, &ep);

    if (rc)
        return rc;
    *ret_ep = &ep->fid;
    if (!attr)
        return 0;
    if (attr->size && attr->size < ep->rx_size)
        ep->rx_size = attr->size;
    got.op_flags = ep->rx_op_flags = attr->op_flags;
    got.size = ep->rx_size;
    *attr = got;
    return 0;
}

bool sep_has_contexts(struct sep *sep)
{
    bool any = false;

    pthread_mutex_lock(&sep->mutex);
    for (int i = 0; i < SEP_CONTEXTS; i++)
        any |= sep->tx[i].taken || sep->rx[i].taken;
    pthread_mutex_unlock(&sep->mutex);
    return any;
}

/* ---- The endpoint itself ---- */

static int sep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct sep *sep = sep_of(fid);
    struct av *av;

    if (other->fclass == FI_CLASS_EQ)
        return 0; /* nothing is reported to it */
    if (other->fclass != FI_CLASS_AV)
        return -FI_EINVAL; /* queues and counters are the contexts' */
    av = object_of(other, struct av, fid.fid);
    if (sep->av || av->domain != sep->domain)
        return -FI_EINVAL;
    sep->av = av;
    children_hold(&av->children);
    return 0;
}

static int sep_control(struct fid *fid, int command, void *arg)
{
    struct sep *sep = sep_of(fid);

    if (command != FI_ENABLE)
        return sep->ops->control ? sep->ops->control(sep, command, arg) : -FI_ENOSYS;
    return sep->av ? 0 : -FI_ENOAV; /* contexts are enabled one by one */
}

static int sep_setname(fid_t fid, void *addr, size_t len)
{
    return sep_of(fid)->ops->setname(sep_of(fid), addr, len);
}

static int sep_getname(fid_t fid, void *addr, size_t *len)
{
    return sep_of(fid)->ops->getname(sep_of(fid), addr, len);
}

static int sep_close(struct fid *fid)
{
    struct sep *sep = sep_of(fid);

    if (sep_has_contexts(sep))
        return -FI_EBUSY;
    sep->ops->close(sep);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = sep_close,
    .bind = sep_bind,
    .control = sep_control,
    NO_FID_TABLES,
};

static struct fi_ops_ep ep_ops = {
    .size = sizeof(ep_ops),
    .cancel = enosys_ep_cancel,
    .getopt = enosys_ep_getopt,
    .setopt = enosys_ep_setopt,
    .tx_ctx = tx_ctx,
    .rx_ctx = rx_ctx,
    .rx_size_left = enosys_ep_rx_size_left,
    .tx_size_left = enosys_ep_tx_size_left,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = sep_setname,
    .getname = sep_getname,
    NO_CM_CONNECTION,
};

static int settle(size_t *count)
{
    if (!*count)
        *count = 1;
    return *count <= SEP_CONTEXTS ? 0 : -FI_EINVAL;
}

int sep_init(struct sep *sep, struct domain *domain, const struct fi_info *info,
             const struct sep_ops *ops, void *context)
{
    int rc;

    fid_init(&sep->fid.fid, FI_CLASS_SEP, context, &fid_ops);
    sep->fid.ops = &ep_ops;
    sep->fid.cm = &cm_ops;
    ep_set_data_ops(&sep->base);
    sep->ops = ops;
    sep->domain = domain;
    children_hold(&domain->children);
    pthread_mutex_init(&sep->mutex, NULL);
    sep->info = fabric_info(domain->fabric, info);
    if (!sep->info)
        return -FI_ENOMEM;
    rc = settle(&sep->info->ep_attr->tx_ctx_cnt);
    return rc ? rc : settle(&sep->info->ep_attr->rx_ctx_cnt);
}

void sep_finish(struct sep *sep)
{
    progress_release(sep->progress);
    if (sep->av)
        children_release(&sep->av->children);
    children_release(&sep->domain->children);
    info_free(sep->info);
    pthread_mutex_destroy(&sep->mutex);
}
