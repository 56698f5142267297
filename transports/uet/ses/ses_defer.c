/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deferrable sends: a target without a receive keeps no more of the message than that there is one,
 * and says so (list OVERFLOW, nothing modified). Its sender stops, with an empty last packet. When
 * there is a receive the target asks (DEFERRABLE_RTR, with the tokens of both), and the message is
 * sent anew, with these tokens and another id.
 *
 *     initiator            SEND(token, 0) ->                        target: OVERFLOW
 *                       empty last packet ->
 *                                         <- RTR(token, its own)    a receive
 *                   SEND(token, its own) ->                         straight into the receive
 *
 * The initiator holds its PDC while it waits for RTR, and the target that of RTR until the message
 * comes, so that each hears of the other's end.
 */
#include <stdlib.h>
#include <string.h>

#include "transports/uet/ses/ses_impl.h"
#include "transports/uet/wire/address.h"

static uint64_t pair_of(uint64_t initiator, uint64_t target)
{
    return initiator << 32 | (target & UINT32_MAX);
}

/* ---- The initiator ---- */

static uint64_t token_of(const struct ses_op *op)
{
    return op->defer.first == IDS_NONE ? op->number : op->defer.first;
}

uint64_t ses_defer_tokens(const struct ses_op *op)
{
    return pair_of(token_of(op), op->defer.first == IDS_NONE ? 0 : op->defer.target);
}

void ses_defer(struct ses *ses, struct ses_op *op)
{
    if (op->defer.waits || op->defer.first != IDS_NONE)
        return;
    op->defer.waits = true;
    pds_hold(ses->pds, op->source.pdc);
    op->holds = true;
}

/* With another id; the first one stays taken, since it is the token. */
static bool restart(struct ses *ses, struct ses_op *op)
{
    const struct pds_key key = op->source.key;
    uint64_t number = ids_add(&ses->messages, op);

    if (number == IDS_NONE)
        return false;
    if (op->holds)
        pds_release(ses->pds, op->source.pdc);
    op->holds = op->gave_all = op->defer.waits = false;
    op->filled = op->packets = op->ended = 0;
    op->defer.first = op->number;
    op->number = number;
    pds_submit(ses->pds, &op->source, &key);
    return true;
}

bool ses_defer_goes_on(struct ses *ses, struct ses_op *op)
{
    if (op->code != RC_OK || op->defer.first != IDS_NONE)
        return false;
    if (!op->defer.asked)
        return op->defer.waits;
    if (restart(ses, op))
        return true;
    op->code = RC_UNCOR_TRANSIENT;
    return false;
}

void ses_take_ready(struct ses *ses, const struct pds_arrival *arrival,
                    const struct ses_request *request, struct pds_answer *answer)
{
    struct ses_op *op = ids_find(&ses->messages, request->key >> 32);

    if (!op || (void *)op == ses || !ses_is_deferrable(op->opcode) ||
        token_of(op) != request->key >> 32 || op->defer.asked || !(uint32_t)request->key ||
        op->target.job != request->job || !addr_equal(&op->target.to.sa, &arrival->from.sa)) {
        ses_respond(ses, request, RC_NO_MATCH, SES_EXPECTED, answer);
        return;
    }
    op->defer.asked = true;
    op->defer.target = (uint32_t)request->key;
    ses_respond(ses, request, RC_OK, SES_EXPECTED, answer);
    ses_settle(ses, op);
}

/* ---- The target ---- */

void ses_take_deferred(struct ses *ses, struct ses_inbound *inbound,
                       const struct ses_request *request, uint32_t offset, size_t len,
                       struct pds_answer *answer)
{
    /* The last packet says how much of the message was sent. */
    if (request->flags & SES_EOM) {
        inbound->defer.ended = true;
        inbound->defer.end = offset + (uint32_t)len;
    }
    inbound->received += (uint32_t)len;
    ses_respond_captured(ses, request, 0, answer);
    if (!inbound->defer.ended || inbound->received < inbound->defer.end)
        return;
    ses_inbound_untrack(ses, inbound);
}

void ses_ask(struct ses *ses, struct ses_inbound *inbound)
{
    struct ses_op *op = calloc(1, sizeof(*op));

    if (op) {
        inbound->defer.token = ids_add(&ses->tokens, inbound);
        op->target =
            (struct ses_target){.to = inbound->from,
                                .job = inbound->job,
                                .pid = uet_initiator_pid(inbound->initiator, &inbound->from),
                                .index = ses->settings.self.index,
                                .mode = PDS_MODE_RUD};
        op->opcode = SES_DEFERRABLE_RTR;
        op->key = pair_of(inbound->defer.initiator, inbound->defer.token);
        op->asks = inbound;
        inbound->defer.ask = op;
        if (inbound->defer.token != IDS_NONE && ses_start_op(ses, op))
            return;
    }
    free(op);
    inbound->defer.ask = NULL;
    ses_finish(ses, inbound, RC_UNCOR_TRANSIENT);
}

void ses_asked(struct ses *ses, struct ses_op *op)
{
    struct ses_inbound *inbound = op->asks;
    enum ses_code code = op->code;

    free(op);
    inbound->defer.ask = NULL;
    if (inbound->defer.waits)
        ses_finish(ses, inbound, code == RC_OK ? RC_UNDELIVERABLE : code);
}

struct ses_inbound *ses_restarted(struct ses *ses, const struct pds_arrival *arrival,
                                  const struct ses_request *request)
{
    struct ses_inbound *inbound = ids_find(&ses->tokens, (uint32_t)request->offset);

    if (!inbound || (void *)inbound == ses || inbound->defer.initiator != request->offset >> 32 ||
        inbound->job != request->job || inbound->initiator != request->initiator ||
        inbound->length != request->length || inbound->opcode != request->opcode ||
        !addr_equal(&inbound->from.sa, &arrival->from.sa))
        return NULL;
    if (!inbound->defer.waits)
        return inbound->id == request->message_id ? inbound : NULL;
    inbound->defer.waits = false;
    inbound->id = request->message_id;
    inbound->pdc = arrival->ticket.pdc;
    inbound->received = 0;
    ses_inbound_untrack(ses, inbound);
    if ((request->flags & (SES_SOM | SES_EOM)) != (SES_SOM | SES_EOM))
        ses_inbound_track(ses, inbound);
    if (inbound->defer.ask)
        ses_settle(ses, inbound->defer.ask);
    return inbound;
}
