/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/udp/udp_fabric.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/domain/domain.h"
#include "transports/udp/udp_ep.h"

/* ---- Domain ---- */

static int query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                        struct fi_atomic_attr *attr, uint64_t flags)
{
    return -FI_EOPNOTSUPP;
}

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .endpoint = udp_ep_open,
    .query_atomic = query_atomic,
};

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info,
                         struct fid_domain **ret_domain, void *context)
{
    struct udp_fabric *fabric = object_of(fid, struct udp_fabric, base.fid);
    struct domain *domain;
    int rc = domain_create_mapped(sizeof(struct udp_domain), fid, info, &domain_fid_ops,
                                  &domain_ops, &domain, context);

    if (rc)
        return rc;
    object_of(domain, struct udp_domain, base)->fabric = fabric;
    /* ICMP errors come without calls where completions do. */
    if (domain->info->domain_attr->control_progress == FI_PROGRESS_AUTO)
        rc = progress_start_thread(fabric->plain.control);
    if (rc)
        fi_close(&domain->fid.fid);
    else
        *ret_domain = &domain->fid;
    return rc;
}

/* ---- Fabric ---- */

static int fabric_close(struct plain_fabric *plain)
{
    pcap_close(object_of(plain, struct udp_fabric, plain)->pcap);
    return 0;
}

static void read_settings(struct udp_settings *settings, const struct params *params)
{
    settings->port_low = (int)params_int(params, "port_low_range");
    settings->port_high = (int)params_int(params, "port_high_range");
    if (settings->port_high < settings->port_low)
        settings->port_high = settings->port_low;
    settings->rx_buffer = params_size(params, "rx_buffer");
    settings->tx_buffer = params_size(params, "tx_buffer");
    settings->rx_given = params_given(params, "rx_buffer");
    settings->tx_given = params_given(params, "tx_buffer");
    settings->busy_poll = (int)params_int(params, "busy_poll");
    settings->gso = params_bool(params, "gso");
    settings->gro = params_bool(params, "gro");
}

int udp_open_fabric(const struct open_args *args, struct fid_fabric **ret_fabric, void *context)
{
    struct udp_fabric *fabric;
    struct plain_fabric *plain;
    int rc = plain_fabric_create(sizeof(*fabric), args, fabric_domain, &plain, context);

    if (rc)
        return rc;
    fabric = object_of(plain, struct udp_fabric, plain);
    plain->close_own = fabric_close;
    read_settings(&fabric->settings, args->params);
    rc = pcap_open("udp", args->params, &fabric->pcap);
    if (rc)
        plain_fabric_discard(plain);
    else
        *ret_fabric = &fabric->base.fid;
    return rc;
}
