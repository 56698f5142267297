/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads of peers' memory, where all rails have them: the flow cuts them in stripes, and the reader
 * of each rail fetches those, a second endpoint that no peer knows an address of. It can be closed
 * alone, when the rail is dead, and opened anew: so a stripe can be fetched by another rail and no
 * late byte of the dead one lands.
 *
 * Where all rails take the key that is asked for, a region has the join's on each. Else a reader
 * asks the peer, once for each read (mrail_keys.h).
 */
#include <netinet/in.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "core/base/clock.h"
#include "core/info/info.h"
#include "layers/mrail/mrail_ep.h"
#include "layers/mrail/mrail_keys.h"

/* An operation of the upper's. */
struct mrail_read {
    struct flow_read read;
    struct mrail_session *session;
    void *context;
    bool wanted; /* a completion is */
    uint32_t id; /* of the question for keys */
    uint8_t *to;
    uint64_t addr;
    uint64_t keys[MRAIL_RAILS];        /* of the peer's region, on our rails */
    struct fid_mr *local[MRAIL_RAILS]; /* what is written to, where a rail wants that */
};

static struct mrail_read *read_of(struct flow_read *read)
{
    return object_of(read, struct mrail_read, read);
}

/* A stripe lies in its packet. */
static struct mrail_packet *packet_of(struct flow_stripe *stripe)
{
    return object_of((uint8_t(*)[])stripe, struct mrail_packet, bytes);
}

static struct flow_stripe *stripe_of(struct mrail_packet *packet)
{
    return (struct flow_stripe *)(void *)packet->bytes;
}

/* ---- Readers ---- */

/* The reader's address is of no concern: it has a port of its own. */
static int forget_port(struct fi_info *info)
{
    struct sockaddr *addr = info->src_addr;

    if (addr && info->addr_format == FI_SOCKADDR_IN &&
        info->src_addrlen >= sizeof(struct sockaddr_in))
        ((struct sockaddr_in *)(void *)addr)->sin_port = 0;
    else if (addr && info->addr_format == FI_SOCKADDR_IN6 &&
             info->src_addrlen >= sizeof(struct sockaddr_in6))
        ((struct sockaddr_in6 *)(void *)addr)->sin6_port = 0;
    else
        return info_set_src(info, NULL, 0);
    return 0;
}

static void close_reader(struct mrail_way *way)
{
    const uint32_t none = 0;

    if (!way->reader)
        return;
    fi_setopt(&way->reader->fid, FI_OPT_ENDPOINT, OPT_CLOSE_WAIT, &none, sizeof(none));
    fi_close(&way->reader->fid);
    way->reader = NULL;
    info_free(way->reader_info);
    way->reader_info = NULL;
}

static int open_reader(struct mrail_way *way)
{
    const struct mrail_rail *below = &way->ep->domain->rail[way - way->ep->way];
    int rc;

    if (way->reader)
        return 0;
    way->reader_info = info_dup(below->info);
    rc = way->reader_info ? forget_port(way->reader_info) : -FI_ENOMEM;
    if (!rc)
        rc = fi_endpoint(way->domain, way->reader_info, &way->reader, way->ep);
    if (!rc)
        rc = fi_ep_bind(way->reader, &way->av->fid, 0);
    if (!rc)
        rc = fi_ep_bind(way->reader, &lower_cq_fid(way->source.cq)->fid, FI_TRANSMIT | FI_RECV);
    if (!rc)
        rc = fi_enable(way->reader);
    if (!rc) {
        way->reader_target = op_target_of(way->reader);
        return 0;
    }
    close_reader(way);
    info_free(way->reader_info);
    way->reader_info = NULL;
    return rc;
}

/* The lower is through with it, one way or another: what it had is the flow's. */
static void drop_reading(struct mrail_way *way)
{
    while (!list_empty(&way->reading)) {
        list_detach(way->reading.next);
        way->sending--;
    }
}

static void rail_closed(struct mrail_ep *ep, unsigned rail)
{
    for (size_t i = 0; i < MRAIL_BUCKETS; i++) {
        for (struct mrail_peer *peer = ep->buckets[i]; peer; peer = peer->next) {
            struct mrail_session *session = mrail_session_of(peer);

            if (!session || list_empty(&session->flow.reads))
                continue;
            flow_rail_closed(&session->flow, rail);
            mrail_ready(session);
        }
    }
}

/* The queue of a lower that is not ours may still hold completions of it: they are read before the
 * packets are used again. */
static void abandon(struct mrail_ep *ep, unsigned rail, uint64_t now)
{
    struct mrail_way *way = &ep->way[rail];

    way->abandoned = false;
    close_reader(way);
    lower_cq_progress(way->source.cq);
    drop_reading(way);
    mrail_take_arrived(ep, now); /* those that ended before */
    rail_closed(ep, rail);
}

void mrail_reads_abandon(struct mrail_ep *ep, uint64_t now)
{
    ep->abandons = false;
    for (unsigned i = 0; i < ep->count; i++) {
        if (ep->way[i].abandoned)
            abandon(ep, i, now);
    }
}

void mrail_reads_finish(struct mrail_ep *ep)
{
    for (unsigned i = 0; i < ep->count; i++) {
        if (ep->way[i].reader)
            abandon(ep, i, clock_ns());
    }
    for (size_t i = 0; i < MRAIL_BUCKETS; i++) {
        for (struct mrail_peer *peer = ep->buckets[i]; peer; peer = peer->next) {
            struct mrail_session *session = mrail_session_of(peer);

            if (session)
                stripes_end(&session->flow, FI_ECANCELED);
        }
    }
}

/* ---- Of the flow's config ---- */

struct flow_stripe *mrail_stripe(struct flow *flow)
{
    struct mrail_ep *ep = mrail_session_of_flow(flow)->ep;
    struct mrail_packet *packet = mr_pool_get(&ep->stripes);

    if (!packet)
        return NULL;
    packet->ep = ep;
    packet->pool = &ep->stripes;
    packet->stripe = true;
    packet->receives = false;
    packet->peer = 0;
    packet->err = 0;
    list_init(&packet->link);
    return stripe_of(packet);
}

void mrail_stripe_put(struct flow *flow, struct flow_stripe *stripe)
{
    mrail_packet_put(packet_of(stripe));
}

/* Registers what is written to, where the rail wants that. */
static int local_desc(struct mrail_way *way, struct mrail_read *read, unsigned rail, void **desc)
{
    int rc = 0;

    *desc = NULL;
    if (!(info_mr_bits(way->ep->domain->rail[rail].info) & FI_MR_LOCAL))
        return 0;
    if (!read->local[rail])
        rc = fi_mr_reg(way->domain, read->to, read->read.len, FI_READ, 0, ++way->last_key, 0,
                       &read->local[rail], NULL);
    if (!rc)
        *desc = fi_mr_desc(read->local[rail]);
    return rc;
}

static ssize_t post(struct mrail_way *way, struct mrail_packet *packet, unsigned rail, void *desc)
{
    const struct flow_stripe *stripe = stripe_of(packet);
    const struct mrail_read *read = read_of(stripe->read);
    const struct fi_rma_iov from = {
        .addr = read->addr + stripe->at, .len = stripe->message.len, .key = read->keys[rail]};
    const struct iovec to = {.iov_base = read->to + stripe->at, .iov_len = stripe->message.len};
    struct op op = {
        .call = OP_READMSG,
        .group = OP_GROUP_RMA,
        .kind = FI_RMA | FI_READ,
        .flags = FI_COMPLETION,
        .peer = read->session->peer->rail[rail].lower,
        .context = packet,
        .iov = &to,
        .desc = &desc,
        .count = 1,
        .len = to.iov_len,
        .rma = &from,
        .rma_count = 1,
    };

    return op_post(&way->reader_target, &op);
}

int mrail_stripe_post(struct flow *flow, unsigned rail, struct flow_stripe *stripe)
{
    struct mrail_ep *ep = mrail_session_of_flow(flow)->ep;
    struct mrail_way *way = &ep->way[rail];
    struct mrail_packet *packet = packet_of(stripe);
    void *desc;
    ssize_t rc = open_reader(way);

    if (!rc)
        rc = local_desc(way, read_of(stripe->read), rail, &desc);
    if (rc)
        return (int)rc;
    packet->rail = (uint8_t)rail;
    packet->err = 0;
    silence_end(&way->silence);
    list_attach(&packet->link, &way->reading);
    way->sending++;
    rc = post(way, packet, rail, desc);
    if (!rc)
        return 0;
    list_detach(&packet->link);
    way->sending--;
    return rc == -FI_ENOMEM ? -FI_EAGAIN : (int)rc;
}

void mrail_abandon(struct flow *flow, unsigned rail)
{
    struct mrail_ep *ep = mrail_session_of_flow(flow)->ep;

    ep->way[rail].abandoned = ep->abandons = true;
}

void mrail_read_done(struct flow *flow, struct flow_read *base, int err)
{
    struct mrail_ep *ep = mrail_session_of_flow(flow)->ep;
    struct mrail_read *read = read_of(base);
    struct fi_cq_err_entry entry = {
        .op_context = read->context,
        .flags = FI_RMA | FI_READ,
        .err = err,
        .prov_errno = err,
        .src_addr = FI_ADDR_NOTAVAIL,
    };
    bool wanted = read->wanted;

    for (unsigned i = 0; i < ep->count; i++) {
        if (read->local[i])
            fi_close(&read->local[i]->fid);
    }
    pool_put(&ep->reads, read);
    if (ep->closing)
        return; /* fi_close writes no completion: the upper may have let go of the context */
    if (err)
        complete_error(&ep->up.base.binding, BIND_READ, &entry);
    else
        complete(&ep->up.base.binding, BIND_READ, wanted, entry.op_context, entry.flags, 0, NULL, 0,
                 0, FI_ADDR_NOTAVAIL);
}

void mrail_stripe_came(struct mrail_packet *packet, uint64_t now)
{
    struct flow_stripe *stripe = stripe_of(packet);
    struct mrail_session *session = read_of(stripe->read)->session;

    flow_stripe_done(&session->flow, stripe, packet->err, now);
    mrail_ready(session);
}

/* ---- Keys ---- */

static unsigned all_rails(const struct mrail_read *read)
{
    const struct mrail_ep *ep = read->session->ep;
    unsigned rails = 0;

    for (unsigned i = 0; i < ep->count; i++) {
        if (read->session->peer->rail[i].lower != MRAIL_NO_ADDR && read->keys[i] != FI_KEY_NOTAVAIL)
            rails |= 1U << i;
    }
    return rails;
}

static int find_keys(struct mrail_read *read, uint64_t key)
{
    struct mrail_ep *ep = read->session->ep;
    struct mrail_keys question = {.kind = MRAIL_ASKED, .id = read->id, .count = 1, .key = {key}};

    for (unsigned i = 0; i < ep->count; i++)
        read->keys[i] = key;
    if (!ep->domain->asks)
        return 0;
    return mrail_keys_send(read->session, &question);
}

/* The n-th of our rails meets another of the peer's, perhaps. */
static void take_keys(struct mrail_read *read, const struct mrail_keys *keys)
{
    const struct mrail_ep *ep = read->session->ep;
    struct mrail_addr addr;
    char why[200];

    for (unsigned i = 0; i < ep->count; i++)
        read->keys[i] = FI_KEY_NOTAVAIL;
    if (mrail_addr_decode(read->session->name, ep->name_size, &addr, why, sizeof(why)))
        keys = NULL; /* it was checked */
    for (unsigned i = 0; keys && i < ep->count; i++) {
        const struct mrail_addr_rail *theirs = mrail_addr_meets(&addr, ep->domain->kinds, i);
        size_t at = theirs ? (size_t)(theirs - addr.rail) : MRAIL_RAILS;

        if (at < keys->count)
            read->keys[i] = keys->key[at];
    }
    flow_read_known(&read->read, all_rails(read));
}

static void told(struct mrail_session *session, const struct mrail_keys *keys)
{
    list_for_each (pos, &session->flow.reads) {
        struct mrail_read *read = read_of(list_item(pos, struct flow_read, link));

        if (read->id != keys->id || read->read.known)
            continue;
        take_keys(read, keys);
        return;
    }
}

/* A question that there is no memory for the answer of is lost: the peer gives up. */
void mrail_keys_came(struct mrail_session *session, const uint8_t *bytes, size_t len)
{
    struct mrail_keys keys;
    const char *wrong = mrail_keys_get(bytes, len, &keys);

    if (wrong) {
        mrail_say_wrong(session->ep, wrong);
        return;
    }
    if (keys.kind == MRAIL_TOLD) {
        told(session, &keys);
        return;
    }
    keys.kind = MRAIL_TOLD;
    mrail_region_keys(session->ep, keys.key[0], &keys);
    mrail_keys_send(session, &keys);
}

/* ---- Posting ---- */

static ssize_t check(const struct mrail_ep *ep, const struct op *op)
{
    if (!ep->up.base.enabled)
        return -FI_EOPBADSTATE;
    if (!(op->kind & FI_READ) || !ep->domain->reads)
        return -FI_EOPNOTSUPP;
    if (op->count != 1 || op->rma_count != 1 || op->rma->len != op->len)
        return -FI_EINVAL;
    return 0;
}

static ssize_t start(struct mrail_ep *ep, const struct op *op)
{
    struct mrail_session *session;
    struct mrail_read *read;
    int rc = mrail_session_at(ep, op->peer, &session);

    if (rc)
        return rc;
    read = pool_get(&ep->reads);
    if (!read)
        return ep->reads.used >= ep->up.base.tx_size ? -FI_EAGAIN : -FI_ENOMEM;
    *read = (struct mrail_read){
        .session = session,
        .context = op->context,
        .wanted = packet_ep_wanted(&ep->up, op),
        .to = op->iov->iov_base,
        .addr = op->rma->addr,
        .id = ++ep->last_read,
    };
    rc = find_keys(read, op->rma->key);
    if (rc) {
        pool_put(&ep->reads, read);
        return rc;
    }
    flow_read_start(&session->flow, &read->read, op->len, ep->stripe_most, clock_ns());
    if (!ep->domain->asks)
        flow_read_known(&read->read, all_rails(read));
    mrail_ready(session);
    return 0;
}

ssize_t mrail_read_post(struct mrail_ep *ep, struct op *op)
{
    struct packet_ep *up = &ep->up;
    ssize_t rc = endpoint_settle(&up->base, op);

    if (!rc)
        rc = check(ep, op);
    if (rc)
        return rc;
    progress_lock(up->progress);
    if (progress_forked(up->progress))
        rc = -FI_EOPBADSTATE;
    if (!rc && av_watch_any(&up->watch))
        mrail_peers_take_changes(ep);
    if (!rc)
        rc = start(ep, op);
    if (!rc && !up->running)
        mrail_run(ep);
    if (up->top)
        progress_posted(up->progress);
    progress_unlock(up->progress);
    return rc;
}

/* ---- Stopping ---- */

static struct mrail_read *find_in(struct flow *flow, const void *context)
{
    list_for_each (pos, &flow->reads) {
        struct mrail_read *read = read_of(list_item(pos, struct flow_read, link));

        if (read->context == context)
            return read;
    }
    return NULL;
}

static struct mrail_read *find(const struct mrail_ep *ep, const void *context)
{
    struct mrail_read *read = NULL;

    for (size_t i = 0; i < MRAIL_BUCKETS && !read; i++) {
        for (struct mrail_peer *peer = ep->buckets[i]; peer && !read; peer = peer->next) {
            struct mrail_session *session = mrail_session_of(peer);

            read = session ? find_in(&session->flow, context) : NULL;
        }
    }
    return read;
}

int mrail_read_stop(struct endpoint *base, const void *value, size_t len)
{
    struct mrail_ep *ep = mrail_ep_of(base);
    void *const *context = value;
    struct mrail_read *read;

    if (!ep->domain->reads)
        return -FI_ENOPROTOOPT;
    if (len != sizeof(*context))
        return -FI_EINVAL;
    read = *context ? find(ep, *context) : NULL;
    if (!read)
        return 0;
    mrail_ready(read->session);
    flow_read_stop(&read->session->flow, &read->read);
    mrail_reads_abandon(ep, clock_ns());
    mrail_run(ep);
    return 0;
}

/* ---- Opening ---- */

static size_t most_of(struct mrail_way *way)
{
    const struct fi_info *info = way->ep->domain->rail[way - way->ep->way].info;
    size_t most = 0, size = sizeof(most);

    if (fi_getopt(&way->fid->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_RMA_SIZE, &most, &size) || !most)
        most = info->ep_attr->max_msg_size;
    return most;
}

void mrail_reads_enable(struct mrail_ep *ep)
{
    size_t least = FLOW_STRIPE_MOST;

    for (unsigned i = 0; i < ep->count; i++) {
        size_t most = most_of(&ep->way[i]);

        least = most < least ? most : least;
    }
    ep->stripe_most = least ? (uint32_t)least : 1;
}

void mrail_reads_init(struct mrail_ep *ep)
{
    list_init(&ep->regions);
    for (unsigned i = 0; i < MRAIL_RAILS; i++)
        list_init(&ep->way[i].reading);
    mr_pool_init(&ep->stripes, "mrail", NULL,
                 sizeof(struct mrail_packet) + sizeof(struct flow_stripe), 16, 256);
    pool_init(&ep->reads, sizeof(struct mrail_read), ep->up.base.tx_size);
}
