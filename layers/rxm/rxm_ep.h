/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint. Its operations find the connection of their address and are the lower's from there;
 * its receives are the matching engine's. Everything is guarded by the progress domain's lock.
 */
#ifndef WEFT_LAYERS_RXM_RXM_EP_H
#define WEFT_LAYERS_RXM_RXM_EP_H

#include "core/av/av_watch.h"
#include "core/ep/endpoint.h"
#include "core/ep/op_queue.h"
#include "core/layer/peer_cq.h"
#include "core/progress/wake_timer.h"
#include "layers/rxm/conn/rxm_cm.h"
#include "layers/rxm/conn/rxm_peer.h"
#include "layers/rxm/conn/rxm_refused.h"
#include "layers/rxm/rxm_domain.h"

enum {
    RXM_SIZE = 1024,        /* of queues whose size no info names */
    RXM_MIN_MULTI_RECV = 64 /* bytes, until FI_OPT_MIN_MULTI_RECV says otherwise */
};

/* Operations that wait for connections: rxm_wait.h. */
struct rxm_waits {
    struct op_queue ops;
    struct list ready; /* struct rxm_peer: of which something can be done */
    bool running;      /* a caller goes through ready */
};

struct rxm_sep;
struct msgproto;

struct rxm_ep {
    union {
        struct endpoint base;
        struct fid_ep fid; /* base.fid */
    };
    struct progress *progress; /* of report, once enabled; before that one without a lock */
    struct rxm_peers peers;
    struct av_watch watch;
    struct rxm_waits waits;
    struct match *match;       /* its own or srx's; NULL until enabled, and with an upper's */
    struct match *behind;      /* the engine behind an upper's (match_branch_engine), or NULL */
    struct msgproto *msgproto; /* tags=emulate; or NULL */
    struct lower_domain *domain;
    struct rxm_sep *sep;    /* whose context it is, or NULL */
    uint8_t source, target; /* which one: as in rxm_cm_config */
    struct fi_info *info;
    struct fi_info *lower_info;  /* every connection, and the listener, is opened with it */
    struct lower_source own_cq;  /* where nothing but counters is bound */
    struct lower_cq *tx_lower;   /* what connections complete their sends to, and are driven by */
    struct fid_peer_cq *rx_sink; /* where received messages are reported, or NULL */
    struct fid_peer_cq dropped;  /* sink of own_cq */
    bool user_ids;               /* sources are reported as FI_AV_USER_ID has them */
    bool source_err;             /* and unknown ones as errors */
    bool plain_wanted;           /* a transmission with default flags has a completion */
    size_t plain_end;            /* one of fewer bytes, with those flags, is plain (rxm_quick.c) */
    bool top;                    /* no upper sees what happens before the application does */
    /* Connections: rxm_control.c */
    struct rxm_cm cm;
    struct rxm_refused refused;
    struct fid_eq *eq;
    struct fid_pep *pep; /* its own, or sep's */
    struct progress_source eq_source;
    struct wake_timer timer; /* for cm */
    bool attend;             /* something is to be gone on with: rxm_cm_busy, msgproto_busy, or
                                waits.ready */
    unsigned skip;           /* progress calls that may still leave the EQ alone */
    struct list conns;       /* struct rxm_conn, all of them */
    struct list lingering;   /* those that are done but for queued messages */
    uint32_t close_ms;       /* that fi_close waits for peers that are slow to take what was sent */
};

int rxm_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
/* Of the table of a scalable endpoint (core/ep/sep.h). */
int rxm_ep_open_context(struct sep *sep, const struct sep_opening *opening, struct endpoint **ep);

/* -FI_EAGAIN, after some progress: a loop of posts alone gets there. */
ssize_t rxm_ep_try_again(struct rxm_ep *ep);
/* Does that answer of the lower's to a post pass: is it full, or the connection dying? */
bool rxm_ep_passes(ssize_t rc);
/* The poster's error for one of the lower's: that of a dying connection is -FI_EAGAIN. */
ssize_t rxm_ep_refused(struct rxm_ep *ep, ssize_t rc);

/* The connection for dest, or NULL: after the AV has changed; where dest names a receive
 * context of a scalable endpoint. */
struct rxm_conn *rxm_ep_find_changed(struct rxm_ep *ep, fi_addr_t dest);
struct rxm_conn *rxm_ep_find_context(struct rxm_ep *ep, fi_addr_t dest);

static inline struct rxm_ep *rxm_ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct rxm_ep, fid);
}

/* Locks, and finds the connection for dest, or NULL. */
static inline struct rxm_conn *rxm_ep_enter(struct rxm_ep *ep, fi_addr_t dest)
{
    struct rxm_peer *peer;

    progress_lock(ep->progress);
    if (__builtin_expect(av_watch_any(&ep->watch), 0))
        return rxm_ep_find_changed(ep, dest);
    peer = rxm_peers_at(&ep->peers, dest);
    if (__builtin_expect(!peer, 0))
        return rxm_ep_find_context(ep, dest);
    return peer->up;
}

static inline ssize_t rxm_ep_leave(struct rxm_ep *ep, ssize_t rc)
{
    if (__builtin_expect(rc < 0 && rc != -FI_EAGAIN, 0))
        rc = rxm_ep_refused(ep, rc);
    progress_unlock(ep->progress);
    return rc;
}

#endif
