/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint and what its files share. Everything is guarded by the lock of the endpoint's
 * progress domain, but the AV's notes (stale_*). See docs/design/shm.md.
 */
#ifndef WEFT_SHM_EP_H
#define WEFT_SHM_EP_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/providers/fi_peer.h>

#include "core/base/ids.h"
#include "core/base/pool.h"
#include "core/ep/endpoint.h"
#include "core/ep/sep.h"
#include "transports/shm/shm_domain.h"
#include "transports/shm/shm_doorbell.h"
#include "transports/shm/shm_link.h"
#include "transports/shm/shm_name.h"

enum {
    SHM_HOT = 8,                 /* rings that are polled */
    SHM_CONTEXTS = SEP_CONTEXTS, /* most of a scalable endpoint, in each direction */
};

struct shm_op;
struct shm_sep;

/* Links by fi_addr_t; NULL: not known yet. */
struct shm_peers {
    struct shm_link **links;
    size_t count;
};

struct shm_ep {
    union {
        struct endpoint base;
        struct fid_ep fid; /* base.fid */
    };
    struct shm_link **peers; /* by fi_addr_t; NULL: not known yet */
    size_t peer_count;
    struct shm_link *hot[SHM_HOT];
    unsigned hot_count;
    bool top, in_progress, knows_sources, source_err, look_now;
    bool owes;            /* a link does */
    bool waits_for_place; /* for descriptors or memory, of connections; that was said */
    struct match *direct; /* where small messages go straight to their receives; or NULL */
    bool armed, woken;    /* a thread may sleep; wake_fd is readable */
    unsigned armed_rounds;
    unsigned forks;   /* fork_generation when it was opened */
    unsigned tx_used; /* operations that wait for the peer */
    struct shm_doorbell *doorbell;
    struct list busy;    /* links that have something to write */
    struct list crosses; /* operations that attach to the peer's memory */
    uint64_t order;
    bool orders_reads; /* something is to stay behind reads */
    struct list saved; /* struct shm_saved */
    size_t saved_bytes;
    bool saved_full;  /* it was, and that was said */
    struct list held; /* links whose sender was told to hold, since there is no room */
    /* Operations */
    struct pool ops, backlog;
    struct ids ids; /* of ops: the numbers that stand for them on the wire */
    /* Links */
    struct shm_domain *domain;
    struct list links, dead, absent;
    struct list unasked;    /* links whose peers would not wake a sleeper */
    struct shm_peers *more; /* to receive contexts from 1 on, SHM_CONTEXTS - 1; or NULL */
    struct shm_sep *sep;    /* whose context it is, or NULL */
    unsigned context;       /* index there */
    struct shm_link **numbers;
    uint32_t number_count, number_free; /* none is free below */
    struct list *buckets;               /* links by name */
    unsigned bucket_count, named_count;
    struct pool controls;
    struct progress_source source; /* its fd: an epoll fd of listener and links */
    int listener, bell_fd, wake_fd;
    unsigned idle; /* rounds that found nothing, and one; 0: there was none since the last post */
    unsigned rounds;
    uint64_t looked, silent_since; /* ticks */
    uint64_t patience;             /* with this silence; 0: it is over */
    unsigned hurry, waits;
    unsigned found_seen; /* by the thread, when the silence began */
    uint32_t sweep, rest_at;
    long long silence_due_ms; /* when the links are looked at for silent peers */
    struct av_listener watch;
    atomic_bool stale_peers, stale_sources;
    uint32_t addr_format;
    char name[SHM_NAME_MAX];
    int64_t segment; /* this process's, for XPMEM; 0: none */
    struct list all; /* of the process, for fork */
};

static inline struct shm_ep *shm_ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct shm_ep, fid);
}

/* A message of a post was published, with a body of so many bytes. In a burst, of several posts
 * between two rounds, the sender asks for lines ahead of it. */
static inline void shm_ep_sent(struct shm_ep *ep, const struct shm_tx *tx, size_t bytes)
{
    if (!ep->idle)
        shm_tx_ahead(tx, shm_lines_of(bytes));
    ep->idle = 0;
}

/* ---- shm_ep.c, shm_ep_ops.c ---- */

int shm_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
/* Of the table of a scalable endpoint (core/ep/sep.h). */
int shm_ep_open_context(struct sep *sep, const struct sep_opening *opening, struct endpoint **ep);
void shm_ep_ops_init(struct shm_ep *ep, const struct fi_info *info, size_t class, void *context);
int shm_ep_enable(struct endpoint *base);
int shm_ep_join(struct endpoint *base);
int shm_ep_bound(struct endpoint *base, struct fid *fid, uint64_t flags);
int shm_ep_close(struct endpoint *base);

/* Sets the tables of an endpoint of that class: some of its functions have a fast path. */
void shm_set_data_ops(struct shm_ep *ep, size_t class);
struct fi_ops_rma *shm_rma_ops(void);
int shm_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                     size_t *count);
extern struct fi_ops_srx_peer shm_srx_peer_ops;

/* ---- shm_post.c: 0, -FI_EAGAIN, -FI_EINVAL, -FI_EMSGSIZE, ... Take the lock. ---- */

/* struct ep.post, for all that has no fast path. */
ssize_t shm_post(struct ep *ep, struct op *op);

/* ---- shm_progress.c ---- */

void shm_progress(struct progress_source *source);
int shm_trywait(struct progress_source *source);
void shm_progress_ep(struct shm_ep *ep);
/* Looks whether peers have gone, unless it has looked lately. Progress domain locked, not in
 * progress. */
void shm_look_soon(struct shm_ep *ep);
/* A link is polled, or is not any more (without the fence that this takes). */
void shm_heat(struct shm_link *link);
void shm_cool(struct shm_link *link);
/* There is work for a thread that sleeps. */
void shm_wake(struct shm_ep *ep);

/* ---- shm_av.c ---- */

void shm_av_watch(struct shm_ep *ep);
/* Addresses may mean others since the last time. Also from inside of a completion. */
void shm_av_forget_peers(struct shm_ep *ep);
/* That, and all else that the AV has changed. */
void shm_av_catch_up(struct shm_ep *ep);
void shm_av_resolve(struct shm_link *link);

/* ---- shm_message.c, shm_remote.c: what arrives. false: it must wait in the ring. ---- */

bool shm_take_message(struct shm_link *link, struct shm_head head, const char *body);
bool shm_take_announced(struct shm_link *link, struct shm_head head, const char *body);
bool shm_take_write(struct shm_link *link, struct shm_head head, const char *body);
bool shm_take_fetch(struct shm_link *link, struct shm_head head, const char *body);
bool shm_take_read(struct shm_link *link, struct shm_head head, const char *body);
bool shm_take_where(struct shm_link *link, struct shm_head head, const char *body);
bool shm_take_atomic(struct shm_link *link, struct shm_head head, const char *body);
/* An announced message is here; positive err: it is not. */
void shm_message_done(struct shm_op *op, int err);
void shm_remote_done(struct shm_ep *ep, struct shm_op *op);
/* All saved messages go; progress domain locked. */
void shm_saved_close(struct shm_ep *ep);
fi_addr_t shm_saved_source(struct fi_peer_rx_entry *entry);

#endif
