/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting, as far as sends, tagged sends, writes and reads have it in common. Ops are settled
 * (op_settle). */
#ifndef WEFT_TCP_POST_H
#define WEFT_TCP_POST_H

#include "core/op/op.h"
#include "transports/tcp/tcp_ep.h"

/* struct ep.post and struct ep.atomic_valid of endpoints: tcp_msg.c, tcp_atomic_post.c. */
ssize_t tcp_ep_post(struct ep *ep, struct op *op);
int tcp_ep_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                        size_t *count);

/* May an operation of len bytes be posted now? 0, -FI_EOPBADSTATE, -FI_ENOTCONN, -FI_EMSGSIZE
 * (FI_INJECT). Progress domain locked. */
int tcp_post_check(const struct tcp_ep *ep, uint64_t flags, size_t len);

/* Checks, queues, sends what can be sent. wire: op, tag and iov are set; the rest is filled in.
 * 0, -FI_EAGAIN, -FI_ENOTCONN, -FI_EINVAL, -FI_EMSGSIZE. Takes the lock. */
ssize_t tcp_post(struct tcp_ep *ep, const struct op *post, struct tcp_wire *wire);
/* The same with the progress domain locked, for an endpoint that is enabled. */
ssize_t tcp_post_locked(struct tcp_ep *ep, const struct op *post, struct tcp_wire *wire);
/* Reads and writes; atomics. */
ssize_t tcp_post_rma(struct tcp_ep *ep, const struct op *post);
ssize_t tcp_post_atomic(struct tcp_ep *ep, const struct op *post);

#endif
