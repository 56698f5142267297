/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/arq/arq_ep.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/enosys.h"
#include "core/domain/base.h"
#include "core/info/info.h"

enum {
    CLOSE_MS = 2000, /* for peers that are slow to take what was sent to them */
    CLOSES = 3,      /* packets that say so to a peer: nothing acknowledges them */
};

#define ACK_DELAY_NS UINT64_C(100000)
#define NS_OF_MS UINT64_C(1000000)

/* ---- Posting ---- */

static ssize_t post(struct ep *base, struct op *op)
{
    struct arq_ep *ep = object_of(base, struct arq_ep, base.base);

    return op->group == OP_GROUP_RECV ? arq_post_receive(ep, op) : arq_post_send(ep, op);
}

static int atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                        size_t *count)
{
    return -FI_EOPNOTSUPP;
}

static int cancel(struct endpoint *base, void *context)
{
    return recv_queue_cancel(&arq_ep_of(base)->posted, &base->binding, context);
}

static size_t limit(struct endpoint *base, int option)
{
    switch (option) {
    case FI_OPT_MAX_MSG_SIZE: return arq_ep_of(base)->info->ep_attr->max_msg_size;
    case FI_OPT_INJECT_MSG_SIZE: return arq_ep_of(base)->copy_size;
    default: return 0;
    }
}

static size_t tx_used(const struct endpoint *base)
{
    return arq_ep_of(base)->sends.used;
}

static size_t rx_used(struct endpoint *base)
{
    return recv_queue_count(&arq_ep_of(base)->posted);
}

/* What goes in one packet: to a peer without a session, what reaches any. */
static int packet_room(struct endpoint *base, void *value, size_t *len)
{
    struct arq_ep *ep = arq_ep_of(base);
    size_t most = ep->info->ep_attr->max_msg_size;
    struct packet_room *room = value;
    const struct arq_peer *peer;

    if (*len != sizeof(*room))
        return -FI_EINVAL;
    progress_lock(ep->progress);
    peer = peer_map_at(&ep->peers.map, room->addr);
    room->size = (peer && peer->link ? peer->link->session.mtu.size : PATH_MTU_BASE) - ARQ_HEADER;
    progress_unlock(ep->progress);
    if (room->size > most)
        room->size = most;
    return 0;
}

static int set_close_wait(struct endpoint *base, const void *value, size_t len)
{
    struct arq_ep *ep = arq_ep_of(base);

    if (len != sizeof(ep->close_ms))
        return -FI_EINVAL;
    memcpy(&ep->close_ms, value, len);
    return 0;
}

/* The lower's affair. */
static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    return fi_setopt(&arq_ep_of(base)->lower.ep->fid, FI_OPT_ENDPOINT,
                     FI_OPT_SHARED_MEMORY_PERMITTED, value, len);
}

static size_t drops(struct endpoint *base)
{
    size_t count = 0, len = sizeof(count);

    return fi_getopt(&arq_ep_of(base)->lower.ep->fid, FI_OPT_ENDPOINT, OPT_DROPS, &count, &len)
               ? 0
               : count;
}

static const struct endpoint_option options[] = {
    {.name = OPT_DROPS, .kind = OPTION_SIZE, .size = drops},
    {.name = OPT_PACKET_ROOM, .kind = OPTION_ANSWER, .answer = packet_room},
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = OPT_CLOSE_WAIT, .kind = OPTION_FUNCTION, .set = set_close_wait},
    {.name = 0},
};

/* ---- Enabling ---- */

static int make_key(struct gate *gate)
{
    return getrandom(gate->key, sizeof(gate->key), 0) == sizeof(gate->key) ? 0 : -FI_EOTHER;
}

static int enable(struct endpoint *base)
{
    struct arq_ep *ep = arq_ep_of(base);
    int rc;

    ep->progress = base->binding.progress;
    ep->top = binding_is_top(&base->binding);
    ep->posted.most = base->rx_size;
    ep->sends.limit = base->tx_size;
    rc = arq_lower_enable(ep);
    if (rc)
        return rc;
    ep->lower.enabled = true;
    arq_lower_name(ep);
    av_watch_attach(&ep->watch, base->av, ep->progress);
    progress_lock(ep->progress);
    arq_lower_feed(ep);
    ep->lower.driven = ep->fed;
    if (ep->fed && ep->top)
        progress_stand_in(ep->progress);
    progress_unlock(ep->progress);
    return ep->fed ? 0 : -FI_ENOMEM;
}

/* ---- Closing ---- */

/* What was accepted is sent, for a while. */
static void drain(struct arq_ep *ep)
{
    long long end = clock_ms() + ep->close_ms;
    bool busy = true;

    while (busy && clock_ms() < end) {
        progress_lock(ep->progress);
        progress_poll(ep->progress);
        busy = arq_busy(ep);
        progress_unlock(ep->progress);
        if (busy) {
            progress_drive_others(ep->progress, false);
            sched_yield();
        }
    }
}

static void end_links(struct arq_ep *ep, bool forked)
{
    ep->running = true; /* what an upper posts meanwhile goes nowhere */
    while (!list_empty(&ep->peers.links)) {
        struct arq_link *link = list_item(ep->peers.links.next, struct arq_link, all);

        for (int i = 1; !forked && i < CLOSES; i++)
            session_say_closed(&link->session);
        session_end(&link->session, FI_ECANCELED, !forked);
        arq_link_close(link);
    }
}

static void free_memory(struct arq_ep *ep)
{
    arq_peers_finish(&ep->peers);
    recv_queue_finish(&ep->posted);
    mr_pool_finish(&ep->heads);
    mr_pool_finish(&ep->wholes);
    mr_pool_finish(&ep->copies);
    mr_pool_finish(&ep->buffers);
    pool_finish(&ep->sends);
    av_watch_finish(&ep->watch);
    info_free(ep->lower_info);
    info_free(ep->info);
    free(ep);
}

static int close_ep(struct endpoint *base)
{
    struct arq_ep *ep = arq_ep_of(base);
    bool forked = ep->progress && progress_forked(ep->progress);

    av_watch_detach(&ep->watch);
    if (ep->lower.enabled) {
        if (!forked)
            drain(ep);
        progress_lock(ep->progress);
        base->enabled = false;
        end_links(ep, forked);
        if (!forked)
            lower_cq_progress(ep->lower.source.cq);
        ep->lower.driven = false;
        wake_timer_finish(&ep->timer, ep->progress);
        progress_unlock(ep->progress);
    }
    arq_lower_close(ep);
    endpoint_finish(base);
    free_memory(ep);
    return 0;
}

/* ---- Opening ---- */

static const struct endpoint_ops ops = {
    .post = post,
    .atomic_valid = atomic_valid,
    .limit = limit,
    .enable = enable,
    .close = close_ep,
    .cancel = cancel,
    .tx_used = tx_used,
    .rx_used = rx_used,
    .options = options,
};

static int ep_setname(fid_t fid, void *addr, size_t len)
{
    return fi_setname(&object_of(fid, struct arq_ep, fid.fid)->lower.ep->fid, addr, len);
}

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
    return fi_getname(&object_of(fid, struct arq_ep, fid.fid)->lower.ep->fid, addr, len);
}

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = ep_setname,
    .getname = ep_getname,
    NO_CM_CONNECTION,
};

static void init_base(struct arq_ep *ep, void *context)
{
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &ep->domain->base,
        .info = ep->info,
        .caps = caps_expand(ep->info->caps ? ep->info->caps : FI_MSG) &
                ~(FI_TAGGED | FI_RMA | FI_ATOMIC),
        .fclass = FI_CLASS_EP,
        .context = context,
        .size = ARQ_SIZE,
        .iov_limit = RECV_QUEUE_IOV,
    };

    attr.min_multi_recv = ep->info->ep_attr->max_msg_size;
    endpoint_init(&ep->base, &attr);
    ep->base.needs_av = true;
    ep->base.needs_srx = ep->base.needs_stx = false;
    ep->fid.cm = &cm_ops;
}

static void init_lists(struct arq_ep *ep)
{
    list_init(&ep->ready);
    list_init(&ep->blocked);
    list_init(&ep->timers);
    list_init(&ep->arrived);
    list_init(&ep->saved);
    list_init(&ep->talkers);
}

static void init_config(struct arq_ep *ep, const struct params *params)
{
    ep->config = (struct session_config){
        .congestion = congestion_named(params_string(params, "cc")),
        .most = (uint32_t)ep->lower.most,
        .patience = (uint64_t)params_time_ms(params, "patience") * NS_OF_MS,
        .ack_delay = ACK_DELAY_NS,
        .transmit = arq_transmit,
        .deliver = arq_deliver,
        .done = arq_done,
    };
    ep->saved_most = (size_t)params_int(params, "saved");
    ep->feed = (size_t)params_int(params, "buffers");
    if (ep->feed > ep->lower.receives)
        ep->feed = ep->lower.receives;
    arq_peers_init(&ep->peers, (size_t)params_int(params, "max_sessions"));
}

static void init_memory(struct arq_ep *ep)
{
    bool local = info_mr_bits(ep->lower_info) & FI_MR_LOCAL;
    struct fid_domain *domain = local ? ep->domain->lower : NULL;
    size_t whole = ep->lower.prefix + ep->lower.most;

    ep->copies_all = local && !(info_mr_bits(ep->info) & FI_MR_LOCAL);
    ep->copy_size =
        ep->copies_all ? ep->info->ep_attr->max_msg_size : ep->info->tx_attr->inject_size;
    pool_init(&ep->sends, sizeof(struct arq_send), ep->base.tx_size);
    mr_pool_init(&ep->heads, "arq", domain,
                 sizeof(struct arq_head) + ep->lower.prefix + ARQ_OPEN_SIZE, 16, 256);
    mr_pool_init(&ep->wholes, "arq", domain, sizeof(struct arq_head) + whole, 1, 16);
    mr_pool_init(&ep->copies, "arq", domain, sizeof(struct arq_copy) + ep->copy_size, 8, 64);
    mr_pool_init(&ep->buffers, "arq", domain, sizeof(struct arq_buffer) + whole, (unsigned)ep->feed,
                 256);
}

/* The largest message is what this domain's datagrams leave. */
static int open_parts(struct arq_ep *ep)
{
    const struct lower_fabric *fabric = ep->domain->fabric;
    int rc = arq_lower_info(fabric, ep->info, &ep->lower_info);

    if (!rc)
        rc = make_key(&ep->gate);
    if (!rc)
        rc = arq_lower_open(ep);
    if (rc)
        return rc;
    init_config(ep, fabric->plain.params);
    init_memory(ep);
    return 0;
}

int arq_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_ep, void *context)
{
    struct lower_domain *domain = lower_domain_of(fid);
    struct arq_ep *ep = calloc(1, sizeof(*ep));
    int rc;

    if (!ep)
        return -FI_ENOMEM;
    ep->info = fabric_info(&domain->fabric->base, info);
    if (!ep->info) {
        free(ep);
        return -FI_ENOMEM;
    }
    ep->domain = domain;
    ep->progress = &progress_none;
    ep->close_ms = CLOSE_MS;
    init_lists(ep);
    wake_timer_init(&ep->timer);
    av_watch_init(&ep->watch);
    init_base(ep, context);
    rc = open_parts(ep);
    if (rc) {
        close_ep(&ep->base);
        return rc;
    }
    *ret_ep = &ep->fid;
    return 0;
}
