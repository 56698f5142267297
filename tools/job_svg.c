/* SPDX-License-Identifier: BSD-2-Clause */
/* A job as a picture: for each section what went from which process to which, what each sent and
 * received, and how long operations took by their size. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>

#include "job_print.h"

enum {
    WIDTH = 1180,
    LEFT = 24,
    MAP = 380,  /* one matrix */
    MAPS = 420, /* from one to the next */
    HEAD = 62,  /* of a section */
    ROW = 20,
    LABELS = 190,
    BAR = 12,
    NUMBERS = 12, /* processes up to which cells have theirs */
    NAMES = 40,   /* and up to which they have names */
    BARS = 64,    /* shown */
};

static void print_xml(const char *text, FILE *out)
{
    for (; *text; text++) {
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc(isprint((unsigned char)*text) ? *text : '?', out);
        }
    }
}

static void print_text(double x, double y, const char *class, const char *text, FILE *out)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    print_xml(text, out);
    fputs("</text>\n", out);
}

static uint64_t value_of(const struct job_cell *cell, bool bytes)
{
    return bytes ? cell->bytes : cell->messages;
}

/* 0 to 1: linear hides the small ones among the large. */
static double shade(uint64_t value, uint64_t most)
{
    return most ? log1p((double)value) / log1p((double)most) : 0;
}

static void print_short(const struct job_section *section, int process, double x, double y,
                        const char *class, FILE *out)
{
    const struct job_process *it = &section->processes[process];
    char text[32];

    if (it->rank >= 0)
        snprintf(text, sizeof(text), "%ld", it->rank);
    else
        snprintf(text, sizeof(text), "%" PRIu64, it->pid);
    print_text(x, y, class, text, out);
}

static void draw_cell(const struct job_section *section, int from, int to, bool bytes,
                      uint64_t most, double x, double y, double side, FILE *out)
{
    const struct job_cell *cell = &section->matrix[from * section->count + to];
    const double dark = shade(value_of(cell, bytes), most);
    char text[24];

    if (!cell->messages)
        return;
    fprintf(out, "<g><title>");
    print_xml(section->processes[from].label, out);
    fputs(" to ", out);
    print_xml(section->processes[to].label, out);
    fprintf(out, ": %" PRIu64 " operations, %" PRIu64 " bytes</title>", cell->messages,
            cell->bytes);
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "fill=\"rgb(%.0f,%.0f,%.0f)\"/>",
            x, y, side, side, 230 - 187 * dark, 238 - 130 * dark, 248 - 72 * dark);
    if (section->count <= NUMBERS)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">%s</text>", x + side / 2,
                y + side / 2 + 4, dark > 0.55 ? "in" : "on",
                job_human((double)value_of(cell, bytes), text, sizeof(text)));
    fputs("</g>\n", out);
}

static void draw_map(const struct job_section *section, bool bytes, double left, double top,
                     FILE *out)
{
    const double names = 40, side = (MAP - names) / section->count;
    uint64_t most = 0;

    for (int i = 0; i < section->count * section->count; i++)
        if (value_of(&section->matrix[i], bytes) > most)
            most = value_of(&section->matrix[i], bytes);
    print_text(left, top, "head",
               bytes ? "Bytes, from (row) to (column)" : "Operations, from (row) to (column)", out);
    left += names;
    top += 28;
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"empty\"/>\n",
            left, top, MAP - names, MAP - names);
    for (int from = 0; from < section->count; from++) {
        if (section->count <= NAMES) {
            print_short(section, from, left - 6, top + side * (from + 0.5) + 4, "end", out);
            print_short(section, from, left + side * (from + 0.5), top - 5, "mid", out);
        }
        for (int to = 0; to < section->count; to++)
            draw_cell(section, from, to, bytes, most, left + side * to, top + side * from,
                      side * 0.96, out);
    }
}

static double draw_bar(double x, double y, double width, const char *class, uint64_t value,
                       uint64_t most, FILE *out)
{
    const double len = most ? width * (double)value / (double)most : 0;
    char text[24];

    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"7\" class=\"%s\"/>", x, y,
            len > 0.5 ? len : 0.5, class);
    print_text(x + len + 4, y + 6.5, "tiny", job_human((double)value, text, sizeof(text)), out);
    return y + 8;
}

/* Returns where it ends. */
static double draw_processes(const struct job_section *section, double top, FILE *out)
{
    uint64_t most = 0;

    for (int i = 0; i < section->count; i++) {
        const struct job_process *it = &section->processes[i];

        most = it->sent_bytes > most ? it->sent_bytes : most;
        most = it->received_bytes > most ? it->received_bytes : most;
    }
    fprintf(
        out,
        "<text x=\"%d\" y=\"%.1f\" class=\"head\">Bytes of each process: "
        "<tspan fill=\"#2b6cb0\">sent</tspan>, <tspan fill=\"#2f855a\">received</tspan></text>\n",
        LEFT, top);
    top += 10;
    for (int i = 0; i < section->count && i < BARS; i++, top += ROW) {
        const struct job_process *it = &section->processes[i];
        char text[200];

        snprintf(text, sizeof(text), "%.40s on %.40s", it->label, it->host);
        print_text(LEFT, top + 12, "small", it->rank < 0 ? it->label : text, out);
        draw_bar(LEFT + LABELS, top + 1, WIDTH - LABELS - 120, "send", it->sent_bytes, most, out);
        if (it->knows_received)
            draw_bar(LEFT + LABELS, top + 9, WIDTH - LABELS - 120, "recv", it->received_bytes, most,
                     out);
    }
    if (section->count > BARS) {
        print_text(LEFT, top + 12, "small", "The others are in --json.", out);
        top += ROW;
    }
    return top + ROW;
}

/* ---- Times ---- */

struct axis {
    double least, most; /* powers of ten, us */
};

static double x_of(const struct axis *axis, double ns)
{
    const double width = WIDTH - LEFT - LABELS - 110;
    double at = (log10((ns < 1 ? 1 : ns) / 1000) - axis->least) / (axis->most - axis->least);

    return LEFT + LABELS + width * (at < 0 ? 0 : at > 1 ? 1 : at);
}

static int rows_of(const struct job_section *section, struct axis *axis)
{
    int rows = 0;

    *axis = (struct axis){18, -18};
    for (int n = 0; n < JOB_CLASSES * JOB_BANDS; n++) {
        const struct job_times *times = section->times[n / JOB_BANDS][n % JOB_BANDS];
        double low, high;

        if (!times || !times->count)
            continue;
        low = floor(log10(((double)job_quantile(times, 0) + 1) / 1000));
        high = ceil(log10(((double)job_quantile(times, 1) + 1) / 1000));
        axis->least = low < axis->least ? low : axis->least;
        axis->most = high > axis->most ? high : axis->most;
        rows++;
    }
    if (axis->most <= axis->least)
        axis->most = axis->least + 1;
    return rows;
}

static const char *const styles[JOB_CLASSES] = {"recv", "send", "rma", "rma", "rma", "rma"};

static void draw_time(const struct axis *axis, int class, int band, const struct job_times *times,
                      double y, FILE *out)
{
    const uint64_t p50 = job_quantile(times, 0.5), p99 = job_quantile(times, 0.99);
    const double from = x_of(axis, (double)job_quantile(times, 0)),
                 to = x_of(axis, (double)job_quantile(times, 1));
    char text[160];

    snprintf(text, sizeof(text), "%s, %s bytes", job_class_names[class], job_band_names[band]);
    print_text(LEFT, y + 11, "small", text, out);
    fprintf(out,
            "<g><title>%" PRIu64 " timed: p50 %.2f us, p90 %.2f, p99 %.2f, most %.2f</title>"
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"range\"/>"
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" class=\"%s\"/></g>\n",
            times->count, (double)p50 / 1000, (double)job_quantile(times, 0.9) / 1000,
            (double)p99 / 1000, (double)job_quantile(times, 1) / 1000, from, y + 7.0, to, y + 7.0,
            x_of(axis, (double)p50), y + 1, x_of(axis, (double)p99) - x_of(axis, (double)p50) + 2,
            BAR, styles[class]);
    snprintf(text, sizeof(text), "%.1f / %.1f us", (double)p50 / 1000, (double)p99 / 1000);
    print_text(to + 6, y + 11, "small", text, out);
}

static double draw_times(const struct job_section *section, double top, FILE *out)
{
    struct axis axis;
    const int rows = rows_of(section, &axis);
    double y = top + 12;

    if (!rows)
        return top;
    print_text(LEFT, top, "head",
               "From the call to the completion, by size: a bar from the median to the 99th "
               "percentile, a line from the least to the most",
               out);
    for (int step = 0; axis.least + step <= axis.most; step++) {
        const double power = axis.least + step;
        const double x = x_of(&axis, pow(10, power) * 1000);
        char text[32];

        fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", x,
                y, x, y + rows * ROW);
        snprintf(text, sizeof(text), "%g us", pow(10, power));
        print_text(x, y + rows * ROW + 13, "mid", text, out);
    }
    for (int n = 0; n < JOB_CLASSES * JOB_BANDS; n++) {
        const struct job_times *times = section->times[n / JOB_BANDS][n % JOB_BANDS];

        if (!times || !times->count)
            continue;
        draw_time(&axis, n / JOB_BANDS, n % JOB_BANDS, times, y + 3, out);
        y += ROW;
    }
    return y + 44;
}

/* ---- The page ---- */

static const char *figure_text(double value, char *text, size_t size)
{
    if (value < 1000 && value != floor(value))
        snprintf(text, size, "%.2f", value);
    else
        job_human(value, text, size);
    return text;
}

/* Beside the maps. */
static void draw_extremes(const struct job_section *section, double left, double top, FILE *out)
{
    print_text(left, top, "head", "Of the processes", out);
    print_text(left + 170, top, "end", "least", out);
    print_text(left + 260, top, "end", "most", out);
    for (int figure = 0; figure < JOB_FIGURES; figure++) {
        struct job_extremes it;
        char text[24];

        if (!job_extremes(section, (enum job_figure)figure, &it))
            continue;
        top += ROW;
        print_text(left, top, "small", job_figure_names[figure], out);
        print_text(left + 170, top, "end", figure_text(it.least, text, sizeof(text)), out);
        print_text(left + 260, top, "end", figure_text(it.most, text, sizeof(text)), out);
        if (it.least == it.most)
            continue;
        print_short(section, it.least_at, left + 176, top, "who", out);
        print_short(section, it.most_at, left + 266, top, "who", out);
    }
    print_text(left, top + ROW * 1.5, "who", "grey: the rank, or the process number", out);
}

static double draw_section(const struct job_section *section, double top, FILE *out)
{
    const struct job_process total = job_total(section);
    char text[512], sent[24], bytes[24], received[24];

    print_text(LEFT, top + 24, "title", job_title(section, text, sizeof(text)), out);
    snprintf(text, sizeof(text),
             "%s operations sent with %s bytes, %s bytes received; %" PRIu64 " errors, %" PRIu64
             " calls answered -FI_EAGAIN",
             job_human((double)total.sent, sent, sizeof(sent)),
             job_human((double)total.sent_bytes, bytes, sizeof(bytes)),
             total.knows_received
                 ? job_human((double)total.received_bytes, received, sizeof(received))
                 : "unknown",
             total.errors + total.failed, total.again);
    print_text(LEFT, top + 42, "small", text, out);
    top += HEAD + 8;
    if (job_has_matrix(section)) {
        draw_map(section, true, LEFT, top, out);
        draw_map(section, false, LEFT + MAPS, top, out);
        draw_extremes(section, LEFT + 2 * MAPS - 20, top, out);
        top += MAP + 40;
    } else {
        draw_extremes(section, LEFT, top, out);
        top += ROW * (JOB_FIGURES + 3);
    }
    top = draw_processes(section, top, out);
    return draw_times(section, top, out);
}

static double height_of(const struct job_section *section)
{
    struct axis axis;
    const int bars = section->count > BARS ? BARS + 1 : section->count;
    const int rows = rows_of(section, &axis);

    return HEAD + 8 + (job_has_matrix(section) ? MAP + 40 : ROW * (JOB_FIGURES + 3)) + 10 +
           (bars + 1) * ROW + (rows ? rows * ROW + 56 : 0);
}

void job_print_svg(const struct job *job, FILE *out)
{
    double height = 20, top = 4;

    for (int i = 0; i < job->section_count; i++)
        height += height_of(&job->sections[i]);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" "
            "height=\"%.0f\" font-family=\"sans-serif\">\n",
            WIDTH, height, WIDTH, height);
    fputs("<style>text{fill:#333;font-size:11px}.title{font-size:17px;fill:#111}"
          ".head{font-size:12px;fill:#111}.mid{text-anchor:middle}.end{text-anchor:end}"
          ".tiny{font-size:9px}.who{fill:#999;font-size:10px}.in{fill:#fff;text-anchor:middle}"
          ".on{fill:#111;text-anchor:middle}"
          ".empty{fill:#fafafa;stroke:#d5d9de}.send{fill:#2b6cb0}.recv{fill:#2f855a}"
          ".rma{fill:#b7791f}.grid{stroke:#d5d9de}.range{stroke:#888}</style>\n",
          out);
    fprintf(out, "<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n", WIDTH, height);
    for (int i = 0; i < job->section_count; i++)
        top = draw_section(&job->sections[i], top, out);
    fputs("</svg>\n", out);
}
