/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: a queue pair and its completion queue, driven by the progress domain. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/domain/base.h"
#include "core/info/info.h"
#include "transports/efa/efa.h"

enum {
    PAUSE_US = 50,
};

static const uint64_t DRAIN_NS = 2000000000;

static struct efa_ep *ep_of(const struct endpoint *base)
{
    return object_of(base, struct efa_ep, base);
}

/* ---- Progress ---- */

/* Events that were shown are taken, and the next completion asks for one. Earlier completions are
 * read here. */
static int trywait(struct progress_source *source)
{
    struct efa_ep *ep = object_of(source, struct efa_ep, source);
    struct ibv_cq *cq;
    void *context;

    if (!ep->channel)
        return 0;
    while (!verbs_lib.get_cq_event(ep->channel, &cq, &context))
        verbs_lib.ack_cq_events(cq, 1);
    if (ibv_req_notify_cq(ep->cq, 0))
        return -FI_EAGAIN;
    return efa_cq_poll(ep) ? -FI_EAGAIN : 0;
}

/* ---- Enabling ---- */

static int open_device(struct efa_ep *ep)
{
    int rc = efa_qp_open(ep);

    if (rc || !(ep->base.caps & FI_RMA))
        return rc;
    rc = efa_inject_open(&ep->inject, ep->domain->pd, ep->base.tx_size, ep->inline_max);
    if (!rc)
        return 0;
    LOG_WARN("efa", FI_LOG_EP_CTRL, "%s registers no memory for injected writes: %s%s",
             ep->domain->device->name, fi_strerror(-rc),
             rc == -FI_ENOMEM ? " (see `ulimit -l`)" : "");
    efa_qp_close(ep);
    return rc;
}

static void close_device(struct efa_ep *ep)
{
    efa_qp_close(ep);
    efa_inject_close(&ep->inject);
}

static int enable(struct endpoint *base)
{
    struct efa_ep *ep = ep_of(base);
    int rc;

    memcpy(ep->name.gid, &ep->domain->device->gid, sizeof(ep->name.gid));
    rc = open_device(ep);
    if (rc)
        return rc;
    ep->usual = efa_cq_poll_usual;
    ep->progress = base->binding.progress;
    efa_burst_enable(ep);
    if (ep->extended)
        ep->source.poll = ep->usual;
    ep->source.fd = ep->channel ? ep->channel->fd : -1;
    progress_lock(ep->progress);
    rc = progress_attach(ep->progress, &ep->source);
    ep->attached = !rc;
    progress_unlock(ep->progress);
    if (rc)
        close_device(ep);
    else
        efa_quick_enable(ep);
    return rc;
}

/* ---- The rest ---- */

static size_t limit(struct endpoint *base, int option)
{
    const struct efa_ep *ep = ep_of(base);

    switch (option) {
    case FI_OPT_MAX_MSG_SIZE: return ep->max;
    case FI_OPT_INJECT_MSG_SIZE: return ep->inline_max;
    case FI_OPT_MAX_RMA_SIZE: return ep->max_rma;
    case FI_OPT_INJECT_RMA_SIZE: return ep->max_rma ? ep->inline_max : 0;
    default: return 0;
    }
}

static size_t tx_used(const struct endpoint *base)
{
    return ep_of(base)->sends;
}

static size_t rx_used(struct endpoint *base)
{
    return ep_of(base)->receives;
}

/* An application's endpoint goes on for a while with the sends that it has accepted, without
 * reports. A layer has waited itself. */
static void drain(struct efa_ep *ep)
{
    uint64_t end = clock_ns() + DRAIN_NS;
    bool done = !ep->attached || !binding_is_top(&ep->base.binding);

    while (!done && clock_ns() < end) {
        progress_lock(ep->progress);
        ep->closing = true;
        ep->source.poll = efa_cq_poll_source;
        efa_cq_poll(ep);
        done = !ep->sends;
        progress_unlock(ep->progress);
        if (!done)
            usleep(PAUSE_US);
    }
}

static int close_ep(struct endpoint *base)
{
    struct efa_ep *ep = ep_of(base);

    drain(ep);
    if (ep->attached) {
        progress_lock(ep->progress);
        progress_detach(ep->progress, &ep->source);
        progress_unlock(ep->progress);
    }
    close_device(ep);
    efa_handle_unpin_all(ep->domain, &ep->pins);
    endpoint_finish(base);
    pool_finish(&ep->wrs);
    free(ep->pins.bits);
    free(ep->chain);
    free(ep->burst);
    free(ep);
    return 0;
}

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
    struct efa_ep *ep = object_of(fid, struct efa_ep, fid.fid);
    size_t room = *len;

    *len = sizeof(ep->name);
    if (addr && room)
        memcpy(addr, &ep->name, room < sizeof(ep->name) ? room : sizeof(ep->name));
    return room < sizeof(ep->name) ? -FI_ETOOSMALL : 0;
}

static int control(struct endpoint *base, int command, void *arg)
{
    return efa_ops_own(&base->fid.fid, command, arg);
}

static const struct endpoint_ops ops = {
    .post = efa_post,
    .control = control,
    .limit = limit,
    .enable = enable,
    .close = close_ep,
    .tx_used = tx_used,
    .rx_used = rx_used,
    .options = efa_options,
    .own_sources = true,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = enosys_cm_setname,
    .getname = ep_getname,
    NO_CM_CONNECTION,
};

static void set_limits(struct efa_ep *ep, const struct fi_info *info)
{
    const struct efa_device *device = ep->domain->device;

    ep->max = device->port.max_msg_sz;
    if (info->caps & FI_RMA) {
        ep->max_rma = device->efa.max_rdma_size;
        ep->takes_data = (info->mode | info->rx_attr->mode) & FI_RX_CQ_DATA;
        /* A layer over packets knows its receives; it may ask for it by the option. */
        ep->unsolicited = efa_is_direct(info->fabric_attr) && efa_device_tells(device) &&
                          params_bool(efa_params(ep->domain), "use_unsolicited_write_recv");
    }
    ep->prefix = info->ep_attr->type == FI_EP_DGRAM ? EFA_PREFIX : 0;
    ep->inline_max = device->efa.inline_buf_size;
    ep->tclass = info->tx_attr->tclass;
    ep->rnr_retry = (uint8_t)params_int(efa_params(ep->domain), "rnr_retry");
}

int efa_ep_open(struct fid_domain *fid, struct fi_info *user_info, struct fid_ep **ret_ep,
                void *context)
{
    struct efa_domain *domain = efa_domain_of(fid);
    struct fi_info *info = fabric_info(domain->base.fabric, user_info);
    struct efa_ep *ep = calloc(1, sizeof(*ep));
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &domain->base,
        .info = info,
        .fclass = FI_CLASS_EP,
        .context = context,
        .size = EFA_QUEUE,
        .iov_limit = EFA_SEGMENTS,
    };

    if (!info || !ep) {
        info_free(info);
        free(ep);
        return -FI_ENOMEM;
    }
    ep->domain = domain;
    ep->progress = &progress_none;
    set_limits(ep, info);
    ep->source.poll = efa_cq_poll_source;
    ep->source.trywait = trywait;
    ep->source.fd = -1;
    ep->source.leaf = true;
    ep->dest = FI_ADDR_NOTAVAIL;
    ep->source_numbers = UINT64_MAX;
    ep->read = ep->reading = atomic_load(&ep->domain->changes);
    list_init(&ep->source.link);
    pool_init(&ep->wrs, sizeof(struct efa_wr), 0);
    attr.caps = caps_expand(info->caps);
    endpoint_init(&ep->base, &attr);
    ep->fid.cm = &cm_ops;
    ep->base.needs_av = true;
    info_free(info);
    *ret_ep = &ep->fid;
    return 0;
}
