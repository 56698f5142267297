/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/conn/rxm_wire.h"

#include <endian.h>
#include <string.h>

const uint8_t rxm_wire_refusal[2] = {1, 1};

enum {
    TRAILER_VERSION = 1,
    TRAILER_SIZE = RXM_WIRE_SIZE - RXM_WIRE_BASE,
    TRAILER_SHORTEST = 8 /* up to the extensions */
};

static const uint8_t magic[4] = {'W', 'E', 'F', 'T'};

static void put_trailer(const struct rxm_wire_hello *hello, uint8_t *raw)
{
    uint16_t extensions = htobe16(hello->extensions);

    memcpy(raw, magic, sizeof(magic));
    raw[4] = TRAILER_VERSION;
    raw[5] = TRAILER_SIZE;
    memcpy(raw + 6, &extensions, sizeof(extensions));
    raw[8] = hello->source;
    raw[9] = hello->target;
    memset(raw + 10, 0, 2);
}

size_t rxm_wire_put(const struct rxm_wire_hello *hello, uint8_t raw[RXM_WIRE_SIZE])
{
    uint16_t port = htobe16(hello->port);
    uint32_t pid = htobe32(hello->pid);

    raw[0] = hello->version;
    raw[1] = hello->features;
    memcpy(raw + 2, &port, sizeof(port));
    memcpy(raw + 4, &pid, sizeof(pid));
    if (!hello->trailer)
        return RXM_WIRE_BASE;
    put_trailer(hello, raw + RXM_WIRE_BASE);
    return RXM_WIRE_SIZE;
}

static bool get_trailer(const uint8_t *raw, size_t len, struct rxm_wire_hello *hello)
{
    uint16_t extensions;

    if (len < TRAILER_SHORTEST || memcmp(raw, magic, sizeof(magic)) || raw[4] < TRAILER_VERSION ||
        raw[5] != len)
        return false;
    memcpy(&extensions, raw + 6, sizeof(extensions));
    hello->trailer = true;
    hello->extensions = be16toh(extensions);
    if (len < TRAILER_SIZE)
        hello->extensions &= (uint16_t)~RXM_WIRE_CONTEXTS;
    if (!(hello->extensions & RXM_WIRE_CONTEXTS))
        return true;
    hello->source = raw[8];
    hello->target = raw[9];
    return true;
}

bool rxm_wire_get(const void *raw, size_t len, struct rxm_wire_hello *hello)
{
    const uint8_t *bytes = raw;
    uint16_t port;
    uint32_t pid;

    if (len < RXM_WIRE_BASE)
        return false;
    memcpy(&port, bytes + 2, sizeof(port));
    memcpy(&pid, bytes + 4, sizeof(pid));
    *hello = (struct rxm_wire_hello){
        .version = bytes[0],
        .features = bytes[1],
        .port = be16toh(port),
        .pid = be32toh(pid),
    };
    return len == RXM_WIRE_BASE || get_trailer(bytes + RXM_WIRE_BASE, len - RXM_WIRE_BASE, hello);
}

void rxm_wire_answer(const struct rxm_wire_hello *request, uint32_t pid, uint16_t extensions,
                     struct rxm_wire_hello *answer)
{
    unsigned asked = request->version & ~RXM_WIRE_PROOF;

    *answer = (struct rxm_wire_hello){.trailer = request->trailer, .extensions = extensions};
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
