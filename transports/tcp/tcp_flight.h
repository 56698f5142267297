/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending through a ring: gathered records are given to the kernel as a flight, stay in the queues
 * until the kernel says how much has left, and are reported when it has released the memory.
 * Progress domain locked. */
#ifndef WEFT_TCP_FLIGHT_H
#define WEFT_TCP_FLIGHT_H

#include <stdbool.h>

struct tcp_conn;
struct tcp_op;

/* Sends what is queued and may leave; inside of progress, which submits for all, one request. */
void tcp_flight_send(struct tcp_conn *conn);
/* Works off the answers: reports, which may post, so that more may be queued when it returns. False
 * when the kernel refused: not now. */
bool tcp_flight_settle(struct tcp_conn *conn);

/* The first record that has been given to the kernel to send, and of which it is not known that it
 * has left, for which `is` holds; NULL: none. */
struct tcp_op *tcp_flight_find(const struct tcp_conn *conn,
                               bool (*is)(const struct tcp_op *op, const void *context),
                               const void *context);

/* Waits until memory that was lent has come back, wait_ms at most; then resets the connection. */
void tcp_flight_wait(struct tcp_conn *conn, int wait_ms);
/* Memory that the kernel still reads stays until it says so, or until the ring is closed. */
void tcp_flight_abandon(struct tcp_conn *conn);

#endif
