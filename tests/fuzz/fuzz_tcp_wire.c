/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a record or a message of the exchange: what decodes encodes to the same bytes, and
 * what is cut short asks for more. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transports/tcp/tcp_cm_wire.h"
#include "transports/tcp/tcp_wire.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The short way says what the long one does, or nothing. */
static void check_plain(const uint8_t *data, size_t size)
{
    struct tcp_wire plain, wire = {0};
    size_t head = tcp_wire_decode_plain(data, size, &plain);
    const char *why = NULL;

    if (!head)
        return;
    must(tcp_wire_decode(data, size, false, &wire, &why) == (int)head);
    must(plain.op == wire.op && plain.op_data == wire.op_data && plain.flags == wire.flags);
    must(plain.payload == wire.payload && plain.tag == wire.tag && plain.cq_data == wire.cq_data);
}

static void check_record(const uint8_t *data, size_t size, bool network)
{
    struct tcp_wire wire = {0};
    uint8_t again[TCP_WIRE_MAX];
    const char *why = NULL;
    int rc = tcp_wire_decode(data, size, network, &wire, &why);

    if (rc < 0)
        must(why != NULL);
    if (rc <= 0) {
        must(rc < 0 || size < TCP_WIRE_MAX);
        return;
    }
    must((size_t)rc <= size && rc >= TCP_WIRE_BASE && rc <= TCP_WIRE_MAX);
#ifdef FUZZ_PLANTED
    /* As if the segment count were believed in every record: it holds leftovers in most. */
    must(wire.iov_count <= TCP_WIRE_IOV_MAX);
#endif
    must(tcp_wire_encode(&wire, network, again) == (size_t)rc);
    again[0] = data[0];                                   /* the version is not looked at */
    if (wire.op == TCP_OP_TAG && data[1] == TCP_OP_MSG) { /* as 1.17 spells it */
        again[1] = data[1];
        again[network ? 3 : 2] |= TCP_FLAG_TAGGED;
    }
    must(!memcmp(again, data, (size_t)rc));
    for (int have = 0; have < rc; have++)
        must(tcp_wire_decode(data, (size_t)have, network, &wire, &why) == 0);
}

static void check_exchange(const uint8_t *data, size_t size)
{
    struct tcp_cm_message message = {0};
    const char *why = NULL;
    int rc = tcp_cm_decode(data, size, &message, &why);

    if (rc < 0)
        must(why != NULL);
    else
        must(rc >= TCP_CM_HEADER && rc <= TCP_CM_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy, so that a read past the end is seen. */
    uint8_t *copy = malloc(size ? size : 1);

    must(!!copy);
    if (size)
        memcpy(copy, data, size);
    check_plain(copy, size);
    check_record(copy, size, false);
    check_record(copy, size, true);
    check_exchange(copy, size);
    free(copy);
    return 0;
}
