/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/domain/plain_fabric.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/domain.h"
#include "core/part/part.h"
#include "core/progress/progress.h"
#include "core/queue/eq.h"
#include "core/queue/wait_set.h"

static int open_eq(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **eq,
                   void *context)
{
    struct plain_fabric *fabric = object_of(fid, struct plain_fabric, base.fid);

    return eq_open(&fabric->base, fabric->control, attr, eq, context);
}

static int fabric_close(struct fid *fid)
{
    struct plain_fabric *fabric = object_of(fid, struct plain_fabric, base.fid.fid);
    int rc = children_any(&fabric->base.children) ? -FI_EBUSY : 0;

    if (!rc && fabric->close_own)
        rc = fabric->close_own(fabric);
    if (rc)
        return rc;
    params_destroy(fabric->params);
    plain_fabric_discard(fabric);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = fabric_close,
    FID_CLOSES_ONLY,
};

int plain_fabric_create(size_t size, const struct open_args *args,
                        int (*domain)(struct fid_fabric *fabric, struct fi_info *info,
                                      struct fid_domain **domain, void *context),
                        struct plain_fabric **ret_fabric, void *context)
{
    struct plain_fabric *fabric = calloc(1, size);
    int rc;

    if (!fabric)
        return -FI_ENOMEM;
    rc = progress_create_control(args->part->name, &fabric->control);
    if (rc) {
        free(fabric);
        return rc;
    }
    fabric->ops = (struct fi_ops_fabric){
        .size = sizeof(fabric->ops),
        .domain = domain,
        .passive_ep = enosys_fabric_passive_ep,
        .eq_open = open_eq,
        .wait_open = wait_set_open,
        .trywait = fabric_trywait,
        .domain2 = fabric_domain2,
    };
    fabric_init(&fabric->base, args, &fid_ops, &fabric->ops, context);
    fabric->params = args->params;
    *ret_fabric = fabric;
    return 0;
}

void plain_fabric_discard(struct plain_fabric *fabric)
{
    progress_release(fabric->control);
    free(fabric);
}
