/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of loop: endpoints that reach each other through memory of the process.
 *
 * A port is an address in the world (one table for the process), with an inbox. It outlives its
 * endpoint while peers hold it. A message is queued in the inbox of the port that it goes to,
 * refers to the sender's buffers, and comes back to the sender's port when it is done; the receiver
 * copies at once, also what nobody waits for yet. With deliver=post, and while nothing is queued, a
 * message does not leave the sender's stack: it is handed over inside of the post.
 *
 * A datagram (FI_EP_DGRAM) succeeds when it is sent: without a receive, or without an endpoint, it
 * is gone.
 *
 * Locks: a port's spin lock guards its two queues, the world's mutex the table and who is connected
 * to whom. Order: fabric's unit, endpoint's unit, world, port. Endpoints of different units may be
 * driven by different threads with deliver=progress only.
 */
#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H

#include <pthread.h>
#include <stdatomic.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_peer.h>

#include "core/addr.h"
#include "core/av.h"
#include "core/eq.h"
#include "core/fid.h"
#include "core/list.h"
#include "core/match.h"
#include "core/mr.h"
#include "core/part.h"
#include "core/pool.h"
#include "core/report.h"
#include "core/srx.h"
#include "core/stx.h"
#include "transports/loop/loop_test.h"

enum {
    LOOP_IOV_LIMIT = 4,
    LOOP_SIZE = 4096,
    LOOP_INJECT = 256,
    LOOP_ATOMIC = 4096, /* bytes of one operand */
    LOOP_MTU = 4096,    /* of FI_EP_DGRAM */
    LOOP_CM_DATA = 256,
    LOOP_FETCH = 32768, /* bytes: OPT_FETCH_SIZE */
    LOOP_MIN_MULTI_RECV = 16384,
};

static inline void loop_count(enum loop_call call)
{
    loop_calls[call]++;
}

struct loop_fabric {
    struct fabric base;
    struct unit *unit;
    struct params *params;
    bool direct;               /* deliver=post */
    bool rdma;                 /* shape=rdma */
    struct unit_source source; /* of `unit`: ends connections for who reads the EQ only */
    struct list ended;         /* endpoints whose peer has gone (world locked) */
};

struct loop_domain {
    struct domain base;
    struct loop_fabric *fabric;
};

struct loop_ep;
struct loop_pep;

struct loop_port {
    struct list link; /* in the world */
    union addr addr;
    unsigned index;  /* small, unique among the ports that are open */
    uint64_t serial; /* unique */
    atomic_int refs;
    atomic_bool taken;  /* the spin lock */
    atomic_bool work;   /* something is in a queue */
    atomic_bool armed;  /* wake who sleeps on fd */
    int fd;             /* eventfd, or -1 */
    struct loop_ep *ep; /* NULL when closed. Changes under the spin lock */
    struct loop_pep *pep;
    struct list inbox, done;
};

enum loop_kind {
    LOOP_MSG,
    LOOP_TAGGED,
    LOOP_WRITE,
    LOOP_READ,
    LOOP_ATOMIC_WRITE,
    LOOP_ATOMIC_FETCH /* or compare */
};

enum loop_where {
    LOOP_QUEUED,
    LOOP_TAKEN,
    LOOP_DONE
};

/* What an atomic has more than a write: its operands are the iov, its targets the rma. */
struct loop_atomic {
    enum fi_datatype datatype;
    enum fi_op op;
    uint64_t function;
    size_t compare_count, result_count;
    struct iovec compare[LOOP_IOV_LIMIT], result[LOOP_IOV_LIMIT];
};

/* An operation under way. */
struct loop_op {
    struct list outstanding; /* of the sender's; only of queued ones */
    struct list queue;       /* in an inbox or a done queue */
    struct loop_port *from, *to;
    _Atomic(enum loop_where) where;
    enum loop_kind kind;
    int err; /* how it ended, positive */
    bool has_data, wanted;
    bool datagram; /* lost without a word when nobody takes it */
    uint64_t data, tag;
    size_t len;
    void *context;
    const struct loop_atomic *atomic; /* of atomics only */
    size_t count, rma_count;
    struct iovec iov[LOOP_IOV_LIMIT];
    struct fi_rma_iov rma[LOOP_IOV_LIMIT];
};

/* One in a pool: with room for the payload of an inject. */
struct loop_queued_op {
    struct loop_op op;
    struct loop_atomic atomic;
    char bytes[LOOP_INJECT], compare[LOOP_INJECT];
};

/* A message without a receive. */
struct loop_saved {
    struct list link;       /* of its endpoint */
    struct loop_ep *ep;     /* NULL: closed */
    struct loop_port *from; /* held */
    size_t len;
    bool has_data;
    uint64_t data;
    char bytes[];
};

enum loop_state {
    LOOP_IDLE,
    LOOP_ENABLED,
    LOOP_CONNECTING,
    LOOP_CONNECTED,
    LOOP_DOWN
};

/* A connection request; its fid is info->handle. */
struct loop_request {
    struct fid fid;
    struct list link;
    struct loop_pep *pep;
    struct loop_ep *from; /* NULL: given up */
};

/* What address a port has in an AV. */
struct loop_known {
    uint64_t serial; /* of the port; another: to be looked up */
    fi_addr_t addr;
};

struct loop_ep {
    struct fid_ep fid;
    struct loop_domain *domain;
    struct loop_port *port;
    struct report report;
    struct unit_source source;
    _Atomic(enum loop_state) state;
    bool rdm;   /* needs no connection: FI_EP_DGRAM too */
    bool dgram; /* FI_EP_DGRAM */
    bool attached, knows_sources;
    uint32_t addr_format;
    uint64_t caps, tx_op_flags, rx_op_flags;
    size_t tx_size, rx_size, min_multi_recv;
    /* Receiving: by the upper's context, a shared one, or its own. */
    struct fid_peer_srx *in;
    struct srx *srx;
    struct match *match;
    struct match_source match_source;
    struct srx_user srx_use;
    struct stx *stx;
    struct list saved;
    bool needs_srx, needs_stx;
    bool source_err; /* FI_SOURCE_ERR: who is in no AV is told with his address */
    /* Sending. */
    struct pool pool;
    struct list outstanding;
    size_t outstanding_count;
    struct loop_port *peer;   /* of a connected one; held */
    struct loop_port **peers; /* by fi_addr_t; held */
    size_t peer_count;
    struct loop_known *sources; /* by port index */
    size_t source_count;
    struct av *av;
    struct av_listener listener;
    atomic_bool stale_peers, stale_sources; /* the AV has changed */
    /* Connection management (world locked). */
    struct eq *eq;
    struct loop_request *request; /* the one that it answers, or that it made */
    atomic_bool ended;            /* the peer has gone */
    struct list ended_link;
};

struct loop_pep {
    struct fid_pep fid;
    struct loop_fabric *fabric;
    struct loop_port *port;
    struct fi_info *info;
    struct eq *eq;
    bool listening;
};

static inline struct loop_ep *loop_ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct loop_ep, fid);
}

/* ---- loop_info.c ---- */

int loop_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);
/* From any format that loop takes, "loop://7" included. -FI_EINVAL. */
int loop_addr_import(uint32_t format, const void *raw, size_t len, union addr *addr);
/* Bytes of addr in a format, written to raw (LOOP_ADDR_MAX). */
enum {
    LOOP_ADDR_MAX = 128
};
size_t loop_addr_export(uint32_t format, bool rdm, const union addr *addr, void *raw);
/* The same for fi_getname: -FI_ETOOSMALL. */
int loop_addr_give(uint32_t format, bool rdm, const union addr *addr, void *raw, size_t *len);

/* ---- loop_world.c ---- */

void loop_world_lock(void);
void loop_world_unlock(void);
extern struct list loop_requests; /* raised and unanswered */

/* A port with that address (port 0: a free one), or -FI_EADDRINUSE, -FI_ENOMEM. One reference. */
int loop_port_open(const union addr *addr, struct loop_port **port);
/* Another address, as long as nobody can know the first. */
int loop_port_rename(struct loop_port *port, const union addr *addr);
/* No longer to be found; the owner's reference goes. Its ep is NULL by now. */
void loop_port_close(struct loop_port *port);
/* By address; NULL. World locked. */
struct loop_port *loop_port_look(const union addr *addr);
/* The same, held. World not locked. */
struct loop_port *loop_port_find(const union addr *addr);
static inline struct loop_port *loop_port_hold(struct loop_port *port)
{
    atomic_fetch_add(&port->refs, 1);
    return port;
}
void loop_port_release(struct loop_port *port); /* takes NULL */
static inline void loop_port_lock(struct loop_port *port)
{
    while (atomic_exchange_explicit(&port->taken, true, memory_order_acquire))
        ;
}
static inline void loop_port_unlock(struct loop_port *port)
{
    atomic_store_explicit(&port->taken, false, memory_order_release);
}
/* Wakes who sleeps on fd: one write, then none until somebody is about to sleep again. */
void loop_port_wake(struct loop_port *port);
/* Before sleeping, and before the last look at `work`. */
void loop_port_arm(struct loop_port *port);

/* ---- the rest ---- */

int loop_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);
int loop_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                 void *context);
int loop_ep_enable(struct loop_ep *ep);
int loop_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                  void *context);

extern struct fi_ops_cm loop_cm_ops, loop_rdm_cm_ops;
extern struct fi_ops_msg loop_msg_ops, loop_msg_shared_ops;
extern struct fi_ops_tagged loop_tagged_ops, loop_tagged_shared_ops;
extern struct fi_ops_rma loop_rma_ops;
extern struct fi_ops_atomic loop_atomic_ops;
extern struct fi_ops_srx_peer loop_srx_peer_ops;

/* An endpoint takes the request of info->handle over. -FI_EINVAL. */
int loop_cm_claim(struct loop_ep *ep, const struct fid *handle);
/* The peer has gone and what it sent is in: ends the connection. Unit locked. */
void loop_cm_finish(struct loop_ep *ep);
/* The endpoint is being closed: tells the peer, drops requests. Fabric's unit locked. */
void loop_cm_close(struct loop_ep *ep);
void loop_cm_progress(struct unit_source *source);
int loop_cm_trywait(struct unit_source *source);

/*
 * Sends an operation: fields from kind to rma are the caller's. flags: final (FI_INJECT,
 * FI_COMPLETION, FI_REMOTE_CQ_DATA); silent: success is not reported. Takes the lock.
 * -FI_EAGAIN, -FI_ENOTCONN, -FI_EINVAL, -FI_EMSGSIZE.
 */
ssize_t loop_send(struct loop_ep *ep, struct loop_op *op, fi_addr_t dest, uint64_t flags,
                  bool silent);
/* Takes what is in the inbox and reports what is done. Unit locked. */
void loop_progress(struct unit_source *source);
int loop_trywait(struct unit_source *source);
/* Everything under way ends without a report (FI_ECANCELED for who sent to us). Unit locked. */
void loop_abort(struct loop_ep *ep);
/* The fi_addr_t of a sender, FI_ADDR_UNSPEC when unknown or of no interest. Unit locked. */
fi_addr_t loop_source(struct loop_ep *ep, const struct loop_port *from);
/* Lets go of the peers that sends have looked up. Unit locked. */
void loop_forget_peers(struct loop_ep *ep);
/* An atomic at its target: loop_atomic.c. 0 or a positive error. Unit of ep locked. */
int loop_apply(struct loop_ep *ep, const struct loop_op *op);
/* A message meets its receive, or is saved: loop_receive.c. Sets op->err. Unit of ep locked. */
void loop_receive(struct loop_ep *ep, struct loop_op *op);
/* The AV has changed: saved messages may have a source now. Unit locked. */
void loop_resolve_saved(struct loop_ep *ep);

#endif
