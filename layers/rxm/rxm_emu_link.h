/* SPDX-License-Identifier: BSD-2-Clause */
/* What a connection has with tags=emulate; see rxm_emu.h. Unit locked. */
#ifndef WEFT_LAYERS_RXM_EMU_LINK_H
#define WEFT_LAYERS_RXM_EMU_LINK_H

#include <rdma/fi_domain.h>
#include <rdma/providers/fi_peer.h>

#include "core/list.h"
#include "layers/rxm/rxm_credit.h"

struct rxm_link;

struct rxm_emu_link {
    struct fid_peer_srx feed; /* gives packet buffers, where the lower asks */
    struct list ops;          /* struct rxm_op: all of the connection */
    struct list waiting;      /* struct rxm_op: those that stall */
    struct list inbounds;     /* struct rxm_inbound: not complete, or not matched; but for */
    struct list moving;       /* those that packets will ask for */
    struct list receives;     /* struct rxm_packet_buffer: posted to the lower */
    struct list stalled;      /* in emu->stalled */
    struct list broken;       /* in emu->broken */
    struct rxm_credit credit;
    struct rxm_window window; /* receives, where they are posted */
    unsigned piecemeal;       /* messages of which pieces are still to come */
    unsigned held;            /* messages that the lower keeps for us */
    unsigned answers;         /* to the peer's packets, that wait to be sent */
    unsigned outstanding;     /* operations that the lower has */
    bool up;                  /* packets can be sent */
    bool dead;                /* it has ended */
    bool mute;                /* and nobody is told of it */
    bool resuming;            /* operations that stall are being gone through */
    int err;                  /* what its operations end in, positive */
};

/* Before the lower's endpoint is made: what it will receive by. */
void rxm_emu_link_init(struct rxm_link *link);
/* Posts receives, where there must be some. The lower's endpoint is enabled. */
int rxm_emu_link_fill(struct rxm_link *link);
/* It is connected. */
void rxm_emu_link_up(struct rxm_link *link);
/* The peer did wrong (a sentence's object, for the log): to be ended soon. */
void rxm_emu_link_break(struct rxm_link *link, const char *what);
/* Before the lower's endpoint is closed: lets go of what the lower keeps for us. */
void rxm_emu_link_drop(struct rxm_link *link);
/* After the lower's endpoint was closed: ends what is under way, in error or without a word. */
void rxm_emu_link_end(struct rxm_link *link, bool mute);

#endif
