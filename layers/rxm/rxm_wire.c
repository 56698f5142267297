/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_wire.h"

#include <endian.h>
#include <string.h>

const uint8_t rxm_wire_refusal[2] = {1, 1};

void rxm_wire_put(const struct rxm_wire_hello *hello, uint8_t raw[RXM_WIRE_SIZE])
{
    uint16_t port = htobe16(hello->port);
    uint32_t pid = htobe32(hello->pid);

    raw[0] = hello->version;
    raw[1] = hello->features;
    memcpy(raw + 2, &port, sizeof(port));
    memcpy(raw + 4, &pid, sizeof(pid));
}

bool rxm_wire_get(const void *raw, size_t len, struct rxm_wire_hello *hello)
{
    const uint8_t *bytes = raw;
    uint16_t port;
    uint32_t pid;

    if (len != RXM_WIRE_SIZE)
        return false;
    memcpy(&port, bytes + 2, sizeof(port));
    memcpy(&pid, bytes + 4, sizeof(pid));
    hello->version = bytes[0];
    hello->features = bytes[1];
    hello->port = be16toh(port);
    hello->pid = be32toh(pid);
    return true;
}

void rxm_wire_answer(const struct rxm_wire_hello *request, uint32_t pid,
                     struct rxm_wire_hello *answer)
{
    unsigned asked = request->version & ~RXM_WIRE_PROOF;

    answer->version = 0;
    if (asked)
        answer->version = RXM_WIRE_PROOF | (asked < RXM_WIRE_VERSION ? asked : RXM_WIRE_VERSION);
    answer->features = request->features & RXM_WIRE_FIREWALL;
    answer->port = request->port;
    answer->pid = pid;
}

unsigned rxm_wire_agreed(const struct rxm_wire_hello *answer)
{
    unsigned version = answer->version & ~RXM_WIRE_PROOF;

    if (!(answer->version & RXM_WIRE_PROOF))
        return 0;
    return version < RXM_WIRE_VERSION ? version : RXM_WIRE_VERSION;
}
