/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp(io=uring): a poller whose connections receive and send through one io_uring. Requests stay
 * with the kernel between calls, so that a connection can only be closed, and its operations be
 * ended, when the kernel has let go of it: quiesce of its struct tcp_io.
 */
#ifndef WEFT_TCP_URING_IO_H
#define WEFT_TCP_URING_IO_H

struct tcp_poller;

/* Gives the poller a ring. 0, or a negative error with what was refused in *why; the poller is as
 * before then. */
int tcp_uring_open(struct tcp_poller *poller, const char **why);

#endif
