/* SPDX-License-Identifier: BSD-2-Clause */
/* Data transfers and completions. */
#include "layers/trace/trace.h"

/* The kind is a constant in each of the tables' functions. */
static inline bool is_atomic(const struct call *call)
{
    return call->kind >= CALL_ATOMIC_WRITE && call->kind <= CALL_ATOMIC_COMPWRITEMSG;
}

static inline bool is_collective(const struct call *call)
{
    return call->kind >= CALL_COLL_BARRIER;
}

/* The count as the function of its own for that collective has it. */
static inline uint64_t count_of(const struct call *call)
{
    bool at_result = call->kind == CALL_COLL_MSG && call->result.count &&
                     (call->coll == FI_SCATTER || !call->count);

    return at_result ? call->result.len : call->len;
}

static inline const void *result_of(const struct call *call)
{
    return call->result.iov ? call->result.iov->addr : call->result.buf;
}

static inline uint64_t elements_of(const struct call *call)
{
    if (is_collective(call))
        return WEFT_TRACE_ELEMENTS(call->datatype, call->op) | (uint64_t)call_collective(call)
                                                                   << 32;
    return is_atomic(call) ? WEFT_TRACE_ELEMENTS(call->datatype, call->op) : 0;
}

/* Inline for certain: a struct call that a function is given a pointer to is built, and first
 * filled with zeros, for each call; one that is not comes to nothing. */
static inline __attribute__((always_inline)) ssize_t call_enter(struct pass_ep *ep,
                                                                struct call *call)
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
    record->len = count_of(call);
    record->peer = call->peer;
    record->tag = call->tag;
    call->note = ring->head;
    trace_ring_publish(ring);
    if (!(call->flags | call->data | call->key) && !is_atomic(call) && !is_collective(call))
        return 0;
    record = trace_begin(ring, object, WEFT_TRACE_MORE, record->time);
    record->context = trace_word(call->context);
    record->buf = call->flags;
    record->len = is_collective(call) ? trace_word(result_of(call)) : call->data;
    record->peer = is_collective(call) ? call->root : call->key;
    record->tag = elements_of(call);
    trace_ring_publish(ring);
    return 0;
}

static inline __attribute__((always_inline)) ssize_t call_leave(struct pass_ep *ep,
                                                                const struct call *call, ssize_t rc)
{
    trace_leave(ep->hook, call->note, rc);
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

static inline void completion_seen(struct pass_cq *cq, const struct completion *completion,
                                   enum completion_way way)
{
    const unsigned kind = way == COMPLETION_WRITTEN ? WEFT_TRACE_WRITTEN : WEFT_TRACE_COMPLETION;
    const struct trace_object *object = cq->hook;
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

#include "core/call_transfers.inc"

#include "core/call_atomics.inc"
#include "core/completions.inc"

static int cq_signal(struct fid_cq *fid)
{
    const struct trace_object *object = trace_of(&fid->fid);
    uint64_t place = trace_enter(object, TRACE_CQ_SIGNAL, &(struct trace_args){0});
    int rc = pass_cq_ops.signal(fid);

    if (object)
        trace_leave(object, place, rc);
    return rc;
}

void trace_data_ops(struct pass_ops *ops)
{
    seen_cq_ops.signal = cq_signal;
    ops->msg = &seen_msg_ops;
    ops->tagged = &seen_tagged_ops;
    ops->rma = &seen_rma_ops;
    ops->atomic = &seen_atomic_ops;
    ops->collective = &seen_collective_ops;
    ops->cq = &seen_cq_ops;
    ops->cq_owner = &seen_cq_owner_ops;
}
