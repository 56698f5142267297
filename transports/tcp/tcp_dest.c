/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/tcp/tcp_dest.h"

#include <string.h>

static size_t min_size(uint64_t a, uint64_t b)
{
    return (size_t)(a < b ? a : b);
}

void tcp_dest_set(struct tcp_dest *dest, const struct iovec *iov, size_t count)
{
    dest->iov = iov;
    dest->count = count;
    dest->offset = 0;
    dest->room = 0;
    for (size_t i = 0; i < count; i++)
        dest->room += iov[i].iov_len;
}

void tcp_dest_skip(struct tcp_dest *dest, size_t len)
{
    dest->room -= len;
    while (len) {
        size_t rest = dest->iov->iov_len - dest->offset;

        if (len < rest) {
            dest->offset += len;
            return;
        }
        len -= rest;
        dest->iov++;
        dest->count--;
        dest->offset = 0;
    }
}

void tcp_dest_put(struct tcp_dest *dest, const uint8_t *bytes, size_t len)
{
    len = min_size(len, dest->room);
    while (len) {
        size_t part = min_size(dest->iov->iov_len - dest->offset, len);

        if (part)
            memcpy((char *)dest->iov->iov_base + dest->offset, bytes, part);
        bytes += part;
        len -= part;
        dest->room -= part;
        dest->offset += part;
        if (dest->offset == dest->iov->iov_len) {
            dest->iov++;
            dest->count--;
            dest->offset = 0;
        }
    }
}

size_t tcp_dest_iov(const struct tcp_dest *dest, uint64_t want, struct iovec *out, size_t max,
                    size_t *total)
{
    size_t count = 0, offset = dest->offset;

    *total = 0;
    for (size_t i = 0; i < dest->count && count < max && *total < want; i++, offset = 0) {
        size_t part = min_size(dest->iov[i].iov_len - offset, want - *total);

        if (!part)
            continue;
        out[count].iov_base = (char *)dest->iov[i].iov_base + offset;
        out[count].iov_len = part;
        *total += part;
        count++;
    }
    return count;
}
