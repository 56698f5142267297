/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs. The send queue is a ring with three marks:
 *
 *      head            next            tail
 *       | on the way    | not yet sent  |
 *
 * Requests leave at `next`, complete at `head` in order, and go back to `head` when the peer says
 * that something was lost. Marks count from 0 and on; the place of a request is its mark modulo the
 * size, and its number on the wire is its mark plus the initial packet number.
 */
#ifndef WEFT_EMULATOR_QP_H
#define WEFT_EMULATOR_QP_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "counter.h"
#include "cq.h"
#include "loop.h"
#include "node.h"
#include "object.h"
#include "recv_queue.h"
#include "srq.h"

enum {
    RESPONSES = 256, /* more than max_dest_rd_atomic can be, and one failure */
};

/* Between two ports: what is in the headers of packets. */
struct route {
    uint8_t source_gid[16], target_gid[16];
    uint8_t gid_type;
};

struct send_wr {
    uint64_t wr_id;
    enum ibv_wr_opcode opcode;
    unsigned flags;
    int num_sge;
    struct ibv_sge *sges;
    uint8_t *inlined; /* the data, if flags say IBV_SEND_INLINE */
    uint32_t length;  /* of all segments */
    uint32_t immediate, rkey;
    uint64_t remote_address, operand[2];
    struct route route; /* of a datagram, as the two below */
    uint32_t remote_qpn, remote_qkey;
    bool done, checked;
    enum ibv_wc_status failed; /* found as its turn came; it completes when it is the oldest */
    uint32_t received;         /* of the answer to a read */
    uint8_t srd, rnr_count;    /* of srd.c */
    uint32_t sent, out;        /* of srd_rdma.c: bytes that have left, pieces without an answer */
    bool begun, told;          /* a piece has left, the immediate data has */
};

/* An answer that the responder owes: the data of a read, the value of an atomic, a failure. */
struct response {
    enum wire_kind kind;
    uint32_t message;
    uint8_t status;
    uint32_t rkey, total, offset;
    uint64_t address, value;
};

struct requester {
    struct send_wr *ring;
    struct ibv_sge *sges;
    uint8_t *inlined;
    uint32_t size;
    uint32_t head, next, tail;
    uint32_t limit;  /* how far `next` has been: answers may still come for those before */
    uint32_t offset; /* of the request at `next`: what has left */
    uint32_t used, unsignaled; /* places not yet polled free; completed without a completion */
    uint32_t reads;            /* on the way */
    unsigned retries, rnr_retries;
    bool lost;    /* the timer runs for an answer that will not come */
    bool waiting; /* the timer runs for a receiver that was not ready, or for a fault */
    struct timer timer;
};

struct responder {
    uint32_t expected; /* the number of the next message */
    bool taken;        /* a receive is being filled */
    bool refused;      /* the peer knows that `expected` did not get through */
    struct recv_wr wr;
    struct ibv_sge *sges;
    uint32_t offset;
    struct response ring[RESPONSES];
    uint32_t head, count;
    uint32_t atomics[RESPONSES]; /* the last ones executed: their messages, and their values */
    uint64_t values[RESPONSES];
    uint32_t atomic_count;
    bool met; /* IBV_EVENT_COMM_EST has been reported */
};

struct qp {
    struct ibv_qp_ex ex; /* first: what the interface hands out */
    uint32_t number;     /* on the wire */
    struct device *device;
    struct ibv_qp_cap cap;
    struct ibv_qp_attr attr;
    struct route route; /* of a connected one */
    bool sq_sig_all, extended;
    bool unsolicited; /* of SRD: data of writes takes no receive */
    uint64_t send_ops;
    struct requester requester;
    struct responder responder;
    struct recv_queue receives;
    struct link_waiter waiter;
    struct counter *counters[COUNTER_OPS]; /* of counter.c */
    struct object object;
    struct list groups; /* of multicast.c */
    struct list held;   /* of srd.c: packets that others overtake, and the next two */
    unsigned held_count;
    struct timer held_timer;
    /* Between wr_start and wr_complete. */
    pthread_mutex_t staging;
    struct send_wr *staged;
    struct ibv_sge *staged_sges;
    uint8_t *staged_inline;
    uint32_t staged_count;
    int staged_error;
};

static inline struct qp *qp_of(struct ibv_qp *qp)
{
    return (struct qp *)(void *)qp;
}

static inline struct ibv_qp *qp_public(struct qp *qp)
{
    return &qp->ex.qp_base;
}

/* All below: the lock is held. */
struct qp *qp_find(uint32_t number);

/* Calls for each queue pair of this process. */
void qp_each(void (*call)(struct qp *qp, void *argument), void *argument);

/* To the error state: everything posted completes with IBV_WC_WR_FLUSH_ERR. */
void qp_fail(struct qp *qp);

/* To the reset state: everything posted is forgotten. */
void qp_reset(struct qp *qp);

/* Completes the request at head with a status; those before it have completed. */
void qp_complete_send(struct qp *qp, enum ibv_wc_status status);

/* Takes a receive into responder.wr; false if there is none. */
bool qp_take_receive(struct qp *qp);

/* Completes the receive that was taken. */
void qp_complete_receive(struct qp *qp, struct ibv_wc *wc, bool solicited);

struct send_wr *qp_request(struct qp *qp, uint32_t mark);

/* The bytes [offset, offset + length) of a request as pieces; the number of them, or -1 if the keys
 * do not allow it (access: what the segments must have been registered for). */
int qp_gather(struct qp *qp, const struct send_wr *wr, uint32_t offset, uint32_t length,
              unsigned access, struct iovec *pieces);

/* Writes bytes at an offset of segments; false if the keys do not allow it. */
bool qp_scatter(struct qp *qp, const struct ibv_sge *sges, int count, uint32_t offset,
                const void *bytes, uint32_t length);

/* Does what can be done now: answers, then requests. */
void qp_pump(struct qp *qp);

/* A packet from this queue pair to its peer, or over another route; without kind and sizes. */
struct wire_packet qp_packet(const struct qp *qp, const struct route *route, uint32_t target_qpn);

#endif
