/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/wire/trailer.h"

#include <string.h>

#include "transports/uet/wire/crc.h"

enum {
    UDP_HEADER = 8,
};

static uint32_t add_address(uint32_t crc, const union addr *addr)
{
    if (addr->sa.sa_family == AF_INET6)
        return crc32c(crc, &addr->in6.sin6_addr, sizeof(addr->in6.sin6_addr));
    return crc32c(crc, &addr->in.sin_addr, sizeof(addr->in.sin_addr));
}

/* The CRC of all that stands before a packet of len bytes, trailer included. */
static uint32_t begin(const union addr *from, const union addr *to, size_t len)
{
    uint16_t source = addr_port(&from->sa), target = addr_port(&to->sa);
    size_t size = len + UDP_HEADER;
    const uint8_t udp[UDP_HEADER] = {
        (uint8_t)(source >> 8), (uint8_t)source,      (uint8_t)(target >> 8),
        (uint8_t)target,        (uint8_t)(size >> 8), (uint8_t)size,
    };

    return crc32c(add_address(add_address(0, from), to), udp, sizeof(udp));
}

static void put(uint32_t crc, uint8_t trailer[TRAILER_SIZE])
{
    for (int i = 0; i < TRAILER_SIZE; i++)
        trailer[i] = (uint8_t)(crc >> 8 * i);
}

void trailer_put(const union addr *from, const union addr *to, const struct iovec *iov,
                 size_t count, uint8_t trailer[TRAILER_SIZE])
{
    size_t len = TRAILER_SIZE;
    uint32_t crc;

    for (size_t i = 0; i < count; i++)
        len += iov[i].iov_len;
    crc = begin(from, to, len);
    for (size_t i = 0; i < count; i++)
        crc = crc32c(crc, iov[i].iov_base, iov[i].iov_len);
    put(crc, trailer);
}

bool trailer_check(const union addr *from, const union addr *to, const uint8_t *bytes, size_t len)
{
    uint8_t little[TRAILER_SIZE], big[TRAILER_SIZE];
    const uint8_t *came;
    uint32_t crc;

    if (len < TRAILER_SIZE || from->sa.sa_family != to->sa.sa_family)
        return false;
    came = bytes + len - TRAILER_SIZE;
    crc = crc32c(begin(from, to, len), bytes, len - TRAILER_SIZE);
    put(crc, little);
    put(__builtin_bswap32(crc), big);
    return !memcmp(came, little, TRAILER_SIZE) || !memcmp(came, big, TRAILER_SIZE);
}
