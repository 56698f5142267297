/* SPDX-License-Identifier: BSD-2-Clause */
/* The trace event format: https://ui.perfetto.dev and chrome://tracing open it. */
#include <ctype.h>
#include <inttypes.h>

#include "trace_print.h"

enum {
    LANES = 64,
    LAYER_TRACK = 1 << 30 /* for events that are no operations; one for each layer */
};

struct writer {
    const struct trace_model *model;
    const struct trace_lanes *lanes;
    FILE *out;
    bool first;
    int flows;
};

static void print_string(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(isprint((unsigned char)*text) ? *text : '_', out);
    }
    fputc('"', out);
}

/* The beginning of an event, up to its name. */
static void begin(struct writer *writer, const char *phase, int file, int tid, const char *name)
{
    fprintf(writer->out,
            "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"name\":", writer->first ? "" : ",", phase,
            file + 1, tid);
    print_string(name, writer->out);
    writer->first = false;
}

static void print_time(struct writer *writer, int64_t ns)
{
    fprintf(writer->out, ",\"ts\":%.3f", (double)ns / 1000);
}

static int tid_of(const struct trace_lanes *lanes, int op)
{
    return lanes->track[op] * LANES + lanes->lane[op] + 1;
}

static void name_thread(struct writer *writer, int file, int tid, const char *name)
{
    begin(writer, "M", file, tid, "thread_name");
    fputs(",\"args\":{\"name\":", writer->out);
    print_string(name, writer->out);
    fputs("}}", writer->out);
    begin(writer, "M", file, tid, "thread_sort_index");
    fprintf(writer->out, ",\"args\":{\"sort_index\":%d}}", tid);
}

/* Beside the name of the process. */
static void print_losses(struct writer *writer, int file)
{
    if (!trace_incomplete(writer->model, file))
        return;
    begin(writer, "M", file, 0, "process_labels");
    fputs(",\"args\":{\"labels\":\"incomplete", writer->out);
    trace_print_losses(writer->model, file, ", ", writer->out);
    fprintf(writer->out, "\",\"overwritten\":%" PRIu64 "}}", writer->model->files[file]->lost);
}

static void print_tracks(struct writer *writer)
{
    const struct trace_model *model = writer->model;
    char name[160], object[32];

    for (int i = 0; i < model->file_count; i++) {
        const struct weft_trace_header *header = &model->files[i]->header;

        begin(writer, "M", i, 0, "process_name");
        snprintf(name, sizeof(name), "%s %" PRIu32 " on %s", header->program, header->pid,
                 header->host);
        fputs(",\"args\":{\"name\":", writer->out);
        print_string(name, writer->out);
        fputs("}}", writer->out);
        print_losses(writer, i);
        for (uint32_t layer = 0; layer < header->layer_count && layer < WEFT_TRACE_LAYERS;
             layer++) {
            snprintf(name, sizeof(name), "%s: control", header->layers[layer]);
            name_thread(writer, i, LAYER_TRACK + (int)layer, name);
        }
    }
    for (int i = 0; i < writer->lanes->track_count; i++) {
        const struct trace_track *track = &writer->lanes->tracks[i];
        const struct weft_trace_header *header = &model->files[track->file]->header;

        trace_object_name(model, track->file, track->object, object, sizeof(object));
        for (int lane = 0; lane < track->lanes; lane++) {
            snprintf(name, sizeof(name), "%s %s",
                     track->layer < WEFT_TRACE_LAYERS ? header->layers[track->layer] : "?", object);
            name_thread(writer, track->file, i * LANES + lane + 1, name);
        }
    }
}

static void print_arrow(struct writer *writer, const char *what, int from, int64_t from_ns, int to,
                        int64_t to_ns)
{
    const struct trace_lanes *lanes = writer->lanes;

    if (lanes->lane[from] == TRACE_NONE || lanes->lane[to] == TRACE_NONE)
        return;
    begin(writer, "s", lanes->tracks[lanes->track[from]].file, tid_of(lanes, from), what);
    print_time(writer, from_ns);
    fprintf(writer->out, ",\"cat\":\"%s\",\"id\":%d}", what, ++writer->flows);
    begin(writer, "f", lanes->tracks[lanes->track[to]].file, tid_of(lanes, to), what);
    print_time(writer, to_ns);
    fprintf(writer->out, ",\"cat\":\"%s\",\"id\":%d,\"bp\":\"e\"}", what, writer->flows);
}

static void print_op(struct writer *writer, int index)
{
    const struct trace_model *model = writer->model;
    const struct trace_op *op = &model->ops[index];
    const struct trace_event *call = &model->events[op->call];
    const struct weft_trace_record *record = &call->record;

    begin(writer, "X", call->file, tid_of(writer->lanes, index), trace_what(model, call));
    print_time(writer, call->ns);
    fprintf(writer->out,
            ",\"dur\":%.3f,\"args\":{\"len\":%" PRIu64 ",\"peer\":%" PRId64 ",\"tag\":\"0x%" PRIx64
            "\",\"context\":\"0x%" PRIx64 "\",\"completed\":%s",
            (double)(trace_op_end(model, op) - call->ns) / 1000, record->len, (int64_t)record->peer,
            record->tag, record->context, op->done == TRACE_NONE ? "false" : "true");
    if (call->typed && trace_class_of(model, call) == TRACE_COLLECTIVE)
        fprintf(writer->out, ",\"root\":%" PRId64 ",\"datatype\":%u,\"op\":%u", (int64_t)call->key,
                WEFT_TRACE_DATATYPE(call->elements), WEFT_TRACE_OP(call->elements));
    fputs("}}", writer->out);
    if (op->cause != TRACE_NONE)
        print_arrow(writer, "cause", op->cause, call->ns, index, call->ns);
    if (op->arrived != TRACE_NONE)
        print_arrow(writer, "message", index, call->ns, op->arrived,
                    trace_op_end(model, &model->ops[op->arrived]));
}

static void print_members(struct writer *writer, const struct trace_event *event)
{
    if (!event->member_count)
        return;
    fputs(",\"members\":[", writer->out);
    for (int i = 0; i < event->member_count; i++)
        fprintf(writer->out, "%s%" PRIu64, i ? "," : "",
                writer->model->members[event->members + i]);
    fputc(']', writer->out);
}

bool trace_print_json(const struct trace_model *model, struct trace_range range, FILE *out)
{
    struct trace_lanes lanes;
    struct writer writer = {.model = model, .lanes = &lanes, .out = out, .first = true};

    if (!trace_lanes_init(&lanes, model, range))
        return false;
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", out);
    print_tracks(&writer);
    for (int i = 0; i < model->op_count; i++)
        if (lanes.lane[i] != TRACE_NONE)
            print_op(&writer, i);
    for (int i = 0; i < model->event_count; i++) {
        const struct trace_event *event = &model->events[i];

        if (event->op != TRACE_NONE || event->ns < range.from || event->ns > range.to ||
            event->record.kind == WEFT_TRACE_READ || trace_is_address(model, event))
            continue;
        begin(&writer, "i", event->file, LAYER_TRACK + event->record.layer,
              trace_what(model, event));
        print_time(&writer, event->ns);
        fprintf(out, ",\"s\":\"t\",\"args\":{\"object\":%" PRIu32 ",\"result\":%" PRId32,
                event->record.object, event->record.result);
        print_members(&writer, event);
        fputs("}}", out);
    }
    fputs("\n]}\n", out);
    trace_lanes_finish(&lanes);
    return true;
}
