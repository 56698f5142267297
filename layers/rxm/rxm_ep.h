/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint. Its operations find the connection of their address and are the lower's from there;
 * its receives are the matching engine's. Everything is guarded by the unit's lock.
 */
#ifndef WEFT_LAYERS_RXM_EP_H
#define WEFT_LAYERS_RXM_EP_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/av.h"
#include "core/match.h"
#include "core/post.h"
#include "core/report.h"
#include "core/srx.h"
#include "core/stx.h"
#include "layers/rxm/rxm_cm.h"
#include "layers/rxm/rxm_cq.h"
#include "layers/rxm/rxm_domain.h"
#include "layers/rxm/rxm_peer.h"
#include "layers/rxm/rxm_refused.h"

enum {
    RXM_REMOVED_MAX = 32,
    RXM_MIN_MULTI_RECV = 64 /* bytes, until FI_OPT_MIN_MULTI_RECV says otherwise */
};

/* What an AV listener leaves for the endpoint: it may not take the unit's lock, inside of which
 * the endpoint asks the AV. */
struct rxm_av_changes {
    atomic_bool any;
    pthread_mutex_t mutex; /* of the rest; nothing is taken inside */
    bool inserted;
    size_t removed_count; /* above RXM_REMOVED_MAX: all addresses are to be checked */
    fi_addr_t removed[RXM_REMOVED_MAX];
};

/* Operations that wait for connections: rxm_wait.h. */
struct rxm_waits {
    struct list all;   /* struct rxm_wait */
    struct list ready; /* struct rxm_peer: of which something can be done */
    size_t count;
    bool running; /* somebody goes through ready */
};

struct rxm_sep;
struct rxm_emu;

struct rxm_ep {
    struct fid_ep fid;
    struct unit *unit; /* of report, once enabled; before that one without a lock */
    struct rxm_peers peers;
    struct rxm_av_changes changes;
    struct rxm_waits waits;
    struct match *match; /* its own or srx's; NULL until enabled, and with an upper's */
    struct srx *srx;     /* the shared receive context bound, or NULL */
    struct srx_user srx_use;
    struct stx *stx;     /* the shared transmit context bound, or NULL */
    struct rxm_emu *emu; /* tags=emulate; or NULL */
    struct rxm_domain *domain;
    struct rxm_sep *sep;    /* whose context it is, or NULL */
    uint8_t source, target; /* which one: as in rxm_cm_config */
    struct fi_info *info;
    struct fi_info *lower_info; /* every connection, and the listener, is opened with it */
    struct report report;
    struct rxm_lower_cq own_cq;  /* where nothing but counters is bound */
    struct lower_cq *tx_lower;   /* what connections complete their sends to, and are driven by */
    struct fid_peer_cq *rx_sink; /* where received messages are reported, or NULL */
    struct fid_peer_cq dropped;  /* sink of own_cq */
    struct av *av;
    struct av_listener listener;
    struct children aliases;
    size_t min_multi_recv;
    bool user_ids;   /* sources are reported as FI_AV_USER_ID has them */
    bool source_err; /* and unknown ones as errors */
    bool enabled;
    bool shares_tx, shares_rx; /* opened for shared contexts, and of no use without */
    bool top;                  /* no upper sees what happens before the application does */
    /* Connections: rxm_control.c */
    struct rxm_cm cm;
    struct rxm_refused refused;
    struct fid_eq *eq;
    struct fid_pep *pep; /* its own, or sep's */
    struct unit_source eq_source, timer_source;
    int64_t timer_ms;      /* what the timer is set to, while it is a source */
    unsigned skip;         /* progress calls that may still leave the EQ alone */
    struct list links;     /* struct rxm_link, all of them */
    struct list lingering; /* those that are done but for queued messages */
};

int rxm_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
/* Contexts of a scalable endpoint; attr may be NULL, and is set to what it is then. */
int rxm_ep_open_tx(struct sep *sep, unsigned index, struct fi_tx_attr *attr, struct fid_ep **ep,
                   void *context);
int rxm_ep_open_rx(struct sep *sep, unsigned index, struct fi_rx_attr *attr, struct fid_ep **ep,
                   void *context);

/* -FI_EAGAIN, after some progress: a loop of posts alone gets there. */
ssize_t rxm_ep_try_again(struct rxm_ep *ep);
/* Does that answer of the lower's to a post pass: is it full, or the connection dying? */
bool rxm_ep_passes(ssize_t rc);
/* What an error of the lower's means to the poster: one of a dying connection is -FI_EAGAIN. */
ssize_t rxm_ep_refused(struct rxm_ep *ep, ssize_t rc);

/* The lower's endpoint for dest, or NULL: after the AV has changed; where dest names a receive
 * context of a scalable endpoint. */
struct fid_ep *rxm_ep_find_changed(struct rxm_ep *ep, fi_addr_t dest);
struct fid_ep *rxm_ep_find_context(struct rxm_ep *ep, fi_addr_t dest);

static inline struct rxm_ep *rxm_ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct rxm_ep, fid);
}

/* Locks, and finds the lower's endpoint for dest, or NULL. */
static inline struct fid_ep *rxm_ep_enter(struct rxm_ep *ep, fi_addr_t dest)
{
    struct rxm_peer *peer;

    unit_lock(ep->unit);
    if (__builtin_expect(atomic_load_explicit(&ep->changes.any, memory_order_relaxed), 0))
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
    unit_unlock(ep->unit);
    return rc;
}

/* _tx only send: where receives are posted to a shared context, or to another one. */
extern struct fi_ops_msg rxm_msg_ops, rxm_msg_tx_ops, rxm_msg_rx_ops;
extern struct fi_ops_tagged rxm_tagged_ops, rxm_tagged_tx_ops, rxm_tagged_rx_ops;
extern struct fi_ops_rma rxm_rma_ops;
extern struct fi_ops_atomic rxm_atomic_ops;

/* Posts an atomic with its own flags, whatever the defaults of the endpoint are. */
ssize_t rxm_atomic_post(struct rxm_ep *ep, const struct post_atomic *post);
/* Posts it to a connection that carries atomics. */
ssize_t rxm_atomic_pass(struct fid_ep *to, const struct post_atomic *post);
/* Elements of an operation, as the lower has it. */
int rxm_atomic_count(struct rxm_ep *ep, enum fi_datatype datatype, enum fi_op op, uint64_t kind,
                     size_t *count);

#endif
