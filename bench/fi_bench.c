/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The driver: starts two workers for each subject, has them run short windows in turn, and prints
 * the median of each (or another quantile) with its ratio to the first subject. A machine whose
 * cores move apart or are taken away for milliseconds shows in the cache-line column, not in the
 * ratio.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>

#include "bench.h"

enum {
    SUBJECTS_MAX = 8,
    SIZES_MAX = 16,
    ADDRESS_BYTES = 256,
    WINDOWS_MAX = 501,
    MESSAGES_MAX = 256, /* of a window */
    MINUTE_US = 60000000
};

/* Options of figures that have their own driver. */
enum {
    ALONE_LAYERS = 256,
    ALONE_SIZES,
    ALONE_THREADS,
    ALONE_PEERS,
    ALONE_AV,
    ALONE_ROUNDS,
    ALONE_CALLS,
    COURSE
};

struct subject {
    char name[64];
    const char *library; /* NULL: raw sockets */
    bool datagram;       /* of UDP */
    const char *spec;
    pid_t pid[2];
    int pipe[2];
};

struct options {
    const char *library; /* for the subjects that name none */
    int windows;         /* of each subject, for each figure */
    int percent;         /* which window is shown: 50 the median, 10 one of the fast ones */
    uint64_t window_us;  /* aimed length of a window */
    int core[2];
    int seconds; /* of a course; 0: none */
    uint64_t sizes[SIZES_MAX];
    int size_count;
    uint64_t room; /* bytes that buffers take turns in */
    int messages;  /* of a window, before its reply */
    uint64_t rounds;
    bool latency, bandwidth, rate, window, rma, memory, getinfo;
};

static struct subject subjects[SUBJECTS_MAX];
static int subject_count;

static void usage(FILE *out)
{
    fputs("usage: fi_bench [options] SUBJECT...\n"
          "       fi_bench [-l LIBRARY] --layers|--sizes|--threads|--av|--peers SPEC...\n"
          "       fi_bench [-l LIBRARY] --rounds|--calls COUNT SPEC\n"
          "Measures stacks side by side, in interleaved windows; ratios are to the first subject.\n"
          "SUBJECT is `socket` (a raw busy-polling TCP connection), `datagram` (a raw pair of UDP\n"
          "sockets, for -t latency,window) or [NAME=][LIBRARY:]SPEC, SPEC being\n"
          "the text for FI_PROVIDER and LIBRARY the path of a libfabric.so.1.\n"
          "  -l LIBRARY   library of subjects that name none (default libfabric.so.1)\n"
          "  -e TYPE      of endpoints: rdm, or dgram, for -t latency,window (default rdm:\n"
          "               `udp` is udp;ofi_rxd then)\n"
          "  -t TESTS     of latency,bandwidth,rate,window,rma,memory,getinfo (default all but\n"
          "               window and rma)\n"
          "  -S SIZES     bytes, for latency, bandwidth, window and rma (default 8,1048576)\n"
          "  -n COUNT     messages of a window, after which a reply comes (default 64)\n"
          "  -T CLASS     traffic class: best-effort, low-latency, dedicated, bulk, scavenger,\n"
          "               control, or a DSCP (default: none)\n"
          "  -r BYTES     take buffers in turn from so many bytes (default: always the same one)\n"
          "  -w COUNT     windows of each subject and figure (default 31)\n"
          "  -u USEC      length of a window (default 20000)\n"
          "  -q PERCENT   the window shown: 50 is the median, 10 for a busy machine (default 50)\n"
          "  -c A,B       cores of the two sides (default 0,1)\n"
          "  -a A,B       addresses of the two sides (default 127.0.0.1,127.0.0.1; with -N any)\n"
          "  -N A,B       network namespaces of the two sides, of `ip netns`\n"
          "  --course SEC windows of -n messages of the first size, so long, one after the other:\n"
          "               seconds since the first at the end of each, and its MB/s\n"
          "  --layers     ns of a send and its completion, in one process, for each SPEC\n"
          "  --sizes      us of a message of each size (-S), in one process, for each SPEC\n"
          "  --threads    two threads against one, in one process, and locks taken\n"
          "  --peers      memory, rate and time of 1,000 and 10,000 connections\n"
          "  --av         ns and bytes of an inserted address\n"
          "  --rounds COUNT  no figure: so many windows (-n) of messages (the first -S), and\n"
          "               replies, in one process, for callgrind and strace to count\n"
          "  --calls COUNT  no figure: so many times 16 messages and one back, each kind of\n"
          "               call in a function of its own, for callgrind (bench/lnx -i)\n",
          out);
}

static uint32_t parse_class(const char *text)
{
    static const struct {
        const char *name;
        uint32_t tclass;
    } classes[] = {
        {"best-effort", FI_TC_BEST_EFFORT},    {"low-latency", FI_TC_LOW_LATENCY},
        {"dedicated", FI_TC_DEDICATED_ACCESS}, {"bulk", FI_TC_BULK_DATA},
        {"scavenger", FI_TC_SCAVENGER},        {"control", FI_TC_NETWORK_CTRL},
    };
    unsigned long code;
    char *end;

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (!strcmp(text, classes[i].name))
            return classes[i].tclass;
    code = strtoul(text, &end, 0);
    if (end == text || *end || code > 63)
        bench_die("-T: '%s' is no traffic class, nor a DSCP from 0 to 63", text);
    return fi_tc_dscp_set((uint8_t)code);
}

static void pin(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static const struct bench_worker *worker_of(const struct subject *subject)
{
    if (subject->library)
        return &bench_ofi_worker;
    return subject->datagram ? &bench_datagram_worker : &bench_socket_worker;
}

/* "A,B": what each side has. The text is cut. */
static void parse_sides(char option, char *text, const char *sides[2])
{
    char *comma = strchr(text, ',');

    if (!comma)
        bench_die("-%c: '%s' is not one of each side, as A,B", option, text);
    *comma = 0;
    sides[0] = text;
    sides[1] = comma + 1;
}

static _Noreturn void work(const struct subject *subject, int side, int pipe)
{
    const struct bench_worker *worker = worker_of(subject);
    void *state = worker->open(subject->library, subject->spec, side, pipe);
    struct bench_window window;
    struct bench_memory memory;
    uint64_t result;

    for (;;) {
        pipe_read(pipe, &window, sizeof window);
        switch (window.kind) {
        case BENCH_MEMORY:
            worker->memory(state, &memory);
            pipe_write(pipe, &memory, sizeof memory);
            break;
        case BENCH_GETINFO:
            result = worker->getinfo(state, window.count);
            pipe_write(pipe, &result, sizeof result);
            break;
        case BENCH_QUIT: worker->close(state); exit(0);
        case BENCH_REST: break;
        default:
            result = worker->run(state, &window);
            pipe_write(pipe, &result, sizeof result);
            while (!pipe_has_bytes(pipe))
                worker->progress(state);
        }
    }
}

static void start_side(struct subject *subject, int side, int core)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        bench_die("socketpair: %s", strerror(errno));
    fflush(NULL);
    subject->pid[side] = fork();
    if (subject->pid[side] < 0)
        bench_die("fork: %s", strerror(errno));
    if (subject->pid[side] == 0) {
        close(pair[0]);
        if (bench_netns[side])
            bench_enter(bench_netns[side]);
        pin(core);
        work(subject, side, pair[1]);
    }
    close(pair[1]);
    subject->pipe[side] = pair[0];
}

/* Starts both workers and swaps their addresses; an address record has the size its kind writes. */
static void start(struct subject *subject, const struct options *options)
{
    size_t len = subject->library ? ADDRESS_BYTES : 16;
    char address[2][ADDRESS_BYTES];

    for (int side = 0; side < 2; side++) {
        start_side(subject, side, options->core[side]);
        pipe_read(subject->pipe[side], address[side], len);
    }
    pipe_write(subject->pipe[0], address[1], len);
    pipe_write(subject->pipe[1], address[0], len);
}

static void stop(struct subject *subject)
{
    struct bench_window quit = {.kind = BENCH_QUIT};

    for (int side = 0; side < 2; side++)
        pipe_write(subject->pipe[side], &quit, sizeof quit);
    for (int side = 0; side < 2; side++)
        waitpid(subject->pid[side], NULL, 0);
}

/* ns for the whole window, as side 1 saw it. */
static uint64_t run_window(struct subject *subject, const struct bench_window *window)
{
    const struct bench_window rest = {.kind = BENCH_REST};
    uint64_t ns[2];

    for (int side = 0; side < 2; side++)
        pipe_write(subject->pipe[side], window, sizeof *window);
    for (int side = 0; side < 2; side++)
        pipe_read(subject->pipe[side], &ns[side], sizeof ns[side]);
    for (int side = 0; side < 2; side++)
        pipe_write(subject->pipe[side], &rest, sizeof rest);
    return ns[1];
}

/* The time that `percent` of the windows do not exceed. */
static double quantile(double *values, int count, int percent)
{
    qsort(values, (size_t)count, sizeof *values, bench_ascending);
    return values[(count - 1) * percent / 100];
}

/* The best of a few, since a busy machine may take the cores away in any of them. */
static uint64_t best_window(struct subject *subject, const struct bench_window *window)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 5; i++) {
        uint64_t ns = run_window(subject, window);

        if (ns < best)
            best = ns;
    }
    return best;
}

/* Only whole windows of messages have their reply. */
static uint64_t whole_windows(const struct bench_window *window, uint64_t count)
{
    uint64_t unit = window->kind == BENCH_WINDOW ? window->window : 1;

    return (count + unit - 1) / unit * unit;
}

/* Grows the count of a window until it takes about window_us. */
static void calibrate(struct subject *subject, struct bench_window *window, uint64_t window_us)
{
    uint64_t ns;

    window->count = whole_windows(window, 16);
    for (int i = 0; i < 12; i++) {
        ns = best_window(subject, window);
        if (ns > window_us * 500)
            break;
        window->count *= 2;
    }
    window->count = window->count * window_us * 1000 / (ns ? ns : 1);
    if (window->count < 4)
        window->count = 4;
    window->count = whole_windows(window, window->count);
}

static void report(const char *what, const struct bench_window *window, double *ns, double line)
{
    for (int s = 0; s < subject_count; s++) {
        double value = ns[s], ratio = ns[s] / ns[0];
        char shown[48];

        if (window->kind == BENCH_LATENCY) {
            snprintf(shown, sizeof shown, "%10.3f us", value / 1000);
        } else {
            ratio = 1 / ratio;
            if (window->size < 4096)
                snprintf(shown, sizeof shown, "%10.3f M/s", 1000 / value);
            else
                snprintf(shown, sizeof shown, "%10.3f GB/s", (double)window->size / value);
        }
        printf("%-10s %8lu  %-28s %-15s %6.3f  %6.3f\n", what, (unsigned long)window->size,
               subjects[s].name, shown, ratio, line / 1000);
    }
    fflush(stdout);
}

static void measure(const char *what, const struct options *options, uint32_t kind, uint64_t size,
                    uint32_t outstanding)
{
    struct bench_window windows[SUBJECTS_MAX];
    static double samples[SUBJECTS_MAX][WINDOWS_MAX];
    double lines[WINDOWS_MAX], ns[SUBJECTS_MAX];

    for (int s = 0; s < subject_count; s++) {
        windows[s] = (struct bench_window){
            .kind = kind, .size = size, .window = outstanding, .room = options->room};
        calibrate(&subjects[s], &windows[s], options->window_us);
    }
    for (int w = 0; w < options->windows; w++) {
        lines[w] = bench_cache_line(options->core[0], options->core[1]);
        for (int s = 0; s < subject_count; s++)
            samples[s][w] = (double)run_window(&subjects[s], &windows[s]) /
                            (double)windows[s].count / (kind == BENCH_LATENCY ? 2 : 1);
    }
    for (int s = 0; s < subject_count; s++)
        ns[s] = quantile(samples[s], options->windows, options->percent);
    report(what, &windows[0], ns, quantile(lines, options->windows, options->percent));
}

static void measure_memory(void)
{
    struct bench_window window = {.kind = BENCH_MEMORY};
    struct bench_memory memory;

    for (int s = 0; s < subject_count; s++) {
        if (!subjects[s].library)
            continue;
        pipe_write(subjects[s].pipe[1], &window, sizeof window);
        pipe_read(subjects[s].pipe[1], &memory, sizeof memory);
        printf("%-10s %8s  %-28s idle endpoint %ld KiB, first peer %ld KiB more\n", "memory", "",
               subjects[s].name, memory.idle - memory.start, memory.peer - memory.idle);
    }
}

static void measure_getinfo(const struct options *options)
{
    struct bench_window window = {.kind = BENCH_GETINFO, .count = 20};
    double samples[WINDOWS_MAX];
    uint64_t ns;

    for (int s = 0; s < subject_count; s++) {
        if (!subjects[s].library)
            continue;
        for (int w = 0; w < options->windows; w++) {
            pipe_write(subjects[s].pipe[1], &window, sizeof window);
            pipe_read(subjects[s].pipe[1], &ns, sizeof ns);
            samples[w] = (double)ns;
        }
        printf("%-10s %8s  %-28s %10.3f us\n", "getinfo", "", subjects[s].name,
               quantile(samples, options->windows, options->percent) / 1000);
    }
}

/* `socket`, `[NAME=][LIBRARY:]SPEC`; a '/' before the ':' makes it a library. */
static void parse_subject(char *text, const struct options *options)
{
    struct subject *subject = &subjects[subject_count++];
    char *name = text, *equal, *colon;

    if (subject_count > SUBJECTS_MAX)
        bench_die("at most %d subjects", SUBJECTS_MAX);
    if (!strcmp(text, "socket") || !strcmp(text, "datagram")) {
        snprintf(subject->name, sizeof subject->name, "%s", text);
        subject->datagram = !strcmp(text, "datagram");
        subject->spec = "";
        return;
    }
    equal = strchr(text, '=');
    if (equal && strcspn(text, "(/;") > (size_t)(equal - text)) {
        *equal = 0;
        text = equal + 1;
    }
    colon = strchr(text, ':');
    subject->library = options->library;
    if (colon && memchr(text, '/', (size_t)(colon - text))) {
        *colon = 0;
        subject->library = text;
        text = colon + 1;
    }
    subject->spec = text;
    snprintf(subject->name, sizeof subject->name, "%s", equal ? name : text);
}

static void parse_sizes(struct options *options, char *text)
{
    options->size_count = 0;
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
        char *end;
        uint64_t size = strtoull(word, &end, 0);

        if (*end || !size || options->size_count == SIZES_MAX)
            bench_die("-S: '%s' is not a size in bytes, or there are more than %d", word,
                      SIZES_MAX);
        options->sizes[options->size_count++] = size;
    }
}

static void parse_type(const char *text)
{
    bench_datagrams = !strcmp(text, "dgram");
    if (!bench_datagrams && strcmp(text, "rdm"))
        bench_die("-e: '%s' is neither rdm nor dgram", text);
}

static void parse_tests(struct options *options, char *text)
{
    const struct {
        const char *name;
        bool *chosen;
    } tests[] = {{"latency", &options->latency}, {"bandwidth", &options->bandwidth},
                 {"rate", &options->rate},       {"window", &options->window},
                 {"rma", &options->rma},         {"memory", &options->memory},
                 {"getinfo", &options->getinfo}};
    size_t count = sizeof tests / sizeof *tests;

    for (size_t i = 0; i < count; i++)
        *tests[i].chosen = false;
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
        size_t i = 0;

        while (i < count && strcmp(word, tests[i].name) != 0)
            i++;
        if (i == count)
            bench_die("-t: '%s' is none of latency,bandwidth,rate,window,rma,memory,getinfo", word);
        *tests[i].chosen = true;
    }
}

static uint64_t number_of(const char *option, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    uint64_t number = strtoull(text, &end, 0);

    if (end == text || *end || *text == '-' || number < least || number > most)
        bench_die("%s: '%s' is not a number from %" PRIu64 " to %" PRIu64, option, text, least,
                  most);
    return number;
}

static void run(const struct options *options)
{
    for (int s = 0; s < subject_count; s++)
        start(&subjects[s], options);
    printf("%-10s %8s  %-28s %-15s %6s  %6s\n", "figure", "bytes", "subject", "time or rate",
           "ratio", "line us");
    for (int i = 0; options->latency && i < options->size_count; i++)
        measure("latency", options, BENCH_LATENCY, options->sizes[i], 1);
    for (int i = 0; options->bandwidth && i < options->size_count; i++)
        if (options->sizes[i] >= 4096)
            measure("bandwidth", options, BENCH_BANDWIDTH, options->sizes[i], 16);
    for (int i = 0; options->window && i < options->size_count; i++)
        measure("window", options, BENCH_WINDOW, options->sizes[i], (uint32_t)options->messages);
    if (options->rate)
        measure("rate", options, BENCH_BANDWIDTH, 8, 64);
    for (int i = 0; options->rma && i < options->size_count; i++) {
        measure("write", options, BENCH_WRITE, options->sizes[i],
                options->sizes[i] < 4096 ? 64 : 16);
        measure("read", options, BENCH_READ, options->sizes[i], options->sizes[i] < 4096 ? 64 : 16);
    }
    if (options->memory)
        measure_memory();
    if (options->getinfo)
        measure_getinfo(options);
    for (int s = 0; s < subject_count; s++)
        stop(&subjects[s]);
}

/* Prints the bandwidth of a stream over time, while another program changes the network under
 * it. */
static void run_course(const struct options *options)
{
    struct bench_window window = {
        .kind = BENCH_BANDWIDTH,
        .size = options->sizes[0],
        .window = 16,
        .count = (uint64_t)options->messages,
        .room = options->room,
    };
    uint64_t begin, now;

    start(&subjects[0], options);
    begin = now = bench_now();
    while (now - begin < (uint64_t)options->seconds * 1000000000) {
        uint64_t ns = run_window(&subjects[0], &window);

        now = bench_now();
        printf("%9.3f %9.1f\n", (double)(now - begin) / 1e9,
               (double)(window.count * window.size) * 1e3 / (double)ns);
        fflush(stdout);
    }
    stop(&subjects[0]);
}

static int sizes(const struct options *options, char **specs, int count)
{
    struct bench_sizes what = {
        .sizes = options->sizes,
        .size_count = options->size_count,
        .windows = options->windows,
        .percent = options->percent,
        .window_us = options->window_us,
    };

    return bench_sizes(options->library, &what, specs, count);
}

static int run_alone(int which, const struct options *options, char **specs, int count)
{
    switch (which) {
    case ALONE_LAYERS: return bench_layers(options->library, specs, count);
    case ALONE_SIZES: return sizes(options, specs, count);
    case ALONE_THREADS: return bench_threads(options->library, options->core, specs, count);
    case ALONE_ROUNDS:
        return bench_rounds(options->library,
                            &(struct bench_rounds){.rounds = options->rounds,
                                                   .size = options->sizes[0],
                                                   .messages = options->messages},
                            specs, count);
    case ALONE_CALLS: return bench_calls(options->library, options->rounds, specs, count);
    case ALONE_PEERS: return bench_peers(options->library, options->core, specs, count);
    default: return bench_av(options->library, specs, count);
    }
}

static void parse_cores(struct options *options, const char *text)
{
    if (sscanf(text, "%d,%d", &options->core[0], &options->core[1]) != 2)
        bench_die("-c: '%s' is not two cores, as 0,1", text);
}

/* Returns main's result, or -1. *alone: the option of a figure that has its own driver. */
static int parse(struct options *options, int argc, char **argv, int *alone)
{
    static const struct option longs[] = {{"layers", no_argument, NULL, ALONE_LAYERS},
                                          {"threads", no_argument, NULL, ALONE_THREADS},
                                          {"av", no_argument, NULL, ALONE_AV},
                                          {"peers", no_argument, NULL, ALONE_PEERS},
                                          {"sizes", no_argument, NULL, ALONE_SIZES},
                                          {"course", required_argument, NULL, COURSE},
                                          {"rounds", required_argument, NULL, ALONE_ROUNDS},
                                          {"calls", required_argument, NULL, ALONE_CALLS},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int c;

    while ((c = getopt_long(argc, argv, "l:e:t:S:n:T:r:w:u:q:c:a:N:h", longs, NULL)) != -1) {
        switch (c) {
        case 'l': options->library = optarg; break;
        case 'e': parse_type(optarg); break;
        case 't': parse_tests(options, optarg); break;
        case 'S': parse_sizes(options, optarg); break;
        case 'n': options->messages = (int)number_of("-n", optarg, 1, MESSAGES_MAX); break;
        case 'T': bench_tclass = parse_class(optarg); break;
        case 'r': options->room = number_of("-r", optarg, 1, SIZE_MAX / 2); break;
        case 'w': options->windows = (int)number_of("-w", optarg, 1, WINDOWS_MAX); break;
        case 'u': options->window_us = number_of("-u", optarg, 1, MINUTE_US); break;
        case 'q': options->percent = (int)number_of("-q", optarg, 0, 100); break;
        case 'c': parse_cores(options, optarg); break;
        case 'a':
            parse_sides('a', optarg, bench_host);
            bench_at = true;
            break;
        case 'N': parse_sides('N', optarg, bench_netns); break;
        case COURSE: options->seconds = (int)number_of("--course", optarg, 1, 3600); break;
        case ALONE_ROUNDS:
        case ALONE_CALLS:
            options->rounds = number_of(c == ALONE_ROUNDS ? "--rounds" : "--calls", optarg, 1,
                                        UINT32_MAX); /* fall through */
        case ALONE_LAYERS:
        case ALONE_SIZES:
        case ALONE_THREADS:
        case ALONE_PEERS:
        case ALONE_AV: *alone = c; break;
        case 'h': usage(stdout); return 0;
        default: usage(stderr); return 2;
        }
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct options options = {.library = "libfabric.so.1",
                              .windows = 31,
                              .percent = 50,
                              .window_us = 20000,
                              .core = {0, 1},
                              .messages = 64,
                              .sizes = {8, 1048576},
                              .size_count = 2};
    char tests[] = "latency,bandwidth,rate,memory,getinfo";
    int alone = 0, rc;

    parse_tests(&options, tests);
    rc = parse(&options, argc, argv, &alone);
    if (rc >= 0)
        return rc;
    if (optind == argc) {
        fprintf(stderr, "fi_bench: no SUBJECT\n");
        usage(stderr);
        return 2;
    }
    if (alone)
        return run_alone(alone, &options, argv + optind, argc - optind);
    for (int i = optind; i < argc; i++)
        parse_subject(argv[i], &options);
    if (options.seconds)
        run_course(&options);
    else
        run(&options);
    return 0;
}
