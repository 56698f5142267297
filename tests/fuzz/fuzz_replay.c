/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as the records of two trace files: a plan that is made of them has no index and no size
 * that is not sound.
 * Input: how many records the first file has (1 byte); for each record 16 bytes: kind, result (0 or
 * refused), context, peer, tag, length (2 bytes each but the first two), buffer (4 bytes), flags.
 * With bit 7 of the second byte it is one of groups and collectives.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "tools/replay_plan.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    RECORDS = 64,
    INPUT = 16
};

struct file {
    struct weft_trace_header header;
    union {
        struct weft_trace_ring ring;
        char pad[WEFT_TRACE_RING_HEAD];
    };
    struct weft_trace_record records[RECORDS];
};

static void sound_file(struct file *file)
{
    static const char *const names[] = {
        "fi_tsend",  "fi_trecv",       "fi_write",  "fi_read",         "fi_send",
        "fi_recv",   "fi_tinjectdata", "fi_atomic", "fi_fetch_atomic", "fi_compare_atomicmsg",
        "fi_cancel", "fi_join",        "fi_gather"};
    struct weft_trace_header *header = &file->header;

    memset(header, 0, offsetof(struct weft_trace_header, objects));
    memcpy(header->magic, WEFT_TRACE_MAGIC, sizeof(header->magic));
    header->version = WEFT_TRACE_VERSION;
    header->record_size = sizeof(struct weft_trace_record);
    header->header_size = sizeof(*header);
    header->ring_size = sizeof(*file) - sizeof(*header);
    header->rings = 1;
    header->layer_count = 2;
    strcpy(header->layers[0], "tcp");
    strcpy(header->layers[1], "tcp;ofi_rxm");
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        strcpy(header->names[i], names[i]);
    memset(&file->ring, 0, sizeof(file->ring));
    file->ring.capacity = RECORDS;
}

static uint64_t widened(const uint8_t *bytes)
{
    uint64_t value = (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8;

    return value >= 0xff00 ? UINT64_MAX - (0xffff - value) * 4099 : value;
}

static void put(struct file *file, const uint8_t *input)
{
    static const unsigned kinds[] = {WEFT_TRACE_COMPLETION, WEFT_TRACE_WRITTEN, WEFT_TRACE_MORE};
    struct weft_trace_record *record = &file->records[file->ring.head++ % RECORDS];
    unsigned kind = input[0] % 16;
    uint32_t buf;

    memset(record, 0, sizeof(*record));
    memcpy(&buf, input + 10, sizeof(buf));
    record->kind = (uint16_t)(kind < 13 ? WEFT_TRACE_CALL + kind : kinds[kind - 13]);
    record->layer = input[0] / 16 % 2;
    record->object = input[0] / 32;
    record->time = file->ring.head * 100;
    record->result = input[1] % 8 == 7 ? -FI_ECANCELED : input[1] % 4 == 3 ? -FI_EAGAIN : 0;
    record->inside = input[1] % 4 == 3 ? 0 : (uint32_t)(input[15] & 1 ? FI_RECV : FI_SEND);
    record->inside |= input[15] & 2 ? (uint32_t)FI_MULTI_RECV : 0;
    record->context = input[2] % 4;
    record->peer = widened(input + 4);
    record->tag = widened(input + 6);
    record->len = widened(input + 8);
    record->buf =
        record->kind == WEFT_TRACE_MORE ? (uint64_t)input[14] << 56 | buf : buf * 65537ull;
}

/* Small numbers mostly, so that they meet: a join, its completion, who is in it, a collective. */
static void put_group(struct file *file, const uint8_t *input)
{
    static const unsigned kinds[] = {WEFT_TRACE_CALL + 11, WEFT_TRACE_EVENT, WEFT_TRACE_MORE,
                                     WEFT_TRACE_CALL + 12};
    struct weft_trace_record *record;

    put(file, input);
    record = &file->records[(file->ring.head - 1) % RECORDS];
    record->kind = (uint16_t)kinds[input[0] % 4];
    record->result = 0;
    record->layer = 0;
    record->buf = input[10];
    record->len = widened(input + 8);
    record->inside = record->kind == WEFT_TRACE_EVENT ? FI_JOIN_COMPLETE : 0;
    if (record->kind == WEFT_TRACE_MORE && input[15] & 4)
        record->tag = WEFT_TRACE_ELEMENTS(input[6], input[7]) | (uint64_t)input[14] << 32;
}

static void check_memory(const struct replay_memory *memory)
{
    uint64_t end = 0;

    for (int i = 0; i < memory->count; i++) {
        must(memory->pieces[i].offset >= end);
        end = memory->pieces[i].offset + memory->pieces[i].end - memory->pieces[i].start;
    }
    must(end <= memory->size);
}

static void check_op(const struct replay_plan *plan, const struct replay_process *process,
                     const struct replay_op *op)
{
    must(op->class < REPLAY_CLASSES);
    must(op->ep >= 0 && op->ep < plan->endpoint_count);
    must(op->peer >= REPLAY_ANY && op->peer < plan->endpoint_count);
    must(op->peer != REPLAY_ANY || op->class == REPLAY_RECV || replay_is_collective(op));
    must(op->len <= process->buffers.size && op->offset <= process->buffers.size - op->len);
#ifdef FUZZ_PLANTED
    must(op->class != REPLAY_RECV || op->peer == REPLAY_ANY); /* as if none named its source */
#endif
    if (replay_is_atomic(op))
        must(op->size && op->len % op->size == 0);
    if (op->class == REPLAY_FETCH || op->class == REPLAY_COMPARE)
        must(op->len <= process->operand_len && process->operands <= process->buffers.size &&
             2 * op->len <= process->buffers.size - process->operands);
    if (replay_is_remote(op)) {
        uint64_t target = plan->processes[plan->endpoints[op->peer].process].target.size;

        must(op->len <= target && op->remote <= target - op->len);
    }
}

static void check_collective(const struct replay_process *process, const struct replay_op *op)
{
    const struct replay_group *group;

    must(op->group >= 0 && op->group < process->group_count);
    group = &process->groups[op->group];
    must(op->root >= 0 && (uint32_t)op->root < group->size);
    must(op->ep == group->members[group->rank]);
    must(op->size || op->class == REPLAY_BARRIER);
    must(op->len == 0 || op->len == op->count * op->size ||
         op->len == op->count * op->size * group->size);
    must(op->result_len <= process->buffers.size &&
         op->result <= process->buffers.size - op->result_len);
}

static void check_group(const struct replay_plan *plan, const struct replay_group *group)
{
    must(group->size >= 1 && group->rank < group->size);
    for (uint32_t i = 0; i < group->size; i++)
        must(group->members[i] >= 0 && group->members[i] < plan->endpoint_count);
}

static void check_step(const struct replay_process *process, const struct replay_step *step)
{
    bool joins = step->kind == REPLAY_JOIN || step->kind == REPLAY_JOINED;

    must(step->op >= 0 && step->op < (joins ? process->group_count : process->op_count));
}

static void check_plan(const struct replay_plan *plan)
{
    for (int i = 0; i < plan->process_count; i++) {
        const struct replay_process *process = &plan->processes[i];

        check_memory(&process->buffers);
        check_memory(&process->target);
        for (int n = 0; n < process->group_count; n++)
            check_group(plan, &process->groups[n]);
        for (int n = 0; n < process->op_count; n++) {
            check_op(plan, process, &process->ops[n]);
            if (replay_is_collective(&process->ops[n]))
                check_collective(process, &process->ops[n]);
        }
        must(process->step_count <= RECORDS);
        for (int n = 0; n < process->step_count; n++)
            check_step(process, &process->steps[n]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct replay_plan plan;
    static struct file *files;
    struct trace_model model = {0};
    size_t first;
    char why[256];

    files = files ? files : calloc(2, sizeof(*files));
    must(files != NULL);
    if (size < 1)
        return 0;
    first = data[0];
    data++;
    size--;
    sound_file(&files[0]);
    sound_file(&files[1]);
    for (size_t n = 0; size >= INPUT; n++, data += INPUT, size -= INPUT)
        data[1] & 0x80 ? put_group(&files[n >= first], data) : put(&files[n >= first], data);
    if (trace_add(&model, "one", &files[0], sizeof(files[0]), why, sizeof(why)) &&
        trace_add(&model, "two", &files[1], sizeof(files[1]), why, sizeof(why))) {
        must(trace_link(&model));
        if (replay_plan_make(&model, &plan, why, sizeof(why))) {
            check_plan(&plan);
            replay_plan_free(&plan);
        }
    }
    trace_free(&model);
    return 0;
}
