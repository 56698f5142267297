/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading a connection: from its socket, a ring or a fuzzer. Progress domain locked. */
#ifndef WEFT_TCP_RECEIVE_H
#define WEFT_TCP_RECEIVE_H

#include "transports/tcp/tcp_conn.h"
#include "transports/tcp/tcp_rx.h"

void tcp_receive_init(struct tcp_rx *rx, struct tcp_conn *conn);

/* Reads what there is, up to a budget. True when something came. May end the connection. */
bool tcp_receive_progress(struct tcp_rx *rx);

/* Nothing but a receipt into the poller's buffer is due: the caller may do it by itself. */
static inline bool tcp_receive_plain(const struct tcp_rx *rx)
{
    return !rx->active && rx->eager && !rx->paused && !rx->stash;
}
/* The rest of such a progress: got bytes are in the buffer, 0: the end, or a negative errno. */
bool tcp_receive_got(struct tcp_rx *rx, ssize_t got);

/* For receivers by other means (tcp_uring_io.h): */
/* `got` bytes of the payload are where dest says. 0 or a negative error. */
int tcp_receive_placed(struct tcp_rx *rx, size_t got);
/* Keeps bytes that come behind a stash or a message that waits. -FI_ENOMEM. */
int tcp_receive_keep(struct tcp_rx *rx, const uint8_t *bytes, size_t len);
/* Goes on with the stash, if nothing keeps it. 0 or a negative error. */
int tcp_receive_unstash(struct tcp_rx *rx);
/* The error, negative, that the end of the stream means. */
int tcp_receive_end(const struct tcp_rx *rx);

/* Reads records from bytes (of a stream or a fuzzer). 0, or a negative error after which the
 * connection is of no use. */
int tcp_receive_consume(struct tcp_rx *rx, const uint8_t *bytes, size_t len);

/* The peer has hung up, its earlier bytes are still to be read, and reading is not paused. */
static inline bool tcp_receive_ending(const struct tcp_conn *conn)
{
    return conn->fd >= 0 && conn->ended && !conn->rx->paused && !conn->rx->stash;
}

/* Ends what is half received: error entries for what was matched (err positive), or silently (0).
 * A message that has arrived whole stays with the owner of the receive context. */
void tcp_receive_fail(struct tcp_rx *rx, int err);
/* The endpoint is closed: messages still with their owner lose it. */
void tcp_receive_finish(struct tcp_rx *rx);

#endif
