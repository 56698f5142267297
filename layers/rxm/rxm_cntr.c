/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_cntr.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/no.h"

int rxm_cntr_lower(struct cntr *base, struct fid_cntr **lower)
{
    struct rxm_cntr *cntr = object_of(base, struct rxm_cntr, cntr);
    struct rxm_domain *domain = object_of(base->domain, struct rxm_domain, base);
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .flags = FI_PEER};
    struct fi_peer_cntr_context context = {.size = sizeof(context), .cntr = base->sink};
    int rc;

    attr.wait_obj = FI_WAIT_NONE;
    if (!cntr->lower) {
        rc = fi_cntr_open(domain->lower, &attr, &cntr->lower, &context);
        if (rc)
            return rc;
    }
    *lower = cntr->lower;
    return 0;
}

static int cntr_close(struct fid *fid)
{
    struct rxm_cntr *cntr = object_of(fid, struct rxm_cntr, cntr.fid.fid);
    int rc = cntr_close_check(&cntr->cntr);

    if (!rc && cntr->lower)
        rc = fi_close(&cntr->lower->fid);
    if (rc)
        return rc;
    cntr_finish(&cntr->cntr);
    free(cntr);
    return 0;
}

static struct fi_ops cntr_fid_ops = {
    .size = sizeof(cntr_fid_ops),
    .close = cntr_close,
    .bind = no_bind,
    .control = cntr_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

int rxm_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **ret_cntr,
                  void *context)
{
    struct rxm_cntr *cntr = calloc(1, sizeof(*cntr));
    int rc;

    if (!cntr)
        return -FI_ENOMEM;
    rc = cntr_init(&cntr->cntr, &rxm_domain_of(fid)->base, attr, &cntr_fid_ops, context);
    if (rc) {
        free(cntr);
        return rc;
    }
    *ret_cntr = &cntr->cntr.fid;
    return 0;
}
