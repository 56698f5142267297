/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection's part of tags=emulate; see msgproto.h. Progress domain locked. */
#ifndef WEFT_LAYERS_RXM_MSGPROTO_MSGPROTO_CONN_H
#define WEFT_LAYERS_RXM_MSGPROTO_MSGPROTO_CONN_H

#include <rdma/fi_domain.h>
#include <rdma/providers/fi_peer.h>

#include "core/base/list.h"
#include "layers/rxm/msgproto/rxm_credit.h"

struct rxm_conn;
struct ep_receive;

struct msgproto_conn {
    struct fid_peer_srx feed; /* gives packet buffers, where the lower asks */
    struct list ops;          /* struct rxm_op: all of the connection */
    struct list waiting;      /* struct rxm_op: those that stall */
    struct list inbounds;     /* struct rxm_inbound: not complete, or not matched; but for */
    struct list moving;       /* those that packets will ask for */
    struct list receives;     /* struct rxm_packet_buffer: posted to the lower */
    struct list stalled;      /* in msgproto->stalled */
    struct list broken;       /* in msgproto->broken */
    struct rxm_credit credit;
    struct rxm_window window;                  /* receives, where they are posted */
    const struct ep_receive *again[RXM_BATCH]; /* used ones, to be posted again together */
    unsigned again_count;
    unsigned piecemeal;   /* messages of which pieces are still to come */
    unsigned held;        /* messages that the lower keeps for us */
    unsigned answers;     /* to the peer's packets, that wait to be sent */
    unsigned outstanding; /* operations that the lower has */
    unsigned splitting;   /* accesses of remote memory that are not posted whole */
    unsigned atomics;     /* of ours that are not answered yet */
    unsigned reads;       /* of the application, that are not done */
    bool up;              /* packets can be sent */
    bool straight;        /* messages go by msgproto_take_plain: it lives, and has an engine */
    bool dead;            /* it has ended */
    bool mute;            /* and it is not reported */
    bool resuming;        /* operations that stall are being gone through */
    int err;              /* the error of its operations, positive */
};

/* Before the lower's endpoint is made: prepares the context that it will receive by. */
void msgproto_conn_init(struct rxm_conn *conn);
/* Posts receives, where there must be some. The lower's endpoint is enabled. */
int msgproto_conn_fill(struct rxm_conn *conn);
/* It is connected. */
void msgproto_conn_up(struct rxm_conn *conn);
/* The peer did wrong (a sentence's object, for the log): to be ended soon. */
void msgproto_conn_break(struct rxm_conn *conn, const char *what);
/* Before the lower's endpoint is closed: releases messages that the lower keeps for us. */
void msgproto_conn_drop(struct rxm_conn *conn);
/* After the lower's endpoint was closed: ends operations under way, in error or without a
 * report. */
void msgproto_conn_end(struct rxm_conn *conn, bool mute);

#endif
