/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_sep.h"

#include <stdlib.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "layers/lnx/lnx_av.h"
#include "layers/lnx/lnx_ep.h"
#include "layers/lnx/lnx_info.h"
#include "layers/lnx/lnx_name.h"

static struct lnx_sep *own_of(struct sep *sep)
{
    return object_of(sep, struct lnx_sep, base);
}

static struct lnx_domain *domain_of(const struct lnx_sep *sep)
{
    return object_of(sep->base.domain, struct lnx_domain, base);
}

/* ---- Contexts ---- */

static int bind_branches(struct lnx_sep *sep, struct lnx_av *av)
{
    int rc = 0;

    for (size_t i = 0; !rc && !sep->bound && i < sep->count; i++) {
        rc = fi_scalable_ep_bind(sep->branch[i].ep, &av->branch[i].av->fid, 0);
        if (!rc)
            rc = fi_enable(sep->branch[i].ep);
    }
    sep->bound = sep->bound || !rc;
    return rc;
}

int lnx_sep_join(struct lnx_sep *sep, size_t class, unsigned index, struct binding *binding,
                 struct av **av)
{
    struct progress *progress = domain_of(sep)->progress;
    int rc = sep_join(&sep->base, class, index, binding, av);

    if (rc)
        return rc;
    progress_lock(progress);
    rc = bind_branches(sep, lnx_av_of(*av));
    progress_unlock(progress);
    return rc;
}

/* ---- The endpoint itself ---- */

static int sep_getname(struct sep *base, void *addr, size_t *len)
{
    struct lnx_sep *sep = own_of(base);
    struct lnx_names names = {.domain = domain_of(sep), .count = sep->count};

    for (size_t i = 0; i < sep->count; i++) {
        names.ep[i] = sep->branch[i].ep;
        names.info[i] = sep->branch[i].info;
    }
    return lnx_name_give(&names, addr, len);
}

static int sep_setname(struct sep *base, void *addr, size_t len)
{
    struct lnx_sep *sep = own_of(base);
    struct lnx_names names = {.domain = domain_of(sep), .count = sep->count};

    if (sep_has_contexts(base))
        return -FI_EOPBADSTATE;
    for (size_t i = 0; i < sep->count; i++)
        names.ep[i] = sep->branch[i].ep;
    return lnx_name_set(&names, addr, len);
}

static void close_branches(struct lnx_sep *sep)
{
    for (size_t i = sep->count; i--;) {
        fi_close(&sep->branch[i].ep->fid);
        info_free(sep->branch[i].info);
    }
}

static void sep_close(struct sep *base)
{
    struct lnx_sep *sep = own_of(base);
    struct progress *progress = domain_of(sep)->progress;

    progress_lock(progress);
    close_branches(sep);
    progress_unlock(progress);
    sep_finish(base);
    free(sep);
}

static const struct sep_ops ops = {
    .open = lnx_ep_open_context,
    .setname = sep_setname,
    .getname = sep_getname,
    .close = sep_close,
};

static int open_branch(struct lnx_sep *sep, size_t i)
{
    struct lnx_domain *domain = domain_of(sep);
    const struct lnx_branch *branch = &domain->branch[i];
    struct fi_info *info;
    int rc = lnx_branch_info(domain->fabric, branch->slot, sep->base.info, false, &info);

    if (rc)
        return rc;
    info->ep_attr->tx_ctx_cnt = sep->base.info->ep_attr->tx_ctx_cnt;
    info->ep_attr->rx_ctx_cnt = sep->base.info->ep_attr->rx_ctx_cnt;
    rc = fi_scalable_ep(branch->domain, info, &sep->branch[i].ep, sep);
    if (rc)
        info_free(info);
    else
        sep->branch[i].info = info;
    return rc;
}

/* All that belongs to the domain is driven together, as everything of it has one lock. */
static int open_parts(struct lnx_sep *sep)
{
    struct lnx_domain *domain = domain_of(sep);
    int rc = sep_share_progress(&sep->base);

    if (!rc)
        rc = progress_merge(domain->progress, sep->base.progress);
    if (rc)
        return rc;
    progress_lock(domain->progress);
    while (!rc && sep->count < domain->count) {
        rc = open_branch(sep, sep->count);
        sep->count += !rc;
    }
    progress_unlock(domain->progress);
    return rc;
}

int lnx_sep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_sep,
                 void *context)
{
    struct lnx_domain *domain = lnx_domain_of(fid);
    struct lnx_sep *sep = calloc(1, sizeof(*sep));
    int rc;

    if (!sep)
        return -FI_ENOMEM;
    rc = sep_init(&sep->base, &domain->base, info, &ops, context);
    if (!rc)
        rc = domain->own_keys ? -FI_ENOSYS : open_parts(sep);
    if (rc)
        sep_close(&sep->base);
    else
        *ret_sep = &sep->base.fid;
    return rc;
}
