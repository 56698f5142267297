/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/arq/arq_ep.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/enosys.h"
#include "core/domain/base.h"
#include "core/info/info.h"

enum {
    CHUNKS = 3,    /* receives that take many datagrams each */
    CLOSES = 3,    /* packets that say so to a peer: nothing acknowledges them */
    LEAVE_MS = 50, /* for the lower to send them, which is all that it has then */
};

#define ACK_DELAY_NS UINT64_C(100000)
#define NS_OF_MS UINT64_C(1000000)

/* ---- Options ---- */

/* Bytes that go in one packet; to a peer without a session, as many as reach any. */
static int packet_room(struct endpoint *base, void *value, size_t *len)
{
    struct arq_ep *ep = arq_ep_of(base);
    size_t most = ep->up.info->ep_attr->max_msg_size;
    struct packet_room *room = value;
    const struct arq_peer *peer;

    if (*len != sizeof(*room))
        return -FI_EINVAL;
    progress_lock(ep->up.progress);
    peer = peer_map_at(&ep->peers.map, room->addr);
    room->size = (peer && peer->link ? peer->link->session.mtu.size : PATH_MTU_BASE) - ARQ_HEADER;
    room->train = peer && peer->link ? session_train_room(&peer->link->session) : 0;
    progress_unlock(ep->up.progress);
    if (room->size > most)
        room->size = most;
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

/* A packet to a session that the peer's endpoint does not have is answered by RESET. */
static size_t sessions(struct endpoint *base)
{
    return 1;
}

static int set_reader(struct endpoint *base, const void *value, size_t len)
{
    struct arq_ep *ep = arq_ep_of(base);

    return packet_ep_take_reader(&ep->up, value, len, &ep->reader);
}

static const struct endpoint_option options[] = {
    {.name = OPT_READER, .kind = OPTION_FUNCTION, .set = set_reader},
    {.name = OPT_DROPS, .kind = OPTION_SIZE, .size = drops},
    {.name = OPT_SESSIONS, .kind = OPTION_SIZE, .size = sessions},
    {.name = OPT_PACKET_ROOM, .kind = OPTION_ANSWER, .answer = packet_room},
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = OPT_CLOSE_WAIT, .kind = OPTION_FUNCTION, .set = packet_ep_set_close_wait},
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

    packet_ep_begin(&ep->up);
    rc = arq_lower_enable(ep);
    if (rc)
        return rc;
    ep->lower.enabled = true;
    arq_lower_name(ep);
    av_watch_attach(&ep->up.watch, base->av, ep->up.progress);
    progress_lock(ep->up.progress);
    arq_lower_feed(ep);
    ep->lower.driven = ep->fed;
    if (ep->fed && ep->up.top)
        progress_stand_in(ep->up.progress);
    progress_unlock(ep->up.progress);
    return ep->fed ? 0 : -FI_ENOMEM;
}

/* ---- Closing ---- */

static void end_links(struct arq_ep *ep, bool forked)
{
    ep->up.running = true; /* what an upper posts meanwhile goes nowhere */
    while (!list_empty(&ep->peers.links)) {
        struct arq_link *link = list_item(ep->peers.links.next, struct arq_link, all);

        for (int i = 1; !forked && i < CLOSES; i++)
            session_say_closed(&link->session);
        session_end(&link->session, FI_ECANCELED, !forked);
        arq_link_close(link);
    }
}

/* A device drops what it has not sent when its endpoint is closed. Progress domain locked. */
static void let_packets_leave(struct arq_ep *ep)
{
    long long end = clock_ms() + LEAVE_MS;

    lower_cq_progress(ep->lower.source.cq);
    while (ep->sends_at_lower && clock_ms() < end) {
        progress_unlock(ep->up.progress);
        binding_drive_others(&ep->up.base.binding);
        sched_yield();
        progress_lock(ep->up.progress);
        lower_cq_progress(ep->lower.source.cq);
    }
}

static void free_memory(struct arq_ep *ep)
{
    arq_peers_finish(&ep->peers);
    mr_pool_finish(&ep->heads);
    mr_pool_finish(&ep->wholes);
    mr_pool_finish(&ep->copies);
    mr_pool_finish(&ep->buffers);
    mr_pool_finish(&ep->chunks);
    pool_finish(&ep->arrivals);
    info_free(ep->lower_info);
    packet_ep_finish(&ep->up);
    free(ep);
}

static int close_ep(struct endpoint *base)
{
    struct arq_ep *ep = arq_ep_of(base);
    bool forked = ep->up.progress && progress_forked(ep->up.progress);

    av_watch_detach(&ep->up.watch);
    if (ep->lower.enabled) {
        if (!forked)
            packet_ep_drain(&ep->up, ep->up.close_ms, arq_busy);
        progress_lock(ep->up.progress);
        base->enabled = false;
        end_links(ep, forked);
        if (!forked)
            let_packets_leave(ep);
        ep->lower.driven = false;
        wake_timer_finish(&ep->up.timer, ep->up.progress);
        progress_unlock(ep->up.progress);
    }
    arq_lower_close(ep);
    free_memory(ep);
    return 0;
}

/* ---- Opening ---- */

static const struct endpoint_ops ops = {
    PACKET_EP_OPS,
    .enable = enable,
    .close = close_ep,
    .options = options,
};

static void take_av_changes(struct packet_ep *up)
{
    arq_take_av_changes(arq_ep_of_packets(up));
}

static void run(struct packet_ep *up)
{
    arq_run(arq_ep_of_packets(up), 0);
}

static const struct packet_ep_ops packet_ops = {
    .send = arq_send,
    .take_av_changes = take_av_changes,
    .run = run,
};

static int ep_setname(fid_t fid, void *addr, size_t len)
{
    return fi_setname(&object_of(fid, struct arq_ep, up.fid.fid)->lower.ep->fid, addr, len);
}

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
    return fi_getname(&object_of(fid, struct arq_ep, up.fid.fid)->lower.ep->fid, addr, len);
}

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = ep_setname,
    .getname = ep_getname,
    NO_CM_CONNECTION,
};

static void init_base(struct arq_ep *ep, struct fi_info *info, void *context)
{
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &ep->domain->base,
        .caps = caps_expand(info->caps ? info->caps : FI_MSG),
        .context = context,
        .size = ARQ_SIZE,
    };

    packet_ep_init(&ep->up, &packet_ops, &attr, info);
    ep->up.fid.cm = &cm_ops;
    ep->up.segments = ARQ_SEGMENTS;
    ep->up.takes_multi = true;
    list_init(&ep->blocked);
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
    ep->up.saved_most = (size_t)params_int(params, "saved");
    ep->feed = (size_t)params_int(params, "buffers");
    if (ep->lower.chunk)
        ep->feed = CHUNKS;
    if (ep->feed > ep->lower.receives)
        ep->feed = ep->lower.receives;
    arq_peers_init(&ep->peers, (size_t)params_int(params, "max_sessions"));
}

static void init_memory(struct arq_ep *ep)
{
    bool local = info_mr_bits(ep->lower_info) & FI_MR_LOCAL;
    struct fid_domain *domain = local ? ep->domain->lower : NULL;
    size_t whole = ep->lower.prefix + ep->lower.most;

    ep->copies_all = local && !(info_mr_bits(ep->up.info) & FI_MR_LOCAL);
    ep->up.copy_size =
        ep->copies_all ? ep->up.info->ep_attr->max_msg_size : ep->up.info->tx_attr->inject_size;
    pool_init(&ep->up.sends, sizeof(struct arq_send), ep->up.base.tx_size);
    mr_pool_init(&ep->heads, "arq", domain,
                 sizeof(struct arq_head) + ep->lower.prefix + ARQ_OPEN_SIZE, 16, 256);
    mr_pool_init(&ep->wholes, "arq", domain, sizeof(struct arq_head) + whole, 1, 16);
    mr_pool_init(&ep->copies, "arq", domain, sizeof(struct arq_copy) + ep->up.copy_size, 8, 64);
    mr_pool_init(&ep->buffers, "arq", domain, sizeof(struct arq_buffer) + whole,
                 ep->lower.chunk ? 1 : (unsigned)ep->feed, 256);
    mr_pool_init(&ep->chunks, "arq", domain, sizeof(struct arq_chunk) + ep->lower.chunk, CHUNKS, 1);
    pool_init(&ep->arrivals, sizeof(struct arq_buffer), 0);
}

/* The largest message is what this domain's datagrams leave. */
static int open_parts(struct arq_ep *ep)
{
    const struct lower_fabric *fabric = ep->domain->fabric;
    int rc = arq_lower_info(fabric, ep->up.info, &ep->lower_info);

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
    info = fabric_info(&domain->fabric->base, info);
    if (!info) {
        free(ep);
        return -FI_ENOMEM;
    }
    ep->domain = domain;
    init_base(ep, info, context);
    rc = open_parts(ep);
    if (rc) {
        close_ep(&ep->up.base);
        return rc;
    }
    *ret_ep = &ep->up.fid;
    return 0;
}
