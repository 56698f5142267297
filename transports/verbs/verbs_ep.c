/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of endpoints: open, enable, options, close. */
#include "transports/verbs/verbs_ep.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "core/domain/base.h"
#include "core/info/info.h"
#include "core/queue/wait.h"
#include "transports/verbs/verbs_atomic.h"
#include "transports/verbs/verbs_info.h"
#include "transports/verbs/verbs_pep.h"
#include "transports/verbs/verbs_port.h"
#include "transports/verbs/verbs_quick.h"
#include "transports/verbs/verbs_srx.h"

enum {
    SIZE = 384,
    IOV_LIMIT = 4,
    DRAIN_MS = 2000, /* how long fi_close waits for what was accepted */
    DRAIN_PAUSE_NS = 50000,
};

static struct verbs_ep *ep_of(const struct endpoint *base)
{
    return object_of(base, struct verbs_ep, base);
}

static int enable(struct endpoint *base)
{
    struct verbs_ep *ep = ep_of(base);
    int rc;

    ep->srx = base->srx ? verbs_srx_of(base->srx) : NULL;
    ep->eq = verbs_eq_of(ep->domain->fabric, base->eq);
    if (!ep->eq)
        return -FI_EINVAL;
    rc = verbs_qp_open(ep);
    if (!rc)
        rc = verbs_port_join(ep);
    if (rc) {
        verbs_qp_close(ep);
        return rc;
    }
    atomic_store(&ep->state, VERBS_ENABLED);
    verbs_quick_enable(ep);
    return 0;
}

static size_t limit(struct endpoint *base, int option)
{
    const struct verbs_ep *ep = ep_of(base);

    switch (option) {
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_RMA_SIZE: return ep->max_msg_size;
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_RMA_SIZE: return ep->inline_size;
    case FI_OPT_MAX_ATOMIC_SIZE:
    case FI_OPT_INJECT_ATOMIC_SIZE: return ep->base.caps & FI_ATOMIC ? sizeof(uint64_t) : 0;
    default: return 0;
    }
}

static size_t tx_used(const struct endpoint *base)
{
    const struct verbs_ep *ep = ep_of(base);

    return ep->tx.tail - ep->tx.head;
}

static size_t rx_used(struct endpoint *base)
{
    const struct verbs_ep *ep = ep_of(base);

    return ep->rx.tail - ep->rx.head;
}

/* The device gives requests that it has back only with the connection. */
static int cancel(struct endpoint *base, void *context)
{
    return verbs_chain_cancel(ep_of(base), context);
}

/* ---- Closing ---- */

/* The device sends what the endpoint accepted, if the peer takes it in time. The endpoint reports
 * nothing any more. */
static void drain(struct verbs_ep *ep)
{
    struct timespec pause = {.tv_nsec = DRAIN_PAUSE_NS};
    long long end = clock_ms() + DRAIN_MS;

    verbs_post_marker(ep);
    while (ep->tx.head != ep->tx.tail && !ep->failed && clock_ms() < end) {
        ep->cq->source.poll(&ep->cq->source);
        if (ep->tx.head != ep->tx.tail)
            nanosleep(&pause, NULL);
    }
}

/* A receive of the context that the endpoint had taken is the context's again. */
static void give_shared_back(struct verbs_ep *ep)
{
    verbs_qp_fail(ep);
    verbs_cq_drain(ep->cq);
}

static void close_connection(struct verbs_ep *ep)
{
    bool forked = progress_forked(ep->base.binding.progress);

    progress_lock(ep->base.binding.progress);
    ep->closing = true;
    ep->tx_to = ep->rx_to = NULL;
    if (atomic_load(&ep->state) == VERBS_CONNECTED && !forked)
        drain(ep);
    atomic_store(&ep->state, VERBS_DOWN);
    if (ep->srx && !forked)
        give_shared_back(ep);
    endpoint_close_receives(&ep->base);
    progress_unlock(ep->base.binding.progress);
    if (forked) { /* connection and queue pair are the parent's, which goes on with them */
        verbs_qp_abandon(ep);
        return;
    }
    if (ep->id) {
        verbs_cm_lib.disconnect(ep->id);
        verbs_cm_lib.destroy_id(ep->id);
    }
    verbs_qp_close(ep);
}

static int close_ep(struct endpoint *base)
{
    struct verbs_ep *ep = ep_of(base);

    if (ep->request)
        verbs_request_reject(ep->request, NULL, 0);
    if (ep->cq) {
        progress_lock(ep->eq->progress);
        verbs_port_leave(ep);
        close_connection(ep);
        progress_unlock(ep->eq->progress);
    }
    endpoint_finish(base);
    free(ep);
    return 0;
}

/* ---- Opening ---- */

static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    return verbs_shared_memory(len);
}

static const struct endpoint_option options[] = {
    {.name = FI_OPT_CM_DATA_SIZE, .kind = OPTION_SIZE, .at = VERBS_CM_DATA},
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = OPT_ANSWER_TIMEOUT, .kind = OPTION_FIELD, .at = offsetof(struct verbs_ep, answer_ms)},
    {.name = 0},
};

static const struct endpoint_ops ops = {
    .post = verbs_post,
    .atomic_valid = verbs_atomic_valid,
    .limit = limit,
    .enable = enable,
    .close = close_ep,
    .cancel = cancel,
    .tx_used = tx_used,
    .rx_used = rx_used,
    .options = options,
    .own_sources = true,
    .keeps_eq = true,
};

static int take_addrs(struct verbs_ep *ep, const struct fi_info *info)
{
    int rc = 0;

    ep->addr_format = info->addr_format;
    ep->src.in.sin_family = AF_INET;
    if (info->src_addr)
        rc = addr_import(info->addr_format, info->src_addr, info->src_addrlen, &ep->src);
    /* An endpoint of a connection may share its address with the one that listens there. */
    addr_set_port(&ep->src.sa, 0);
    if (!rc && info->handle) {
        ep->request = verbs_request_claim(info->handle);
        rc = ep->request ? 0 : -FI_EINVAL;
    }
    return rc;
}

static int init(struct verbs_ep *ep, const struct fi_info *info, void *context)
{
    const struct fi_info *usual = ep->domain->base.info;
    struct params *params = ep->domain->fabric->params;
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &ep->domain->base,
        .info = info,
        .caps = caps_expand(info->caps ? info->caps : FI_MSG | FI_RMA),
        .fclass = FI_CLASS_EP,
        .context = context,
        .size = SIZE,
        .iov_limit = info->rx_attr->iov_limit,
        .min_multi_recv = 0,
    };
    int rc;

    if (info->ep_attr->type != FI_EP_MSG)
        return -FI_EINVAL;
    rc = take_addrs(ep, info);
    if (rc)
        return rc;
    ep->tx_iov_limit = info->tx_attr->iov_limit ? info->tx_attr->iov_limit : IOV_LIMIT;
    ep->rx_iov_limit = info->rx_attr->iov_limit ? info->rx_attr->iov_limit : IOV_LIMIT;
    ep->read_segments = verbs_read_segments(&ep->domain->device->attr, ep->tx_iov_limit);
    ep->inline_size = usual->tx_attr->inject_size;
    ep->max_msg_size = usual->ep_attr->max_msg_size;
    ep->rnr_timer = (uint8_t)params_int(params, "min_rnr_timer");
    endpoint_init(&ep->base, &attr);
    ep->base.needs_eq = true;
    ep->fid.cm = &verbs_cm_ops;
    return 0;
}

int verbs_ep_open(struct fid_domain *domain_fid, struct fi_info *user_info, struct fid_ep **ret_ep,
                  void *context)
{
    struct verbs_domain *domain = verbs_domain_of(domain_fid);
    struct fi_info *info = fabric_info(domain->base.fabric, user_info);
    struct verbs_ep *ep = calloc(1, sizeof(*ep));
    int rc = -FI_ENOMEM;

    if (info && ep) {
        ep->domain = domain;
        ep->user.event = verbs_cm_event;
        list_init(&ep->port_link);
        rc = init(ep, info, context);
    }
    info_free(info);
    if (rc)
        free(ep);
    else
        *ret_ep = &ep->fid;
    return rc;
}
