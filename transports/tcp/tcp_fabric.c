/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_fabric.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/domain/domain.h"
#include "core/queue/wait_set.h"
#include "transports/tcp/tcp_cm.h"
#include "transports/tcp/tcp_domain.h"
#include "transports/tcp/tcp_pep.h"

static int fabric_close(struct fid *fid)
{
    struct tcp_fabric *fabric = object_of(fid, struct tcp_fabric, base.fid.fid);

    if (children_any(&fabric->base.children))
        return -FI_EBUSY;
    pthread_mutex_destroy(&fabric->cms_mutex);
    pthread_mutex_destroy(&fabric->raised_mutex);
    pcap_close(fabric->pcap);
    params_destroy(fabric->params);
    free(fabric);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = fabric_close,
    FID_CLOSES_ONLY,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = tcp_domain_open,
    .passive_ep = tcp_pep_open,
    .eq_open = tcp_eq_open,
    .wait_open = wait_set_open,
    .trywait = fabric_trywait,
    .domain2 = fabric_domain2,
};

static void read_settings(struct tcp_settings *settings, const struct params *params)
{
    settings->saved_size = params_size(params, "max_saved_size");
    settings->rndv_size = params_size(params, "rndv_size");
    settings->max_inject = params_size(params, "max_inject");
    settings->connect_ms = params_time_ms(params, "connect_timeout");
    settings->connect_given = params_given(params, "connect_timeout");
    settings->port_low = (int)params_int(params, "port_low_range");
    settings->port_high = (int)params_int(params, "port_high_range");
    settings->nodelay = params_bool(params, "nodelay");
    settings->coalesce = params_bool(params, "coalesce");
    settings->uring = !strcmp(params_string(params, "io"), "uring");
    settings->local_buffer_size = params_size(params, "local_buffer_size");
    settings->zero_copy_size = params_size(params, "zero_copy_size");
    if (settings->port_high < settings->port_low)
        settings->port_high = settings->port_low;
}

void tcp_fabric_say_no_uring(struct tcp_fabric *fabric, const char *what, int rc)
{
    if (atomic_exchange(&fabric->no_uring_said, true))
        return;
    LOG_WARN(fabric->base.part, FI_LOG_FABRIC,
             "io=uring: no io_uring here, sockets are used: %s: %s", what, fi_strerror(-rc));
}

int tcp_fabric_start_control(struct tcp_fabric *fabric)
{
    int rc = 0;

    pthread_mutex_lock(&fabric->cms_mutex);
    list_for_each (pos, &fabric->cms) {
        if (!rc)
            rc = progress_start_thread(list_item(pos, struct tcp_cm, link)->progress);
    }
    fabric->control_auto = !rc;
    pthread_mutex_unlock(&fabric->cms_mutex);
    return rc;
}

int tcp_open_fabric(const struct open_args *args, struct fid_fabric **result, void *context)
{
    struct tcp_fabric *fabric = calloc(1, sizeof(*fabric));
    int rc;

    if (!fabric)
        return -FI_ENOMEM;
    rc = pcap_open("tcp", args->params, &fabric->pcap);
    if (rc) {
        free(fabric);
        return rc;
    }
    fabric_init(&fabric->base, args, &fid_ops, &fabric_ops, context);
    read_settings(&fabric->settings, args->params);
    pthread_mutex_init(&fabric->cms_mutex, NULL);
    pthread_mutex_init(&fabric->raised_mutex, NULL);
    list_init(&fabric->cms);
    list_init(&fabric->raised);
    fabric->params = args->params;
    *result = &fabric->base.fid;
    return 0;
}
