/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FI_SOURCE_ERR: an error that tells the address of a peer which is not in the address vector tells
 * that of a branch, which no address vector of ours takes. Between a branch's queue and where it
 * writes, a relay makes it an address of ours, of that branch alone; a peer that we have reached
 * once is reached by it. Source: fi_cq(3), fi_getinfo(3).
 */
#ifndef WEFT_LAYERS_LNX_LNX_RELAY_H
#define WEFT_LAYERS_LNX_LNX_RELAY_H

#include <rdma/providers/fi_peer.h>

struct lnx_domain;

struct lnx_relay {
    struct fid_peer_cq peer; /* the sink of the branch's queue */
    struct fid_peer_cq *sink;
    const struct lnx_domain *domain;
    unsigned branch;
};

/* Where the queue of that branch writes so that it comes to sink: relay->peer, or, where the domain
 * was opened without FI_SOURCE_ERR, sink itself. domain and sink outlive it. */
struct fid_peer_cq *lnx_relay_init(struct lnx_relay *relay, const struct lnx_domain *domain,
                                   unsigned branch, struct fid_peer_cq *sink);

#endif
