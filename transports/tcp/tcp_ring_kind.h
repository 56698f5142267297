/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of a ring. user_data of a request is a pointer (to a connection, or a
 * flight) with what it is in the low bits; 0 is of none. A pointer stays valid because
 * connections and flights are kept until their last answer.
 */
#ifndef WEFT_TCP_RING_KIND_H
#define WEFT_TCP_RING_KIND_H

#include <stdint.h>

#include "transports/tcp/tcp_ring.h"

/* Younger than the oldest liburing that this is built with. */
#ifndef IORING_SEND_ZC_REPORT_USAGE
#define IORING_SEND_ZC_REPORT_USAGE (1U << 3)
#endif
#ifndef IORING_NOTIF_USAGE_ZC_COPIED
#define IORING_NOTIF_USAGE_ZC_COPIED (1U << 31)
#endif

enum {
    RING_GROUP = 1 /* of the buffers */
};

enum ring_kind {
    RING_RECEIVE = 1,
    RING_DIRECT,
    RING_CANCEL,
    RING_POLL,
    RING_SEND,
    RING_KIND_MASK = 7
};

static inline uint64_t ring_tag(const void *pointer, enum ring_kind kind)
{
    return (uint64_t)(uintptr_t)pointer | kind;
}

/* A call returned rc. A program may have forbidden itself the call since the ring was made, or
 * closed a descriptor that is not its own. The kernel will report nothing that it has any more, so
 * that all connections end: one line in the log, and `refused`. */
void ring_judge(struct tcp_ring *ring, const char *what, int rc);

#endif
