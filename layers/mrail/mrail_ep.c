/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_ep.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/node_turn.h"
#include "core/base/enosys.h"
#include "core/base/seam.h"
#include "core/domain/base.h"
#include "core/info/info.h"
#include "core/net/near.h"
#include "layers/mrail/mrail_info.h"

enum {
    LEAVE_MS = 20, /* for rails to send the last packets, which nothing depends on */
    INDEX_BITS = 20,
};

#define ACK_DELAY_NS UINT64_C(100000)
#define NS_OF_MS UINT64_C(1000000)

/* ---- Options ---- */

/* The rails' affair; those that have no shared memory do not know the option. */
static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    struct mrail_ep *ep = mrail_ep_of(base);
    int rc = -FI_ENOPROTOOPT;

    for (unsigned i = 0; i < ep->count; i++) {
        int one = fi_setopt(&ep->way[i].fid->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED,
                            value, len);

        if (one && one != -FI_ENOPROTOOPT)
            return one;
        rc = one ? rc : 0;
    }
    return rc;
}

static int set_events(struct endpoint *base, const void *value, size_t len)
{
    struct mrail_ep *ep = mrail_ep_of(base);

    if (len != sizeof(ep->events))
        return -FI_EINVAL;
    memcpy(&ep->events, value, len);
    return 0;
}

/* Each rail has connections, or sessions, with a peer. */
static size_t sessions(struct endpoint *base)
{
    return 1;
}

static int set_reader(struct endpoint *base, const void *value, size_t len)
{
    struct mrail_ep *ep = mrail_ep_of(base);

    return packet_ep_take_reader(&ep->up, value, len, &ep->reader);
}

static const struct endpoint_option options[] = {
    {.name = OPT_READER, .kind = OPTION_FUNCTION, .set = set_reader},
    {.name = OPT_SESSIONS, .kind = OPTION_SIZE, .size = sessions},
    {.name = OPT_EVENTS, .kind = OPTION_FUNCTION, .set = set_events},
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_shared_memory},
    {.name = OPT_CLOSE_WAIT, .kind = OPTION_FUNCTION, .set = packet_ep_set_close_wait},
    {.name = OPT_STOP_READ, .kind = OPTION_FUNCTION, .set = mrail_read_stop},
    {.name = 0},
};

/* ---- Names ---- */

static int rail_name(struct mrail_ep *ep, unsigned rail, struct mrail_addr_rail *name)
{
    name->kind = ep->domain->kinds[rail];
    name->format = ep->domain->rail[rail].info->addr_format;
    name->len = sizeof(name->addr);
    memset(name->addr, 0, sizeof(name->addr));
    return fi_getname(&ep->way[rail].fid->fid, name->addr, &name->len);
}

static int own_name(struct mrail_ep *ep)
{
    struct mrail_addr *addr = calloc(1, sizeof(*addr));
    int rc = addr ? 0 : -FI_ENOMEM;

    if (rc)
        return rc;
    addr->packet = ep->config.packet;
    addr->count = ep->count;
    for (unsigned i = 0; !rc && i < ep->count; i++)
        rc = rail_name(ep, i, &addr->rail[i]);
    if (!rc)
        rc = mrail_addr_encode(addr, ep->name, ep->name_size);
    free(addr);
    return rc;
}

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
    struct mrail_ep *ep = object_of(fid, struct mrail_ep, up.fid.fid);
    size_t room = *len;
    int rc = ep->enabled ? 0 : own_name(ep);

    if (rc)
        return rc;
    *len = ep->name_size;
    if (addr && room)
        memcpy(addr, ep->name, room < *len ? room : *len);
    return room < *len ? -FI_ETOOSMALL : 0;
}

static int ep_setname(fid_t fid, void *raw, size_t len)
{
    struct mrail_ep *ep = object_of(fid, struct mrail_ep, up.fid.fid);
    struct mrail_addr *addr;
    int rc;

    if (!raw || ep->enabled)
        return raw ? -FI_EOPBADSTATE : -FI_EINVAL;
    addr = malloc(sizeof(*addr));
    rc = addr ? mrail_domain_read_addr(ep->domain, raw, len, addr) : -FI_ENOMEM;
    for (unsigned i = 0; !rc && i < ep->count; i++) {
        const struct mrail_addr_rail *name = mrail_addr_meets(addr, ep->domain->kinds, i);

        if (name)
            rc = fi_setname(&ep->way[i].fid->fid, (void *)(uintptr_t)name->addr,
                            mrail_addr_len(name, ep->domain->rail[i].info->src_addrlen));
    }
    free(addr);
    return rc;
}

/* ---- Enabling ---- */

static int enable(struct endpoint *base)
{
    struct mrail_ep *ep = mrail_ep_of(base);
    int rc = 0;

    packet_ep_begin(&ep->up);
    for (unsigned i = 0; !rc && i < ep->count; i++)
        rc = mrail_way_enable(&ep->way[i]);
    if (!rc)
        rc = own_name(ep);
    if (rc)
        return rc;
    mrail_reads_enable(ep);
    ep->enabled = true;
    av_watch_attach(&ep->up.watch, base->av, ep->up.progress);
    progress_lock(ep->up.progress);
    for (unsigned i = 0; i < ep->count; i++)
        mrail_way_feed(&ep->way[i]);
    mrail_links_open(ep);
    ep->driven = true;
    progress_unlock(ep->up.progress);
    return 0;
}

/* ---- Closing ---- */

static bool sending(const struct packet_ep *up)
{
    const struct mrail_ep *ep = mrail_ep_of_packets(up);
    size_t count = 0;

    for (unsigned i = 0; i < ep->count; i++)
        count += ep->way[i].sending;
    return count;
}

/* Tells the peer that we are gone, by one rail that is up. */
static void say_bye(struct mrail_session *session)
{
    for (unsigned rail = 0; session->peer->intro.theirs && rail < session->ep->count; rail++) {
        if (session->paths[rail].state == PATH_UP &&
            flow_transmit_plain(&session->flow, rail, MRAIL_BYE, 0))
            return;
    }
}

/* One that rests, and that there is no memory for, finds out by itself. */
static void end_flow(struct mrail_ep *ep, struct mrail_peer *peer, bool forked)
{
    struct mrail_session *session = forked ? mrail_session_of(peer) : mrail_session_wake(ep, peer);

    if (!session)
        return;
    if (!forked)
        say_bye(session);
    flow_end(&session->flow, FI_ECANCELED);
    mrail_session_rest(session, clock_ns());
}

static void end_flows(struct mrail_ep *ep, bool forked)
{
    ep->up.running = true; /* what an upper posts meanwhile goes nowhere */
    ep->closing = true;
    for (size_t i = 0; i < MRAIL_BUCKETS; i++) {
        for (struct mrail_peer *peer = ep->buckets[i]; peer; peer = peer->next)
            end_flow(ep, peer, forked);
    }
    mrail_reads_finish(ep);
    ep->up.running = false;
}

static void put_packets(struct list *packets)
{
    while (!list_empty(packets)) {
        struct list *first = packets->next;

        list_detach(first);
        mrail_packet_put(list_item(first, struct mrail_packet, link));
    }
}

/* The flows have waited for the peers; what rails still have are acknowledgements, the word that we
 * are gone, and what had to be sent twice. */
static void let_packets_leave(struct mrail_ep *ep)
{
    long long start = clock_ms(), spent;
    uint32_t rest;

    packet_ep_drain(&ep->up, LEAVE_MS, sending);
    spent = clock_ms() - start;
    rest = spent < LEAVE_MS ? (uint32_t)(LEAVE_MS - spent) / ep->count : 0;
    for (unsigned i = 0; i < ep->count; i++)
        fi_setopt(&ep->way[i].fid->fid, FI_OPT_ENDPOINT, OPT_CLOSE_WAIT, &rest, sizeof(rest));
}

static int close_ep(struct endpoint *base)
{
    struct mrail_ep *ep = mrail_ep_of(base);
    bool forked = ep->up.progress && progress_forked(ep->up.progress);

    av_watch_detach(&ep->up.watch);
    if (ep->enabled) {
        if (!forked)
            packet_ep_drain(&ep->up, ep->up.close_ms, mrail_busy);
        progress_lock(ep->up.progress);
        base->enabled = false;
        end_flows(ep, forked);
        progress_unlock(ep->up.progress);
        if (!forked)
            let_packets_leave(ep);
        progress_lock(ep->up.progress);
        ep->driven = false;
        mrail_links_close(ep);
        wake_timer_finish(&ep->up.timer, ep->up.progress);
        progress_unlock(ep->up.progress);
    }
    put_packets(&ep->up.arrived);
    put_packets(&ep->up.saved);
    mrail_peers_finish(ep);
    mrail_regions_leave(ep);
    for (unsigned i = 0; i < ep->count; i++)
        mrail_way_close(&ep->way[i]);
    packet_ep_finish(&ep->up);
    pool_finish(&ep->copies);
    pool_finish(&ep->reads);
    mr_pool_finish(&ep->stripes);
    free(ep);
    return 0;
}

/* ---- Opening ---- */

static ssize_t post(struct ep *base, struct op *op)
{
    if (op->group == OP_GROUP_RMA)
        return mrail_read_post(object_of(base, struct mrail_ep, up.base.base), op);
    return packet_ep_post(base, op);
}

static size_t limit(struct endpoint *base, int option)
{
    if (option == FI_OPT_MAX_RMA_SIZE)
        return mrail_ep_of(base)->domain->reads ? SIZE_MAX : 0;
    return packet_ep_limit(base, option);
}

static const struct endpoint_ops ops = {
    .post = post,
    .atomic_valid = packet_ep_atomic_valid,
    .limit = limit,
    .cancel = packet_ep_cancel,
    .tx_used = packet_ep_tx_used,
    .rx_used = packet_ep_rx_used,
    .enable = enable,
    .close = close_ep,
    .options = options,
};

static void take_av_changes(struct packet_ep *up)
{
    mrail_peers_take_changes(mrail_ep_of_packets(up));
}

static void run(struct packet_ep *up)
{
    mrail_run(mrail_ep_of_packets(up));
}

static const struct packet_ep_ops packet_ops = {
    .send = mrail_send,
    .take_av_changes = take_av_changes,
    .run = run,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = ep_setname,
    .getname = ep_getname,
    NO_CM_CONNECTION,
};

static void init_base(struct mrail_ep *ep, struct fi_info *info, void *context)
{
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &ep->domain->base,
        .caps = caps_expand(info->caps ? info->caps : FI_MSG) & ~FI_MULTI_RECV,
        .context = context,
        .size = MRAIL_SIZE,
    };

    packet_ep_init(&ep->up, &packet_ops, &attr, info);
    if (ep->domain->reads) {
        ep->up.base.caps |= attr.caps & (FI_RMA | FI_READ | FI_REMOTE_READ);
        ep->up.base.base.groups |= OP_GROUP_RMA;
    }
    ep->up.fid.cm = &cm_ops;
    mrail_short_init(ep);
    ep->up.segments = RECV_QUEUE_IOV;
}

static void init_config(struct mrail_ep *ep, const struct params *params)
{
    char why[200];

    ep->config = (struct flow_config){
        .rail_timeout = (uint64_t)params_time_ms(params, "rail_timeout") * NS_OF_MS,
        .patience = (uint64_t)params_time_ms(params, "patience") * NS_OF_MS,
        .ack_delay = ACK_DELAY_NS,
        .packet = (uint32_t)ep->up.info->ep_attr->max_msg_size,
        .small = (uint32_t)params_size(params, "small"),
        .transmit = mrail_transmit,
        .deliver = mrail_deliver,
        .done = mrail_done,
        .turned = mrail_turned,
        .stripe = mrail_stripe,
        .stripe_put = mrail_stripe_put,
        .stripe_post = mrail_stripe_post,
        .abandon = mrail_abandon,
        .read_done = mrail_read_done,
        .ended = mrail_ended,
    };
    mrail_policy_read(params_string(params, "policy"), ep->policies, &ep->config.policy_count, why,
                      sizeof(why)); /* it was checked */
    ep->config.policies = ep->policies;
    ep->up.saved_most = (size_t)params_int(params, "saved");
    ep->strangers_most = (size_t)params_int(params, "strangers");
    ep->up.copy_size = ep->up.info->tx_attr->inject_size;
    if (ep->up.copy_size > MRAIL_INJECT || !ep->up.copy_size)
        ep->up.copy_size = MRAIL_INJECT;
    pool_init(&ep->up.sends, sizeof(struct mrail_send), ep->up.base.tx_size);
    pool_init(&ep->copies, ep->up.copy_size, 0);
    mrail_reads_init(ep);
}

/* The nearest to our CPUs first, else as they are written. Processes of a node begin with different
 * ones of those that are as near as the first. */
static void order_rails(struct mrail_ep *ep)
{
    unsigned far[MRAIL_RAILS], same = 0;
    uint8_t *order = ep->config.order;

    for (unsigned i = 0; i < ep->count; i++) {
        const char *name = ep->domain->rail[i].info->domain_attr->name;
        unsigned at = i, own = name ? near_distance(name) : 0;

        for (; at && far[at - 1] > own; at--) {
            far[at] = far[at - 1];
            order[at] = order[at - 1];
        }
        far[at] = own;
        order[at] = (uint8_t)i;
    }
    while (same < ep->count && far[same] == far[0])
        same++;
    ep->config.first = order[same > 1 ? node_turn() % same : 0];
    for (unsigned i = 0; i < same; i++)
        ep->config.near |= 1U << order[i];
}

static int open_parts(struct mrail_ep *ep)
{
    int rc = 0;

    init_config(ep, ep->domain->fabric->plain.params);
    ep->name_size = ep->domain->addr_size;
    ids_init(&ep->numbers, INDEX_BITS, 32);
    if (ids_add(&ep->numbers, ep) == IDS_NONE) /* 0 is no peer's number */
        return -FI_ENOMEM;
    for (unsigned i = 0; !rc && i < ep->domain->count; i++) {
        ep->count = i + 1;
        rc = mrail_way_open(ep, i);
    }
    if (!rc)
        order_rails(ep);
    return rc;
}

int mrail_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret_ep,
                  void *context)
{
    struct mrail_domain *domain = mrail_domain_of(fid);
    struct mrail_ep *ep = calloc(1, sizeof(*ep));
    int rc;

    if (!ep)
        return -FI_ENOMEM;
    info = fabric_info(&domain->fabric->base, info);
    if (!info) {
        free(ep);
        return -FI_ENOMEM;
    }
    ep->domain = domain;
    list_init(&ep->late);
    init_base(ep, info, context);
    mrail_links_init(ep);
    rc = open_parts(ep);
    if (rc) {
        close_ep(&ep->up.base);
        return rc;
    }
    *ret_ep = &ep->up.fid;
    return 0;
}
