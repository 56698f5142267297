/* SPDX-License-Identifier: BSD-2-Clause */
/* Records as text, one line each, as upstream's hook of the name has them: the arguments by name.
 */
#include <inttypes.h>
#include <stdio.h>

#include <rdma/fi_eq.h>

#include "core/base/log.h"
#include "layers/trace/trace.h"

enum {
    LINE = 512
};

static enum fi_log_subsys subsys_of(unsigned call)
{
    if (call < OP_CALLS)
        return FI_LOG_EP_DATA;
    switch (call) {
    case TRACE_DOMAIN:
    case TRACE_PASSIVE_EP: return FI_LOG_FABRIC;
    case TRACE_EQ_OPEN: return FI_LOG_EQ;
    case TRACE_CQ_OPEN: return FI_LOG_CQ;
    case TRACE_AV_OPEN:
    case TRACE_AV_INSERT:
    case TRACE_AV_INSERTSVC:
    case TRACE_AV_INSERTSYM:
    case TRACE_AV_REMOVE:
    case TRACE_AV_SET:
    case TRACE_SET_UNION:
    case TRACE_SET_INTERSECT:
    case TRACE_SET_DIFF:
    case TRACE_SET_INSERT:
    case TRACE_SET_REMOVE:
    case TRACE_SET_ADDR: return FI_LOG_AV;
    case TRACE_MR_REG:
    case TRACE_MR_REGV:
    case TRACE_MR_REGATTR: return FI_LOG_MR;
    case TRACE_CNTR_OPEN:
    case TRACE_CNTR_ADD:
    case TRACE_CNTR_SET:
    case TRACE_CNTR_ADDERR:
    case TRACE_CNTR_SETERR:
    case TRACE_CNTR_WAIT: return FI_LOG_CNTR;
    default: return FI_LOG_EP_CTRL;
    }
}

struct text {
    char line[LINE];
    size_t len;
};

static void put(struct text *text, const char *name, uint64_t value)
{
    int len = snprintf(text->line + text->len, LINE - text->len, " %s 0x%" PRIx64, name, value);

    if (len > 0 && (size_t)len < LINE - text->len)
        text->len += (size_t)len;
}

static void put_number(struct text *text, const char *name, int64_t value)
{
    int len = snprintf(text->line + text->len, LINE - text->len, " %s %" PRId64, name, value);

    if (len > 0 && (size_t)len < LINE - text->len)
        text->len += (size_t)len;
}

/* The flags, data and key of a transfer are in the record behind its own, if it has any. */
static void put_more(struct text *text, unsigned call, const struct trace_ring *ring,
                     uint64_t place)
{
    const struct weft_trace_record *more = &ring->records[(place + 1) & ring->mask];

    if (place + 1 >= ring->head || more->kind != WEFT_TRACE_MORE)
        return;
    put(text, "flags", more->buf);
    put(text, call < OP_BARRIER ? "data" : "result", more->len);
    put(text, call < OP_BARRIER ? "key" : "root", more->peer);
}

static void put_transfer(struct text *text, unsigned call, const struct weft_trace_record *record)
{
    put(text, "buf", record->buf);
    put_number(text, "len", (int64_t)record->len);
    put_number(text, "addr", (int64_t)record->peer);
    put(text, call < OP_READ || call >= OP_BARRIER ? "tag" : "raddr", record->tag);
    put(text, "context", record->context);
}

/* The records of other objects are in trace_control.c and trace_objects.c. */
static void put_control(struct text *text, const struct weft_trace_record *record)
{
    if (record->len)
        put_number(text, "len", (int64_t)record->len);
    if (record->peer && record->peer != FI_ADDR_NOTAVAIL)
        put_number(text, "addr", (int64_t)record->peer);
    if (record->tag)
        put(text, "value", record->tag);
    if (record->buf)
        put_number(text, "object", WEFT_TRACE_NUMBER(record->buf));
    if (record->context)
        put(text, "context", record->context);
}

static void log_call(const struct trace_object *object, const struct trace_ring *ring,
                     uint64_t place)
{
    const struct weft_trace_record *record = &ring->records[place & ring->mask];
    unsigned call = record->kind - WEFT_TRACE_CALL;
    struct text text = {.len = 0, .line = ""};

    if (call >= TRACE_CALLS || !log_enabled("trace", FI_LOG_TRACE, subsys_of(call)))
        return;
    if (call < OP_CALLS)
        put_transfer(&text, call, record);
    else
        put_control(&text, record);
    if (call < OP_CALLS)
        put_more(&text, call, ring, place);
    log_line("trace", FI_LOG_TRACE, subsys_of(call), trace_call_name(call), 0,
             "layer %u object %u%s = %d", object->layer, object->number, text.line,
             (int)record->result);
}

void trace_log(const struct trace_object *object, const struct trace_ring *ring, uint64_t place)
{
    const struct weft_trace_record *record = &ring->records[place & ring->mask];
    bool event = record->kind == WEFT_TRACE_EVENT;

    if (record->kind >= WEFT_TRACE_CALL) {
        log_call(object, ring, place);
        return;
    }
    if (event && log_enabled("trace", FI_LOG_TRACE, FI_LOG_EQ))
        log_line("trace", FI_LOG_TRACE, FI_LOG_EQ, "event", 0,
                 "layer %u object %u event %u fid 0x%" PRIx64 " = %d", object->layer,
                 object->number, record->inside, record->buf, (int)record->result);
    if (!event && log_enabled("trace", FI_LOG_TRACE, FI_LOG_CQ))
        log_line("trace", FI_LOG_TRACE, FI_LOG_CQ,
                 record->kind == WEFT_TRACE_WRITTEN ? "cq_written" : "cq_entry", 0,
                 "layer %u object %u op_context 0x%" PRIx64 " flags 0x%x len %" PRIu64
                 " buf 0x%" PRIx64 " tag 0x%" PRIx64 " addr %" PRId64 " = %d",
                 object->layer, object->number, record->context, record->inside, record->len,
                 record->buf, record->tag, (int64_t)record->peer, (int)record->result);
}
