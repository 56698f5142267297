/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accesses of peers to memory here. A write is carried out packet by packet; a read packet asks for
 * at most one packet of data, which goes back over the same PDC; an atomic is one packet, and its
 * result is on the acknowledgement.
 */
#include <stdlib.h>
#include <string.h>

#include "transports/uet/ses/ses_impl.h"

/* Data that goes back. Which sources are of this kind is told by the mark. */
struct reply {
    struct pds_source source;
    struct list link;
    struct pds_packet *packet; /* that brings it, once there is one */
    struct ses_lent lent;
    uint8_t *copy; /* of what was lent, which was taken back */
    uint32_t len;
    uint8_t next, header_len;
    uint8_t header[SES_RESPONSE_MAX];
};

enum {
    REPLY = 0xff /* key.tclass of a reply's source, which no operation has */
};

bool ses_is_reply(const struct pds_source *source)
{
    return source->key.tclass == REPLY;
}

static void set_bytes(const struct reply *reply)
{
    struct pds_packet *packet = reply->packet;

    memcpy(packet->header, reply->header, reply->header_len);
    packet->iov_count =
        (uint8_t)ses_slice(reply->lent.iov, reply->lent.count, 0, reply->len, packet->iov);
}

void ses_fill_reply(struct pds_source *source, struct pds_packet *packet)
{
    struct reply *reply = list_item(source, struct reply, source);

    reply->packet = packet;
    packet->next = reply->next;
    packet->last = true;
    packet->header_len = reply->header_len;
    packet->len = reply->len; /* stays: PDS counts the packet by it */
    set_bytes(reply);
}

void ses_end_reply(struct ses *ses, struct pds_source *source)
{
    struct reply *reply = list_item(source, struct reply, source);

    list_detach(&reply->link);
    ses_give_back(ses, &reply->lent);
    free(reply->copy);
    free(reply);
}

/* There is no memory for a copy: its read fails, unless it has the data already. */
static void refuse_reply(struct reply *reply)
{
    struct ses_response response;

    ses_response_get(reply->next, reply->header, reply->header_len, &response);
    response.code = RC_UNCOR_TRANSIENT;
    response.payload_length = 0;
    ses_response_put(&response, reply->header);
    reply->len = 0;
}

/* From now on it is of memory that stays. */
static void keep_reply(struct ses *ses, struct reply *reply)
{
    struct ses_lent lent = reply->lent;
    size_t at = 0;

    reply->copy = malloc(reply->len);
    for (size_t i = 0; reply->copy && i < lent.count; at += lent.iov[i++].iov_len)
        memcpy(reply->copy + at, lent.iov[i].iov_base, lent.iov[i].iov_len);
    if (!reply->copy)
        refuse_reply(reply);
    reply->lent = (struct ses_lent){.iov = {{reply->copy, reply->len}}, .count = 1};
    if (reply->packet)
        set_bytes(reply);
    ses_give_back(ses, &lent);
}

void ses_take_back(struct ses *ses, const void *held)
{
    list_for_each (pos, &ses->replies) {
        struct reply *reply = list_item(pos, struct reply, link);

        if (reply->lent.held == held)
            keep_reply(ses, reply);
    }
}

/* ---- Accesses of several packets ---- */

/* Counts a packet of an access, and tells of the access when it was the last. */
static void count_packet(struct ses *ses, const struct pds_arrival *arrival,
                         struct ses_inbound *inbound, const struct ses_request *request, size_t len)
{
    struct ses_access access = {
        .from = inbound->from,
        .job = inbound->job,
        .initiator = inbound->initiator,
        .length = inbound->length,
        .opcode = inbound->opcode,
        .has_data = inbound->has_data,
        .data = inbound->data,
        .key = request->key,
        .offset = request->offset,
    };

    inbound->received += (uint32_t)len;
    if (inbound->received < inbound->length)
        return;
    /* A rendezvous lends memory for its message: reads of it are not counted. */
    if (inbound->code == RC_OK && !ses_pulled_op(ses, arrival, request))
        ses->ops->accessed(ses->arg, &access);
    ses_inbound_put(ses, inbound);
}

/* ---- Write ---- */

static enum ses_code write_packet(struct ses *ses, const struct pds_arrival *arrival,
                                  const struct ses_request *request, uint32_t offset,
                                  const uint8_t *payload, size_t len)
{
    const struct ses_initiator who = ses_initiator_of(arrival, request);

    if (request->offset > UINT64_MAX - offset)
        return RC_BAD_ADDR;
    return ses->ops->write(ses->arg, &who, request->key, request->offset + offset, payload, len);
}

/* ---- Read ---- */

enum ses_code ses_lend(struct ses *ses, const struct pds_arrival *arrival,
                       const struct ses_request *request, uint32_t offset, size_t len,
                       struct ses_lent *lent)
{
    const struct ses_initiator who = ses_initiator_of(arrival, request);
    struct ses_op *op = ses_pulled_op(ses, arrival, request);
    uint64_t at = request->offset + offset;

    if (!op)
        return ses->ops->read(ses->arg, &who, request->key, at, len, lent);
    if (at > op->length || len > op->length - at)
        return RC_BAD_ADDR;
    lent->count = ses_slice(op->iov, op->iov_count, at, len, lent->iov);
    lent->op = op;
    op->lent++;
    return RC_OK;
}

void ses_give_back(struct ses *ses, struct ses_lent *lent)
{
    if (!lent->op) {
        ses->ops->give_back(ses->arg, lent);
        return;
    }
    lent->op->lent--;
    ses_settle(ses, lent->op);
}

/* A request without a message id is named by its PSN. */
static struct ses_response data_response(uint32_t psn, const struct ses_request *request,
                                         uint32_t offset, size_t len)
{
    return (struct ses_response){
        .next = request->next == NEXT_STANDARD ? NEXT_RESPONSE_DATA : NEXT_RESPONSE_DATA_SMALL,
        .opcode = SES_RESPONSE_W_DATA,
        .code = RC_OK,
        .message_id = request->message_id,
        .job = request->job,
        .read_message_id = request->message_id,
        .payload_length = (uint16_t)len,
        .modified_length = request->length,
        .message_offset = offset,
        .request_psn = psn,
    };
}

void ses_answer_data(const struct ses *ses, uint32_t psn, const struct ses_request *request,
                     uint32_t offset, size_t len, struct pds_answer *answer)
{
    struct ses_response response = data_response(psn, request, offset, len);

    answer->next = response.next;
    answer->header_len = (uint8_t)ses_response_put(&response, answer->header);
    answer->data = ses->scratch;
    answer->len = len;
    answer->guaranteed = true;
}

static enum ses_code send_back(struct ses *ses, const struct pds_arrival *arrival,
                               const struct ses_request *request, uint32_t offset, uint32_t len)
{
    const struct ses_response response = data_response(arrival->ticket.psn, request, offset, len);
    struct reply *reply = calloc(1, sizeof(*reply));
    enum ses_code code;

    if (!reply)
        return RC_UNCOR_TRANSIENT;
    code = ses_lend(ses, arrival, request, offset, len, &reply->lent);
    if (code != RC_OK) {
        free(reply);
        return code;
    }
    reply->len = len;
    reply->next = response.next;
    reply->header_len = (uint8_t)ses_response_put(&response, reply->header);
    if (!pds_submit_return(ses->pds, &reply->source, arrival->ticket.pdc)) {
        ses_give_back(ses, &reply->lent);
        free(reply);
        return RC_UNDELIVERABLE;
    }
    reply->source.key.tclass = REPLY;
    list_attach(&reply->link, &ses->replies);
    return RC_OK;
}

/* A short one, or a slice of one by RUDI: with the acknowledgement. */
static enum ses_code answer_read(struct ses *ses, const struct pds_arrival *arrival,
                                 const struct ses_request *request, uint32_t offset, uint32_t len,
                                 struct pds_answer *answer)
{
    struct ses_lent lent = {.count = 0};
    enum ses_code code = ses_lend(ses, arrival, request, offset, len, &lent);
    size_t at = 0;

    if (code != RC_OK)
        return code;
    for (size_t i = 0; i < lent.count; i++) {
        memcpy(ses->scratch + at, lent.iov[i].iov_base, lent.iov[i].iov_len);
        at += lent.iov[i].iov_len;
    }
    ses_give_back(ses, &lent);
    ses_answer_data(ses, arrival->ticket.psn, request, offset, at, answer);
    return RC_OK;
}

/* ---- Both, packet by packet ---- */

/* The slice that a packet is of; false: there is no such slice. */
static bool slice_of(const struct ses *ses, const union addr *from,
                     const struct ses_request *request, size_t payload, uint32_t *offset,
                     uint32_t *len)
{
    bool first = request->flags & SES_SOM, last = request->flags & SES_EOM;

    *offset = first ? 0 : request->message_offset;
    *len = request->opcode == SES_WRITE ? (uint32_t)payload
           : !first                     ? request->payload_length
           : last                       ? request->length
                                        : ses_mtu(ses, from);
    if (request->opcode == SES_READ && (payload || *len > ses->settings.mtu))
        return false;
    if (first && last)
        return *len == request->length;
    return *offset <= request->length && *len <= request->length - *offset && *len;
}

static enum ses_code carry_out(struct ses *ses, const struct pds_arrival *arrival,
                               const struct ses_request *request, uint32_t offset, uint32_t len,
                               const uint8_t *payload, struct pds_answer *answer)
{
    if (request->opcode == SES_WRITE)
        return write_packet(ses, arrival, request, offset, payload, len);
    if (request->offset > UINT64_MAX - offset)
        return RC_BAD_ADDR;
    if (request->length <= ses->settings.ack_data || arrival->idempotent)
        return answer_read(ses, arrival, request, offset, len, answer);
    return send_back(ses, arrival, request, offset, len);
}

static void take_rma(struct ses *ses, const struct pds_arrival *arrival,
                     const struct ses_request *request, const uint8_t *payload, size_t size,
                     struct pds_answer *answer)
{
    struct ses_inbound *inbound;
    uint32_t offset, len;
    uint8_t code;

    if (!slice_of(ses, &arrival->from, request, size, &offset, &len)) {
        ses_respond(ses, request, RC_UNSUPPORTED_SIZE, SES_EXPECTED, answer);
        return;
    }
    inbound = ses_inbound_of(ses, arrival, request);
    if (!inbound) {
        answer->kind = ANSWER_NACK;
        answer->nack = NACK_NO_RESOURCE;
        return;
    }
    if (inbound->length != request->length || inbound->opcode != request->opcode ||
        len > inbound->length - inbound->received) {
        ses_respond(ses, request, RC_DROPPED, SES_EXPECTED, answer);
        return;
    }
    /* A packet behind one that failed fails as well, and touches nothing. */
    if (inbound->code == RC_OK)
        inbound->code = carry_out(ses, arrival, request, offset, len, payload, answer);
    code = inbound->code;
    count_packet(ses, arrival, inbound, request, len);
    if (code != RC_OK || answer->next == NEXT_NONE)
        ses_respond(ses, request, code, SES_EXPECTED, answer);
}

/* ---- RUDI ---- */

/* Writes and reads of what is idempotent. The end of a message, and its data, would come again. */
static enum ses_code check_idempotent(const struct ses_request *request)
{
    if (request->opcode != SES_WRITE && request->opcode != SES_READ)
        return RC_UNSUPPORTED_OP;
    return request->key & SES_KEY_IDEMPOTENT && !(request->flags & SES_HD) ? RC_OK
                                                                           : RC_OP_VIOLATION;
}

void ses_take_idempotent(struct ses *ses, const struct pds_arrival *arrival,
                         const struct ses_request *request, const uint8_t *payload, size_t size,
                         struct pds_answer *answer)
{
    enum ses_code code = request->opcode == SES_NO_OP ? RC_OK : check_idempotent(request);
    uint32_t offset, len;

    if (code == RC_OK && request->opcode != SES_NO_OP)
        code = slice_of(ses, &arrival->from, request, size, &offset, &len)
                   ? carry_out(ses, arrival, request, offset, len, payload, answer)
                   : RC_UNSUPPORTED_SIZE;
    if (code != RC_OK || answer->next == NEXT_NONE)
        ses_respond(ses, request, code, SES_EXPECTED, answer);
}

/* ---- Atomics ---- */

static void tell_atomic(struct ses *ses, const struct pds_arrival *arrival,
                        const struct ses_request *request)
{
    struct ses_access access = {
        .from = arrival->from,
        .job = request->job,
        .initiator = request->initiator,
        .length = request->length,
        .opcode = request->opcode,
        .fetching = request->opcode == SES_FETCHING_ATOMIC,
        .changes = request->atomic.opcode != AMO_READ,
        .key = request->key,
        .offset = request->offset,
    };

    ses->ops->accessed(ses->arg, &access);
}

enum ses_code ses_check_atomic(const struct ses *ses, const struct ses_request *request, size_t len)
{
    if (request->atomic.opcode > AMO_INVAL)
        return RC_AMO_UNSUPPORTED_OP;
    if (request->atomic.datatype > AMO_FP16)
        return RC_AMO_UNSUPPORTED_DT;
    if ((request->flags & (SES_SOM | SES_EOM)) != (SES_SOM | SES_EOM) || len > ses->settings.mtu)
        return RC_UNSUPPORTED_SIZE;
    return RC_OK;
}

static void take_atomic(struct ses *ses, const struct pds_arrival *arrival,
                        const struct ses_request *request, const uint8_t *payload, size_t len,
                        struct pds_answer *answer)
{
    bool fetching = request->opcode == SES_FETCHING_ATOMIC;
    const struct ses_initiator who = ses_initiator_of(arrival, request);
    enum ses_code code = ses_check_atomic(ses, request, len);
    size_t result = 0;

    if (code == RC_OK)
        code = ses->ops->atomic(ses->arg, &who, request, payload, len, ses->scratch, &result);
    if (code != RC_OK || !fetching) {
        ses_respond(ses, request, code, SES_EXPECTED, answer);
    } else {
        ses_answer_data(ses, arrival->ticket.psn, request, 0, result, answer);
    }
    if (code == RC_OK)
        tell_atomic(ses, arrival, request);
}

void ses_take_access(struct ses *ses, const struct pds_arrival *arrival,
                     const struct ses_request *request, const uint8_t *payload, size_t len,
                     struct pds_answer *answer)
{
    struct ses_request keyed;

    /* A small header names an optimized key by its index. */
    if (request->next == NEXT_SMALL) {
        keyed = *request;
        keyed.key = SES_KEY_OPTIMIZED | request->index;
        request = &keyed;
    }
    if (ses_is_atomic(request->opcode))
        take_atomic(ses, arrival, request, payload, len, answer);
    else
        take_rma(ses, arrival, request, payload, len, answer);
}
