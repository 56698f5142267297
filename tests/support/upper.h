/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner's side of fi_peer(3), as an upper with tables of its own has it: a receive context that
 * matches by tag alone, queues and counters that keep what they are told.
 */
#ifndef WEFT_TESTS_SUPPORT_UPPER_H
#define WEFT_TESTS_SUPPORT_UPPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_peer.h>

enum {
    UPPER_ENTRIES = 16,
    UPPER_BYTES = 300000, /* of a receive */
};

struct upper_entry {
    struct fi_peer_rx_entry rx;
    struct iovec iov;
    bool posted, waiting;
    char buf[UPPER_BYTES];
};

/* A receive context. */
struct upper {
    struct fid_peer_srx srx;
    struct upper_entry entries[UPPER_ENTRIES];
    unsigned live, asked;
    fi_addr_t addr; /* of the last question */
};

void upper_init(struct upper *upper);
/* A receive of `room` bytes for messages to come; kind: FI_MSG, FI_TAGGED. */
struct upper_entry *upper_post(struct upper *upper, uint64_t kind, uint64_t tag, size_t room);
/* As when a receive is posted for a message that waits: 1 there is none, else what start says. */
int upper_start(struct upper *upper, uint64_t kind, uint64_t tag);
/* All messages that wait. */
void upper_discard(struct upper *upper);

/* A completion queue. */
struct upper_done {
    struct fi_cq_err_entry entry; /* err 0: a success, with `buf`, `data` and so on */
    fi_addr_t src;
};

struct upper_queue {
    struct fid_peer_cq cq;
    struct upper_done done[UPPER_ENTRIES];
    unsigned count;
};

void upper_queue_init(struct upper_queue *queue);
/* The oldest one; false: there is none. */
bool upper_queue_take(struct upper_queue *queue, struct upper_done *done);

struct upper_count {
    struct fid_peer_cntr cntr;
    unsigned value, errors;
};

void upper_count_init(struct upper_count *count);

#endif
