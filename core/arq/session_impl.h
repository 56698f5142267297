/* SPDX-License-Identifier: BSD-2-Clause */
/* The seam between the files of a session: session.c (life), session_in.c (packets that come),
 * session_out.c (packets that leave), session_run.c (what is due), session_pieces.c (messages that
 * come in pieces). */
#ifndef WEFT_CORE_ARQ_SESSION_IMPL_H
#define WEFT_CORE_ARQ_SESSION_IMPL_H

#include "core/arq/session.h"

enum {
    KIND_MESSAGE,              /* of struct flight_packet; `what` is the message */
    KIND_TRAIN,                /* the same of one in a train */
    KIND_PROBE = FLIGHT_ASIDE, /* of the path's size: messages do not wait for it */
};

#define SESSION_OPEN_WAIT UINT64_C(20000000)   /* ns: first wait for an answer to OPEN */
#define SESSION_WAIT_MAX UINT64_C(1000000000)  /* ns: no wait between two tries is longer */
#define SESSION_GRACE UINT64_C(1000000000)     /* ns: to answer when said to be unreachable */
#define SESSION_GRACE_WAIT UINT64_C(100000000) /* ns: between tries then */

/* ---- session.c ---- */

/* Has it messages that have not left, or not all of it? */
static inline bool session_has_waiting(const struct session *session)
{
    return !list_empty(&session->queued) ||
           (session->traffic && !list_empty(&session->traffic->again));
}
/* Numbers from the highest one down to the lowest that has come since the last acknowledgement. */
static inline uint32_t session_untold(const struct session *session)
{
    return (uint32_t)session->numbers.end - session->untold;
}
/* Has it work for the peer? */
bool session_busy(const struct session *session);
/* wait doubled for each of `tries`, at most SESSION_WAIT_MAX. */
uint64_t session_backoff(const struct session *session, uint64_t wait, unsigned tries);

/* Makes session->traffic, from what was kept of the last; false without memory. */
bool session_traffic_begin(struct session *session);
/* Frees it, with nothing under way that is waited for. */
void session_traffic_rest(struct session *session);

/* ---- session_out.c ---- */

/* Pieces of a message that are called lost leave again. False: the peer has them. */
bool session_resend(struct session *session, struct session_message *message, uint64_t pieces);
/* The next message that may leave, or NULL. */
struct session_message *session_next_message(struct session *session);
/* Messages leave, as far as they may. */
void session_send_messages(struct session *session, uint64_t now);
/* False of these three: the lower takes nothing. The first is an ACK, with those flags; the second
 * OPEN, or ACCEPT. */
bool session_send_ack(struct session *session, uint64_t now, unsigned flags);
bool session_send_open(struct session *session, uint64_t now);
/* Hands a packet without payload to the lower; extra bytes are behind the header already. */
bool session_transmit(struct session *session, uint64_t now, struct arq_header *header,
                      uint8_t *bytes, size_t len);
/* For how many more packets under way is there a place? As many as are wanted, if possible. */
uint64_t session_places(struct session *session, uint64_t wanted);
/* A packet has left that the peer is to acknowledge. */
void session_expect_answer(struct session *session, uint64_t now);

/* ---- session_pieces.c ---- */

/* The lowest bits, one for each of so many pieces. */
static inline uint64_t session_pieces_bits(unsigned count)
{
    return count >= ARQ_PIECES ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}
/* A piece has come. Returns false: nothing is kept of it, it must come again. *whole: bytes of the
 * message, whose last piece this was, until session_assembled; else NULL. */
bool session_assemble(struct session *session, uint64_t serial, const struct arq_header *header,
                      const uint8_t *payload, size_t len, struct session_assembly **whole);
void session_assembled(struct session_assembly *assembly);
/* Have pieces of that message come? */
bool session_has_pieces(const struct session *session, uint64_t serial);
/* Gives memory back that no message needs. */
void session_pieces_rest(struct session *session);

#endif
