/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_answer.h"

#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_send.h"

static void push_urgent(struct tcp_tx *tx, struct tcp_op *op)
{
    bool open = tx->coalesce.open;

    tcp_send_reclaim(tx);
    tcp_queue_push(&tx->urgent, op);
    if (open)
        tcp_coalesce_open(&tx->coalesce);
}

static int push_control(struct tcp_tx *tx, const struct tcp_wire *wire)
{
    struct tcp_op *op = tcp_op_make(tx->conn->poller, TCP_KIND_CONTROL);

    if (!op)
        return -FI_ENOMEM;
    op->head = (uint16_t)tcp_wire_encode(wire, tx->conn->network, op->bytes);
    push_urgent(tx, op);
    return 0;
}

int tcp_answer_ack(struct tcp_tx *tx)
{
    return push_control(tx, &(struct tcp_wire){.op = TCP_OP_MSG, .op_data = TCP_WIRE_ACK});
}

int tcp_answer_cts(struct tcp_tx *tx, uint8_t context)
{
    return push_control(tx, &(struct tcp_wire){.op = TCP_OP_CTS, .op_data = context});
}

int tcp_answer_read(struct tcp_tx *tx, const struct tcp_wire *request, struct tcp_target *target)
{
    struct tcp_op *op = tcp_op_make(tx->conn->poller, TCP_KIND_RESPONSE);
    struct tcp_wire wire = {
        .op = TCP_OP_READ_RSP, .flags = request->flags, .iov_count = request->iov_count};

    if (!op)
        return -FI_ENOMEM;
    for (size_t i = 0; i < target->iov_count; i++)
        wire.payload += target->iov[i].iov_len;
    /* Behind an answer that has yet to leave from its region, a copy would be older than that. */
    bool small = wire.payload <= tx->conn->settings->max_inject && !tx->from_regions;
    tcp_op_build(tx->conn, op, &wire, target->iov, small ? target->iov_count : 0);
    if (small)
        target->iov_count = 0;
    tx->from_regions += target->iov_count > 0;
    op->target = target;
    push_urgent(tx, op);
    return 0;
}

int tcp_answer_atomic(struct tcp_tx *tx, struct tcp_atomic *atomic)
{
    struct tcp_op *op = tcp_op_make(tx->conn->poller, TCP_KIND_ANSWER);
    struct tcp_wire wire = {.op = TCP_OP_ATOMIC_RSP,
                            .status = (uint64_t)atomic->status,
                            .payload = atomic->bytes.iov_len};

    if (!op) {
        tcp_atomic_put(tx->conn->poller, atomic);
        return -FI_ENOMEM;
    }
    tcp_op_build(tx->conn, op, &wire, &atomic->bytes, 1);
    if (op->iov_count)
        op->atomic = atomic;
    else
        tcp_atomic_put(tx->conn->poller, atomic);
    tcp_queue_push(&tx->urgent, op);
    return 0;
}
