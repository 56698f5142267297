/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An endpoint: a reliable connection (RC). Its queue pair is made when it is enabled, in the
 * domain's device, so that receives are posted before it connects; rdma_cm says with whom.
 *
 * Operations of a queue pair complete in the order of their posts. So those under way are rings, an
 * entry of the device's completion queue names a place in one, and what was posted before that
 * without a completion of its own is done too.
 *
 * Locks: the event queue's progress domain guards id and request, binding.progress all else.
 */
#ifndef WEFT_VERBS_EP_H
#define WEFT_VERBS_EP_H

#include <stdatomic.h>

#include "core/ep/endpoint.h"
#include "core/net/addr.h"
#include "transports/verbs/verbs_chain.h"
#include "transports/verbs/verbs_cq.h"
#include "transports/verbs/verbs_domain.h"
#include "transports/verbs/verbs_eq.h"

struct verbs_request;
struct verbs_srx;

enum verbs_state {
    VERBS_IDLE,
    VERBS_ENABLED,
    VERBS_CONNECTING,
    VERBS_CONNECTED,
    VERBS_DOWN
};

/* A transmission that the device has. */
struct verbs_send {
    void *context;
    uint64_t flags; /* of its completion */
    uint8_t kind;   /* enum binding_kind */
    bool wanted;    /* a completion, */
    bool silent;    /* or nothing at all, error or not */
    bool part;      /* the operation goes on in the next place */
    bool plain;     /* wanted, of kind BIND_SEND, and neither of the two */
};

/* The request for one buffer, but for what differs from one to the next. */
struct verbs_template {
    struct ibv_send_wr send;
    struct ibv_recv_wr recv;
    struct ibv_sge out, in;
};

struct verbs_recv {
    void *context, *buf;
    bool wanted;
};

/* Places in use are from head to tail; both count up for ever, and mask + 1 is a power of two. */
struct verbs_ring {
    uint32_t head, tail, mask, limit; /* limit: that may be in use */
};

struct verbs_ep {
    union {
        struct endpoint base;
        struct fid_ep fid; /* base.fid */
    };
    struct verbs_cm_user user; /* of id */
    struct verbs_domain *domain;
    struct verbs_eq *eq;   /* NULL: not bound */
    struct list port_link; /* verbs_port.c. Event queue locked */
    struct verbs_cq *cq;
    struct verbs_srx *srx; /* where its receives are, or NULL */
    uint64_t number;       /* in cq */
    size_t entries;        /* claimed of cq */
    struct ibv_qp *qp;
    struct ibv_qp_ex *qp_ex; /* the same, if it takes ibv_wr_*: verbs_wr.h */
    _Atomic(enum verbs_state) state;
    atomic_bool told; /* FI_SHUTDOWN, or that there is no connection */
    bool failed;      /* the queue pair is in error: what completes was not done */
    bool closing;     /* nothing is reported any more */
    struct verbs_ring tx, rx;
    struct verbs_send *sends;
    struct verbs_recv *recvs;
    uint32_t unsignaled, signal_every;
    struct verbs_chain *chain; /* requests with FI_MORE, while it is enabled */
    /* verbs_quick.h */
    struct verbs_template wr;
    struct cq *tx_to, *rx_to; /* where plain completions go; NULL while it closes */
    uint64_t quick_flags;     /* default flags of a plain fi_send, which has a completion */
    unsigned forks;           /* fork_generation when it was enabled */
    uint64_t discard;         /* results of atomics that no caller wants */
    struct ibv_mr *discard_mr;
    size_t inline_size, tx_iov_limit, rx_iov_limit, max_msg_size;
    size_t read_segments; /* of a request; larger reads are several */
    uint8_t rnr_timer;
    uint32_t addr_format;
    union addr src, dest;
    /* The connection being made. */
    struct rdma_cm_id *id;
    struct verbs_request *request; /* that it is the answer to */
    long long deadline;            /* of the peer's answer; clock_ms */
    uint32_t answer_ms;
    uint8_t private_data[VERBS_PRIVATE];
    size_t private_len;
};

int verbs_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                  void *context);

static inline struct verbs_ep *verbs_ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct verbs_ep, fid);
}

/* A receive may be posted without the lock (verbs_quick.c), while another thread takes those before
 * it: each sees what the other has done with a place before it is taken, or free. */
static inline uint32_t verbs_in_use(const struct verbs_ring *ring)
{
    return __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) -
           __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
}

static inline void verbs_posted(struct verbs_ring *ring)
{
    __atomic_store_n(&ring->tail, ring->tail + 1, __ATOMIC_RELEASE);
}

/* Of those that the caller takes, is there one? */
static inline bool verbs_waits(const struct verbs_ring *ring)
{
    return __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) != ring->head;
}

/* How many have been taken. */
static inline uint32_t verbs_took(struct verbs_ring *ring)
{
    uint32_t head = ring->head + 1;

    __atomic_store_n(&ring->head, head, __ATOMIC_RELEASE);
    return head;
}

static inline uint32_t verbs_place(const struct verbs_ring *ring, uint32_t count)
{
    return count & ring->mask;
}

/* The connection has ended, or the device is gone; from here on nothing is sent. Once. Any locks.
 */
void verbs_ep_end(struct verbs_ep *ep);

/* ---- verbs_post.c ---- */

ssize_t verbs_post(struct ep *ep, struct op *op);
/* An entry of the device's queue. binding.progress locked. */
void verbs_ep_sent(struct verbs_ep *ep, uint32_t slot, const struct ibv_wc *wc);
void verbs_ep_received(struct verbs_ep *ep, uint32_t slot, const struct ibv_wc *wc);
/* The end of a receive that the device has given back. binding.progress locked. */
void verbs_ep_report_received(struct verbs_ep *ep, const struct verbs_recv *recv,
                              const struct ibv_wc *wc);
/* An operation that was accepted, and that the device does not take. binding.progress locked. */
void verbs_ep_report_refused(struct verbs_ep *ep, const struct verbs_send *send, int err);
/* The segments of an operation, at most limit; copied: none needs a descriptor. How many, or
 * -FI_EINVAL. */
int verbs_fill_segments(struct ibv_sge *sges, const struct op *op, size_t limit, bool copied);
/* The answer of a post that the device did not take, with that errno, of whichever sign: -FI_EAGAIN
 * where it has no room just now. */
ssize_t verbs_post_refused(int rc);
/* One more operation, with a completion, behind those without. binding.progress locked. */
void verbs_post_marker(struct verbs_ep *ep);
/* An operation that changes nothing, and fails if the peer cannot be reached: unless others, of
 * which the same is true, fill the queue. binding.progress locked. */
void verbs_post_probe(struct verbs_ep *ep);
/* Segments that one request for a read may have. Pure. */
size_t verbs_read_segments(const struct ibv_device_attr *device, size_t iov_limit);
/* The error of a work completion's status, positive. Pure. */
int verbs_status_error(enum ibv_wc_status status, bool receive);

/* ---- verbs_qp.c ---- */

/* Creates ep's queue pair and takes it to where receives can be posted. */
int verbs_qp_open(struct verbs_ep *ep);
void verbs_qp_close(struct verbs_ep *ep); /* takes one without */
/* The same in a forked child: the device's objects are the parent's. */
void verbs_qp_abandon(struct verbs_ep *ep);
/* Connects it with what id's exchange says. depth: of reads that we ask for and that we answer; -1:
 * as the exchange says. */
int verbs_qp_connect(struct verbs_ep *ep, int initiator_depth, int responder_resources);
void verbs_qp_fail(struct verbs_ep *ep); /* into the error state */
int verbs_ring_init(struct verbs_ring *ring, size_t limit);

/* ---- verbs_cm.c ---- */

extern struct fi_ops_cm verbs_cm_ops;
/* Events of ep's id. */
void verbs_cm_event(struct verbs_cm_user *user, const struct verbs_cm_event *event);
/* The error that an event of rdma_cm means for an end that connects, positive. Pure. */
int verbs_cm_error(enum rdma_cm_event_type type, int status);

#endif
