/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages between processes of the emulated RDMA network: the first byte chooses packets or
 * messages of connection management. A message that is accepted must be consistent in itself. */
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/cm_wire.h"
#include "tests/emulator/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool has_payload(unsigned kind)
{
    return kind == WIRE_SEND || kind == WIRE_WRITE || kind == WIRE_READ_DATA ||
           kind == WIRE_DATAGRAM;
}

static void try_packet(const uint8_t *data, size_t size)
{
    struct wire_packet packet, again;
    const char *why = NULL;

    if (!wire_decode(data, size, &packet, &why)) {
        require(why != NULL);
        return;
    }
#ifdef FUZZ_PLANTED
    require((int32_t)packet.message >= 0 && packet.remote_address < UINT64_MAX / 2);
#endif
    require(packet.kind > 0 && packet.kind < WIRE_KINDS);
    require(packet.length == size - sizeof(packet) && packet.length <= WIRE_PAYLOAD);
    if (!has_payload(packet.kind))
        return;
    require((uint64_t)packet.offset + packet.length <= packet.total);
    /* The sender derives the values that were accepted. */
    again = packet;
    wire_finish(&again);
    require(memcmp(&packet, &again, sizeof(packet)) == 0);
}

static void try_message(const uint8_t *data, size_t size)
{
    struct cm_message message;
    const char *why = NULL;

    if (!cm_decode(data, size, &message, &why)) {
        require(why != NULL);
        return;
    }
    require(message.retry <= 7 && message.rnr_retry <= 7 && message.qpn >> 24 == 0);
    require(cm_room(message.kind, message.is_datagram) <= sizeof(message.data));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] == 0)
        try_packet(data + 1, size - 1);
    else
        try_message(data + 1, size - 1);
    return 0;
}
