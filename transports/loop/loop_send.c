/* SPDX-License-Identifier: BSD-2-Clause */
/* An operation travels from the post to its receiver, and back. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/op/op_copy.h"
#include "transports/loop/conn/loop_cm.h"
#include "transports/loop/device/loop_device.h"

enum {
    TAKES = 256, /* of one round of progress */
};

/* Inside of a receiver: messages sent from there are queued, so that answers do not recurse. */
static _Thread_local unsigned depth;

/* ---- The end of an operation, at its sender ---- */

static void report_end(struct loop_ep *ep, const struct loop_op *op)
{
    const struct op *post = op->post;
    struct fi_cq_err_entry entry;

    if (__builtin_expect(!op->err, 1)) {
        if (ep->burst && op->wanted && post->kind & FI_SEND) {
            loop_burst_done(ep, post->context, 0, FI_ADDR_NOTAVAIL);
            return;
        }
        loop_burst_flush(ep);
        complete(&ep->base.binding, binding_kind_of(post->kind), op->wanted, post->context,
                 post->kind, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
        return;
    }
    loop_burst_flush(ep);
    memset(&entry, 0, sizeof(entry));
    entry.op_context = post->context;
    entry.flags = post->kind;
    entry.err = op->err;
    entry.prov_errno = op->err;
    entry.src_addr = FI_ADDR_NOTAVAIL;
    complete_error(&ep->base.binding, binding_kind_of(post->kind), &entry);
}

static void push(struct loop_port *port, struct list *queue, struct loop_op *op,
                 enum loop_where where)
{
    atomic_store_explicit(&op->where, where, memory_order_release);
    list_attach(&op->queue, queue);
    atomic_store(&port->work, true);
}

/* The receiver is done with an operation that was queued. */
static void give_back(struct loop_op *op)
{
    struct loop_port *from = op->from;

    loop_port_lock(from);
    push(from, &from->done, op, LOOP_DONE);
    loop_port_unlock(from);
    loop_port_wake(from);
    loop_port_release(from);
}

static void retire(struct loop_ep *ep, struct loop_op *op, bool reported)
{
    list_detach(&op->outstanding);
    ep->outstanding_count--;
    if (reported)
        report_end(ep, op);
    loop_port_release(op->to);
    pool_put(&ep->pool, op);
}

/* ---- The start, at the sender ---- */

void loop_forget_peers(struct loop_ep *ep)
{
    fi_addr_t addr = 0;

    while ((addr = peer_map_next(&ep->peers, addr)) != FI_ADDR_NOTAVAIL)
        loop_port_release(peer_map_at(&ep->peers, addr++));
    peer_map_finish(&ep->peers);
}

/* *port stays NULL when the AV has the address, and no port of the world does. */
static int look_up(struct loop_ep *ep, fi_addr_t dest, struct loop_port **port)
{
    const void *raw = ep->base.av ? av_addr(ep->base.av, dest) : NULL;
    union addr addr;
    void **slot;
    int rc;

    if (!raw)
        return -FI_EINVAL;
    rc = loop_addr_import(ep->base.av->format, raw, LOOP_ADDR_MAX, &addr);
    if (rc)
        return rc;
    slot = peer_map_slot(&ep->peers, dest);
    if (!slot)
        return -FI_ENOMEM;
    loop_port_release(*slot);
    *slot = *port = loop_port_find(&addr);
    return 0;
}

static inline int find_target(struct loop_ep *ep, fi_addr_t dest, struct loop_port **port)
{
    if (!ep->rdm) {
        *port = ep->peer;
        return atomic_load(&ep->state) == LOOP_CONNECTED ? 0 : -FI_ENOTCONN;
    }
    if (__builtin_expect(atomic_load_explicit(&ep->stale_peers, memory_order_acquire), 0)) {
        atomic_store(&ep->stale_peers, false);
        loop_forget_peers(ep);
    }
    *port = peer_map_at(&ep->peers, dest);
    if (__builtin_expect(*port && (*port)->ep, 1))
        return 0;
    *port = NULL;
    return look_up(ep, dest, port);
}

static int enqueue(struct loop_ep *ep, const struct loop_op *op, struct loop_port *to)
{
    struct loop_queued_op *queued;
    bool open = false;

    if (ep->outstanding_count == ep->base.tx_size)
        return -FI_EAGAIN;
    queued = pool_get(&ep->pool);
    if (!queued)
        return -FI_ENOMEM;
    queued->op = *op;
    op_copy(op->post, op->post->flags & FI_INJECT, &queued->post, queued->memory);
    queued->op.post = &queued->post;
    list_attach(&queued->op.outstanding, &ep->outstanding);
    ep->outstanding_count++;
    queued->op.to = to ? loop_port_hold(to) : NULL;
    loop_port_hold(ep->port);
    if (to) {
        loop_port_lock(to);
        open = to->ep != NULL;
        if (open)
            push(to, &to->inbox, &queued->op, LOOP_QUEUED);
        loop_port_unlock(to);
        loop_port_wake(to);
    }
    if (!open) {
        queued->op.err = op->datagram ? 0 : ep->rdm ? FI_ECONNREFUSED : FI_ECONNRESET;
        give_back(&queued->op);
    }
    return 0;
}

/* Sender's progress domain locked, and again when it returns; not in between. */
static void hand_over(struct loop_ep *ep, struct loop_op *op, struct loop_ep *to)
{
    progress_unlock(ep->base.binding.progress);
    depth++;
    progress_lock(to->base.binding.progress);
    loop_receive(to, op);
    progress_unlock(to->base.binding.progress);
    progress_lock(ep->base.binding.progress);
    report_end(ep, op);
    depth--;
}

static ssize_t send_locked(struct loop_ep *ep, struct loop_op *op)
{
    struct loop_port *to;
    int rc = find_target(ep, op->post->peer, &to);

    if (rc)
        return rc;
    if (ep->domain->fabric->direct && !depth && to && to->ep &&
        !atomic_load_explicit(&to->work, memory_order_relaxed)) {
        hand_over(ep, op, to->ep);
        return 0;
    }
    return enqueue(ep, op, to);
}

ssize_t loop_send(struct loop_ep *ep, const struct op *post, size_t len)
{
    struct loop_op op;
    ssize_t rc;

    if (atomic_load_explicit(&ep->state, memory_order_relaxed) == LOOP_IDLE)
        return -FI_EOPBADSTATE;
    op.from = ep->port;
    op.to = NULL;
    op.err = 0;
    op.datagram = ep->dgram;
    op.wanted =
        !op_is_inject(post) && completion_wanted(ep->base.binding.tx_selective, post->flags);
    op.len = len;
    op.post = post;
    progress_lock(ep->base.binding.progress);
    rc = send_locked(ep, &op);
    progress_unlock(ep->base.binding.progress);
    return rc;
}

/* ---- Progress ---- */

static struct loop_op *first(struct loop_port *port, const struct list *queue)
{
    if (list_empty(queue))
        return NULL;
    if (queue == &port->inbox && port->ep && port->ep->packets)
        return loop_shuffled(port->ep, queue);
    return list_item(queue->next, struct loop_op, queue);
}

static struct loop_op *pop(struct loop_port *port, struct list *queue)
{
    struct loop_op *op;

    loop_port_lock(port);
    op = first(port, queue);
    if (op) {
        list_detach(&op->queue);
        if (queue == &port->inbox)
            atomic_store_explicit(&op->where, LOOP_TAKEN, memory_order_relaxed);
    } else if (queue == &port->inbox && list_empty(&port->done)) {
        atomic_store(&port->work, false);
    }
    loop_port_unlock(port);
    return op;
}

static void take_all(struct loop_ep *ep)
{
    struct loop_op *op;

    for (int i = 0; i < TAKES && (op = pop(ep->port, &ep->port->done)); i++)
        retire(ep, op, true);
    for (int i = 0; i < TAKES && (op = pop(ep->port, &ep->port->inbox)); i++) {
        loop_receive(ep, op);
        give_back(op);
    }
    loop_burst_flush(ep);
}

void loop_progress(struct progress_source *source)
{
    struct loop_ep *ep = object_of(source, struct loop_ep, source);
    struct loop_port *port = ep->port;

    loop_count(LOOP_CALL_PROGRESS);
    if (__builtin_expect(atomic_load_explicit(&ep->new_sources, memory_order_acquire), 0)) {
        atomic_store(&ep->new_sources, false);
        loop_resolve_saved(ep);
    }
    if (atomic_load_explicit(&port->work, memory_order_acquire)) {
        depth++;
        take_all(ep);
        depth--;
    }
    if (__builtin_expect(atomic_load_explicit(&ep->ended, memory_order_acquire), 0) &&
        !atomic_load(&port->work))
        loop_cm_finish(ep);
}

int loop_trywait(struct progress_source *source)
{
    struct loop_ep *ep = object_of(source, struct loop_ep, source);

    loop_port_arm(ep->port);
    return atomic_load(&ep->port->work) || atomic_load(&ep->ended) || atomic_load(&ep->new_sources)
               ? -FI_EAGAIN
               : 0;
}

/* ---- Closing ---- */

static void refuse_inbox(struct loop_port *port)
{
    struct loop_op *op;

    loop_port_lock(port);
    port->ep = NULL;
    loop_port_unlock(port);
    while ((op = pop(port, &port->inbox))) {
        op->err = op->datagram ? 0 : FI_ECONNRESET;
        give_back(op);
    }
}

/* Takes an operation back, wherever it is; its receiver may be at it just now. */
static void withdraw(struct loop_op *op)
{
    struct loop_port *to = op->to;

    if (to) {
        loop_port_lock(to);
        if (atomic_load(&op->where) == LOOP_QUEUED) {
            list_detach(&op->queue);
            atomic_store(&op->where, LOOP_DONE);
            loop_port_release(op->from);
        }
        loop_port_unlock(to);
    }
    while (atomic_load_explicit(&op->where, memory_order_acquire) != LOOP_DONE)
        ;
}

void loop_abort(struct loop_ep *ep)
{
    struct loop_port *port = ep->port;

    refuse_inbox(port);
    list_for_each (pos, &ep->outstanding)
        withdraw(list_item(pos, struct loop_op, outstanding));
    while (pop(port, &port->done))
        ;
    while (!list_empty(&ep->outstanding))
        retire(ep, list_item(ep->outstanding.next, struct loop_op, outstanding), false);
}
