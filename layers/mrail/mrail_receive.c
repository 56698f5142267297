/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receives. A packet that has come is copied into the first receive that is posted; without one
 * the buffer that it lies in is kept. Peers are told of less room with each that is kept, and of
 * none beyond `saved`.
 */
#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "layers/mrail/mrail_ep.h"

struct message {
    const uint8_t *bytes;
    size_t len;
    fi_addr_t src;
};

static void report(struct mrail_ep *ep, const struct message *message, size_t copied, void *context,
                   void *buf, bool wanted)
{
    struct fi_cq_err_entry entry = {
        .op_context = context,
        .flags = FI_MSG | FI_RECV,
        .len = copied,
        .buf = buf,
        .olen = message->len - copied,
        .err = FI_ETRUNC,
        .prov_errno = FI_ETRUNC,
        .src_addr = message->src,
    };

    if (__builtin_expect(copied < message->len, 0))
        complete_error(&ep->base.binding, BIND_RECV, &entry);
    else
        complete(&ep->base.binding, BIND_RECV, wanted, context, FI_MSG | FI_RECV, copied, buf, 0, 0,
                 message->src);
}

/* False: there is no receive. */
static bool receive(struct mrail_ep *ep, const struct message *message)
{
    const struct posted_recv *recv;
    const struct iovec from = {.iov_base = (void *)(uintptr_t)message->bytes,
                               .iov_len = message->len};
    void *context, *buf;
    size_t copied;
    bool wanted;

    if (!recv_queue_count(&ep->posted))
        return false;
    recv = recv_queue_at(&ep->posted, 0);
    copied = iov_copy(recv->iov, recv->count, &from, 1);
    context = recv->context;
    buf = recv->count ? recv->iov[0].iov_base : NULL;
    wanted = recv->wanted;
    recv_queue_pop(&ep->posted);
    report(ep, message, copied, context, buf, wanted);
    return true;
}

static fi_addr_t source_of(const struct mrail_ep *ep, const struct mrail_peer *peer)
{
    if (!peer || peer->addr == FI_ADDR_NOTAVAIL || !(ep->base.caps & FI_SOURCE))
        return FI_ADDR_NOTAVAIL;
    return av_source(ep->base.av, peer->addr);
}

static void set_shut(struct mrail_ep *ep, bool shut)
{
    for (size_t i = 0; i < MRAIL_BUCKETS; i++) {
        for (struct mrail_peer *peer = ep->buckets[i]; peer; peer = peer->next) {
            peer->flow.shut = shut;
            if (!shut)
                mrail_ready(peer);
        }
    }
}

/* The bytes are those of the buffer that has just been read. */
static void save(struct mrail_ep *ep, struct mrail_peer *peer, const struct message *message)
{
    struct mrail_packet *packet = ep->current;

    packet->at = (size_t)(message->bytes - packet->bytes);
    packet->len = message->len;
    packet->peer = peer->number;
    ep->current = NULL;
    list_attach(&packet->link, &ep->saved);
    peer->flow.kept++;
    if (++ep->saved_count == ep->saved_most)
        set_shut(ep, true);
}

void mrail_deliver(struct flow *flow, const uint8_t *bytes, size_t len)
{
    struct mrail_peer *peer = mrail_peer_of_flow(flow);
    struct mrail_ep *ep = peer->ep;
    struct message message = {.bytes = bytes, .len = len};

    if (__builtin_expect(av_watch_any(&ep->watch), 0))
        mrail_peers_take_changes(ep); /* the upper may have learnt of the peer from the last one */
    message.src = source_of(ep, peer);
    if (!list_empty(&ep->saved) || !receive(ep, &message))
        save(ep, peer, &message);
}

void mrail_receive_run(struct mrail_ep *ep)
{
    while (!list_empty(&ep->saved) && recv_queue_count(&ep->posted)) {
        struct mrail_packet *packet = list_item(ep->saved.next, struct mrail_packet, link);
        struct mrail_peer *peer = ids_find(&ep->numbers, packet->peer);
        struct message message = {
            .bytes = packet->bytes + packet->at, .len = packet->len, .src = source_of(ep, peer)};

        list_detach(&packet->link);
        if (peer && peer->flow.kept) {
            peer->flow.kept--;
            mrail_ready(peer);
        }
        if (ep->saved_count-- == ep->saved_most)
            set_shut(ep, false);
        receive(ep, &message);
        mrail_packet_put(packet);
    }
}

/* ---- Posting ---- */

static ssize_t post_locked(struct mrail_ep *ep, const struct op *op)
{
    struct posted_recv *recv;
    int rc;

    if (progress_forked(ep->progress))
        return -FI_EOPBADSTATE;
    rc = recv_queue_next(&ep->posted, &recv);
    if (!rc)
        rc = posted_recv_fill(recv, &ep->base, op);
    if (rc)
        return rc;
    recv_queue_push(&ep->posted);
    if (__builtin_expect(!list_empty(&ep->saved) && !ep->running, 0))
        mrail_run(ep); /* a run that goes on looks again */
    return 0;
}

ssize_t mrail_post_receive(struct mrail_ep *ep, struct op *op)
{
    ssize_t rc;

    if (!ep->base.enabled)
        return -FI_EOPBADSTATE;
    if (op->count > RECV_QUEUE_IOV || op->flags & FI_MULTI_RECV)
        return -FI_EINVAL;
    progress_lock(ep->progress);
    rc = post_locked(ep, op);
    progress_unlock(ep->progress);
    return rc;
}
