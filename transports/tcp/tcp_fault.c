/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_fault.h"

#include <errno.h>
#include <poll.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "transports/tcp/tcp_ep.h"

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
static void give_up(struct tcp_ep *ep, int err, const char *why)
{
    LOG_WARN(ep->domain->base.fabric->part, FI_LOG_EP_DATA, "connection closed: %s", why);
    ep->tx.error = err;
    tcp_poller_end(ep->poller, ep);
    tcp_poller_work(ep->poller, ep);
}

static bool bad_memory(struct tcp_ep *ep, struct tcp_op *op)
{
    bool alone = fails_alone(&ep->tx, op);

    if (!alone)
        give_up(ep, FI_ECONNABORTED,
                op->kind == TCP_KIND_RESPONSE
                    ? "the memory that the peer reads is not there any more"
                    : "the memory of a message is not there, and the peer has its beginning");
    take_out(&ep->tx, op);
    tcp_op_end(ep, op, FI_EFAULT);
    return alone;
}

/* Its last data, and its end, can be read. */
static bool has_broken(int fd)
{
    struct pollfd state = {.fd = fd};

    return poll(&state, 1, 0) == 1 && state.revents & POLLHUP;
}

bool tcp_fault_send(struct tcp_ep *ep, const struct tcp_gather *gather, int err)
{
    if (err == EFAULT && gather->op_count == 1)
        return bad_memory(ep, gather->ops[0]);
    if (err == ENOBUFS || err == ENOMEM) {
        tcp_poller_work(ep->poller, ep);
    } else if (has_broken(ep->fd)) {
        ep->tx.error = err == EPIPE ? FI_ECONNRESET : err;
        ep->rx.ended = true;
        tcp_poller_work(ep->poller, ep);
    } else {
        give_up(ep, err, fi_strerror(err));
    }
    return false;
}
