/* SPDX-License-Identifier: BSD-2-Clause */
/* Each case runs in a process of its own, so that one that hangs or crashes is one failure. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf.h"

enum {
    EXIT_SKIP = 77,
    CASE_SECONDS = 60
};

const char *conf_spec;

static const struct conf_case *const groups[] = {conf_msg_cases,  conf_rma_cases,  conf_cq_cases,
                                                 conf_wait_cases, conf_life_cases, conf_bad_cases};

void conf_check_at(bool ok, const char *file, int line, const char *fmt, ...)
{
    va_list args;

    if (ok)
        return;
    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    _exit(1);
}

void conf_skip(const char *why)
{
    printf("  (%s)", why);
    fflush(stdout);
    _exit(EXIT_SKIP);
}

/* 1 passed, 0 skipped, -1 failed */
static int run(const struct conf_case *one)
{
    int status;
    pid_t pid;

    printf("%-44s", one->name);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        alarm(CASE_SECONDS);
        one->run();
        exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        printf("  ok\n");
        return 1;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP) {
        printf("  not offered\n");
        return 0;
    }
    if (WIFSIGNALED(status))
        printf("  FAILED: %s\n", strsignal(WTERMSIG(status)));
    else
        printf("  FAILED\n");
    return -1;
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0, skipped = 0;

    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: conformance SPEC [CASE]\n");
        return 2;
    }
    conf_spec = argv[1];
    setenv("FI_PROVIDER", conf_spec, 1);
    setenv("FI_TRACE_FILE", "/tmp/weft-trace.conformance", 0); /* not one for each case, here */
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (const struct conf_case *one = groups[g]; one->name; one++) {
            int result;

            if (argc == 3 && !strstr(one->name, argv[2]))
                continue;
            result = run(one);
            passed += result == 1;
            failed += result == -1;
            skipped += result == 0;
        }
    }
    printf("%s: %d passed, %d failed, %d not offered\n", conf_spec, passed, failed, skipped);
    return failed != 0;
}
