/* SPDX-License-Identifier: BSD-2-Clause */
/* The operation of a replay for a call of a trace, or why there is none. */
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>

#include "replay_plan.h"

const char *const replay_left_texts[REPLAY_LEFT] = {
    [REPLAY_LEFT_ATOMIC] = "atomics: a trace of version 1 does not hold what they do; record again",
    [REPLAY_LEFT_DATATYPE] = "atomics: of a datatype that is not known here",
    [REPLAY_LEFT_COLLECTIVE] = "collectives: traces before version 3 lack groups; record again",
    [REPLAY_LEFT_MEMBERS] = "collectives: of groups with members whose traces are not given",
    [REPLAY_LEFT_UNEVEN] = "collectives: not all members have done the same before, or they failed",
    [REPLAY_LEFT_PEEK] = "peeks and discards: what they find depends on the moment",
    [REPLAY_LEFT_CANCEL] = "cancels that came too late: their operations had completed",
    [REPLAY_LEFT_PEER] = "receives that a part below took from the one above the hook",
    [REPLAY_LEFT_OTHER] = "transfers of another kind",
};

static bool starts(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

static enum replay_class atomic_class(const char *name)
{
    return starts(name, "fi_fetch")     ? REPLAY_FETCH
           : starts(name, "fi_compare") ? REPLAY_COMPARE
                                        : REPLAY_ATOMIC;
}

unsigned replay_element_size(unsigned datatype)
{
    static const uint8_t sizes[] = {
        [FI_INT8] = 1,
        [FI_UINT8] = 1,
        [FI_INT16] = 2,
        [FI_UINT16] = 2,
        [FI_INT32] = 4,
        [FI_UINT32] = 4,
        [FI_INT64] = 8,
        [FI_UINT64] = 8,
        [FI_FLOAT] = sizeof(float),
        [FI_DOUBLE] = sizeof(double),
        [FI_FLOAT_COMPLEX] = 2 * sizeof(float),
        [FI_DOUBLE_COMPLEX] = 2 * sizeof(double),
        [FI_LONG_DOUBLE] = sizeof(long double),
        [FI_LONG_DOUBLE_COMPLEX] = 2 * sizeof(long double),
        [FI_INT128] = 16,
        [FI_UINT128] = 16,
        [FI_FLOAT16] = 2,
        [FI_BFLOAT16] = 2,
        [FI_FLOAT8_E4M3] = 1,
        [FI_FLOAT8_E5M2] = 1,
    };

    return datatype < sizeof(sizes) ? sizes[datatype] : 0;
}

static enum replay_left read_atomic(const struct trace_event *call, struct replay_op *op)
{
    if (!call->typed)
        return REPLAY_LEFT_ATOMIC;
    op->datatype = (uint16_t)WEFT_TRACE_DATATYPE(call->elements);
    op->atomic_op = (uint16_t)WEFT_TRACE_OP(call->elements);
    op->size = (uint16_t)replay_element_size(op->datatype);
    return op->size ? REPLAY_LEFT : REPLAY_LEFT_DATATYPE;
}

bool replay_is_join(const struct trace_model *model, const struct trace_event *event)
{
    return trace_is_call(event) && !strcmp(trace_call(model, event), "fi_join");
}

/* REPLAY_LEFT: it is one that can be done again. */
static enum replay_left class_of(const struct trace_model *model, const struct trace_event *call,
                                 enum replay_class *class)
{
    switch (trace_class_of(model, call)) {
    case TRACE_SEND: *class = REPLAY_SEND; return REPLAY_LEFT;
    case TRACE_RECV: *class = REPLAY_RECV; return REPLAY_LEFT;
    case TRACE_READING: *class = REPLAY_READ; return REPLAY_LEFT;
    case TRACE_WRITING: *class = REPLAY_WRITE; return REPLAY_LEFT;
    case TRACE_ATOMIC: *class = atomic_class(trace_what(model, call)); return REPLAY_LEFT;
    default: return REPLAY_LEFT_OTHER;
    }
}

enum replay_left replay_form_read(const struct trace_model *model, const struct trace_event *call,
                                  struct replay_op *op)
{
    const char *name = trace_what(model, call);
    enum replay_left left = class_of(model, call, &op->class);

    if (left != REPLAY_LEFT)
        return left;
    if (!starts(name, "fi_"))
        return REPLAY_LEFT_PEER;
    if (op->class == REPLAY_RECV && call->flags & (FI_PEEK | FI_DISCARD))
        return REPLAY_LEFT_PEEK;
    if (replay_is_atomic(op))
        left = read_atomic(call, op);
    op->multi = op->class == REPLAY_RECV && call->flags & FI_MULTI_RECV;
    op->tagged = starts(name, "fi_t");
    op->inject = strstr(name, "inject") != NULL;
    op->data = strstr(name, "data") || call->flags & FI_REMOTE_CQ_DATA;
    op->flags = call->flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);
    return left;
}
