/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving through a ring, and handling a connection's completions. Progress domain locked. */
#ifndef WEFT_TCP_INTAKE_H
#define WEFT_TCP_INTAKE_H

struct tcp_conn;

/* Makes the request to receive that is due, if any, or ends one that is not of use any more. */
void tcp_intake_ask(struct tcp_conn *conn);

/* The turn of a connection that was noted: reports what has left, reads what came, sends what is
 * queued, asks for more. May end the connection. */
void tcp_intake_turn(struct tcp_conn *conn);

#endif
