/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection: an endpoint of the lower, and the receive context and receive queue whose
 * identity tells where its messages come from (architecture, section 2). Unit locked.
 */
#ifndef WEFT_LAYERS_RXM_LINK_H
#define WEFT_LAYERS_RXM_LINK_H

#include "layers/rxm/rxm_emu_link.h"
#include "layers/rxm/rxm_ep.h"

struct rxm_link {
    struct rxm_cm_link cm;
    struct rxm_ep *owner;
    struct fid_ep *ep;
    struct fid_ep *srx;
    struct fid_cq *rx_cq;
    struct fid_peer_cq rx_peer;
    struct match_source source; /* its srx is the lower's to ask; without a match: rxm_forward */
    struct fid_peer_srx *upper; /* the upper's context that it asks, or NULL */
    union addr addr;            /* of the peer */
    unsigned context;           /* the same, as in rxm_cm_peer */
    struct list all, lingering;
    struct rxm_emu_link emu; /* with tags=emulate */
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
/* Where its messages come from: as the AV has it, or FI_ADDR_UNSPEC. */
fi_addr_t rxm_link_addr(const struct rxm_link *link);
/* The AV has the peer at addr now, or (FI_ADDR_UNSPEC) no more. */
void rxm_link_resolve(struct rxm_link *link, fi_addr_t addr);
/* A received message is reported, with its source. Counters are the caller's. */
void rxm_link_received(struct rxm_link *link, void *context, uint64_t flags, size_t len, void *buf,
                       uint64_t data, uint64_t tag);
void rxm_link_receive_failed(struct rxm_link *link, const struct fi_cq_err_entry *entry);
/* Closes those ended whose messages have been taken. */
void rxm_link_reap(struct rxm_ep *owner);

#endif
