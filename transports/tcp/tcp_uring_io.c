/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_uring_io.h"

#include <errno.h>
#include <fcntl.h>

#include <rdma/fi_errno.h>

#include "core/queue/wait.h"
#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_flight.h"
#include "transports/tcp/tcp_intake.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_ring.h"
#include "transports/tcp/tcp_receive.h"
#include "transports/tcp/tcp_send.h"

enum {
    ROUNDS = 2,    /* of completions in one progress call: requests are often answered in it */
    SLICE_MS = 10, /* of a wait for the kernel's answer */
    LOOK_MS = 1,   /* between two looks for the end of a stream */
};

/* ---- Sending ---- */

/* A connection that is not read has broken, and its outstanding operations have not ended yet. */
static bool broken_untold(const struct tcp_conn *conn)
{
    const struct tcp_tx *tx = conn->tx;

    if (!conn->error)
        return conn->uring->ended && conn->uring->error;
    return list_empty(&conn->uring->flights) && (tx->posted || tx->urgent.first);
}

/* conn can go on without an answer of the kernel. */
static bool pending(const struct tcp_conn *conn)
{
    const struct tcp_uring *uring = conn->uring;
    const struct tcp_rx *rx = conn->rx;
    const struct tcp_tx *tx = conn->tx;
    bool readable = !rx->paused && (!rx->stash || !tcp_rx_choked(rx));

    if (conn->fd < 0)
        return false;
    if (uring->chained || uring->placed || uring->hung_up || conn->poller->ring->refused ||
        (readable && (rx->stash || uring->receiving == TCP_URING_NONE)) ||
        (!readable && broken_untold(conn)))
        return true;
    return list_empty(&uring->flights) && !conn->error &&
           (tx->current || tx->urgent.first || tx->normal.first);
}

/* The caller took completions from the ring; a reader that sleeps on the ring's fd may wait for
 * them. */
static void tell_sleepers(struct tcp_poller *poller)
{
    if (!poller->driving && !list_empty(&poller->work) && progress_watched(poller->progress))
        ring_poke(poller->ring);
}

static void uring_send(struct tcp_conn *conn)
{
    struct tcp_poller *poller = conn->poller;

    if (progress_forked(poller->progress))
        return;
    tcp_flight_send(conn);
    if (poller->driving)
        return;
    if (!pending(conn))
        list_detach(&conn->work);
    tell_sleepers(poller);
}

static void uring_send_all(struct tcp_conn *conn, int wait_ms)
{
    long long start = clock_ms();

    tcp_send_flush(conn->tx);
    while (!list_empty(&conn->uring->flights) && !conn->error && !conn->poller->ring->refused &&
           wait_left(wait_ms, start) > 0) {
        ring_wait(conn->poller->ring, SLICE_MS);
        tcp_send_flush(conn->tx);
    }
}

/* ---- Progress ---- */

static void progress(struct tcp_poller *poller)
{
    if (poller->driving || progress_forked(poller->progress))
        return;
    poller->epoch++;
    poller->driving = true;
    for (int round = 0; round < ROUNDS; round++) {
        ring_collect(poller->ring);
        ring_reap(poller->ring);
        if (list_empty(&poller->work))
            break;
        tcp_poller_work_off(poller, tcp_intake_turn);
        /* Posts of uppers from inside reports. */
        tcp_poller_work_off(poller, tcp_intake_turn);
        ring_submit(poller->ring);
    }
    if (tcp_poller_fail_ended(poller)) {
        tcp_poller_work_off(poller, tcp_intake_turn);
        ring_submit(poller->ring);
    }
    poller->driving = false;
    tell_sleepers(poller);
}

static int trywait(struct progress_source *source)
{
    struct tcp_poller *poller = object_of(source, struct tcp_poller, source);
    struct io_uring *io = &poller->ring->io;

    ring_submit(poller->ring);
    ring_collect(poller->ring);
    if (!list_empty(&poller->work))
        return -FI_EAGAIN;
    return !poller->ring->refused && (io_uring_sq_ready(io) || io_uring_cq_ready(io)) ? -FI_EAGAIN
                                                                                      : 0;
}

/* ---- Connections ---- */

static int uring_add(struct tcp_conn *conn)
{
    int flags = fcntl(conn->fd, F_GETFL);

    if (conn->poller->ring->refused)
        return conn->poller->ring->refused;
    /* The kernel does not wait with a request for a socket that says that it must not. */
    if (flags < 0 || fcntl(conn->fd, F_SETFL, flags & ~O_NONBLOCK))
        return -errno;
    tcp_uring_init(conn->uring, conn);
    list_attach(&conn->uring->member, &conn->poller->ring->members);
    tcp_intake_ask(conn);
    ring_submit(conn->poller->ring);
    tell_sleepers(conn->poller);
    return 0;
}

static void stop_requests(struct tcp_conn *conn)
{
    struct tcp_ring *ring = conn->poller->ring;

    ring_submit(ring);
    ring_reap(ring);
    while ((conn->uring->asked || conn->uring->sending) && !ring->refused) {
        ring_cancel_all(ring, conn->fd);
        ring_reap(ring);
        if (conn->uring->asked || conn->uring->sending)
            ring_wait(ring, SLICE_MS);
    }
    /* Requests that the kernel cannot cancel must find no memory of ours to write to. */
    if (conn->uring->asked || conn->uring->sending)
        ring_reset(conn->fd);
}

static void uring_quiesce(struct tcp_conn *conn, int wait_ms)
{
    struct tcp_poller *poller = conn->poller;
    bool flushing = conn->tx->flushing;

    if (conn->fd < 0 || progress_forked(poller->progress))
        return;
    tcp_send_reclaim(conn->tx);
    conn->tx->flushing = true; /* reports must not send */
    stop_requests(conn);
    tcp_flight_settle(conn);
    tcp_flight_wait(conn, wait_ms);
    tcp_flight_settle(conn);
    tcp_flight_abandon(conn);
    while (conn->uring->chained)
        ring_return_first(poller->ring, conn->uring);
    conn->tx->flushing = flushing;
    list_detach(&conn->work);
    list_detach(&conn->uring->member);
    tell_sleepers(poller);
}

static void uring_read_end(struct tcp_conn *conn)
{
    progress(conn->poller);
    if (!tcp_receive_ending(conn))
        return;
    /* The completion may wait for the submitting thread, or the kernel: wait a little, so that a
     * caller that tries again does not spin. */
    ring_wait(conn->poller->ring, LOOK_MS);
    progress(conn->poller);
}

/* ---- The poller ---- */

static void poll_source(struct progress_source *source)
{
    progress(object_of(source, struct tcp_poller, source));
}

static void close_ring(struct tcp_poller *poller)
{
    ring_close(poller->ring);
    poller->ring = NULL;
}

static const struct tcp_io ring_io = {
    .close = close_ring,
    .add = uring_add,
    .send = uring_send,
    .send_all = uring_send_all,
    .find = tcp_flight_find,
    .read_end = uring_read_end,
    .quiesce = uring_quiesce,
};

int tcp_uring_open(struct tcp_poller *poller, const char **why)
{
    int rc = ring_open(poller, &poller->ring, why);

    if (rc)
        return rc;
    poller->io = &ring_io;
    poller->source.fd = poller->ring->io.ring_fd;
    poller->source.poll = poll_source;
    poller->source.trywait = trywait;
    return 0;
}
