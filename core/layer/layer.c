/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric, domain, regions and infos. The pass-through below sees the current layouts only: structs
 * of the application in an older one are imported here. */
#include "core/layer/layer.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/base.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/queue/eq.h"
#include "core/queue/poll_set.h"

/* The hook of the fabric. */
struct layer_fabric {
    struct fabric upper; /* as the pass-through's, with the layouts of the application */
    const struct layer_ops *ops;
};

static struct layer_fabric *fabric_of(struct fid_fabric *fid)
{
    return hook_fabric_of(fid)->own;
}

/* ---- Infos ---- */

struct fi_info *layer_hints(const struct fi_info *hints, uint64_t added)
{
    struct fi_info *need = info_for_lower(hints);

    if (!need)
        return NULL;
    if (need->caps)
        need->caps = (need->caps & ~added) | FI_PEER;
    need->tx_attr->caps &= ~added;
    need->rx_attr->caps &= ~added;
    need->domain_attr->caps &= ~added;
    need->ep_attr->type = FI_EP_RDM;
    return need;
}

struct fi_info *layer_offer(const struct fi_info *lower, uint64_t added)
{
    struct fi_info *info = info_dup(lower);

    if (!info)
        return NULL;
    info->handle = NULL;
    info->caps |= added;
    info->tx_attr->caps |= added;
    info->rx_attr->caps |= added;
    info->fabric_attr->fabric = NULL;
    info->domain_attr->domain = NULL;
    info->domain_attr->threading = FI_THREAD_SAFE;
    info->domain_attr->progress = FI_PROGRESS_UNSPEC;
    info->domain_attr->control_progress = FI_PROGRESS_UNSPEC;
    return info;
}

/* info: in the current layout, all attrs present. */
static int lower_info_of(struct fid_fabric *fid, const struct fi_info *info,
                         struct fi_info **ret_lower_info)
{
    struct hook_fabric *hook = hook_fabric_of(fid);
    struct fi_info *need = fabric_of(fid)->ops->lower_hints(info), *list = NULL;
    int rc;

    if (!need || info_set_dest(need, NULL, 0)) {
        info_free(need);
        return -FI_ENOMEM;
    }
    rc = hook->hold->getinfo(hook->hold, hook->base.api_version, NULL, NULL, 0, need, &list);
    info_free(need);
    if (rc)
        return rc;
    info_free(list->next);
    list->next = NULL;
    *ret_lower_info = list;
    return 0;
}

int layer_lower_info(struct layer_domain *domain, const struct fi_info *info,
                     struct fi_info **lower_info)
{
    return lower_info_of(&domain->hook->fabric->base.fid, info, lower_info);
}

/* ---- Domain ---- */

static int domain_close(struct fid *fid)
{
    struct layer_domain *own = *hook_own(fid);
    const struct layer_ops *ops = own->ops;
    int rc;

    if (children_any(&own->base.children) || children_any(&own->hook->children))
        return -FI_EBUSY;
    if (ops->domain_closing) {
        progress_lock(own->progress);
        ops->domain_closing(own);
        progress_unlock(own->progress);
    }
    rc = hook_domain_fid_ops.close(fid);
    if (rc)
        return rc;
    progress_release(own->progress);
    pool_finish(&own->items);
    domain_finish(&own->base);
    free(own);
    return 0;
}

static int open_own(struct layer_fabric *fabric, const struct fi_info *info,
                    struct layer_domain **ret_own)
{
    struct layer_domain *own = calloc(1, fabric->ops->domain_size);
    int rc;

    if (!own)
        return -FI_ENOMEM;
    own->ops = fabric->ops;
    pool_init(&own->items, fabric->ops->item_size, 0);
    rc = domain_init(&own->base, &fabric->upper, info, NULL, NULL, NULL, NULL);
    if (rc) {
        free(own);
        return rc;
    }
    rc = progress_create(own->base.info->domain_attr, fabric->upper.part, own->base.progress_group,
                         &own->progress);
    if (rc) {
        domain_finish(&own->base);
        free(own);
        return rc;
    }
    *ret_own = own;
    return 0;
}

static int open_domain2(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain,
                        uint64_t flags, void *context)
{
    struct layer_domain *own;
    struct fi_info *down = NULL;
    int rc = flags ? -FI_EINVAL : open_own(fabric_of(fid), info, &own);

    if (rc)
        return rc;
    rc = lower_info_of(fid, own->base.info, &down);
    if (!rc)
        rc = hook_domain_open(hook_fabric_of(fid), down, domain, 0, context);
    info_free(down);
    if (rc) {
        progress_release(own->progress);
        domain_finish(&own->base);
        free(own);
        return rc;
    }
    own->hook = hook_domain_of(*domain);
    own->hook->own = own;
    rc = own->ops->domain_opened ? own->ops->domain_opened(own) : 0;
    if (rc)
        domain_close(&(*domain)->fid);
    return rc;
}

static int open_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    return open_domain2(fid, info, domain, 0, context);
}

static int open_ep2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                    uint64_t flags, void *context)
{
    return flags ? -FI_EINVAL : layer_ep_open(domain, info, ep, context);
}

/* ---- Fabric ---- */

static int fabric_close(struct fid *fid)
{
    struct layer_fabric *own = *hook_own(fid);
    int rc = hook_fabric_fid_ops.close(fid);

    if (!rc)
        free(own);
    return rc;
}

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
    for (int i = 0; i < count; i++) {
        bool ours = fids[i]->fclass == FI_CLASS_CQ || fids[i]->fclass == FI_CLASS_CNTR;
        int rc = ours ? fids_trywait(&fids[i], 1) : hook_fabric_ops.trywait(fid, &fids[i], 1);

        if (rc)
            return rc;
    }
    return 0;
}

/* A layer below has collectives: event queues report its joins, and a program may read such a queue
 * and no other. Keeps the domain open; NULL: none. */
static struct layer_domain *hold_joining(struct hook_fabric *fabric, size_t index)
{
    struct layer_domain *found = NULL;

    pthread_mutex_lock(&fabric->mutex);
    list_for_each (item, &fabric->domains) {
        struct layer_domain *own = list_item(item, struct hook_domain, link)->own;

        if (!own || !(own->base.info->caps & FI_COLLECTIVE) || index--)
            continue;
        found = own;
        children_hold(&own->base.children);
        break;
    }
    pthread_mutex_unlock(&fabric->mutex);
    return found;
}

/* True while it takes the caller to make progress. */
static bool drive_joins(struct hook_fabric *fabric)
{
    struct layer_domain *own;
    bool by_hand = false;

    for (size_t i = 0; (own = hold_joining(fabric, i)); i++) {
        by_hand = by_hand || !progress_has_thread(own->progress);
        if (!progress_forked(own->progress)) {
            progress_lock(own->progress);
            progress_poll(own->progress);
            progress_unlock(own->progress);
        }
        children_release(&own->base.children);
    }
    return by_hand;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
    drive_joins(object_of(fid, struct hook_eq, fid)->fabric);
    return hook_eq_ops.read(fid, event, buf, len, flags);
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
                        uint64_t flags)
{
    long long start = clock_ms();

    for (;;) {
        int left = wait_left(timeout, start);
        bool slices = drive_joins(object_of(fid, struct hook_eq, fid)->fabric);
        ssize_t rc = hook_eq_ops.sread(fid, event, buf, len, slices && left ? 1 : left, flags);

        if (rc != -FI_EAGAIN || !slices || !left)
            return rc;
    }
}

/* There may be such a queue in the set. */
static int set_wait(struct fid_wait *fid, int timeout)
{
    long long start = clock_ms();

    for (;;) {
        int left = wait_left(timeout, start);
        bool slices = drive_joins(object_of(fid, struct hook_wait, fid)->fabric);
        int rc = hook_wait_ops.wait(fid, slices && left ? 1 : left);

        if (rc != -FI_ETIMEDOUT || !slices || !left)
            return rc;
    }
}

static int domain_poll(struct fid_domain *fid, struct fi_poll_attr *attr, struct fid_poll **set)
{
    return poll_set_open(&layer_domain_of(fid)->base, attr, set);
}

static int mc_close(struct fid *fid)
{
    struct layer_domain *own = object_of(fid, struct hook_mc, fid.fid)->domain->own;
    int rc;

    progress_lock(own->progress);
    rc = hook_object_fid_ops.close(fid);
    progress_unlock(own->progress);
    return rc;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
    struct hook_eq *eq = object_of(fid, struct hook_eq, fid);
    size_t size = abi_eq_err_entry_size(fabric_of(&eq->fabric->base.fid)->upper.abi);
    struct fi_eq_err_entry own = {0};
    ssize_t rc;

    memcpy(&own, entry, size);
    rc = hook_eq_ops.readerr(fid, &own, flags);
    if (rc > 0) {
        memcpy(entry, &own, size);
        rc = (ssize_t)size;
    }
    return rc;
}

/* ---- AVs ---- */

static void changed(struct fid_av *fid)
{
    struct layer_domain *own = object_of(fid, struct hook_av, fid)->domain->own;

    atomic_store(&own->av_changed, true);
}

static int av_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr,
                     uint64_t flags, void *context)
{
    int rc = hook_av_ops.insert(av, addr, count, fi_addr, flags, context);

    changed(av);
    return rc;
}

static int av_insertsvc(struct fid_av *av, const char *node, const char *service,
                        fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    int rc = hook_av_ops.insertsvc(av, node, service, fi_addr, flags, context);

    changed(av);
    return rc;
}

static int av_insertsym(struct fid_av *av, const char *node, size_t nodes, const char *service,
                        size_t services, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    int rc = hook_av_ops.insertsym(av, node, nodes, service, services, fi_addr, flags, context);

    changed(av);
    return rc;
}

static int av_remove(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    int rc = hook_av_ops.remove(av, fi_addr, count, flags);

    changed(av);
    return rc;
}

/* ---- Regions ---- */

/* The hook of a region that peers may reach, or that a counter is bound to. */
struct region {
    bool remote;
    struct layer_cntr *cntrs[2]; /* of remote writes, of remote reads */
    size_t count;
};

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **mr)
{
    struct layer_domain *own = *hook_own(fid);
    struct region *region = NULL;
    struct fi_mr_attr current;
    int rc;

    abi_mr_attr_import(attr, own->base.fabric->abi, &current);
    if (current.access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) {
        region = calloc(1, sizeof(*region));
        if (!region)
            return -FI_ENOMEM;
        region->remote = true;
    }
    rc = hook_mr_ops.regattr(fid, &current, flags, mr);
    if (rc)
        free(region);
    else
        *hook_own(&(*mr)->fid) = region;
    return rc;
}

static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct hook_mr *mr = object_of(fid, struct hook_mr, fid.fid);
    struct region *region = mr->own;
    struct layer_cntr *cntr;
    int rc;

    if (other->fclass != FI_CLASS_CNTR)
        return hook_mr_fid_ops.bind(fid, other, flags);
    cntr = layer_cntr_of(mr->domain->own, other);
    if (!cntr || (region && region->count == sizeof(region->cntrs) / sizeof(region->cntrs[0])))
        return -FI_EINVAL;
    if (!region)
        mr->own = region = calloc(1, sizeof(*region));
    if (!region)
        return -FI_ENOMEM;
    progress_lock(cntr->domain->progress);
    rc = fi_mr_bind(mr->lower, &cntr->base.lower->fid, flags);
    progress_unlock(cntr->domain->progress);
    if (rc)
        return rc;
    region->cntrs[region->count++] = cntr;
    children_hold(&cntr->cntr.children);
    return 0;
}

static int mr_close(struct fid *fid)
{
    struct hook_mr *mr = object_of(fid, struct hook_mr, fid.fid);
    struct layer_domain *own = mr->domain->own;
    struct region *region = mr->own;
    int rc = hook_mr_fid_ops.close(fid);

    if (rc || !region)
        return rc;
    if (region->remote) /* what the lower does there, our lock locks */
        progress_group_sync(own->base.progress_group);
    for (size_t i = 0; i < region->count; i++)
        children_release(&region->cntrs[i]->cntr.children);
    free(region);
    return rc;
}

/* ---- Tables ---- */

static struct fi_ops fabric_fid_ops = {.size = sizeof(fabric_fid_ops), .close = fabric_close};
static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(fabric_ops),
    .domain = open_domain,
    .domain2 = open_domain2,
    .passive_ep = enosys_fabric_passive_ep,
    .trywait = fabric_trywait,
};
static struct fi_ops domain_fid_ops = {.size = sizeof(domain_fid_ops), .close = domain_close};
static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops),
    .cq_open = layer_cq_open,
    .cntr_open = layer_cntr_open,
    .endpoint = layer_ep_open,
    .endpoint2 = open_ep2,
    .scalable_ep = layer_sep_open,
    .stx_ctx = layer_stx_open,
    .srx_ctx = layer_srx_open,
    .poll_open = domain_poll,
};
static struct fi_ops_wait wait_ops = {.size = sizeof(wait_ops), .wait = set_wait};
struct fi_ops_eq layer_eq_ops = {
    .size = sizeof(layer_eq_ops), .read = eq_read, .sread = eq_sread, .readerr = eq_readerr};
static struct fi_ops mc_fid_ops = {.size = sizeof(mc_fid_ops), .close = mc_close};
struct fi_ops_av layer_av_ops = {
    .size = sizeof(layer_av_ops),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = av_insertsym,
    .remove = av_remove,
};
static struct fi_ops_mr mr_ops = {.size = sizeof(mr_ops), .regattr = mr_regattr};
static struct fi_ops mr_fid_ops = {.size = sizeof(mr_fid_ops), .bind = mr_bind, .close = mr_close};

static const struct hook_ops layer_tables = {
    .fabric_fid = &fabric_fid_ops,
    .fabric = &fabric_ops,
    .domain_fid = &domain_fid_ops,
    .domain = &domain_ops,
    .ep_fid = &layer_ep_fid_ops,
    .ep = &layer_ep_ops,
    .cm = &layer_cm_ops,
    .stx_fid = &layer_stx_fid_ops,
    .eq = &layer_eq_ops,
    .wait = &wait_ops,
    .av = &layer_av_ops,
    .mr = &mr_ops,
    .mr_fid = &mr_fid_ops,
    .mc_fid = &mc_fid_ops,
    .post = layer_post,
};

int layer_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    const struct layer_ops *ops = args->part->layer;
    struct layer_fabric *own = calloc(1, sizeof(*own));
    struct hook_ops tables = *ops->hook;
    int rc = -FI_ENOMEM;

    hook_ops_inherit(&tables, &layer_tables);
    if (own)
        rc = hook_open_fabric(args, fabric, context, &tables);
    if (rc) {
        free(own);
        return rc;
    }
    own->ops = ops;
    fabric_init(&own->upper, args, NULL, NULL, NULL);
    hook_fabric_of(*fabric)->base.abi = ABI_1_9;
    hook_fabric_of(*fabric)->own = own;
    return 0;
}
