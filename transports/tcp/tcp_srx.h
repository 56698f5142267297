/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive contexts: the domain's own (a matching engine of core), or the upper's, opened
 * with FI_PEER, of which only the callbacks are filled in.
 */
#ifndef WEFT_TCP_SRX_H
#define WEFT_TCP_SRX_H

#include "core/fid.h"
#include "core/match.h"
#include "core/report.h"
#include "transports/tcp/tcp_domain.h"

struct tcp_ep;

struct tcp_srx {
    struct fid_ep fid;
    struct tcp_domain *domain;
    struct children children;  /* endpoints bound */
    struct fid_peer_srx *peer; /* the upper's, or NULL */
    struct match *match;       /* its own, or NULL */
    struct unit *unit;         /* of match; merged with those of the endpoints */
    struct list endpoints;     /* enabled; the first one's report is match's */
    struct report unbound;     /* match's report while there is none */
};

int tcp_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
                 void *context);

/* An endpoint starts and stops to receive through an own context. Units unlocked and locked. */
int tcp_srx_attach(struct tcp_srx *srx, struct tcp_ep *ep);
void tcp_srx_detach(struct tcp_srx *srx, struct tcp_ep *ep);

#endif
