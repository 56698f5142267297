/* SPDX-License-Identifier: BSD-2-Clause */
/* The endpoint of the lower: opening it, its receives, its completions, what the network says. */
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "layers/arq/arq_ep.h"

enum {
    EVENTS = 16,             /* read at once */
    CHUNK_DATAGRAMS = 64,    /* in a chunk, within bounds: a read of many has 64 KiB (UDP_GRO) */
    CHUNK_REST = 64 << 10,   /* of a chunk, not used: what a read may bring fits what is left */
    CHUNK_LEAST = 128 << 10, /* without the rest */
    CHUNK_MOST = 512 << 10,
    DATAGRAM_COST = 1024, /* bytes that it takes in a kernel's buffer beside its own, or so */
    CALM = 16384,         /* packets, each read soon after it came, until they need not be timed */
    LATE = 64,            /* as many that were make up for a look that came late, */
    WAITED = 32,     /* looks after it, each with a packet, that may find what came before it */
    RUSH = 8 * LATE, /* and so many such looks make packets be timed */
    ECT_0 = 2,       /* RFC 3168: the sender understands congestion marks */
};

#define GAP_NS UINT64_C(50000) /* between two reads: what came may have waited for long */

/* ---- What it completes ---- */

static struct arq_ep *ep_of(struct fid_peer_cq *sink)
{
    return object_of(sink, struct arq_ep, lower.sink);
}

static struct arq_buffer *buffer_of(struct arq_context *context)
{
    return object_of(context, struct arq_buffer, base);
}

static void put_unused(struct arq_ep *ep, struct arq_chunk *chunk)
{
    if (!chunk->posted && !chunk->held)
        mr_pool_put(&ep->chunks, chunk);
}

void arq_lower_put(struct arq_ep *ep, struct arq_buffer *buffer)
{
    struct arq_chunk *chunk = buffer->chunk;

    if (!chunk) {
        mr_pool_put(&ep->buffers, buffer);
        return;
    }
    pool_put(&ep->arrivals, buffer);
    chunk->held--;
    put_unused(ep, chunk);
}

/* A datagram at buf, or (NULL) no more than the end of the chunk. NULL, too, without memory: then
 * it is lost. */
static struct arq_buffer *in_chunk(struct arq_ep *ep, struct arq_chunk *chunk, uint64_t flags,
                                   const void *buf)
{
    struct arq_buffer *buffer = buf ? pool_get(&ep->arrivals) : NULL;

    if (flags & FI_MULTI_RECV) {
        chunk->posted = false;
        ep->fed--;
    }
    if (!buffer) {
        put_unused(ep, chunk);
        return NULL;
    }
    chunk->held++;
    buffer->chunk = chunk;
    buffer->packet = buf;
    list_init(&buffer->link);
    return buffer;
}

static struct arq_buffer *arrival(struct arq_ep *ep, struct arq_context *context, uint64_t flags,
                                  const void *buf)
{
    if (ep->lower.chunk)
        return in_chunk(ep, object_of(context, struct arq_chunk, base), flags, buf);
    ep->fed--;
    return buffer_of(context);
}

static void received(struct arq_ep *ep, struct arq_buffer *buffer, size_t len, uint64_t data,
                     fi_addr_t src)
{
    buffer->len = len > ep->lower.prefix ? len - ep->lower.prefix : 0;
    buffer->segment = 0;
    buffer->note = ep->lower.notes ? data : 0;
    buffer->src = src;
    list_attach(&buffer->link, &ep->up.arrived);
}

static ssize_t sink_write(struct fid_peer_cq *sink, void *op_context, uint64_t flags, size_t len,
                          void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct arq_ep *ep = ep_of(sink);
    struct arq_context *context = op_context;
    struct arq_buffer *buffer;

    if (!context)
        return 0;
    if (!context->receives) {
        arq_head_done(ep, object_of(context, struct arq_head, base));
        return 0;
    }
    buffer = arrival(ep, context, flags, buf);
    if (!buffer)
        return 0;
    buffer->from.len = 0;
    received(ep, buffer, len, data, src);
    return 0;
}

/* A datagram of a stranger comes as an error with its address; a send that fails is a packet that
 * is lost. */
static ssize_t sink_writeerr(struct fid_peer_cq *sink, const struct fi_cq_err_entry *error)
{
    struct arq_ep *ep = ep_of(sink);
    struct arq_context *context = error->op_context;
    struct arq_buffer *buffer;

    if (!context)
        return 0;
    if (!context->receives) {
        arq_head_done(ep, object_of(context, struct arq_head, base));
        return 0;
    }
    buffer = arrival(ep, context, error->flags, error->buf);
    if (!buffer)
        return 0;
    buffer->from.len = 0;
    if (error->err == FI_EADDRNOTAVAIL && error->err_data)
        arq_addr_take(ep->lower.format, error->err_data, error->err_data_size, &buffer->from);
    if (error->err == FI_EADDRNOTAVAIL)
        received(ep, buffer, error->len, error->data, FI_ADDR_NOTAVAIL);
    else
        arq_lower_put(ep, buffer);
    return 0;
}

void arq_lower_came(void *arg, void *context, uint64_t flags, const struct train *train,
                    uint64_t notes)
{
    struct arq_ep *ep = arg;
    struct arq_buffer *buffer = arrival(ep, context, flags, train->bytes);

    if (!buffer)
        return;
    buffer->from.len = 0;
    received(ep, buffer, train->len, notes, train->peer);
    buffer->segment = train->segment;
}

static struct fi_ops_cq_owner sink_ops = {
    .size = sizeof(sink_ops),
    .write = sink_write,
    .writeerr = sink_writeerr,
};

/* ---- Receives ---- */

static ssize_t post(struct arq_ep *ep, struct arq_context *context, void *bytes, size_t len)
{
    struct iovec iov = {.iov_base = bytes, .iov_len = len};
    struct op op = {
        .call = OP_RECVMSG,
        .group = OP_GROUP_RECV,
        .kind = FI_MSG | FI_RECV,
        .flags = FI_COMPLETION | (ep->lower.chunk ? FI_MULTI_RECV : 0),
        .peer = FI_ADDR_UNSPEC,
        .context = context,
        .iov = &iov,
        .desc = &context->buffer.desc,
        .count = 1,
        .len = len,
    };

    context->receives = true;
    return op_post(&ep->lower.target, &op);
}

static bool feed_chunk(struct arq_ep *ep)
{
    struct arq_chunk *chunk = mr_pool_get(&ep->chunks);

    if (!chunk)
        return false;
    chunk->posted = true;
    chunk->held = 0;
    if (!post(ep, &chunk->base, chunk->bytes, ep->lower.chunk))
        return true;
    mr_pool_put(&ep->chunks, chunk);
    return false;
}

static bool feed_buffer(struct arq_ep *ep)
{
    struct arq_buffer *buffer = mr_pool_get(&ep->buffers);

    if (!buffer)
        return false;
    buffer->chunk = NULL;
    buffer->packet = buffer->bytes + ep->lower.prefix;
    list_init(&buffer->link);
    if (!post(ep, &buffer->base, buffer->bytes, ep->lower.prefix + ep->lower.most))
        return true;
    mr_pool_put(&ep->buffers, buffer);
    return false;
}

void arq_lower_feed(struct arq_ep *ep)
{
    while (ep->fed < ep->feed) {
        if (!(ep->lower.chunk ? feed_chunk(ep) : feed_buffer(ep)))
            return;
        ep->fed++;
    }
}

/* ---- Addresses ---- */

fi_addr_t arq_lower_insert(struct arq_ep *ep, const struct arq_addr *addr)
{
    const void *text = addr->bytes;
    fi_addr_t lower;

    if (fi_av_insert(ep->lower.av, ep->lower.format == FI_ADDR_STR ? (const void *)&text : text, 1,
                     &lower, 0, NULL) != 1)
        return FI_ADDR_NOTAVAIL;
    return lower;
}

void arq_lower_forget(struct arq_ep *ep, fi_addr_t addr)
{
    if (addr != FI_ADDR_NOTAVAIL)
        fi_av_remove(ep->lower.av, &addr, 1, 0);
}

/* ---- What the network says ---- */

/* Anybody can forge it, so it is a hint. */
static void take_event(struct arq_ep *ep, const struct fi_eq_err_entry *entry, uint64_t now)
{
    list_for_each (pos, &ep->peers.links) {
        struct arq_link *link = list_item(pos, struct arq_link, all);

        if (!link->peer || link->peer->lower != (fi_addr_t)entry->data)
            continue;
        if (entry->err == FI_EMSGSIZE)
            session_limit_mtu(&link->session, (uint32_t)entry->prov_errno);
        else if (entry->err == FI_ECONNREFUSED)
            session_unreachable(&link->session, now);
        arq_ready(link);
        return;
    }
}

void arq_lower_read_events(struct arq_ep *ep, uint64_t now)
{
    for (int i = 0; ep->lower.eq && i < EVENTS; i++) {
        struct fi_eq_err_entry entry = {.err_data = NULL, .err_data_size = 0};
        struct fi_eq_entry unused;
        uint32_t event;

        if (fi_eq_read(ep->lower.eq, &event, &unused, sizeof(unused), 0) != -FI_EAVAIL ||
            fi_eq_readerr(ep->lower.eq, &entry, 0) < 0)
            return;
        take_event(ep, &entry, now);
    }
}

/* ---- Opening and closing ---- */

static size_t chunk_of(size_t wanted)
{
    size_t used = wanted < CHUNK_LEAST ? CHUNK_LEAST : wanted > CHUNK_MOST ? CHUNK_MOST : wanted;

    return used + CHUNK_REST;
}

static void read_info(struct arq_ep *ep)
{
    const struct fi_info *lower = ep->lower_info;
    struct arq_lower *to = &ep->lower;

    to->format = lower->addr_format;
    to->prefix = lower->mode & FI_MSG_PREFIX ? lower->ep_attr->msg_prefix_size : 0;
    to->most = lower->ep_attr->max_msg_size;
    to->inject = to->prefix ? 0 : lower->tx_attr->inject_size;
    to->segments = lower->tx_attr->iov_limit ? lower->tx_attr->iov_limit : 1;
    to->receives = lower->rx_attr->size ? lower->rx_attr->size : SIZE_MAX;
    if (lower->caps & FI_MULTI_RECV && !to->prefix)
        to->chunk = chunk_of(CHUNK_DATAGRAMS * to->most);
}

int arq_lower_open(struct arq_ep *ep)
{
    int rc = fi_endpoint(ep->domain->lower, ep->lower_info, &ep->lower.ep, ep);

    if (rc)
        return rc;
    read_info(ep);
    ep->lower.target = op_target_of(ep->lower.ep);
    ep->lower.sink.owner_ops = &sink_ops;
    fid_init(&ep->lower.sink.fid, FI_CLASS_PEER_CQ, ep, NULL);
    ep->lower.source.part = "arq";
    ep->lower.source.source.poll = arq_poll;
    ep->lower.source.source.trywait = arq_trywait;
    return 0;
}

/* They cost the kernel time for each packet, so only what is needed now. */
static bool ask_for_notes(struct arq_ep *ep)
{
    uint32_t notes = OPT_NOTES_WAITED | (ep->lower.marks ? OPT_NOTES_ECN : 0u) |
                     (ep->lower.timed ? OPT_NOTES_WAITED_EACH : 0u);

    return !fi_setopt(&ep->lower.ep->fid, FI_OPT_ENDPOINT, OPT_NOTES, &notes, sizeof(notes));
}

void arq_lower_watch_marks(struct arq_ep *ep)
{
    if (!ep->lower.notes || ep->lower.marks)
        return;
    ep->lower.marks = true;
    ask_for_notes(ep);
}

/* To be timed costs each packet the kernel's time, so a thread that loses its core now and then has
 * packets that tell nothing instead, and one that looks late as a rule has all of them timed. */
void arq_lower_note_gap(struct arq_ep *ep, uint64_t gap)
{
    struct arq_lower *lower = &ep->lower;
    bool late = gap > GAP_NS;

    if (!lower->notes)
        return;
    if (late)
        lower->waited = WAITED;
    else if (lower->waited)
        lower->waited--;
    lower->late = lower->waited && !lower->timed;
    lower->calm = late ? 0 : lower->calm + 1;
    if (late)
        lower->rush += lower->rush < RUSH ? LATE : 0;
    else if (lower->rush)
        lower->rush--;
    if (late ? lower->timed || lower->rush < RUSH : !lower->timed || lower->calm < CALM)
        return;
    lower->timed = late;
    ask_for_notes(ep);
}

/* Options that the lower does not know do no harm. */
static void set_options(struct arq_ep *ep)
{
    struct fid *fid = &ep->lower.ep->fid;
    uint32_t probes = OPT_FRAGMENTS_PROBE, ecn = ECT_0;
    size_t rest = ep->lower.most > CHUNK_REST ? ep->lower.most : CHUNK_REST;

    if (ep->lower.chunk)
        fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &rest, sizeof(rest));
    fi_setopt(fid, FI_OPT_ENDPOINT, OPT_FRAGMENTS, &probes, sizeof(probes));
    ep->lower.notes = ask_for_notes(ep);
    if (ep->config.congestion != &congestion_ecn)
        return;
    arq_lower_watch_marks(ep);
    ep->config.marks =
        ep->lower.marks && !fi_setopt(fid, FI_OPT_ENDPOINT, OPT_ECN, &ecn, sizeof(ecn));
    if (!ep->lower.marks)
        LOG_WARN("arq", FI_LOG_EP_CTRL,
                 "cc=ecn: the lower does not tell of congestion marks, so only loss is answered");
}

/* An event queue is of use, and not needed. */
static void bind_events(struct arq_ep *ep)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct fid_fabric *fabric = ep->domain->fabric->lower->fabric;

    if (ep->lower.eq || fi_eq_open(fabric, &attr, &ep->lower.eq, ep))
        return;
    if (!fi_ep_bind(ep->lower.ep, &ep->lower.eq->fid, 0))
        return;
    fi_close(&ep->lower.eq->fid);
    ep->lower.eq = NULL;
}

static int open_queue(struct arq_ep *ep)
{
    struct arq_lower *lower = &ep->lower;
    struct fid *cq;
    int rc;

    if (lower->source.cq)
        return 0;
    rc = lower_source_open(&lower->source, ep->domain->fabric->lower, ep->domain->lower, 0,
                           &lower->sink, ep->up.base.binding.progress);
    if (rc)
        return rc;
    cq = &lower_cq_fid(lower->source.cq)->fid;
    rc = fi_ep_bind(lower->ep, cq, FI_TRANSMIT | FI_SELECTIVE_COMPLETION);
    return rc ? rc : fi_ep_bind(lower->ep, cq, FI_RECV);
}

static int open_addresses(struct arq_ep *ep)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    int rc;

    if (ep->lower.av)
        return 0;
    rc = fi_av_open(ep->domain->lower, &attr, &ep->lower.av, ep);
    return rc ? rc : fi_ep_bind(ep->lower.ep, &ep->lower.av->fid, 0);
}

/* Some of its receives are for packets that are no messages. */
static size_t held_by_lower(const struct arq_ep *ep)
{
    size_t each = ep->lower.chunk ? (ep->lower.chunk - CHUNK_REST) / ep->lower.most : 1;
    size_t receives = each * ep->feed - each * ep->feed / 4, kept = 0, len = sizeof(kept);

    if (fi_getopt(&ep->lower.ep->fid, FI_OPT_ENDPOINT, OPT_KEPT, &kept, &len))
        return receives;
    return receives + kept / (ep->lower.most + DATAGRAM_COST);
}

int arq_lower_enable(struct arq_ep *ep)
{
    int rc = open_addresses(ep);

    if (!rc)
        rc = open_queue(ep);
    if (rc)
        return rc;
    bind_events(ep);
    set_options(ep);
    arq_trains_open(ep);
    ep->lower.holds = held_by_lower(ep);
    return fi_enable(ep->lower.ep);
}

void arq_lower_name(struct arq_ep *ep)
{
    _Alignas(union addr) uint8_t raw[ARQ_ADDR_MAX];
    size_t len = sizeof(raw);

    if (fi_getname(&ep->lower.ep->fid, raw, &len) || len > sizeof(raw) ||
        !arq_addr_take(ep->lower.format, raw, len, &ep->self))
        return;
    ep->config.name = ep->self.bytes;
    ep->config.name_len = ep->self.len;
}

void arq_lower_close(struct arq_ep *ep)
{
    if (ep->lower.ep)
        fi_close(&ep->lower.ep->fid);
    if (ep->lower.eq)
        fi_close(&ep->lower.eq->fid);
    if (ep->lower.av)
        fi_close(&ep->lower.av->fid);
    if (ep->up.base.binding.progress)
        lower_source_close(&ep->lower.source, ep->up.base.binding.progress);
}
