/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a packet of srd: what decodes is in bounds, and encodes and decodes to the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layers/srd/srd_wire.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_bounds(const struct srd_header *header, const uint8_t *raw, size_t size)
{
    if (header->len)
        must(header->payload >= raw && (size_t)(header->payload - raw) + header->len <= size);
    if (header->raw_addr)
        must(header->raw_addr >= raw && header->raw_addr + header->raw_len <= raw + size);
    must(header->place_count <= SRD_PLACES && header->read_count <= SRD_PLACES);
    if (srd_is_message(header->type)) {
        must(header->offset <= header->total);
        must(header->len <= header->total - header->offset);
    }
#ifdef FUZZ_PLANTED
    /* As if the beginning of a message were never all of it. */
    must(header->type != SRD_EAGER_TAG || header->len < header->total || !header->total);
#endif
    if (header->type == SRD_CTSDATA)
        must(header->offset + header->len > header->offset);
}

/* Fields of other releases are not written again. */
static void check_again(const struct srd_header *header)
{
    size_t head = srd_header_size(header), size = head + header->len;
    uint8_t *bytes = malloc(size);
    struct srd_header again;

    must(bytes != NULL);
    must(srd_header_put(header, bytes) == bytes + head);
    if (header->len)
        memcpy(bytes + head, header->payload, header->len);
    must(!srd_header_get(bytes, size, &again));
    must(again.type == header->type && again.connid == header->connid);
    must(again.send_id == header->send_id && again.recv_id == header->recv_id);
    must(again.msg_id == header->msg_id && again.tag == header->tag);
    must(again.total == header->total && again.offset == header->offset);
    must(again.window == header->window && again.len == header->len);
    must(again.runt == header->runt && again.cq_data == header->cq_data);
    must(!memcmp(again.places, header->places, again.place_count * sizeof(again.places[0])));
    must(!memcmp(again.reads, header->reads, again.read_count * sizeof(again.reads[0])));
    for (size_t i = 0; i < head; i++)
        must(srd_header_get(bytes, i, &again) != NULL);
    free(bytes);
}

static void check(const uint8_t *raw, size_t size)
{
    struct srd_header header;

    if (srd_header_get(raw, size, &header))
        return;
    check_bounds(&header, raw, size);
    check_again(&header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy, so that a read past the end is seen. */
    uint8_t *copy = calloc(1, size ? size : 1);

    must(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    check(copy, size);
    /* Behind the right version, or few would get any further. */
    if (size >= 2) {
        copy[1] = SRD_VERSION;
        check(copy, size);
    }
    free(copy);
    return 0;
}
