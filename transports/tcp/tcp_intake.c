/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One request to receive is under way at a time: small records come into buffers of the ring, a
 * large payload is received into place, and then a short receive fetches the next header alone, for
 * as long as the records are large.
 */
#include "transports/tcp/tcp_intake.h"

#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_flight.h"
#include "transports/tcp/tcp_poller.h"
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
    return !rx->conn->error && rx->active && rx->left >= min && rx->dest.room >= min &&
           (!rx->inbound || rx->op == TCP_OP_DATA);
}

void tcp_intake_ask(struct tcp_conn *conn)
{
    struct tcp_ring *ring = conn->poller->ring;
    struct tcp_uring *uring = conn->uring;
    const struct tcp_rx *rx = conn->rx;
    bool stopped = rx->paused || rx->stash;

    /* Bytes that have come go before those that a new request would receive into place. */
    if (uring->ended || uring->chained || uring->placed)
        return;
    if (uring->receiving == TCP_URING_MULTI) {
        if (!uring->cancelling && (stopped || can_place(rx, SWITCH_MIN)))
            ring_cancel_receive(ring, conn);
    } else if (uring->receiving != TCP_URING_NONE) {
        return;
    } else if (stopped) {
        if (!uring->polling && !conn->error)
            ring_poll_end(ring, conn);
    } else if (can_place(rx, DIRECT_MIN) && ring_receive_direct(ring, conn)) {
        uring->large = true;
    } else {
        ring_receive(ring, conn, uring->large && !rx->active ? SHORT_READ : 0);
    }
}

static int take_buffer(struct tcp_conn *conn)
{
    struct tcp_ring *ring = conn->poller->ring;
    uint16_t id = conn->uring->first;
    const uint8_t *bytes = ring->buffers + (size_t)id * RING_BUFFER;
    size_t len = ring->len[id];
    int rc = 0;

    if (len && pcap_on(conn->flow))
        pcap_received_buffer(conn->flow, bytes, len);
    if (len && (conn->rx->stash || conn->rx->paused))
        rc = tcp_receive_keep(conn->rx, bytes, len);
    else if (len)
        rc = tcp_receive_consume(conn->rx, bytes, len);
    if (conn->fd < 0) /* a report ended the connection, and its buffers went back */
        return rc;
    ring_return_first(ring, conn->uring);
    if (!conn->rx->active)
        conn->uring->large = false;
    return rc;
}

static int take_placed(struct tcp_conn *conn)
{
    size_t got = (size_t)conn->uring->placed;

    conn->uring->placed = 0;
    if (pcap_on(conn->flow)) {
        struct iovec iov[RING_SEGMENTS];
        size_t total, count = tcp_dest_iov(&conn->rx->dest, got, iov, RING_SEGMENTS, &total);

        pcap_received(conn->flow, iov, count, got);
    }
    return tcp_receive_placed(conn->rx, got);
}

/* Takes the buffers in order. All go back: unread bytes are kept. */
static int take(struct tcp_conn *conn)
{
    struct tcp_uring *uring = conn->uring;
    int rc = uring->placed ? take_placed(conn) : 0;

    if (!rc)
        rc = tcp_receive_unstash(conn->rx);
    while (!rc && conn->fd >= 0 && uring->chained)
        rc = take_buffer(conn);
    if (!rc && uring->ended && !conn->rx->stash && !conn->rx->paused)
        rc = uring->error ? uring->error : tcp_receive_end(conn->rx);
    return rc;
}

/* A connection that is not read has broken: nothing can be sent, received messages wait. */
static void break_paused(struct tcp_conn *conn)
{
    bool broken = conn->uring->hung_up || (conn->uring->ended && conn->uring->error);

    conn->uring->hung_up = false;
    if (!conn->rx->paused && !conn->rx->stash)
        return;
    if (broken && !conn->error)
        conn->error = FI_ECONNRESET;
    if (conn->error && list_empty(&conn->uring->flights))
        tcp_send_finish(conn->tx, conn->error);
}

void tcp_intake_turn(struct tcp_conn *conn)
{
    bool flushing = conn->tx->flushing;

    if (conn->fd < 0)
        return;
    tcp_send_reclaim(conn->tx);
    conn->tx->flushing = true;
    tcp_flight_settle(conn);
    conn->tx->flushing = flushing;
    int rc = conn->poller->ring->refused ? conn->poller->ring->refused : take(conn);
    if (rc == -FI_ENOTCONN) {
        tcp_poller_end(conn);
        return;
    }
    if (rc < 0) {
        tcp_conn_fail(conn, -rc);
        return;
    }
    if (conn->fd < 0)
        return;
    break_paused(conn);
    tcp_send_flush(conn->tx);
    if (conn->fd >= 0)
        tcp_intake_ask(conn);
}
