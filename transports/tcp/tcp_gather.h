/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The buffers that one system call or request sends: the rest of the record that has left in part,
 * then answers, then operations in the order of their posts, as segments. The records stay in the
 * queues of the connection until it is known how much has left; more may be queued behind them
 * meanwhile. Progress domain locked.
 */
#ifndef WEFT_TCP_GATHER_H
#define WEFT_TCP_GATHER_H

#include "transports/tcp/tcp_tx.h"

enum {
    TCP_GATHER_OPS = 64,
    TCP_GATHER_IOV = 128,
};

struct tcp_gather {
    struct iovec iov[TCP_GATHER_IOV];
    struct tcp_op *ops[TCP_GATHER_OPS];
    size_t iov_count, op_count, bytes;
};

/* No operation is added to `enough` bytes or more. */
void tcp_gather_all(const struct tcp_tx *tx, struct tcp_gather *gather, size_t enough);
/* Bytes of a gathered record that have not left. */
size_t tcp_gather_rest(const struct tcp_tx *tx, const struct tcp_op *op);
/* Only the first `count` records. */
void tcp_gather_cut(const struct tcp_tx *tx, struct tcp_gather *gather, size_t count);

/* As much as the socket takes at once: bytes, or negative with errno. */
ssize_t tcp_gather_send(const struct tcp_gather *gather, int fd);

/* `sent` bytes of it have left: whole records go from the queues to `done`, which is made; the rest
 * of one becomes current. */
void tcp_gather_left(struct tcp_tx *tx, const struct tcp_gather *gather, size_t sent,
                     struct tcp_queue *done);

#endif
