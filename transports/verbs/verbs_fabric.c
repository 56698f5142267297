/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_fabric.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/domain/domain.h"
#include "core/queue/wait_set.h"
#include "transports/verbs/verbs_domain.h"
#include "transports/verbs/verbs_eq.h"
#include "transports/verbs/verbs_cm_lib.h"
#include "transports/verbs/verbs_pep.h"

static int fabric_close(struct fid *fid)
{
    struct verbs_fabric *fabric = object_of(fid, struct verbs_fabric, base.fid.fid);

    if (children_any(&fabric->base.children))
        return -FI_EBUSY;
    pthread_mutex_destroy(&fabric->mutex);
    params_destroy(fabric->params);
    free(fabric);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = fabric_close,
    .bind = enosys_bind,
    .control = enosys_control,
    NO_FID_TABLES,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = verbs_domain_open,
    .passive_ep = verbs_pep_open,
    .eq_open = verbs_eq_open,
    .wait_open = wait_set_open,
    .trywait = fabric_trywait,
    .domain2 = fabric_domain2,
};

int verbs_open_fabric(const struct open_args *args, struct fid_fabric **result, void *context)
{
    struct verbs_fabric *fabric;
    const char *why;

    if (verbs_cm_lib_load(&why))
        return -FI_ENODATA;
    fabric = calloc(1, sizeof(*fabric));
    if (!fabric)
        return -FI_ENOMEM;
    fabric_init(&fabric->base, args, &fid_ops, &fabric_ops, context);
    fabric->params = args->params;
    fabric->resolve_ms = (int)params_time_ms(args->params, "resolve_timeout");
    fabric->answer_ms = params_time_ms(args->params, "answer_timeout");
    pthread_mutex_init(&fabric->mutex, NULL);
    list_init(&fabric->eqs);
    *result = &fabric->base.fid;
    return 0;
}
