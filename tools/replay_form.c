/* SPDX-License-Identifier: BSD-2-Clause */
/* What a call of a trace is as an operation of a replay, or why it cannot be one. */
#include <string.h>

#include <rdma/fabric.h>

#include "replay_plan.h"

const char *const replay_left_texts[REPLAY_LEFT] = {
    [REPLAY_LEFT_ATOMIC] = "atomics: a trace does not hold their operators and datatypes",
    [REPLAY_LEFT_COLLECTIVE] = "collectives: a trace does not hold who is in their groups",
    [REPLAY_LEFT_PEEK] = "peeks and discards: what they find depends on the moment",
    [REPLAY_LEFT_PEER] = "receives that a part below took from the one above the hook",
    [REPLAY_LEFT_OTHER] = "transfers of another kind",
};

static bool starts(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
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
    case TRACE_ATOMIC: return REPLAY_LEFT_ATOMIC;
    case TRACE_COLLECTIVE: return REPLAY_LEFT_COLLECTIVE;
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
    op->tagged = starts(name, "fi_t");
    op->inject = strstr(name, "inject") != NULL;
    op->data = strstr(name, "data") || call->flags & FI_REMOTE_CQ_DATA;
    op->flags = call->flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);
    return REPLAY_LEFT;
}
