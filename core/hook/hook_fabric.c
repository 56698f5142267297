/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric and passive endpoints, and the exchange of fids and infos. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/table.h"
#include "core/domain/base.h"
#include "core/hook/hook.h"
#include "core/hook/hook_watch.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/part/part.h"

/* ---- Fids ---- */

/* Where an object of each class has its lower, the hook's own and its domain, and its functions. */
static const struct object_class {
    size_t lower, own;
    size_t domain; /* 0: it is not a domain's, or closes by a function of its own */
    const struct fi_ops *ops;
} classes[] = {
#define CLASS(type, table)                                                                         \
    {                                                                                              \
        offsetof(type, lower), offsetof(type, own), 0, &(table)                                    \
    }
#define CLASS_OF_DOMAIN(type, table)                                                               \
    {                                                                                              \
        offsetof(type, lower), offsetof(type, own), offsetof(type, domain), &(table)               \
    }
    [FI_CLASS_FABRIC] = CLASS(struct hook_fabric, hook_fabric_fid_ops),
    [FI_CLASS_DOMAIN] = CLASS(struct hook_domain, hook_domain_fid_ops),
    [FI_CLASS_EP] = CLASS(struct hook_ep, hook_ep_fid_ops),
    [FI_CLASS_SEP] = CLASS(struct hook_ep, hook_ep_fid_ops),
    [FI_CLASS_RX_CTX] = CLASS(struct hook_ep, hook_ep_fid_ops),
    [FI_CLASS_TX_CTX] = CLASS(struct hook_ep, hook_ep_fid_ops),
    [FI_CLASS_SRX_CTX] = CLASS(struct hook_ep, hook_ep_fid_ops),
    [FI_CLASS_STX_CTX] = CLASS_OF_DOMAIN(struct hook_stx, hook_object_fid_ops),
    [FI_CLASS_PEP] = CLASS(struct hook_pep, hook_pep_fid_ops),
    [FI_CLASS_AV] = CLASS_OF_DOMAIN(struct hook_av, hook_object_fid_ops),
    [FI_CLASS_AV_SET] = CLASS_OF_DOMAIN(struct hook_av_set, hook_object_fid_ops),
    [FI_CLASS_MR] = CLASS_OF_DOMAIN(struct hook_mr, hook_mr_fid_ops),
    [FI_CLASS_EQ] = CLASS(struct hook_eq, hook_eq_fid_ops),
    [FI_CLASS_CQ] = CLASS_OF_DOMAIN(struct hook_cq, hook_object_fid_ops),
    [FI_CLASS_CNTR] = CLASS_OF_DOMAIN(struct hook_cntr, hook_object_fid_ops),
    [FI_CLASS_MC] = CLASS_OF_DOMAIN(struct hook_mc, hook_object_fid_ops),
    [FI_CLASS_WAIT] = CLASS(struct hook_wait, hook_wait_fid_ops),
    [FI_CLASS_POLL] = CLASS_OF_DOMAIN(struct hook_poll, hook_object_fid_ops),
};

/* The pointer at that offset of an object, whatever it points to. */
static void *pointer_at(const struct fid *fid, size_t offset)
{
    void *pointer;

    memcpy(&pointer, (const char *)fid + offset, sizeof(pointer));
    return pointer;
}

struct fid *hook_down(struct fid *fid)
{
    if (!fid || fid->fclass >= sizeof(classes) / sizeof(classes[0]) || !classes[fid->fclass].ops)
        return fid;
    return pointer_at(fid, classes[fid->fclass].lower); /* its fid is its first member */
}

struct fid *hook_up(const struct fid *lower)
{
    return lower ? lower->context : NULL;
}

void **hook_own(struct fid *fid)
{
    return (void **)((char *)fid + classes[fid->fclass].own);
}

const struct fi_ops *hook_fid_ops(size_t fclass)
{
    return classes[fclass].ops;
}

void hook_retire(struct hook_fabric *fabric, struct fid *fid)
{
    if (fabric->ops.retire)
        fabric->ops.retire(fid);
    else
        free(fid); /* the first member of each */
}

int hook_opened(const struct hook_fabric *fabric, struct children *siblings, struct fid *fid,
                int rc, const struct hook_opening *opening)
{
    const struct hook_watch *watch = fabric->ops.watch;

    if (rc) {
        if (watch && watch->refused)
            watch->refused(fid, opening, rc);
        free(fid); /* the first member of each */
        return rc;
    }
    children_hold(siblings);
    if (watch && watch->opened)
        watch->opened(fabric, fid, opening);
    return 0;
}

int hook_close(struct hook_fabric *fabric, struct children *siblings, struct fid *lower,
               struct fid *fid)
{
    int rc = fi_close(lower);

    if (rc)
        return rc;
    hook_tell_closed(fabric, fid);
    hook_retire(fabric, fid);
    children_release(siblings);
    return 0;
}

int hook_object_close(struct fid *fid)
{
    struct hook_domain *domain = pointer_at(fid, classes[fid->fclass].domain);

    return hook_close(domain->fabric, &domain->children, hook_down(fid), fid);
}

int hook_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct fid *lower = hook_down(fid);

    return lower->ops->bind(lower, hook_down(bfid), flags);
}

int hook_control(struct fid *fid, int command, void *arg)
{
    return command == FI_ALIAS ? -FI_ENOSYS : fi_control(hook_down(fid), command, arg);
}

int hook_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    struct own_object own = {.table = name};
    struct fid *lower = hook_down(fid);

    if (hook_transfers(fid) && !ep_ops_open(fid, name, flags, ops, context))
        return 0;
    if (!name || (strcmp(name, "fi_profile_ops") != 0 && fi_control(lower, CONTROL_OWN, &own)))
        return -FI_ENOSYS;
    return fi_open_ops(lower, name, flags, ops, context);
}

int hook_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
    return fi_set_ops(hook_down(fid), name, flags, ops, context);
}

int hook_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
    return fi_getopt(hook_down(fid), level, name, value, len);
}

int hook_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    return fi_setopt(hook_down(fid), level, name, value, len);
}

int hook_setname(fid_t fid, void *addr, size_t len)
{
    return fi_setname(hook_down(fid), addr, len);
}

int hook_getname(fid_t fid, void *addr, size_t *len)
{
    return fi_getname(hook_down(fid), addr, len);
}

struct fi_ops hook_object_fid_ops = {
    .size = sizeof(hook_object_fid_ops),
    .close = hook_object_close,
    HOOK_FID_PASSES,
};

static struct fid_domain *domain_down(struct hook_fabric *fabric, struct fid_domain *ours)
{
    struct fid_domain *found = ours;

    pthread_mutex_lock(&fabric->mutex);
    list_for_each (item, &fabric->domains) {
        struct hook_domain *domain = list_item(item, struct hook_domain, link);

        if (&domain->fid == ours)
            found = domain->lower;
    }
    pthread_mutex_unlock(&fabric->mutex);
    return found;
}

static struct fid_domain *domain_up(struct hook_fabric *fabric, struct fid_domain *lower)
{
    struct fid_domain *found = lower;

    pthread_mutex_lock(&fabric->mutex);
    list_for_each (item, &fabric->domains) {
        struct hook_domain *domain = list_item(item, struct hook_domain, link);

        if (domain->lower == lower)
            found = &domain->fid;
    }
    pthread_mutex_unlock(&fabric->mutex);
    return found;
}

/* ---- Infos ---- */

struct fi_info *hook_info_down(struct hook_fabric *fabric, const struct fi_info *info)
{
    struct fi_info *copy = abi_info_import(info, fabric->base.abi);

    if (!copy)
        return NULL;
    if (copy->fabric_attr && copy->fabric_attr->fabric == &fabric->base.fid)
        copy->fabric_attr->fabric = fabric->lower;
    if (copy->domain_attr && copy->domain_attr->domain)
        copy->domain_attr->domain = domain_down(fabric, copy->domain_attr->domain);
    copy->handle = hook_down(copy->handle);
    return copy;
}

void hook_info_up(struct hook_fabric *fabric, struct fi_info *info)
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
    return hook_domain_open(hook_fabric_of(fid), info, domain, 0, context);
}

static int fabric_domain2(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain,
                          uint64_t flags, void *context)
{
    return hook_domain_open(hook_fabric_of(fid), info, domain, flags, context);
}

#define TRYWAIT_BATCH 16

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
    struct fid_fabric *lower = hook_fabric_of(fid)->lower;
    struct fid *down[TRYWAIT_BATCH];

    for (int done = 0; done < count; done += TRYWAIT_BATCH) {
        int batch = count - done < TRYWAIT_BATCH ? count - done : TRYWAIT_BATCH;
        int rc;

        for (int i = 0; i < batch; i++)
            down[i] = hook_down(fids[done + i]);
        rc = fi_trywait(lower, down, batch);
        if (rc)
            return rc;
    }
    return 0;
}

struct fi_ops_fabric hook_fabric_ops = {
    .size = sizeof(hook_fabric_ops),
    .domain = fabric_domain,
    .passive_ep = hook_pep_open,
    .eq_open = hook_eq_open,
    .wait_open = hook_wait_open,
    .trywait = fabric_trywait,
    .domain2 = fabric_domain2,
};

static void free_fabric(struct hook_fabric *fabric)
{
    free(fabric->prov_name);
    free(fabric);
}

static int fabric_close(struct fid *fid)
{
    struct hook_fabric *fabric = object_of(fid, struct hook_fabric, base.fid.fid);
    void (*finish)(void *own) = fabric->ops.finish;
    void *own = fabric->own;
    int rc;

    if (children_any(&fabric->base.children))
        return -FI_EBUSY;
    rc = fabric->hold->close(fabric->hold);
    if (rc)
        return rc;
    params_destroy(fabric->params);
    pthread_mutex_destroy(&fabric->mutex);
    free(fabric->prov_name);
    hook_retire(fabric, fid);
    if (finish && own)
        finish(own);
    return 0;
}

struct fi_ops hook_fabric_fid_ops = {
    .size = sizeof(hook_fabric_fid_ops),
    .close = fabric_close,
    .bind = enosys_bind,
    .control = hook_control,
    .ops_open = hook_ops_open,
    .tostr = enosys_tostr,
    .ops_set = hook_ops_set,
};

static const struct hook_ops defaults = {
    .fabric_fid = &hook_fabric_fid_ops,
    .domain_fid = &hook_domain_fid_ops,
    .ep_fid = &hook_ep_fid_ops,
    .pep_fid = &hook_pep_fid_ops,
    .stx_fid = &hook_object_fid_ops,
    .cq_fid = &hook_object_fid_ops,
    .cntr_fid = &hook_object_fid_ops,
    .eq_fid = &hook_eq_fid_ops,
    .av_fid = &hook_object_fid_ops,
    .av_set_fid = &hook_object_fid_ops,
    .mr_fid = &hook_mr_fid_ops,
    .mc_fid = &hook_object_fid_ops,
    .wait_fid = &hook_wait_fid_ops,
    .poll_fid = &hook_object_fid_ops,
    .fabric = &hook_fabric_ops,
    .domain = &hook_domain_ops,
    .mr = &hook_mr_ops,
    .ep = &hook_ep_ops,
    .pep = &hook_pep_ops,
    .cm = &hook_cm_ops,
    .pep_cm = &hook_pep_cm_ops,
    .cq = &hook_cq_ops,
    .cntr = &hook_cntr_ops,
    .eq = &hook_eq_ops,
    .av = &hook_av_ops,
    .av_set = &hook_av_set_ops,
    .wait = &hook_wait_ops,
    .poll = &hook_poll_ops,
    .cq_owner = &hook_cq_owner_ops,
    .cntr_owner = &hook_cntr_owner_ops,
    .srx_owner = &hook_srx_owner_ops,
    .srx_peer = &hook_srx_peer_ops,
    .post = hook_post,
};

/* struct hook_ops is nothing but pointers, those to tables first. */
void hook_ops_inherit(struct hook_ops *ops, const struct hook_ops *base)
{
    void *own[sizeof(*ops) / sizeof(void *)], *others[sizeof(*ops) / sizeof(void *)];

    memcpy(own, ops, sizeof(*ops));
    memcpy(others, base, sizeof(*ops));
    for (size_t i = 0; i < sizeof(*ops) / sizeof(void *); i++) {
        if (!own[i])
            own[i] = others[i];
        else if (others[i] && i < offsetof(struct hook_ops, post) / sizeof(void *))
            table_inherit(own[i], others[i]);
    }
    memcpy(ops, own, sizeof(*ops));
}

static struct hook_ops complete(const struct hook_ops *overrides)
{
    struct hook_ops ops = overrides ? *overrides : (struct hook_ops){0}, base = defaults;

    if (ops.completed) {
        base.cq = table_inherit(&hook_watched_cq_ops, &hook_cq_ops);
        base.cq_owner = &hook_watched_cq_owner_ops;
    }
    hook_ops_inherit(&ops, &base);
    return ops;
}

int hook_open_fabric(const struct open_args *args, struct fid_fabric **ret_fabric, void *context,
                     const struct hook_ops *overrides)
{
    struct hook_fabric *fabric = calloc(1, sizeof(*fabric));

    if (!fabric)
        return -FI_ENOMEM;
    fabric->ops = complete(overrides);
    fabric->triggers = args->part->transparent;
    if (args->attr && args->attr->prov_name)
        fabric->prov_name = strdup(args->attr->prov_name);
    if (args->attr && args->attr->prov_name && !fabric->prov_name) {
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

static struct hook_pep *pep_of(struct fid *fid)
{
    return object_of(fid, struct hook_pep, fid.fid);
}

int hook_pep_open(struct fid_fabric *fid, struct fi_info *info, struct fid_pep **ret_pep,
                  void *context)
{
    struct hook_fabric *fabric = hook_fabric_of(fid);
    struct fi_info *down = hook_info_down(fabric, info);
    struct hook_pep *pep = calloc(1, sizeof(*pep));
    struct hook_opening opening = {.parent = &fid->fid, .context = context, .info = down};
    int rc;

    if (!down || !pep) {
        info_free(down);
        free(pep);
        return -FI_ENOMEM;
    }
    fid_init(&pep->fid.fid, FI_CLASS_PEP, context, fabric->ops.pep_fid);
    pep->fid.ops = fabric->ops.pep;
    pep->fid.cm = fabric->ops.pep_cm;
    pep->fabric = fabric;
    pep->info = down;
    rc = hook_opening(fabric, &pep->fid.fid, &opening);
    if (!rc)
        rc = fi_passive_ep(fabric->lower, down, &pep->lower, pep);
    rc = hook_opened(fabric, &fabric->base.children, &pep->fid.fid, rc, &opening);
    if (rc)
        info_free(down);
    else
        *ret_pep = &pep->fid;
    return rc;
}

static int pep_close(struct fid *fid)
{
    struct hook_pep *pep = pep_of(fid);
    struct fi_info *info = pep->info;
    int rc = hook_close(pep->fabric, &pep->fabric->base.children, &pep->lower->fid, fid);

    if (!rc)
        info_free(info);
    return rc;
}

struct fi_ops hook_pep_fid_ops = {
    .size = sizeof(hook_pep_fid_ops),
    .close = pep_close,
    HOOK_FID_PASSES,
};

struct fi_ops_ep hook_pep_ops = {
    .size = sizeof(hook_pep_ops),
    .cancel = enosys_ep_cancel,
    .getopt = hook_getopt,
    .setopt = hook_setopt,
    NO_EP_CONTEXTS,
};

static int pep_listen(struct fid_pep *pep)
{
    return fi_listen(pep_of(&pep->fid)->lower);
}

static int pep_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
    return fi_reject(pep_of(&pep->fid)->lower, handle, param, paramlen);
}

struct fi_ops_cm hook_pep_cm_ops = {
    .size = sizeof(hook_pep_cm_ops),
    .setname = hook_setname,
    .getname = hook_getname,
    .getpeer = enosys_cm_getpeer,
    .connect = enosys_cm_connect,
    .listen = pep_listen,
    .accept = enosys_cm_accept,
    .reject = pep_reject,
    .shutdown = enosys_cm_shutdown,
    .join = enosys_cm_join,
};
