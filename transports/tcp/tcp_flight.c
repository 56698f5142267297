/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One request to send is under way at a time, so that the stream is in order; only sends without a
 * copy may overlap, since their memory comes back when the peer has acknowledged it.
 */
#include "transports/tcp/tcp_flight.h"

#include <errno.h>

#include "core/queue/wait.h"
#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_fault.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_ring.h"
#include "transports/tcp/tcp_send.h"

enum {
    LENT_MAX = 16, /* flights of one connection */
    SLICE_MS = 10, /* of a wait for the kernel's answer */
    RESET_MS = 5000,
};

static struct tcp_flight *newest(const struct tcp_uring *uring)
{
    return list_item(uring->flights.prev, struct tcp_flight, link);
}

/* Sends of the application that end when their bytes have left, and answers to reads: what else
 * refers to memory is reused at the word of the peer. */
static bool may_lend(const struct tcp_conn *conn, const struct tcp_op *op)
{
    const struct tcp_ring *ring = conn->poller->ring;

    return ring->zero_copy && !conn->uring->copying && !op->ack &&
           (op->kind == TCP_KIND_SEND || op->kind == TCP_KIND_WRITE ||
            op->kind == TCP_KIND_RESPONSE) &&
           tcp_gather_rest(conn->tx, op) >= conn->settings->zero_copy_size;
}

/* A record to be sent without a copy goes alone, as does each where one is in bad memory. */
static void choose(struct tcp_conn *conn, struct tcp_flight *flight)
{
    struct tcp_gather *gather = &flight->gather;
    size_t plain = 0;

    tcp_gather_all(conn->tx, gather, SIZE_MAX);
    while (plain < gather->op_count && !may_lend(conn, gather->ops[plain]))
        plain++;
    flight->zero_copy = !plain && gather->op_count;
    if (conn->uring->wary && gather->op_count)
        plain = 1;
    if (plain < gather->op_count)
        tcp_gather_cut(conn->tx, gather, plain ? plain : 1);
}

static void put_flight(struct tcp_ring *ring, struct tcp_flight *flight)
{
    list_detach(&flight->link);
    pool_put(&ring->flights, flight);
}

/* False when there is nothing to send, or it has to wait. */
static bool depart(struct tcp_conn *conn)
{
    struct tcp_tx *tx = conn->tx;
    bool alone = list_empty(&conn->uring->flights);

    if (!tx->current && !tx->urgent.first && !tx->normal.first) {
        conn->uring->wary = false;
        return false;
    }
    struct tcp_flight *flight = pool_get(&conn->poller->ring->flights);
    if (!flight) {
        tcp_poller_work(conn);
        return false;
    }
    flight->conn = conn;
    flight->answered = flight->accounted = flight->lent = flight->returned = false;
    list_init(&flight->link);
    list_attach(&flight->link, &conn->uring->flights);
    choose(conn, flight);
    if (flight->gather.op_count && (alone || flight->zero_copy)) {
        if (ring_send(conn->poller->ring, flight))
            return true;
        tcp_poller_work(conn);
    }
    put_flight(conn->poller->ring, flight);
    return false;
}

/* False: not now. */
static bool refused(struct tcp_conn *conn, const struct tcp_flight *flight, int err)
{
    if (flight->zero_copy) { /* the same without tells what is wrong */
        conn->uring->copying = true;
        return true;
    }
    if (err == EFAULT && flight->gather.op_count > 1) {
        conn->uring->wary = true;
        return true;
    }
    if (err != ECANCELED && err != EINTR && err != EAGAIN &&
        tcp_fault_send(conn->tx, &flight->gather, err))
        return true;
    tcp_poller_work(conn);
    return false;
}

/* Takes what has left out of the queues. False when the kernel refused: not now. */
static bool account(struct tcp_conn *conn, struct tcp_flight *flight)
{
    int err = flight->result < 0 ? -flight->result : 0;

    flight->accounted = true;
    if (pcap_on(conn->flow) && flight->result > 0)
        pcap_sent(conn->flow, flight->gather.iov, flight->gather.iov_count, (size_t)flight->result);
    tcp_gather_left(conn->tx, &flight->gather, err ? 0 : (size_t)flight->result, &flight->done);
    return !err || refused(conn, flight, err);
}

bool tcp_flight_settle(struct tcp_conn *conn)
{
    struct list *flights = &conn->uring->flights;
    bool go_on = true;

    if (!list_empty(flights) && newest(conn->uring)->answered && !newest(conn->uring)->accounted)
        go_on = account(conn, newest(conn->uring));
    while (!list_empty(flights)) {
        struct tcp_flight *flight = list_item(flights->next, struct tcp_flight, link);
        struct tcp_queue done;

        if (!flight->accounted || flight->lent)
            break;
        done = flight->done;
        if (!done.first)
            done.end = &done.first;
        put_flight(conn->poller->ring, flight);
        tcp_send_left(conn->tx, &done);
    }
    return go_on;
}

struct tcp_op *tcp_flight_find(const struct tcp_conn *conn,
                               bool (*is)(const struct tcp_op *op, const void *context),
                               const void *context)
{
    list_for_each (pos, &conn->uring->flights) {
        const struct tcp_flight *flight = list_item(pos, struct tcp_flight, link);

        for (struct tcp_op *op = flight->accounted ? flight->done.first : NULL; op; op = op->next) {
            if (is(op, context))
                return op;
        }
        for (size_t i = 0; i < flight->gather.op_count && !flight->accounted; i++) {
            if (is(flight->gather.ops[i], context))
                return flight->gather.ops[i];
        }
    }
    return NULL;
}

static bool full(const struct tcp_uring *uring)
{
    unsigned count = 0;

    list_for_each (pos, &uring->flights)
        count++;
    return count >= LENT_MAX;
}

void tcp_flight_send(struct tcp_conn *conn)
{
    struct tcp_poller *poller = conn->poller;

    while (tcp_flight_settle(conn) && !conn->uring->sending && !conn->error && !full(conn->uring) &&
           depart(conn)) {
        if (poller->driving)
            return;
        ring_submit(poller->ring);
        ring_reap(poller->ring);
    }
}

static bool lent(const struct tcp_uring *uring)
{
    list_for_each (pos, &uring->flights) {
        if (list_item(pos, struct tcp_flight, link)->lent)
            return true;
    }
    return false;
}

void tcp_flight_wait(struct tcp_conn *conn, int wait_ms)
{
    struct tcp_ring *ring = conn->poller->ring;
    long long start = clock_ms();

    while (lent(conn->uring) && !ring->refused && wait_left(wait_ms, start) > 0)
        ring_wait(ring, SLICE_MS);
    if (!lent(conn->uring))
        return;
    ring_reset(conn->fd);
    start = clock_ms();
    while (lent(conn->uring) && !ring->refused && wait_left(RESET_MS, start) > 0)
        ring_wait(ring, SLICE_MS);
}

void tcp_flight_abandon(struct tcp_conn *conn)
{
    list_for_each_safe (pos, after, &conn->uring->flights) {
        struct tcp_flight *flight = list_item(pos, struct tcp_flight, link);

        if (!flight->lent)
            continue;
        list_detach(&flight->link);
        flight->conn = NULL;
        if (flight->accounted && flight->done.first)
            tcp_send_left(conn->tx, &flight->done);
    }
}
