/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams that were posted with FI_MORE, or that the kernel had no room for behind such: they
 * leave together (core/net/datagram.h). Guarded by the endpoint's progress domain.
 */
#ifndef WEFT_UDP_BATCH_H
#define WEFT_UDP_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/net/datagram.h"
#include "transports/udp/udp_info.h"

enum {
    UDP_BATCH_MAX = DATAGRAM_BATCH_MAX,
};

_Static_assert((int)UDP_IOV_LIMIT <= (int)DATAGRAM_IOV, "a datagram holds a message's segments");

struct udp_send {
    struct datagram datagram; /* the first member */
    void *context;
    bool wanted; /* a completion is */
};

struct udp_batch {
    unsigned first, count; /* those from first to count wait */
    struct udp_send sends[UDP_BATCH_MAX];
};

struct udp_ep;

static inline unsigned udp_batch_waiting(const struct udp_batch *batch)
{
    return batch ? batch->count - batch->first : 0;
}

/* A place for one more, which the caller fills and adds to count; NULL: there is none. */
struct udp_send *udp_batch_next(struct udp_batch *batch);
/* Sends what the kernel takes, and reports it. Progress domain of ep locked. */
void udp_batch_flush(struct udp_ep *ep);

/* Does an error of a system call that sends mean that there is no room just now? */
bool udp_is_full(int err);

#endif
