/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of loop: endpoints that reach each other through memory of the process.
 *
 * A port is an address in the world (one table for the process), with an inbox. It outlives its
 * endpoint while peers hold it. A message is queued in the inbox of the port that it goes to,
 * refers to the sender's buffers, and comes back to the sender's port when it is done; the receiver
 * copies at once, into a buffer of its own where no receive is posted. With deliver=post, and while
 * nothing is queued, a message does not leave the sender's stack: it is handed over inside of the
 * post.
 *
 * A datagram (FI_EP_DGRAM) succeeds when it is sent: without a receive, or without an endpoint, it
 * is gone.
 *
 * conn/ has FI_EP_MSG, device/ what shape= makes like devices.
 *
 * Locks: a port's spin lock guards its two queues, the world's mutex the table and all connections.
 * Order: fabric's progress domain, endpoint's progress domain, world, port. Endpoints of different
 * progress domains may be driven by different threads with deliver=progress only.
 */
#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H

#include <pthread.h>
#include <stdatomic.h>

#include <rdma/fi_cm.h>
#include <rdma/providers/fi_peer.h>

#include "core/av/peer_map.h"
#include "core/base/pool.h"
#include "core/base/seam.h"
#include "core/domain/mr.h"
#include "core/domain/plain_fabric.h"
#include "core/ep/endpoint.h"
#include "core/ep/passive.h"
#include "core/net/addr.h"
#include "core/part/part.h"
#include "transports/loop/loop_test.h"

enum {
    LOOP_IOV_LIMIT = 4,
    LOOP_SIZE = 4096,
    LOOP_INJECT = 256,
    LOOP_ATOMIC = 4096, /* bytes of one operand */
    LOOP_MTU = 4096,    /* of FI_EP_DGRAM */
    LOOP_FETCH = 32768, /* bytes: OPT_FETCH_SIZE */
    LOOP_COPY = 1024,   /* of two injected operands and five arrays of segments or descriptors */
    LOOP_MIN_MULTI_RECV = 16384,
};

#define LOOP_DGRAM_CAPS                                                                            \
    (FI_MSG | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_LOCAL_COMM | FI_PEER | FI_SOURCE |            \
     FI_AV_USER_ID)

/* The kinds of endpoints, best first. */
enum loop_offer {
    LOOP_OFFER_RDM,
    LOOP_OFFER_MSG,
    LOOP_OFFER_MSG_SHARED,
    LOOP_OFFER_DGRAM,
    LOOP_OFFERS
};

/* Kinds of endpoints: shape=. */
enum loop_shape {
    LOOP_FULL,
    LOOP_RDMA, /* connected endpoints of a device */
    LOOP_SRD,  /* reliable packets of a device, in any order */
    LOOP_UD,   /* datagrams of a device */
};

static inline void loop_count(enum loop_call call)
{
    loop_calls[call]++;
}

struct loop_fabric {
    union {
        struct plain_fabric plain;
        struct fabric base; /* plain.base */
    };
    bool direct; /* deliver=post */
    enum loop_shape shape;
    uint64_t seed; /* of shape=srd, */
    bool bursts;   /* and whether it has several messages in a call */
    struct progress_source
        source;        /* of plain.control: ends connections for readers of the EQ alone */
    struct list ended; /* endpoints whose peer has gone (world locked) */
};

struct loop_domain {
    struct domain base;
    struct loop_fabric *fabric;
    struct list regions; /* of a device: struct loop_region (device/loop_rdma.c) */
    uintptr_t last_number;
};

struct loop_burst;
struct loop_ep;
struct loop_pep;

struct loop_port {
    struct list link; /* in the world */
    union addr addr;
    atomic_int refs;
    atomic_bool taken;  /* the spin lock */
    atomic_bool work;   /* something is in a queue */
    atomic_bool armed;  /* the next wake writes to fd */
    int fd;             /* eventfd, or -1 */
    struct loop_ep *ep; /* NULL when closed. Changes under the spin lock */
    struct loop_pep *pep;
    struct list inbox, done;
};

enum loop_where {
    LOOP_QUEUED,
    LOOP_TAKEN,
    LOOP_DONE
};

/* An operation under way. */
struct loop_op {
    struct list outstanding; /* of the sender's; only of queued ones */
    struct list queue;       /* in an inbox or a done queue */
    struct loop_port *from, *to;
    _Atomic(enum loop_where) where;
    int err;       /* how it ended, positive */
    bool wanted;   /* its success is reported */
    bool datagram; /* lost without a word when no receive takes it */
    size_t len;    /* bytes, with the prefix */
    const struct op *post;
};

/* An operation that outlives its post, in a pool: with all that `post` points to. */
struct loop_queued_op {
    struct loop_op op;
    struct op post;
    _Alignas(max_align_t) char memory[LOOP_COPY];
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

struct loop_ep {
    union {
        struct endpoint base;
        struct fid_ep fid; /* base.fid */
    };
    struct loop_domain *domain;
    struct loop_port *port;
    struct progress_source source;
    _Atomic(enum loop_state) state;
    bool rdm;                 /* needs no connection: FI_EP_DGRAM too */
    bool dgram;               /* FI_EP_DGRAM */
    bool packets;             /* shape=srd: in any order, and they wait for a receive */
    uint64_t random;          /* then, the state of what shuffles them */
    struct loop_burst *burst; /* of a layer's, with shape=srd; or NULL (device/loop_burst.c) */
    size_t max;               /* bytes of a message, with prefix */
    size_t prefix;
    bool attached;
    bool knows_sources; /* asks the AV for the sender of a message */
    bool source_err;    /* FI_SOURCE_ERR: an unknown sender is reported with its address */
    uint32_t addr_format;
    struct list saved; /* struct loop_saved */
    /* Sending. */
    struct pool pool;
    struct list outstanding;
    size_t outstanding_count;
    atomic_size_t dropped;  /* datagrams without a receive */
    struct loop_port *peer; /* of a connected one; held */
    struct peer_map peers;  /* struct loop_port, held */
    struct av_listener listener;
    atomic_bool stale_peers, new_sources; /* the AV has lost, has got addresses */
    /* Connection management (world locked). */
    struct loop_request *request; /* the one that it answers, or that it made */
    atomic_bool ended;            /* the peer has gone */
    struct list ended_link;
};

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

/* A port with that address (port 0: a free one), or -FI_EADDRINUSE, -FI_ENOMEM. One reference. */
int loop_port_open(const union addr *addr, struct loop_port **port);
/* Another address, as long as no peer can know the first. */
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
/* Wakes waiters on fd: one write, then none until loop_port_arm. */
void loop_port_wake(struct loop_port *port);
/* Before sleeping, and before the last look at `work`. */
void loop_port_arm(struct loop_port *port);

/* ---- the rest ---- */

int loop_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);
int loop_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                 void *context);

int loop_getname(fid_t fid, void *raw, size_t *len);
int loop_setname(fid_t fid, void *raw, size_t len);
/* struct ep.post and struct ep.atomic_valid of its endpoints: loop_post.c. */
ssize_t loop_post(struct ep *ep, struct op *op);
int loop_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                      size_t *count);
extern struct fi_ops_srx_peer loop_srx_peer_ops;

/* Sends an operation that is settled and checked, of len bytes. Takes the lock of the progress
 * domain. -FI_EAGAIN, -FI_ENOTCONN, -FI_EOPBADSTATE, -FI_EINVAL (no such peer), -FI_ENOMEM. */
ssize_t loop_send(struct loop_ep *ep, const struct op *op, size_t len);
/* Takes what is in the inbox and reports what is done. Progress domain locked. */
void loop_progress(struct progress_source *source);
int loop_trywait(struct progress_source *source);
/* Everything under way ends without a report (FI_ECONNRESET for senders to this endpoint). Progress
 * domain locked. */
void loop_abort(struct loop_ep *ep);
/* Lets go of the peers that sends have looked up. Progress domain locked. */
void loop_forget_peers(struct loop_ep *ep);
/* A message meets its receive, or is saved: loop_receive.c. Sets op->err. Progress domain of ep
 * locked. */
void loop_receive(struct loop_ep *ep, struct loop_op *op);
/* The AV has changed: saved messages may have a source now. Progress domain locked. */
void loop_resolve_saved(struct loop_ep *ep);

#endif
