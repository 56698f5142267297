/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/iov.h"
#include "layers/mrail/mrail_ep.h"
#include "layers/mrail/mrail_keys.h"

/* ---- Ends ---- */

void mrail_done(struct flow *flow, struct flow_message *message, int err)
{
    struct mrail_ep *ep = mrail_session_of_flow(flow)->ep;
    struct mrail_send *send = object_of(message, struct mrail_send, message);
    void *context = send->context;
    bool wanted = send->wanted, own = message->own;

    if (send->copy)
        pool_put(&ep->copies, send->copy);
    pool_put(&ep->up.sends, send);
    if (!own)
        packet_ep_sent(&ep->up, context, wanted, err);
}

/* ---- Packets ---- */

static struct mrail_packet *build(struct mrail_way *way, const struct mrail_head *head,
                                  const struct mrail_send *send)
{
    size_t size = mrail_head_size(head), len = send ? send->message.len : 0;
    struct mr_pool *pool = size + len <= MRAIL_HEAD_ROOM ? &way->heads : &way->wholes;
    struct mrail_packet *packet = mr_pool_get(pool);

    if (!packet)
        return NULL;
    packet->ep = way->ep;
    packet->pool = pool;
    packet->rail = (uint8_t)(way - way->ep->way);
    packet->receives = packet->stripe = false;
    packet->at = 0;
    packet->len = size + len;
    list_init(&packet->link);
    mrail_head_put(head, packet->bytes);
    if (len && send->count == 1)
        memcpy(packet->bytes + size, send->iov[0].iov_base, len);
    else if (len)
        iov_gather(send->iov, send->count, 0, packet->bytes + size, len);
    return packet;
}

/* Only "not now" is no packet that has left: all else is a rail that has failed. */
bool mrail_transmit(struct flow *flow, unsigned rail, struct mrail_head *head,
                    struct flow_message *message)
{
    struct mrail_session *session = mrail_session_of_flow(flow);
    struct mrail_peer *peer = session->peer;
    struct mrail_way *way = &session->ep->way[rail];
    struct mrail_send *send = message ? object_of(message, struct mrail_send, message) : NULL;
    struct mrail_packet *packet;
    uint64_t flags;
    ssize_t rc;

    mrail_intro_put(&peer->intro, head, way->ep->name, way->ep->name_size);
    packet = build(way, head, send);
    if (!packet)
        return false;
    packet->peer = peer->intro.number;
    flags = send ? FI_COMPLETION : 0;
    if (head->type == MRAIL_PROBE)
        flags = FI_COMPLETION | FI_TRANSMIT_COMPLETE;
    rc = mrail_way_send(way, packet, peer->rail[rail].lower, flags);
    if (!rc)
        return true;
    mrail_packet_put(packet);
    if (rc == -FI_EAGAIN || rc == -FI_ENOMEM)
        return false;
    session->failed[rail] = (int)-rc;
    mrail_ready(session);
    return true;
}

/* ---- Posting ---- */

static int fill(struct mrail_ep *ep, const struct op *op, struct mrail_send *send)
{
    send->context = op->context;
    send->wanted = packet_ep_wanted(&ep->up, op);
    send->message = (struct flow_message){.len = (uint32_t)op->len};
    send->copy = NULL;
    send->count = op->count;
    if (op->count == 1)
        send->iov[0] = op->iov[0];
    else
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

/* Without a run, if there is nothing else to be done. */
static bool send_now(struct mrail_session *session, struct flow_message *message)
{
    struct flow *flow = &session->flow;
    struct mrail_ep *ep = session->ep;
    uint64_t now, due;
    unsigned rail;

    if (ep->up.running || packet_ep_is_ready(&ep->up))
        return false;
    rail = flow_send_lone(flow, message);
    now = clock_ns();
    due = rail != FLOW_NO_RAIL ? flow_sent(flow, message, rail, now)
                               : flow_send_now(flow, message, now);
    if (due)
        mrail_note_due(session, due, now);
    return due;
}

int mrail_send(struct packet_ep *up, const struct op *op)
{
    struct mrail_ep *ep = mrail_ep_of_packets(up);
    struct mrail_session *session;
    struct mrail_send *send;
    void *memory;
    int rc = mrail_session_at(ep, op->peer, &session);

    if (!rc)
        rc = packet_ep_get_send(up, &memory);
    if (rc)
        return rc;
    send = memory;
    rc = fill(ep, op, send);
    if (rc) {
        pool_put(&up->sends, send);
        return rc;
    }
    if (send_now(session, &send->message))
        return 0;
    flow_send(&session->flow, &send->message);
    mrail_ready(session);
    return 0;
}

int mrail_keys_send(struct mrail_session *session, const struct mrail_keys *keys)
{
    struct mrail_ep *ep = session->ep;
    struct mrail_send *send;
    void *memory, *copy;
    int rc = packet_ep_get_send(&ep->up, &memory);

    if (rc)
        return rc;
    copy = pool_get(&ep->copies);
    if (!copy) {
        pool_put(&ep->up.sends, memory);
        return -FI_ENOMEM;
    }
    send = memory;
    *send = (struct mrail_send){.copy = copy, .count = 1};
    send->iov[0] = (struct iovec){.iov_base = copy, .iov_len = mrail_keys_put(keys, copy)};
    send->message = (struct flow_message){.len = (uint32_t)send->iov[0].iov_len, .own = true};
    flow_send(&session->flow, &send->message);
    mrail_ready(session);
    return 0;
}
