/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager: which connections exist between reliable-datagram endpoints, and when
 * they are dialled. Pure: events and `now` (milliseconds of any clock) go in, calls of struct
 * rxm_cm_ops come out; no fd, no clock, no lock. docs/design/rxm.md has the rules and their
 * reasons.
 *
 * One connection serves both directions of a pair. When both dial at once, the request of the
 * higher address wins, in both wires. A peer that cannot be reached is dialled again with
 * growing, randomized pauses until its deadline; then rxm_cm_want gives the error for a while.
 * After that a peer that still refuses, or cannot be reached, fails with its first dial.
 */
#ifndef WEFT_LAYERS_RXM_CONN_RXM_CM_H
#define WEFT_LAYERS_RXM_CONN_RXM_CM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/base/timer.h"
#include "core/net/addr.h"
#include "layers/rxm/conn/rxm_proto.h"

enum rxm_cm_state {
    RXM_CM_IDLE,      /* no connection, none wanted */
    RXM_CM_WAITING,   /* will be dialled: when its timer is due, or when a dial may start */
    RXM_CM_DIALLING,  /* own request under way */
    RXM_CM_ACCEPTING, /* the peer's request accepted, not yet reported connected */
    RXM_CM_UP,        /* conn carries operations */
    RXM_CM_FAILED,    /* rxm_cm_want gives err */
};

struct rxm_cm_peer;

/* One connection of the lower; the caller embeds, makes and frees it. */
struct rxm_cm_conn {
    struct rxm_cm_peer *peer;
    bool dialled;           /* own request, not the peer's */
    bool known;             /* other is set */
    uint32_t id;            /* our number for it; unique within the manager */
    struct rxm_hello other; /* received from the other side */
};

enum {
    RXM_CM_SOURCE = 0x100 /* of rxm_cm_peer.context */
};

/* A peer, by the address that it listens on and its context; embedded by the caller. */
struct rxm_cm_peer {
    union addr addr;
    /* The receive context that is dialled, 0 that of any endpoint; or RXM_CM_SOURCE | i + 1 for
     * transmit context i of a scalable endpoint, which only dials. */
    unsigned context;
    enum rxm_cm_state state;
    bool wanted;              /* an operation waits for the connection */
    bool firewalled;          /* it said that it cannot be dialled */
    struct rxm_cm_conn *conn; /* of DIALLING, ACCEPTING, UP */
    struct rxm_cm_conn *self; /* the accepted end of a connection to oneself: receives only */
    union addr own;           /* config.any: our address that it has dialled; AF_UNSPEC: none yet */
    uint32_t pid;             /* of the process at the other end of it */
    unsigned duplicates;      /* requests refused since conn came up */
    unsigned tries;           /* dials since the last good connection */
    int err;                  /* cause of the last failed dial, positive FI_E code */
    const char *why;          /* the peer's reason, a static sentence, or NULL */
    bool told;                /* FAILED: rxm_cm_want has given err */
    bool gave_up;             /* it has failed, and no connection was made since */
    bool unreachable;         /* no answer to the last dial, nor those since unreachable_ms */
    int64_t unreachable_ms;
    int64_t first_ms; /* start of the first of these dials */
    int64_t start_ms; /* start of the last dial, or when conn came up */
    /* Due: next dial (IDLE, WAITING), deadline (DIALLING), failure (FAILED); in cm->waiting or
     * cm->dialling. */
    struct timer timer;
    struct list fresh; /* in cm->fresh */
};

struct rxm_cm;

/* None of these may call back into the manager. A connection given to close is the callee's alone
 * again. */
struct rxm_cm_ops {
    /* The peer of that address and context, made when it is new; NULL without memory. */
    struct rxm_cm_peer *(*peer)(struct rxm_cm *cm, const union addr *addr, unsigned context);
    /* Starts a request with that private data. 0 and *conn, or a negative error. */
    int (*dial)(struct rxm_cm *cm, struct rxm_cm_peer *peer, const void *data, size_t len,
                struct rxm_cm_conn **conn);
    /* Accepts, or consumes a request that cannot be. */
    int (*accept)(struct rxm_cm *cm, struct rxm_cm_peer *peer, void *request, const void *data,
                  size_t len, struct rxm_cm_conn **conn);
    /* why: the request can never be accepted; NULL: there is, or will be, a connection. */
    void (*reject)(struct rxm_cm *cm, void *request, const void *data, size_t len, const char *why);
    void (*close)(struct rxm_cm *cm, struct rxm_cm_conn *conn);
    void (*up)(struct rxm_cm *cm, struct rxm_cm_conn *conn);
    /* Given up: err is positive; why: the peer has refused for ever, or NULL. */
    void (*failed)(struct rxm_cm *cm, struct rxm_cm_peer *peer, int err, const char *why);
    /* Nothing is left of the peer; it may be freed. */
    void (*idle)(struct rxm_cm *cm, struct rxm_cm_peer *peer);
};

struct rxm_cm_config {
    union addr self; /* the address that peers know this endpoint by */
    bool any;        /* it listens on all: a peer knows it by the address that it has dialled */
    const struct rxm_proto *proto;
    uint32_t pid;
    uint16_t extensions; /* of FI_PROTO_XNET: enum rxm_wire_extension */
    uint8_t source;      /* 0, or i + 1: this is transmit context i of a scalable endpoint */
    uint8_t target;      /* this is that receive context; 0 that of any endpoint */
    uint32_t eager_limit, rx_size; /* said to peers, with flow, in FI_PROTO_RXM */
    uint8_t flow;
    uint32_t seed;
    int64_t retry_ms, retry_max_ms; /* pause after the first failed dial, and the longest one */
    int64_t unreachable_ms;         /* how long a peer that cannot be reached is dialled again */
    int64_t deadline_ms;            /* how long a peer may leave requests without an answer */
    unsigned max_dials;             /* most that start within RXM_CM_FRESH_MS */
};

enum {
    RXM_CM_FRESH_MS = 1000, /* a dial older than this does not keep others from starting */
};

struct rxm_cm {
    struct rxm_cm_config config;
    const struct rxm_cm_ops *ops;
    struct list waiting, dialling; /* struct timer */
    struct list fresh;             /* by start_ms */
    unsigned fresh_count;
    unsigned accepting; /* peers in that state */
    uint32_t next_id;
    uint64_t random;
};

void rxm_cm_init(struct rxm_cm *cm, const struct rxm_cm_config *config,
                 const struct rxm_cm_ops *ops);
void rxm_cm_peer_init(struct rxm_cm_peer *peer, const union addr *addr, unsigned context);
/* Closes what the peer has and forgets it; idle is not called. */
void rxm_cm_forget(struct rxm_cm *cm, struct rxm_cm_peer *peer);

/*
 * A connection is wanted. 0: peer->conn is up. -FI_EAGAIN: it is being made. Another error: it
 * could not be made, and the caller fails its operations with it; once one call has returned the
 * failure, the first call later than retry_max_ms after it dials again. Calls no ops.
 */
int rxm_cm_want(struct rxm_cm *cm, struct rxm_cm_peer *peer, int64_t now);

/* A request came in; from: the address of the connection, whose port means nothing; to: the address
 * of ours that it was for. */
void rxm_cm_request(struct rxm_cm *cm, const union addr *from, const union addr *to,
                    const void *data, size_t len, void *request, int64_t now);
/* conn is connected; data is the answer to a dial. */
void rxm_cm_connected(struct rxm_cm *cm, struct rxm_cm_conn *conn, const void *data, size_t len,
                      int64_t now);
/* conn was rejected (data of the peer), failed, or ended. err is a positive FI_E code, or 0. */
void rxm_cm_lost(struct rxm_cm *cm, struct rxm_cm_conn *conn, int err, const void *data, size_t len,
                 int64_t now);

/* Does what has become due. */
void rxm_cm_run(struct rxm_cm *cm, int64_t now);
/* When rxm_cm_run has something to do; INT64_MAX: never, as things are. */
int64_t rxm_cm_next(const struct rxm_cm *cm);
/* Requests, own ones not older than RXM_CM_FRESH_MS at the last run, or accepted ones, are under
 * way: events will come soon. */
static inline bool rxm_cm_busy(const struct rxm_cm *cm)
{
    return cm->fresh_count || cm->accepting;
}

#endif
