/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_fabric.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/eq.h"
#include "core/no.h"
#include "transports/tcp/tcp_cm.h"
#include "transports/tcp/tcp_domain.h"
#include "transports/tcp/tcp_pep.h"

static struct tcp_fabric *fabric_of(struct fid_fabric *fid)
{
    return object_of(fid, struct tcp_fabric, base.fid);
}

static int fabric_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **eq,
                          void *context)
{
    struct tcp_fabric *fabric = fabric_of(fid);

    return eq_open(&fabric->base, fabric->unit, attr, eq, context);
}

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
    return fids_trywait(fids, count);
}

static int fabric_close(struct fid *fid)
{
    struct tcp_fabric *fabric = object_of(fid, struct tcp_fabric, base.fid.fid);

    if (children_any(&fabric->base.children))
        return -FI_EBUSY;
    tcp_cm_destroy(fabric->cm);
    unit_release(fabric->unit);
    params_destroy(fabric->params);
    free(fabric);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = fabric_close,
    .bind = no_bind,
    .control = no_control,
    .ops_open = no_ops_open,
    .tostr = no_tostr,
    .ops_set = no_ops_set,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = tcp_domain_open,
    .passive_ep = tcp_pep_open,
    .eq_open = fabric_eq_open,
    .wait_open = no_fabric_wait_open,
    .trywait = fabric_trywait,
    .domain2 = tcp_domain_open2,
};

void tcp_settings_read(struct tcp_settings *settings, const struct params *params)
{
    settings->saved_size = params_size(params, "max_saved_size");
    settings->rndv_size = params_size(params, "rndv_size");
    settings->max_inject = params_size(params, "max_inject");
    settings->connect_ms = params_time_ms(params, "connect_timeout");
    settings->connect_given = params_given(params, "connect_timeout");
    settings->port_low = (int)params_int(params, "port_low_range");
    settings->port_high = (int)params_int(params, "port_high_range");
    settings->nodelay = params_bool(params, "nodelay");
    if (settings->port_high < settings->port_low)
        settings->port_high = settings->port_low;
}

int tcp_open_fabric(const struct open_args *args, struct fid_fabric **result, void *context)
{
    struct tcp_fabric *fabric = calloc(1, sizeof(*fabric));

    if (!fabric)
        return -FI_ENOMEM;
    fabric_init(&fabric->base, args, &fid_ops, &fabric_ops, context);
    tcp_settings_read(&fabric->settings, args->params);
    int rc = unit_create_control(fabric->base.part, &fabric->unit);
    if (rc)
        goto free_fabric;
    rc = tcp_cm_create(fabric, &fabric->cm);
    if (rc)
        goto release_unit;
    fabric->params = args->params;
    *result = &fabric->base.fid;
    return 0;

release_unit:
    unit_release(fabric->unit);
free_fabric:
    free(fabric);
    return rc;
}
