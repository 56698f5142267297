/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/msgproto/msgproto.h"

#include <stdlib.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "core/info/info.h"
#include "core/part/part.h"

enum {
    OPS_FIRST = 16,
    OPS_MOST = 256,
    PACKETS_FIRST = 2,
    PACKETS_MOST = 64,
    TX_SIZE = 1024,
    SEGMENTS = 8, /* of a message in pieces, where the lower says nothing */
    QUEUE_MAX = 1024,
};

/* ---- What the lower completes ---- */

static ssize_t sink_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                          void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct msgproto *msgproto = object_of(peer, struct msgproto, sink);
    struct rxm_context *mine = context;

    if (__builtin_expect(flags & FI_REMOTE_WRITE, 0))
        msgproto_written(msgproto, NULL, mine, flags, len, data);
    else
        mine->done(mine, len, NULL);
    return 0;
}

static ssize_t sink_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *error)
{
    struct rxm_context *mine = error->op_context;

    if (mine)
        mine->done(mine, 0, error);
    return 0;
}

static struct fi_ops_cq_owner sink_ops = {
    .size = sizeof(sink_ops),
    .write = sink_write,
    .writeerr = sink_writeerr,
};

/* ---- Opening and closing ---- */

/* A piece says its length in 16 bits. */
static void limit_segments(struct msgproto *msgproto, size_t limit)
{
    bool none = limit < msgproto->eager_limit || msgproto->eager_limit > UINT16_MAX;

    msgproto->segment_limit = none ? msgproto->eager_limit : limit;
}

/* Pieces cost about twice as much where each has a receive, and a credit, of its own. */
void msgproto_ask(struct msgproto *msgproto, struct fid_ep *ep)
{
    size_t size, len = sizeof(size);
    uint32_t plain = 1;

    /* 1.17 sends small messages in tags of tcp's, and receives that are posted have none. */
    if (msgproto->feed == RXM_FEED_POSTED)
        fi_setopt(&ep->fid, FI_OPT_ENDPOINT, OPT_TAGS_PLAIN, &plain, sizeof(plain));
    if (msgproto->limit_said)
        return;
    if (fi_getopt(&ep->fid, FI_OPT_ENDPOINT, OPT_FETCH_SIZE, &size, &len))
        size = SEGMENTS * msgproto->eager_limit;
    limit_segments(msgproto, msgproto->feed == RXM_FEED_POSTED ? size / 2 : size);
}

static void read_params(struct msgproto *msgproto, const struct params *params)
{
    size_t segments = params_size(params, "sar_limit");

    msgproto->eager_limit = params_size(params, "buffer_size");
    msgproto->limit_said = segments > 0;
    limit_segments(msgproto, segments ? segments : SEGMENTS * msgproto->eager_limit);
    msgproto->write_rndv = params_bool(params, "use_rndv_write");
    msgproto->saved_limit = params_size(params, "saved_size");
    msgproto->queue = (unsigned)params_int(params, "msg_rx_size");
}

static void read_lower(struct msgproto *msgproto, const struct rxm_ep *ep)
{
    const struct fi_info *info = ep->info, *lower = ep->lower_info;
    int mr = info_mr_bits(lower);
    size_t keys = lower->domain_attr->mr_key_size;

    msgproto->feed = lower->caps & FI_PEER && lower->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT
                         ? RXM_FEED_ASKED
                         : RXM_FEED_POSTED;
    msgproto->flow = msgproto->feed == RXM_FEED_POSTED ? RXM_FLOW_ON : RXM_FLOW_OFF;
    msgproto->lower_waits = lower->domain_attr->resource_mgmt == FI_RM_ENABLED;
    msgproto->local_mr = mr & FI_MR_LOCAL;
    msgproto->registers = msgproto->local_mr && !(info_mr_bits(info) & FI_MR_LOCAL);
    msgproto->inject = msgproto->local_mr ? msgproto->eager_limit : MSGPROTO_INJECT;
    msgproto->virt_addr = mr & FI_MR_VIRT_ADDR;
    msgproto->prov_key = mr & FI_MR_PROV_KEY;
    msgproto->in_turn =
        lower->caps & FI_PEER && ep->domain->fabric->lower->peer_traits & PEER_IN_TURN;
    msgproto->delivers = rxm_domain_delivers(ep->domain);
    msgproto->data_takes_receive = lower->mode & FI_RX_CQ_DATA;
    msgproto->mr_flags = MR_UNCOUNTED;
    msgproto->lower_inject = lower->tx_attr->inject_size;
    msgproto->lower_iov = lower->tx_attr->iov_limit;
    msgproto->lower_rma_iov = lower->tx_attr->rma_iov_limit;
    msgproto->lower_max = lower->ep_attr->max_msg_size;
    msgproto->key_mask =
        keys && keys < sizeof(uint64_t) ? (UINT64_C(1) << 8 * keys) - 1 : UINT64_MAX;
    if (msgproto->queue > lower->rx_attr->size && lower->rx_attr->size)
        msgproto->queue = (unsigned)lower->rx_attr->size;
    if (msgproto->queue > QUEUE_MAX)
        msgproto->queue = QUEUE_MAX;
}

int msgproto_open(struct rxm_ep *ep)
{
    struct msgproto *msgproto = calloc(1, sizeof(*msgproto));
    struct fid_domain *local;

    if (!msgproto)
        return -FI_ENOMEM;
    ep->msgproto = msgproto;
    msgproto->ep = ep;
    list_init(&msgproto->stalled);
    list_init(&msgproto->broken);
    list_init(&msgproto->held);
    read_params(msgproto, ep->domain->fabric->plain.params);
    read_lower(msgproto, ep);
    msgproto->limit = ep->info->tx_attr->size ? ep->info->tx_attr->size : TX_SIZE;
    msgproto->sink.owner_ops = &sink_ops;
    fid_init(&msgproto->sink.fid, FI_CLASS_PEER_CQ, msgproto, NULL);
    if (getrandom(&msgproto->key, sizeof(msgproto->key), GRND_NONBLOCK) != sizeof(msgproto->key) ||
        !msgproto->key)
        msgproto->key = ((uintptr_t)msgproto ^ (uint64_t)clock_ms() << 32) | 1;
    local = msgproto->local_mr ? ep->domain->lower : NULL;
    mr_pool_init(&msgproto->ops, "rxm", local, sizeof(struct rxm_op), OPS_FIRST, OPS_MOST);
    mr_pool_init(&msgproto->packets, "rxm", local,
                 sizeof(struct rxm_packet_buffer) + RXM_PACKET_SIZE + msgproto->eager_limit,
                 PACKETS_FIRST, PACKETS_MOST);
    mr_pool_init(&msgproto->bounces, "rxm", local, sizeof(struct mr_buffer) + msgproto->eager_limit,
                 PACKETS_FIRST, PACKETS_MOST);
    pool_init(&msgproto->inbounds, sizeof(struct rxm_inbound), 0);
    ids_init(&msgproto->ids, 31, 64);
    return 0;
}

void msgproto_close(struct rxm_ep *ep)
{
    struct msgproto *msgproto = ep->msgproto;

    if (!msgproto)
        return;
    mr_pool_finish(&msgproto->ops);
    mr_pool_finish(&msgproto->packets);
    mr_pool_finish(&msgproto->bounces);
    pool_finish(&msgproto->inbounds);
    ids_finish(&msgproto->ids);
    free(msgproto);
    ep->msgproto = NULL;
}

/* ---- Progress ---- */

static void end_broken(struct msgproto *msgproto)
{
    while (!list_empty(&msgproto->broken)) {
        struct rxm_conn *conn = list_item(msgproto->broken.next, struct rxm_conn, msgproto.broken);

        list_detach(&conn->msgproto.broken);
        if (conn->cm.peer)
            rxm_cm_lost(&msgproto->ep->cm, &conn->cm, conn->msgproto.err, NULL, 0, clock_ms());
    }
}

void msgproto_run(struct msgproto *msgproto)
{
    struct list all;

    end_broken(msgproto);
    if (msgproto->refill)
        msgproto_refill(msgproto);
    /* A report may call back, and go on with any of them. */
    list_init(&all);
    list_join(&msgproto->stalled, &all);
    while (!list_empty(&all)) {
        struct rxm_conn *conn = list_item(all.next, struct rxm_conn, msgproto.stalled);

        list_detach(&conn->msgproto.stalled);
        list_attach(&conn->msgproto.stalled, &msgproto->stalled);
        rxm_op_resume(conn);
    }
}

/* A connection that stalls goes on with a completion or a packet, for which the lower wakes. */
int msgproto_trywait(const struct msgproto *msgproto)
{
    if (!list_empty(&msgproto->broken) || msgproto->refill)
        return -FI_EAGAIN;
    list_for_each (item, &msgproto->stalled) {
        const struct rxm_conn *conn = list_item(item, struct rxm_conn, msgproto.stalled);

        if (conn->msgproto.up && !conn->msgproto.outstanding && !conn->msgproto.credit.on)
            return -FI_EAGAIN;
    }
    return 0;
}
