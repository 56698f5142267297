/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records wait in two queues; a flush gathers as many as fit into one sendmsg: the rest of the
 * record that has left in part, then answers, then operations in the order of their posts. What the
 * kernel took is popped first and reported afterwards, since a report may call back and post.
 */
#include "transports/tcp/tcp_tx.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_atomic.h"
#include "transports/tcp/tcp_ep.h"
#include "transports/tcp/tcp_gather.h"
#include "transports/tcp/tcp_uring.h"

enum {
    GATHER_OPS = TCP_GATHER_OPS,
    GATHER_IOV = TCP_GATHER_IOV,
    CHOKE = 1024, /* answers waiting to leave */
    RNDV_CONTEXTS = 254,
    ID_OFFSET = 7, /* of the counter in a header */
};

static void queue_init(struct tcp_queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
    queue->count = 0;
}

static void queue_push(struct tcp_queue *queue, struct tcp_op *op)
{
    op->next = NULL;
    *queue->end = op;
    queue->end = &op->next;
    queue->count++;
}

static struct tcp_op *queue_pop(struct tcp_queue *queue)
{
    struct tcp_op *op = queue->first;

    queue->first = op->next;
    if (!queue->first)
        queue->end = &queue->first;
    queue->count--;
    return op;
}

void tcp_tx_init(struct tcp_tx *tx, unsigned limit)
{
    memset(tx, 0, sizeof(*tx));
    queue_init(&tx->urgent);
    queue_init(&tx->normal);
    queue_init(&tx->acks);
    queue_init(&tx->reads);
    tx->limit = limit;
}

static struct tcp_op *op_get(struct tcp_ep *ep, enum tcp_op_kind kind)
{
    struct tcp_op *op = pool_get(&ep->set->ops);

    if (!op)
        return NULL;
    op->kind = (uint8_t)kind;
    op->target = NULL;
    op->atomic = NULL;
    op->wanted = false;
    op->ack = false;
    op->fence = false;
    op->waiting = false;
    op->rndv = 0;
    op->iov_count = 0;
    return op;
}

struct tcp_op *tcp_tx_get(struct tcp_ep *ep)
{
    if (ep->tx.posted >= ep->tx.limit)
        return NULL;
    struct tcp_op *op = op_get(ep, TCP_KIND_SEND);
    if (op)
        ep->tx.posted++;
    return op;
}

static bool is_application(const struct tcp_op *op)
{
    return op->kind != TCP_KIND_CONTROL && op->kind != TCP_KIND_RESPONSE &&
           op->kind != TCP_KIND_ANSWER;
}

void tcp_tx_put(struct tcp_ep *ep, struct tcp_op *op)
{
    if (is_application(op))
        ep->tx.posted--;
    if (op->target)
        tcp_target_release(ep, op->target);
    tcp_atomic_put(ep, op->atomic);
    pool_put(&ep->set->ops, op);
}

void tcp_target_release(struct tcp_ep *ep, struct tcp_target *target)
{
    for (unsigned i = 0; i < target->mr_count; i++)
        mr_release(target->mr[i]);
    pool_put(&ep->set->targets, target);
}

static size_t copy_from_iov(uint8_t *to, const struct iovec *iov, size_t count)
{
    size_t done = 0;

    for (size_t i = 0; i < count; i++) {
        if (iov[i].iov_len)
            memcpy(to + done, iov[i].iov_base, iov[i].iov_len);
        done += iov[i].iov_len;
    }
    return done;
}

void tcp_tx_build(struct tcp_ep *ep, struct tcp_op *op, const struct tcp_wire *wire,
                  const struct iovec *iov, size_t count)
{
    size_t head = tcp_wire_encode(wire, ep->network, op->bytes);

    op->iov_count = 0;
    if (wire->payload && wire->payload <= ep->domain->fabric->settings.max_inject) {
        head += copy_from_iov(op->bytes + head, iov, count);
    } else {
        for (size_t i = 0; i < count; i++) {
            if (iov[i].iov_len)
                op->iov[op->iov_count++] = iov[i];
        }
    }
    op->head = (uint16_t)head;
}

/* What of op goes out behind its `bytes`. */
static const struct iovec *op_iov(const struct tcp_op *op, size_t *count)
{
    if (op->kind == TCP_KIND_RTS || op->kind == TCP_KIND_READ) {
        *count = 0;
        return NULL;
    }
    if (op->kind == TCP_KIND_ATOMIC || op->kind == TCP_KIND_ANSWER) {
        *count = op->atomic ? 1 : 0;
        return op->atomic ? &op->atomic->bytes : NULL;
    }
    if (op->target) {
        *count = op->target->iov_count;
        return op->target->iov;
    }
    *count = op->iov_count;
    return op->iov;
}

static void gather_part(struct tcp_gather *gather, void *base, size_t len, size_t *skip)
{
    if (*skip >= len) {
        *skip -= len;
        return;
    }
    struct iovec *iov = &gather->iov[gather->iov_count++];
    iov->iov_base = (char *)base + *skip;
    iov->iov_len = len - *skip;
    gather->bytes += iov->iov_len;
    *skip = 0;
}

/* False when there is no room for all of op. */
static bool gather_op(struct tcp_gather *gather, struct tcp_op *op, size_t skip)
{
    size_t count;
    const struct iovec *iov = op_iov(op, &count);

    if (gather->op_count == GATHER_OPS || gather->iov_count + count + 1 > GATHER_IOV)
        return false;
    gather->ops[gather->op_count++] = op;
    gather_part(gather, op->bytes, op->head, &skip);
    for (size_t i = 0; i < count; i++)
        gather_part(gather, iov[i].iov_base, iov[i].iov_len, &skip);
    return true;
}

static bool gather_new(struct tcp_gather *gather, struct tcp_op *op, uint8_t *id)
{
    op->bytes[ID_OFFSET] = *id;
    if (!gather_op(gather, op, 0))
        return false;
    ++*id;
    return true;
}

static void gather_all(const struct tcp_tx *tx, struct tcp_gather *gather)
{
    uint8_t id = tx->id;

    gather->iov_count = gather->op_count = gather->bytes = 0;
    if (tx->current)
        gather_op(gather, tx->current, tx->sent);
    for (struct tcp_op *op = tx->urgent.first; op; op = op->next) {
        if (!gather_new(gather, op, &id))
            return;
    }
    bool before = tx->current || tx->acks.count || tx->reads.count || tx->rndv_count;
    for (struct tcp_op *op = tx->normal.first; op; op = op->next) {
        if (op->fence && before)
            return;
        if (!gather_new(gather, op, &id))
            return;
        before = true;
    }
}

static ssize_t gather_send(const struct tcp_gather *gather, int fd)
{
    if (gather->iov_count == 1)
        return send(fd, gather->iov[0].iov_base, gather->iov[0].iov_len,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    const struct msghdr message = {.msg_iov = (struct iovec *)gather->iov,
                                   .msg_iovlen = gather->iov_count};
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static size_t op_size(const struct tcp_op *op)
{
    size_t count, size = op->head;
    const struct iovec *iov = op_iov(op, &count);

    for (size_t i = 0; i < count; i++)
        size += iov[i].iov_len;
    return size;
}

/* Takes what was sent out of the queues: whole records to `done`, the rest of one to current. */
static void advance(struct tcp_tx *tx, const struct tcp_gather *gather, size_t sent,
                    struct tcp_queue *done)
{
    for (size_t i = 0; i < gather->op_count && sent; i++) {
        struct tcp_op *op = gather->ops[i];

        assert(op);
        size_t already = op == tx->current ? tx->sent : 0;
        size_t rest = op_size(op) - already;

        if (op != tx->current) {
            queue_pop(op == tx->urgent.first ? &tx->urgent : &tx->normal);
            tx->id++;
        }
        if (sent < rest) {
            tx->current = op;
            tx->sent = already + sent;
            return;
        }
        sent -= rest;
        tx->current = NULL;
        queue_push(done, op);
    }
}

static enum report_kind report_of(const struct tcp_op *op)
{
    if (op->kind == TCP_KIND_ATOMIC)
        return op->flags & FI_READ ? REPORT_READ : REPORT_WRITE;
    if (op->kind == TCP_KIND_WRITE)
        return REPORT_WRITE;
    return op->kind == TCP_KIND_READ ? REPORT_READ : REPORT_SEND;
}

static void complete(struct tcp_ep *ep, struct tcp_op *op)
{
    enum report_kind kind = report_of(op);
    void *context = op->context;
    uint64_t flags = op->flags;
    bool wanted = op->wanted;

    tcp_tx_put(ep, op);
    report_done(&ep->report, kind, wanted, context, flags, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

static void response_sent(struct tcp_ep *ep, struct tcp_op *op)
{
    for (unsigned i = 0; op->target && i < op->target->mr_count; i++) {
        if (op->target->mr[i]->remote_read)
            cntr_add_one(op->target->mr[i]->remote_read);
    }
    bool counted = !op->target || mr_counted(op->target->mr, op->target->mr_count);
    tcp_tx_put(ep, op);
    if (counted)
        report_done(&ep->report, REPORT_REMOTE_READ, false, NULL, 0, 0, NULL, 0, 0,
                    FI_ADDR_NOTAVAIL);
}

/* A whole record is with the kernel. */
static void op_left(struct tcp_ep *ep, struct tcp_op *op)
{
    switch ((enum tcp_op_kind)op->kind) {
    case TCP_KIND_CONTROL:
    case TCP_KIND_ANSWER: tcp_tx_put(ep, op); break;
    case TCP_KIND_RESPONSE: response_sent(ep, op); break;
    case TCP_KIND_RTS: op->waiting = true; break;
    case TCP_KIND_ATOMIC:
        tcp_atomic_put(ep, op->atomic);
        op->atomic = NULL;
        queue_push(&ep->tx.reads, op);
        break;
    case TCP_KIND_READ: queue_push(&ep->tx.reads, op); break;
    case TCP_KIND_SEND:
    case TCP_KIND_WRITE:
        if (op->ack)
            queue_push(&ep->tx.acks, op);
        else
            complete(ep, op);
        break;
    }
}

static void set_blocked(struct tcp_ep *ep)
{
    ep->tx.blocked = true;
    ep->set->blocked++;
    tcp_set_heat(ep->set, ep);
    tcp_set_arm(ep->set, ep);
}

/* The socket takes no more. What the peer sent before it broke still counts: read it first. */
static void send_failed(struct tcp_ep *ep, int err)
{
    if (err == ENOBUFS || err == ENOMEM) {
        tcp_set_work(ep->set, ep);
        return;
    }
    ep->tx.error = err == EPIPE ? FI_ECONNRESET : err;
    ep->rx.ended = true;
    tcp_set_work(ep->set, ep);
}

/* Accounts for `sent` bytes of what was gathered. */
static void left(struct tcp_ep *ep, const struct tcp_gather *gather, size_t sent)
{
    struct tcp_queue done;

    queue_init(&done);
    advance(&ep->tx, gather, sent, &done);
    while (done.first)
        op_left(ep, queue_pop(&done));
}

void tcp_gather_all(const struct tcp_tx *tx, struct tcp_gather *gather)
{
    gather_all(tx, gather);
}

size_t tcp_gather_rest(const struct tcp_tx *tx, const struct tcp_op *op)
{
    return op_size(op) - (op == tx->current ? tx->sent : 0);
}

void tcp_gather_cut(const struct tcp_tx *tx, struct tcp_gather *gather, size_t count)
{
    size_t before = gather->op_count;

    assert(count <= before);
    gather->iov_count = gather->op_count = gather->bytes = 0;
    for (size_t i = 0; i < count; i++)
        gather_op(gather, gather->ops[i], gather->ops[i] == tx->current ? tx->sent : 0);
}

void tcp_gather_left(struct tcp_ep *ep, const struct tcp_gather *gather, size_t sent,
                     struct tcp_queue *done)
{
    if (tap_on(ep->tx.flow) && sent)
        tap_sent(ep->tx.flow, gather->iov, gather->iov_count, sent);
    queue_init(done);
    advance(&ep->tx, gather, sent, done);
}

void tcp_gather_report(struct tcp_ep *ep, struct tcp_queue *done)
{
    while (done->first)
        op_left(ep, queue_pop(done));
}

void tcp_gather_failed(struct tcp_ep *ep, int err)
{
    send_failed(ep, err);
}

ssize_t tcp_tx_send_ahead(struct tcp_tx *tx, int fd)
{
    struct tcp_gather gather;

    gather_all(tx, &gather);
    ssize_t sent = gather.op_count ? gather_send(&gather, fd) : 0;
    if (tap_on(tx->flow) && sent > 0)
        tap_sent(tx->flow, gather.iov, gather.iov_count, (size_t)sent);
    return sent;
}

void tcp_tx_reclaim(struct tcp_ep *ep)
{
    struct tcp_gather gather;
    size_t ahead;

    if (__builtin_expect(!ep->stage.open, 1))
        return;
    tcp_stage_close(&ep->stage);
    ahead = ep->stage.ahead;
    if (!ahead)
        return;
    ep->stage.ahead = 0;
    gather_all(&ep->tx, &gather);
    left(ep, &gather, ahead);
}

/* One system call. False when there is nothing to do now. */
static bool flush_once(struct tcp_ep *ep)
{
    struct tcp_tx *tx = &ep->tx;
    struct tcp_gather gather;

    gather_all(tx, &gather);
    if (!gather.op_count)
        return false;
    ssize_t sent = gather_send(&gather, ep->fd);
    if (tap_on(tx->flow) && sent > 0)
        tap_sent(tx->flow, gather.iov, gather.iov_count, (size_t)sent);
    if (sent < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            set_blocked(ep);
        else if (errno != EINTR)
            send_failed(ep, errno);
        return errno == EINTR;
    }
    if ((size_t)sent < gather.bytes)
        set_blocked(ep);
    left(ep, &gather, (size_t)sent);
    return !tx->blocked;
}

void tcp_tx_flush(struct tcp_ep *ep)
{
    struct tcp_tx *tx = &ep->tx;

    tcp_tx_reclaim(ep);
    if (tx->flushing || tx->blocked || tx->error || ep->fd < 0)
        return;
    if (tx->normal.count >= GATHER_OPS / 4)
        tcp_stage_gathered(&ep->stage);
    tx->flushing = true;
    atomic_fetch_add_explicit(&ep->stage.turn, 1, memory_order_relaxed);
    if (ep->set->ring)
        tcp_uring_send(ep);
    else
        while ((tx->current || tx->urgent.first || tx->normal.first) && flush_once(ep))
            ;
    tx->flushing = false;
    if (ep->rx.stash && !tcp_tx_choked(ep))
        tcp_set_work(ep->set, ep);
}

/* What a report makes the upper post leaves when progress returns. */
static bool may_wait(struct tcp_ep *ep, const struct tcp_op *op, bool more)
{
    if (more || ep->set->driving)
        return true;
    return !op->fence && tcp_stage_wants(&ep->stage, op_size(op));
}

/* A record of one piece while nothing else is to be sent, the common case of a lone message. False,
 * and nothing done, when that is not so or the kernel says no. */
static bool send_alone(struct tcp_ep *ep, struct tcp_op *op)
{
    struct tcp_tx *tx = &ep->tx;
    size_t more;

    op_iov(op, &more);
    if (tx->normal.first || tx->urgent.first || tx->current || tx->flushing || tx->blocked ||
        tx->error || more || op->fence || ep->fd < 0)
        return false;
    op->bytes[ID_OFFSET] = tx->id;
    ssize_t sent = send(ep->fd, op->bytes, op->head, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0)
        return false;
    if (tap_on(tx->flow))
        tap_sent(tx->flow, &(struct iovec){op->bytes, op->head}, 1, (size_t)sent);
    tx->id++;
    if (sent < op->head) {
        tx->current = op;
        tx->sent = (size_t)sent;
        set_blocked(ep);
        return true;
    }
    /* What the report makes the upper post goes out behind it. */
    tx->flushing = true;
    op_left(ep, op);
    tx->flushing = false;
    if (tx->normal.first || tx->urgent.first)
        tcp_tx_flush(ep);
    return true;
}

void tcp_tx_post(struct tcp_ep *ep, struct tcp_op *op, bool more)
{
    struct tcp_queue *queue = &ep->tx.normal;

    tcp_tx_reclaim(ep);
    bool wait = may_wait(ep, op, more);
    if (!wait && !ep->set->ring && send_alone(ep, op))
        return;
    queue_push(queue, op);
    if (!wait || queue->count >= GATHER_OPS) {
        tcp_tx_flush(ep);
    } else {
        tcp_set_work(ep->set, ep);
        /* The thread must not send beside a request to the ring. */
        if (!ep->set->driving && ep->stage.joined && list_empty(&ep->uring.flights))
            tcp_stage_open(&ep->stage);
    }
}

static void push_urgent(struct tcp_ep *ep, struct tcp_op *op)
{
    bool open = ep->stage.open;

    tcp_tx_reclaim(ep);
    queue_push(&ep->tx.urgent, op);
    if (open)
        tcp_stage_open(&ep->stage);
}

static int push_control(struct tcp_ep *ep, const struct tcp_wire *wire)
{
    struct tcp_op *op = op_get(ep, TCP_KIND_CONTROL);

    if (!op)
        return -FI_ENOMEM;
    op->head = (uint16_t)tcp_wire_encode(wire, ep->network, op->bytes);
    push_urgent(ep, op);
    return 0;
}

int tcp_tx_ack(struct tcp_ep *ep)
{
    return push_control(ep, &(struct tcp_wire){.op = TCP_OP_MSG, .op_data = TCP_WIRE_ACK});
}

int tcp_tx_cts(struct tcp_ep *ep, uint8_t context)
{
    return push_control(ep, &(struct tcp_wire){.op = TCP_OP_CTS, .op_data = context});
}

int tcp_tx_respond(struct tcp_ep *ep, const struct tcp_wire *request, struct tcp_target *target)
{
    struct tcp_op *op = op_get(ep, TCP_KIND_RESPONSE);
    struct tcp_wire wire = {
        .op = TCP_OP_READ_RSP, .flags = request->flags, .iov_count = request->iov_count};

    if (!op)
        return -FI_ENOMEM;
    for (size_t i = 0; i < target->iov_count; i++)
        wire.payload += target->iov[i].iov_len;
    size_t head = tcp_wire_encode(&wire, ep->network, op->bytes);
    if (wire.payload <= ep->domain->fabric->settings.max_inject) {
        head += copy_from_iov(op->bytes + head, target->iov, target->iov_count);
        target->iov_count = 0;
    }
    op->head = (uint16_t)head;
    op->target = target;
    push_urgent(ep, op);
    return 0;
}

int tcp_tx_answer(struct tcp_ep *ep, struct tcp_atomic *atomic)
{
    struct tcp_op *op = op_get(ep, TCP_KIND_ANSWER);
    struct tcp_wire wire = {.op = TCP_OP_ATOMIC_RSP,
                            .status = (uint64_t)atomic->status,
                            .payload = atomic->bytes.iov_len};

    if (!op) {
        tcp_atomic_put(ep, atomic);
        return -FI_ENOMEM;
    }
    tcp_tx_build(ep, op, &wire, &atomic->bytes, 1);
    if (op->iov_count)
        op->atomic = atomic;
    else
        tcp_atomic_put(ep, atomic);
    queue_push(&ep->tx.urgent, op);
    return 0;
}

bool tcp_tx_choked(const struct tcp_ep *ep)
{
    return ep->tx.urgent.count >= CHOKE;
}

int tcp_tx_acked(struct tcp_ep *ep)
{
    if (!ep->tx.acks.first)
        return -FI_EPROTO;
    complete(ep, queue_pop(&ep->tx.acks));
    return 0;
}

struct tcp_op *tcp_tx_reading(struct tcp_ep *ep)
{
    return ep->tx.reads.first;
}

void tcp_tx_read_done(struct tcp_ep *ep)
{
    complete(ep, queue_pop(&ep->tx.reads));
}

uint8_t tcp_tx_rndv_open(struct tcp_ep *ep, struct tcp_op *op)
{
    struct tcp_tx *tx = &ep->tx;

    /* The thread reads rndv_count where a record has a fence. */
    tcp_tx_reclaim(ep);
    if (tx->rndv_count == RNDV_CONTEXTS)
        return 0;
    if (!tx->rndv)
        tx->rndv = calloc(RNDV_CONTEXTS + 1, sizeof(struct tcp_op *));
    if (!tx->rndv)
        return 0;
    do {
        tx->rndv_next = tx->rndv_next % RNDV_CONTEXTS + 1;
    } while (tx->rndv[tx->rndv_next]);
    tx->rndv[tx->rndv_next] = op;
    tx->rndv_count++;
    op->rndv = (uint8_t)tx->rndv_next;
    return op->rndv;
}

int tcp_tx_cleared(struct tcp_ep *ep, uint8_t context)
{
    struct tcp_tx *tx = &ep->tx;
    struct tcp_op *op = tx->rndv && context <= RNDV_CONTEXTS ? tx->rndv[context] : NULL;

    if (!op || !op->waiting)
        return -FI_EPROTO;
    tx->rndv[context] = NULL;
    tx->rndv_count--;
    op->waiting = false;
    op->kind = TCP_KIND_SEND;
    struct tcp_wire wire = {
        .op = TCP_OP_DATA, .op_data = context, .flags = op->wire_flags, .payload = op->len};
    op->head = (uint16_t)tcp_wire_encode(&wire, ep->network, op->bytes);
    queue_push(&tx->normal, op);
    return 0;
}

static void end(struct tcp_ep *ep, struct tcp_op *op, int err)
{
    struct fi_cq_err_entry entry = {
        .op_context = op->context,
        .flags = op->flags,
        .tag = op->tag,
        .err = err,
        .prov_errno = err,
        .src_addr = FI_ADDR_NOTAVAIL,
    };
    enum report_kind kind = report_of(op);
    bool application = is_application(op);

    tcp_tx_put(ep, op);
    if (err && application)
        report_failed(&ep->report, kind, &entry);
}

void tcp_tx_read_failed(struct tcp_ep *ep, int err)
{
    end(ep, queue_pop(&ep->tx.reads), err);
}

static void move_all(struct tcp_queue *from, struct tcp_queue *to)
{
    while (from->first)
        queue_push(to, queue_pop(from));
}

void tcp_tx_finish(struct tcp_ep *ep, int err)
{
    struct tcp_tx *tx = &ep->tx;
    struct tcp_queue all;

    queue_init(&all);
    move_all(&tx->acks, &all);
    move_all(&tx->reads, &all);
    for (unsigned i = 0; tx->rndv && i <= RNDV_CONTEXTS; i++) {
        if (tx->rndv[i] && tx->rndv[i]->waiting)
            queue_push(&all, tx->rndv[i]);
    }
    if (tx->current)
        queue_push(&all, tx->current);
    move_all(&tx->urgent, &all);
    move_all(&tx->normal, &all);
    tx->current = NULL;
    tx->rndv_count = 0;
    free(tx->rndv);
    tx->rndv = NULL;
    if (tx->blocked) {
        tx->blocked = false;
        ep->set->blocked--;
    }
    while (all.first)
        end(ep, queue_pop(&all), err);
}
