/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loaded before a unit test by tests/support/sweep_unit: one call of the library fails in it. A
 * test that does not hold then has been told of an error, by an assertion, and ends there.
 *   WEFT_FAIL          alloc:N, call:N; 0: none does
 *   WEFT_FAIL_PLACES   a file, a line for each place of the program that is counted; without it
 *                      each place is, and they are in the report
 *   WEFT_FAIL_REPORT   a file to append lines to: "failed", "told", "counted", "place"
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "failing.h"

/* dlsym gives functions as objects. */
#pragma GCC diagnostic ignored "-Wpedantic"

enum {
    PLACES = 4096,
    EXIT_TOLD = 78,
    HIGH_FD = 200, /* out of the way of tests that look at theirs */
};

static unsigned long places[PLACES];
static int report = -1;
static bool gather;
static pid_t us;

static void tell_failed(void)
{
    unsigned long place;
    int err;
    const char *what = failing_what(&err, &place);

    dprintf(report, "failed %s %d %#lx\n", what, err, place);
}

/* In a child of the test no call fails. */
static void in_child(void)
{
    failing_stop();
}

static unsigned read_places(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned count = 0;

    while (file && count < PLACES && fscanf(file, "%lx", &places[count]) == 1)
        count++;
    if (file)
        fclose(file);
    return count;
}

__attribute__((constructor)) static void begin(void)
{
    const char *what = getenv("WEFT_FAIL"), *from = getenv("WEFT_FAIL_PLACES");
    const char *to = getenv("WEFT_FAIL_REPORT"), *number = what ? strchr(what, ':') : NULL;
    int fd = to ? open(to, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (!number || fd < 0)
        return;
    report = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    close(fd);
    gather = !from;
    failing_own(gather ? NULL : places, gather ? 0 : read_places(from));
    us = getpid();
    failing_hook = tell_failed;
    unsetenv("LD_PRELOAD");
    unsetenv("WEFT_FAIL");
    pthread_atfork(NULL, NULL, in_child);
    failing_start(what[0] == 'a' ? FAILING_ALLOCATION : FAILING_SYSTEM_CALL,
                  (unsigned)atoi(number + 1));
}

__attribute__((destructor)) static void end(void)
{
    unsigned counted = failing_stop(), count;

    if (report < 0 || getpid() != us)
        return;
    dprintf(report, "counted %u\n", counted);
    count = gather ? failing_places(places, PLACES) : 0;
    for (unsigned i = 0; i < count; i++)
        dprintf(report, "place %#lx\n", places[i]);
}

/* cmocka's, behind all of its assertions. */
void _fail(const char *file, int line);

void _fail(const char *file, int line)
{
    __typeof__(&_fail) next = (__typeof__(&_fail))dlsym(RTLD_NEXT, "_fail");
    unsigned long place;
    int err;

    if (report >= 0 && getpid() == us && failing_what(&err, &place)) {
        failing_stop();
        dprintf(report, "told %s:%d\n", file, line);
        _exit(EXIT_TOLD);
    }
    next(file, line);
}
