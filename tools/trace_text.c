/* SPDX-License-Identifier: BSD-2-Clause */
/* One line for each event, in the order of time. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "trace_print.h"

static bool in_range(struct trace_range range, const struct trace_event *event)
{
    return event->ns >= range.from && event->ns <= range.to;
}

static void print_peer(uint64_t peer, FILE *out)
{
    if (peer == FI_ADDR_UNSPEC)
        fprintf(out, ", peer any");
    else
        fprintf(out, ", peer %" PRIu64, peer);
}

static void print_flags(uint64_t flags, FILE *out)
{
    if (flags)
        fprintf(out, ", %s", fi_tostr(&flags, FI_TYPE_OP_FLAGS));
}

static void print_elements(uint64_t elements, FILE *out)
{
    enum fi_datatype datatype = (enum fi_datatype)WEFT_TRACE_DATATYPE(elements);
    enum fi_op op = (enum fi_op)WEFT_TRACE_OP(elements);

    fprintf(out, ", %s", fi_tostr(&op, FI_TYPE_ATOMIC_OP));
    fprintf(out, " of %s", fi_tostr(&datatype, FI_TYPE_ATOMIC_TYPE));
}

static void print_transfer(enum trace_class what, const struct trace_event *event, FILE *out)
{
    const struct weft_trace_record *record = &event->record;
    bool remote = what == TRACE_READING || what == TRACE_WRITING || what == TRACE_ATOMIC;

    fprintf(out, "(len %" PRIu64 ", buf 0x%" PRIx64, record->len, record->buf);
    print_peer(record->peer, out);
    fprintf(out, ", %s 0x%" PRIx64, remote ? "addr" : "tag", record->tag);
    if (event->more && event->key)
        fprintf(out, ", %s 0x%" PRIx64, remote ? "key" : "ignore", event->key);
    if (event->more && event->data)
        fprintf(out, ", data 0x%" PRIx64, event->data);
    if (event->typed && what == TRACE_ATOMIC)
        print_elements(event->elements, out);
    print_flags(event->flags, out);
    fprintf(out, ", context 0x%" PRIx64 ")", record->context);
}

static void print_result(int32_t result, FILE *out)
{
    if (result == WEFT_TRACE_PENDING)
        fprintf(out, " has not returned");
    else if (result < 0)
        fprintf(out, " = %d (%s)", result, fi_strerror(-result));
    else
        fprintf(out, " = %d", result);
}

static void print_completion(const struct trace_event *event, FILE *out)
{
    const struct weft_trace_record *record = &event->record;
    uint64_t flags = record->inside;

    fprintf(out, "(len %" PRIu64 ", tag 0x%" PRIx64, record->len, record->tag);
    if (record->peer < FI_ADDR_UNSPEC - 1)
        fprintf(out, ", from %" PRIu64, record->peer);
    if (event->more)
        fprintf(out, ", data 0x%" PRIx64, event->data);
    if (flags)
        fprintf(out, ", %s", fi_tostr(&flags, FI_TYPE_CQ_EVENT_FLAGS));
    fprintf(out, ", context 0x%" PRIx64 ")", record->context);
    if (record->result)
        print_result(record->result, out);
}

static void print_event(const struct trace_event *event, FILE *out)
{
    static const char *const names[] = {"FI_NOTIFY",       "FI_CONNREQ",     "FI_CONNECTED",
                                        "FI_SHUTDOWN",     "FI_MR_COMPLETE", "FI_AV_COMPLETE",
                                        "FI_JOIN_COMPLETE"};
    uint32_t number = event->record.inside;

    if (event->record.result)
        fprintf(out, "(error)");
    else if (number < sizeof(names) / sizeof(*names))
        fprintf(out, "(%s)", names[number]);
    else
        fprintf(out, "(%" PRIu32 ")", number);
    if (event->record.result)
        print_result(event->record.result, out);
}

/* Calls of the control path have few arguments, and those differ. */
static void print_control(const struct trace_model *model, const struct trace_event *event,
                          FILE *out)
{
    const struct weft_trace_record *record = &event->record;
    const char *what = trace_what(model, event), *comma = "";
    char object[32];

    fputc('(', out);
    if (record->buf && (record->result >= 0 || !strcmp(what, "fi_bind"))) {
        fputs(trace_object_name(model, event->file, (uint32_t)record->buf, object, sizeof(object)),
              out);
        comma = ", ";
    }
    if (record->len) {
        fprintf(out, "%slen %" PRIu64, comma, record->len);
        comma = ", ";
    }
    if (record->tag) {
        fprintf(out, "%s%s 0x%" PRIx64, comma, strstr(what, "peer") ? "tag" : "flags", record->tag);
        comma = ", ";
    }
    if (record->context)
        fprintf(out, "%scontext 0x%" PRIx64, comma, record->context);
    fputc(')', out);
}

static void print_what(const struct trace_model *model, const struct trace_event *event, FILE *out)
{
    enum trace_class what = trace_class_of(model, event);
    const char *name = trace_what(model, event);

    fputs(name, out);
    if (event->record.kind == WEFT_TRACE_READ) {
        fprintf(out, "() = %d after %" PRIu64 " empty reads", event->record.result,
                event->record.len);
    } else if (trace_is_completion(event)) {
        print_completion(event, out);
    } else if (event->record.kind == WEFT_TRACE_EVENT) {
        print_event(event, out);
    } else {
        if (what == TRACE_OTHER || name[0] == 'p')
            print_control(model, event, out);
        else
            print_transfer(what, event, out);
        print_result(event->record.result, out);
    }
}

static void print_end(const struct trace_model *model, int index, FILE *out)
{
    const struct trace_event *event = &model->events[index];
    const struct trace_op *op = event->op == TRACE_NONE ? NULL : &model->ops[event->op];

    if (op && op->done == index)
        fprintf(out, "  %.3f us after %s", (double)(event->ns - model->events[op->call].ns) / 1000,
                trace_what(model, &model->events[op->call]));
    fputc('\n', out);
}

/* A quick overview of the files stands in front. */
static void print_files(const struct trace_model *model, FILE *out)
{
    for (int i = 0; i < model->file_count; i++) {
        const struct weft_trace_header *header = &model->files[i]->header;

        fprintf(out, "# %s: %s, process %" PRIu32 " on %s, %" PRIu32 " threads",
                model->files[i]->name, header->program, header->pid, header->host, header->rings);
        if (model->files[i]->lost)
            fprintf(out, "; %" PRIu64 " older records were overwritten", model->files[i]->lost);
        if (model->files[i]->truncated)
            fprintf(out, "; %" PRIu32 " rings are damaged or missing", model->files[i]->truncated);
        if (header->rings_refused || header->rings_reused)
            fprintf(out, "; %" PRIu32 " threads are not in it",
                    header->rings_refused + header->rings_reused);
        fputc('\n', out);
    }
}

void trace_print_text(const struct trace_model *model, struct trace_range range, FILE *out)
{
    char object[32];

    print_files(model, out);
    fprintf(out, "#%13s %6s  %-24s %-10s\n", "time us", "thread", "layer over", "object");
    for (int i = 0; i < model->event_count; i++) {
        int index = model->order[i];
        const struct trace_event *event = &model->events[index];

        if (!in_range(range, event))
            continue;
        fprintf(out, "%14.3f %4d.%-2d %d %-22s %-10s %*s", (double)event->ns / 1000, event->file,
                event->ring, event->record.layer, trace_layer(model, event),
                trace_object_name(model, event->file, event->record.object, object, sizeof(object)),
                2 * (event->depth > 20 ? 20 : event->depth), "");
        print_what(model, event, out);
        print_end(model, index, out);
    }
}

/* Names come from files: no commas, quotes or control characters in a field. */
static void print_field(const char *text, FILE *out)
{
    for (; *text; text++)
        fputc(isprint((unsigned char)*text) && !strchr(",\"", *text) ? *text : '_', out);
    fputc(',', out);
}

void trace_print_csv(const struct trace_model *model, struct trace_range range, FILE *out)
{
    fputs("ns,process,thread,layer,below,object,what,result,len,peer,tag,context,buf,flags,data,"
          "operation,cause,parent\n",
          out);
    for (int i = 0; i < model->event_count; i++) {
        int index = model->order[i];
        const struct trace_event *event = &model->events[index];
        const struct weft_trace_record *record = &event->record;

        if (!in_range(range, event))
            continue;
        fprintf(out, "%" PRId64 ",%" PRIu32 ",%d,%d,", event->ns,
                model->files[event->file]->header.pid, event->ring, record->layer);
        print_field(trace_layer(model, event), out);
        fprintf(out, "%" PRIu32 ",", record->object);
        print_field(trace_what(model, event), out);
        fprintf(out, "%" PRId32 ",%" PRIu64 ",%" PRId64 ",0x%" PRIx64 ",0x%" PRIx64 ",0x%" PRIx64,
                record->result, record->len, (int64_t)record->peer, record->tag, record->context,
                record->buf);
        fprintf(out, ",0x%" PRIx64 ",0x%" PRIx64 ",%d,%d,%d\n",
                trace_is_completion(event) ? record->inside : event->flags, event->data, event->op,
                event->op == TRACE_NONE ? TRACE_NONE : model->ops[event->op].cause, event->parent);
    }
}
