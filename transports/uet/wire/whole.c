/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/wire/whole.h"

#include "transports/uet/wire/bytes.h"
#include "transports/uet/wire/pds_header.h"
#include "transports/uet/wire/ses_header.h"

enum {
    PAYLOAD_MAX = 8192,
    PAYLOAD_MIN = 1024,
    /* A request of RUD or ROD with a standard header: */
    SES_AT = 12,
    STANDARD = SES_AT + 44,
    FLAGS_AT = SES_AT + 1,
    LENGTH_AT = SES_AT + 40,
};

static bool brings_payload(const struct ses_request *request)
{
    if (ses_is_atomic(request->opcode))
        return !ses_is_compare(request->atomic.opcode) && request->atomic.opcode != AMO_READ;
    return request->opcode != SES_READ && request->opcode != SES_NO_OP;
}

static bool is_payload(const struct ses_request *request, size_t len)
{
    uint8_t ends = request->flags & (SES_SOM | SES_EOM);

    if (!brings_payload(request))
        return !len;
    if (!(ends & SES_SOM))
        return len == request->payload_length;
    if (ends == SES_SOM)
        return len >= PAYLOAD_MIN && len <= PAYLOAD_MAX && !(len & (len - 1));
    return len == (ses_is_rendezvous(request->opcode) ? request->rendezvous.eager_length
                                                      : request->length);
}

/* Is it all that the header of PDS has behind it? */
static bool is_body(uint8_t next, const uint8_t *bytes, size_t len)
{
    struct ses_request request;
    struct ses_response response;
    int size;

    if (next == NEXT_NONE)
        return !len;
    if (next < NEXT_RESPONSE) {
        size = ses_request_get(next, bytes, len, &request);
        return size >= 0 && is_payload(&request, len - (size_t)size);
    }
    size = ses_response_get(next, bytes, len, &response);
    return size >= 0 && len - (size_t)size == response.payload_length;
}

/* A message of one packet, as nearly all that come alone are. */
static bool is_message(const uint8_t *bytes, size_t len)
{
    uint8_t type, opcode;

    if (len < STANDARD)
        return false;
    type = bytes[0] >> 3;
    opcode = bytes[SES_AT] & 0x3f;
    return (type == PDS_RUD || type == PDS_ROD) &&
           ((bytes[0] & 7) << 1 | bytes[1] >> 7) == NEXT_STANDARD &&
           (opcode == SES_SEND || opcode == SES_TAGGED_SEND) &&
           (bytes[FLAGS_AT] & (SES_SOM | SES_EOM)) == (SES_SOM | SES_EOM) &&
           get32(bytes + LENGTH_AT) == len - STANDARD;
}

bool packet_is_whole(const uint8_t *bytes, size_t len, bool short_rudi)
{
    struct pds_header header;
    int size;

    if (is_message(bytes, len))
        return true;
    size = pds_header_get(bytes, len, short_rudi, &header);
    if (size < 0)
        return false;
    if (header.type == PDS_CONTROL)
        return len == (size_t)size || header.next == CONTROL_NEGOTIATION;
    return is_body(header.next, bytes + size, len - (size_t)size);
}
