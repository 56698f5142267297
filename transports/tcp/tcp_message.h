/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages at the receiver: asking the receive context for a buffer, keeping unexpected ones, and
 * the receiver's half of a rendezvous. Called by tcp_receive.c for the record at hand.
 */
#ifndef WEFT_TCP_MESSAGE_H
#define WEFT_TCP_MESSAGE_H

#include <sys/types.h>

#include <rdma/providers/fi_peer.h>

#include "transports/tcp/tcp_wire.h"

struct tcp_rx;

/* The owners of receive contexts call these. */
extern struct fi_ops_srx_peer tcp_srx_peer_ops;

/* A message begins, of whose payload `have` bytes are at hand: one that is all there and has its
 * receive may be done with at once, then the record is active no more. Else sets where the payload
 * goes, or pauses the connection. Bytes of the payload that are used up, or a negative error. */
ssize_t tcp_message_begin(struct tcp_rx *rx, const struct tcp_wire *wire, const uint8_t *payload,
                          size_t have);
/* A request to send. */
int tcp_message_offer(struct tcp_rx *rx, const struct tcp_wire *wire);
/* The data of one. -FI_EPROTO when none of that context and length was cleared. */
int tcp_message_data(struct tcp_rx *rx, const struct tcp_wire *wire);
/* The last byte is in place: completion and ack. */
int tcp_message_finish(struct tcp_rx *rx);

/* See tcp_receive_fail, tcp_receive_finish. */
void tcp_message_fail(struct tcp_rx *rx, int err);
void tcp_message_finish_all(struct tcp_rx *rx);

#endif
