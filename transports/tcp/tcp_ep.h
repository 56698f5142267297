/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint. State and sockets of the connection are guarded by the endpoint's unit once it is
 * enabled; `handshake` by the fabric's unit, which is locked first.
 */
#ifndef WEFT_TCP_EP_H
#define WEFT_TCP_EP_H

#include "core/addr.h"
#include "core/eq.h"
#include "core/match.h"
#include "core/report.h"
#include "core/srx.h"
#include "transports/tcp/tcp_cm.h"
#include "transports/tcp/tcp_domain.h"
#include "transports/tcp/tcp_rx.h"
#include "transports/tcp/tcp_set.h"
#include "transports/tcp/tcp_stage.h"
#include "transports/tcp/tcp_tx.h"
#include "transports/tcp/tcp_uring.h"

enum tcp_state {
    TCP_IDLE,       /* not enabled */
    TCP_ENABLED,    /* receives may be posted */
    TCP_CONNECTING, /* the exchange is under way */
    TCP_CONNECTED,
    TCP_DOWN, /* was connected, or could not be */
};

struct stx;

struct tcp_ep {
    struct fid_ep fid;
    struct tcp_domain *domain;
    struct tcp_set *set; /* from enable on */
    struct eq *eq;
    struct tcp_cm *cm;          /* of eq; NULL until bound */
    struct fid_peer_srx *srx;   /* where receive buffers come from */
    struct srx *bound_srx;      /* the receive context that was bound */
    struct srx *shared;         /* it, when it is the domain's own, or NULL */
    struct srx_user shared_use; /* of shared */
    struct stx *stx;            /* the shared transmit context bound, or NULL */
    struct match *match;        /* its own receives, or NULL */
    struct match_source source; /* of match or shared */
    struct report report;
    uint64_t caps;
    uint64_t tx_op_flags, rx_op_flags;
    size_t rx_size, min_multi_recv;
    uint32_t addr_format;
    uint32_t tclass;       /* traffic class of its connection */
    uint32_t answer_ms;    /* for the peer to answer a request; 0: ten minutes */
    uint32_t peer_version; /* of the wire; 0: the operations that every peer knows */
    uint32_t peer_features;
    uint32_t tags_plain; /* messages with tags take receives without */
    enum tcp_state state;
    bool needs_srx;               /* receives come through a bound context */
    bool needs_stx;               /* opened for a shared transmit context */
    bool network;                 /* the peer's byte order is not ours */
    int fd;                       /* of the connection, -1 */
    unsigned tries;               /* fruitless looks since it last received */
    unsigned streak;              /* looks that were not, since it is hot */
    bool armed;                   /* in the set's epoll fd */
    struct list hot, work, ended; /* links of the set */
    struct list inbounds;
    struct tcp_tx tx;
    struct tcp_stage stage; /* of tx */
    struct tcp_rx rx;
    struct tcp_uring uring;   /* where the set has a ring */
    struct tcp_cm_item watch; /* tells the EQ's reader that the peer hung up */
    struct list unwatched;    /* link of the control unit while it does not */
    bool watched;
    struct tcp_handshake *handshake; /* opening the connection */
    union addr src;
};

int tcp_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
int tcp_ep_enable(struct tcp_ep *ep);

/* The exchange has ended well: takes over the socket. Fabric's unit locked, the endpoint's not. */
int tcp_ep_connected(struct tcp_ep *ep, int fd, bool network);
/* The connection is of no use any more: ends everything outstanding with err (positive), tells the
 * EQ. Unit locked. */
void tcp_ep_fail(struct tcp_ep *ep, int err);
/* The posted receives that only this connection could have met end with err. Unit locked. */
void tcp_ep_fail_receives(struct tcp_ep *ep, int err);

/* The peer has hung up, and what it sent before is still to be read, which nothing keeps. */
static inline bool tcp_ep_ending(const struct tcp_ep *ep)
{
    return ep->fd >= 0 && ep->rx.ended && !ep->rx.paused && !ep->rx.stash;
}

static inline struct tcp_ep *tcp_ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct tcp_ep, fid);
}

#endif
