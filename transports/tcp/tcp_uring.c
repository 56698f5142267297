/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_uring.h"

#include <errno.h>
#include <string.h>
#include <fcntl.h>

#include <rdma/fi_errno.h>

#include "core/queue/wait.h"
#include "transports/tcp/tcp_answer.h"
#include "transports/tcp/tcp_ep.h"
#include "transports/tcp/tcp_flight.h"
#include "transports/tcp/tcp_intake.h"
#include "transports/tcp/tcp_ring.h"
#include "transports/tcp/tcp_send.h"

enum {
    ROUNDS = 2,    /* of completions in one progress call: requests are often answered in it */
    SLICE_MS = 10, /* of a wait for the kernel's answer */
    LOOK_MS = 1,   /* between two looks for the end of a stream */
};

void tcp_uring_init(struct tcp_uring *uring)
{
    memset(uring, 0, sizeof(*uring));
    list_init(&uring->member);
    list_init(&uring->flights);
}

int tcp_uring_open(struct tcp_poller *poller, const char **why)
{
    return ring_open(poller, &poller->ring, why);
}

void tcp_uring_close(struct tcp_poller *poller)
{
    ring_close(poller->ring);
    poller->ring = NULL;
}

int tcp_uring_fd(const struct tcp_poller *poller)
{
    return poller->ring->io.ring_fd;
}

/* ---- Sending ---- */

/* A connection that is not read has broken, and its outstanding operations have not ended yet. */
static bool broken_untold(const struct tcp_ep *ep)
{
    const struct tcp_tx *tx = &ep->tx;

    if (!tx->error)
        return ep->uring.ended && ep->uring.error;
    return list_empty(&ep->uring.flights) && (tx->posted || tx->urgent.first);
}

/* ep can go on without an answer of the kernel. */
static bool pending(const struct tcp_ep *ep)
{
    const struct tcp_uring *uring = &ep->uring;
    const struct tcp_rx *rx = &ep->rx;
    const struct tcp_tx *tx = &ep->tx;
    bool readable = !rx->paused && (!rx->stash || !tcp_answer_choked(ep));

    if (ep->fd < 0)
        return false;
    if (uring->chained || uring->placed || uring->hung_up || ep->poller->ring->refused ||
        (readable && (rx->stash || uring->receiving == TCP_URING_NONE)) ||
        (!readable && broken_untold(ep)))
        return true;
    return list_empty(&uring->flights) && !tx->error &&
           (tx->current || tx->urgent.first || tx->normal.first);
}

/* The caller took completions from the ring; a reader that sleeps on the ring's fd may wait for
 * them. */
static void tell_sleepers(struct tcp_poller *poller)
{
    if (!poller->driving && !list_empty(&poller->work) && progress_watched(poller->progress))
        ring_poke(poller->ring);
}

void tcp_uring_send(struct tcp_ep *ep)
{
    struct tcp_poller *poller = ep->poller;

    if (progress_forked(poller->progress))
        return;
    tcp_flight_send(ep);
    if (poller->driving)
        return;
    if (!pending(ep))
        list_detach(&ep->work);
    tell_sleepers(poller);
}

void tcp_uring_send_all(struct tcp_ep *ep, int wait_ms)
{
    long long start = clock_ms();

    tcp_send_flush(ep);
    while (!list_empty(&ep->uring.flights) && !ep->tx.error && !ep->poller->ring->refused &&
           wait_left(wait_ms, start) > 0) {
        ring_wait(ep->poller->ring, SLICE_MS);
        tcp_send_flush(ep);
    }
}

/* ---- Progress ---- */

static void work_off(struct tcp_poller *poller)
{
    struct list todo;

    list_init(&todo);
    list_join(&poller->work, &todo);
    while (!list_empty(&todo)) {
        struct tcp_ep *ep = list_item(todo.next, struct tcp_ep, work);

        list_detach(&ep->work);
        tcp_intake_turn(ep);
    }
}

void tcp_uring_progress(struct tcp_poller *poller)
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
        work_off(poller);
        /* Posts of uppers from inside reports. */
        work_off(poller);
        ring_submit(poller->ring);
    }
    if (tcp_poller_fail_ended(poller)) {
        work_off(poller);
        ring_submit(poller->ring);
    }
    poller->driving = false;
    tell_sleepers(poller);
}

int tcp_uring_trywait(struct tcp_poller *poller)
{
    struct io_uring *io = &poller->ring->io;

    ring_submit(poller->ring);
    ring_collect(poller->ring);
    if (!list_empty(&poller->work))
        return -FI_EAGAIN;
    return !poller->ring->refused && (io_uring_sq_ready(io) || io_uring_cq_ready(io)) ? -FI_EAGAIN
                                                                                      : 0;
}

/* ---- Connections ---- */

int tcp_uring_add(struct tcp_ep *ep)
{
    int flags = fcntl(ep->fd, F_GETFL);

    if (ep->poller->ring->refused)
        return ep->poller->ring->refused;
    /* The kernel does not wait with a request for a socket that says that it must not. */
    if (flags < 0 || fcntl(ep->fd, F_SETFL, flags & ~O_NONBLOCK))
        return -errno;
    tcp_uring_init(&ep->uring);
    list_attach(&ep->uring.member, &ep->poller->ring->members);
    tcp_intake_ask(ep);
    ring_submit(ep->poller->ring);
    tell_sleepers(ep->poller);
    return 0;
}

static void stop_requests(struct tcp_ep *ep)
{
    struct tcp_ring *ring = ep->poller->ring;

    ring_submit(ring);
    ring_reap(ring);
    while ((ep->uring.asked || ep->uring.sending) && !ring->refused) {
        ring_cancel_all(ring, ep->fd);
        ring_reap(ring);
        if (ep->uring.asked || ep->uring.sending)
            ring_wait(ring, SLICE_MS);
    }
    /* Requests that the kernel cannot cancel must find no memory of ours to write to. */
    if (ep->uring.asked || ep->uring.sending)
        ring_reset(ep->fd);
}

void tcp_uring_quiesce(struct tcp_ep *ep, int wait_ms)
{
    struct tcp_poller *poller = ep->poller;
    bool flushing = ep->tx.flushing;

    if (ep->fd < 0 || progress_forked(poller->progress))
        return;
    tcp_send_reclaim(ep);
    ep->tx.flushing = true; /* reports must not send */
    stop_requests(ep);
    tcp_flight_settle(ep);
    tcp_flight_wait(ep, wait_ms);
    tcp_flight_settle(ep);
    tcp_flight_abandon(ep);
    while (ep->uring.chained)
        ring_return_first(poller->ring, &ep->uring);
    ep->tx.flushing = flushing;
    list_detach(&ep->work);
    list_detach(&ep->uring.member);
    tell_sleepers(poller);
}

void tcp_uring_read_end(struct tcp_ep *ep)
{
    tcp_uring_progress(ep->poller);
    if (!tcp_ep_ending(ep))
        return;
    /* The completion may wait for the submitting thread, or the kernel: wait a little, so that a
     * caller that tries again does not spin. */
    ring_wait(ep->poller->ring, LOOK_MS);
    tcp_uring_progress(ep->poller);
}
