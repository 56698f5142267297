/* SPDX-License-Identifier: BSD-2-Clause */
/* The endpoint of one rail: opening it, its receives, its completions. */
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "layers/mrail/mrail_ep.h"

enum {
    FEED_BATCH = 8 /* receives that are posted together */
};

/* ---- What it completes ---- */

static struct mrail_way *way_of(struct fid_peer_cq *sink)
{
    return object_of(sink, struct mrail_way, sink);
}

void mrail_packet_put(struct mrail_packet *packet)
{
    mr_pool_put(packet->pool, packet);
}

/* A stripe has ended: its flow is told when it is run. */
static void arrive(struct mrail_packet *packet)
{
    list_detach(&packet->link);
    list_attach(&packet->link, &packet->ep->up.arrived);
}

static ssize_t sink_write(struct fid_peer_cq *sink, void *context, uint64_t flags, size_t len,
                          void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct mrail_packet *packet = context;

    if (!packet)
        return 0;
    way_of(sink)->completed++;
    if (!packet->receives) {
        way_of(sink)->sending--;
        if (packet->stripe)
            arrive(packet);
        else
            mrail_packet_put(packet);
        return 0;
    }
    way_of(sink)->fed--;
    packet->len = len;
    packet->src = src < MRAIL_NO_ADDR ? (uint32_t)src : MRAIL_NO_ADDR;
    if (__builtin_expect(packet->ep->closing && !packet->ep->driven, 0))
        mrail_packet_put(packet); /* the rails are being closed, and their memory goes one by one */
    else
        list_attach(&packet->link, &packet->ep->up.arrived);
    return 0;
}

/* A packet that could not be sent says something of the rail to that peer. */
static void note_failure(struct mrail_ep *ep, const struct mrail_packet *packet, int err)
{
    struct mrail_peer *peer = packet->peer ? ids_find(&ep->numbers, packet->peer) : NULL;
    struct mrail_session *session = peer && !ep->closing ? mrail_session_wake(ep, peer) : NULL;

    if (!session)
        return;
    session->failed[packet->rail] = err;
    mrail_ready(session);
}

static ssize_t sink_writeerr(struct fid_peer_cq *sink, const struct fi_cq_err_entry *error)
{
    struct mrail_packet *packet = error->op_context;

    if (!packet)
        return 0;
    way_of(sink)->completed++;
    if (packet->receives) {
        way_of(sink)->fed--;
    } else if (packet->stripe) {
        way_of(sink)->sending--;
        packet->err = error->err ? error->err : FI_EIO;
        arrive(packet);
        return 0;
    } else {
        way_of(sink)->sending--;
        note_failure(packet->ep, packet, error->err ? error->err : FI_EIO);
    }
    mrail_packet_put(packet);
    return 0;
}

static struct fi_ops_cq_owner sink_ops = {
    .size = sizeof(sink_ops),
    .write = sink_write,
    .writeerr = sink_writeerr,
};

/* ---- Posting ---- */

/* A send with flags; others go by the rail's short ways, fi_send and fi_inject. */
static ssize_t send_flagged(struct mrail_way *way, struct mrail_packet *packet, fi_addr_t to,
                            uint64_t flags)
{
    struct iovec iov = {.iov_base = packet->bytes + packet->at, .iov_len = packet->len};
    struct op op = {
        .call = OP_SENDMSG,
        .group = OP_GROUP_SEND,
        .kind = FI_MSG | FI_SEND,
        .flags = FI_COMPLETION | flags,
        .peer = to,
        .context = packet,
        .iov = &iov,
        .desc = &packet->buffer.desc,
        .count = 1,
        .len = iov.iov_len,
    };

    return op_post(&way->target, &op);
}

static ssize_t send_plain(struct mrail_way *way, struct mrail_packet *packet, fi_addr_t to)
{
    return fi_send(way->fid, packet->bytes + packet->at, packet->len, packet->buffer.desc, to,
                   packet);
}

ssize_t mrail_way_send(struct mrail_way *way, struct mrail_packet *packet, fi_addr_t to,
                       uint64_t flags)
{
    ssize_t rc;

    silence_end(&way->silence);
    if (!flags && packet->len <= way->inject) {
        rc = fi_inject(way->fid, packet->bytes + packet->at, packet->len, to);
        if (!rc)
            mrail_packet_put(packet);
        return rc;
    }
    way->sending++;
    rc = flags & FI_TRANSMIT_COMPLETE ? send_flagged(way, packet, to, FI_TRANSMIT_COMPLETE)
                                      : send_plain(way, packet, to);
    if (rc == -FI_EOPNOTSUPP && flags & FI_TRANSMIT_COMPLETE)
        rc = send_plain(way, packet, to);
    if (rc)
        way->sending--;
    return rc;
}

void mrail_way_feed(struct mrail_way *way)
{
    while (way->fed < way->feed) {
        struct mrail_packet *packet = mr_pool_get(&way->receives);
        struct ep_receive receive;

        if (!packet)
            return;
        packet->ep = way->ep;
        packet->pool = &way->receives;
        packet->stripe = false;
        packet->rail = (uint8_t)(way - way->ep->way);
        packet->receives = true;
        packet->at = 0;
        packet->len = MRAIL_HEAD_MAX + way->ep->config.packet;
        list_init(&packet->link);
        receive = (struct ep_receive){.buf = packet->bytes,
                                      .desc = packet->buffer.desc,
                                      .context = packet,
                                      .len = packet->len};
        if (op_receive_one(&way->target, &receive)) {
            mrail_packet_put(packet);
            return;
        }
        way->fed++;
    }
}

/* ---- Opening and closing ---- */

int mrail_way_open(struct mrail_ep *ep, unsigned rail)
{
    const struct mrail_rail *below = &ep->domain->rail[rail];
    const struct params *params = ep->domain->fabric->plain.params;
    struct mrail_way *way = &ep->way[rail];
    struct fid_domain *domain;
    size_t whole = MRAIL_HEAD_MAX + ep->config.packet, most = below->info->rx_attr->size;
    int rc = fi_domain(below->lower->fabric, below->info, &way->domain, ep);

    way->ep = ep;
    if (!rc)
        rc = fi_endpoint(way->domain, below->info, &way->fid, ep);
    if (rc)
        return rc;
    domain = info_mr_bits(below->info) & FI_MR_LOCAL ? way->domain : NULL;
    way->target = op_target_of(way->fid);
    way->sink.owner_ops = &sink_ops;
    fid_init(&way->sink.fid, FI_CLASS_PEER_CQ, way, NULL);
    way->source.part = "mrail";
    way->source.source.poll = mrail_poll;
    way->source.source.trywait = mrail_trywait;
    way->inject = below->info->tx_attr->inject_size;
    way->feed = (size_t)params_int(params, "buffers");
    if (most && way->feed > most)
        way->feed = most;
    way->feed_batch = way->feed / 4 < FEED_BATCH ? way->feed / 4 + !(way->feed / 4) : FEED_BATCH;
    mr_pool_init(&way->heads, "mrail", domain, sizeof(struct mrail_packet) + MRAIL_HEAD_ROOM, 16,
                 256);
    mr_pool_init(&way->wholes, "mrail", domain, sizeof(struct mrail_packet) + whole, 4, 64);
    mr_pool_init(&way->receives, "mrail", domain, sizeof(struct mrail_packet) + whole,
                 (unsigned)way->feed, 64);
    return 0;
}

static int open_queue(struct mrail_way *way)
{
    const struct mrail_rail *below = &way->ep->domain->rail[way - way->ep->way];
    struct fid *cq;
    int rc;

    if (way->source.cq)
        return 0;
    rc = lower_source_open(&way->source, below->lower, way->domain, 0, &way->sink,
                           way->ep->up.base.binding.progress);
    if (rc)
        return rc;
    cq = &lower_cq_fid(way->source.cq)->fid;
    return fi_ep_bind(way->fid, cq, FI_TRANSMIT | FI_RECV);
}

int mrail_way_enable(struct mrail_way *way)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    int rc = 0;

    if (!way->av) {
        rc = fi_av_open(way->domain, &attr, &way->av, way);
        if (!rc)
            rc = fi_ep_bind(way->fid, &way->av->fid, 0);
    }
    if (!rc)
        rc = open_queue(way);
    return rc ? rc : fi_enable(way->fid);
}

void mrail_way_close(struct mrail_way *way)
{
    if (way->reader)
        fi_close(&way->reader->fid);
    info_free(way->reader_info);
    if (way->fid)
        fi_close(&way->fid->fid);
    if (way->av)
        fi_close(&way->av->fid);
    if (way->ep->up.base.binding.progress)
        lower_source_close(&way->source, way->ep->up.base.binding.progress);
    mr_pool_finish(&way->heads);
    mr_pool_finish(&way->wholes);
    mr_pool_finish(&way->receives);
    if (way->domain)
        fi_close(&way->domain->fid);
}
