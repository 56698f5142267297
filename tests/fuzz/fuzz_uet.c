/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a packet of uet: what is read is in bounds, and written and read again the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transports/uet/wire/address.h"
#include "transports/uet/wire/pds_header.h"
#include "transports/uet/wire/ses_header.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(uint8_t next, const uint8_t *at, size_t len)
{
    struct ses_request request, again;
    uint8_t bytes[SES_HEADER_MAX];
    int size = ses_request_get(next, at, len, &request);

    if (size < 0)
        return;
    must((size_t)size <= len && size <= SES_HEADER_MAX);
    must(ses_request_put(&request, bytes) == (size_t)size);
    must(ses_request_get(next, bytes, (size_t)size, &again) == size);
    must(!memcmp(&request, &again, sizeof(again)));
    must(ses_request_get(next, bytes, (size_t)size - 1, &again) < 0);
#ifdef FUZZ_PLANTED
    /* As if no compare operand were all ones. */
    must(request.atomic.compare.high != UINT64_MAX);
#endif
}

static void check_response(uint8_t next, const uint8_t *at, size_t len)
{
    struct ses_response response, again;
    uint8_t bytes[SES_RESPONSE_MAX];
    int size = ses_response_get(next, at, len, &response);

    if (size < 0)
        return;
    must((size_t)size <= len && size <= SES_RESPONSE_MAX);
    must(ses_response_put(&response, bytes) == (size_t)size);
    must(ses_response_get(next, bytes, (size_t)size, &again) == size);
    must(!memcmp(&response, &again, sizeof(again)));
}

static void check_packet(const uint8_t *data, size_t len, bool short_rudi)
{
    struct pds_header header, again;
    uint8_t bytes[PDS_HEADER_MAX];
    int size = pds_header_get(data, len, short_rudi, &header);

    if (size < 0)
        return;
    must((size_t)size <= len && size <= PDS_HEADER_MAX);
    must(pds_header_put(&header, short_rudi, bytes) == (size_t)size);
    must(pds_header_get(bytes, (size_t)size, short_rudi, &again) == size);
    must(!memcmp(&header, &again, sizeof(again)));
    if (header.type == PDS_CONTROL)
        return;
    check_request(header.next, data + size, len - (size_t)size);
    check_response(header.next, data + size, len - (size_t)size);
}

static void check_address(const uint8_t *data, size_t len)
{
    struct uet_address address, again;
    uint8_t bytes[UET_ADDRESS_SIZE];
    char text[UET_ADDRESS_TEXT];

    if (len < UET_ADDRESS_SIZE || !uet_address_get(data, &address))
        return;
    uet_address_put(&address, bytes);
    must(uet_address_get(bytes, &again) && again.initiator == address.initiator);
    must(uet_address_print(&address, text, sizeof(text)) < sizeof(text));
    must(uet_address_parse(text, &again));
    must(addr_equal(&address.host.sa, &again.host.sa) && address.pid == again.pid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy, so that a read past the end is seen. */
    uint8_t *copy = calloc(1, size ? size : 1);

    must(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    check_packet(copy, size, false);
    check_packet(copy, size, true);
    check_address(copy, size);
    free(copy);
    return 0;
}
