/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_domain.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/domain.h"
#include "core/ep/srx.h"
#include "core/ep/stx.h"
#include "core/info/info.h"
#include "layers/lnx/lnx_av.h"
#include "layers/lnx/lnx_ep.h"
#include "layers/lnx/lnx_info.h"
#include "layers/lnx/lnx_mr.h"
#include "layers/lnx/lnx_queue.h"
#include "layers/lnx/lnx_rx.h"
#include "layers/lnx/lnx_sep.h"

/* ---- Branches of a domain ---- */

static int close_branches(struct lnx_domain *domain)
{
    int rc = 0;

    while (!rc && domain->count) {
        struct lnx_branch *branch = &domain->branch[domain->count - 1];

        rc = fi_close(&branch->domain->fid);
        if (rc)
            break;
        info_free(branch->info);
        domain->count--;
    }
    return rc;
}

static int open_branch(struct lnx_domain *domain, size_t slot)
{
    struct join_fabric *fabric = domain->fabric;
    struct lnx_branch *branch = &domain->branch[domain->count];
    int bits, rc;

    *branch = (struct lnx_branch){.lower = fabric->lower[slot], .slot = slot};
    rc = lnx_branch_info(fabric, slot, domain->base.info, false, &branch->info);
    if (rc)
        return rc;
    rc = fi_domain(branch->lower->fabric, branch->info, &branch->domain, domain);
    if (rc) {
        info_free(branch->info);
        return rc;
    }
    bits = info_mr_bits(branch->info);
    branch->kind = lnx_addr_kind(branch->info);
    branch->local = lnx_is_local(branch->info);
    branch->keys = bits & FI_MR_PROV_KEY;
    branch->virt = bits & FI_MR_VIRT_ADDR;
    branch->local_mr = bits & (FI_MR_LOCAL | FI_MR_HMEM);
    if (fi_control(&branch->domain->fid, CONTROL_REACH, &branch->reach) ||
        branch->reach.len > REACH_MAX)
        branch->reach.len = 0;
    domain->local_mr = domain->local_mr || branch->local_mr;
    if (slot == lnx_face(fabric->plain.params))
        domain->face = domain->count;
    domain->count++;
    return 0;
}

static int open_branches(struct lnx_domain *domain)
{
    size_t face = lnx_face(domain->fabric->plain.params);
    int rc = 0;

    domain->face = SIZE_MAX;
    for (size_t slot = 0; slot < domain->fabric->slots; slot++) {
        if (!domain->fabric->lower[slot])
            continue;
        rc = open_branch(domain, slot);
        if (rc && rc != -FI_ENODATA)
            break;
        rc = 0;
    }
    if (!rc && (!domain->count || (face != SIZE_MAX && domain->face == SIZE_MAX)))
        rc = -FI_ENODATA;
    if (rc)
        close_branches(domain);
    return rc;
}

/* ---- Domain ---- */

static int domain_close(struct fid *fid)
{
    struct lnx_domain *domain = object_of(fid, struct lnx_domain, base.fid.fid);
    int rc = children_any(&domain->base.children) ? -FI_EBUSY : close_branches(domain);

    if (rc)
        return rc;
    if (domain->own_keys)
        lnx_keys_finish(&domain->keys, domain->progress);
    progress_release(domain->progress);
    domain_finish(&domain->base);
    free(domain);
    return 0;
}

/* The upper's (FI_PEER), or one of our own, whose messages each branch is a source of. */
static int domain_srx_ctx(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **srx,
                          void *context)
{
    return srx_open_usual(fid, LNX_MIN_MULTI_RECV, &match_forward_peer_ops, attr, srx, context);
}

/* The limits that all branches share, or the error of the first that cannot do it. */
static int query_all(struct lnx_domain *domain, enum fi_datatype datatype, enum fi_op op,
                     struct fi_atomic_attr *attr, uint64_t flags)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < domain->count; i++) {
        struct fi_atomic_attr one = {0};

        rc = fi_query_atomic(domain->branch[i].domain, datatype, op, &one, flags);
        if (!i || one.count < attr->count)
            *attr = one;
    }
    return rc;
}

static int domain_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                               struct fi_atomic_attr *attr, uint64_t flags)
{
    struct fi_atomic_attr least = {0};
    int rc = query_all(lnx_domain_of(fid), datatype, op, &least, flags);

    if (!rc && attr)
        *attr = least;
    return rc;
}

int lnx_atomic_count(struct lnx_domain *domain, uint64_t function, enum fi_datatype datatype,
                     enum fi_op op, size_t *count)
{
    struct fi_atomic_attr attr = {0};
    uint32_t *known;

    if ((unsigned)datatype >= LNX_DATATYPES || (unsigned)op >= LNX_OPS)
        return -FI_EOPNOTSUPP;
    known = &domain->atomics[function == FI_COMPARE_ATOMIC ? 2 : function != 0][datatype][op];
    if (!*known) {
        *known = 1;
        if (!query_all(domain, datatype, op, &attr, function))
            *known = attr.count < UINT32_MAX ? (uint32_t)attr.count + 1 : UINT32_MAX;
    }
    if (*known == 1)
        return -FI_EOPNOTSUPP;
    if (count)
        *count = *known - 1;
    return 0;
}

/* ---- Tables of the face's part ---- */

static int domain_control(struct fid *fid, int command, void *arg)
{
    struct lnx_domain *domain = object_of(fid, struct lnx_domain, base.fid.fid);

    if (domain->face >= domain->count || (command != CONTROL_OWN && command != CONTROL_ERROR_TEXT))
        return -FI_ENOSYS;
    return fi_control(&domain->branch[domain->face].domain->fid, command, arg);
}

static int domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
                           void *context)
{
    struct lnx_domain *domain = object_of(fid, struct lnx_domain, base.fid.fid);

    if (domain->face >= domain->count)
        return -FI_ENOSYS;
    return fi_open_ops(&domain->branch[domain->face].domain->fid, name, flags, ops, context);
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = domain_close,
    .bind = enosys_bind,
    .control = domain_control,
    .ops_open = domain_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops),
    .av_open = lnx_av_open,
    .cq_open = lnx_cq_open,
    .endpoint = lnx_ep_open,
    .scalable_ep = lnx_sep_open,
    .cntr_open = lnx_cntr_open,
    .stx_ctx = stx_open,
    .srx_ctx = domain_srx_ctx,
    .query_atomic = domain_query_atomic,
};

static unsigned count_rails(const struct lnx_domain *domain)
{
    unsigned most = 0;

    for (size_t i = 0; i < domain->count; i++) {
        unsigned alike = 0;

        for (size_t j = 0; j < domain->count; j++)
            alike += domain->branch[j].kind == domain->branch[i].kind;
        most = alike > most ? alike : most;
    }
    return most;
}

static int open_keys(struct lnx_domain *domain)
{
    size_t choosers = 0;

    for (size_t i = 0; i < domain->count; i++)
        choosers += domain->branch[i].keys;
    if (choosers < 2)
        return 0;
    domain->own_keys = true;
    return lnx_keys_init(&domain->keys, domain->progress);
}

static int open_parts(struct lnx_domain *domain)
{
    int rc = progress_create(domain->base.info->domain_attr, "lnx", domain->base.progress_group,
                             &domain->progress);

    if (rc)
        return rc;
    list_init(&domain->unlocked);
    domain->mr_bits = info_mr_bits(domain->base.info);
    domain->source_err = domain->base.info->caps & FI_SOURCE_ERR;
    domain->devices = domain->base.info->caps & FI_HMEM;
    rc = open_branches(domain);
    domain->rails = count_rails(domain);
    domain->per_msg = domain->rails > 1 && lnx_is_per_msg(domain->fabric->plain.params);
    if (!rc)
        rc = open_keys(domain);
    if (rc) {
        close_branches(domain);
        progress_release(domain->progress);
    }
    return rc;
}

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **ret,
                         void *context)
{
    struct lnx_domain *domain;
    struct domain *base;
    int rc = domain_create(sizeof(*domain), fid, info, &fid_ops, &domain_ops, &lnx_mr_ops, &base,
                           context);

    if (rc)
        return rc;
    domain = object_of(base, struct lnx_domain, base);
    domain->fabric = object_of(fid, struct join_fabric, base.fid);
    rc = open_parts(domain);
    if (rc) {
        domain_finish(base);
        free(domain);
        return rc;
    }
    *ret = &base->fid;
    return 0;
}

/* ---- Fabric ---- */

_Static_assert((int)LNX_BRANCHES == (int)JOIN_BRANCHES, "branches that a fabric has");

int lnx_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    return join_fabric_open(args, &lnx_words, fabric_domain, fabric, context);
}
