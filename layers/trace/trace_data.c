/* SPDX-License-Identifier: BSD-2-Clause */
/* Data transfers and completions. */
#include "layers/trace/trace.h"

/* The count as the function of its own for that collective has it. */
static inline uint64_t count_of(const struct op *op)
{
    bool at_result = op->call == OP_COLLECTIVE_MSG && op->result.count &&
                     (op->collective == FI_SCATTER || !op->count);

    return at_result ? op_operand_len(&op->result) : op->len;
}

static inline const void *result_of(const struct op *op)
{
    return op->result.count ? op->result.ioc->addr : NULL;
}

/* Remote address, or tag. */
static inline uint64_t tag_of(const struct op *op)
{
    if (op->group & OP_GROUP_TAGGED)
        return op->tag;
    if (op->group == OP_GROUP_RMA)
        return op->rma_count ? op->rma->addr : 0;
    return op->group == OP_GROUP_ATOMIC && op->rma_count ? op->rma_ioc->addr : 0;
}

/* Remote key, or bits to ignore. */
static inline uint64_t key_of(const struct op *op)
{
    if (op->group & OP_GROUP_TAGGED)
        return op->ignore;
    if (op->group == OP_GROUP_RMA)
        return op->rma_count ? op->rma->key : 0;
    return op->group == OP_GROUP_ATOMIC && op->rma_count ? op->rma_ioc->key : 0;
}

/* A second record for fields that do not fit into the call's own, if it has any. */
static inline void record_more(struct trace_ring *ring, const struct trace_object *object,
                               const struct op *op, uint64_t time)
{
    bool collective = op->group == OP_GROUP_COLLECTIVE, atomic = op->group == OP_GROUP_ATOMIC;
    uint64_t flags = op_call_flags(op), key = key_of(op), elements = 0;
    struct weft_trace_record *record;

    if (!(flags | op->data | key) && !atomic && !collective)
        return;
    if (atomic || collective)
        elements = WEFT_TRACE_ELEMENTS(op->datatype, op->op);
    if (collective)
        elements |= (uint64_t)op->collective << 32;
    record = trace_begin(ring, object, WEFT_TRACE_MORE, time);
    record->context = trace_word(op->context);
    record->buf = flags;
    record->len = collective ? trace_word(result_of(op)) : op->data;
    record->peer = collective ? op->root : key;
    record->tag = elements;
    trace_ring_publish(ring);
}

static ssize_t trace_post(struct ep *base, struct op *op)
{
    const struct trace_object *object = hook_ep_of(base)->own;
    struct trace_ring *ring = object ? trace_ring_of(object->file) : NULL;
    struct weft_trace_record *record;
    uint64_t place, time;
    ssize_t rc;

    if (!ring)
        return hook_post(base, op);
    record = trace_begin(ring, object, WEFT_TRACE_CALL + op->call, trace_ticks(ring->tsc));
    record->result = WEFT_TRACE_PENDING;
    record->context = trace_word(op->context);
    record->buf = trace_word(op_buf(op));
    record->len = count_of(op);
    record->peer = op->peer;
    record->tag = tag_of(op);
    time = record->time;
    place = ring->head;
    trace_ring_publish(ring);
    record_more(ring, object, op, time);
    rc = hook_post(base, op);
    trace_leave(object, place, rc);
    return rc;
}

enum {
    LOOK_AT_CLOCK = 1 << 16 /* after so many empty reads: a program may do nothing else */
};

/* Several threads may read one queue: their counts may get lost, but nothing else. */
static inline void count_empty(struct trace_object *object)
{
    uint64_t count = __atomic_load_n(&object->empty_reads, __ATOMIC_RELAXED) + 1;
    struct trace_ring *ring;

    __atomic_store_n(&object->empty_reads, count, __ATOMIC_RELAXED);
    if (__builtin_expect(count % LOOK_AT_CLOCK, 1))
        return;
    ring = trace_ring_of(object->file);
    if (ring)
        trace_ring_clock(ring, trace_ticks(ring->tsc));
}

/* One entry at the first try says all of its read. */
static void reading_seen(struct hook_cq *cq, ssize_t rc)
{
    struct trace_object *object = cq->own;
    struct weft_trace_record *record;
    struct trace_ring *ring;
    uint64_t empty;

    if (!object)
        return;
    if (rc == -FI_EAGAIN || !rc) {
        count_empty(object);
        return;
    }
    ring = trace_ring_of(object->file);
    if (!ring)
        return;
    ring->read_time = trace_ticks(ring->tsc);
    trace_ring_clock(ring, ring->read_time);
    empty = __atomic_load_n(&object->empty_reads, __ATOMIC_RELAXED);
    if (rc == 1 && !empty)
        return;
    __atomic_store_n(&object->empty_reads, 0, __ATOMIC_RELAXED);
    record = trace_begin(ring, object, WEFT_TRACE_READ, ring->read_time);
    record->result = (int32_t)rc;
    record->inside = rc > 0 ? (uint32_t)rc : 0;
    record->context = record->buf = record->peer = record->tag = 0;
    record->len = empty;
    trace_ring_publish(ring);
}

static void completion_seen(struct hook_cq *cq, const struct completion *completion,
                            enum completion_way way)
{
    const unsigned kind = way == COMPLETION_WRITTEN ? WEFT_TRACE_WRITTEN : WEFT_TRACE_COMPLETION;
    const struct trace_object *object = cq->own;
    struct trace_ring *ring = object ? trace_ring_of(object->file) : NULL;
    struct weft_trace_record *record;
    uint64_t now;

    if (!ring)
        return;
    now = way == COMPLETION_READ ? ring->read_time : trace_ticks(ring->tsc);
    if (way == COMPLETION_WRITTEN)
        trace_ring_clock(ring, now);
    record = trace_begin(ring, object, kind, now);
    record->result = -completion->err;
    record->inside = (uint32_t)completion->flags;
    record->context = trace_word(completion->context);
    record->buf = trace_word(completion->buf);
    record->len = completion->len;
    record->peer = completion->src;
    record->tag = completion->tag;
    trace_ring_publish(ring);
    if (__builtin_expect(object->log, 0))
        trace_log(object, ring, ring->head - 1);
    if (!completion->data)
        return;
    record = trace_begin(ring, object, WEFT_TRACE_MORE, record->time);
    record->context = trace_word(completion->context);
    record->buf = completion->flags;
    record->len = completion->data;
    record->peer = record->tag = 0;
    trace_ring_publish(ring);
}

static int cq_signal(struct fid_cq *fid)
{
    const struct trace_object *object = trace_of(&fid->fid);
    uint64_t place = trace_enter(object, TRACE_CQ_SIGNAL, &(struct trace_args){0});
    int rc = hook_cq_ops.signal(fid);

    if (object)
        trace_leave(object, place, rc);
    return rc;
}

static struct fi_ops_cq cq_ops = {.size = sizeof(cq_ops), .signal = cq_signal};

void trace_data_ops(struct hook_ops *ops)
{
    ops->cq = &cq_ops;
    ops->post = trace_post;
    ops->completed = completion_seen;
    ops->cq_read = reading_seen;
}
