/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a packet of rxd: what decodes is in bounds, and encodes and decodes to the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layers/rxd/rxd_wire.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_bounds(const struct rxd_record *record, const uint8_t *raw, size_t left)
{
    must(record->payload >= raw && record->len <= left);
    must((size_t)(record->payload - raw) <= left - record->len);
    must(record->place_count <= RXD_PLACES && record->segment_count <= RXD_PLACES);
    must(!(record->segment_count < 2) == !!(record->flags & RXD_SEGMENTS));
    if (record->kind == RXD_MSG || record->kind == RXD_WRITE)
        must(record->len <= record->size);
#ifdef FUZZ_PLANTED
    /* As if the beginning of a message were always shorter than the message. */
    must(record->kind != RXD_MSG || record->len < record->size);
#endif
    must(record->context < RXD_CONTEXTS);
    must(!record->context == !(record->flags & RXD_TO_CONTEXT));
    must(!record->follows == !(record->flags & RXD_FOLLOWED));
    must(record->follows <= record->size && record->len <= UINT64_MAX - record->follows);
    must(!record->follows || record->follows + record->len <= record->size);
    if (record->kind == RXD_DATA || record->kind == RXD_FOLLOW)
        must(record->size + record->len > record->size);
}

static void check_again(struct rxd_record *record, size_t size, bool ordered)
{
    struct fi_rma_iov segments[RXD_PLACES], its[RXD_PLACES];
    uint8_t *bytes = malloc(size);
    struct rxd_record again;
    size_t again_size;

    must(bytes != NULL);
    must(rxd_record_size(record) + record->len == size);
    rxd_segments(record, segments);
    record->segments = segments;
    must(rxd_record_put(record, bytes) == bytes + size - record->len);
    if (record->len)
        memcpy(bytes + size - record->len, record->payload, record->len);
    must(!rxd_record_get(bytes, size, ordered, &again, &again_size) && again_size == size);
    must(again.kind == record->kind && again.flags == record->flags && again.id == record->id);
    must(again.size == record->size && again.tag == record->tag && again.data == record->data);
    must(again.taker == record->taker && again.len == record->len);
    must(again.context == record->context && again.follows == record->follows);
    must(!memcmp(again.places, record->places, again.place_count * sizeof(again.places[0])));
    rxd_segments(&again, its);
    must(again.segment_count == record->segment_count);
    must(!memcmp(its, segments, again.segment_count * sizeof(its[0])));
    /* Cut short anywhere it is refused. */
    for (size_t i = 0; i < size; i += 1 + size / 64)
        must(rxd_record_get(bytes, i, ordered, &again, &again_size) != NULL);
    free(bytes);
}

static void check_head(const struct rxd_head *head)
{
    uint8_t raw[RXD_HEAD_SIZE + RXD_INTRO_OWN + ADDR_OWN_MAX];
    struct rxd_head again = {0};

    must(head->number || head->flags & RXD_INTRO);
    rxd_head_put(head, raw);
    must(!rxd_head_get(raw, rxd_head_size(head), &again));
    must(again.number == head->number && again.sequence == head->sequence);
    must(again.ack == head->ack && again.flags == head->flags);
    if (!(head->flags & RXD_INTRO))
        return;
    must(head->life && (head->view || head->flags <= (RXD_INTRO | RXD_ORDERED)));
    must(again.life == head->life && again.view == head->view && again.giving == head->giving);
    must(again.unasked == head->unasked && again.abilities == head->abilities);
    must(rxd_name_equal(&again.name, &head->name));
}

/* A packet that is known by its first part is what its records say. */
static void check_lone(const uint8_t *raw, size_t size)
{
    struct rxd_record lone, record;
    size_t len;

    if (!rxd_bytes_get(raw, size, size, &lone))
        return;
    must(!rxd_record_get(raw + RXD_HEAD_SIZE, size - RXD_HEAD_SIZE, raw[3], &record, &len));
    must(len == size - RXD_HEAD_SIZE);
    must(record.kind == lone.kind && record.flags == lone.flags && record.id == lone.id);
    must(record.size == lone.size && record.len == lone.len);
}

/* The same of one that begins with a message. */
static void check_led(const uint8_t *raw, size_t size)
{
    struct rxd_record led, record;
    size_t before = rxd_led_bytes_get(raw, size, size, &led), len;

    if (!before)
        return;
    must(!rxd_record_get(raw + RXD_HEAD_SIZE, size - RXD_HEAD_SIZE, true, &record, &len));
    must(record.kind == RXD_MSG && record.follows && before == RXD_HEAD_SIZE + len);
    must(!rxd_record_get(raw + before, size - before, true, &record, &len));
    must(len == size - before && record.kind == led.kind && record.flags == led.flags);
    must(record.id == led.id && record.size == led.size && record.len == led.len);
}

static void check(const uint8_t *raw, size_t size)
{
    struct rxd_head head = {0};
    bool ordered;

    if (rxd_head_get(raw, size, &head))
        return;
    check_head(&head);
    check_lone(raw, size);
    check_led(raw, size);
    ordered = head.flags & RXD_ORDERED;
    for (size_t at = rxd_head_size(&head), len; at < size; at += len) {
        struct rxd_record record;

        if (rxd_record_get(raw + at, size - at, ordered, &record, &len))
            return;
        must(len > 0 && len <= size - at);
        check_bounds(&record, raw + at, size - at);
        check_again(&record, len, ordered);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy, so that a read past the end is seen. */
    uint8_t *copy = calloc(1, size ? size : 1);

    must(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    check(copy, size);
    /* Behind the right beginning, or few would get any further. */
    if (size >= 3) {
        copy[0] = 'W';
        copy[1] = 'x';
        copy[2] = RXD_VERSION;
        check(copy, size);
    }
    free(copy);
    return 0;
}
