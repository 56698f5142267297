/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/domain/base.h"

#include <rdma/fi_errno.h>

#include "core/domain/mr.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/part/part.h"
#include "core/progress/progress.h"

void fabric_init(struct fabric *fabric, const struct open_args *args, struct fi_ops *fid_ops,
                 struct fi_ops_fabric *ops, void *context)
{
    fid_init(&fabric->fid.fid, FI_CLASS_FABRIC, context, fid_ops);
    fabric->fid.ops = ops;
    fabric->fid.api_version = args->api_version;
    atomic_init(&fabric->children.count, 0);
    fabric->api_version = args->api_version;
    fabric->abi = args->abi;
    fabric->part = args->part->name;
}

struct fi_info *fabric_info(const struct fabric *fabric, const struct fi_info *info)
{
    struct fi_info *imported = abi_info_import(info, fabric->abi);
    struct fi_info *complete;

    if (!imported)
        return NULL;
    complete = info_complete(imported);
    info_free(imported);
    return complete;
}

int domain_init(struct domain *domain, struct fabric *fabric, const struct fi_info *info,
                struct fi_ops *fid_ops, struct fi_ops_domain *ops, struct fi_ops_mr *regions,
                void *context)
{
    struct fi_info *own = fabric_info(fabric, info);
    struct progress_group *progress_group;

    if (!own || progress_group_create(&progress_group)) {
        info_free(own);
        return -FI_ENOMEM;
    }
    fid_init(&domain->fid.fid, FI_CLASS_DOMAIN, context, fid_ops);
    domain->fid.ops = ops;
    domain->fid.mr = regions;
    domain->fabric = fabric;
    atomic_init(&domain->children.count, 0);
    domain->info = own;
    domain->progress_group = progress_group;
    domain->mrs = NULL;
    pthread_mutex_init(&domain->reports.mutex, NULL);
    list_init(&domain->reports.list);
    domain->reports.common = NULL;
    children_hold(&fabric->children);
    return 0;
}

void domain_finish(struct domain *domain)
{
    if (domain->reports.common)
        progress_release(domain->reports.common);
    progress_group_release(domain->progress_group);
    pthread_mutex_destroy(&domain->reports.mutex);
    mr_map_destroy(domain->mrs);
    info_free(domain->info);
    domain->info = NULL;
    children_release(&domain->fabric->children);
}
