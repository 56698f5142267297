/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One request to receive is under way at a time: small records come into buffers of the ring, a
 * large payload is received into place, and then a short receive fetches the next header alone, for
 * as long as the records are large.
 */
#include "transports/tcp/tcp_intake.h"

#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_ep.h"
#include "transports/tcp/tcp_flight.h"
#include "transports/tcp/tcp_receive.h"
#include "transports/tcp/tcp_ring.h"
#include "transports/tcp/tcp_send.h"

enum {
    DIRECT_MIN = 32 * 1024,  /* rest of a payload that is worth a request of its own */
    SWITCH_MIN = 256 * 1024, /* and the end of a receive into buffers */
    SHORT_READ = 512,
};

/* Into the memory of a receive, a region or a read. A saved message may be matched, and its memory
 * be freed, while the kernel receives: that comes through buffers. */
static bool can_place(const struct tcp_rx *rx, uint64_t min)
{
    return rx->active && rx->left >= min && rx->dest.room >= min &&
           (!rx->inbound || rx->op == TCP_OP_DATA);
}

void tcp_intake_ask(struct tcp_ep *ep)
{
    struct tcp_ring *ring = ep->poller->ring;
    struct tcp_uring *uring = &ep->uring;
    const struct tcp_rx *rx = &ep->rx;
    bool stopped = rx->paused || rx->stash;

    /* Bytes that have come go before those that a new request would receive into place. */
    if (uring->ended || uring->chained || uring->placed)
        return;
    if (uring->receiving == TCP_URING_MULTI) {
        if (!uring->cancelling && (stopped || can_place(rx, SWITCH_MIN)))
            ring_cancel_receive(ring, ep);
    } else if (uring->receiving != TCP_URING_NONE) {
        return;
    } else if (stopped) {
        if (!uring->polling && !ep->tx.error)
            ring_poll_end(ring, ep);
    } else if (can_place(rx, DIRECT_MIN) && ring_receive_direct(ring, ep)) {
        uring->large = true;
    } else {
        ring_receive(ring, ep, uring->large && !rx->active ? SHORT_READ : 0);
    }
}

static int take_buffer(struct tcp_ep *ep)
{
    struct tcp_ring *ring = ep->poller->ring;
    uint16_t id = ep->uring.first;
    const uint8_t *bytes = ring->buffers + (size_t)id * RING_BUFFER;
    size_t len = ring->len[id];
    int rc = 0;

    if (len && pcap_on(ep->tx.flow))
        pcap_received_buffer(ep->tx.flow, bytes, len);
    if (len && (ep->rx.stash || ep->rx.paused))
        rc = tcp_receive_keep(&ep->rx, bytes, len);
    else if (len)
        rc = tcp_receive_consume(ep, bytes, len);
    if (ep->fd < 0) /* a report ended the connection, and its buffers went back */
        return rc;
    ring_return_first(ring, &ep->uring);
    if (!ep->rx.active)
        ep->uring.large = false;
    return rc;
}

static int take_placed(struct tcp_ep *ep)
{
    size_t got = (size_t)ep->uring.placed;

    ep->uring.placed = 0;
    if (pcap_on(ep->tx.flow)) {
        struct iovec iov[RING_SEGMENTS];
        size_t total, count = tcp_dest_iov(&ep->rx.dest, got, iov, RING_SEGMENTS, &total);

        pcap_received(ep->tx.flow, iov, count, got);
    }
    return tcp_receive_placed(ep, got);
}

/* Takes the buffers in order. All go back: unread bytes are kept. */
static int take(struct tcp_ep *ep)
{
    struct tcp_uring *uring = &ep->uring;
    int rc = uring->placed ? take_placed(ep) : 0;

    if (!rc)
        rc = tcp_receive_unstash(ep);
    while (!rc && ep->fd >= 0 && uring->chained)
        rc = take_buffer(ep);
    if (!rc && uring->ended && !ep->rx.stash && !ep->rx.paused)
        rc = uring->error ? uring->error : tcp_receive_end(&ep->rx);
    return rc;
}

/* A connection that is not read has broken: nothing can be sent, received messages wait. */
static void break_paused(struct tcp_ep *ep)
{
    bool broken = ep->uring.hung_up || (ep->uring.ended && ep->uring.error);

    ep->uring.hung_up = false;
    if (!ep->rx.paused && !ep->rx.stash)
        return;
    if (broken && !ep->tx.error)
        ep->tx.error = FI_ECONNRESET;
    if (ep->tx.error && list_empty(&ep->uring.flights))
        tcp_send_finish(ep, ep->tx.error);
}

void tcp_intake_turn(struct tcp_ep *ep)
{
    bool flushing = ep->tx.flushing;

    if (ep->fd < 0)
        return;
    tcp_send_reclaim(ep);
    ep->tx.flushing = true;
    tcp_flight_settle(ep);
    ep->tx.flushing = flushing;
    int rc = ep->poller->ring->refused ? ep->poller->ring->refused : take(ep);
    if (rc == -FI_ENOTCONN) {
        tcp_poller_end(ep->poller, ep);
        return;
    }
    if (rc < 0) {
        tcp_ep_fail(ep, ep->tx.error ? ep->tx.error : -rc);
        return;
    }
    if (ep->fd < 0)
        return;
    break_paused(ep);
    tcp_send_flush(ep);
    if (ep->fd >= 0)
        tcp_intake_ask(ep);
}
