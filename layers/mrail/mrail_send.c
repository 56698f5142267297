/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/iov.h"
#include "layers/mrail/mrail_ep.h"

/* ---- Ends ---- */

void mrail_done(struct flow *flow, struct flow_message *message, int err)
{
    struct mrail_ep *ep = mrail_peer_of_flow(flow)->ep;
    struct mrail_send *send = object_of(message, struct mrail_send, message);
    struct fi_cq_err_entry entry = {
        .op_context = send->context,
        .flags = FI_MSG | FI_SEND,
        .err = err,
        .prov_errno = err,
        .src_addr = FI_ADDR_NOTAVAIL,
    };
    bool wanted = send->wanted;

    if (send->copy)
        pool_put(&ep->copies, send->copy);
    pool_put(&ep->sends, send);
    if (err)
        complete_error(&ep->base.binding, BIND_SEND, &entry);
    else
        complete(&ep->base.binding, BIND_SEND, wanted, entry.op_context, FI_MSG | FI_SEND, 0, NULL,
                 0, 0, FI_ADDR_NOTAVAIL);
}

/* ---- Packets ---- */

static void introduce(const struct mrail_peer *peer, struct mrail_head *head)
{
    struct mrail_ep *ep = peer->ep;

    head->to = peer->theirs;
    if (peer->theirs && peer->introduced && head->type != MRAIL_PROBE)
        return;
    head->flags = MRAIL_INTRO;
    head->epoch = peer->epoch;
    head->giving = (uint32_t)peer->number;
    head->addr = ep->name;
    head->addr_len = (uint8_t)ep->name_size;
}

static struct mrail_packet *build(struct mrail_way *way, const struct mrail_head *head,
                                  const struct mrail_send *send)
{
    size_t size = mrail_head_size(head), len = send ? send->message.len : 0;
    struct mr_pool *pool = size + len <= MRAIL_HEAD_ROOM ? &way->heads : &way->wholes;
    struct mrail_packet *packet = mr_pool_get(pool);
    struct iovec to;

    if (!packet)
        return NULL;
    packet->ep = way->ep;
    packet->pool = pool;
    packet->rail = (uint8_t)(way - way->ep->way);
    packet->receives = false;
    packet->at = 0;
    packet->len = size + len;
    list_init(&packet->link);
    mrail_head_put(head, packet->bytes);
    if (len) {
        to = (struct iovec){.iov_base = packet->bytes + size, .iov_len = len};
        iov_copy(&to, 1, send->iov, send->count);
    }
    return packet;
}

/* Only "not now" is no packet that has left: all else is a rail that has failed. */
bool mrail_transmit(struct flow *flow, unsigned rail, struct mrail_head *head,
                    struct flow_message *message)
{
    struct mrail_peer *peer = mrail_peer_of_flow(flow);
    struct mrail_way *way = &peer->ep->way[rail];
    struct mrail_send *send = message ? object_of(message, struct mrail_send, message) : NULL;
    struct mrail_packet *packet;
    uint64_t flags;
    ssize_t rc;

    introduce(peer, head);
    packet = build(way, head, send);
    if (!packet)
        return false;
    packet->peer = peer->number;
    flags = send ? FI_COMPLETION : 0;
    if (head->type == MRAIL_PROBE)
        flags = FI_COMPLETION | FI_TRANSMIT_COMPLETE;
    rc = mrail_way_send(way, packet, peer->lower[rail], flags);
    if (!rc)
        return true;
    mrail_packet_put(packet);
    if (rc == -FI_EAGAIN || rc == -FI_ENOMEM)
        return false;
    peer->failed[rail] = (int)-rc;
    mrail_ready(peer);
    return true;
}

/* ---- Posting ---- */

static int fill(struct mrail_ep *ep, const struct op *op, struct mrail_send *send)
{
    send->context = op->context;
    send->wanted = !op_is_inject(op) && completion_wanted(ep->base.binding.tx_selective, op->flags);
    send->message = (struct flow_message){.len = (uint32_t)op->len};
    send->copy = NULL;
    send->count = op->count;
    memcpy(send->iov, op->iov, op->count * sizeof(*op->iov));
    if (!(op->flags & FI_INJECT) || !op->len)
        return 0;
    send->copy = pool_get(&ep->copies);
    if (!send->copy)
        return -FI_ENOMEM;
    send->iov[0] = (struct iovec){.iov_base = send->copy, .iov_len = op->len};
    send->count = 1;
    iov_copy(send->iov, 1, op->iov, op->count);
    return 0;
}

static ssize_t send_locked(struct mrail_ep *ep, const struct op *op)
{
    struct mrail_peer *peer;
    struct mrail_send *send;
    int rc;

    if (__builtin_expect(progress_forked(ep->progress), 0))
        return -FI_EOPBADSTATE;
    if (__builtin_expect(av_watch_any(&ep->watch), 0))
        mrail_peers_take_changes(ep);
    rc = mrail_peer_at(ep, op->peer, &peer);
    if (rc)
        return rc;
    send = pool_get(&ep->sends);
    if (!send)
        return ep->sends.used >= ep->base.tx_size ? -FI_EAGAIN : -FI_ENOMEM;
    rc = fill(ep, op, send);
    if (rc) {
        pool_put(&ep->sends, send);
        return rc;
    }
    flow_send(&peer->flow, &send->message);
    mrail_ready(peer);
    if (!ep->running)
        mrail_run(ep);
    return 0;
}

ssize_t mrail_post_send(struct mrail_ep *ep, struct op *op)
{
    /* The peer's mrail has it, and not its application; and packets have no room for data. */
    const uint64_t impossible = FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE;
    ssize_t rc = endpoint_settle(&ep->base, op);

    if (rc)
        return rc;
    if (__builtin_expect(!ep->base.enabled, 0))
        return -FI_EOPBADSTATE;
    if (__builtin_expect(!!(op->flags & impossible), 0))
        return -FI_EOPNOTSUPP;
    if (__builtin_expect(op->count > RECV_QUEUE_IOV, 0))
        return -FI_EINVAL;
    if (__builtin_expect(op->len > ep->config.packet, 0))
        return -FI_EMSGSIZE;
    if (__builtin_expect(op->flags & FI_INJECT && op->len > ep->copy_size, 0))
        return -FI_EMSGSIZE;
    progress_lock(ep->progress);
    rc = send_locked(ep, op);
    if (__builtin_expect(rc == -FI_EAGAIN && ep->top, 0))
        progress_poll(ep->progress); /* a poster that does nothing but try again gets on too */
    progress_unlock(ep->progress);
    return rc;
}
