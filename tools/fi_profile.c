/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_profile(1): puts reports of the layer `profile` of all processes of a job together. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "job_print.h"

static void usage(FILE *out)
{
    fputs("Usage: fi_profile [OPTION]... FILE...\n"
          "Puts reports of the layer `profile` (format=json) of all processes of a job together.\n"
          "\n"
          "  --text          to read (the default)\n"
          "  --json          for programs\n"
          "  --svg           a picture\n"
          "  -o, --output=FILE\n"
          "  -h, --help\n",
          out);
}

static void fail(const char *path)
{
    fprintf(stderr, "fi_profile: %s: %s\n", path, strerror(errno));
    exit(1);
}

static void complain(const char *name, int line, const char *why)
{
    fprintf(stderr, "fi_profile: %s:%d: not a whole report: %s\n", name, line, why);
}

/* "-" is standard input. */
static char *read_all(const char *path, size_t *ret_len)
{
    FILE *in = strcmp(path, "-") ? fopen(path, "re") : stdin;
    size_t len = 0, room = 0, more = 1;
    char *text = NULL;

    if (!in)
        fail(path);
    while (more) {
        if (len == room) {
            room = room ? room * 2 : 1 << 16;
            text = realloc(text, room);
            if (!text)
                fail(path);
        }
        more = fread(text + len, 1, room - len, in);
        len += more;
    }
    if (ferror(in))
        fail(path);
    if (in != stdin)
        fclose(in);
    *ret_len = len;
    return text;
}

static void add(struct job *job, const char *path)
{
    int before = job->source_count;
    size_t len;
    char *text = read_all(path, &len);

    if (!job_add(job, path, text, len, complain)) {
        errno = ENOMEM;
        fail(path);
    }
    if (job->source_count == before)
        fprintf(stderr,
                "fi_profile: %s: no new report in it: they are those of profile(format=json)\n",
                path);
    free(text);
}

/* "-o weft-profile.*" is a mistake that no report should be lost by. */
static FILE *open_output(const char *path, char *const *inputs)
{
    struct stat output, input;
    FILE *out;

    for (; *inputs; inputs++) {
        if (stat(path, &output) || stat(*inputs, &input) || output.st_ino != input.st_ino ||
            output.st_dev != input.st_dev)
            continue;
        fprintf(stderr, "fi_profile: %s: it is one of the reports, and is not written over\n",
                path);
        exit(1);
    }
    out = fopen(path, "we");
    if (!out)
        fail(path);
    return out;
}

enum form {
    FORM_TEXT,
    FORM_JSON,
    FORM_SVG
};

static const struct option options[] = {
    {"text", no_argument, NULL, FORM_TEXT}, {"json", no_argument, NULL, FORM_JSON},
    {"svg", no_argument, NULL, FORM_SVG},   {"output", required_argument, NULL, 'o'},
    {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
};

static void print(const struct job *job, enum form form, FILE *out)
{
    switch (form) {
    case FORM_JSON: job_print_json(job, out); break;
    case FORM_SVG: job_print_svg(job, out); break;
    default: job_print_text(job, out);
    }
}

int main(int argc, char **argv)
{
    enum form form = FORM_TEXT;
    const char *output = NULL;
    struct job job = {0};
    FILE *out = stdout;
    int option;

    while ((option = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
        switch (option) {
        case 'o': output = optarg; break;
        case 'h': usage(stdout); return 0;
        case '?': usage(stderr); return 2;
        default: form = (enum form)option;
        }
    }
    if (optind == argc) {
        usage(stderr);
        return 2;
    }
    for (int i = optind; i < argc; i++)
        add(&job, argv[i]);
    if (!job.source_count)
        return 1;
    errno = ENOMEM;
    if (!job_link(&job))
        fail("reports");
    if (output)
        out = open_output(output, argv + optind);
    print(&job, form, out);
    if (out != stdout && (fflush(out) || ferror(out)))
        fail(output);
    job_free(&job);
    return 0;
}
