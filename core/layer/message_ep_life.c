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
    SPARE_SHARE = 16,
    INDEX_BITS = 20,
    CLOSE_MS = 2000, /* that fi_close gives accepted operations, unless an upper says otherwise */
    TOLD_MS = 250,   /* those that have ended: time to be lost, and sent again, some times */
    ANSWERS_MS = 50, /* and answers to peers, which may be in no hurry to say that they have come */
};

static struct message_context *context_of(const struct endpoint *base)
{
    return object_of(base, struct message_context, endpoint);
}

static struct message_ep *ep_of(const struct endpoint *base)
{
    return context_of(base)->ep;
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
                               ep->receives + ep->endpoint.tx_size, &ep->sink.peer,
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

int message_ep_enable(struct endpoint *base)
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
    ep->own.match = base->srx ? base->srx->match : base->match;
    ep->progress = base->binding.progress;
    ep->own.top = !ep->rx && binding_is_top(&base->binding);
    ep->user_ids = base->av->flags & FI_AV_USER_ID || ep->info->caps & FI_AV_USER_ID;
    progress_lock(ep->progress);
    rc = message_in_fill(ep);
    base->enabled = ep->driven = !rc;
    if (!rc && ep->own.top)
        progress_stand_in(ep->progress);
    progress_unlock(ep->progress);
    if (!rc)
        av_watch_attach(&ep->watch, base->av, ep->progress);
    return rc;
}

/* ---- Options ---- */

size_t message_limit(struct endpoint *base, int option)
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

size_t message_tx_used(const struct endpoint *base)
{
    return context_of(base)->used;
}

static int ep_setname(fid_t fid, void *addr, size_t addrlen)
{
    struct message_ep *ep = ep_of(endpoint_of(fid));

    return fi_setname(&ep->lower->fid, addr, addrlen);
}

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
    struct message_ep *ep = ep_of(endpoint_of(fid));

    return fi_getname(&ep->lower->fid, addr, addrlen);
}

int message_set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    return fi_setopt(&ep_of(base)->lower->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED,
                     value, len);
}

static const struct endpoint_option options[] = {
    MESSAGE_OPTIONS,
    {.name = 0},
};

/* ---- Closing ---- */

/* How long a close has waited: since start, of clock_ms; since `quiet` nothing is under way. */
struct closing {
    long long start, now, quiet;
};

/* Until when it waits for the operations of one context, or of all; 0: there are none. An operation
 * that was accepted and has not come to its peer has close_ms; TOLD_MS where the peer has ended
 * before. A message that has come and waits for the peer's receive is discarded: its application
 * was told of no end. */
static long long ops_by(const struct message_context *context, size_t used,
                        const struct closing *closing)
{
    const struct message_ep *ep = context->ep;
    long long most = closing->start + context->close_ms;

    if (!used)
        return 0;
    if (!message_peers_await(ep))
        return closing->start + TOLD_MS;
    return ep->outgoing || closing->quiet + ANSWERS_MS > most ? most : closing->quiet + ANSWERS_MS;
}

/* Until when fi_close waits at all. */
static long long close_by(const struct message_ep *ep, const struct closing *closing)
{
    long long told = ep->owed ? closing->start + TOLD_MS : 0;
    long long ops = ops_by(&ep->own, ep->used, closing), by = ops > told ? ops : told;

    if (by)
        return by;
    return ep->outgoing || !list_empty(&ep->attention) ? closing->start + ANSWERS_MS : 0;
}

void message_turn(struct message_ep *ep)
{
    progress_poll(ep->progress);
    progress_unlock(ep->progress);
    binding_drive_others(&ep->endpoint.binding);
    sched_yield();
    progress_lock(ep->progress);
}

static void turn(struct message_ep *ep, struct closing *closing)
{
    message_turn(ep);
    closing->now = clock_ms();
    if (ep->outgoing)
        closing->quiet = closing->now;
}

void message_ops_drain(struct message_context *context)
{
    struct closing closing = {.start = clock_ms()};

    closing.now = closing.quiet = closing.start;
    while (closing.now < ops_by(context, context->used, &closing) &&
           closing.now - closing.start < context->close_ms)
        turn(context->ep, &closing);
}

/* Progress domain locked. */
static void deliver_accepted(struct message_ep *ep)
{
    struct closing closing = {.start = clock_ms()};
    uint32_t rest = 0; /* for the lower: its packets have had their time */

    closing.now = closing.quiet = closing.start;
    while (closing.now < close_by(ep, &closing) && closing.now - closing.start < ep->own.close_ms)
        turn(ep, &closing);
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

int message_ep_close(struct endpoint *base)
{
    struct message_ep *ep = ep_of(base);

    av_watch_detach(&ep->watch);
    if (base->binding.progress) {
        progress_lock(base->binding.progress);
        ep->closing = ep->own.closing = true;
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
    .limit = message_limit,
    .enable = message_ep_enable,
    .close = message_ep_close,
    .bound = bound,
    .tx_used = message_tx_used,
    .options = options,
    .own_sources = true,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = ep_setname,
    .getname = ep_getname,
    NO_CM_CONNECTION,
};

void message_context_init(struct message_context *context, struct message_ep *ep,
                          struct endpoint_attr *attr)
{
    attr->domain = &ep->domain->base;
    attr->info = ep->info;
    attr->caps = caps_expand(ep->info->caps);
    attr->size = MESSAGE_SIZE;
    attr->iov_limit = MESSAGE_IOV;
    attr->min_multi_recv = MESSAGE_MIN_MULTI_RECV;
    endpoint_init(&context->endpoint, attr);
    context->fid.cm = &cm_ops;
    context->ep = ep;
    context->close_ms = CLOSE_MS;
    if (!(attr->caps & FI_MSG))
        context->endpoint.base.groups &= ~(unsigned)OP_GROUP_MSG;
}

static void init_base(struct message_ep *ep)
{
    struct endpoint_attr attr = {.ops = &ep->calls, .fclass = FI_CLASS_EP};

    ep->calls = ops;
    if (ep->wire->options)
        ep->calls.options = ep->wire->options;
    message_context_init(&ep->own, ep, &attr);
    ep->endpoint.needs_av = true;
}

static void init_packets(struct message_ep *ep)
{
    const struct fi_info *lower = ep->lower_info;
    bool local = info_mr_bits(lower) & FI_MR_LOCAL;

    ep->prefix = lower->mode & FI_MSG_PREFIX ? lower->ep_attr->msg_prefix_size : 0;
    ep->receives = MESSAGE_RECEIVES;
    if (lower->rx_attr->size && lower->rx_attr->size < MESSAGE_RECEIVES)
        ep->receives = (unsigned)lower->rx_attr->size;
    if (local) /* some packets of the chunks that receives take are for sends: no more may come */
        ep->receives -= ep->receives / SPARE_SHARE;
    ep->receives_most = ep->receives;
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
    ep->sink.peer.owner_ops = &message_sink_ops;
    ep->sink.take = message_sink_take;
    fid_init(&ep->sink.peer.fid, FI_CLASS_PEER_CQ, ep, &cq_sink_ops);
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
    list_init(&ep->sources);
    list_init(&ep->attention);
    list_init(&ep->stalled);
    list_init(&ep->spare);
    list_init(&ep->broken);
    list_init(&ep->moving);
    list_init(&ep->deferred);
    list_init(&ep->cq.source.link);
}

int message_ep_create(struct lower_domain *domain, const struct fi_info *info,
                      struct message_context **rx, unsigned count, struct message_ep **ret_ep)
{
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
    ep->rx = rx;
    ep->rx_count = count;
    ep->progress = &progress_none;
    init_lists(ep);
    ids_init(&ep->ids, INDEX_BITS, 32);
    av_watch_init(&ep->watch);
    wake_timer_init(&ep->timer);
    init_base(ep);
    rc = open_parts(ep);
    if (rc)
        message_ep_close(&ep->endpoint);
    else
        *ret_ep = ep;
    return rc;
}

int message_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_ep,
                    void *context)
{
    struct message_ep *ep;
    int rc = message_ep_create(lower_domain_of(fid), info, NULL, 0, &ep);

    if (rc)
        return rc;
    ep->fid.fid.context = context;
    *ret_ep = &ep->fid;
    return 0;
}
