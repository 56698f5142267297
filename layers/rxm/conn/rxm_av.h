/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the AV's addresses to peers, and changes of the AV. Progress domain locked. Names of peers
 * are union addr; the AV and infos have them in their formats.
 */
#ifndef WEFT_LAYERS_RXM_CONN_RXM_AV_H
#define WEFT_LAYERS_RXM_CONN_RXM_AV_H

#include "layers/rxm/rxm_ep.h"

/* An address in `format` (sockaddr or text), and its length; and back (-FI_EINVAL). */
size_t rxm_addr_export(uint32_t format, const union addr *addr, char raw[ADDR_TEXT_MAX]);
int rxm_addr_import(uint32_t format, const void *raw, union addr *addr);

/* Takes in what the AV has changed: closes the connections of removed addresses, finds the
 * fi_addr_t of peers that were unknown. */
void rxm_av_take_changes(struct rxm_ep *ep);

/* A number as operations have it is that of the AV, and in the upper rx_ctx_bits the receive
 * context. Returns the former. */
fi_addr_t rxm_av_split(const struct rxm_ep *ep, fi_addr_t addr, unsigned *context);
/* The peer of a number, made on its first use. -FI_EINVAL when it is not in the AV, or names a
 * receive context that no endpoint can have; -FI_ENOMEM. */
int rxm_av_peer(struct rxm_ep *ep, fi_addr_t addr, struct rxm_peer **peer);
/* The peer of an address and context, in the AV or not; NULL without memory. */
struct rxm_peer *rxm_av_peer_of(struct rxm_ep *ep, const union addr *addr, unsigned context);

#endif
