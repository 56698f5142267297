/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of endpoints. */
#include "core/layer/message_ep.h"

#include <sched.h>
#include <stdlib.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/enosys.h"
#include "core/base/seam.h"
#include "core/domain/base.h"
#include "core/info/info.h"
#include "core/layer/message_wire.h"

enum {
    PACKETS_FIRST = 16,
    PACKETS_MOST = 64,
    INDEX_BITS = 20,
    CLOSE_MS = 2000, /* that fi_close gives accepted operations, unless an upper says otherwise */
    TOLD_MS = 250,   /* those that have ended: time to be lost, and sent again, some times */
    ANSWERS_MS = 50, /* and answers to peers, which may be in no hurry to say that they have come */
};

static struct message_ep *ep_of(const struct endpoint *base)
{
    return object_of(base, struct message_ep, endpoint);
}

/* ---- Enabling ---- */

static int own_address(struct message_ep *ep)
{
    union addr_raw raw;
    size_t len = sizeof(raw);
    int rc = fi_getname(&ep->lower->fid, &raw, &len);

    return rc ? rc : ep->wire->named(ep, &raw, len);
}

static int open_lower(struct message_ep *ep)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    struct fid_cq *cq;
    int rc = 0;

    if (!ep->lower_av)
        rc = fi_av_open(ep->domain->lower, &attr, &ep->lower_av, ep);
    if (!rc && !ep->cq.cq)
        rc = lower_source_open(&ep->cq, ep->domain->fabric->lower, ep->domain->lower,
                               ep->receives + ep->endpoint.tx_size, &ep->sink,
                               ep->endpoint.binding.progress);
    if (rc)
        return rc;
    cq = lower_cq_fid(ep->cq.cq);
    rc = fi_ep_bind(ep->lower, &cq->fid, FI_TRANSMIT | FI_RECV);
    if (!rc)
        rc = fi_ep_bind(ep->lower, &ep->lower_av->fid, 0);
    if (rc)
        return rc;
    if (ep->wire->prepare)
        ep->wire->prepare(ep);
    return fi_enable(ep->lower);
}

static int enable(struct endpoint *base)
{
    struct message_ep *ep = ep_of(base);
    int rc;

    if (!ep->buckets)
        ep->buckets = calloc(MESSAGE_BUCKETS, sizeof(struct message_peer *));
    rc = ep->buckets ? open_lower(ep) : -FI_ENOMEM;
    if (!rc)
        rc = own_address(ep);
    if (rc)
        return rc;
    ep->match = base->srx ? base->srx->match : base->match;
    ep->progress = base->binding.progress;
    ep->top = binding_is_top(&base->binding);
    ep->user_ids = base->av->flags & FI_AV_USER_ID || ep->info->caps & FI_AV_USER_ID;
    progress_lock(ep->progress);
    rc = message_in_fill(ep);
    base->enabled = ep->driven = !rc;
    if (!rc && ep->top)
        progress_stand_in(ep->progress);
    progress_unlock(ep->progress);
    if (!rc)
        av_watch_attach(&ep->watch, base->av, ep->progress);
    return rc;
}

/* ---- Options ---- */

static size_t limit(struct endpoint *base, int option)
{
    const struct message_ep *ep = ep_of(base);
    size_t inject = ep->info->tx_attr->inject_size, most = ep->info->ep_attr->max_msg_size;

    switch (option) {
    case FI_OPT_MAX_MSG_SIZE: return most;
    case FI_OPT_MAX_TAGGED_SIZE: return base->caps & FI_TAGGED ? most : 0;
    case FI_OPT_MAX_RMA_SIZE: return base->caps & FI_RMA ? most : 0;
    case FI_OPT_MAX_ATOMIC_SIZE: return base->caps & FI_ATOMIC ? ep->operand : 0;
    case FI_OPT_INJECT_TAGGED_SIZE: return base->caps & FI_TAGGED ? inject : 0;
    case FI_OPT_INJECT_RMA_SIZE: return base->caps & FI_RMA ? inject : 0;
    case FI_OPT_INJECT_ATOMIC_SIZE: return base->caps & FI_ATOMIC ? inject : 0;
    default: return inject;
    }
}

static size_t tx_used(const struct endpoint *base)
{
    return ep_of(base)->used;
}

static int ep_setname(fid_t fid, void *addr, size_t addrlen)
{
    struct message_ep *ep = object_of(fid, struct message_ep, fid.fid);

    return fi_setname(&ep->lower->fid, addr, addrlen);
}

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
    struct message_ep *ep = object_of(fid, struct message_ep, fid.fid);

    return fi_getname(&ep->lower->fid, addr, addrlen);
}

/* The lower's affair. */
static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    return fi_setopt(&ep_of(base)->lower->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED,
                     value, len);
}

static const struct endpoint_option options[] = {
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = OPT_CLOSE_WAIT, .kind = OPTION_FIELD, .at = offsetof(struct message_ep, close_ms)},
    {.name = 0},
};

/* ---- Closing ---- */

/* Until when fi_close waits, of clock_ms; 0: for nothing. Operations that were accepted and have
 * not come to their peer have close_ms from start on; TOLD_MS where the peer has ended before. A
 * message that has come and waits for the peer's receive is discarded: its application was told of
 * no end. quiet: since when nothing is under way. */
static long long close_by(const struct message_ep *ep, long long start, long long quiet)
{
    long long told = ep->owed ? start + TOLD_MS : 0, by;

    if (ep->used && !message_peers_await(ep))
        return start + TOLD_MS;
    if (ep->used && (ep->outgoing || quiet + ANSWERS_MS > start + ep->close_ms))
        return start + ep->close_ms;
    if (ep->used || told) {
        by = ep->used ? quiet + ANSWERS_MS : 0;
        return by > told ? by : told;
    }
    return ep->outgoing || !list_empty(&ep->attention) ? start + ANSWERS_MS : 0;
}

/* Progress domain locked. */
static void deliver_accepted(struct message_ep *ep)
{
    long long start = clock_ms(), now = start, quiet = start;
    uint32_t rest = 0; /* for the lower: its packets have had their time */

    while (now < close_by(ep, start, quiet) && now - start < ep->close_ms) {
        progress_poll(ep->progress);
        progress_unlock(ep->progress);
        progress_drive_others(ep->progress, false);
        sched_yield();
        progress_lock(ep->progress);
        now = clock_ms();
        if (ep->outgoing)
            quiet = now;
    }
    if (ep->wire->bye)
        ep->wire->bye(ep);
    fi_setopt(&ep->lower->fid, FI_OPT_ENDPOINT, OPT_CLOSE_WAIT, &rest, sizeof(rest));
}

static void close_lower(struct message_ep *ep)
{
    if (ep->lower)
        fi_close(&ep->lower->fid);
    if (ep->endpoint.binding.progress)
        lower_source_close(&ep->cq, ep->endpoint.binding.progress);
    if (ep->lower_av)
        fi_close(&ep->lower_av->fid);
}

static int close_ep(struct endpoint *base)
{
    struct message_ep *ep = ep_of(base);

    av_watch_detach(&ep->watch);
    if (base->binding.progress) {
        progress_lock(base->binding.progress);
        ep->closing = true;
        if (base->enabled && !progress_forked(ep->progress))
            deliver_accepted(ep);
        ep->driven = false;
        message_peers_finish(ep);
        wake_timer_finish(&ep->timer, base->binding.progress);
        progress_unlock(base->binding.progress);
    }
    close_lower(ep);
    ep->wire->closed(ep);
    endpoint_finish(base);
    mr_pool_finish(&ep->packets);
    pool_finish(&ep->ops);
    ids_finish(&ep->ids);
    av_watch_finish(&ep->watch);
    info_free(ep->lower_info);
    info_free(ep->info);
    free(ep);
    return 0;
}

/* ---- Opening ---- */

/* The lower may have events for the application's queue. Any queue is taken. */
static int bound(struct endpoint *base, struct fid *fid, uint64_t flags)
{
    struct message_ep *ep = ep_of(base);
    struct event_target target = {.eq = eq_of(fid), .fid = &ep->fid.fid};

    if (fid->fclass != FI_CLASS_EQ || !target.eq || base->eq ||
        fi_setopt(&ep->lower->fid, FI_OPT_ENDPOINT, OPT_EVENTS, &target, sizeof(target)))
        return 0;
    base->eq = target.eq;
    children_hold(&target.eq->children);
    return 0;
}

static const struct endpoint_ops ops = {
    .post = message_post,
    .atomic_valid = message_atomic_valid,
    .limit = limit,
    .enable = enable,
    .close = close_ep,
    .bound = bound,
    .tx_used = tx_used,
    .options = options,
    .own_sources = true,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = ep_setname,
    .getname = ep_getname,
    NO_CM_CONNECTION,
};

static void init_base(struct message_ep *ep, void *context)
{
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &ep->domain->base,
        .info = ep->info,
        .caps = caps_expand(ep->info->caps),
        .fclass = FI_CLASS_EP,
        .context = context,
        .size = MESSAGE_SIZE,
        .iov_limit = MESSAGE_IOV,
        .min_multi_recv = MESSAGE_MIN_MULTI_RECV,
    };

    endpoint_init(&ep->endpoint, &attr);
    ep->fid.cm = &cm_ops;
    ep->close_ms = CLOSE_MS;
    ep->endpoint.needs_av = true;
    if (!(attr.caps & FI_MSG))
        ep->endpoint.base.groups &= ~(unsigned)OP_GROUP_MSG;
}

static void init_packets(struct message_ep *ep)
{
    const struct fi_info *lower = ep->lower_info;
    bool local = info_mr_bits(lower) & FI_MR_LOCAL;

    ep->prefix = lower->mode & FI_MSG_PREFIX ? lower->ep_attr->msg_prefix_size : 0;
    ep->receives = MESSAGE_RECEIVES;
    if (lower->rx_attr->size && lower->rx_attr->size < MESSAGE_RECEIVES)
        ep->receives = (unsigned)lower->rx_attr->size;
    mr_pool_init(&ep->packets, ep->wire->name, local ? ep->domain->lower : NULL,
                 ep->wire->packet_size + ep->prefix + ep->packet_size, PACKETS_FIRST, PACKETS_MOST);
}

static int open_parts(struct message_ep *ep)
{
    const struct lower_fabric *fabric = ep->domain->fabric;
    int rc = ep->wire->domain.lower_info(fabric, ep->info, &ep->lower_info);

    if (!rc)
        rc = ids_add(&ep->ids, &ep->none) == IDS_NONE ? -FI_ENOMEM : 0;
    if (!rc)
        rc = ep->wire->open(ep);
    if (rc)
        return rc;
    init_packets(ep);
    ep->operand = ep->wire->operand_size(ep->lower_info);
    ep->saved_limit = params_size(fabric->plain.params, "saved_size");
    ep->source_err = ep->info->caps & FI_SOURCE_ERR;
    pool_init(&ep->ops, ep->wire->op_size, 0);
    ep->sink.owner_ops = &message_sink_ops;
    fid_init(&ep->sink.fid, FI_CLASS_PEER_CQ, ep, NULL);
    ep->cq.part = fabric->plain.base.part;
    ep->cq.source.poll = message_poll_lower;
    ep->cq.source.trywait = message_trywait;
    rc = fi_endpoint(ep->domain->lower, ep->lower_info, &ep->lower, ep);
    if (!rc)
        ep->target = op_target_of(ep->lower);
    return rc;
}

static void init_lists(struct message_ep *ep)
{
    list_init(&ep->attention);
    list_init(&ep->stalled);
    list_init(&ep->broken);
    list_init(&ep->moving);
    list_init(&ep->deferred);
    list_init(&ep->cq.source.link);
}

int message_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_ep,
                    void *context)
{
    struct lower_domain *domain = lower_domain_of(fid);
    const struct message_wire *wire = message_wire_of(domain);
    struct message_ep *ep = calloc(1, wire->ep_size);
    int rc;

    if (!ep)
        return -FI_ENOMEM;
    ep->info = fabric_info(&domain->fabric->plain.base, info);
    if (!ep->info) {
        free(ep);
        return -FI_ENOMEM;
    }
    ep->wire = wire;
    ep->domain = domain;
    ep->progress = &progress_none;
    init_lists(ep);
    ids_init(&ep->ids, INDEX_BITS, 32);
    av_watch_init(&ep->watch);
    wake_timer_init(&ep->timer);
    init_base(ep, context);
    rc = open_parts(ep);
    if (rc) {
        close_ep(&ep->endpoint);
        return rc;
    }
    *ret_ep = &ep->fid;
    return 0;
}
