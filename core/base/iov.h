/* SPDX-License-Identifier: BSD-2-Clause */
/* Arrays of segments of memory. */
#ifndef WEFT_CORE_BASE_IOV_H
#define WEFT_CORE_BASE_IOV_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

/* Bytes of all segments; false when the sum overflows. */
static inline bool iov_total(const struct iovec *iov, size_t count, size_t *bytes)
{
    *bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (__builtin_add_overflow(*bytes, iov[i].iov_len, bytes))
            return false;
    }
    return true;
}

/* The same of segments whose sum is known to fit. */
static inline size_t iov_bytes(const struct iovec *iov, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

/* Copies as much as fits; returns how much. */
static inline size_t iov_copy(const struct iovec *to, size_t to_count, const struct iovec *from,
                              size_t from_count)
{
    size_t i = 0, j = 0, to_at = 0, from_at = 0, done = 0;

    while (i < to_count && j < from_count) {
        size_t room = to[i].iov_len - to_at, left = from[j].iov_len - from_at;
        size_t len = room < left ? room : left;

        if (len)
            memcpy((char *)to[i].iov_base + to_at, (const char *)from[j].iov_base + from_at, len);
        done += len;
        to_at += len;
        from_at += len;
        if (to_at == to[i].iov_len) {
            i++;
            to_at = 0;
        }
        if (from_at == from[j].iov_len) {
            j++;
            from_at = 0;
        }
    }
    return done;
}

/* iov_scatter (into the segments) and iov_gather, which each get a copy. */
static inline __attribute__((always_inline)) void
iov_move(const struct iovec *iov, size_t count, size_t at, char *bytes, size_t len, bool into)
{
    for (size_t i = 0; i < count && len; i++) {
        size_t room = iov[i].iov_len;

        if (at >= room) {
            at -= room;
            continue;
        }
        room -= at;
        if (room > len)
            room = len;
        if (into)
            memcpy((char *)iov[i].iov_base + at, bytes, room);
        else
            memcpy(bytes, (const char *)iov[i].iov_base + at, room);
        bytes += room;
        len -= room;
        at = 0;
    }
}

/* Copies len bytes into the segments from byte `at` of them on; bytes beyond their end are
 * dropped. */
static inline void iov_scatter(const struct iovec *iov, size_t count, size_t at, const void *from,
                               size_t len)
{
    iov_move(iov, count, at, (char *)(uintptr_t)from, len, true);
}

/* Copies len bytes of the segments, from byte `at` of them on, which they have. */
static inline void iov_gather(const struct iovec *iov, size_t count, size_t at, void *to,
                              size_t len)
{
    iov_move(iov, count, at, to, len, false);
}

#endif
