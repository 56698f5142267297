/* SPDX-License-Identifier: BSD-2-Clause */
#include "faults.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "failing.h"

enum {
    EXIT_TOLD = 78,
    EXIT_NOTHING = 79,
    CASES = 1024,
    TEXT = 200
};

/* The report of a case's process. */
struct report {
    unsigned counted;
    int err;
    unsigned long place;
    char what[32], told[TEXT], wrong[TEXT];
};

enum verdict {
    PASSED,
    TOLD, /* the case was told of an error */
    LACKS,
    WRONG
};

static struct report *report;
static enum failing_kind kind;
static unsigned fail_at;
static int seconds; /* of a sweep; 0: all */
static bool quiet;  /* of thousands */

int faults_parse(const char *what, bool sweep)
{
    const char *number = strchr(what, ':');

    kind = !strncmp(what, "alloc", 5)  ? FAILING_ALLOCATION
           : !strncmp(what, "call", 4) ? FAILING_SYSTEM_CALL
                                       : FAILING_NONE;
    fail_at = number && !sweep ? (unsigned)atoi(number + 1) : 0;
    seconds = number && sweep ? atoi(number + 1) : 0;
    quiet = sweep;
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    setenv("FI_RXM_CONNECT_TIMEOUT", "5s", 1);
    return kind == FAILING_NONE || report == MAP_FAILED ? -1 : 0;
}

/* ---- In the process of the case ---- */

static _Noreturn void finish(const char *wrong, int status)
{
    const char *what = failing_what(&report->err, &report->place);

    snprintf(report->what, sizeof report->what, "%s", what ? what : "");
    snprintf(report->wrong, sizeof report->wrong, "%s", wrong ? wrong : "");
    exit(wrong ? 1 : status);
}

void faults_ended(const char *text)
{
    static atomic_flag ending = ATOMIC_FLAG_INIT;
    unsigned long place;
    int err;

    /* Another thread of the case has ended it. */
    while (atomic_flag_test_and_set(&ending))
        pause();
    snprintf(report->told, sizeof report->told, "%s", text);
    report->counted = failing_stop();
    if (!failing_what(&err, &place))
        finish("nothing was made to fail, but this did", 1);
    if (!strncmp(text, "data", 4)) /* and no error, or the case would have ended there */
        finish("wrong data", 1);
    finish(ledger_settle(), EXIT_TOLD);
}

void faults_lacking(void)
{
    failing_stop();
    finish(NULL, EXIT_NOTHING);
}

/* A process that the case forks is not part of the run: nothing fails there, and it reports
 * nothing. */
static void in_child(void)
{
    failing_stop();
    ledger_on = false;
}

static _Noreturn void play(const struct conf_case *one, unsigned at)
{
    alarm(CONF_CASE_SECONDS);
    pthread_atfork(NULL, NULL, in_child);
    ledger_on = true;
    failing_start(kind, at);
    one->run();
    report->counted = failing_stop();
    finish(ledger_settle(), 0);
}

/* ---- Outside of it ---- */

static enum verdict run(const struct conf_case *one, unsigned at)
{
    int status;
    pid_t pid;

    memset(report, 0, sizeof *report);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        if (quiet)
            dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        play(one, at);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return WRONG;
    if (WIFEXITED(status) && !report->wrong[0]) {
        if (WEXITSTATUS(status) == 0)
            return PASSED;
        if (WEXITSTATUS(status) == EXIT_TOLD)
            return TOLD;
        if (WEXITSTATUS(status) == EXIT_NOTHING)
            return LACKS;
    }
    if (!report->wrong[0])
        snprintf(report->wrong, sizeof report->wrong, "%s",
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "leak, or other ill end");
    return WRONG;
}

static void say(const struct conf_case *one, unsigned at)
{
    printf("--fail %s:%u '%s' '%s': %s", kind == FAILING_ALLOCATION ? "alloc" : "call", at,
           conf_spec, one->name, report->wrong);
    if (report->what[0])
        printf("; failed: %s at %#lx (%s)", report->what, report->place, strerror(report->err));
    printf("; told: %s\n", report->told[0] ? report->told : "nothing");
    fflush(stdout);
}

bool faults_fail(const struct conf_case *one)
{
    enum verdict verdict = run(one, fail_at);

    if (verdict == WRONG)
        say(one, fail_at);
    else
        printf("%-52s  %s (%u calls; %s%s%#lx): %s\n", one->name, verdict == PASSED ? "ok" : "told",
               report->counted, report->what, report->what[0] ? " at " : "none failed ",
               report->place, report->told);
    return verdict != WRONG;
}

/* ---- Sweeps ---- */

static struct {
    const struct conf_case *one;
    bool known;
    unsigned sites;
} cases[CASES];
static int verdicts[WRONG + 1];

static unsigned gather(const struct conf_case *const *groups, const char *only)
{
    unsigned count = 0;

    for (size_t g = 0; groups[g]; g++)
        for (const struct conf_case *one = groups[g]; one->name && count < CASES; one++)
            if (!only || strstr(one->name, only))
                cases[count++].one = one;
    return count;
}

static void sweep_one(unsigned index, unsigned at)
{
    enum verdict verdict = run(cases[index].one, at);

    verdicts[verdict]++;
    if (verdict == WRONG)
        say(cases[index].one, at);
}

/* How many calls of a case can fail, each of them. */
static unsigned sites_of(unsigned index)
{
    if (!cases[index].known) {
        cases[index].known = true;
        sweep_one(index, 0);
        cases[index].sites = report->counted;
    }
    return cases[index].sites;
}

static void sweep_some(unsigned count, unsigned seed)
{
    long long until = conf_now_ms() + 1000LL * seconds;

    while (conf_now_ms() < until) {
        unsigned index = (unsigned)rand_r(&seed) % count, sites = sites_of(index);

        for (int i = 0; i < 8 && sites && conf_now_ms() < until; i++)
            sweep_one(index, 1 + (unsigned)rand_r(&seed) % sites);
    }
}

int faults_sweep(const struct conf_case *const *groups, const char *only)
{
    const char *given = getenv("WEFT_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
    unsigned count = gather(groups, only);

    if (!count || (kind == FAILING_ALLOCATION && !FAILING_ALLOCATIONS))
        exit(count ? 77 : 2);
    printf("%s: %u cases, WEFT_SEED=%u\n", conf_spec, count, seed);
    if (seconds)
        sweep_some(count, seed);
    for (unsigned i = 0; !seconds && i < count; i++)
        for (unsigned at = 1, sites = sites_of(i); at <= sites; at++)
            sweep_one(i, at);
    printf("%s: %d passed, %d ended in an error, %d failed\n", conf_spec, verdicts[PASSED],
           verdicts[TOLD], verdicts[WRONG]);
    return verdicts[WRONG];
}
