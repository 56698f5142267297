/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of endpoints, and what drives them. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/enosys.h"
#include "core/base/seam.h"
#include "core/domain/base.h"
#include "core/info/info.h"
#include "layers/rxd/rxd.h"

enum {
    PACKETS_FIRST = 16,
    PACKETS_MOST = 64,
    RECEIVES = 128,        /* posted to the lower, at most */
    AHEAD_BYTES = 2 << 20, /* of data asked for in advance, in packets within bounds */
    AHEAD_LEAST = 32,
    AHEAD_MOST = 256,
    INDEX_BITS = 20,
    ROUNDS = 16,     /* of one run */
    CLOSE_MS = 2000, /* that fi_close gives what was accepted, unless an upper says otherwise */
    TOLD_MS = 250,   /* and what was told to be sent: time to be lost, and sent again, some times */
    ANSWERS_MS = 50, /* and answers to peers, which may be in no hurry to say that they have come */
};

static struct rxd_ep *ep_of(const struct endpoint *base)
{
    return object_of(base, struct rxd_ep, base);
}

/* ---- Progress ---- */

static void end_broken(struct rxd_ep *ep)
{
    while (!list_empty(&ep->broken)) {
        struct rxd_peer *peer = list_item(ep->broken.next, struct rxd_peer, broken);

        rxd_peer_reset(peer, peer->err);
    }
}

static void attend_all(struct rxd_ep *ep)
{
    struct list all;

    list_init(&all);
    list_join(&ep->attention, &all);
    while (!list_empty(&all)) {
        struct rxd_peer *peer = list_item(all.next, struct rxd_peer, attended);

        list_detach(&peer->attended);
        rxd_in_run(peer);
        rxd_out_flush(peer, false);
    }
}

void rxd_run(struct rxd_ep *ep)
{
    if (ep->running)
        return;
    ep->running = true;
    for (int i = 0; i < ROUNDS; i++) {
        attend_all(ep);
        rxd_move_run(ep);
        end_broken(ep);
        if (list_empty(&ep->attention))
            break;
    }
    ep->running = false;
}

static void poll_lower(struct progress_source *source)
{
    struct rxd_ep *ep = object_of(source, struct rxd_ep, cq.source);

    if (__builtin_expect(!ep->driven, 0))
        return;
    lower_cq_progress(ep->cq.cq);
    if (__builtin_expect(av_watch_any(&ep->watch), 0))
        rxd_peers_take_changes(ep);
    if (__builtin_expect(!list_empty(&ep->deferred), 0))
        rxd_in_deferred(ep);
    rxd_silence_run(ep);
    if (__builtin_expect(!ep->flying && !list_empty(&ep->stalled), 0))
        list_join(&ep->stalled, &ep->attention); /* no completion of the lower's does it */
    rxd_run(ep);
    if (ep->posted < ep->receives)
        rxd_in_fill(ep);
}

/* Something is to be done that nothing below tells of: receives that are missing, too, for which
 * the lower may have messages already. What the lower is full of wakes when it is done. */
static bool has_work(struct rxd_ep *ep)
{
    if (!list_empty(&ep->attention) || !list_empty(&ep->broken) || atomic_load(&ep->watch.any))
        return true;
    if (ep->posted < ep->receives || !list_empty(&ep->deferred))
        return true;
    return !ep->flying && (!list_empty(&ep->stalled) || !list_empty(&ep->moving));
}

/* The lower may complete from inside of its own. */
static int trywait(struct progress_source *source)
{
    struct rxd_ep *ep = object_of(source, struct rxd_ep, cq.source);
    int rc;

    if (!ep->driven)
        return 0;
    if (has_work(ep) || rxd_silence_sleep(ep))
        return -FI_EAGAIN;
    rc = lower_cq_trywait(ep->domain->fabric->lower, ep->cq.cq);
    return !rc && has_work(ep) ? -FI_EAGAIN : rc;
}

/* ---- What the lower completes ---- */

static ssize_t sink_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                          void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct rxd_packet *packet = context;

    if (!packet->in) {
        if (__builtin_expect(!!packet->reads, 0))
            rxd_read_done(packet, 0);
        else
            rxd_out_sent(packet, 0);
        return 0;
    }
    packet->ep->posted--;
    if (__builtin_expect(!packet->ep->buckets, 0))
        rxd_packet_put(packet); /* the lower is being closed, and there are no peers any more */
    else
        rxd_in_packet(packet, len, src);
    return 0;
}

static ssize_t sink_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *error)
{
    struct rxd_packet *packet = error->op_context;

    if (!packet)
        return 0;
    if (!packet->in) {
        if (packet->reads)
            rxd_read_done(packet, error->err);
        else
            rxd_out_sent(packet, error->err);
        return 0;
    }
    packet->ep->posted--;
    rxd_packet_put(packet);
    return 0;
}

static struct fi_ops_cq_owner sink_ops = {
    .size = sizeof(sink_ops),
    .write = sink_write,
    .writeerr = sink_writeerr,
};

/* ---- Enabling ---- */

static int own_address(struct rxd_ep *ep)
{
    union rxd_raw raw;
    size_t len = sizeof(raw);
    int rc = fi_getname(&ep->lower->fid, &raw, &len);

    if (!rc)
        rc = rxd_name_import(ep->lower_info->addr_format, &raw, len, &ep->name);
    if (rc || !ep->name.own_len)
        return rc;
    memcpy(ep->own_name, raw.own, ep->name.own_len);
    ep->name.own = ep->own_name;
    return 0;
}

/* A lower that can shows packets where they lie; else they are copied into receives. */
static void read_in_place(struct rxd_ep *ep)
{
    const struct packet_reader reader = {
        .of = ep->lower, .room = RECEIVES, .read = rxd_in_read, .arg = ep};

    if (ep->prefix ||
        fi_setopt(&ep->lower->fid, FI_OPT_ENDPOINT, OPT_READER, &reader, sizeof(reader)))
        return;
    ep->receives = 0;
}

/* What its lower reads at once; nothing, where it says nothing of accesses by themselves. */
static size_t read_max(struct rxd_ep *ep)
{
    size_t most = 0, size = sizeof(most);

    if (!ep->reads ||
        fi_getopt(&ep->lower->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_RMA_SIZE, &most, &size))
        return 0;
    return most;
}

static int open_lower(struct rxd_ep *ep)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    struct fid_cq *cq;
    int rc = 0;

    if (!ep->lower_av)
        rc = fi_av_open(ep->domain->lower, &attr, &ep->lower_av, ep);
    if (!rc && !ep->cq.cq)
        rc = lower_source_open(&ep->cq, ep->domain->fabric->lower, ep->domain->lower,
                               ep->receives + ep->base.tx_size, &ep->sink,
                               ep->base.binding.progress);
    if (rc)
        return rc;
    cq = lower_cq_fid(ep->cq.cq);
    rc = fi_ep_bind(ep->lower, &cq->fid, FI_TRANSMIT | FI_RECV);
    if (!rc)
        rc = fi_ep_bind(ep->lower, &ep->lower_av->fid, 0);
    if (rc)
        return rc;
    read_in_place(ep);
    ep->read_max = read_max(ep);
    return fi_enable(ep->lower);
}

static int enable(struct endpoint *base)
{
    struct rxd_ep *ep = ep_of(base);
    int rc;

    if (!ep->buckets)
        ep->buckets = calloc(RXD_BUCKETS, sizeof(struct rxd_peer *));
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
    rc = rxd_in_fill(ep);
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
    struct rxd_ep *ep = ep_of(base);

    switch (option) {
    case FI_OPT_MAX_MSG_SIZE: return ep->info->ep_attr->max_msg_size;
    case FI_OPT_MAX_TAGGED_SIZE:
        return base->caps & FI_TAGGED ? ep->info->ep_attr->max_msg_size : 0;
    case FI_OPT_MAX_RMA_SIZE: return base->caps & FI_RMA ? ep->info->ep_attr->max_msg_size : 0;
    case FI_OPT_MAX_ATOMIC_SIZE:
        return base->caps & FI_ATOMIC ? rxd_operand_size(ep->heads + ep->room, ep->heads) : 0;
    case FI_OPT_INJECT_TAGGED_SIZE:
        return base->caps & FI_TAGGED ? ep->info->tx_attr->inject_size : 0;
    case FI_OPT_INJECT_RMA_SIZE: return base->caps & FI_RMA ? ep->info->tx_attr->inject_size : 0;
    case FI_OPT_INJECT_ATOMIC_SIZE:
        return base->caps & FI_ATOMIC ? ep->info->tx_attr->inject_size : 0;
    default: return ep->info->tx_attr->inject_size;
    }
}

static size_t tx_used(const struct endpoint *base)
{
    return ep_of(base)->used;
}

static int ep_setname(fid_t fid, void *addr, size_t addrlen)
{
    struct rxd_ep *ep = object_of(fid, struct rxd_ep, fid.fid);

    return fi_setname(&ep->lower->fid, addr, addrlen);
}

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
    struct rxd_ep *ep = object_of(fid, struct rxd_ep, fid.fid);

    return fi_getname(&ep->lower->fid, addr, addrlen);
}

/* ---- Opening and closing ---- */

/* Until when fi_close waits, of clock_ms; 0: for nothing. What was accepted and has not come to its
 * peer has close_ms from start on; TOLD_MS where the peer has ended before. What has come and waits
 * for the peer's receive is discarded: its application was told of no end. quiet: since when
 * nothing is under way. */
static long long close_by(const struct rxd_ep *ep, long long start, long long quiet)
{
    long long told = ep->owed ? start + TOLD_MS : 0, by;

    if (ep->used && !rxd_peers_await(ep))
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
static void deliver_accepted(struct rxd_ep *ep)
{
    long long start = clock_ms(), now = start, quiet = start;
    uint32_t rest = 0; /* for the lower: what it has has had its time */

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
    rxd_peers_bye(ep);
    fi_setopt(&ep->lower->fid, FI_OPT_ENDPOINT, OPT_CLOSE_WAIT, &rest, sizeof(rest));
}

static void close_lower(struct rxd_ep *ep)
{
    if (ep->lower)
        fi_close(&ep->lower->fid);
    if (ep->base.binding.progress)
        lower_source_close(&ep->cq, ep->base.binding.progress);
    if (ep->lower_av)
        fi_close(&ep->lower_av->fid);
}

static int close_ep(struct endpoint *base)
{
    struct rxd_ep *ep = ep_of(base);

    av_watch_detach(&ep->watch);
    if (base->binding.progress) {
        progress_lock(base->binding.progress);
        ep->closing = true;
        if (base->enabled && !progress_forked(ep->progress))
            deliver_accepted(ep);
        ep->driven = false;
        rxd_peers_finish(ep);
        wake_timer_finish(&ep->timer, base->binding.progress);
        progress_unlock(base->binding.progress);
    }
    close_lower(ep);
    rxd_read_finish(ep);
    endpoint_finish(base);
    mr_pool_finish(&ep->packets);
    pool_finish(&ep->ops);
    ids_finish(&ep->numbers);
    ids_finish(&ep->requests);
    ids_finish(&ep->takers);
    av_watch_finish(&ep->watch);
    info_free(ep->lower_info);
    info_free(ep->info);
    free(ep);
    return 0;
}

/* The lower's affair. */
static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    return fi_setopt(&ep_of(base)->lower->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED,
                     value, len);
}

/* Of the application's event queue the lower may have something to say. Any queue is taken. */
static int bound(struct endpoint *base, struct fid *fid, uint64_t flags)
{
    struct rxd_ep *ep = ep_of(base);
    struct event_target target = {.eq = eq_of(fid), .fid = &ep->fid.fid};

    if (fid->fclass != FI_CLASS_EQ || !target.eq || base->eq ||
        fi_setopt(&ep->lower->fid, FI_OPT_ENDPOINT, OPT_EVENTS, &target, sizeof(target)))
        return 0;
    base->eq = target.eq;
    children_hold(&target.eq->children);
    return 0;
}

static const struct endpoint_option options[] = {
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = OPT_CLOSE_WAIT, .kind = OPTION_FIELD, .at = offsetof(struct rxd_ep, close_ms)},
    {.name = 0},
};

static const struct endpoint_ops ops = {
    .post = rxd_post,
    .atomic_valid = rxd_atomic_valid,
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

static void init_base(struct rxd_ep *ep, void *context)
{
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &ep->domain->base,
        .info = ep->info,
        .caps = caps_expand(ep->info->caps),
        .fclass = FI_CLASS_EP,
        .context = context,
        .size = RXD_SIZE,
        .iov_limit = RXD_IOV,
        .min_multi_recv = RXD_MIN_MULTI_RECV,
    };

    endpoint_init(&ep->base, &attr);
    ep->fid.cm = &cm_ops;
    ep->close_ms = CLOSE_MS;
    ep->base.needs_av = true;
    if (!(attr.caps & FI_MSG))
        ep->base.base.groups &= ~(unsigned)OP_GROUP_MSG;
}

static void read_lower(struct rxd_ep *ep)
{
    const struct fi_info *lower = ep->lower_info;
    size_t max = lower->ep_attr->max_msg_size;
    bool local = info_mr_bits(lower) & FI_MR_LOCAL;

    ep->prefix = lower->mode & FI_MSG_PREFIX ? lower->ep_attr->msg_prefix_size : 0;
    ep->heads = rxd_heads(lower);
    ep->room = (max < RXD_PAYLOAD_MAX ? max : RXD_PAYLOAD_MAX) - ep->heads;
    ep->gathers = !local && lower->tx_attr->iov_limit > RXD_IOV;
    ep->reads = lower->caps & FI_RMA;
    ep->ahead = AHEAD_BYTES / (unsigned)ep->room;
    ep->ahead = ep->ahead < AHEAD_LEAST ? AHEAD_LEAST : ep->ahead;
    ep->ahead = ep->ahead > AHEAD_MOST ? AHEAD_MOST : ep->ahead;
    ep->receives = RECEIVES;
    if (lower->rx_attr->size && lower->rx_attr->size < RECEIVES)
        ep->receives = (unsigned)lower->rx_attr->size;
    mr_pool_init(&ep->packets, "rxd", local ? ep->domain->lower : NULL,
                 sizeof(struct rxd_packet) + ep->prefix + ep->heads + ep->room, PACKETS_FIRST,
                 PACKETS_MOST);
}

/* Number 0 of each table is nobody's. */
static int open_tables(struct rxd_ep *ep)
{
    struct ids *tables[] = {&ep->numbers, &ep->requests, &ep->takers};

    for (int i = 0; i < 3; i++) {
        ids_init(tables[i], INDEX_BITS, 32);
        if (ids_add(tables[i], ep) == IDS_NONE)
            return -FI_ENOMEM;
    }
    return 0;
}

static int open_parts(struct rxd_ep *ep)
{
    const struct lower_fabric *fabric = ep->domain->fabric;
    int rc = rxd_lower_info(fabric, ep->info, &ep->lower_info);

    if (!rc)
        rc = open_tables(ep);
    if (rc)
        return rc;
    read_lower(ep);
    ep->saved_limit = params_size(fabric->plain.params, "saved_size");
    ep->source_err = ep->info->caps & FI_SOURCE_ERR;
    pool_init(&ep->ops, sizeof(struct rxd_op), 0);
    ep->sink.owner_ops = &sink_ops;
    fid_init(&ep->sink.fid, FI_CLASS_PEER_CQ, ep, NULL);
    ep->cq.part = fabric->plain.base.part;
    ep->cq.source.poll = poll_lower;
    ep->cq.source.trywait = trywait;
    rc = fi_endpoint(ep->domain->lower, ep->lower_info, &ep->lower, ep);
    if (!rc)
        ep->target = op_target_of(ep->lower);
    return rc;
}

int rxd_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_ep, void *context)
{
    struct lower_domain *domain = lower_domain_of(fid);
    struct rxd_ep *ep = calloc(1, sizeof(*ep));
    int rc;

    if (!ep)
        return -FI_ENOMEM;
    ep->info = fabric_info(&domain->fabric->plain.base, info);
    if (!ep->info) {
        free(ep);
        return -FI_ENOMEM;
    }
    ep->domain = domain;
    ep->progress = &progress_none;
    list_init(&ep->attention);
    list_init(&ep->stalled);
    list_init(&ep->broken);
    list_init(&ep->moving);
    list_init(&ep->deferred);
    list_init(&ep->reading);
    list_init(&ep->cq.source.link);
    av_watch_init(&ep->watch);
    wake_timer_init(&ep->timer);
    init_base(ep, context);
    rc = open_parts(ep);
    if (rc) {
        close_ep(&ep->base);
        return rc;
    }
    *ret_ep = &ep->fid;
    return 0;
}
