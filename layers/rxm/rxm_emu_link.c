/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lower that asks for buffers (FI_PEER) gets one for each packet as it comes, so that memory
 * follows who is talking; any other has receives posted on each connection (rxm_emu_posted).
 * Beyond the bound of what is kept, a packet that is asked for is left with the lower, and receives
 * are not posted again.
 */
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/log.h"
#include "layers/rxm/rxm_emu.h"

static bool is_full(const struct rxm_emu *emu)
{
    return emu->saved > emu->saved_limit;
}

bool rxm_emu_stopped(const struct rxm_link *link)
{
    return is_full(link->owner->emu) || link->emu.answers > RXM_EMU_ANSWERS;
}

struct rxm_packet_buffer *rxm_packet_buffer_get(struct rxm_link *link)
{
    struct rxm_packet_buffer *buffer = rxm_buffers_get(&link->owner->emu->packets);

    if (!buffer)
        return NULL;
    buffer->conn = link;
    buffer->iov = (struct iovec){.iov_base = buffer->bytes,
                                 .iov_len = RXM_PACKET_SIZE + link->owner->emu->eager_limit};
    list_init(&buffer->held);
    return buffer;
}

void rxm_packet_buffer_put(struct rxm_packet_buffer *buffer)
{
    rxm_buffers_put(&buffer->conn->owner->emu->packets, buffer);
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
    struct rxm_link *link = object_of(srx, struct rxm_link, emu.feed);
    struct rxm_packet_buffer *buffer = rxm_packet_buffer_get(link);
    bool full = link->emu.held || rxm_emu_stopped(link);
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

    list_attach(&buffer->held, &buffer->conn->owner->emu->held);
    buffer->conn->emu.held++;
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
static void take_held(struct rxm_emu *emu)
{
    struct list all;

    list_init(&all);
    list_join(&emu->held, &all);
    while (!list_empty(&all)) {
        struct rxm_packet_buffer *buffer = list_item(all.next, struct rxm_packet_buffer, held);
        struct fi_peer_rx_entry *entry = &buffer->entry;

        list_detach(&buffer->held);
        if (rxm_emu_stopped(buffer->conn)) {
            list_attach(&buffer->held, &emu->held);
            continue;
        }
        buffer->conn->emu.held--;
        entry->count = 1;
        if (entry->flags & FI_TAGGED)
            entry->srx->peer_ops->start_tag(entry);
        else
            entry->srx->peer_ops->start_msg(entry);
    }
}

void rxm_emu_refill(struct rxm_emu *emu)
{
    emu->refill = false;
    take_held(emu);
    if (emu->feed != RXM_FEED_POSTED || is_full(emu))
        return;
    list_for_each (item, &emu->ep->links)
        rxm_emu_post_more(list_item(item, struct rxm_link, all));
}

/* ---- What the lower writes ---- */

/* Completions of receives, where each connection has a queue of its own. */
static ssize_t rx_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                        void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct rxm_link *link = object_of(peer, struct rxm_link, rx_peer);

    if (__builtin_expect(flags & FI_REMOTE_WRITE, 0))
        rxm_emu_written(link->owner->emu, link, context, flags, len, data);
    else if (__builtin_expect(flags & FI_TAGGED, 0))
        rxm_emu_received_bare(link, context, buf, len, tag,
                              flags & FI_REMOTE_CQ_DATA ? &data : NULL);
    else
        rxm_emu_received(context, len, NULL);
    return 0;
}

static ssize_t rx_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *error)
{
    rxm_emu_received(error->op_context, 0, error);
    return 0;
}

static struct fi_ops_cq_owner rx_ops = {
    .size = sizeof(rx_ops),
    .write = rx_write,
    .writeerr = rx_writeerr,
};

/* ---- The connection ---- */

void rxm_emu_link_init(struct rxm_link *link)
{
    struct rxm_emu_link *mine = &link->emu;
    struct rxm_emu *emu = link->owner->emu;

    list_init(&mine->ops);
    list_init(&mine->waiting);
    list_init(&mine->inbounds);
    list_init(&mine->moving);
    list_init(&mine->stalled);
    list_init(&mine->receives);
    list_init(&mine->broken);
    mine->err = FI_ECONNRESET;
    rxm_window_init(&mine->window, emu->queue);
    rxm_credit_init(&mine->credit, mine->window.size);
    link->source.srx.peer_ops = &rxm_emu_source_ops;
    link->rx_peer.owner_ops = &rx_ops;
    fid_init(&mine->feed.ep_fid.fid, FI_CLASS_SRX_CTX, link, NULL);
    mine->feed.owner_ops = &feed_ops;
}

void rxm_emu_link_up(struct rxm_link *link)
{
    rxm_credit_agree(&link->emu.credit, link->owner->emu->flow, link->cm.other.flow);
    link->emu.up = true;
    rxm_op_resume(link);
    rxm_emu_post_up(link);
}

void rxm_emu_link_break(struct rxm_link *link, const char *what)
{
    char text[ADDR_TEXT_MAX];

    if (link->emu.dead || !list_empty(&link->emu.broken))
        return;
    link->emu.err = FI_EPROTO;
    list_attach(&link->emu.broken, &link->owner->emu->broken);
    LOG_WARN("rxm", FI_LOG_EP_DATA, ": the connection with %s ends: %s",
             addr_text(&link->addr.sa, text, sizeof(text)), what);
}

void rxm_emu_link_drop(struct rxm_link *link)
{
    link->emu.dead = true;
    list_for_each_safe (item, after, &link->owner->emu->held) {
        struct rxm_packet_buffer *buffer = list_item(item, struct rxm_packet_buffer, held);

        if (buffer->conn != link)
            continue;
        list_detach(&buffer->held);
        link->emu.held--;
        if (buffer->entry.flags & FI_TAGGED)
            buffer->entry.srx->peer_ops->discard_tag(&buffer->entry);
        else
            buffer->entry.srx->peer_ops->discard_msg(&buffer->entry);
    }
}

static void end_ops(struct rxm_link *link, int err)
{
    struct rxm_emu_link *mine = &link->emu;

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

void rxm_emu_link_end(struct rxm_link *link, bool mute)
{
    struct rxm_emu_link *mine = &link->emu;

    mine->dead = true;
    mine->mute = mute;
    list_detach(&mine->broken);
    end_ops(link, mine->err);
    list_detach(&mine->stalled);
    rxm_emu_recv_fail(link, mine->err);
    rxm_emu_post_end(link);
}
