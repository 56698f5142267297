/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/wire/ses_header.h"

#include <string.h>

#include "transports/uet/wire/bytes.h"

enum {
    COMMON = 12,
    SMALL = 20,
    MEDIUM = 32,
    STANDARD = 44,
    RENDEZVOUS = 24,
    ATOMIC = 4,
    COMPARE = 36,
    RESPONSE = 12,
    RESPONSE_DATA = 20,
    BITS12 = 0xfff,
    BITS14 = 0x3fff,
    FLAGS = 0x3f,
};

static size_t request_size(uint8_t next)
{
    switch (next) {
    case NEXT_SMALL: return SMALL;
    case NEXT_MEDIUM: return MEDIUM;
    case NEXT_STANDARD: return STANDARD;
    default: return 0;
    }
}

/* ---- Requests in ---- */

static void get_common(const uint8_t *bytes, struct ses_request *request)
{
    request->opcode = bytes[0] & FLAGS;
    request->version = bytes[1] >> 6;
    request->flags = bytes[1] & FLAGS;
    if (request->next == NEXT_STANDARD)
        request->message_id = get16(bytes + 2);
    else
        request->length = get16(bytes + 2) & BITS14;
    request->generation = bytes[4];
    request->job = get24(bytes + 5);
    request->pid = get16(bytes + 8) & BITS12;
    request->index = get16(bytes + 10) & BITS12;
}

static void get_rest(const uint8_t *bytes, struct ses_request *request)
{
    uint64_t first = get64(bytes + 12);

    if (request->next == NEXT_MEDIUM && !ses_medium_has_offset(request->opcode))
        request->data = first;
    else
        request->offset = first;
    if (request->next == NEXT_SMALL)
        return;
    request->initiator = get32(bytes + 20);
    request->key = get64(bytes + 24);
    if (request->next == NEXT_MEDIUM)
        return;
    request->length = get32(bytes + 40);
    if (request->flags & SES_SOM) {
        request->data = get64(bytes + 32);
    } else {
        request->payload_length = get16(bytes + 34) & BITS14;
        request->message_offset = get32(bytes + 36);
    }
}

static void get_rendezvous(const uint8_t *bytes, struct ses_request *request)
{
    uint32_t where = get32(bytes + 4);

    request->rendezvous.eager_length = get32(bytes);
    request->rendezvous.generation = (uint8_t)(where >> 24);
    request->rendezvous.pid = where >> 12 & BITS12;
    request->rendezvous.index = where & BITS12;
    request->rendezvous.offset = get64(bytes + 8);
    request->rendezvous.key = get64(bytes + 16);
}

static int get_atomic(const uint8_t *bytes, size_t len, struct ses_request *request)
{
    if (len < ATOMIC)
        return SES_FAULT_SHORT;
    request->atomic.opcode = bytes[0];
    request->atomic.datatype = bytes[1];
    request->atomic.control = bytes[2];
    if (!ses_is_compare(request->atomic.opcode))
        return ATOMIC;
    if (len < COMPARE)
        return SES_FAULT_SHORT;
    request->atomic.compare = (struct ses_wide){get64(bytes + 4), get64(bytes + 12)};
    request->atomic.swap = (struct ses_wide){get64(bytes + 20), get64(bytes + 28)};
    return COMPARE;
}

static int get_extension(const uint8_t *bytes, size_t len, struct ses_request *request)
{
    if (ses_is_atomic(request->opcode))
        return get_atomic(bytes, len, request);
    if (!ses_is_rendezvous(request->opcode))
        return 0;
    if (request->next != NEXT_STANDARD)
        return SES_FAULT_EXTENSION;
    if (len < RENDEZVOUS)
        return SES_FAULT_SHORT;
    get_rendezvous(bytes, request);
    return RENDEZVOUS;
}

int ses_request_get(uint8_t next, const uint8_t *bytes, size_t len, struct ses_request *request)
{
    size_t size = request_size(next);
    int extension;

    memset(request, 0, sizeof(*request));
    request->next = next;
    if (!size)
        return SES_FAULT_NEXT;
    if (len < size)
        return SES_FAULT_SHORT;
    get_common(bytes, request);
    if (request->version)
        return SES_FAULT_VERSION;
    if (next != NEXT_STANDARD && (request->flags & (SES_SOM | SES_EOM)) != (SES_SOM | SES_EOM))
        return SES_FAULT_FLAGS;
    if (next == NEXT_SMALL && request->flags & SES_HD)
        return SES_FAULT_FLAGS;
    get_rest(bytes, request);
    extension = get_extension(bytes + size, len - size, request);
    return extension < 0 ? extension : (int)size + extension;
}

/* ---- Requests out ---- */

static void put_common(const struct ses_request *request, uint8_t *bytes)
{
    bytes[0] = request->opcode & FLAGS;
    bytes[1] = (uint8_t)(request->version << 6 | (request->flags & FLAGS));
    put16(bytes + 2, request->next == NEXT_STANDARD ? request->message_id
                                                    : (uint16_t)(request->length & BITS14));
    bytes[4] = request->generation;
    put24(bytes + 5, request->job);
    put16(bytes + 8, request->pid & BITS12);
    put16(bytes + 10, request->index & BITS12);
}

static void put_rest(const struct ses_request *request, uint8_t *bytes)
{
    bool has_data = request->next == NEXT_MEDIUM && !ses_medium_has_offset(request->opcode);

    put64(bytes + 12, has_data ? request->data : request->offset);
    if (request->next == NEXT_SMALL)
        return;
    put32(bytes + 20, request->initiator);
    put64(bytes + 24, request->key);
    if (request->next == NEXT_MEDIUM)
        return;
    if (request->flags & SES_SOM) {
        put64(bytes + 32, request->data);
    } else {
        put32(bytes + 32, request->payload_length & BITS14);
        put32(bytes + 36, request->message_offset);
    }
    put32(bytes + 40, request->length);
}

static size_t put_rendezvous(const struct ses_request *request, uint8_t *bytes)
{
    put32(bytes, request->rendezvous.eager_length);
    put32(bytes + 4, (uint32_t)request->rendezvous.generation << 24 |
                         (request->rendezvous.pid & BITS12) << 12 |
                         (request->rendezvous.index & BITS12));
    put64(bytes + 8, request->rendezvous.offset);
    put64(bytes + 16, request->rendezvous.key);
    return RENDEZVOUS;
}

static size_t put_atomic(const struct ses_request *request, uint8_t *bytes)
{
    bytes[0] = request->atomic.opcode;
    bytes[1] = request->atomic.datatype;
    bytes[2] = request->atomic.control;
    bytes[3] = 0;
    if (!ses_is_compare(request->atomic.opcode))
        return ATOMIC;
    put64(bytes + 4, request->atomic.compare.high);
    put64(bytes + 12, request->atomic.compare.low);
    put64(bytes + 20, request->atomic.swap.high);
    put64(bytes + 28, request->atomic.swap.low);
    return COMPARE;
}

size_t ses_request_put(const struct ses_request *request, uint8_t *bytes)
{
    size_t size = request_size(request->next);

    put_common(request, bytes);
    put_rest(request, bytes);
    if (ses_is_atomic(request->opcode))
        return size + put_atomic(request, bytes + size);
    if (ses_is_rendezvous(request->opcode))
        return size + put_rendezvous(request, bytes + size);
    return size;
}

/* ---- Responses ---- */

static void get_response(const uint8_t *bytes, struct ses_response *response)
{
    response->job = get24(bytes + 5);
    switch (response->next) {
    case NEXT_RESPONSE:
        response->message_id = get16(bytes + 2);
        response->generation = bytes[4];
        response->modified_length = get32(bytes + 8);
        break;
    case NEXT_RESPONSE_DATA:
        response->message_id = get16(bytes + 2);
        response->read_message_id = get16(bytes + 8);
        response->payload_length = get16(bytes + 10) & BITS14;
        response->modified_length = get32(bytes + 12);
        response->message_offset = get32(bytes + 16);
        break;
    default:
        response->payload_length = get16(bytes + 2) & BITS14;
        response->request_psn = get32(bytes + 8);
        break;
    }
}

int ses_response_get(uint8_t next, const uint8_t *bytes, size_t len, struct ses_response *response)
{
    size_t size = next == NEXT_RESPONSE_DATA ? RESPONSE_DATA : RESPONSE;

    memset(response, 0, sizeof(*response));
    response->next = next;
    if (next != NEXT_RESPONSE && next != NEXT_RESPONSE_DATA && next != NEXT_RESPONSE_DATA_SMALL)
        return SES_FAULT_NEXT;
    if (len < size)
        return SES_FAULT_SHORT;
    response->list = bytes[0] >> 6;
    response->opcode = bytes[0] & FLAGS;
    response->version = bytes[1] >> 6;
    response->code = bytes[1] & FLAGS;
    if (response->version)
        return SES_FAULT_VERSION;
    get_response(bytes, response);
    return (int)size;
}

size_t ses_response_put(const struct ses_response *response, uint8_t *bytes)
{
    bytes[0] = (uint8_t)(response->list << 6 | (response->opcode & FLAGS));
    bytes[1] = (uint8_t)(response->version << 6 | (response->code & FLAGS));
    bytes[4] = response->next == NEXT_RESPONSE ? response->generation : 0;
    put24(bytes + 5, response->job);
    if (response->next == NEXT_RESPONSE_DATA_SMALL) {
        put16(bytes + 2, response->payload_length & BITS14);
        put32(bytes + 8, response->request_psn);
        return RESPONSE;
    }
    put16(bytes + 2, response->message_id);
    if (response->next == NEXT_RESPONSE) {
        put32(bytes + 8, response->modified_length);
        return RESPONSE;
    }
    put16(bytes + 8, response->read_message_id);
    put16(bytes + 10, response->payload_length & BITS14);
    put32(bytes + 12, response->modified_length);
    put32(bytes + 16, response->message_offset);
    return RESPONSE_DATA;
}
