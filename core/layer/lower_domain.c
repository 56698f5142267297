/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/layer/lower_domain.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/domain.h"
#include "core/info/info.h"

/* ---- Domain ---- */

static void destroy(struct lower_domain *domain)
{
    const struct lower_domain_type *type = domain->fabric->type;

    domain_finish(&domain->base);
    info_free(domain->lower_info);
    if (type->finish)
        type->finish(domain);
    free(domain);
}

int lower_domain_close(struct fid *fid)
{
    struct lower_domain *domain = object_of(fid, struct lower_domain, base.fid.fid);
    int rc = children_any(&domain->base.children) ? -FI_EBUSY : fi_close(&domain->lower->fid);

    if (!rc)
        destroy(domain);
    return rc;
}

/* ---- Tables of the lower's ---- */

static int open_table(struct fid *lower, const char *name, uint64_t flags, void **ops,
                      void *context)
{
    struct own_object own = {.table = name};

    return fi_control(lower, CONTROL_OWN, &own) ? -FI_ENOSYS
                                                : fi_open_ops(lower, name, flags, ops, context);
}

int lower_domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
                          void *context)
{
    struct lower_domain *domain = object_of(fid, struct lower_domain, base.fid.fid);

    return open_table(&domain->lower->fid, name, flags, ops, context);
}

int lower_domain_own(struct fid *fid, struct own_object *own)
{
    struct lower_domain *domain = object_of(fid, struct lower_domain, base.fid.fid);

    return fi_control(&domain->lower->fid, CONTROL_OWN, own);
}

static int domain_control(struct fid *fid, int command, void *arg)
{
    return command == CONTROL_OWN ? lower_domain_own(fid, arg) : -FI_ENOSYS;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = lower_domain_close,
    .bind = enosys_bind,
    .control = domain_control,
    .ops_open = lower_domain_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

static int open_lower(struct lower_domain *domain)
{
    struct lower_fabric *fabric = domain->fabric;
    int rc = fabric->type->lower_info(fabric, domain->base.info, &domain->lower_info);

    if (rc)
        return rc;
    return fi_domain(fabric->lower->fabric, domain->lower_info, &domain->lower, domain);
}

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **ret,
                         void *context)
{
    struct lower_fabric *fabric = object_of(fid, struct lower_fabric, base.fid);
    const struct lower_domain_type *type = fabric->type;
    struct lower_domain *domain;
    struct domain *base;
    int rc = domain_create(type->size, fid, info, type->fid_ops ? type->fid_ops : &fid_ops,
                           type->ops, type->regions, &base, context);

    if (rc)
        return rc;
    domain = object_of(base, struct lower_domain, base);
    domain->fabric = fabric;
    if (type->init)
        type->init(domain);
    rc = open_lower(domain);
    if (rc)
        destroy(domain);
    else
        *ret = &domain->base.fid;
    return rc;
}

/* ---- Fabric ---- */

static struct fid *lower_of(struct fid *fid)
{
    return &object_of(fid, struct lower_fabric, base.fid.fid)->lower->fabric->fid;
}

static int fabric_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
                           void *context)
{
    return open_table(lower_of(fid), name, flags, ops, context);
}

static int fabric_control(struct fid *fid, int command, void *arg)
{
    return command == CONTROL_OWN ? fi_control(lower_of(fid), command, arg) : -FI_ENOSYS;
}

static int close_lower(struct plain_fabric *plain)
{
    struct lower *lower = object_of(plain, struct lower_fabric, plain)->lower;

    return lower->close(lower);
}

int lower_fabric_open(const struct open_args *args, const struct lower_domain_type *type,
                      struct fid_fabric **ret_fabric, void *context)
{
    struct lower_fabric *fabric;
    struct plain_fabric *plain;
    int rc = plain_fabric_create(sizeof(*fabric), args, fabric_domain, &plain, context);

    if (rc)
        return rc;
    fabric = object_of(plain, struct lower_fabric, plain);
    fabric->type = type;
    fabric->lower = args->lowers[0];
    plain->close_own = close_lower;
    fabric->fid_ops = *plain->base.fid.fid.ops;
    fabric->fid_ops.control = fabric_control;
    fabric->fid_ops.ops_open = fabric_ops_open;
    plain->base.fid.fid.ops = &fabric->fid_ops;
    *ret_fabric = &plain->base.fid;
    return 0;
}
