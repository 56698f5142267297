/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plainest messages, without a struct rxm_packet. In: one that a receive waits for, by its tag
 * alone. Out: one buffer of a few bytes, with the endpoint's own flags, by a
 * connection that takes it at once. Its operations stay initialised between uses, header included,
 * in a list of their own (struct msgproto.plain), and only what differs is written. One that fails
 * goes on as any other operation does. Progress domain locked.
 */
#ifndef WEFT_LAYERS_RXM_MSGPROTO_MSGPROTO_PLAIN_H
#define WEFT_LAYERS_RXM_MSGPROTO_MSGPROTO_PLAIN_H

#include <string.h>

#include "core/match/match_quick.h"
#include "layers/rxm/msgproto/msgproto.h"
#include "layers/rxm/msgproto/msgproto_short.h"

/* A packet of len bytes. False: nothing has happened, and it may be of any other kind. */
static inline __attribute__((always_inline)) bool
msgproto_take_plain(struct rxm_conn *conn, const uint8_t *raw, size_t len)
{
    struct match *match = conn->source.match;
    bool tagged;
    uint64_t tag;
    struct rx *rx;

    if (__builtin_expect(!conn->msgproto.straight ||
                             !rxm_packet_is_plain(raw, len, conn->owner->msgproto->eager_limit,
                                                  conn->cm.id, &tagged, &tag),
                         0))
        return false;
    len -= RXM_PACKET_SIZE;
    rx = match_quick_take(match, tagged ? &match->tag : &match->msg, tag, len);
    if (__builtin_expect(!rx, 0))
        return false;
    if (__builtin_expect(len == sizeof(uint64_t), 1))
        memcpy(rx->iov[0].iov_base, raw + RXM_PACKET_SIZE, sizeof(uint64_t));
    else if (len)
        memcpy(rx->iov[0].iov_base, raw + RXM_PACKET_SIZE, len);
    match_quick_done(match, rx, len, tag, rxm_conn_addr(conn));
    return true;
}

/* A new operation for the list, which is empty; NULL without memory. */
struct rxm_op *msgproto_plain_make(struct msgproto *msgproto);

/* The lower did not take it. */
void msgproto_plain_undo(struct rxm_op *op);

static inline void msgproto_plain_keep(struct msgproto *msgproto, struct rxm_op *op)
{
    op->buffer.next = (struct mr_buffer *)(void *)msgproto->plain;
    msgproto->plain = op;
}

/* It waits in the connection's list for its end. */
static inline void msgproto_plain_begin(struct msgproto *msgproto, struct rxm_op *op,
                                        struct rxm_conn *conn)
{
    struct list *ops = &conn->msgproto.ops;

    op->link.next = ops;
    op->link.prev = ops->prev;
    ops->prev->next = &op->link;
    ops->prev = &op->link;
    conn->msgproto.outstanding++;
    msgproto->used++;
}

static inline void msgproto_plain_end(struct msgproto *msgproto, struct rxm_op *op,
                                      struct rxm_conn *conn)
{
    op->link.prev->next = op->link.next;
    op->link.next->prev = op->link.prev;
    conn->msgproto.outstanding--;
    msgproto->used--;
    msgproto_plain_keep(msgproto, op);
}

/* A message of at most MSGPROTO_SMALL bytes, posted with the endpoint's own flags, which are plain.
 * False: nothing has happened. */
static inline __attribute__((always_inline)) bool msgproto_send_plain(struct rxm_conn *conn,
                                                                      const void *buf, size_t len,
                                                                      bool tagged, uint64_t tag,
                                                                      void *context)
{
    struct rxm_ep *ep = conn->owner;
    struct msgproto *msgproto = ep->msgproto;
    struct rxm_op *op = msgproto->plain;

    if (__builtin_expect(!list_empty(&conn->msgproto.waiting) || msgproto->used >= msgproto->limit,
                         0))
        return false;
    if (__builtin_expect(!op, 0) && !(op = msgproto_plain_make(msgproto)))
        return false;
    if (__builtin_expect(!rxm_credit_take(&conn->msgproto.credit, false), 0))
        return false;
    msgproto->plain = (struct rxm_op *)(void *)op->buffer.next;
    op->conn = conn;
    op->user = context;
    op->flags = FI_SEND | (tagged ? FI_TAGGED : FI_MSG);
    op->wanted = ep->plain_wanted;
    rxm_packet_put_next(op->bytes, conn->cm.other.id, len, tagged, tag);
    if (__builtin_expect(len == sizeof(uint64_t), 1))
        memcpy(op->bytes + RXM_PACKET_SIZE, buf, sizeof(uint64_t));
    else if (len)
        memcpy(op->bytes + RXM_PACKET_SIZE, buf, len);
    msgproto_plain_begin(msgproto, op, conn);
    if (__builtin_expect(!msgproto_short_send(conn, op->bytes, RXM_PACKET_SIZE + len,
                                              op->buffer.desc, &op->context),
                         1))
        return true;
    msgproto_plain_undo(op);
    return false;
}

#endif
