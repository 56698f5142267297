/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that wait until they leave, in their order. The copies of their bytes lie in one piece of
 * memory, each packet behind the one before: packets of one system call are one segment for the
 * kernel, where none names memory of the caller's. Not locked.
 */
#ifndef WEFT_UET_NIC_OUTBOX_H
#define WEFT_UET_NIC_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/net/datagram.h"
#include "transports/uet/wire/trailer.h"

enum {
    OUTBOX_COPIED = 384, /* bytes of a packet that are copied at most */
};

/* One packet. */
struct leaving {
    struct datagram datagram; /* the first member */
    bool named;               /* memory of the caller's is in it */
    uint8_t source;           /* which socket it leaves from */
    bool has_trailer;         /* that ends it: */
    uint8_t trailer[TRAILER_SIZE];
};

/* Starts zeroed. */
struct outbox {
    unsigned first, count; /* those from first to count wait */
    unsigned named;        /* of these, with memory of the caller's */
    size_t used;           /* of bytes */
    struct leaving leaving[DATAGRAM_BATCH_MAX];
    uint8_t bytes[DATAGRAM_BATCH_MAX * OUTBOX_COPIED];
};

static inline unsigned outbox_waiting(const struct outbox *outbox)
{
    return outbox->count - outbox->first;
}

/* The packet that leaves next, of those that wait. */
static inline struct leaving *outbox_first(struct outbox *outbox)
{
    return &outbox->leaving[outbox->first];
}

static inline bool outbox_is_full(const struct outbox *outbox)
{
    return outbox->count == DATAGRAM_BATCH_MAX;
}

/* Places of packets that have left become free. */
void outbox_move_up(struct outbox *outbox);
/* One more, of which nothing but the pieces of memory and len are set; those of iov that fit are
 * copied, the others are named. It is not full. */
struct leaving *outbox_add(struct outbox *outbox, const struct iovec *iov, size_t count);
/* leaving->trailer ends the packet. */
void outbox_add_trailer(struct leaving *leaving);
/* The first so many have left, or are lost. */
void outbox_drop(struct outbox *outbox, unsigned count);

#endif
