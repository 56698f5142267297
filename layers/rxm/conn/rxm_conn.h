/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection: an endpoint of the lower, and the receive context and receive queue whose
 * identity tells where its messages come from (architecture, section 2). Progress domain locked.
 */
#ifndef WEFT_LAYERS_RXM_CONN_RXM_CONN_H
#define WEFT_LAYERS_RXM_CONN_RXM_CONN_H

#include "core/match/match_forward.h"
#include "layers/rxm/msgproto/msgproto_conn.h"
#include "layers/rxm/rxm_ep.h"

struct rxm_conn {
    struct rxm_cm_conn cm;
    struct rxm_ep *owner;
    struct fid_ep *ep;
    struct fi_info *info;    /* that ep was opened with, which the lower may keep pointers to */
    struct op_target target; /* ep, for operations */
    struct fid_ep *srx;
    struct fid_cq *rx_cq;
    struct fid_peer_cq rx_peer;
    union {
        struct match_source source;   /* its srx is the lower's to ask */
        struct match_forward forward; /* the same; its owner is the upper's context, or NULL */
    };
    fi_addr_t number; /* of the peer, in our AV, or FI_ADDR_UNSPEC; the source has the engine's */
    union addr addr;  /* of the peer */
    unsigned context; /* the same, as in rxm_cm_peer */
    struct list all, lingering;
    struct msgproto_conn msgproto; /* with tags=emulate */
};

/* Not connected yet; info: owner's with the peer's address, or that of a request. It is the
 * connection's afterwards, with handle NULL; after a failure the caller's, with handle NULL when
 * the lower took the request. */
int rxm_conn_open(struct rxm_ep *owner, const struct rxm_peer *peer, struct fi_info *info,
                  struct rxm_conn **conn);
/* It counts on those counters of its owner whose kinds (FI_SEND, ...) are named. 0 or the error of
 * the lower. Progress domain locked. */
int rxm_conn_bind_cntrs(struct rxm_conn *conn, uint64_t kinds);
/* Ends the connection: outstanding operations complete in error. Closes it too unless received
 * messages wait in it for their receive. */
void rxm_conn_end(struct rxm_conn *conn);
/* Closes it; nothing more is written. */
void rxm_conn_close(struct rxm_conn *conn);
/* Where its messages come from: as the AV has it, or FI_ADDR_UNSPEC. */
static inline fi_addr_t rxm_conn_addr(const struct rxm_conn *conn)
{
    if (__builtin_expect(conn->owner->user_ids && conn->number != FI_ADDR_UNSPEC, 0))
        return av_source(conn->owner->base.av, conn->number);
    return conn->number;
}
/* The AV has the peer at addr now, or (FI_ADDR_UNSPEC) no more. */
void rxm_conn_resolve(struct rxm_conn *conn, fi_addr_t addr);
/* A received message is reported, with its source. Counters are the caller's. */
void rxm_conn_received(struct rxm_conn *conn, void *context, uint64_t flags, size_t len, void *buf,
                       uint64_t data, uint64_t tag);
void rxm_conn_receive_failed(struct rxm_conn *conn, const struct fi_cq_err_entry *entry);
/* Closes those ended whose messages have been taken. */
void rxm_conn_reap(struct rxm_ep *owner);

#endif
