/* SPDX-License-Identifier: BSD-2-Clause */
/* Data transfers and completions. */
#include "layers/trace/trace.h"

/* The kind is a constant in each of the tables' functions. */
static inline bool has_elements(const struct call *call)
{
    return call->kind >= CALL_ATOMIC_WRITE && call->kind <= CALL_ATOMIC_COMPWRITEMSG;
}

static inline ssize_t call_enter(struct pass_ep *ep, struct call *call)
{
    const struct trace_object *object = ep->hook;
    struct trace_ring *ring = object ? trace_ring_of(object->file) : NULL;
    struct weft_trace_record *record;

    call->note = TRACE_NOWHERE;
    if (!ring)
        return 0;
    record = trace_begin(ring, object, WEFT_TRACE_CALL + call->kind, trace_ticks(ring->tsc));
    record->result = WEFT_TRACE_PENDING;
    record->context = trace_word(call->context);
    record->buf = trace_word(call->buf);
    record->len = call->len;
    record->peer = call->peer;
    record->tag = call->tag;
    call->note = ring->head;
    trace_ring_publish(ring);
    if (!(call->flags | call->data | call->key) && !has_elements(call))
        return 0;
    record = trace_begin(ring, object, WEFT_TRACE_MORE, record->time);
    record->context = trace_word(call->context);
    record->buf = call->flags;
    record->len = call->data;
    record->peer = call->key;
    record->tag = has_elements(call) ? WEFT_TRACE_ELEMENTS(call->datatype, call->op) : 0;
    trace_ring_publish(ring);
    return 0;
}

static inline ssize_t call_leave(struct pass_ep *ep, const struct call *call, ssize_t rc)
{
    const struct trace_object *object = ep->hook;

    if (object)
        trace_leave(object, call->note, rc);
    return rc;
}

/* Several threads may read one queue: their counts may get lost, but nothing else. */
static inline void count_empty(struct trace_object *object)
{
    uint64_t count = __atomic_load_n(&object->empty_reads, __ATOMIC_RELAXED);

    __atomic_store_n(&object->empty_reads, count + 1, __ATOMIC_RELAXED);
}

/* One entry at the first try says all of its read. */
static inline void reading_seen(struct pass_cq *cq, ssize_t rc)
{
    struct trace_object *object = cq->hook;
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

static inline void completion_seen(struct pass_cq *cq, const struct completion *completion,
                                   enum completion_way way)
{
    const unsigned kind = way == COMPLETION_WRITTEN ? WEFT_TRACE_WRITTEN : WEFT_TRACE_COMPLETION;
    const struct trace_object *object = cq->hook;
    struct trace_ring *ring = object ? trace_ring_of(object->file) : NULL;
    struct weft_trace_record *record;

    if (!ring)
        return;
    record = trace_begin(ring, object, kind,
                         way == COMPLETION_READ ? ring->read_time : trace_ticks(ring->tsc));
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

#include "core/call_transfers.inc"

#include "core/call_atomics.inc"
#include "core/completions.inc"

void trace_data_ops(struct pass_ops *ops)
{
    ops->msg = &seen_msg_ops;
    ops->tagged = &seen_tagged_ops;
    ops->rma = &seen_rma_ops;
    ops->atomic = &seen_atomic_ops;
    ops->collective = &seen_collective_ops;
    ops->cq = &seen_cq_ops;
    ops->cq_owner = &seen_cq_owner_ops;
}
