/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of peers: checks, messages to their receives, and what is kept until there is one. */
#include <stdlib.h>
#include <string.h>

#include "transports/uet/ses/ses_impl.h"

/* ---- Responses ---- */

static void respond(struct ses *ses, const struct ses_request *request, uint8_t code, uint8_t list,
                    uint32_t modified, struct pds_answer *answer)
{
    struct ses_response response = {
        .next = NEXT_RESPONSE,
        .list = list,
        .opcode = code == RC_OK && list == SES_EXPECTED ? SES_DEFAULT_RESPONSE : SES_RESPONSE,
        .code = code,
        .message_id = request->message_id,
        .generation = code == RC_BAD_GENERATION ? ses->settings.self.generation : 0,
        .job = request->job,
        .modified_length = modified,
    };

    if (code != RC_OK && code < SES_CODES)
        ses->counters.refused[code]++;
    answer->next = NEXT_RESPONSE;
    answer->header_len = (uint8_t)ses_response_put(&response, answer->header);
    answer->guaranteed = code != RC_OK || list != SES_EXPECTED;
}

void ses_respond(struct ses *ses, const struct ses_request *request, uint8_t code, uint8_t list,
                 struct pds_answer *answer)
{
    respond(ses, request, code, list, code == RC_OK ? request->length : 0, answer);
}

void ses_respond_captured(struct ses *ses, const struct ses_request *request, uint32_t bytes,
                          struct pds_answer *answer)
{
    respond(ses, request, RC_OK, SES_OVERFLOW, bytes, answer);
}

/* ---- Messages of several packets ---- */

static struct list *bucket_of(struct ses *ses, const union addr *from, uint16_t id)
{
    uint64_t hash = addr_hash(&from->sa) + id * UINT64_C(0x9e3779b97f4a7c15);

    return &ses->inbound[(hash ^ hash >> 32) % SES_BUCKETS];
}

static struct ses_inbound *find_inbound(struct ses *ses, const struct pds_arrival *arrival,
                                        const struct ses_request *request)
{
    list_for_each (pos, bucket_of(ses, &arrival->from, request->message_id)) {
        struct ses_inbound *inbound = list_item(pos, struct ses_inbound, link);

        if (inbound->tracked && inbound->id == request->message_id &&
            inbound->initiator == request->initiator && inbound->job == request->job &&
            addr_equal(&inbound->from.sa, &arrival->from.sa))
            return inbound;
    }
    return NULL;
}

static bool is_whole(const struct ses_request *request)
{
    return (request->flags & (SES_SOM | SES_EOM)) == (SES_SOM | SES_EOM);
}

static void note_start(struct ses_inbound *inbound, const struct ses_request *request)
{
    if (!(request->flags & SES_SOM) || !(request->flags & SES_HD))
        return;
    inbound->has_data = true;
    inbound->data = request->data;
}

static bool is_tagged(uint8_t opcode)
{
    return opcode == SES_TAGGED_SEND || opcode == SES_DEFERRABLE_TSEND ||
           opcode == SES_RENDEZVOUS_TSEND || ses_is_tagged_atomic(opcode);
}

/* Bytes of the message that its packets bring. */
static uint32_t carried(const struct ses_request *request)
{
    return ses_is_rendezvous(request->opcode) ? request->rendezvous.eager_length : request->length;
}

void ses_inbound_track(struct ses *ses, struct ses_inbound *inbound)
{
    inbound->tracked = true;
    ses->tracked++;
    list_attach(&inbound->link, bucket_of(ses, &inbound->from, inbound->id));
}

void ses_inbound_untrack(struct ses *ses, struct ses_inbound *inbound)
{
    list_detach(&inbound->link);
    ses->tracked -= inbound->tracked;
    inbound->tracked = false;
}

struct ses_inbound *ses_inbound_of(struct ses *ses, const struct pds_arrival *arrival,
                                   const struct ses_request *request)
{
    struct ses_inbound *inbound = is_whole(request) ? NULL : find_inbound(ses, arrival, request);

    if (!inbound) {
        inbound = pool_get(&ses->inbounds);
        if (!inbound)
            return NULL;
        memset(inbound, 0, sizeof(*inbound));
        inbound->upper = ses->arg;
        inbound->from = arrival->from;
        inbound->initiator = request->initiator;
        inbound->job = request->job;
        inbound->tagged = is_tagged(request->opcode);
        inbound->tag = request->key;
        inbound->length = request->length;
        inbound->carried = carried(request);
        inbound->pull.key = request->rendezvous.key;
        inbound->pull.offset = request->rendezvous.offset;
        inbound->pull.pid = request->rendezvous.pid;
        inbound->pull.index = request->rendezvous.index;
        inbound->pull.generation = request->rendezvous.generation;
        inbound->id = request->message_id;
        inbound->opcode = request->opcode;
        inbound->code = RC_OK;
        inbound->pdc = arrival->ticket.pdc;
        list_init(&inbound->link);
        inbound->defer.token = IDS_NONE;
        inbound->defer.initiator = (uint32_t)(request->offset >> 32);
        if (!is_whole(request))
            ses_inbound_track(ses, inbound);
    }
    note_start(inbound, request);
    return inbound;
}

void ses_inbound_put(struct ses *ses, struct ses_inbound *inbound)
{
    ses_inbound_untrack(ses, inbound);
    if (inbound->defer.token != IDS_NONE)
        ids_remove(&ses->tokens, inbound->defer.token);
    if (inbound->saved) {
        ses->saved -= inbound->carried;
        free(inbound->saved);
    }
    pool_put(&ses->inbounds, inbound);
}

/* ---- Messages without a receive ---- */

bool ses_keep(struct ses *ses, struct ses_inbound *inbound)
{
    if (ses_is_deferrable(inbound->opcode) && inbound->defer.initiator && inbound->length) {
        inbound->defer.waits = true;
        return true;
    }
    if (ses->saved + inbound->carried > ses->settings.saved)
        return false;
    inbound->saved = malloc(inbound->carried ? inbound->carried : 1);
    if (!inbound->saved)
        return false;
    ses->saved += inbound->carried;
    return true;
}

void ses_finish(struct ses *ses, struct ses_inbound *inbound, enum ses_code code)
{
    struct pds_answer answer = {.kind = ANSWER_NOW};
    struct ses_request request = {
        .message_id = inbound->id, .job = inbound->job, .length = inbound->length};

    if (inbound->delivered_later) {
        ses_respond(ses, &request, code == RC_OK ? RC_OK : RC_DROPPED, SES_EXPECTED, &answer);
        pds_answer(ses->pds, &inbound->ticket, &answer);
    }
    ses_inbound_untrack(ses, inbound);
    if (inbound->matched)
        ses->ops->received(ses->arg, inbound, code);
    ses_inbound_put(ses, inbound);
}

void ses_start(struct ses *ses, struct ses_inbound *inbound, const struct iovec *iov, size_t count)
{
    inbound->matched = true;
    inbound->iov = iov;
    inbound->iov_count = count;
    if (ses_is_tagged_atomic(inbound->opcode)) {
        ses_start_tagged_atomic(ses, inbound);
        return;
    }
    if (inbound->defer.waits && !inbound->lost) {
        ses_ask(ses, inbound);
        return;
    }
    /* Holes are filled by the packets that have not come yet. */
    if (inbound->saved) {
        ses_scatter(iov, count, 0, inbound->saved, inbound->carried);
        ses->saved -= inbound->carried;
    }
    free(inbound->saved);
    inbound->saved = NULL;
    if (inbound->lost)
        ses_finish(ses, inbound, RC_UNDELIVERABLE);
    else if (inbound->complete)
        ses_pull(ses, inbound);
}

void ses_discard(struct ses *ses, struct ses_inbound *inbound)
{
    if (ses_is_tagged_atomic(inbound->opcode)) {
        ses_discard_tagged_atomic(ses, inbound);
        return;
    }
    if (inbound->lost || inbound->complete) {
        ses_finish(ses, inbound, RC_OK);
        return;
    }
    /* The packets to come go nowhere. */
    inbound->code = RC_DROPPED;
    if (inbound->defer.waits)
        ses_ask(ses, inbound);
}

/* ---- A packet of a message ---- */

/* A sender that waits for a receive ends what it has begun to send with an empty packet. */
static bool is_end_of_deferred(const struct ses_request *request)
{
    return ses_is_deferrable(request->opcode) && request->flags & SES_EOM;
}

/* Where its bytes belong; false: that cannot be. */
static bool place_of(const struct ses_request *request, size_t len, uint32_t *offset)
{
    *offset = request->flags & SES_SOM ? 0 : request->message_offset;
    if (is_whole(request))
        return len == carried(request);
    return *offset <= carried(request) && len <= carried(request) - *offset &&
           (len || is_end_of_deferred(request));
}

static void refuse(struct pds_answer *answer, enum pds_nack code)
{
    answer->kind = ANSWER_NACK;
    answer->nack = (uint8_t)code;
}

/* A message is new: it has its receive now, or is kept. False: it is not taken. */
static bool introduce(struct ses *ses, struct ses_inbound *inbound, struct pds_answer *answer)
{
    switch (ses->ops->message(ses->arg, inbound)) {
    case SES_MATCHED: inbound->matched = true; return true;
    case SES_UNMATCHED: return true;
    default: break;
    }
    ses_inbound_put(ses, inbound);
    refuse(answer, NACK_NO_MESSAGE);
    return false;
}

static void place_bytes(struct ses_inbound *inbound, uint32_t offset, const uint8_t *bytes,
                        size_t len)
{
    if (inbound->matched)
        ses_scatter(inbound->iov, inbound->iov_count, offset, bytes, len);
    else if (inbound->saved && len)
        memcpy(inbound->saved + offset, bytes, len);
    inbound->received += (uint32_t)len;
    inbound->complete = inbound->received >= inbound->carried;
}

/* All of it is here. */
static void complete_message(struct ses *ses, const struct pds_arrival *arrival,
                             const struct ses_request *request, struct ses_inbound *inbound,
                             struct pds_answer *answer)
{
    bool reads = inbound->carried < inbound->length;

    if (inbound->code != RC_OK || (inbound->matched && !reads)) {
        ses_respond(ses, request, RC_OK, SES_EXPECTED, answer);
        ses_finish(ses, inbound, inbound->code);
        return;
    }
    ses_inbound_untrack(ses, inbound); /* its id may be used again */
    if (reads || (request->flags & SES_DC && !arrival->datagram)) {
        inbound->delivered_later = true;
        inbound->ticket = arrival->ticket;
        answer->kind = ANSWER_LATER;
        if (inbound->matched)
            ses_pull(ses, inbound);
        return;
    }
    ses_respond(ses, request, RC_OK, SES_OVERFLOW, answer);
}

/* It was asked for. */
static bool is_restart(const struct ses_request *request)
{
    return ses_is_deferrable(request->opcode) && (uint32_t)request->offset;
}

static void take_message(struct ses *ses, const struct pds_arrival *arrival,
                         const struct ses_request *request, const uint8_t *payload, size_t len,
                         struct pds_answer *answer)
{
    struct ses_inbound *inbound;
    uint32_t offset;
    bool fresh;

    if (carried(request) > request->length || !place_of(request, len, &offset)) {
        ses_respond(ses, request, RC_UNSUPPORTED_SIZE, SES_EXPECTED, answer);
        return;
    }
    if (is_restart(request)) {
        inbound = ses_restarted(ses, arrival, request);
        if (!inbound) {
            ses_respond(ses, request, RC_NO_MATCH, SES_EXPECTED, answer);
            return;
        }
    } else {
        inbound = ses_inbound_of(ses, arrival, request);
    }
    if (!inbound) {
        refuse(answer, NACK_NO_RESOURCE);
        return;
    }
    fresh = !inbound->received && !inbound->matched && !inbound->saved && inbound->code == RC_OK &&
            !inbound->defer.waits;
    if (inbound->length != request->length || inbound->opcode != request->opcode ||
        inbound->carried != carried(request) || len > inbound->carried - inbound->received) {
        ses_respond(ses, request, RC_DROPPED, SES_EXPECTED, answer);
        return;
    }
    if (fresh && !introduce(ses, inbound, answer))
        return;
    if (inbound->defer.waits) {
        ses_take_deferred(ses, inbound, request, offset, len, answer);
        return;
    }
    place_bytes(inbound, offset, payload, len);
    if (inbound->complete)
        complete_message(ses, arrival, request, inbound, answer);
    else
        ses_respond(ses, request, RC_OK, SES_EXPECTED, answer);
}

/* ---- Messages that will not be whole ---- */

/* The rest of a message or access will not come. */
static void lose(struct ses *ses, struct ses_inbound *inbound)
{
    ses_inbound_untrack(ses, inbound);
    if (inbound->defer.ask) /* it was asked for, and is to be sent anew: that ends it */
        return;
    inbound->lost = true;
    if (inbound->matched || (!inbound->saved && !inbound->defer.waits) || inbound->code != RC_OK)
        ses_finish(ses, inbound, RC_UNDELIVERABLE);
}

/* Its sender says so. One that is not known has ended, or was never taken. */
static void take_error(struct ses *ses, const struct pds_arrival *arrival,
                       const struct ses_request *request, struct pds_answer *answer)
{
    struct ses_inbound *inbound = find_inbound(ses, arrival, request);

    if (inbound)
        lose(ses, inbound);
    ses_respond(ses, request, RC_OK, SES_EXPECTED, answer);
}

/* ---- All requests ---- */

/* Of something that began before the generation changed? */
static bool is_under_way(struct ses *ses, const struct pds_arrival *arrival,
                         const struct ses_request *request)
{
    return request->opcode == SES_MSG_ERROR || is_restart(request) ||
           (!is_whole(request) && find_inbound(ses, arrival, request)) ||
           (request->opcode == SES_READ && ses_pulled_op(ses, arrival, request));
}

static enum ses_code check_generation(struct ses *ses, const struct pds_arrival *arrival,
                                      const struct ses_request *request)
{
    const struct ses_identity *self = &ses->settings.self;

    if ((request->generation == self->generation && !ses->disabled) ||
        is_under_way(ses, arrival, request))
        return RC_OK;
    if (ses->disabled)
        return self->generation ? RC_DISABLED_GEN : RC_DISABLED;
    return RC_BAD_GENERATION;
}

/* Is the request for this endpoint? RC_OK, or why not. */
static enum ses_code check(struct ses *ses, const struct pds_arrival *arrival,
                           const struct ses_request *request)
{
    const struct ses_identity *self = &ses->settings.self;
    enum ses_code code;

    if (request->flags & SES_IE)
        return RC_INITIATOR_ERR;
    if (ses->ops->admits ? !ses->ops->admits(ses->arg, request->job) : request->job != self->job)
        return RC_BAD_JOB_ID;
    /* Its tokens name the operation. */
    if (request->opcode == SES_DEFERRABLE_RTR)
        return RC_OK;
    if (request->pid != self->pid)
        return RC_BAD_PID;
    /* A small header has the index of a key in that place. */
    if (request->index != self->index && request->next != NEXT_SMALL)
        return RC_BAD_INDEX;
    code = check_generation(ses, arrival, request);
    if (code != RC_OK)
        return code;
    if (request->next == NEXT_STANDARD && !request->message_id &&
        request->opcode != SES_DATAGRAM_SEND && request->opcode != SES_NO_OP)
        return RC_DROPPED;
    return RC_OK;
}

static void dispatch(struct ses *ses, const struct pds_arrival *arrival,
                     const struct ses_request *request, const uint8_t *payload, size_t len,
                     struct pds_answer *answer)
{
    switch (request->opcode) {
    case SES_NO_OP: ses_respond(ses, request, RC_OK, SES_EXPECTED, answer); break;
    case SES_SEND:
    case SES_TAGGED_SEND:
    case SES_DATAGRAM_SEND:
    case SES_RENDEZVOUS_SEND:
    case SES_RENDEZVOUS_TSEND:
    case SES_DEFERRABLE_SEND:
    case SES_DEFERRABLE_TSEND: take_message(ses, arrival, request, payload, len, answer); break;
    case SES_TSEND_ATOMIC:
    case SES_TSEND_FETCH_ATOMIC:
        ses_take_tagged_atomic(ses, arrival, request, payload, len, answer);
        break;
    case SES_DEFERRABLE_RTR: ses_take_ready(ses, arrival, request, answer); break;
    case SES_MSG_ERROR: take_error(ses, arrival, request, answer); break;
    case SES_WRITE:
    case SES_READ:
    case SES_ATOMIC:
    case SES_FETCHING_ATOMIC: ses_take_access(ses, arrival, request, payload, len, answer); break;
    default: ses_respond(ses, request, RC_UNSUPPORTED_OP, SES_EXPECTED, answer); break;
    }
}

void ses_request(void *arg, const struct pds_arrival *arrival, struct pds_answer *answer)
{
    struct ses *ses = arg;
    struct ses_request request;
    enum ses_code code;
    int size;

    if (pds_is_returned(arrival->next)) {
        ses_take_data(ses, arrival, answer);
        return;
    }
    size = ses_request_get(arrival->next, arrival->bytes, arrival->len, &request);
    code = size < 0 ? RC_UNSUPPORTED_OP : check(ses, arrival, &request);
    /* Datagrams carry messages of one packet, and nothing else does what is at most once. */
    if (arrival->datagram &&
        (code != RC_OK || request.opcode != SES_DATAGRAM_SEND || !is_whole(&request))) {
        ses->counters.ignored++;
        return;
    }
    if (code == RC_OK && ses->settings.datagrams && !arrival->datagram)
        code = RC_UNSUPPORTED_OP;
    if (code != RC_OK) {
        ses_respond(ses, &request, code, SES_EXPECTED, answer);
        return;
    }
    (arrival->idempotent ? ses_take_idempotent : dispatch)(
        ses, arrival, &request, arrival->bytes + size, arrival->len - (size_t)size, answer);
}

void ses_in_closed(struct ses *ses, struct pds_ref pdc, bool failed)
{
    (void)failed;
    for (size_t i = 0; ses->tracked && i < SES_BUCKETS; i++) {
        list_for_each_safe (pos, after, &ses->inbound[i]) {
            struct ses_inbound *inbound = list_item(pos, struct ses_inbound, link);

            if (inbound->pdc.id == pdc.id && inbound->pdc.generation == pdc.generation)
                lose(ses, inbound);
        }
    }
}
