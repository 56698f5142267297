/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations of this side: their packets, the responses to these, and the data of reads. */
#include <string.h>

#include "transports/uet/ses/ses_impl.h"

static struct ses_op *op_of(struct pds_source *source)
{
    return list_item(source, struct ses_op, source);
}

static bool is_read(const struct ses_op *op)
{
    return op->opcode == SES_READ;
}

static bool is_fetch(const struct ses_op *op)
{
    return op->opcode == SES_FETCHING_ATOMIC || op->opcode == SES_TSEND_FETCH_ATOMIC;
}

/* Its packets are answered each, with all that there is to say. */
static bool is_idempotent(const struct ses_op *op)
{
    return op->target.mode == PDS_MODE_RUDI;
}

/* ---- Start and end ---- */

bool ses_start_op(struct ses *ses, struct ses_op *op)
{
    struct pds_key key = {
        .to = op->target.to,
        .mode = op->target.mode,
        .tclass = op->target.tclass,
        .job = op->target.job,
        .pid = op->target.pid,
    };

    op->number = ids_add(&ses->messages, op);
    if (op->number == IDS_NONE)
        return false;
    op->filled = op->got = op->packets = op->ended = 0;
    memset(&op->defer, 0, sizeof(op->defer));
    op->defer.first = IDS_NONE;
    op->mtu = op->length > SES_LEAST_MTU ? ses_mtu(ses, &op->target.to) : ses->settings.mtu;
    op->lent = 0;
    op->gave_all = op->holds = op->tells = false;
    op->code = RC_OK;
    list_init(&op->link);
    list_init(&op->by_packet);
    list_attach(&op->link, &ses->busy);
    ses->busy_count++;
    pds_submit(ses->pds, &op->source, &key);
    return true;
}

static void end_op(struct ses *ses, struct ses_op *op)
{
    ids_remove(&ses->messages, op->number);
    if (op->defer.first != IDS_NONE)
        ids_remove(&ses->messages, op->defer.first);
    list_detach(&op->link);
    list_detach(&op->by_packet);
    ses->busy_count--;
    if (op->holds)
        pds_release(ses->pds, op->source.pdc);
    if (op->pulls)
        ses_pulled(ses, op);
    else if (op->asks)
        ses_asked(ses, op);
    else
        ses->ops->ended(ses->arg, op, op->code);
    ses_pull_waiting(ses);
}

/* A message was asked for, and has not come. */
static bool waits_for_restart(const struct ses_op *op)
{
    return op->asks && op->code == RC_OK && op->asks->defer.waits;
}

/* A message that failed while other packets of it were under way: these may have made it known
 * again behind the first MSG_ERROR. True: the target is told once more. */
static bool tell_again(struct ses *ses, struct ses_op *op)
{
    const struct pds_key key = op->source.key;

    if (!op->tells)
        return false;
    op->gave_all = false;
    pds_submit(ses->pds, &op->source, &key);
    return true;
}

/* An acknowledgement came without what was asked for. */
static bool lacks_answer(const struct ses_op *op)
{
    return is_read(op) ? op->got < op->length : is_fetch(op) && !op->got && op->length;
}

/* All packets have ended, and what they asked for has come, or will not. */
void ses_settle(struct ses *ses, struct ses_op *op)
{
    if (!op->gave_all || op->ended < op->packets || op->lent)
        return;
    if (op->code == RC_OK && is_read(op) && op->got < op->length && !is_idempotent(op))
        return;
    if (op->code == RC_OK && lacks_answer(op))
        op->code = RC_NULL;
    if (ses_defer_goes_on(ses, op) || waits_for_restart(op) || tell_again(ses, op))
        return;
    end_op(ses, op);
}

void ses_op_fail(struct ses *ses, struct ses_op *op, uint8_t code)
{
    op->code = code;
    end_op(ses, op);
}

/* ---- Packets ---- */

static uint8_t flags_of(const struct ses_op *op, bool first, bool last)
{
    return (uint8_t)((op->flags & (SES_DC | SES_HD)) | (first ? SES_SOM : 0) |
                     (last ? SES_EOM : 0) | (op->target.absolute ? 0 : SES_REL));
}

/* Bytes that its packets carry, or ask for. */
static uint32_t carried(const struct ses_op *op)
{
    return ses_is_rendezvous(op->opcode) ? op->eager : op->length;
}

static void fill_atomic(const struct ses_op *op, struct ses_request *request)
{
    request->atomic.opcode = op->atomic.opcode;
    request->atomic.datatype = op->atomic.datatype;
    request->atomic.control = 0;
    request->atomic.compare = op->atomic.compare;
    request->atomic.swap = op->atomic.swap;
}

static void fill_rendezvous(const struct ses *ses, const struct ses_op *op,
                            struct ses_request *request)
{
    request->rendezvous.eager_length = op->eager;
    request->rendezvous.generation = ses->settings.self.generation;
    request->rendezvous.pid = ses->settings.self.pid;
    request->rendezvous.index = ses->settings.self.index;
    request->rendezvous.offset = 0;
    request->rendezvous.key = ses_pull_key(op);
}

/* Does a header without message id say all of it? */
static uint8_t header_of(const struct ses_op *op)
{
    bool access = op->opcode == SES_WRITE || is_read(op) || op->opcode == SES_ATOMIC ||
                  op->opcode == SES_FETCHING_ATOMIC;

    if (!op->target.brief || op->length > op->mtu || op->length > SES_SMALL_LENGTH ||
        (!access && op->opcode != SES_SEND && op->opcode != SES_TAGGED_SEND))
        return NEXT_STANDARD;
    if (access && op->flags & SES_HD)
        return NEXT_STANDARD;
    return access && op->key >> 12 == SES_KEY_OPTIMIZED >> 12 ? NEXT_SMALL : NEXT_MEDIUM;
}

/* All of it but the extensions that its opcode has not. */
static void fill_request(const struct ses *ses, const struct ses_op *op, uint32_t len,
                         struct ses_request *request)
{
    bool last = op->filled + len == carried(op);

    request->next = header_of(op);
    request->opcode = op->opcode;
    request->version = 0;
    request->flags = flags_of(op, !op->filled, last);
    request->message_id = (uint16_t)op->number;
    request->generation = op->target.generation;
    request->job = op->target.job;
    request->pid = op->target.pid;
    request->index = request->next == NEXT_SMALL ? op->key & SES_KEY_INDEX : op->target.index;
    request->length = op->length;
    request->offset = op->offset;
    request->initiator = ses->settings.self.initiator;
    request->key = op->key;
    request->data = op->data;
    request->payload_length = (uint16_t)len;
    request->message_offset = op->filled;
    if (ses_is_atomic(op->opcode))
        fill_atomic(op, request);
    if (ses_is_deferrable(op->opcode))
        request->offset = ses_defer_tokens(op);
    if (ses_is_rendezvous(op->opcode))
        fill_rendezvous(ses, op, request);
}

static struct list *reads_of(struct ses *ses, struct pds_ref pdc, uint64_t packet)
{
    return &ses->reads[(packet + pdc.id) % SES_READ_BUCKETS];
}

/* Its data comes over the PDC, and names its packet where it has no message id. */
static void await_data(struct ses *ses, struct ses_op *op, const struct pds_packet *packet)
{
    if (!op->holds) {
        pds_hold(ses->pds, op->source.pdc);
        op->holds = true;
    }
    if (!is_read(op) || header_of(op) == NEXT_STANDARD)
        return;
    op->packet = packet->number;
    list_attach(&op->by_packet, reads_of(ses, op->source.pdc, op->packet));
}

/* Compare operands are in the header, and a fetch alone has none. */
static bool has_payload(const struct ses_op *op)
{
    if (ses_is_atomic(op->opcode))
        return !ses_is_compare(op->atomic.opcode) && op->atomic.opcode != AMO_READ;
    return !is_read(op);
}

/* The rest of a message that was refused is not sent: its target is told so, at once and, since
 * packets overtake each other, once more when all of them have ended. */
static void fill_error(struct ses *ses, struct ses_op *op, struct pds_packet *packet)
{
    struct ses_request request;

    fill_request(ses, op, 0, &request);
    request.next = NEXT_STANDARD;
    request.opcode = SES_MSG_ERROR;
    request.flags = flags_of(op, true, true) & (uint8_t) ~(SES_HD | SES_DC);
    request.length = 0;
    packet->next = NEXT_STANDARD;
    packet->header_len = (uint8_t)ses_request_put(&request, packet->header);
    packet->last = true;
    op->tells = op->ended < op->packets && !op->tells && !op->holds;
    op->filled = carried(op);
    op->packets++;
    op->gave_all = true;
    ses->counters.given_up++;
}

/* The target has no receive: the message is cut short. */
static void fill_end(struct ses *ses, struct ses_op *op, struct pds_packet *packet)
{
    struct ses_request request;

    fill_request(ses, op, 0, &request);
    request.flags |= SES_EOM;
    packet->next = NEXT_STANDARD;
    packet->header_len = (uint8_t)ses_request_put(&request, packet->header);
    packet->last = true;
    op->packets++;
    op->gave_all = true;
}

bool ses_fill(void *arg, struct pds_source *source, struct pds_packet *packet)
{
    struct ses *ses = arg;
    struct ses_op *op = op_of(source);
    struct ses_request request;
    uint32_t left, len;

    if (ses_is_reply(source)) {
        ses_fill_reply(source, packet);
        return false;
    }
    if (op->code != RC_OK) {
        fill_error(ses, op, packet);
        return false;
    }
    left = carried(op) - op->filled;
    len = left < op->mtu || ses_is_atomic(op->opcode) ? left : op->mtu;
    if (op->defer.waits) {
        fill_end(ses, op, packet);
        return false;
    }
    if ((is_read(op) || op->asks) && !is_idempotent(op))
        await_data(ses, op, packet);
    fill_request(ses, op, len, &request);
    packet->next = request.next;
    packet->header_len = (uint8_t)ses_request_put(&request, packet->header);
    if (has_payload(op)) {
        packet->iov_count =
            (uint8_t)ses_slice(op->iov, op->iov_count, op->filled, len, packet->iov);
        packet->len = len;
    }
    op->filled += len;
    op->packets++;
    op->gave_all = op->filled == carried(op);
    packet->last = op->gave_all && !op->patient;
    return !op->gave_all;
}

/* ---- Datagrams ---- */

void ses_datagram(struct ses *ses, const struct ses_op *op)
{
    struct ses_request request = {
        .next = NEXT_STANDARD,
        .opcode = SES_DATAGRAM_SEND,
        .flags = flags_of(op, true, true),
        .generation = op->target.generation,
        .job = op->target.job,
        .pid = op->target.pid,
        .index = op->target.index,
        .length = op->length,
        .initiator = ses->settings.self.initiator,
        .data = op->data,
    };
    uint8_t header[SES_HEADER_MAX];
    struct iovec iov[PDS_IOV + 1] = {{header, ses_request_put(&request, header)}};
    size_t count = ses_slice(op->iov, op->iov_count, 0, op->length, iov + 1);

    pds_datagram(ses->pds, &op->target.to, request.next, iov, count + 1);
}

/* ---- Responses ---- */

/* Data on the acknowledgement: results of atomics, short reads. */
static void take_result(struct ses_op *op, uint32_t offset, const uint8_t *data, size_t len)
{
    if (is_fetch(op) && !op->got) {
        ses_scatter(op->result, op->result_count, 0, data, len);
        op->got = (uint32_t)len;
    } else if (is_read(op) && offset <= op->length && len <= op->length - offset &&
               len <= op->length - op->got) {
        ses_scatter(op->iov, op->iov_count, offset, data, len);
        op->got += (uint32_t)len;
    }
}

static uint8_t take_response(struct ses *ses, struct ses_op *op, const struct pds_result *result)
{
    struct ses_response response;
    int size;

    if (result->next == NEXT_NONE)
        return RC_OK;
    size = ses_response_get(result->next, result->response, result->len, &response);
    if (size < 0)
        return RC_NULL;
    if (response.opcode == SES_DEFAULT_RESPONSE && response.code == RC_NULL)
        return RC_OK;
    if (ses_is_deferrable(op->opcode) && response.code == RC_OK && response.list == SES_OVERFLOW &&
        response.modified_length < op->length)
        ses_defer(ses, op);
    if (response.code == RC_OK && response.next != NEXT_RESPONSE)
        take_result(op, response.next == NEXT_RESPONSE_DATA ? response.message_offset : 0,
                    result->response + size, result->len - (size_t)size);
    return response.code;
}

void ses_done(void *arg, const struct pds_packet *packet, const struct pds_result *result)
{
    struct ses *ses = arg;
    struct ses_op *op = op_of(packet->source);
    uint8_t code;

    if (ses_is_reply(packet->source)) {
        ses_end_reply(ses, packet->source);
        return;
    }
    code = result->code == RC_OK ? take_response(ses, op, result) : (uint8_t)result->code;
    if (code != RC_OK && op->code == RC_OK)
        op->code = code;
    op->tells &= result->code == RC_OK;
    op->ended++;
    /* Its target keeps nothing, and need not hear that the rest will not come. */
    if (op->code != RC_OK && is_idempotent(op)) {
        pds_withdraw(&op->source);
        op->gave_all = true;
    }
    ses_settle(ses, op);
}

void ses_failed(void *arg, struct pds_source *source)
{
    struct ses *ses = arg;
    struct ses_op *op = op_of(source);

    if (ses_is_reply(source)) {
        ses_end_reply(ses, source);
        return;
    }
    if (op->code == RC_OK)
        op->code = RC_UNDELIVERABLE;
    op->gave_all = true;
    op->tells = false;
    ses_settle(ses, op);
}

static struct ses_op *waiting_for(struct ses *ses, struct pds_ref pdc)
{
    list_for_each (pos, &ses->busy) {
        struct ses_op *op = list_item(pos, struct ses_op, link);

        if (op->holds && op->source.pdc.id == pdc.id && op->source.pdc.generation == pdc.generation)
            return op;
    }
    return NULL;
}

void ses_out_closed(struct ses *ses, struct pds_ref pdc)
{
    struct ses_op *op;

    while ((op = waiting_for(ses, pdc))) {
        op->holds = false;
        if (op->code == RC_OK)
            op->code = RC_UNDELIVERABLE;
        ses_settle(ses, op);
    }
}

/* ---- Data of reads ---- */

/* The read whose packet has that PSN, and whose data has not come; NULL: there is none. */
static struct ses_op *read_of(struct ses *ses, struct pds_ref pdc, uint32_t psn)
{
    uint64_t packet;

    if (!pds_number(ses->pds, pdc, psn, &packet))
        return NULL;
    list_for_each (pos, reads_of(ses, pdc, packet)) {
        struct ses_op *op = list_item(pos, struct ses_op, by_packet);

        if (op->packet == packet && op->source.pdc.id == pdc.id &&
            op->source.pdc.generation == pdc.generation)
            return op->got < op->length ? op : NULL;
    }
    return NULL;
}

void ses_take_data(struct ses *ses, const struct pds_arrival *arrival, struct pds_answer *answer)
{
    struct ses_response response;
    int size = ses_response_get(arrival->next, arrival->bytes, arrival->len, &response);
    struct ses_op *op;
    size_t len;

    answer->next = NEXT_NONE;
    ses->counters.ignored++;
    if (size < 0 || !arrival->returned)
        return;
    len = arrival->len - (size_t)size;
    op = response.next == NEXT_RESPONSE_DATA_SMALL
             ? read_of(ses, arrival->ticket.pdc, response.request_psn)
             : ids_find(&ses->messages, response.read_message_id);
    if (!op || (void *)op == ses || !is_read(op) ||
        !addr_equal(&op->target.to.sa, &arrival->from.sa) || len != response.payload_length)
        return;
    if (response.message_offset > op->length || len > op->length - response.message_offset ||
        len > op->length - op->got)
        return;
    ses->counters.ignored--;
    ses_scatter(op->iov, op->iov_count, response.message_offset, arrival->bytes + size, len);
    op->got += (uint32_t)len;
    if (response.code != RC_OK && op->code == RC_OK)
        op->code = response.code;
    ses_settle(ses, op);
}
