/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exchange that opens a connection: one message each way, 32 bytes and up to 256 bytes of
 * private data. Pure.
 *
 *   0 version 3  1 type  2 data length u16 big-endian  4 zero  24 conn_data u64
 *
 * conn_data is 1 in the sender's own byte order (0 in a reject): how each side learns whether the
 * hosts agree.
 */
#ifndef WEFT_TCP_CM_WIRE_H
#define WEFT_TCP_CM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tcp_cm_type {
    TCP_CM_REQUEST = 0,
    TCP_CM_ACCEPT = 1,
    TCP_CM_REJECT = 6,
};

enum {
    TCP_CM_HEADER = 32,
    TCP_CM_DATA_MAX = 256,
    TCP_CM_MAX = TCP_CM_HEADER + TCP_CM_DATA_MAX,
};

struct tcp_cm_message {
    enum tcp_cm_type type;
    bool network; /* the sender's byte order is not ours */
    size_t data_len;
};

/* Writes header and data (at most TCP_CM_DATA_MAX bytes) to bytes; returns the length. */
size_t tcp_cm_encode(enum tcp_cm_type type, const void *data, size_t data_len, uint8_t *bytes);

/*
 * Reads a message from its first `have` bytes; the data starts at bytes + TCP_CM_HEADER. Returns
 * the bytes that the message has in all once its header is complete (which may be more than `have`:
 * call again with them), TCP_CM_HEADER before that, or -FI_EPROTO with a sentence in *why.
 */
int tcp_cm_decode(const uint8_t *bytes, size_t have, struct tcp_cm_message *message,
                  const char **why);

#endif
