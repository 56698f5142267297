/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_mon_sampler(1): series of samples of the counters of the layer `monitor`, as CSV. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "mon_page.h"

static void usage(FILE *out)
{
    fputs("Usage: fi_mon_sampler [OPTION]... TARGET\n"
          "Samples the page files of the layer `monitor`: TARGET is one, or a folder of them\n"
          "(/dev/shm/ofi/UID/HOST where FI_OFI_HOOK_MONITOR_BASEPATH says nothing else).\n"
          "\n"
          "  -w MSEC     samples every MSEC milliseconds, until all processes have ended\n"
          "              (a folder: until it is interrupted)\n"
          "  -f FORMAT   csv\n"
          "  -o PATH     writes there: a file, or a folder with a file for each process;\n"
          "              without it one TARGET file is sampled to standard output\n"
          "  -h, --help\n"
          "Each row has what has come since the row before.\n",
          out);
}

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
    interrupted = 1;
}

struct request {
    const char *target, *output;
    unsigned long every_ms; /* 0: once */
    bool folder;            /* target is one */
};

/* One process that is sampled. */
struct series {
    struct series *next;
    char *path; /* of its page file */
    FILE *out;
    uint64_t process_start;
    bool ended, seen;
    struct weft_monitor_cell last[WEFT_MONITOR_CALLS][WEFT_MONITOR_SIZES];
};

static const char *const size_names[WEFT_MONITOR_SIZES] = {
    "0_64", "64_512", "512_1K", "1K_4K", "4K_64K", "64K_256K", "256K_1M", "1M_4M", "4M_UP",
};

static const char *column(const char *call)
{
    return strncmp(call, "fi_", 3) == 0 ? call + 3 : call;
}

static void print_head(const struct mon_page *page, FILE *out)
{
    const char *comma = "";

    for (uint32_t call = 0; call < page->header.call_count; call++)
        for (int size = 0; size < WEFT_MONITOR_SIZES; size++) {
            const char *name = column(page->header.names[call]);

            fprintf(out, "%smon_%s_%s_c,mon_%s_%s_s", comma, name, size_names[size], name,
                    size_names[size]);
            comma = ",";
        }
    fputc('\n', out);
}

static uint64_t take(uint64_t now, uint64_t *last)
{
    uint64_t more = now > *last ? now - *last : 0;

    *last = now;
    return more;
}

static void print_row(struct series *series, const struct mon_page *page)
{
    const char *comma = "";

    for (uint32_t call = 0; call < page->header.call_count; call++)
        for (int size = 0; size < WEFT_MONITOR_SIZES; size++) {
            const struct weft_monitor_cell *now = &page->cells[call][size];
            struct weft_monitor_cell *last = &series->last[call][size];
            uint64_t count = take(now->count, &last->count);

            fprintf(series->out, "%s%llu,%llu", comma, (unsigned long long)count,
                    (unsigned long long)take(now->bytes, &last->bytes));
            comma = ",";
        }
    fputc('\n', series->out);
    if (fflush(series->out)) {
        if (series->out != stdout) /* else it is said in the end */
            fprintf(stderr, "fi_mon_sampler: cannot write: %s\n", strerror(errno));
        exit(1);
    }
}

/* ---- Where to ---- */

static bool is_folder(const char *path)
{
    struct stat info;

    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat one, two;

    return !stat(a, &one) && !stat(b, &two) && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static FILE *open_output(const struct request *request, const char *page_path)
{
    char path[8192];
    FILE *out;

    if (!request->output)
        return stdout;
    if (is_folder(request->output))
        snprintf(path, sizeof(path), "%s/%s", request->output, base_name(page_path));
    else
        snprintf(path, sizeof(path), "%s", request->output);
    if (is_same_file(path, page_path)) {
        fprintf(stderr, "fi_mon_sampler: -o %s: that would write over the page files themselves\n",
                request->output);
        exit(2);
    }
    out = fopen(path, "we");
    if (!out) {
        fprintf(stderr, "fi_mon_sampler: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    return out;
}

/* ---- Sampling ---- */

static struct series *find(struct series *all, const struct mon_file *file)
{
    while (all && (strcmp(all->path, file->path) != 0 ||
                   all->process_start != file->page->header.process_start))
        all = all->next;
    return all;
}

static struct series *add(struct series **all, const struct request *request,
                          const struct mon_file *file)
{
    struct series *series = calloc(1, sizeof(*series));

    if (!series || !(series->path = strdup(file->path))) {
        fprintf(stderr, "fi_mon_sampler: there is no memory\n");
        exit(1);
    }
    series->out = open_output(request, file->path);
    series->process_start = file->page->header.process_start;
    series->next = *all;
    *all = series;
    print_head(file->page, series->out);
    return series;
}

/* A process that has ended has its last row. */
static void sample_file(struct series **all, const struct request *request,
                        const struct mon_file *file)
{
    struct series *series = find(*all, file);

    if (!series)
        series = add(all, request, file);
    series->seen = true;
    if (series->ended)
        return;
    print_row(series, file->page);
    series->ended = file->life == MON_CLOSED || file->life == MON_GONE;
}

/* How many processes go on; -1: there is nothing at the target. */
static int sample(struct series **all, const struct request *request)
{
    struct mon_file *files = NULL;
    int count = mon_files_read(request->target, &files), going = 0;

    for (struct series *series = *all; series; series = series->next)
        series->seen = false;
    for (int i = 0; i < count; i++) {
        if (files[i].page)
            sample_file(all, request, &files[i]);
        else if (!request->folder)
            fprintf(stderr, "fi_mon_sampler: %s: %s\n", files[i].path, files[i].why);
    }
    for (struct series *series = *all; series; series = series->next) {
        series->ended |= !series->seen;
        going += !series->ended;
    }
    mon_files_free(files, count);
    return count < 0 ? -1 : going;
}

static void wait_for(struct timespec *next, unsigned long ms)
{
    next->tv_sec += (time_t)(ms / 1000);
    next->tv_nsec += (long)(ms % 1000) * 1000000;
    if (next->tv_nsec >= 1000000000) {
        next->tv_nsec -= 1000000000;
        next->tv_sec++;
    }
    while (!interrupted && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL) == EINTR)
        ;
}

static int run(const struct request *request)
{
    struct series *all = NULL;
    struct timespec next;
    int going = sample(&all, request);
    int status = going >= 0 && (all || request->folder) ? 0 : 1;

    if (going < 0)
        fprintf(stderr, "fi_mon_sampler: %s: %s\n", request->target, strerror(errno));
    clock_gettime(CLOCK_MONOTONIC, &next);
    while (!status && request->every_ms && !interrupted && (going > 0 || request->folder)) {
        wait_for(&next, request->every_ms);
        if (!interrupted)
            going = sample(&all, request);
    }
    while (all) {
        struct series *series = all;

        all = all->next;
        if (series->out != stdout && fclose(series->out))
            status = 1;
        free(series->path);
        free(series);
    }
    return status;
}

static struct request parse(int argc, char **argv)
{
    static const struct option help[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    struct request request = {0};
    int option;

    while ((option = getopt_long(argc, argv, "w:f:o:h", help, NULL)) != -1) {
        switch (option) {
        case 'w': request.every_ms = cli_number("-w", optarg, 1, 86400000); break;
        case 'o': request.output = optarg; break;
        case 'f':
            if (!strcmp(optarg, "csv") || !strcmp(optarg, "CSV"))
                break;
            fprintf(stderr, "fi_mon_sampler: -f %s: the only format is csv\n", optarg);
            exit(2);
        case 'h': usage(stdout); exit(0);
        default: usage(stderr); exit(2);
        }
    }
    if (optind != argc - 1) {
        usage(stderr);
        exit(2);
    }
    request.target = argv[optind];
    request.folder = is_folder(request.target);
    return request;
}

int main(int argc, char **argv)
{
    struct request request = parse(argc, argv);
    struct sigaction action = {.sa_handler = interrupt};

    if (request.folder && !request.output) {
        fprintf(stderr, "fi_mon_sampler: %s is a folder: -o says where its files' samples go\n",
                request.target);
        return 2;
    }
    if (request.folder && mkdir(request.output, 0777) && errno != EEXIST) {
        fprintf(stderr, "fi_mon_sampler: %s: %s\n", request.output, strerror(errno));
        return 1;
    }
    if (request.folder && !is_folder(request.output)) {
        fprintf(stderr, "fi_mon_sampler: %s is no folder\n", request.output);
        return 2;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return run(&request);
}
