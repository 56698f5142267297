/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection: an endpoint of the lower, and the receive context and receive queue whose
 * identity tells where its messages come from (architecture, section 2). Unit locked.
 */
#ifndef WEFT_LAYERS_RXM_LINK_H
#define WEFT_LAYERS_RXM_LINK_H

#include "layers/rxm/rxm_ep.h"

struct rxm_link {
    struct rxm_cm_link cm;
    struct rxm_ep *owner;
    struct fid_ep *ep;
    struct fid_ep *srx;
    struct fid_cq *rx_cq;
    struct fid_peer_cq rx_peer;
    struct match_source source;
    union addr addr; /* of the peer */
    struct list all, lingering;
};

/* Not connected yet; info: owner's with the peer's address, or that of a request, whose handle is
 * NULL afterwards when it was taken. */
int rxm_link_open(struct rxm_ep *owner, const struct rxm_peer *peer, struct fi_info *info,
                  struct rxm_link **link);
/* Ends the connection: what is outstanding completes in error. Closes it too unless received
 * messages wait in it for their receive. */
void rxm_link_end(struct rxm_link *link);
/* Closes it; nothing more is written. */
void rxm_link_close(struct rxm_link *link);
/* Closes those ended whose messages have been taken. */
void rxm_link_reap(struct rxm_ep *owner);

#endif
