/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_cm_wire.h"

#include <endian.h>
#include <string.h>

#include <rdma/fi_errno.h>

enum {
    CM_VERSION = 3,
    OFF_TYPE = 1,
    OFF_DATA_LEN = 2,
    OFF_CONN_DATA = 24,
};

size_t tcp_cm_encode(enum tcp_cm_type type, const void *data, size_t data_len, uint8_t *bytes)
{
    uint16_t length = htobe16((uint16_t)data_len);
    uint64_t conn_data = type != TCP_CM_REJECT;

    memset(bytes, 0, TCP_CM_HEADER);
    bytes[0] = CM_VERSION;
    bytes[OFF_TYPE] = (uint8_t)type;
    memcpy(bytes + OFF_DATA_LEN, &length, sizeof(length));
    memcpy(bytes + OFF_CONN_DATA, &conn_data, sizeof(conn_data));
    if (data_len)
        memcpy(bytes + TCP_CM_HEADER, data, data_len);
    return TCP_CM_HEADER + data_len;
}

int tcp_cm_decode(const uint8_t *bytes, size_t have, struct tcp_cm_message *message,
                  const char **why)
{
    uint16_t length;
    uint64_t conn_data;

    /* A stranger is turned away by its first bytes: it may never send 32. */
    if (have > 0 && bytes[0] != CM_VERSION) {
        *why = "not the version 3 of the connection exchange";
        return -FI_EPROTO;
    }
    if (have > OFF_TYPE && bytes[OFF_TYPE] != TCP_CM_REQUEST && bytes[OFF_TYPE] != TCP_CM_ACCEPT &&
        bytes[OFF_TYPE] != TCP_CM_REJECT) {
        *why = "not a message of the connection exchange";
        return -FI_EPROTO;
    }
    if (have < TCP_CM_HEADER)
        return TCP_CM_HEADER;

    memcpy(&length, bytes + OFF_DATA_LEN, sizeof(length));
    memcpy(&conn_data, bytes + OFF_CONN_DATA, sizeof(conn_data));
    message->type = bytes[OFF_TYPE];
    message->network = conn_data != 1;
    message->data_len = be16toh(length);
    if (message->data_len > TCP_CM_DATA_MAX) {
        *why = "more than 256 bytes of private data";
        return -FI_EPROTO;
    }
    return (int)(TCP_CM_HEADER + message->data_len);
}
