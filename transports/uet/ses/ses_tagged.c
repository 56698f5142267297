/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomics whose target is the receive of a tag (TSEND_ATOMIC, TSEND_FETCH_ATOMIC): each takes one
 * receive, as a message does, and is carried out in its memory. Without a receive it is kept, with
 * its operands, and its answer waits: an initiator that hears OK knows that it was done.
 */
#include <string.h>

#include "transports/uet/ses/ses_impl.h"

/* At the start of `saved`, of one without a receive; the operands follow. */
struct kept_atomic {
    struct ses_request request;
};

static uint32_t kept_size(size_t len)
{
    return (uint32_t)(sizeof(struct kept_atomic) + len);
}

/* In the receive that it has; the receive ends. */
static void carry_out(struct ses *ses, struct ses_inbound *inbound, uint32_t psn,
                      const struct ses_request *request, const uint8_t *operands, size_t len,
                      struct pds_answer *answer)
{
    size_t bytes = 0;
    enum ses_code code = ses->ops->tagged_atomic(ses->arg, request, operands, len, inbound->iov,
                                                 inbound->iov_count, ses->scratch, &bytes);

    if (code == RC_OK && request->opcode == SES_TSEND_FETCH_ATOMIC)
        ses_answer_data(ses, psn, request, 0, bytes, answer);
    else
        ses_respond(ses, request, code, SES_EXPECTED, answer);
    ses->ops->received(ses->arg, inbound, code);
}

static void keep(struct ses_inbound *inbound, const struct pds_arrival *arrival,
                 const struct ses_request *request, const uint8_t *operands, size_t len)
{
    const struct kept_atomic kept = {.request = *request};

    memcpy(inbound->saved, &kept, sizeof(kept));
    if (len)
        memcpy(inbound->saved + sizeof(kept), operands, len);
    inbound->complete = inbound->delivered_later = true;
    inbound->ticket = arrival->ticket;
}

void ses_take_tagged_atomic(struct ses *ses, const struct pds_arrival *arrival,
                            const struct ses_request *request, const uint8_t *operands, size_t len,
                            struct pds_answer *answer)
{
    enum ses_code code =
        ses->ops->tagged_atomic ? ses_check_atomic(ses, request, len) : RC_UNSUPPORTED_OP;
    struct ses_inbound *inbound = NULL;
    enum ses_match match = SES_NO_ROOM;
    size_t bytes = 0;

    if (code == RC_OK)
        code = ses->ops->tagged_atomic(ses->arg, request, operands, len, NULL, 0, NULL, &bytes);
    if (code != RC_OK) {
        ses_respond(ses, request, code, SES_EXPECTED, answer);
        return;
    }
    inbound = ses_inbound_of(ses, arrival, request);
    if (inbound) {
        inbound->length = (uint32_t)bytes;
        inbound->carried = kept_size(len);
        match = ses->ops->message(ses->arg, inbound);
    }
    if (match == SES_NO_ROOM) {
        answer->kind = ANSWER_NACK;
        answer->nack = inbound ? NACK_NO_MESSAGE : NACK_NO_RESOURCE;
    } else if (match == SES_MATCHED || inbound->matched) {
        carry_out(ses, inbound, arrival->ticket.psn, request, operands, len, answer);
    } else if (inbound->code != RC_OK) { /* it was not wanted, from inside of the upcall */
        ses_respond(ses, request, RC_DROPPED, SES_EXPECTED, answer);
    } else {
        keep(inbound, arrival, request, operands, len);
        answer->kind = ANSWER_LATER;
        return;
    }
    if (inbound)
        ses_inbound_put(ses, inbound);
}

void ses_start_tagged_atomic(struct ses *ses, struct ses_inbound *inbound)
{
    struct pds_answer answer = {.kind = ANSWER_NOW};
    struct kept_atomic kept;

    if (!inbound->delivered_later)
        return; /* ses_take_tagged_atomic goes on */
    memcpy(&kept, inbound->saved, sizeof(kept));
    carry_out(ses, inbound, inbound->ticket.psn, &kept.request, inbound->saved + sizeof(kept),
              inbound->carried - sizeof(kept), &answer);
    pds_answer(ses->pds, &inbound->ticket, &answer);
    ses_inbound_put(ses, inbound);
}

void ses_discard_tagged_atomic(struct ses *ses, struct ses_inbound *inbound)
{
    struct pds_answer answer = {.kind = ANSWER_NOW};
    struct kept_atomic kept;

    inbound->code = RC_DROPPED;
    if (!inbound->delivered_later)
        return;
    memcpy(&kept, inbound->saved, sizeof(kept));
    ses_respond(ses, &kept.request, RC_DROPPED, SES_EXPECTED, &answer);
    pds_answer(ses->pds, &inbound->ticket, &answer);
    ses_inbound_put(ses, inbound);
}
