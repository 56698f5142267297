/* SPDX-License-Identifier: BSD-2-Clause */
/* A picture of a time range: a row for each lane of an endpoint, a bar for each operation from its
 * call to its completion, arrows down to the operations that it caused and across to where it
 * arrived. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

#include "trace_print.h"

enum {
    WIDTH = 1180,
    LEFT = 190,
    RIGHT = 20,
    TOP = 46, /* and a line for each file of which records are lost */
    LINE = 14,
    ROW = 26,
    BAR = 18,
    GAP = 14,
    BARS_MAX = 4000
};

struct picture {
    const struct trace_model *model;
    const struct trace_lanes *lanes;
    struct trace_range range;
    FILE *out;
    int *top;         /* of each track */
    int head, height; /* head: where the tracks begin */
};

static void print_xml(const char *text, FILE *out)
{
    for (; *text; text++) {
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        default: fputc(isprint((unsigned char)*text) ? *text : '_', out);
        }
    }
}

static double x_of(const struct picture *picture, int64_t ns)
{
    double span = (double)(picture->range.to - picture->range.from);
    double x = LEFT + (double)(ns - picture->range.from) / span * (WIDTH - LEFT - RIGHT);

    if (x < LEFT)
        return LEFT;
    return x > WIDTH - RIGHT ? WIDTH - RIGHT : x;
}

static int y_of(const struct picture *picture, int op)
{
    return picture->top[picture->lanes->track[op]] + picture->lanes->lane[op] * ROW;
}

/* Tighter than asked for, where nothing is at the ends. */
static void fit_range(struct picture *picture)
{
    const struct trace_model *model = picture->model;
    int64_t from = INT64_MAX, to = INT64_MIN;

    for (int i = 0; i < model->op_count; i++) {
        if (picture->lanes->lane[i] == TRACE_NONE)
            continue;
        int64_t start = model->events[model->ops[i].call].ns;
        int64_t end = trace_op_end(model, &model->ops[i]);

        from = start < from ? start : from;
        to = end > to ? end : to;
    }
    if (from > to) { /* nothing at all */
        picture->range = (struct trace_range){0, 1000};
        return;
    }
    if (from > picture->range.from)
        picture->range.from = from;
    if (to < picture->range.to)
        picture->range.to = to;
    if (picture->range.to <= picture->range.from)
        picture->range.to = picture->range.from + 1000;
    picture->range.to += (picture->range.to - picture->range.from) / 50 + 1;
}

static bool place_tracks(struct picture *picture)
{
    const struct trace_lanes *lanes = picture->lanes;
    int y = picture->head;

    picture->top = calloc((size_t)lanes->track_count + 1, sizeof(int));
    if (!picture->top)
        return false;
    for (int i = 0; i < lanes->track_count; i++) {
        if (i && lanes->tracks[i].file != lanes->tracks[i - 1].file)
            y += GAP;
        picture->top[i] = y;
        y += lanes->tracks[i].lanes * ROW + GAP / 2;
    }
    picture->height = y + 34;
    return true;
}

/* The step of the axis: 1, 2 or 5 times a power of ten, in ns. */
static int64_t axis_step(int64_t span)
{
    int64_t step = 1;

    while (span / step > 10) {
        if (span / step <= 20)
            return step * 2;
        if (span / step <= 50)
            return step * 5;
        step *= 10;
    }
    return step;
}

/* Marked with the times that --text has, and --from takes. */
static void draw_axis(const struct picture *picture)
{
    int64_t from = picture->range.from, to = picture->range.to, step = axis_step(to - from);
    int bottom = picture->height - 28;

    for (int64_t ns = (from + step - 1) / step * step; ns <= to; ns += step) {
        double x = x_of(picture, ns);

        fprintf(picture->out,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" class=\"grid\"/>"
                "<text x=\"%.1f\" y=\"%d\" class=\"axis\">%.*f</text>\n",
                x, picture->head - 8, x, bottom, x, bottom + 14, step % 1000 ? 3 : 0,
                (double)ns / 1000);
    }
    fprintf(picture->out,
            "<text x=\"%d\" y=\"%d\" class=\"axis\">microseconds since the first event</text>\n",
            LEFT + (WIDTH - LEFT - RIGHT) / 2, bottom + 27);
}

static void draw_tracks(const struct picture *picture)
{
    const struct trace_model *model = picture->model;
    char object[32];

    for (int i = 0; i < picture->lanes->track_count; i++) {
        const struct trace_track *track = &picture->lanes->tracks[i];
        const struct weft_trace_header *header = &model->files[track->file]->header;
        int y = picture->top[i];

        fprintf(picture->out, "<rect x=\"0\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"p%d\"/>\n",
                y - 3, WIDTH, track->lanes * ROW + 2, track->file % 2);
        fprintf(picture->out, "<text x=\"6\" y=\"%d\" class=\"track\">", y + 9);
        print_xml(track->layer < WEFT_TRACE_LAYERS ? header->layers[track->layer] : "?",
                  picture->out);
        trace_object_name(model, track->file, track->object, object, sizeof(object));
        fprintf(picture->out,
                "</text><text x=\"6\" y=\"%d\" class=\"sub\">%s, process %" PRIu32 "</text>\n",
                y + 20, object, header->pid);
    }
}

static const char *const class_styles[] = {
    [TRACE_OTHER] = "other",    [TRACE_SEND] = "send",   [TRACE_RECV] = "recv",
    [TRACE_READING] = "rma",    [TRACE_WRITING] = "rma", [TRACE_ATOMIC] = "rma",
    [TRACE_COLLECTIVE] = "rma",
};

/* As much as there is room for. */
static void draw_label(const struct picture *picture, const struct trace_event *call, int64_t ns,
                       double x, int y, double width)
{
    const double letter = 6.3;
    const char *what = trace_what(picture->model, call);
    char text[96];
    int len = snprintf(text, sizeof(text), "%s %" PRIu64 " B, %.2f us", what, call->record.len,
                       (double)ns / 1000);

    if (len * letter > width)
        len = snprintf(text, sizeof(text), "%s", what);
    if (len * letter > width)
        return;
    fprintf(picture->out, "<text x=\"%.1f\" y=\"%d\" class=\"label\">", x + 4, y + 13);
    print_xml(text, picture->out);
    fputs("</text>", picture->out);
}

static void draw_bar(const struct picture *picture, int index)
{
    const struct trace_model *model = picture->model;
    const struct trace_op *op = &model->ops[index];
    const struct trace_event *call = &model->events[op->call];
    int64_t end = trace_op_end(model, op);
    double x = x_of(picture, call->ns), width = x_of(picture, end) - x;
    const char *style = class_styles[trace_class_of(model, call)];
    int y = y_of(picture, index);

    fprintf(picture->out, "<g><title>");
    print_xml(trace_what(model, call), picture->out);
    fprintf(picture->out, " of %" PRIu64 ", tag 0x%" PRIx64 ": %.3f us%s</title>", call->record.len,
            call->record.tag, (double)(end - call->ns) / 1000,
            op->done == TRACE_NONE ? ", no completion" : "");
    fprintf(picture->out,
            "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\" class=\"%s\"/>", x, y,
            width < 2 ? 2 : width, BAR, style);
    draw_label(picture, call, end - call->ns, x, y, width);
    fputs("</g>\n", picture->out);
}

static void draw_arrows(const struct picture *picture, int index)
{
    const struct trace_model *model = picture->model;
    const struct trace_op *op = &model->ops[index];
    const int *lane = picture->lanes->lane;
    double x = x_of(picture, model->events[op->call].ns);
    int y = y_of(picture, index);

    if (op->cause != TRACE_NONE && lane[op->cause] != TRACE_NONE) {
        int from = y_of(picture, op->cause);

        fprintf(picture->out,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" class=\"cause\"/>\n", x,
                from < y ? from + BAR : from, x, from < y ? y : y + BAR);
    }
    if (op->arrived != TRACE_NONE && lane[op->arrived] != TRACE_NONE) {
        double to = x_of(picture, trace_op_end(model, &model->ops[op->arrived]));
        int below = y_of(picture, op->arrived);

        fprintf(picture->out,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" class=\"message\"/>\n", x,
                below > y ? y + BAR : y, to, below > y ? below : below + BAR);
    }
}

static void draw_head(const struct picture *picture)
{
    fprintf(picture->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" font-family=\"sans-serif\">\n",
            WIDTH, picture->height, WIDTH, picture->height);
    fputs("<style>.p0{fill:#f3f6fa}.p1{fill:#faf5ee}.grid{stroke:#d5d9de;stroke-width:1}"
          ".axis{font-size:11px;fill:#555;text-anchor:middle}.track{font-size:12px;fill:#111}"
          ".sub{font-size:10px;fill:#666}.label{font-size:11px;fill:#fff}"
          ".send{fill:#2b6cb0}.recv{fill:#2f855a}.rma{fill:#b7791f}.other{fill:#888}"
          ".cause{stroke:#111;stroke-width:1.2;marker-end:url(#a)}"
          ".message{stroke:#c53030;stroke-width:1.2;stroke-dasharray:5 3;marker-end:url(#b)}"
          ".lost{font-size:11px;fill:#c53030}.key{font-size:11px;fill:#333}</style>\n"
          "<defs>"
          "<marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
          "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#111\"/></marker>"
          "<marker id=\"b\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
          "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#c53030\"/></marker>"
          "</defs>\n",
          picture->out);
    fprintf(picture->out, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", WIDTH,
            picture->height);
    fprintf(picture->out,
            "<text x=\"%d\" y=\"18\" class=\"key\">A bar is an operation, from its call to its "
            "completion: <tspan fill=\"#2b6cb0\">send</tspan>, <tspan fill=\"#2f855a\">receive"
            "</tspan>, <tspan fill=\"#b7791f\">RMA, atomic</tspan>. Black arrow: caused by. "
            "<tspan fill=\"#c53030\">Red arrow: arrived in.</tspan></text>\n",
            LEFT);
}

static void draw_losses(const struct picture *picture)
{
    const struct trace_model *model = picture->model;
    int y = TOP - 8;

    for (int i = 0; i < model->file_count; i++) {
        if (!trace_incomplete(model, i))
            continue;
        fprintf(picture->out, "<text x=\"%d\" y=\"%d\" class=\"lost\">process %" PRIu32, LEFT, y,
                model->files[i]->header.pid);
        trace_print_losses(model, i, ", ", picture->out);
        fputs("</text>\n", picture->out);
        y += LINE;
    }
}

static void draw(const struct picture *picture)
{
    const struct trace_model *model = picture->model;
    int bars = 0;

    draw_head(picture);
    draw_losses(picture);
    draw_tracks(picture);
    draw_axis(picture);
    for (int i = 0; i < model->op_count && bars < BARS_MAX; i++) {
        if (picture->lanes->lane[i] == TRACE_NONE)
            continue;
        draw_bar(picture, i);
        bars++;
    }
    for (int i = 0; i < model->op_count && bars < BARS_MAX; i++)
        if (picture->lanes->lane[i] != TRACE_NONE)
            draw_arrows(picture, i);
    if (bars == BARS_MAX)
        fprintf(picture->out,
                "<text x=\"%d\" y=\"30\" class=\"key\">Only the first %d operations are shown: "
                "choose a shorter range (--from, --to).</text>\n",
                LEFT, BARS_MAX);
    fputs("</svg>\n", picture->out);
}

bool trace_print_svg(const struct trace_model *model, struct trace_range range, FILE *out)
{
    struct trace_lanes lanes;
    struct picture picture = {.model = model, .lanes = &lanes, .range = range, .out = out};
    bool ok;

    if (!trace_lanes_init(&lanes, model, range))
        return false;
    picture.head = TOP;
    for (int i = 0; i < model->file_count; i++)
        picture.head += trace_incomplete(model, i) ? LINE : 0;
    fit_range(&picture);
    ok = place_tracks(&picture);
    if (ok)
        draw(&picture);
    free(picture.top);
    trace_lanes_finish(&lanes);
    return ok;
}
