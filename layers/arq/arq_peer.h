/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers, by the upper's fi_addr_t (two loads) and by address, and sessions by their identifier. An
 * address of the AV that nothing was sent to costs nothing here; a peer without a session about
 * 100 bytes. Progress domain locked.
 */
#ifndef WEFT_LAYERS_ARQ_ARQ_PEER_H
#define WEFT_LAYERS_ARQ_ARQ_PEER_H

#include "core/arq/session.h"
#include "core/av/peer_map.h"
#include "core/base/ids.h"
#include "core/base/timer.h"
#include "layers/arq/arq_addr.h"

struct arq_ep;
struct arq_peer;

/* A session with a peer. */
struct arq_link {
    struct session session;
    struct arq_ep *ep;
    struct arq_peer *peer; /* NULL: another one has taken its place, or it has ended */
    struct list ready, blocked, talker, all;
    struct timer timer;
    uint64_t opened, talked; /* ns */
};

struct arq_peer {
    struct arq_peer *next; /* of the same bucket */
    struct arq_link *link; /* or NULL */
    fi_addr_t addr;        /* the upper's; FI_ADDR_NOTAVAIL: not in the AV */
    fi_addr_t lower;       /* the lower's; FI_ADDR_NOTAVAIL: it was not told */
    uint32_t slots;        /* fi_addr_t that lead here */
    struct arq_addr name;  /* no more of it than it has bytes */
};

struct arq_peers {
    struct peer_map map;
    struct arq_peer **buckets;
    size_t bucket_count, count;
    struct ids ids;    /* struct arq_link, by the lower bits of the session's identifier */
    struct list links; /* struct arq_link: all */
    size_t link_count, link_most;
};

void arq_peers_init(struct arq_peers *peers, size_t most);
/* Without links. Takes a zeroed one. */
void arq_peers_finish(struct arq_peers *peers);

struct arq_peer *arq_peers_find(const struct arq_peers *peers, const struct arq_addr *name);
/* A peer, made if it is new; NULL without memory. */
struct arq_peer *arq_peer_get(struct arq_ep *ep, const struct arq_addr *name);
/* The peer of an fi_addr_t, made on its first use. -FI_EINVAL: it is not in the AV; -FI_ENOMEM. */
int arq_peer_of(struct arq_ep *ep, fi_addr_t addr, struct arq_peer **peer);
/* That fi_addr_t leads nowhere any more. */
void arq_peer_leave(struct arq_ep *ep, fi_addr_t addr);
/* Peers that were not in the AV may be now. */
void arq_peers_resolve(struct arq_ep *ep);
/* Frees a peer that nothing leads to. */
void arq_peer_drop_unused(struct arq_ep *ep, struct arq_peer *peer);

/* ---- arq_link.c ---- */

/* Opens a session: asks, or (other, the peer's identifier, is not 0) answers. -FI_EAGAIN: there are
 * too many; -FI_ENOMEM; -FI_EHOSTUNREACH: the lower does not take the address. */
int arq_link_open(struct arq_ep *ep, struct arq_peer *peer, uint64_t other, uint64_t now);
/* Its session has ended: it goes. */
void arq_link_close(struct arq_link *link);
/* The link of an identifier that a packet names, or NULL. */
struct arq_link *arq_link_find(const struct arq_peers *peers, uint64_t id);

static inline struct arq_link *arq_link_of(struct session *session)
{
    return (struct arq_link *)(void *)session;
}

#endif
