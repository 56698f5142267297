/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive contexts (fi_srx_context) of parts whose messages ask a peer SRX for their buffer:
 * the domain's own, a matching engine, or the upper's, opened with FI_PEER, of which only the
 * callbacks are filled in. Source: fi_endpoint(3), fi_peer(3).
 */
#ifndef WEFT_CORE_EP_SRX_H
#define WEFT_CORE_EP_SRX_H

#include "core/base/fid.h"
#include "core/ep/ep.h"
#include "core/match/match.h"
#include "core/queue/binding.h"

struct srx {
    union {
        struct ep base;
        struct fid_ep fid; /* base.fid */
    };
    struct domain *domain;
    struct children children;         /* endpoints bound */
    struct fi_ops_srx_peer *peer_ops; /* the part's */
    struct fid_peer_srx *peer;        /* the upper's, or NULL */
    struct match *match;              /* its own, or NULL */
    struct progress *progress;        /* of match; merged with those of the endpoints */
    struct list users;                /* enabled; the first one's report is match's */
    struct binding unbound;           /* match's report while there is none */
};

/* An endpoint that receives through an own context; embedded in it, with an empty link. */
struct srx_user {
    struct list link;
    struct match_source *source; /* the endpoint's only one; NULL: it minds its sources itself */
    struct binding *binding;
};

/* attr may be NULL. own: a context of the domain's own, with size if attr has none; NULL: there is
 * none (-FI_ENOSYS). -FI_EINVAL, -FI_ENOMEM. */
int srx_open(struct domain *domain, const struct match_attr *own, struct fi_ops_srx_peer *peer_ops,
             const struct fi_rx_attr *attr, struct fid_ep **srx, void *context);

/* The same with a context of the domain's own as its info describes it, which decides by source. */
int srx_open_usual(struct fid_domain *domain, size_t min_multi_recv,
                   struct fi_ops_srx_peer *peer_ops, const struct fi_rx_attr *attr,
                   struct fid_ep **srx, void *context);

/* Makes source the endpoint's in the context's engine; merges report's progress domain. Progress
 * domains unlocked. */
int srx_attach(struct srx *srx, struct srx_user *user, struct match_source *source,
               struct binding *binding);
/* The same for an endpoint whose messages have many sources, each made with srx->match. */
int srx_join(struct srx *srx, struct srx_user *user, struct binding *binding);
/* Takes one that is not attached. Sources of the endpoint's own are finished before. Progress
 * domain locked.
 */
void srx_detach(struct srx *srx, struct srx_user *user);

#endif
