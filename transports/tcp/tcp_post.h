/* SPDX-License-Identifier: BSD-2-Clause */
/* What sends, tagged sends, writes and reads have in common when they are posted. */
#ifndef WEFT_TCP_POST_H
#define WEFT_TCP_POST_H

#include "core/post.h"
#include "transports/tcp/tcp_ep.h"

/* May an operation of len bytes be posted now? 0, -FI_EOPBADSTATE, -FI_ENOTCONN, -FI_EMSGSIZE
 * (FI_INJECT). Unit locked. */
int tcp_post_check(const struct tcp_ep *ep, uint64_t flags, size_t len);

/* Checks, queues, sends what can be sent. wire: op, tag and iov are set; the rest is filled in.
 * 0, -FI_EAGAIN, -FI_ENOTCONN, -FI_EINVAL, -FI_EMSGSIZE. Takes the lock. */
ssize_t tcp_post(struct tcp_ep *ep, const struct post *post, struct tcp_wire *wire);
/* The same with the unit locked, for an endpoint that is enabled. */
ssize_t tcp_post_locked(struct tcp_ep *ep, const struct post *post, struct tcp_wire *wire);

#endif
