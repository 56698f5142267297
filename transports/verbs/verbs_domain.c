/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_domain.h"

#include <stdlib.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/domain/base.h"
#include "core/domain/domain.h"
#include "transports/verbs/verbs_atomic.h"
#include "transports/verbs/verbs_quick.h"
#include "transports/verbs/verbs_srx.h"

static int domain_close(struct fid *fid)
{
    struct verbs_domain *domain = object_of(fid, struct verbs_domain, base.fid.fid);
    int rc;

    if (children_any(&domain->base.children))
        return -FI_EBUSY;
    rc = verbs_domain_forked(domain) ? 0 : verbs_lib.dealloc_pd(domain->pd);
    if (rc)
        return verbs_error(rc);
    domain_finish(&domain->base);
    verbs_srx_forget(domain);
    pthread_mutex_destroy(&domain->mutex);
    free(domain);
    return 0;
}

static struct fi_ops domain_fid_ops_own = {
    .size = sizeof(struct fi_ops),
    .close = domain_close,
    .bind = enosys_bind,
    .control = enosys_control,
    NO_FID_TABLES,
};

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .cq_open = verbs_quick_cq_open,
    .endpoint = verbs_ep_open,
    .srx_ctx = verbs_srx_open,
    .query_atomic = verbs_query_atomic,
};

static int open_device(struct verbs_domain *domain, const struct fi_info *info)
{
    const char *name = info->domain_attr->name;

    domain->device = name ? verbs_device_find(name) : NULL;
    if (!domain->device) {
        LOG_WARN("verbs", FI_LOG_DOMAIN, "there is no RDMA device '%s'", name ? name : "");
        return -FI_ENODEV;
    }
    domain->pd = verbs_lib.alloc_pd(domain->device->context);
    return domain->pd ? 0 : verbs_error(-1);
}

/* Of an enum ibv_wc_status that is no success. */
static const char *status_text(const struct domain *domain, int status)
{
    return status > 0 && status <= (int)IBV_WC_GENERAL_ERR
               ? verbs_lib.wc_status_str((enum ibv_wc_status)status)
               : NULL;
}

int verbs_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **ret_domain,
                      void *context)
{
    struct verbs_fabric *fabric = object_of(fid, struct verbs_fabric, base.fid);
    struct verbs_domain *domain = calloc(1, sizeof(*domain));
    int rc;

    if (!domain)
        return -FI_ENOMEM;
    domain->fabric = fabric;
    domain->forks = fork_generation;
    list_init(&domain->cqs);
    rc = domain_init(&domain->base, &fabric->base, info, &domain_fid_ops_own,
                     domain_table(&domain_ops), &verbs_mr_ops, context);
    if (rc)
        goto free_domain;
    domain->base.error_text = status_text;
    rc = open_device(domain, domain->base.info);
    if (rc)
        goto finish_base;
    pthread_mutex_init(&domain->mutex, NULL);
    *ret_domain = &domain->base.fid;
    return 0;

finish_base:
    domain_finish(&domain->base);
free_domain:
    free(domain);
    return rc;
}
