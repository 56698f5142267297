/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared transmit contexts (fi_stx_context). They hold no resource of ours: only devices limit what
 * endpoints share, so the object only keeps the rules of binding. Source: fi_endpoint(3).
 */
#ifndef WEFT_CORE_EP_STX_H
#define WEFT_CORE_EP_STX_H

#include <rdma/fi_endpoint.h>

#include "core/base/fid.h"

struct stx {
    struct fid_stx fid;
    struct domain *domain;
    struct children children; /* endpoints bound */
};

/* Entry of a domain's table. -FI_ENOMEM. */
int stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
             void *context);

/* For fi_ep_bind of an endpoint of domain: holds the context in *slot, which must be NULL, else
 * -FI_EINVAL. */
int stx_bind(struct domain *domain, struct fid *fid, struct stx **slot);
/* For one that was not opened for a shared transmit context, and so uses none: programs bind one
 * and close it first. */
int stx_accept(const struct domain *domain, const struct fid *fid);
void stx_release(struct stx *stx); /* takes NULL */

#endif
