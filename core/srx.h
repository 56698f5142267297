/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive contexts (fi_srx_context) of parts whose messages ask a peer SRX for their buffer:
 * the domain's own, a matching engine, or the upper's, opened with FI_PEER, of which only the
 * callbacks are filled in. Source: fi_endpoint(3), fi_peer(3).
 */
#ifndef WEFT_CORE_SRX_H
#define WEFT_CORE_SRX_H

#include "core/fid.h"
#include "core/match.h"
#include "core/report.h"

struct srx {
    struct fid_ep fid;
    struct domain *domain;
    struct children children;         /* endpoints bound */
    struct fi_ops_srx_peer *peer_ops; /* the part's */
    struct fid_peer_srx *peer;        /* the upper's, or NULL */
    struct match *match;              /* its own, or NULL */
    struct unit *unit;                /* of match; merged with those of the endpoints */
    struct list users;                /* enabled; the first one's report is match's */
    struct report unbound;            /* match's report while there is none */
};

/* An endpoint that receives through an own context; embedded in it, with an empty link. */
struct srx_user {
    struct list link;
    struct match_source *source; /* the endpoint's only one; NULL: it minds its sources itself */
    struct report *report;
};

/* attr may be NULL. own: a context of the domain's own, with size if attr has none; NULL: there is
 * none (-FI_ENOSYS). -FI_EINVAL, -FI_ENOMEM. */
int srx_open(struct domain *domain, const struct match_attr *own, struct fi_ops_srx_peer *peer_ops,
             const struct fi_rx_attr *attr, struct fid_ep **srx, void *context);

/* Makes source the endpoint's in the context's engine; merges report's unit. Units unlocked. */
int srx_attach(struct srx *srx, struct srx_user *user, struct match_source *source,
               struct report *report);
/* The same for an endpoint whose messages have many sources, each made with srx->match. */
int srx_join(struct srx *srx, struct srx_user *user, struct report *report);
/* Takes one that is not attached. Sources of the endpoint's own are finished before. Unit locked.
 */
void srx_detach(struct srx *srx, struct srx_user *user);

#endif
