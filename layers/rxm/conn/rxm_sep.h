/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scalable endpoints: one address, and up to RXM_CONTEXTS transmit and receive contexts. A context
 * is a struct rxm_ep with a role and without a listener: a transmit context dials, a receive
 * context accepts, and the connection exchange says which it is between. All contexts share one
 * progress domain, that of the listener, whose lock lets threads on two of them take turns, with
 * FI_THREAD_COMPLETION too. Source: fi_endpoint(3).
 */
#ifndef WEFT_LAYERS_RXM_CONN_RXM_SEP_H
#define WEFT_LAYERS_RXM_CONN_RXM_SEP_H

#include "core/ep/sep.h"
#include "layers/rxm/conn/rxm_proto.h"
#include "layers/rxm/rxm_ep.h"

struct rxm_sep {
    struct sep base; /* its progress domain is there from the start */
    struct fi_info *lower_info;
    const struct rxm_proto *proto;
    uint32_t eager_limit; /* of rxm_proto_rxm */
    struct fid_eq *eq;
    struct fid_pep *pep;
    struct progress_source source;
    unsigned skip;  /* progress calls that may still leave the EQ alone */
    bool listening; /* source is attached */
    struct rxm_ep
        *rx[RXM_CONTEXTS]; /* receive contexts that have joined; under the progress domain's lock */
};

int rxm_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                 void *context);

/* A context is being enabled: it shares the progress domain and the address vector, and the
 * listener runs from the first one on. Progress domains unlocked. -FI_ENOAV; -FI_ENOCQ for a
 * transmit context without a queue. */
int rxm_sep_join(struct rxm_sep *sep, struct rxm_ep *context);
/* A context is closed. */
void rxm_sep_leave(struct rxm_sep *sep, struct rxm_ep *context);

#endif
