/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commonest send: a small message that asks for nothing special, on a connection that has
 * nothing else to send. It is written from the stack, and is no record of any queue.
 */
#ifndef WEFT_TCP_FAST_H
#define WEFT_TCP_FAST_H

#include <stdbool.h>

#include "core/op/op.h"
#include "transports/tcp/tcp_ep.h"

enum {
    TCP_FAST_ROOM =
        256, /* bytes of payload that are copied to the stack: rxm's head and 192 more */
};

/* True: it has left, or has begun to. False, and nothing was done: tcp_post sends it, or says what
 * is wrong. post has one segment. Progress domain locked. */
bool tcp_fast_send(struct tcp_ep *ep, const struct op *post);

#endif
