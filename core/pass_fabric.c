/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric and passive endpoints, and the exchange of fids and infos. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/abi.h"
#include "core/info.h"
#include "core/part.h"
#include "core/pass.h"
#include "core/pass_trigger.h"
#include "core/pass_watch.h"

/* ---- Fids ---- */

struct fid *pass_down(struct fid *fid)
{
    if (!fid)
        return NULL;
    switch (fid->fclass) {
    case FI_CLASS_FABRIC: return &object_of(fid, struct pass_fabric, base.fid.fid)->lower->fid;
    case FI_CLASS_DOMAIN: return &object_of(fid, struct pass_domain, fid.fid)->lower->fid;
    case FI_CLASS_EP:
    case FI_CLASS_SEP:
    case FI_CLASS_RX_CTX:
    case FI_CLASS_TX_CTX:
    case FI_CLASS_SRX_CTX: return &object_of(fid, struct pass_ep, fid.fid)->lower->fid;
    case FI_CLASS_STX_CTX: return &object_of(fid, struct pass_stx, fid.fid)->lower->fid;
    case FI_CLASS_PEP: return &object_of(fid, struct pass_pep, fid.fid)->lower->fid;
    case FI_CLASS_AV: return &object_of(fid, struct pass_av, fid.fid)->lower->fid;
    case FI_CLASS_AV_SET: return &object_of(fid, struct pass_av_set, fid.fid)->lower->fid;
    case FI_CLASS_MR: return &object_of(fid, struct pass_mr, fid.fid)->lower->fid;
    case FI_CLASS_EQ: return &object_of(fid, struct pass_eq, fid.fid)->lower->fid;
    case FI_CLASS_CQ: return &object_of(fid, struct pass_cq, fid.fid)->lower->fid;
    case FI_CLASS_CNTR: return &object_of(fid, struct pass_cntr, fid.fid)->lower->fid;
    case FI_CLASS_MC: return &object_of(fid, struct pass_mc, fid.fid)->lower->fid;
    case FI_CLASS_WAIT: return &object_of(fid, struct pass_wait, fid.fid)->lower->fid;
    case FI_CLASS_POLL: return &object_of(fid, struct pass_poll, fid.fid)->lower->fid;
    default: return fid;
    }
}

struct fid *pass_up(const struct fid *lower)
{
    return lower ? lower->context : NULL;
}

void **pass_hook(struct fid *fid)
{
    switch (fid->fclass) {
    case FI_CLASS_FABRIC: return &object_of(fid, struct pass_fabric, base.fid.fid)->hook;
    case FI_CLASS_DOMAIN: return &object_of(fid, struct pass_domain, fid.fid)->hook;
    case FI_CLASS_STX_CTX: return &object_of(fid, struct pass_stx, fid.fid)->hook;
    case FI_CLASS_PEP: return &object_of(fid, struct pass_pep, fid.fid)->hook;
    case FI_CLASS_AV: return &object_of(fid, struct pass_av, fid.fid)->hook;
    case FI_CLASS_AV_SET: return &object_of(fid, struct pass_av_set, fid.fid)->hook;
    case FI_CLASS_MR: return &object_of(fid, struct pass_mr, fid.fid)->hook;
    case FI_CLASS_EQ: return &object_of(fid, struct pass_eq, fid.fid)->hook;
    case FI_CLASS_CQ: return &object_of(fid, struct pass_cq, fid.fid)->hook;
    case FI_CLASS_CNTR: return &object_of(fid, struct pass_cntr, fid.fid)->hook;
    case FI_CLASS_MC: return &object_of(fid, struct pass_mc, fid.fid)->hook;
    case FI_CLASS_WAIT: return &object_of(fid, struct pass_wait, fid.fid)->hook;
    case FI_CLASS_POLL: return &object_of(fid, struct pass_poll, fid.fid)->hook;
    default: return &object_of(fid, struct pass_ep, fid.fid)->hook;
    }
}

void pass_retire(struct pass_fabric *fabric, struct fid *fid)
{
    if (fabric->ops.retire)
        fabric->ops.retire(fid);
    else
        free(fid); /* the first member of each */
}

int pass_close(struct pass_fabric *fabric, struct children *siblings, struct fid *lower,
               struct fid *fid)
{
    int rc = fi_close(lower);

    if (rc)
        return rc;
    pass_tell_closed(fabric, fid);
    pass_retire(fabric, fid);
    children_release(siblings);
    return 0;
}

int pass_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct fid *lower = pass_down(fid);

    return lower->ops->bind(lower, pass_down(bfid), flags);
}

int pass_control(struct fid *fid, int command, void *arg)
{
    return command == FI_ALIAS ? -FI_ENOSYS : fi_control(pass_down(fid), command, arg);
}

int pass_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    if (!name || strcmp(name, "fi_profile_ops") != 0)
        return -FI_ENOSYS;
    return fi_open_ops(pass_down(fid), name, flags, ops, context);
}

int pass_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
    return fi_set_ops(pass_down(fid), name, flags, ops, context);
}

static struct fid_domain *domain_down(struct pass_fabric *fabric, struct fid_domain *ours)
{
    struct fid_domain *found = ours;

    pthread_mutex_lock(&fabric->mutex);
    list_for_each (item, &fabric->domains) {
        struct pass_domain *domain = list_item(item, struct pass_domain, link);

        if (&domain->fid == ours)
            found = domain->lower;
    }
    pthread_mutex_unlock(&fabric->mutex);
    return found;
}

static struct fid_domain *domain_up(struct pass_fabric *fabric, struct fid_domain *lower)
{
    struct fid_domain *found = lower;

    pthread_mutex_lock(&fabric->mutex);
    list_for_each (item, &fabric->domains) {
        struct pass_domain *domain = list_item(item, struct pass_domain, link);

        if (domain->lower == lower)
            found = &domain->fid;
    }
    pthread_mutex_unlock(&fabric->mutex);
    return found;
}

/* ---- Infos ---- */

struct fi_info *pass_info_down(struct pass_fabric *fabric, const struct fi_info *info)
{
    struct fi_info *copy = abi_info_import(info, fabric->base.abi);

    if (!copy)
        return NULL;
    if (copy->fabric_attr && copy->fabric_attr->fabric == &fabric->base.fid)
        copy->fabric_attr->fabric = fabric->lower;
    if (copy->domain_attr && copy->domain_attr->domain)
        copy->domain_attr->domain = domain_down(fabric, copy->domain_attr->domain);
    copy->handle = pass_down(copy->handle);
    return copy;
}

void pass_info_up(struct pass_fabric *fabric, struct fi_info *info)
{
    if (info->fabric_attr && info->fabric_attr->fabric == fabric->lower)
        info->fabric_attr->fabric = &fabric->base.fid;
    /* Without memory the name stays the lower's: the application opens nothing by it. */
    if (info->fabric_attr && fabric->prov_name)
        info_set_string(&info->fabric_attr->prov_name, fabric->prov_name);
    if (info->domain_attr && info->domain_attr->domain)
        info->domain_attr->domain = domain_up(fabric, info->domain_attr->domain);
}

/* ---- The fabric ---- */

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain,
                         void *context)
{
    return pass_domain_open(pass_fabric_of(fid), info, domain, 0, context);
}

static int fabric_domain2(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain,
                          uint64_t flags, void *context)
{
    return pass_domain_open(pass_fabric_of(fid), info, domain, flags, context);
}

#define TRYWAIT_BATCH 16

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
    struct fid_fabric *lower = pass_fabric_of(fid)->lower;
    struct fid *down[TRYWAIT_BATCH];

    for (int done = 0; done < count; done += TRYWAIT_BATCH) {
        int batch = count - done < TRYWAIT_BATCH ? count - done : TRYWAIT_BATCH;
        int rc;

        for (int i = 0; i < batch; i++)
            down[i] = pass_down(fids[done + i]);
        rc = fi_trywait(lower, down, batch);
        if (rc)
            return rc;
    }
    return 0;
}

struct fi_ops_fabric pass_fabric_ops = {
    .size = sizeof(pass_fabric_ops),
    .domain = fabric_domain,
    .passive_ep = pass_pep_open,
    .eq_open = pass_eq_open,
    .wait_open = pass_wait_open,
    .trywait = fabric_trywait,
    .domain2 = fabric_domain2,
};

static void free_fabric(struct pass_fabric *fabric)
{
    free(fabric->triggers);
    free(fabric->prov_name);
    free(fabric);
}

static int fabric_close(struct fid *fid)
{
    struct pass_fabric *fabric = object_of(fid, struct pass_fabric, base.fid.fid);
    void (*finish)(void *own) = fabric->ops.finish;
    void *own = fabric->hook;
    int rc;

    if (children_any(&fabric->base.children))
        return -FI_EBUSY;
    rc = fabric->hold->close(fabric->hold);
    if (rc)
        return rc;
    params_destroy(fabric->params);
    pthread_mutex_destroy(&fabric->mutex);
    free(fabric->triggers);
    free(fabric->prov_name);
    pass_retire(fabric, fid);
    if (finish && own)
        finish(own);
    return 0;
}

struct fi_ops pass_fabric_fid_ops = {
    .size = sizeof(pass_fabric_fid_ops),
    .close = fabric_close,
    .bind = no_bind,
    .control = pass_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = pass_ops_set,
};

const struct fi_ops *pass_fid_ops(size_t fclass)
{
    switch (fclass) {
    case FI_CLASS_FABRIC: return &pass_fabric_fid_ops;
    case FI_CLASS_DOMAIN: return &pass_domain_fid_ops;
    case FI_CLASS_STX_CTX: return &pass_stx_fid_ops;
    case FI_CLASS_PEP: return &pass_pep_fid_ops;
    case FI_CLASS_AV: return &pass_av_fid_ops;
    case FI_CLASS_AV_SET: return &pass_av_set_fid_ops;
    case FI_CLASS_MR: return &pass_mr_fid_ops;
    case FI_CLASS_EQ: return &pass_eq_fid_ops;
    case FI_CLASS_CQ: return &pass_cq_fid_ops;
    case FI_CLASS_CNTR: return &pass_cntr_fid_ops;
    case FI_CLASS_MC: return &pass_mc_fid_ops;
    case FI_CLASS_WAIT: return &pass_wait_fid_ops;
    case FI_CLASS_POLL: return &pass_poll_fid_ops;
    default: return &pass_ep_fid_ops;
    }
}

static const struct pass_ops defaults = {
    .fabric_fid = &pass_fabric_fid_ops,
    .domain_fid = &pass_domain_fid_ops,
    .ep_fid = &pass_ep_fid_ops,
    .pep_fid = &pass_pep_fid_ops,
    .stx_fid = &pass_stx_fid_ops,
    .cq_fid = &pass_cq_fid_ops,
    .cntr_fid = &pass_cntr_fid_ops,
    .eq_fid = &pass_eq_fid_ops,
    .av_fid = &pass_av_fid_ops,
    .av_set_fid = &pass_av_set_fid_ops,
    .mr_fid = &pass_mr_fid_ops,
    .mc_fid = &pass_mc_fid_ops,
    .wait_fid = &pass_wait_fid_ops,
    .poll_fid = &pass_poll_fid_ops,
    .fabric = &pass_fabric_ops,
    .domain = &pass_domain_ops,
    .mr = &pass_mr_ops,
    .ep = &pass_ep_ops,
    .pep = &pass_pep_ops,
    .cm = &pass_cm_ops,
    .pep_cm = &pass_pep_cm_ops,
    .msg = &pass_msg_ops,
    .tagged = &pass_tagged_ops,
    .rma = &pass_rma_ops,
    .atomic = &pass_atomic_ops,
    .collective = &pass_collective_ops,
    .cq = &pass_cq_ops,
    .cntr = &pass_cntr_ops,
    .eq = &pass_eq_ops,
    .av = &pass_av_ops,
    .av_set = &pass_av_set_ops,
    .wait = &pass_wait_ops,
    .poll = &pass_poll_ops,
    .cq_owner = &pass_cq_owner_ops,
    .cntr_owner = &pass_cntr_owner_ops,
    .srx_owner = &pass_srx_owner_ops,
    .srx_peer = &pass_srx_peer_ops,
};

/* struct pass_ops is nothing but pointers to tables. */
static void complete_ops(struct pass_ops *ops, const struct pass_ops *overrides)
{
    void *table[sizeof(*ops) / sizeof(void *)], *replacement[sizeof(*ops) / sizeof(void *)];

    memcpy(table, &defaults, sizeof(*ops));
    if (overrides) {
        memcpy(replacement, overrides, sizeof(*ops));
        for (size_t i = 0; i < sizeof(*ops) / sizeof(void *); i++)
            table[i] = replacement[i] ? replacement[i] : table[i];
    }
    memcpy(ops, table, sizeof(*ops));
}

int pass_open_fabric(const struct open_args *args, struct fid_fabric **ret_fabric, void *context,
                     const struct pass_ops *overrides)
{
    struct pass_fabric *fabric = calloc(1, sizeof(*fabric));

    if (!fabric)
        return -FI_ENOMEM;
    complete_ops(&fabric->ops, overrides);
    if (args->part->transparent)
        fabric->triggers = pass_triggers_create(&fabric->ops);
    if (args->attr && args->attr->prov_name)
        fabric->prov_name = strdup(args->attr->prov_name);
    if ((args->part->transparent && !fabric->triggers) ||
        (args->attr && args->attr->prov_name && !fabric->prov_name)) {
        free_fabric(fabric);
        return -FI_ENOMEM;
    }
    fabric_init(&fabric->base, args, fabric->ops.fabric_fid, fabric->ops.fabric, context);
    fabric->hold = args->lowers[0];
    fabric->lower = fabric->hold->fabric;
    fabric->params = args->params;
    pthread_mutex_init(&fabric->mutex, NULL);
    list_init(&fabric->domains);
    *ret_fabric = &fabric->base.fid;
    return 0;
}

/* ---- Passive endpoints ---- */

static struct pass_pep *pep_of(struct fid *fid)
{
    return object_of(fid, struct pass_pep, fid.fid);
}

int pass_pep_open(struct fid_fabric *fid, struct fi_info *info, struct fid_pep **ret_pep,
                  void *context)
{
    struct pass_fabric *fabric = pass_fabric_of(fid);
    struct fi_info *down = pass_info_down(fabric, info);
    struct pass_pep *pep = calloc(1, sizeof(*pep));
    int rc = -FI_ENOMEM;

    if (!down || !pep)
        goto fail;
    fid_init(&pep->fid.fid, FI_CLASS_PEP, context, fabric->ops.pep_fid);
    pep->fid.ops = fabric->ops.pep;
    pep->fid.cm = fabric->ops.pep_cm;
    pep->fabric = fabric;
    rc = fi_passive_ep(fabric->lower, down, &pep->lower, pep);
    if (rc)
        goto fail;
    children_hold(&fabric->base.children);
    pass_tell_opened(fabric, &pep->fid.fid,
                     &(struct pass_opening){.parent = &fabric->base.fid.fid, .info = down});
    info_free(down);
    *ret_pep = &pep->fid;
    return 0;

fail:
    info_free(down);
    free(pep);
    return rc;
}

static int pep_close(struct fid *fid)
{
    struct pass_pep *pep = pep_of(fid);

    return pass_close(pep->fabric, &pep->fabric->base.children, &pep->lower->fid, fid);
}

struct fi_ops pass_pep_fid_ops = {
    .size = sizeof(pass_pep_fid_ops),
    .close = pep_close,
    .bind = pass_bind,
    .control = pass_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = pass_ops_set,
};

static int pep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    return fi_getopt(&pep_of(fid)->lower->fid, level, optname, optval, optlen);
}

static int pep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    return fi_setopt(&pep_of(fid)->lower->fid, level, optname, optval, optlen);
}

struct fi_ops_ep pass_pep_ops = {
    .size = sizeof(pass_pep_ops),
    .cancel = no_ep_cancel,
    .getopt = pep_getopt,
    .setopt = pep_setopt,
    .tx_ctx = no_ep_tx_ctx,
    .rx_ctx = no_ep_rx_ctx,
    .rx_size_left = no_ep_rx_size_left,
    .tx_size_left = no_ep_tx_size_left,
};

static int pep_setname(fid_t fid, void *addr, size_t addrlen)
{
    return fi_setname(&pep_of(fid)->lower->fid, addr, addrlen);
}

static int pep_getname(fid_t fid, void *addr, size_t *addrlen)
{
    return fi_getname(&pep_of(fid)->lower->fid, addr, addrlen);
}

static int pep_listen(struct fid_pep *pep)
{
    return fi_listen(pep_of(&pep->fid)->lower);
}

static int pep_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
    return fi_reject(pep_of(&pep->fid)->lower, handle, param, paramlen);
}

struct fi_ops_cm pass_pep_cm_ops = {
    .size = sizeof(pass_pep_cm_ops),
    .setname = pep_setname,
    .getname = pep_getname,
    .getpeer = no_cm_getpeer,
    .connect = no_cm_connect,
    .listen = pep_listen,
    .accept = no_cm_accept,
    .reject = pep_reject,
    .shutdown = no_cm_shutdown,
    .join = no_cm_join,
};
