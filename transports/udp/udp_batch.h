/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams that were posted with FI_MORE, or that the kernel had no room for behind such: they
 * leave together. Neighbours of one length and one destination are a run, which leaves in one piece
 * where the kernel cuts it (UDP_SEGMENT); several runs in one sendmmsg. Guarded by the endpoint's
 * progress domain.
 */
#ifndef WEFT_UDP_BATCH_H
#define WEFT_UDP_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "core/net/addr.h"
#include "transports/udp/udp_info.h"

enum {
    UDP_BATCH_MAX = 64,       /* datagrams; no kernel cuts a run into more */
    UDP_RUN_BYTES_MAX = 65000 /* of a run: with headers below what a length field can say */
};

struct udp_send {
    union addr to;
    void *context;
    bool wanted; /* a completion is */
    size_t len, count;
    struct iovec iov[UDP_IOV_LIMIT];
};

struct udp_batch {
    unsigned first, count; /* those from first to count wait */
    struct udp_send sends[UDP_BATCH_MAX];
};

struct udp_ep;

/* How many of `count` sends may leave in one piece: of one destination, all of the first one's
 * length but the last, which may be shorter, and none empty. At least 1. */
unsigned udp_batch_run(const struct udp_send *sends, unsigned count);

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
