/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable connections, and datagrams: what each does with packets. The lock is held. */
#ifndef WEFT_EMULATOR_RC_H
#define WEFT_EMULATOR_RC_H

#include "qp.h"

void requester_pump(struct qp *qp);
/* An answer of the peer. */
void requester_receive(struct qp *qp, const struct wire_packet *packet, const void *payload);
/* Requests on the way will not be answered: the requester repeats them after the timeout. */
void requester_lost(struct qp *qp);

void responder_pump(struct qp *qp);
/* A request of the peer. */
void responder_receive(struct qp *qp, const struct wire_packet *packet, const void *payload);

void datagram_pump(struct qp *qp);
void datagram_receive(struct qp *qp, const struct wire_packet *packet, const void *payload);

/* Answers with a packet that has no payload. */
void rc_answer(struct qp *qp, enum wire_kind kind, uint32_t message, uint8_t status);

#endif
