/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as numbers of a trace file's header, as its rings and records: what decodes is linked
 * without a loop and printed in every form.
 * Input: numbers of the header (HEAD bytes, over sound ones where not 0), the number of a ring's
 * head (8 bytes), how many bytes are missing at the end of the file (2), records.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sanitizer/asan_interface.h>

#include <rdma/fabric.h>

#include "tools/trace_print.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    HEAD = offsetof(struct weft_trace_header, host),
    RECORDS = 64
};

static void sound_header(struct weft_trace_header *header)
{
    static const char *const names[] = {
        "fi_tsend",  "fi_trecv",   "peer get_tag", "fi_read",      "fi_inject_write",
        "fi_close",  "fi_atomic",  "fi_allreduce", "fi_control",   "fi_bind",
        "fi_setopt", "fi_cq_open", "fi_join",      "fi_av_insert", "fi_mr_regattr"};

    memcpy(header->magic, WEFT_TRACE_MAGIC, sizeof(header->magic));
    header->version = WEFT_TRACE_VERSION;
    header->record_size = sizeof(struct weft_trace_record);
    header->header_size = sizeof(*header);
    header->ring_size = WEFT_TRACE_RING_HEAD + RECORDS * sizeof(struct weft_trace_record);
    header->rings = 1;
    header->clock = WEFT_TRACE_CLOCK_TSC;
    header->layer_count = 2;
    header->clocks[1].ticks = header->clocks[1].monotonic_ns = 1000;
    strcpy(header->layers[0], "tcp");
    strcpy(header->layers[1], "tcp;<rxm>\"&");
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        strcpy(header->names[i], names[i]);
    header->objects[0].fclass = FI_CLASS_EP;
    header->objects[1].fclass = FI_CLASS_CQ;
    header->objects[2].fclass = FI_CLASS_MR;
}

/* The length of the file, of which `room` bytes are set. */
static size_t make_file(const uint8_t *data, size_t size, uint8_t *file, size_t room)
{
    struct weft_trace_header *header = (struct weft_trace_header *)file;
    struct weft_trace_ring *ring = (struct weft_trace_ring *)(file + sizeof(*header));
    size_t head = size < HEAD ? size : HEAD, records;
    uint16_t missing = 0;

    memset(file, 0, offsetof(struct weft_trace_header, objects));
    memset(ring, 0, room - sizeof(*header));
    sound_header(header);
    for (size_t i = 0; i < head; i++)
        if (data[i])
            file[i] = data[i];
    data += head;
    size -= head;
    ring->capacity = RECORDS;
    ring->head = size / sizeof(struct weft_trace_record);
    if (size >= sizeof(ring->head)) {
        if (data[0])
            memcpy(&ring->head, data, sizeof(ring->head));
        data += sizeof(ring->head);
        size -= sizeof(ring->head);
    }
    if (size >= sizeof(missing)) {
        memcpy(&missing, data, sizeof(missing));
        data += sizeof(missing);
        size -= sizeof(missing);
    }
    records = RECORDS * sizeof(struct weft_trace_record);
    memcpy((uint8_t *)ring + WEFT_TRACE_RING_HEAD, data, size < records ? size : records);
    return room - missing;
}

static void check_links(const struct trace_model *model)
{
    for (int i = 0; i < model->event_count; i++) {
        const struct trace_event *event = &model->events[i];

        must(event->parent < i && event->parent >= TRACE_NONE);
        must(event->ns >= 0);
        must(event->op >= TRACE_NONE && event->op < model->op_count);
        must(event->member_count >= 0 && event->members >= 0 &&
             event->members <= model->member_count - event->member_count);
        must((uint64_t)event->member_count <= event->record.len || !event->member_count);
    }
    for (int i = 0; i < model->op_count; i++) {
        const struct trace_op *op = &model->ops[i];

        must(op->cause != i && op->cause < model->op_count && op->cause >= TRACE_NONE);
        must(op->done == TRACE_NONE || trace_is_completion(&model->events[op->done]));
#ifdef FUZZ_PLANTED
        /* As if an operation of a lower layer could not be one that failed later. */
        must(op->done == TRACE_NONE || model->events[op->done].record.result == 0);
#endif
    }
}

/* One form each time: all of them would be slow. */
static void print(const struct trace_model *model, size_t which, FILE *out)
{
    const struct trace_range all = {0, INT64_MAX};

    switch (which % 5) {
    case 0: trace_print_text(model, all, out); break;
    case 1: trace_print_csv(model, all, out); break;
    case 2: must(trace_print_summary(model, all, out)); break;
    case 3: must(trace_print_json(model, all, out)); break;
    default: must(trace_print_svg(model, all, out));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *nowhere;
    static uint8_t *file;
    const size_t room = sizeof(struct weft_trace_header) + WEFT_TRACE_RING_HEAD +
                        RECORDS * sizeof(struct weft_trace_record);
    struct trace_model model = {0};
    char why[256];
    size_t len;

    if (!file)
        file = calloc(1, room);
    if (!nowhere)
        nowhere = fopen("/dev/null", "we");
    must(file && nowhere);
    len = make_file(data, size, file, room);
    ASAN_POISON_MEMORY_REGION(file + len, room - len);
    if (trace_add(&model, "one", file, len, why, sizeof(why)) &&
        trace_add(&model, "two", file, len, why, sizeof(why))) {
        must(trace_link(&model));
        check_links(&model);
        print(&model, size, nowhere);
    }
    trace_free(&model);
    ASAN_UNPOISON_MEMORY_REGION(file, room);
    return 0;
}
