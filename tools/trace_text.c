/* SPDX-License-Identifier: BSD-2-Clause */
/* One line for each event, in the order of time. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_collective.h>
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
    if (!flags)
        return;
    fputs(", ", out);
    trace_print_flags(flags, out);
}

static void print_elements(uint64_t elements, bool reduced, FILE *out)
{
    enum fi_datatype datatype = (enum fi_datatype)WEFT_TRACE_DATATYPE(elements);
    enum fi_op op = (enum fi_op)WEFT_TRACE_OP(elements);

    fputs(", ", out);
    if (reduced)
        fprintf(out, "%s of ", fi_tostr(&op, FI_TYPE_ATOMIC_OP));
    fputs(fi_tostr(&datatype, FI_TYPE_ATOMIC_TYPE), out);
}

static const char *collective_name(unsigned collective)
{
    static const char *const names[] = {
        [FI_BARRIER] = "barrier",     [FI_BROADCAST] = "broadcast",
        [FI_ALLTOALL] = "alltoall",   [FI_ALLREDUCE] = "allreduce",
        [FI_ALLGATHER] = "allgather", [FI_REDUCE_SCATTER] = "reduce_scatter",
        [FI_REDUCE] = "reduce",       [FI_SCATTER] = "scatter",
        [FI_GATHER] = "gather",
    };

    return collective < sizeof(names) / sizeof(*names) ? names[collective] : "unknown";
}

static void print_collective(const struct trace_event *event, bool named, FILE *out)
{
    const unsigned which = WEFT_TRACE_COLLECTIVE(event->elements);
    bool reduces = which == FI_ALLREDUCE || which == FI_REDUCE_SCATTER || which == FI_REDUCE;

    fprintf(out, "(%s%sgroup 0x%" PRIx64, named ? "" : collective_name(which), named ? "" : ", ",
            event->record.peer);
    if (which != FI_BARRIER) {
        fprintf(out, ", count %" PRIu64 ", buf 0x%" PRIx64, event->record.len, event->record.buf);
        if (which != FI_BROADCAST)
            fprintf(out, ", result 0x%" PRIx64, event->data);
        print_elements(event->elements, reduces, out);
    }
    if (which == FI_BROADCAST || which == FI_REDUCE || which == FI_SCATTER || which == FI_GATHER)
        fprintf(out, ", root %" PRIu64, event->key);
    print_flags(event->flags, out);
    fprintf(out, ", context 0x%" PRIx64 ")", event->record.context);
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
        print_elements(event->elements, true, out);
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

/* The members of a group: "member 1 of 3: 0 1 2". */
static void print_group(const struct trace_model *model, const struct trace_event *event, FILE *out)
{
    fprintf(out,
            "(FI_JOIN_COMPLETE, mc %" PRIu64 ", group 0x%" PRIx64 ", member %" PRIu64 " of %" PRIu64
            ":",
            event->record.tag, event->record.peer, event->flags, event->record.len);
    for (int i = 0; i < event->member_count; i++)
        fprintf(out, " %" PRIu64, model->members[event->members + i]);
    fputs((uint64_t)event->member_count < event->record.len ? " ...)" : ")", out);
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
    } else if (trace_is_joined(event)) {
        print_group(model, event, out);
    } else if (event->record.kind == WEFT_TRACE_EVENT) {
        print_event(event, out);
    } else {
        if (what == TRACE_OTHER || name[0] == 'p')
            trace_print_control(model, event, out);
        else if (what == TRACE_COLLECTIVE && event->typed)
            print_collective(event, strcmp(name, "fi_collective_msg") != 0, out);
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

bool trace_incomplete(const struct trace_model *model, int file)
{
    const struct trace_file_info *info = model->files[file];

    return info->lost || info->truncated || info->header.rings_refused || info->header.rings_reused;
}

void trace_print_losses(const struct trace_model *model, int file, const char *before, FILE *out)
{
    const struct trace_file_info *info = model->files[file];
    const struct weft_trace_header *header = &info->header;

    if (info->lost)
        fprintf(out, "%s%" PRIu64 " older records were overwritten", before, info->lost);
    if (info->truncated)
        fprintf(out, "%srecords of %" PRIu32 " threads are damaged or missing", before,
                info->truncated);
    if (header->rings_refused || header->rings_reused)
        fprintf(out, "%s%" PRIu32 " threads are not in it", before,
                header->rings_refused + header->rings_reused);
}

void trace_print_files(const struct trace_model *model, FILE *out)
{
    for (int i = 0; i < model->file_count; i++) {
        const struct weft_trace_header *header = &model->files[i]->header;

        fprintf(out, "# %s: %s, process %" PRIu32 " on %s, %" PRIu32 " threads",
                model->files[i]->name, header->program, header->pid, header->host, header->rings);
        trace_print_losses(model, i, "; ", out);
        fputc('\n', out);
    }
}

void trace_print_text(const struct trace_model *model, struct trace_range range, FILE *out)
{
    char object[32];

    trace_print_files(model, out);
    fprintf(out, "#%13s %6s  %-24s %-10s\n", "time us", "thread", "layer over", "object");
    for (int i = 0; i < model->event_count; i++) {
        int index = model->order[i];
        const struct trace_event *event = &model->events[index];

        if (!in_range(range, event) || trace_is_address(model, event))
            continue;
        fprintf(
            out, "%14.3f %4d.%-2d %d %-22s %-10s %*s", (double)event->ns / 1000, event->file,
            event->ring, event->record.layer, trace_layer(model, event),
            trace_object_name(model, event->file, trace_object_of(event), object, sizeof(object)),
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

/* Lost records: a row for each file, before the others. len: records. */
static void print_lost_row(const struct trace_model *model, int file, FILE *out)
{
    if (!model->files[file]->lost)
        return;
    fprintf(out,
            "0,%" PRIu32 ",-1,-1,,0,overwritten,0,%" PRIu64
            ",0,0x0,0x0,0x0,0x0,0x0,-1,-1,-1,0x0,0x0,\n",
            model->files[file]->header.pid, model->files[file]->lost);
}

void trace_print_csv(const struct trace_model *model, struct trace_range range, FILE *out)
{
    fputs("ns,process,thread,layer,below,object,what,result,len,peer,tag,context,buf,flags,data,"
          "operation,cause,parent,key,elements,members\n",
          out);
    for (int i = 0; i < model->file_count; i++)
        print_lost_row(model, i, out);
    for (int i = 0; i < model->event_count; i++) {
        int index = model->order[i];
        const struct trace_event *event = &model->events[index];
        const struct weft_trace_record *record = &event->record;
        bool control = trace_is_call(event) && trace_class_of(model, event) == TRACE_OTHER;

        if (!in_range(range, event))
            continue;
        fprintf(out, "%" PRId64 ",%" PRIu32 ",%d,%d,", event->ns,
                model->files[event->file]->header.pid, event->ring, record->layer);
        print_field(trace_layer(model, event), out);
        fprintf(out, "%" PRIu32 ",", record->object);
        print_field(trace_what(model, event), out);
        fprintf(out, "%" PRId32 ",%" PRIu64 ",%" PRId64 ",0x%" PRIx64 ",0x%" PRIx64 ",0x%" PRIx64,
                record->result, record->len, (int64_t)record->peer,
                trace_is_joined(event) ? WEFT_TRACE_NUMBER(record->tag) : record->tag,
                record->context, control ? WEFT_TRACE_NUMBER(record->buf) : record->buf);
        fprintf(out, ",0x%" PRIx64 ",0x%" PRIx64 ",%d,%d,%d",
                trace_is_completion(event) ? record->inside : event->flags, event->data, event->op,
                event->op == TRACE_NONE ? TRACE_NONE : model->ops[event->op].cause, event->parent);
        fprintf(out, ",0x%" PRIx64 ",0x%" PRIx64 ",", event->key, event->elements);
        for (int n = 0; n < event->member_count; n++)
            fprintf(out, "%s%" PRIu64, n ? " " : "", model->members[event->members + n]);
        fputc('\n', out);
    }
}
