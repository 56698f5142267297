/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/sep.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/info.h"
#include "core/log.h"
#include "core/no.h"

/* ---- What drives the contexts ---- */

static struct sep_slot *slot_of(struct sep *sep, size_t class, unsigned index)
{
    return class == FI_CLASS_TX_CTX ? &sep->tx[index] : &sep->rx[index];
}

/* Several threads may drive contexts that have queues of their own. */
static bool needs_lock(const struct fi_domain_attr *attr, const struct unit *unit)
{
    return attr->threading == FI_THREAD_COMPLETION && !unit->locked;
}

int sep_share_unit(struct sep *sep)
{
    const struct fi_domain_attr *attr = sep->domain->info->domain_attr;
    const char *part = sep->domain->fabric->part;
    struct unit *unit;
    int rc = unit_create(attr, part, &unit);

    if (rc)
        return rc;
    if (needs_lock(attr, unit)) {
        LOG_WARN(part, FI_LOG_EP_CTRL,
                 ": a receive context without a completion queue is driven by all others, which "
                 "takes FI_THREAD_SAFE or FI_THREAD_DOMAIN, or other than "
                 "FI_PROGRESS_CONTROL_UNIFIED");
        rc = -FI_ENOCQ;
    }
    for (int i = 0; i < SEP_CONTEXTS && !rc; i++) {
        if (sep->tx[i].report)
            rc = unit_merge(unit, sep->tx[i].report->unit);
        if (!rc && sep->rx[i].report)
            rc = unit_merge(unit, sep->rx[i].report->unit);
    }
    if (rc)
        unit_release(unit);
    else
        sep->unit = unit;
    return rc;
}

int sep_join(struct sep *sep, size_t class, unsigned index, struct report *report, struct av **av)
{
    bool quiet = !report->unit;
    int rc = 0;

    if (!sep->av)
        return -FI_ENOAV;
    /* What it sends may fail; a target of others need not hear of it. */
    if (quiet && class == FI_CLASS_TX_CTX)
        return -FI_ENOCQ;
    pthread_mutex_lock(&sep->mutex);
    if (quiet && !sep->unit)
        rc = sep_share_unit(sep);
    if (!rc && sep->unit)
        rc = report_bind_unit(report, sep->domain, sep->unit);
    if (!rc)
        slot_of(sep, class, index)->report = report;
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

static int tx_ctx(struct fid_ep *fid, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
                  void *context)
{
    struct sep *sep = sep_of(&fid->fid);
    int rc;

    if (index < 0 || (size_t)index >= sep->info->ep_attr->tx_ctx_cnt)
        return -FI_EINVAL;
    pthread_mutex_lock(&sep->mutex);
    rc = sep->tx[index].taken ? -FI_EBUSY
                              : sep->ops->open_tx(sep, (unsigned)index, attr, ep, context);
    if (!rc)
        sep->tx[index].taken = true;
    pthread_mutex_unlock(&sep->mutex);
    return rc;
}

static int rx_ctx(struct fid_ep *fid, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
                  void *context)
{
    struct sep *sep = sep_of(&fid->fid);
    int rc;

    if (index < 0 || (size_t)index >= sep->info->ep_attr->rx_ctx_cnt)
        return -FI_EINVAL;
    pthread_mutex_lock(&sep->mutex);
    rc = sep->rx[index].taken ? -FI_EBUSY
                              : sep->ops->open_rx(sep, (unsigned)index, attr, ep, context);
    if (!rc)
        sep->rx[index].taken = true;
    pthread_mutex_unlock(&sep->mutex);
    return rc;
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
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static struct fi_ops_ep ep_ops = {
    .size = sizeof(ep_ops),
    .cancel = no_ep_cancel,
    .getopt = no_ep_getopt,
    .setopt = no_ep_setopt,
    .tx_ctx = tx_ctx,
    .rx_ctx = rx_ctx,
    .rx_size_left = no_ep_rx_size_left,
    .tx_size_left = no_ep_tx_size_left,
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
    sep->fid.msg = &no_msg_ops;
    sep->fid.tagged = &no_tagged_ops;
    sep->fid.rma = &no_rma_ops;
    sep->fid.atomic = &no_atomic_ops;
    sep->fid.collective = &no_collective_ops;
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
    unit_release(sep->unit);
    if (sep->av)
        children_release(&sep->av->children);
    children_release(&sep->domain->children);
    info_free(sep->info);
    pthread_mutex_destroy(&sep->mutex);
}
