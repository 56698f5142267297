/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_acks.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_poller.h"
#include "transports/tcp/tcp_tx.h"

enum {
    RNDV_CONTEXTS = 254
};

/* ---- A peer's answer may arrive before the ring reports that the request was sent ---- */

static bool awaits_ack(const struct tcp_op *op, const void *context)
{
    return (op->kind == TCP_KIND_SEND || op->kind == TCP_KIND_WRITE) && op->ack && !op->answered;
}

static bool awaits_response(const struct tcp_op *op, const void *context)
{
    return (op->kind == TCP_KIND_READ || op->kind == TCP_KIND_ATOMIC) && !op->answered;
}

static bool awaits_clear(const struct tcp_op *op, const void *which)
{
    return op == which && op->kind == TCP_KIND_RTS && !op->answered;
}

/* Among those given to a ring, the first for which `is` holds; NULL: none. */
static struct tcp_op *find(const struct tcp_tx *tx,
                           bool (*is)(const struct tcp_op *op, const void *context),
                           const void *context)
{
    const struct tcp_io *io = tx->conn->poller->io;

    return io ? io->find(tx->conn, is, context) : NULL;
}

static void answer_early(struct tcp_op *op, int err)
{
    op->answered = true;
    op->error = err;
}

bool tcp_acks_answered(struct tcp_tx *tx, struct tcp_op *op)
{
    if (!op->answered)
        return false;
    if (op->error)
        tcp_op_end(tx, op, op->error);
    else
        tcp_op_complete(tx, op);
    return true;
}

/* ---- Acknowledgements and responses ---- */

int tcp_acks_ack(struct tcp_tx *tx)
{
    struct tcp_op *op;

    if (tx->acks.first) {
        tcp_op_complete(tx, tcp_queue_pop(&tx->acks));
        return 0;
    }
    op = find(tx, awaits_ack, NULL);
    if (!op)
        return -FI_EPROTO;
    answer_early(op, 0);
    return 0;
}

struct tcp_op *tcp_acks_response(struct tcp_tx *tx)
{
    return tx->reads.first ? tx->reads.first : find(tx, awaits_response, NULL);
}

void tcp_acks_done(struct tcp_tx *tx)
{
    if (tx->reads.first)
        tcp_op_complete(tx, tcp_queue_pop(&tx->reads));
    else
        answer_early(find(tx, awaits_response, NULL), 0);
}

uint8_t tcp_acks_open(struct tcp_tx *tx, struct tcp_op *op)
{
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

static bool fence_waits(const struct tcp_tx *tx)
{
    for (const struct tcp_op *op = tx->normal.first; op; op = op->next) {
        if (op->fence == TCP_FENCE_ALL)
            return true;
    }
    return false;
}

int tcp_acks_clear(struct tcp_tx *tx, uint8_t context)
{
    struct tcp_op *op = tx->rndv && context <= RNDV_CONTEXTS ? tx->rndv[context] : NULL;

    if (op && !op->waiting && find(tx, awaits_clear, op)) {
        answer_early(op, 0);
        return 0;
    }
    if (!op || !op->waiting)
        return -FI_EPROTO;
    op->answered = false; /* the acknowledgement of its data is another answer */
    tx->rndv[context] = NULL;
    tx->rndv_count--;
    tx->rndv_waiting--;
    op->waiting = false;
    op->kind = TCP_KIND_SEND;
    op->fence = TCP_FENCE_NONE; /* its turn came with the request */
    struct tcp_wire wire = {
        .op = TCP_OP_DATA, .op_data = context, .flags = op->wire_flags, .payload = op->len};
    op->head = (uint16_t)tcp_wire_encode(&wire, tx->conn->network, op->bytes);
    /* A fence that waits for this data must not be before it. */
    tcp_queue_push(fence_waits(tx) ? &tx->urgent : &tx->normal, op);
    return 0;
}

void tcp_acks_failed(struct tcp_tx *tx, int err)
{
    if (tx->reads.first)
        tcp_op_end(tx, tcp_queue_pop(&tx->reads), err);
    else
        answer_early(find(tx, awaits_response, NULL), err);
}

void tcp_acks_give_up(struct tcp_tx *tx, struct tcp_queue *all)
{
    tcp_queue_move(&tx->acks, all);
    tcp_queue_move(&tx->reads, all);
    for (unsigned i = 0; tx->rndv && i <= RNDV_CONTEXTS; i++) {
        if (tx->rndv[i] && tx->rndv[i]->waiting)
            tcp_queue_push(all, tx->rndv[i]);
    }
    tx->rndv_count = tx->rndv_waiting = 0;
    free(tx->rndv);
    tx->rndv = NULL;
}
