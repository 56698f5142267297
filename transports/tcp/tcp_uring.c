/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the answers of the ring mean to a connection. One request to send is under way at a time, so
 * that the stream is in order; only sends without a copy may overlap, since their memory comes back
 * when the peer has acknowledged it. One request to receive is under way at a time, too: small
 * records come into buffers of the ring, a large payload is received into place, and then a short
 * receive fetches the next header alone, for as long as the records are large.
 */
#include "transports/tcp/tcp_uring.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <fcntl.h>

#include <rdma/fi_errno.h>

#include "core/wait.h"
#include "transports/tcp/tcp_ep.h"
#include "transports/tcp/tcp_ring.h"

enum {
    ROUNDS = 2,              /* of answers in one progress call: what it sends is often answered */
    DIRECT_MIN = 32 * 1024,  /* rest of a payload that is worth a request of its own */
    SWITCH_MIN = 256 * 1024, /* and the end of a receive into buffers */
    SHORT_READ = 512,
    LENT_MAX = 16, /* flights of one connection */
    SLICE_MS = 10, /* of a wait for the kernel's answer */
    END_MS = 100,  /* for the end of a stream that is known to be there */
    RESET_MS = 5000,
};

void tcp_uring_init(struct tcp_uring *uring)
{
    memset(uring, 0, sizeof(*uring));
    list_init(&uring->member);
    list_init(&uring->flights);
}

int tcp_uring_open(struct tcp_set *set, const char **why)
{
    return ring_open(set, &set->ring, why);
}

void tcp_uring_close(struct tcp_set *set)
{
    ring_close(set->ring);
    set->ring = NULL;
}

int tcp_uring_fd(const struct tcp_set *set)
{
    return set->ring->io.ring_fd;
}

/* ---- Sending ---- */

static struct tcp_flight *newest(const struct tcp_ep *ep)
{
    return list_item(ep->uring.flights.prev, struct tcp_flight, link);
}

/* Sends of the application that end when their bytes have left, and answers to reads: what else
 * refers to memory is reused at the word of the peer. */
static bool may_lend(const struct tcp_ep *ep, const struct tcp_op *op)
{
    const struct tcp_ring *ring = ep->set->ring;

    return ring->zero_copy && !ep->uring.copying && !op->ack &&
           (op->kind == TCP_KIND_SEND || op->kind == TCP_KIND_WRITE ||
            op->kind == TCP_KIND_RESPONSE) &&
           tcp_gather_rest(&ep->tx, op) >= ep->domain->fabric->settings.zero_copy_size;
}

/* A record to be sent without a copy goes alone. */
static void choose(struct tcp_ep *ep, struct tcp_flight *flight)
{
    struct tcp_gather *gather = &flight->gather;
    size_t plain = 0;

    tcp_gather_all(&ep->tx, gather);
    while (plain < gather->op_count && !may_lend(ep, gather->ops[plain]))
        plain++;
    flight->zero_copy = !plain && gather->op_count;
    if (plain < gather->op_count)
        tcp_gather_cut(&ep->tx, gather, plain ? plain : 1);
}

static void put_flight(struct tcp_ep *ep, struct tcp_flight *flight)
{
    list_detach(&flight->link);
    pool_put(&ep->set->ring->flights, flight);
}

/* False when there is nothing to send, or it has to wait. */
static bool depart(struct tcp_ep *ep)
{
    struct tcp_tx *tx = &ep->tx;
    bool alone = list_empty(&ep->uring.flights);

    if (!tx->current && !tx->urgent.first && !tx->normal.first)
        return false;
    struct tcp_flight *flight = pool_get(&ep->set->ring->flights);
    if (!flight) {
        tcp_set_work(ep->set, ep);
        return false;
    }
    flight->ep = ep;
    flight->answered = flight->accounted = flight->lent = flight->returned = false;
    list_init(&flight->link);
    list_attach(&flight->link, &ep->uring.flights);
    choose(ep, flight);
    if (flight->gather.op_count && (alone || flight->zero_copy)) {
        if (ring_send(ep->set->ring, flight))
            return true;
        tcp_set_work(ep->set, ep);
    }
    put_flight(ep, flight);
    return false;
}

/* Takes what has left out of the queues. False when the kernel refused: not now. */
static bool account(struct tcp_ep *ep, struct tcp_flight *flight)
{
    int err = flight->result < 0 ? -flight->result : 0;

    flight->accounted = true;
    tcp_gather_left(ep, &flight->gather, err ? 0 : (size_t)flight->result, &flight->done);
    if (!err)
        return true;
    if (flight->zero_copy) { /* the same without tells what is wrong */
        ep->uring.copying = true;
        return true;
    }
    if (err != ECANCELED && err != EINTR && err != EAGAIN)
        tcp_gather_failed(ep, err);
    tcp_set_work(ep->set, ep);
    return false;
}

/* Reports may post: more can have been gathered when this returns. */
static bool settle(struct tcp_ep *ep)
{
    struct list *flights = &ep->uring.flights;
    bool go_on = true;

    if (!list_empty(flights) && newest(ep)->answered && !newest(ep)->accounted)
        go_on = account(ep, newest(ep));
    while (!list_empty(flights)) {
        struct tcp_flight *flight = list_item(flights->next, struct tcp_flight, link);
        struct tcp_queue done;

        if (!flight->accounted || flight->lent)
            break;
        done = flight->done;
        if (!done.first)
            done.end = &done.first;
        put_flight(ep, flight);
        tcp_gather_report(ep, &done);
    }
    return go_on;
}

static bool full(const struct tcp_ep *ep)
{
    unsigned count = 0;

    list_for_each (pos, &ep->uring.flights)
        count++;
    return count >= LENT_MAX;
}

/* A connection that is not read has broken, and what is outstanding has not been told. */
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
    bool readable = !rx->paused && (!rx->stash || !tcp_tx_choked(ep));

    if (ep->fd < 0)
        return false;
    if (uring->chained || uring->placed || uring->hung_up || ep->set->ring->refused ||
        (readable && (rx->stash || uring->receiving == TCP_URING_NONE)) ||
        (!readable && broken_untold(ep)))
        return true;
    return list_empty(&uring->flights) && !tx->error &&
           (tx->current || tx->urgent.first || tx->normal.first);
}

/* Answers were taken from the ring that somebody who sleeps on its fd may wait for. */
static void tell_sleepers(struct tcp_set *set)
{
    if (!set->driving && !list_empty(&set->work) && unit_watched(set->unit))
        ring_poke(set->ring);
}

void tcp_uring_send(struct tcp_ep *ep)
{
    struct tcp_set *set = ep->set;

    if (unit_forked(set->unit))
        return;
    while (settle(ep) && !ep->uring.sending && !ep->tx.error && !full(ep) && depart(ep)) {
        if (set->driving)
            return;
        ring_submit(set->ring);
        ring_reap(set->ring);
    }
    if (set->driving)
        return;
    if (!pending(ep))
        list_detach(&ep->work);
    tell_sleepers(set);
}

void tcp_uring_send_all(struct tcp_ep *ep, int wait_ms)
{
    long long start = clock_ms();

    tcp_tx_flush(ep);
    while (!list_empty(&ep->uring.flights) && !ep->tx.error && !ep->set->ring->refused &&
           wait_left(wait_ms, start) > 0) {
        ring_wait(ep->set->ring, SLICE_MS);
        tcp_tx_flush(ep);
    }
}

/* ---- Receiving ---- */

/* Into the memory of a receive, a region or a read. A saved message may be matched, and its memory
 * be freed, while the kernel receives: that comes through buffers. */
static bool can_place(const struct tcp_rx *rx, uint64_t min)
{
    return rx->active && rx->left >= min && rx->dest.room >= min &&
           (!rx->inbound || rx->op == TCP_OP_DATA);
}

static void ask(struct tcp_ep *ep)
{
    struct tcp_ring *ring = ep->set->ring;
    struct tcp_uring *uring = &ep->uring;
    const struct tcp_rx *rx = &ep->rx;
    bool stopped = rx->paused || rx->stash;

    /* What has come goes before what a new request would receive into place. */
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
    } else if (can_place(rx, DIRECT_MIN)) {
        uring->large = ring_receive_direct(ring, ep) || uring->large;
    } else {
        ring_receive(ring, ep, uring->large && !rx->active ? SHORT_READ : 0);
    }
}

static int take_buffer(struct tcp_ep *ep)
{
    struct tcp_ring *ring = ep->set->ring;
    uint16_t id = ep->uring.first;
    const uint8_t *bytes = ring->buffers + (size_t)id * RING_BUFFER;
    size_t len = ring->len[id];
    int rc = 0;

    if (len && tap_on(ep->tx.flow))
        tap_received_buffer(ep->tx.flow, bytes, len);
    if (len && (ep->rx.stash || ep->rx.paused))
        rc = tcp_rx_keep(ep, bytes, len);
    else if (len)
        rc = tcp_rx_consume(ep, bytes, len);
    if (ep->fd < 0) /* a report ended the connection, and its buffers went back */
        return rc;
    ring_return_first(ring, ep);
    if (!ep->rx.active)
        ep->uring.large = false;
    return rc;
}

static int take_placed(struct tcp_ep *ep)
{
    size_t got = (size_t)ep->uring.placed;

    ep->uring.placed = 0;
    if (tap_on(ep->tx.flow)) {
        struct iovec iov[RING_SEGMENTS];
        size_t total, count = tcp_dest_iov(&ep->rx.dest, got, iov, RING_SEGMENTS, &total);

        tap_received(ep->tx.flow, iov, count, got);
    }
    return tcp_rx_placed(ep, got);
}

/* What came, in order. All buffers go back: what cannot be read is kept. */
static int take(struct tcp_ep *ep)
{
    struct tcp_uring *uring = &ep->uring;
    int rc = uring->placed ? take_placed(ep) : 0;

    if (!rc)
        rc = tcp_rx_unstash(ep);
    while (!rc && ep->fd >= 0 && uring->chained)
        rc = take_buffer(ep);
    if (!rc && uring->ended && !ep->rx.stash && !ep->rx.paused)
        rc = uring->error ? uring->error : tcp_rx_end(&ep->rx);
    return rc;
}

/* A connection that is not read has broken: nothing can be sent, what has arrived waits. */
static void break_paused(struct tcp_ep *ep)
{
    bool broken = ep->uring.hung_up || (ep->uring.ended && ep->uring.error);

    ep->uring.hung_up = false;
    if (!ep->rx.paused && !ep->rx.stash)
        return;
    if (broken && !ep->tx.error)
        ep->tx.error = FI_ECONNRESET;
    if (ep->tx.error && list_empty(&ep->uring.flights))
        tcp_tx_finish(ep, ep->tx.error);
}

static void go_on(struct tcp_ep *ep)
{
    bool flushing = ep->tx.flushing;

    if (ep->fd < 0)
        return;
    tcp_tx_reclaim(ep);
    ep->tx.flushing = true;
    settle(ep);
    ep->tx.flushing = flushing;
    int rc = ep->set->ring->refused ? ep->set->ring->refused : take(ep);
    if (rc == -FI_ENOTCONN) {
        tcp_set_end(ep->set, ep);
        return;
    }
    if (rc < 0) {
        tcp_ep_fail(ep, ep->tx.error ? ep->tx.error : -rc);
        return;
    }
    if (ep->fd < 0)
        return;
    break_paused(ep);
    tcp_tx_flush(ep);
    if (ep->fd >= 0)
        ask(ep);
}

/* ---- Progress ---- */

static void work_off(struct tcp_set *set)
{
    struct list todo;

    list_init(&todo);
    list_join(&set->work, &todo);
    while (!list_empty(&todo)) {
        struct tcp_ep *ep = list_item(todo.next, struct tcp_ep, work);

        list_detach(&ep->work);
        go_on(ep);
    }
}

void tcp_uring_progress(struct tcp_set *set)
{
    if (set->driving || unit_forked(set->unit))
        return;
    set->epoch++;
    set->driving = true;
    for (int round = 0; round < ROUNDS; round++) {
        ring_collect(set->ring);
        ring_reap(set->ring);
        if (list_empty(&set->work))
            break;
        work_off(set);
        /* What reports made others post. */
        work_off(set);
        ring_submit(set->ring);
    }
    if (tcp_set_fail_ended(set)) {
        work_off(set);
        ring_submit(set->ring);
    }
    set->driving = false;
    tell_sleepers(set);
}

int tcp_uring_trywait(struct tcp_set *set)
{
    struct io_uring *io = &set->ring->io;

    ring_submit(set->ring);
    ring_collect(set->ring);
    if (!list_empty(&set->work))
        return -FI_EAGAIN;
    return !set->ring->refused && (io_uring_sq_ready(io) || io_uring_cq_ready(io)) ? -FI_EAGAIN : 0;
}

/* ---- Connections ---- */

int tcp_uring_add(struct tcp_ep *ep)
{
    int flags = fcntl(ep->fd, F_GETFL);

    if (ep->set->ring->refused)
        return ep->set->ring->refused;
    /* The kernel does not wait with a request for a socket that says that it must not. */
    if (flags < 0 || fcntl(ep->fd, F_SETFL, flags & ~O_NONBLOCK))
        return -errno;
    tcp_uring_init(&ep->uring);
    list_attach(&ep->uring.member, &ep->set->ring->members);
    ask(ep);
    ring_submit(ep->set->ring);
    tell_sleepers(ep->set);
    return 0;
}

static bool lent(const struct tcp_ep *ep)
{
    list_for_each (pos, &ep->uring.flights) {
        if (list_item(pos, struct tcp_flight, link)->lent)
            return true;
    }
    return false;
}

/* Drops what the kernel has of a connection's unacknowledged data, and the memory comes back. */
static void reset(int fd)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};

    (void)connect(fd, &none, sizeof(none));
}

static void wait_lent(struct tcp_ep *ep, int wait_ms)
{
    struct tcp_ring *ring = ep->set->ring;
    long long start = clock_ms();

    while (lent(ep) && !ring->refused && wait_left(wait_ms, start) > 0)
        ring_wait(ring, SLICE_MS);
    if (!lent(ep))
        return;
    reset(ep->fd);
    start = clock_ms();
    while (lent(ep) && !ring->refused && wait_left(RESET_MS, start) > 0)
        ring_wait(ring, SLICE_MS);
}

/* Whatever the kernel still reads now stays until it says so, or until the ring is closed. */
static void abandon_lent(struct tcp_ep *ep)
{
    list_for_each_safe (pos, after, &ep->uring.flights) {
        struct tcp_flight *flight = list_item(pos, struct tcp_flight, link);

        if (!flight->lent)
            continue;
        list_detach(&flight->link);
        flight->ep = NULL;
        if (flight->accounted && flight->done.first)
            tcp_gather_report(ep, &flight->done);
    }
}

static void stop_requests(struct tcp_ep *ep)
{
    struct tcp_ring *ring = ep->set->ring;

    ring_submit(ring);
    ring_reap(ring);
    while ((ep->uring.asked || ep->uring.sending) && !ring->refused) {
        ring_cancel_all(ring, ep);
        ring_reap(ring);
        if (ep->uring.asked || ep->uring.sending)
            ring_wait(ring, SLICE_MS);
    }
    /* What the kernel cannot be asked to cancel must find nothing to put into memory of ours. */
    if (ep->uring.asked || ep->uring.sending)
        reset(ep->fd);
}

void tcp_uring_quiesce(struct tcp_ep *ep, int wait_ms)
{
    struct tcp_set *set = ep->set;
    bool flushing = ep->tx.flushing;

    if (ep->fd < 0 || unit_forked(set->unit))
        return;
    tcp_tx_reclaim(ep);
    ep->tx.flushing = true; /* reports must not send */
    stop_requests(ep);
    settle(ep);
    wait_lent(ep, wait_ms);
    settle(ep);
    abandon_lent(ep);
    while (ep->uring.chained)
        ring_return_first(set->ring, ep);
    ep->tx.flushing = flushing;
    list_detach(&ep->work);
    list_detach(&ep->uring.member);
    tell_sleepers(set);
}

void tcp_uring_read_end(struct tcp_ep *ep)
{
    long long start = clock_ms();

    do {
        tcp_uring_progress(ep->set);
        if (ep->fd < 0 || ep->rx.paused || ep->rx.stash)
            return;
        ring_wait(ep->set->ring, 1);
    } while (!ep->set->ring->refused && wait_left(END_MS, start) > 0);
    tell_sleepers(ep->set);
}
