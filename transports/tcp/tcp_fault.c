/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_fault.h"

#include <errno.h>
#include <poll.h>

#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_poller.h"

/* No record can be taken back that the peer has a part of, or that it was promised: the response to
 * a read, the data of a send that asked first. */
static bool fails_alone(const struct tcp_tx *tx, const struct tcp_op *op)
{
    return op != tx->current && !op->rndv &&
           (op->kind == TCP_KIND_SEND || op->kind == TCP_KIND_WRITE || op->kind == TCP_KIND_ATOMIC);
}

static void take_out(struct tcp_tx *tx, const struct tcp_op *op)
{
    if (op == tx->current)
        tx->current = NULL;
    else
        tcp_queue_pop(op == tx->urgent.first ? &tx->urgent : &tx->normal);
}

/* The socket lives, but nothing can be sent any more: progress ends the connection. */
static void give_up(struct tcp_tx *tx, int err, const char *why)
{
    tcp_conn_say_closed(tx->conn, why);
    tx->conn->error = err;
    tcp_poller_end(tx->conn);
    tcp_poller_work(tx->conn);
}

static const char *const not_there = "the memory that the peer reads is not there any more";

static bool bad_memory(struct tcp_tx *tx, struct tcp_op *op)
{
    bool alone = fails_alone(tx, op);

    if (!alone)
        give_up(tx, FI_ECONNABORTED,
                op->kind == TCP_KIND_RESPONSE
                    ? not_there
                    : "the memory of a message is not there, and the peer has its beginning");
    take_out(tx, op);
    tcp_op_end(tx, op, FI_EFAULT);
    return alone;
}

static bool lost(const struct tcp_op *op)
{
    return op && op->target && mr_any_closed(op->target->mr, op->target->mr_count);
}

bool tcp_fault_regions(struct tcp_tx *tx)
{
    bool any = lost(tx->current);

    for (const struct tcp_op *op = tx->urgent.first; op && !any; op = op->next)
        any = lost(op);
    if (any)
        give_up(tx, FI_ECONNABORTED, not_there);
    return any;
}

void tcp_fault_closed(struct tcp_tx *tx)
{
    if (!tx->conn->error)
        give_up(tx, FI_ECONNABORTED, "memory that the peer accesses is not there any more");
}

/* Its last data, and its end, can be read. */
static bool has_broken(int fd)
{
    struct pollfd state = {.fd = fd};

    return poll(&state, 1, 0) == 1 && state.revents & POLLHUP;
}

bool tcp_fault_send(struct tcp_tx *tx, const struct tcp_gather *gather, int err)
{
    if (err == EFAULT && gather->op_count == 1)
        return bad_memory(tx, gather->ops[0]);
    if (err == ENOBUFS || err == ENOMEM) {
        tcp_poller_work(tx->conn);
    } else if (has_broken(tx->conn->fd)) {
        tx->conn->error = err == EPIPE ? FI_ECONNRESET : err;
        tx->conn->ended = true;
        tcp_poller_work(tx->conn);
    } else {
        give_up(tx, err, fi_strerror(err));
    }
    return false;
}
