/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receives of several branches in one place: each branch asks a receive context of ours, which asks
 * the owner, a matching engine of core or an upper's context (core/match/match_forward.h). All of
 * it is called with the progress domain locked.
 */
#ifndef WEFT_LAYERS_LNX_LNX_RX_H
#define WEFT_LAYERS_LNX_LNX_RX_H

#include "core/match/match_forward.h"
#include "layers/lnx/lnx_av.h"
#include "layers/lnx/lnx_keys.h"

struct lnx_ep;

struct lnx_rx {
    struct match_branch branch;
    struct lnx_ep *ep;
    struct lnx_av *av;
    unsigned index;
    struct fid_ep *context; /* the branch's; or NULL */
};

enum {
    LNX_MIN_MULTI_RECV = 64 /* bytes, until FI_OPT_MIN_MULTI_RECV says otherwise */
};

/* Opens the branch's context, of ep whose AV is set. match: the engine that owns receives, or NULL:
 * upper does, if it is one. */
int lnx_rx_open(struct lnx_rx *rx, struct lnx_ep *ep, unsigned index, struct match *match,
                struct fid_peer_srx *upper);
/* Discards unexpected messages. The branch's endpoint must still be open. */
void lnx_rx_discard(struct lnx_rx *rx);
/* The branch's endpoint is closed. Takes one that was not opened. */
void lnx_rx_close(struct lnx_rx *rx);

#endif
