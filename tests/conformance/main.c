/* SPDX-License-Identifier: BSD-2-Clause */
/* Each case runs in a process of its own, so that one that hangs or crashes is one failure. */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conf.h"
#include "faults.h"
#include "peer.h"

enum {
    EXIT_LACKS = 77, /* of a case; of the program when all were skipped, as meson has it */
    EXIT_SKIPPED,
    LONG_SECONDS = 1800,
    REASON_MAX = 256
};

const char *conf_spec;
const struct offers *conf_offers;

#define GROUP(name) conf_##name##_cases,
static const struct conf_case *const groups[] = {
#include "groups.inc"
    NULL,
};
#undef GROUP
static const struct conf_case *const proc_groups[] = {conf_proc_cases, NULL};
static const struct conf_case *const long_groups[] = {conf_long_cases, NULL};
/* Of endpoint types that have fewer: each block of the table names its own. */
static const struct {
    const char *name;
    const struct conf_case *cases;
} named_groups[] = {{"offer", conf_offer_cases},
                    {"connected", conf_connected_cases},
                    {"dgram", conf_dgram_cases},
                    {"packets", conf_packets_cases}};
static const struct {
    enum offers_kind kind;
    const char *name;
} types[] = {{OFFERS_MSG, "msg"}, {OFFERS_DGRAM, "dgram"}, {OFFERS_PACKETS, "packets"}};
static int reason_fd; /* of a case, what it lacks, or the machine */

struct options {
    const char *results, *fail, *sweep;
    const char *prefix; /* of names: two endpoint types have the group */
    char **only;        /* parts of names, each of which some case has; none: all cases */
    int only_count;
    bool longer, processes, any;
    bool times; /* of each case, and of all of them */
    int passed, failed, lacking, skipped;
    char failures[4096]; /* a line for each that failed, as many as fit */
    FILE *file;          /* of the results, which gets its name when they are whole */
    char path[1024];
};

void conf_fail(const char *file, int line, const char *fmt, ...)
{
    char text[REASON_MAX - 56];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (ledger_on)
        faults_ended(text);
    fflush(stdout);
    fprintf(stderr, "%s:%d: %s\n", file, line, text);
    if (reason_fd > 0)
        dprintf(reason_fd, "%.40s:%d: %s ", file, line, text);
    _exit(1);
}

bool conf_strict(void)
{
    for (int i = 0; conf_offers->has[i]; i++)
        if (!strcmp(conf_offers->has[i], "strict_completions"))
            return true;
    return false;
}

static void end_if_lacking(const char *word, const char *reason)
{
    if (!reason)
        return;
    if (ledger_on)
        faults_lacking();
    dprintf(reason_fd, "%s: %s", word, reason);
    _exit(EXIT_LACKS);
}

void conf_need(const char *word)
{
    end_if_lacking(word, offers_lacks(conf_offers, word));
}

void conf_may_lack(const char *word)
{
    end_if_lacking(word, offers_may_lack(conf_offers, word));
}

_Noreturn void conf_skip(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vdprintf(reason_fd, fmt, args);
    va_end(args);
    _exit(EXIT_SKIPPED);
}

/* The exit status of the case, and the reason when that is not 0; a process that the case has left
 * may hold the pipe. */
static int run_process(const struct conf_case *one, const struct options *options, char *reason)
{
    int pipes[2], status = -1;
    ssize_t len;
    pid_t pid;

    reason[0] = 0;
    if (pipe(pipes))
        return -1;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        close(pipes[0]);
        reason_fd = pipes[1];
        alarm(options->longer ? LONG_SECONDS : CONF_CASE_SECONDS);
        one->run();
        exit(0);
    }
    close(pipes[1]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        status = -1;
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
    len = status ? read(pipes[0], reason, REASON_MAX - 1) : 0;
    reason[len > 0 ? len : 0] = 0;
    close(pipes[0]);
    return status;
}

/* Processor seconds of the cases that have ended, and of the processes they waited for. */
static double used_s(void)
{
    struct rusage used;

    getrusage(RUSAGE_CHILDREN, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The verdict, which is counted. */
static const char *count(struct options *options, int status)
{
    int code = status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;

    if (!code) {
        options->passed++;
        return "ok";
    }
    if (code == EXIT_SKIPPED) {
        options->skipped++;
        return "skipped";
    }
    if (code == EXIT_LACKS) {
        options->lacking++;
        return "not offered";
    }
    options->failed++;
    return "FAILED";
}

/* Shown again behind all cases, where a reader of a long run looks first. */
static void note_failure(struct options *options, const char *name, const char *why)
{
    size_t used = strlen(options->failures);

    snprintf(options->failures + used, sizeof options->failures - used, "FAILED: %s%s%s\n", name,
             *why ? ": " : "", why);
}

static void run(const struct conf_case *one, struct options *options)
{
    char reason[REASON_MAX], name[128];
    double began = now_s(), used = used_s();
    const char *verdict;
    int status;

    if (options->fail) {
        options->failed += !faults_fail(one);
        return;
    }
    snprintf(name, sizeof name, "%s%s", options->prefix, one->name);
    printf("%-52s", name);
    status = run_process(one, options, reason);
    verdict = count(options, status);
    if (status != -1 && WIFSIGNALED(status))
        snprintf(reason, sizeof reason, "%s", strsignal(WTERMSIG(status)));
    if (options->times)
        printf("%7.2f s, %6.2f of a processor", now_s() - began, used_s() - used);
    printf("  %s%s%s\n", verdict, reason[0] ? ": " : "", reason);
    if (*verdict == 'F')
        note_failure(options, name, reason);
    if (options->file)
        fprintf(options->file, "%s\t%s\t%s\n", name, verdict, reason);
}

static const struct conf_case *const *list_of(const struct options *options)
{
    if (options->longer)
        return long_groups;
    return options->processes ? proc_groups : groups;
}

static bool is_wanted(const struct conf_case *one, const struct options *options)
{
    for (int i = 0; i < options->only_count; i++)
        if (strstr(one->name, options->only[i]))
            return true;
    return !options->only_count;
}

static const struct conf_case *named(const char *group)
{
    for (size_t g = 0; g < sizeof named_groups / sizeof *named_groups; g++)
        if (!strcmp(named_groups[g].name, group))
            return named_groups[g].cases;
    fprintf(stderr, "%s: there is no group '%s'\n", CONF_OFFERS, group);
    exit(2);
}

static void run_named(struct options *options, const char *group)
{
    for (const struct conf_case *one = named(group); one->name; one++)
        if (is_wanted(one, options))
            run(one, options);
}

/* The groups that a sweep goes through: of FI_EP_RDM, or of the first other type that the table has
 * a block for. */
static const struct conf_case *const *sweep_list(void)
{
    static const struct conf_case *list[OFFERS_WORDS + 1];
    size_t count = 0;

    if (conf_offers->known)
        return groups;
    for (size_t t = 0; t < sizeof types / sizeof *types && !conf_offers->known; t++)
        conf_offers = offers_read(CONF_OFFERS, conf_spec, types[t].kind);
    for (int i = 0; conf_offers->known && conf_offers->groups[i]; i++)
        if (strcmp(conf_offers->groups[i], "offer"))
            list[count++] = named(conf_offers->groups[i]);
    return count ? list : groups;
}

/* The groups of the other endpoint types that the table has blocks for. */
static void run_types(struct options *options)
{
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        char prefix[32];

        conf_offers = offers_read(CONF_OFFERS, conf_spec, types[t].kind);
        snprintf(prefix, sizeof prefix, "%s ", types[t].name);
        for (int i = 0; conf_offers->known && conf_offers->groups[i]; i++) {
            options->prefix = strcmp(conf_offers->groups[i], "offer") ? "" : prefix;
            run_named(options, conf_offers->groups[i]);
        }
    }
}

static void run_all(struct options *options)
{
    const struct conf_case *const *list = list_of(options);

    options->prefix = "";
    if (!conf_offers->known && !options->any)
        return;
    for (size_t g = 0; list[g]; g++)
        for (const struct conf_case *one = list[g]; one->name; one++)
            if (is_wanted(one, options))
                run(one, options);
}

/* Refuses a name that no case has: a case that was renamed must not seem to pass. */
static bool is_there(const char *part, const struct options *options)
{
    const struct conf_case *const *list = list_of(options);

    for (size_t g = 0; g < sizeof named_groups / sizeof *named_groups; g++)
        for (const struct conf_case *one = named_groups[g].cases; one->name; one++)
            if (strstr(one->name, part))
                return true;
    for (size_t g = 0; list[g]; g++)
        for (const struct conf_case *one = list[g]; one->name; one++)
            if (strstr(one->name, part))
                return true;
    fprintf(stderr, "no case has '%s' in its name\n", part);
    return false;
}

static void unfinished_path(const struct options *options, char path[static PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s.part", options->path);
}

/* The file of one stack: its text, with whatever is not fit for a name replaced. */
static void open_results(struct options *options)
{
    char unfinished[PATH_MAX], *path = options->path;
    int used = snprintf(path, sizeof options->path, "%s/", options->results);

    mkdir(options->results, 0777);
    snprintf(path + used, sizeof options->path - (size_t)used, "%s%s.tsv", conf_spec,
             options->processes ? ".processes" : "");
    for (char *at = path + used; *at; at++)
        if (strchr(";()=,%/ ", *at))
            *at = '_';
    unfinished_path(options, unfinished);
    options->file = fopen(unfinished, "w");
    if (!options->file) {
        perror(unfinished);
        exit(2);
    }
    fprintf(options->file, "%s\n", conf_spec);
}

static void close_results(struct options *options)
{
    char unfinished[PATH_MAX];

    unfinished_path(options, unfinished);
    if (fclose(options->file) || rename(unfinished, options->path)) {
        perror(options->path);
        exit(2);
    }
}

static int parse(int argc, char **argv, struct options *options)
{
    int at = 1;

    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        if (!strcmp(argv[at], "--results") && at + 1 < argc)
            options->results = argv[++at];
        else if (!strcmp(argv[at], "--fail") && at + 1 < argc)
            options->fail = argv[++at];
        else if (!strcmp(argv[at], "--sweep") && at + 1 < argc)
            options->sweep = argv[++at];
        else if (!strcmp(argv[at], "--long"))
            options->longer = true;
        else if (!strcmp(argv[at], "--processes"))
            options->processes = true;
        else if (!strcmp(argv[at], "--any"))
            options->any = true;
        else if (!strcmp(argv[at], "--times"))
            options->times = true;
        else
            return -1;
    }
    if (at >= argc)
        return -1;
    conf_spec = argv[at++];
    options->only = argv + at;
    options->only_count = argc - at;
    if (!options->fail && !options->sweep)
        return 0;
    return options->only_count > 1
               ? -1
               : faults_parse(options->fail ? options->fail : options->sweep, !options->fail);
}

static bool has_table(void)
{
    return offers_read(CONF_OFFERS, conf_spec, OFFERS_RDM)->known ||
           offers_read(CONF_OFFERS, conf_spec, OFFERS_MSG)->known ||
           offers_read(CONF_OFFERS, conf_spec, OFFERS_DGRAM)->known ||
           offers_read(CONF_OFFERS, conf_spec, OFFERS_PACKETS)->known;
}

int main(int argc, char **argv)
{
    struct options options = {.prefix = ""};
    double began = now_s();

    if (argc > 3 && !strcmp(argv[1], "--peer")) {
        conf_spec = argv[2];
        conf_offers = offers_read(CONF_OFFERS, conf_spec, OFFERS_RDM);
        peer_main(argc - 3, argv + 3);
    }
    if (parse(argc, argv, &options)) {
        fprintf(stderr, "usage: conformance [--results DIR] [--processes | --long] [--any] "
                        "[--times] SPEC [CASE]...\n"
                        "       conformance --fail alloc:N|call:N SPEC CASE\n"
                        "       conformance --sweep alloc|call[:SECONDS] SPEC [CASE]\n");
        return 2;
    }
    for (int i = 0; i < options.only_count; i++)
        if (!is_there(options.only[i], &options))
            return 2;
    conf_offers = offers_read(CONF_OFFERS, conf_spec, OFFERS_RDM);
    if (!has_table() && !options.any) {
        fprintf(stderr, "%s has no block for '%s'; --any tries each case\n", CONF_OFFERS,
                conf_spec);
        return 2;
    }
    setenv("FI_PROVIDER", conf_spec, 1);
    setenv("FI_TRACE_FILE", "/tmp/weft-trace.conformance", 0); /* not one for each case, here */
    if (options.sweep)
        return faults_sweep(sweep_list(), options.only[0]) != 0;
    if (options.results)
        open_results(&options);
    run_all(&options);
    if (!options.processes && !options.longer && !options.fail)
        run_types(&options);
    if (options.file)
        close_results(&options);
    fputs(options.failures, stdout);
    printf("%s: %d passed, %d failed, %d not offered", conf_spec, options.passed, options.failed,
           options.lacking);
    printf(options.skipped ? ", %d skipped" : "", options.skipped);
    if (options.times)
        printf(" in %.1f s, %.1f of a processor", now_s() - began, used_s());
    printf("\n");
    if (options.failed)
        return 1;
    return options.skipped && !options.passed ? EXIT_LACKS : 0;
}
