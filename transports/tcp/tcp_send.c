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

#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_acks.h"
#include "transports/tcp/tcp_answer.h"
#include "transports/tcp/tcp_atomic.h"
#include "transports/tcp/tcp_ep.h"
#include "transports/tcp/tcp_fault.h"
#include "transports/tcp/tcp_gather.h"
#include "transports/tcp/tcp_uring.h"

enum {
    COMPANY = 4,      /* reads under way that one more may wait with */
    READS_BATCH = 32, /* reads that are worth a system call of their own */
    /* Bytes after which a system call takes no further record: sent records are reported before the
     * rest is copied. */
    ENOUGH = 128 * 1024,
};

void tcp_send_init(struct tcp_tx *tx, unsigned limit)
{
    memset(tx, 0, sizeof(*tx));
    tcp_queue_init(&tx->urgent);
    tcp_queue_init(&tx->normal);
    tcp_queue_init(&tx->acks);
    tcp_queue_init(&tx->reads);
    tx->limit = limit;
}

static void response_sent(struct tcp_ep *ep, struct tcp_op *op)
{
    if (op->target)
        mr_accessed(op->target->mr, op->target->mr_count, FI_REMOTE_READ);
    bool counted = !op->target || mr_counted(op->target->mr, op->target->mr_count);
    tcp_op_put(ep, op);
    if (counted)
        complete(&ep->base.binding, BIND_REMOTE_READ, false, NULL, 0, 0, NULL, 0, 0,
                 FI_ADDR_NOTAVAIL);
}

/* A whole record is with the kernel. */
static void op_left(struct tcp_ep *ep, struct tcp_op *op)
{
    switch ((enum tcp_op_kind)op->kind) {
    case TCP_KIND_CONTROL:
    case TCP_KIND_ANSWER: tcp_op_put(ep, op); break;
    case TCP_KIND_RESPONSE: response_sent(ep, op); break;
    case TCP_KIND_RTS:
        op->waiting = true;
        ep->tx.rndv_waiting++;
        if (op->answered)
            tcp_acks_clear(ep, op->rndv);
        break;
    case TCP_KIND_ATOMIC:
        tcp_atomic_put(ep->poller, op->atomic);
        op->atomic = NULL;
        /* fallthrough */
    case TCP_KIND_READ:
        if (!tcp_acks_answered(ep, op))
            tcp_queue_push(&ep->tx.reads, op);
        break;
    case TCP_KIND_SEND:
    case TCP_KIND_WRITE:
        if (op->answered)
            tcp_acks_answered(ep, op);
        else if (op->ack)
            tcp_queue_push(&ep->tx.acks, op);
        else
            tcp_op_complete(ep, op);
        break;
    }
}

/* promised: an event tells of room. Else less than all was taken, since there is no room for more,
 * or the memory of the rest cannot be read: the next attempt tells. */
static void set_blocked(struct tcp_ep *ep, bool promised)
{
    ep->tx.blocked = true;
    ep->tx.promised = promised;
    ep->poller->blocked++;
    tcp_poller_heat(ep->poller, ep);
    tcp_poller_arm(ep->poller, ep);
    if (!promised)
        tcp_poller_work(ep->poller, ep);
}

void tcp_send_left(struct tcp_ep *ep, struct tcp_queue *done)
{
    while (done->first)
        op_left(ep, tcp_queue_pop(done));
}

/* Accounts for `sent` of the gathered bytes. */
static void left(struct tcp_ep *ep, const struct tcp_gather *gather, size_t sent)
{
    struct tcp_queue done;

    tcp_gather_left(&ep->tx, gather, sent, &done);
    tcp_send_left(ep, &done);
}

ssize_t tcp_send_ahead(struct tcp_tx *tx, int fd)
{
    struct tcp_gather gather;

    tcp_gather_all(tx, &gather, SIZE_MAX);
    ssize_t sent = gather.op_count ? tcp_gather_send(&gather, fd) : 0;
    if (pcap_on(tx->flow) && sent > 0)
        pcap_sent(tx->flow, gather.iov, gather.iov_count, (size_t)sent);
    return sent;
}

void tcp_send_reclaim(struct tcp_ep *ep)
{
    struct tcp_gather gather;
    bool flushing = ep->tx.flushing;
    size_t ahead;

    if (__builtin_expect(!ep->coalesce.open, 1))
        return;
    tcp_coalesce_close(&ep->coalesce);
    ahead = ep->coalesce.ahead;
    if (!ahead)
        return;
    ep->coalesce.ahead = 0;
    tcp_gather_all(&ep->tx, &gather, SIZE_MAX);
    /* Posts of the upper from inside reports must not overtake records that left unlisted. */
    ep->tx.flushing = true;
    left(ep, &gather, ahead);
    ep->tx.flushing = flushing;
    if (ep->tx.normal.first)
        tcp_poller_work(ep->poller, ep);
}

/* Which of them is in bad memory shows when one goes alone. */
static ssize_t send_gathered(const struct tcp_ep *ep, struct tcp_gather *gather)
{
    ssize_t sent = tcp_gather_send(gather, ep->fd);

    if (__builtin_expect(sent < 0, 0) && errno == EFAULT && gather->op_count > 1) {
        tcp_gather_cut(&ep->tx, gather, 1);
        sent = tcp_gather_send(gather, ep->fd);
    }
    if (pcap_on(ep->tx.flow) && sent > 0)
        pcap_sent(ep->tx.flow, gather->iov, gather->iov_count, (size_t)sent);
    return sent;
}

/* True: again. */
static bool not_sent(struct tcp_ep *ep, const struct tcp_gather *gather, int err)
{
    if (err == EINTR)
        return true;
    if (err != EAGAIN && err != EWOULDBLOCK)
        return tcp_fault_send(ep, gather, err);
    set_blocked(ep, true);
    return false;
}

/* One system call. False when there is nothing to do now. */
static bool flush_once(struct tcp_ep *ep)
{
    struct tcp_tx *tx = &ep->tx;
    struct tcp_gather gather;

    tcp_gather_all(tx, &gather, ENOUGH);
    if (!gather.op_count)
        return false;
    ssize_t sent = send_gathered(ep, &gather);
    if (sent < 0)
        return not_sent(ep, &gather, errno);
    if ((size_t)sent < gather.bytes)
        set_blocked(ep, false);
    left(ep, &gather, (size_t)sent);
    return !tx->blocked;
}

void tcp_send_flush(struct tcp_ep *ep)
{
    struct tcp_tx *tx = &ep->tx;

    tcp_send_reclaim(ep);
    if (tx->flushing || tx->blocked || tx->error || ep->fd < 0)
        return;
    if (tx->normal.count >= TCP_GATHER_OPS / 4)
        tcp_coalesce_gathered(&ep->coalesce);
    tx->flushing = true;
    atomic_fetch_add_explicit(&ep->coalesce.turn, 1, memory_order_relaxed);
    if (ep->poller->ring)
        tcp_uring_send(ep);
    else
        while ((tx->current || tx->urgent.first || tx->normal.first) && flush_once(ep))
            ;
    tx->flushing = false;
    if (ep->rx.stash && !tcp_answer_choked(ep))
        tcp_poller_work(ep->poller, ep);
}

/* Posts of the upper from inside a report leave when progress returns. */
static bool may_wait(struct tcp_ep *ep, const struct tcp_op *op, bool more)
{
    if (more || ep->poller->driving)
        return true;
    return !op->fence &&
           tcp_coalesce_wants(&ep->coalesce, tcp_op_size(op),
                              op->kind == TCP_KIND_READ && ep->tx.reads.count >= COMPANY);
}

/* While reads gather here the peer has hardly one to answer. Were a whole window sent in one call,
 * each side would be idle while the other one works: two halves keep both at it. */
static bool keeps_peer_waiting(const struct tcp_tx *tx, const struct tcp_op *op)
{
    return op->kind == TCP_KIND_READ && tx->normal.count >= READS_BATCH &&
           4 * tx->reads.count <= tx->normal.count;
}

void tcp_send_began(struct tcp_ep *ep, struct tcp_op *op, size_t sent)
{
    ep->tx.current = op;
    ep->tx.sent = sent;
    set_blocked(ep, false);
}

/* A record of one piece while nothing else is to be sent, the common case of a lone message. False,
 * and nothing done, when that is not so or the kernel says no. */
static bool send_alone(struct tcp_ep *ep, struct tcp_op *op)
{
    struct tcp_tx *tx = &ep->tx;
    size_t more;

    tcp_op_iov(op, &more);
    if (tx->normal.first || tx->urgent.first || tx->current || tx->flushing || tx->blocked ||
        tx->error || more || op->fence || ep->fd < 0)
        return false;
    op->bytes[TCP_WIRE_ID] = tx->id;
    ssize_t sent = send(ep->fd, op->bytes, op->head, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0)
        return false;
    if (pcap_on(tx->flow))
        pcap_sent(tx->flow, &(struct iovec){op->bytes, op->head}, 1, (size_t)sent);
    tx->id++;
    if (sent < op->head) {
        tcp_send_began(ep, op, (size_t)sent);
        return true;
    }
    /* Posts of the upper from inside the report go out behind it. */
    tx->flushing = true;
    op_left(ep, op);
    tx->flushing = false;
    if (tx->normal.first || tx->urgent.first)
        tcp_send_flush(ep);
    return true;
}

void tcp_send_post(struct tcp_ep *ep, struct tcp_op *op, bool more)
{
    struct tcp_queue *queue = &ep->tx.normal;

    tcp_send_reclaim(ep);
    bool wait = may_wait(ep, op, more);
    if (!wait && !ep->poller->ring && send_alone(ep, op))
        return;
    tcp_queue_push(queue, op);
    if (!wait || queue->count >= TCP_GATHER_OPS || keeps_peer_waiting(&ep->tx, op)) {
        tcp_send_flush(ep);
    } else {
        tcp_poller_work(ep->poller, ep);
        /* The thread must not send beside a request to the ring. */
        if (!ep->poller->driving && !ep->tx.flushing && ep->coalesce.joined &&
            list_empty(&ep->uring.flights))
            tcp_coalesce_open(&ep->coalesce);
    }
}

void tcp_send_finish(struct tcp_ep *ep, int err)
{
    struct tcp_tx *tx = &ep->tx;
    struct tcp_queue all;

    tcp_queue_init(&all);
    tcp_acks_give_up(tx, &all);
    if (tx->current)
        tcp_queue_push(&all, tx->current);
    tx->current = NULL;
    tcp_queue_move(&tx->urgent, &all);
    tcp_queue_move(&tx->normal, &all);
    if (tx->blocked) {
        tx->blocked = false;
        ep->poller->blocked--;
    }
    while (all.first)
        tcp_op_end(ep, tcp_queue_pop(&all), err);
}
