/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_trace(1): shows what the layer `trace` has recorded. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "trace_print.h"

static void usage(FILE *out)
{
    fputs("Usage: fi_trace [OPTION]... FILE...\n"
          "Shows what the layer `trace` has recorded; FILEs of several processes as one.\n"
          "\n"
          "  --text          a line for each call, completion and event (the default)\n"
          "  --summary       where the time went: by layer, operation and size\n"
          "  --csv           comma-separated values, a line for each event\n"
          "  --json          for Perfetto (https://ui.perfetto.dev) and chrome://tracing\n"
          "  --svg           a picture\n"
          "  --from=US, --to=US\n"
          "                  only this time, in microseconds from the first event\n"
          "  -o, --output=FILE\n"
          "  -h, --help\n",
          out);
}

static void fail(const char *path)
{
    fprintf(stderr, "fi_trace: %s: %s\n", path, strerror(errno));
    exit(1);
}

static void add(struct trace_model *model, const char *path)
{
    char why[512];

    if (!trace_add_file(model, path, why, sizeof(why))) {
        fprintf(stderr, "fi_trace: %s\n", why);
        exit(1);
    }
}

static int64_t time_of(const char *option, const char *text)
{
    char *end;
    double us = strtod(text, &end);

    if (end == text || *end || !isfinite(us) || us < 0 || us > 1e15) {
        fprintf(stderr, "fi_trace: --%s=%s: a number of microseconds is needed\n", option, text);
        exit(2);
    }
    return (int64_t)(us * 1000);
}

enum form {
    FORM_TEXT,
    FORM_SUMMARY,
    FORM_CSV,
    FORM_JSON,
    FORM_SVG,
    OPTION_FROM,
    OPTION_TO
};

static const struct option options[] = {
    {"text", no_argument, NULL, FORM_TEXT},     {"summary", no_argument, NULL, FORM_SUMMARY},
    {"csv", no_argument, NULL, FORM_CSV},       {"json", no_argument, NULL, FORM_JSON},
    {"svg", no_argument, NULL, FORM_SVG},       {"from", required_argument, NULL, OPTION_FROM},
    {"to", required_argument, NULL, OPTION_TO}, {"output", required_argument, NULL, 'o'},
    {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
};

struct request {
    enum form form;
    struct trace_range range;
    const char *output;
};

static struct request parse(int argc, char **argv)
{
    struct request request = {FORM_TEXT, {0, INT64_MAX}, NULL};
    int option;

    while ((option = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
        switch (option) {
        case OPTION_FROM: request.range.from = time_of("from", optarg); break;
        case OPTION_TO: request.range.to = time_of("to", optarg); break;
        case 'o': request.output = optarg; break;
        case 'h': usage(stdout); exit(0);
        case '?': usage(stderr); exit(2);
        default: request.form = (enum form)option;
        }
    }
    if (optind == argc) {
        usage(stderr);
        exit(2);
    }
    if (request.range.to < request.range.from) {
        fputs("fi_trace: --to is before --from\n", stderr);
        exit(2);
    }
    return request;
}

static bool print(const struct trace_model *model, const struct request *request, FILE *out)
{
    switch (request->form) {
    case FORM_SUMMARY: return trace_print_summary(model, request->range, out);
    case FORM_JSON: return trace_print_json(model, request->range, out);
    case FORM_SVG: return trace_print_svg(model, request->range, out);
    case FORM_CSV: trace_print_csv(model, request->range, out); return true;
    default: trace_print_text(model, request->range, out); return true;
    }
}

/* Text and summary have it in front. */
static void warn(const struct trace_model *model, enum form form)
{
    for (int i = 0; i < model->file_count && form != FORM_TEXT && form != FORM_SUMMARY; i++) {
        if (!trace_incomplete(model, i))
            continue;
        fprintf(stderr, "fi_trace: %s is not complete", model->files[i]->name);
        trace_print_losses(model, i, ": ", stderr);
        fputc('\n', stderr);
    }
}

static bool is_trace(const char *path)
{
    char magic[sizeof(WEFT_TRACE_MAGIC)] = "";
    struct stat info;
    FILE *file;

    if (stat(path, &info) || !S_ISREG(info.st_mode))
        return false;
    file = fopen(path, "re");
    if (!file)
        return false;
    if (fread(magic, 1, sizeof(magic), file) < sizeof(magic))
        magic[0] = 0;
    fclose(file);
    return !memcmp(magic, WEFT_TRACE_MAGIC, sizeof(magic));
}

/* "-o weft-trace.*" is a mistake that no trace should be lost by. */
static FILE *open_output(const char *path)
{
    FILE *out;

    if (is_trace(path)) {
        fprintf(stderr, "fi_trace: %s: it is a trace, and is not written over\n", path);
        exit(1);
    }
    out = fopen(path, "we");
    if (!out)
        fail(path);
    return out;
}

int main(int argc, char **argv)
{
    struct request request = parse(argc, argv);
    struct trace_model model = {0};
    FILE *out = stdout;

    for (int i = optind; i < argc; i++)
        add(&model, argv[i]);
    if (request.output)
        out = open_output(request.output);
    errno = ENOMEM;
    if (!trace_link(&model) || !print(&model, &request, out))
        fail("linking");
    warn(&model, request.form);
    if (out != stdout && (fflush(out) || ferror(out)))
        fail(request.output);
    trace_free(&model);
    return 0;
}
