/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lower that asks for buffers (FI_PEER) gets one for each packet as it comes, so that only active
 * peers use memory; any other has receives posted on each connection (msgproto_posted). Beyond the
 * bound of kept bytes the packets that such a lower asks about stay with it, and receives are not
 * posted again.
 */

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "layers/rxm/msgproto/msgproto.h"

struct rxm_packet_buffer *rxm_packet_buffer_get(struct rxm_conn *conn)
{
    struct rxm_packet_buffer *buffer = mr_pool_get(&conn->owner->msgproto->packets);

    if (!buffer)
        return NULL;
    buffer->conn = conn;
    buffer->iov = (struct iovec){.iov_base = buffer->bytes,
                                 .iov_len = RXM_PACKET_SIZE + conn->owner->msgproto->eager_limit};
    list_init(&buffer->held);
    return buffer;
}

void rxm_packet_buffer_put(struct rxm_packet_buffer *buffer)
{
    mr_pool_put(&buffer->conn->owner->msgproto->packets, buffer);
}

/* ---- A lower that asks ---- */

static struct rxm_packet_buffer *buffer_of(struct fi_peer_rx_entry *entry)
{
    return object_of(entry, struct rxm_packet_buffer, entry);
}

/* Any record that a packet may be. The payload of one with a tag goes where a packet has it. */
static int feed_get(struct fid_peer_srx *srx, const struct fi_peer_match_attr *attr, bool tagged,
                    struct fi_peer_rx_entry **entry)
{
    struct rxm_conn *conn = object_of(srx, struct rxm_conn, msgproto.feed);
    struct rxm_packet_buffer *buffer = rxm_packet_buffer_get(conn);
    bool full = conn->msgproto.held || msgproto_stopped(conn);
    struct fi_peer_rx_entry *made;

    if (__builtin_expect(!buffer, 0))
        return -FI_ENOMEM;
    /* Field by field: a struct written over another is zeroed first. */
    made = &buffer->entry;
    made->srx = srx;
    made->addr = FI_ADDR_UNSPEC;
    made->msg_size = attr->msg_size;
    made->tag = attr->tag;
    made->cq_data = 0;
    made->flags = (tagged ? FI_TAGGED : FI_MSG) | FI_RECV | FI_COMPLETION;
    made->context = &buffer->context;
    made->count = full ? 0 : 1;
    made->desc = &buffer->buffer.desc;
    made->peer_context = NULL;
    made->owner_context = buffer;
    made->iov = &buffer->iov;
    if (tagged) {
        buffer->iov.iov_base = buffer->bytes + RXM_PACKET_SIZE;
        buffer->iov.iov_len -= RXM_PACKET_SIZE;
    }
    *entry = made;
    return full ? -FI_ENOENT : 0;
}

static int feed_get_msg(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                        struct fi_peer_rx_entry **entry)
{
    return feed_get(srx, attr, false, entry);
}

/* Libfabric 1.17 sends small tagged messages over tcp without a header of FI_PROTO_RXM. */
static int feed_get_tag(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
                        struct fi_peer_rx_entry **entry)
{
    return feed_get(srx, attr, true, entry);
}

static int feed_queue(struct fi_peer_rx_entry *entry)
{
    struct rxm_packet_buffer *buffer = buffer_of(entry);

    list_attach(&buffer->held, &buffer->conn->owner->msgproto->held);
    buffer->conn->msgproto.held++;
    return 0;
}

static void feed_free(struct fi_peer_rx_entry *entry)
{
    struct rxm_packet_buffer *buffer = buffer_of(entry);

    list_detach(&buffer->held);
    rxm_packet_buffer_put(buffer);
}

static void feed_resolve(struct fid_peer_srx *srx,
                         fi_addr_t (*get_addr)(struct fi_peer_rx_entry *entry))
{
}

static struct fi_ops_srx_owner feed_ops = {
    .size = sizeof(struct fi_ops_srx_owner),
    .get_msg = feed_get_msg,
    .get_tag = feed_get_tag,
    .queue_msg = feed_queue,
    .queue_tag = feed_queue,
    .foreach_unspec_addr = feed_resolve,
    .free_entry = feed_free,
};

/* Hands what the lower keeps for us over, as long as there is room. */
static void take_held(struct msgproto *msgproto)
{
    struct list all;

    list_init(&all);
    list_join(&msgproto->held, &all);
    while (!list_empty(&all)) {
        struct rxm_packet_buffer *buffer = list_item(all.next, struct rxm_packet_buffer, held);
        struct fi_peer_rx_entry *entry = &buffer->entry;

        list_detach(&buffer->held);
        if (msgproto_stopped(buffer->conn)) {
            list_attach(&buffer->held, &msgproto->held);
            continue;
        }
        buffer->conn->msgproto.held--;
        entry->count = 1;
        if (entry->flags & FI_TAGGED)
            entry->srx->peer_ops->start_tag(entry);
        else
            entry->srx->peer_ops->start_msg(entry);
    }
}

void msgproto_refill(struct msgproto *msgproto)
{
    msgproto->refill = false;
    take_held(msgproto);
    if (msgproto->feed != RXM_FEED_POSTED || msgproto_full(msgproto))
        return;
    list_for_each (item, &msgproto->ep->conns)
        msgproto_post_more(list_item(item, struct rxm_conn, all));
}

/* ---- The connection ---- */

void msgproto_conn_init(struct rxm_conn *conn)
{
    struct msgproto_conn *mine = &conn->msgproto;
    struct msgproto *msgproto = conn->owner->msgproto;

    list_init(&mine->ops);
    list_init(&mine->waiting);
    list_init(&mine->inbounds);
    list_init(&mine->moving);
    list_init(&mine->stalled);
    list_init(&mine->receives);
    list_init(&mine->broken);
    mine->err = FI_ECONNRESET;
    mine->straight = (conn->owner->base.match || conn->owner->behind) && !conn->owner->source_err;
    rxm_window_init(&mine->window, msgproto->queue);
    rxm_credit_init(&mine->credit, mine->window.size);
    conn->source.srx.peer_ops = &msgproto_source_ops;
    conn->rx_peer.owner_ops = &msgproto_rx_ops[msgproto->feed];
    fid_init(&mine->feed.ep_fid.fid, FI_CLASS_SRX_CTX, conn, NULL);
    mine->feed.owner_ops = &feed_ops;
}

void msgproto_conn_up(struct rxm_conn *conn)
{
    rxm_credit_agree(&conn->msgproto.credit, conn->owner->msgproto->flow, conn->cm.other.flow);
    conn->msgproto.up = true;
    rxm_op_resume(conn);
    msgproto_post_up(conn);
}

void msgproto_conn_break(struct rxm_conn *conn, const char *what)
{
    char text[ADDR_TEXT_MAX];

    if (conn->msgproto.dead || !list_empty(&conn->msgproto.broken))
        return;
    conn->msgproto.err = FI_EPROTO;
    conn->msgproto.straight = false;
    conn->owner->attend = true;
    list_attach(&conn->msgproto.broken, &conn->owner->msgproto->broken);
    LOG_WARN("rxm", FI_LOG_EP_DATA, ": the connection with %s ends: %s",
             addr_text(&conn->addr.sa, text, sizeof(text)), what);
}

void msgproto_conn_drop(struct rxm_conn *conn)
{
    conn->msgproto.dead = true;
    conn->msgproto.straight = false;
    list_for_each_safe (item, after, &conn->owner->msgproto->held) {
        struct rxm_packet_buffer *buffer = list_item(item, struct rxm_packet_buffer, held);

        if (buffer->conn != conn)
            continue;
        list_detach(&buffer->held);
        conn->msgproto.held--;
        if (buffer->entry.flags & FI_TAGGED)
            buffer->entry.srx->peer_ops->discard_tag(&buffer->entry);
        else
            buffer->entry.srx->peer_ops->discard_msg(&buffer->entry);
    }
}

static void end_ops(struct rxm_conn *conn, int err)
{
    struct msgproto_conn *mine = &conn->msgproto;

    /* Children first, and their parents not before all of them. */
    list_for_each (item, &mine->ops)
        list_item(item, struct rxm_op, link)->pending++;
    list_for_each_safe (item, after, &mine->ops) {
        struct rxm_op *op = list_item(item, struct rxm_op, link);

        if (!op->parent)
            continue;
        op->err = err;
        op->pending = 0;
        op->posted = true;
        rxm_op_settle(op);
    }
    while (!list_empty(&mine->ops)) {
        struct rxm_op *op = list_item(mine->ops.next, struct rxm_op, link);

        op->err = err;
        op->pending = 0;
        op->posted = true;
        rxm_op_settle(op);
    }
}

void msgproto_conn_end(struct rxm_conn *conn, bool mute)
{
    struct msgproto_conn *mine = &conn->msgproto;

    mine->dead = true;
    mine->straight = false;
    mine->mute = mute;
    list_detach(&mine->broken);
    end_ops(conn, mine->err);
    list_detach(&mine->stalled);
    msgproto_recv_fail(conn, mine->err);
    msgproto_post_end(conn);
}
