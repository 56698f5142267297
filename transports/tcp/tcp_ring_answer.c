/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of a ring: each is noted where it belongs, and nothing is called back. */
#include <errno.h>

#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_ring_kind.h"

static void chain(struct tcp_ring *ring, struct tcp_uring *uring, uint16_t id, uint32_t len)
{
    ring->len[id] = len;
    if (uring->chained)
        ring->next[uring->last] = id;
    else
        uring->first = id;
    uring->last = id;
    uring->chained = true;
}

/* A request that ended for want of buffers, or with the thread that made it, is made again. */
static void note_end(struct tcp_uring *uring, int result)
{
    if (result > 0 || result == -ENOBUFS || result == -ECANCELED || result == -EINTR ||
        result == -EAGAIN)
        return;
    uring->ended = true;
    uring->error = result;
}

static void note_received(struct tcp_ring *ring, struct tcp_conn *conn,
                          const struct io_uring_cqe *cqe)
{
    struct tcp_uring *uring = conn->uring;

    if (cqe->flags & IORING_CQE_F_BUFFER) {
        uint16_t id = (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);

        chain(ring, conn->uring, id, cqe->res > 0 ? (uint32_t)cqe->res : 0);
    }
    if (cqe->flags & IORING_CQE_F_MORE)
        return;
    uring->asked--;
    uring->receiving = TCP_URING_NONE;
    uring->cancelling = false;
    note_end(uring, cqe->res);
}

static void note_placed(struct tcp_ring *ring, struct tcp_uring *uring, int result)
{
    uring->asked--;
    uring->receiving = TCP_URING_NONE;
    pool_put(&ring->directs, uring->direct);
    uring->direct = NULL;
    if (result > 0)
        uring->placed = result;
    note_end(uring, result);
}

static void note_sent(struct tcp_ring *ring, struct tcp_flight *flight,
                      const struct io_uring_cqe *cqe)
{
    struct tcp_conn *conn = flight->conn;

    if (cqe->flags & IORING_CQE_F_NOTIF) {
        flight->lent = false;
        flight->returned = true;
        if (conn && (uint32_t)cqe->res & IORING_NOTIF_USAGE_ZC_COPIED)
            conn->uring->copying = true;
    } else {
        flight->answered = true;
        flight->result = cqe->res;
        flight->lent = cqe->flags & IORING_CQE_F_MORE && !flight->returned;
    }
    if (!conn) {
        pool_put(&ring->flights, flight);
        return;
    }
    if (!(cqe->flags & IORING_CQE_F_NOTIF))
        conn->uring->sending = false;
    tcp_poller_work(conn);
}

static void note(struct tcp_ring *ring, const struct io_uring_cqe *cqe)
{
    void *pointer = (void *)(uintptr_t)(cqe->user_data & ~(uint64_t)RING_KIND_MASK);
    struct tcp_conn *conn = pointer;

    if (!pointer)
        return;
    switch ((enum ring_kind)(cqe->user_data & RING_KIND_MASK)) {
    case RING_SEND: note_sent(ring, pointer, cqe); return;
    case RING_RECEIVE: note_received(ring, conn, cqe); break;
    case RING_DIRECT: note_placed(ring, conn->uring, cqe->res); break;
    case RING_POLL:
        conn->uring->polling = false;
        conn->uring->hung_up = cqe->res > 0;
        conn->uring->asked--;
        break;
    case RING_CANCEL:
    default:
        conn->uring->asked--;
        if (cqe->res < 0) /* it was not found where it was: again, if it is there still */
            conn->uring->cancelling = false;
        break;
    }
    tcp_poller_work(conn);
}

void ring_reap(struct tcp_ring *ring)
{
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;

    if (ring->refused) { /* their operations may be gone; the fd must not stay readable */
        io_uring_cq_advance(&ring->io, io_uring_cq_ready(&ring->io));
        return;
    }
    io_uring_for_each_cqe(&ring->io, head, cqe)
    {
        note(ring, cqe);
        count++;
    }
    io_uring_cq_advance(&ring->io, count);
}
