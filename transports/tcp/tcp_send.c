/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records wait in two queues; a flush gathers as many as fit into one sendmsg: the rest of the
 * record that has left in part, then answers, then operations in the order of their posts. Records
 * that the kernel took are popped first and reported afterwards, since a report may call back and
 * post.
 */
#include "transports/tcp/tcp_send.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "transports/tcp/tcp_acks.h"
#include "transports/tcp/tcp_atomic.h"
#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_fault.h"
#include "transports/tcp/tcp_gather.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_rx.h"
#include "transports/tcp/tcp_uring.h"

enum {
    COMPANY = 4,      /* reads under way that one more may wait with */
    READS_BATCH = 32, /* reads that are worth a system call of their own */
    /* Bytes after which a system call takes no further record: sent records are reported before the
     * rest is copied. */
    ENOUGH = 128 * 1024,
};

static void response_sent(struct tcp_tx *tx, struct tcp_op *op)
{
    if (op->target)
        mr_accessed(op->target->mr, op->target->mr_count, FI_REMOTE_READ);
    bool counted = !op->target || mr_counted(op->target->mr, op->target->mr_count);
    tcp_op_put(tx, op);
    if (counted)
        complete(&tx->conn->base->binding, BIND_REMOTE_READ, false, NULL, 0, 0, NULL, 0, 0,
                 FI_ADDR_NOTAVAIL);
}

/* A whole record is with the kernel. */
static void op_left(struct tcp_tx *tx, struct tcp_op *op)
{
    switch ((enum tcp_op_kind)op->kind) {
    case TCP_KIND_CONTROL:
    case TCP_KIND_ANSWER: tcp_op_put(tx, op); break;
    case TCP_KIND_RESPONSE: response_sent(tx, op); break;
    case TCP_KIND_RTS:
        op->waiting = true;
        tx->rndv_waiting++;
        if (op->answered)
            tcp_acks_clear(tx, op->rndv);
        break;
    case TCP_KIND_ATOMIC:
        tcp_atomic_put(tx->conn->poller, op->atomic);
        op->atomic = NULL;
        /* fallthrough */
    case TCP_KIND_READ:
        if (!tcp_acks_answered(tx, op))
            tcp_queue_push(&tx->reads, op);
        break;
    case TCP_KIND_SEND:
    case TCP_KIND_WRITE:
        if (op->answered)
            tcp_acks_answered(tx, op);
        else if (op->ack)
            tcp_queue_push(&tx->acks, op);
        else
            tcp_op_complete(tx, op);
        break;
    }
}

void tcp_send_left(struct tcp_tx *tx, struct tcp_queue *done)
{
    while (done->first)
        op_left(tx, tcp_queue_pop(done));
}

/* Accounts for `sent` of the gathered bytes. */
static void left(struct tcp_tx *tx, const struct tcp_gather *gather, size_t sent)
{
    struct tcp_queue done;

    tcp_gather_left(tx, gather, sent, &done);
    tcp_send_left(tx, &done);
}

/* The thread of open stages. */
static ssize_t send_ahead(struct tcp_coalesce *coalesce)
{
    struct tcp_tx *tx = object_of(coalesce, struct tcp_tx, coalesce);
    struct tcp_gather gather;

    tcp_gather_all(tx, &gather, SIZE_MAX);
    ssize_t sent = gather.op_count ? tcp_gather_send(&gather, tx->conn->fd) : 0;
    if (pcap_on(tx->conn->flow) && sent > 0)
        pcap_sent(tx->conn->flow, gather.iov, gather.iov_count, (size_t)sent);
    return sent;
}

void tcp_send_init(struct tcp_tx *tx, struct tcp_conn *conn, unsigned limit)
{
    memset(tx, 0, sizeof(*tx));
    tcp_queue_init(&tx->urgent);
    tcp_queue_init(&tx->normal);
    tcp_queue_init(&tx->acks);
    tcp_queue_init(&tx->reads);
    tx->conn = conn;
    tx->limit = limit;
    tcp_coalesce_init(&tx->coalesce, conn, send_ahead);
}

void tcp_send_reclaim(struct tcp_tx *tx)
{
    struct tcp_gather gather;
    bool flushing = tx->flushing;
    size_t ahead;

    if (__builtin_expect(!tx->coalesce.open, 1))
        return;
    tcp_coalesce_close(&tx->coalesce);
    ahead = tx->coalesce.ahead;
    if (!ahead)
        return;
    tx->coalesce.ahead = 0;
    tcp_gather_all(tx, &gather, SIZE_MAX);
    /* Posts of the upper from inside reports must not overtake records that left unlisted. */
    tx->flushing = true;
    left(tx, &gather, ahead);
    tx->flushing = flushing;
    if (tx->normal.first)
        tcp_poller_work(tx->conn);
}

/* Which of them is in bad memory shows when one goes alone. */
static ssize_t send_gathered(const struct tcp_tx *tx, struct tcp_gather *gather)
{
    ssize_t sent = tcp_gather_send(gather, tx->conn->fd);

    if (__builtin_expect(sent < 0, 0) && errno == EFAULT && gather->op_count > 1) {
        tcp_gather_cut(tx, gather, 1);
        sent = tcp_gather_send(gather, tx->conn->fd);
    }
    if (pcap_on(tx->conn->flow) && sent > 0)
        pcap_sent(tx->conn->flow, gather->iov, gather->iov_count, (size_t)sent);
    return sent;
}

/* True: again. */
static bool not_sent(struct tcp_tx *tx, const struct tcp_gather *gather, int err)
{
    if (err == EINTR)
        return true;
    if (err != EAGAIN && err != EWOULDBLOCK)
        return tcp_fault_send(tx, gather, err);
    tcp_poller_block(tx->conn, true);
    return false;
}

/* One system call. False when there is nothing to do now. */
static bool flush_once(struct tcp_tx *tx)
{
    struct tcp_gather gather;

    if (__builtin_expect(tx->from_regions != 0, 0) && tcp_fault_regions(tx))
        return false;
    tcp_gather_all(tx, &gather, ENOUGH);
    if (!gather.op_count)
        return false;
    ssize_t sent = send_gathered(tx, &gather);
    if (sent < 0)
        return not_sent(tx, &gather, errno);
    if ((size_t)sent < gather.bytes)
        tcp_poller_block(tx->conn, false);
    left(tx, &gather, (size_t)sent);
    return !tx->conn->blocked;
}

void tcp_send_flush(struct tcp_tx *tx)
{
    tcp_send_reclaim(tx);
    if (tx->flushing || tx->conn->blocked || tx->conn->error || tx->conn->fd < 0)
        return;
    if (tx->normal.count >= TCP_GATHER_OPS / 4)
        tcp_coalesce_gathered(&tx->coalesce);
    tx->flushing = true;
    atomic_fetch_add_explicit(&tx->coalesce.turn, 1, memory_order_relaxed);
    if (tx->conn->poller->io)
        tx->conn->poller->io->send(tx->conn);
    else
        while ((tx->current || tx->urgent.first || tx->normal.first) && flush_once(tx))
            ;
    tx->flushing = false;
    if (tx->conn->rx->stash && !tcp_rx_choked(tx->conn->rx))
        tcp_poller_work(tx->conn);
}

/* Posts of the upper from inside a report leave when progress returns. */
static bool may_wait(struct tcp_tx *tx, const struct tcp_op *op, bool more)
{
    if (more || tx->conn->poller->driving)
        return true;
    return !op->fence &&
           tcp_coalesce_wants(&tx->coalesce, tcp_op_size(op),
                              op->kind == TCP_KIND_READ && tx->reads.count >= COMPANY);
}

/* While reads gather here the peer has hardly one to answer. Were a whole window sent in one call,
 * each side would be idle while the other one works: two halves keep both at it. */
static bool keeps_peer_waiting(const struct tcp_tx *tx, const struct tcp_op *op)
{
    return op->kind == TCP_KIND_READ && tx->normal.count >= READS_BATCH &&
           4 * tx->reads.count <= tx->normal.count;
}

void tcp_send_began(struct tcp_tx *tx, struct tcp_op *op, size_t sent)
{
    tx->current = op;
    tx->sent = sent;
    tcp_poller_block(tx->conn, false);
}

/* A record of one piece while nothing else is to be sent, the common case of a lone message. False,
 * and nothing done, when that is not so or the kernel says no. */
static bool send_alone(struct tcp_tx *tx, struct tcp_op *op)
{
    size_t more;

    tcp_op_iov(op, &more);
    if (tx->normal.first || tx->urgent.first || tx->current || tx->flushing || tx->conn->blocked ||
        tx->conn->error || more || op->fence || tx->conn->fd < 0)
        return false;
    op->bytes[TCP_WIRE_ID] = tx->id;
    ssize_t sent = send(tx->conn->fd, op->bytes, op->head, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0)
        return false;
    if (pcap_on(tx->conn->flow))
        pcap_sent(tx->conn->flow, &(struct iovec){op->bytes, op->head}, 1, (size_t)sent);
    tx->id++;
    if (sent < op->head) {
        tcp_send_began(tx, op, (size_t)sent);
        return true;
    }
    /* Posts of the upper from inside the report go out behind it. */
    tx->flushing = true;
    op_left(tx, op);
    tx->flushing = false;
    if (tx->normal.first || tx->urgent.first)
        tcp_send_flush(tx);
    return true;
}

void tcp_send_post(struct tcp_tx *tx, struct tcp_op *op, bool more)
{
    struct tcp_queue *queue = &tx->normal;

    tcp_send_reclaim(tx);
    bool wait = may_wait(tx, op, more);
    if (!wait && !tx->conn->poller->io && send_alone(tx, op))
        return;
    tcp_queue_push(queue, op);
    if (!wait || queue->count >= TCP_GATHER_OPS || keeps_peer_waiting(tx, op)) {
        tcp_send_flush(tx);
    } else {
        tcp_poller_work(tx->conn);
        /* The thread must not send beside a request to the ring. */
        if (!tx->conn->poller->driving && !tx->flushing && tx->coalesce.joined &&
            !tx->from_regions && list_empty(&tx->conn->uring->flights))
            tcp_coalesce_open(&tx->coalesce);
    }
}

void tcp_send_finish(struct tcp_tx *tx, int err)
{
    struct tcp_queue all;

    tcp_queue_init(&all);
    tcp_acks_give_up(tx, &all);
    if (tx->current)
        tcp_queue_push(&all, tx->current);
    tx->current = NULL;
    tcp_queue_move(&tx->urgent, &all);
    tcp_queue_move(&tx->normal, &all);
    tcp_poller_unblock(tx->conn);
    while (all.first)
        tcp_op_end(tx, tcp_queue_pop(&all), err);
}
