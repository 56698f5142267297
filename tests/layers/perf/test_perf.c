/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports of perf, where there are counters and where there are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <linux/perf_event.h>

#include "../pair.h"

static char path[64], report[16384];

static int setup(void **state)
{
    static int number;

    snprintf(path, sizeof(path), "/tmp/weft-test-perf.%d.%d", (int)getpid(), number++);
    return 0;
}

static int teardown(void **state)
{
    unlink(path);
    return 0;
}

static const char *stack(const char *options)
{
    static char spec[256];

    snprintf(spec, sizeof(spec), "perf(file=%s%s);loop", path, options);
    return spec;
}

static void read_file(const char *name)
{
    int fd = open(name, O_RDONLY);
    ssize_t len;

    assert_true(fd >= 0);
    len = read(fd, report, sizeof(report) - 1);
    assert_true(len >= 0);
    report[len] = 0;
    close(fd);
}

static void says(const char *text)
{
    if (!strstr(report, text))
        print_error("no '%s' in:\n%s\n", text, report);
    assert_non_null(strstr(report, text));
}

static void run(const char *options, int messages)
{
    char from[64] = "", to[64];
    struct pair pair;

    pair_open(&pair, stack(options));
    for (int i = 0; i < messages; i++)
        assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    pair_close(&pair);
    read_file(path);
}

static bool kernel_counts(void)
{
    struct perf_event_attr attr = {.size = sizeof(attr),
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .exclude_kernel = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void each_function_has_its_mean(void **state)
{
    run(",events=tsc", 100);
    says("perf over loop: test_layers_perf");
    says(", process ");
    says("tsc");
    says("fi_tsend                        100");
    says("fi_trecv                        100");
    says("fi_cq_read                      200");
}

static void software_events_are_counted(void **state)
{
    if (!kernel_counts())
        skip();
    run(",events=task_clock|page_faults,format=json", 100);
    says("{\"over\":\"loop\"");
    says("\"fi_tsend\":{\"calls\":100,\"task_clock\":");
    says("\"page_faults\":");
    assert_true(atol(strstr(strstr(report, "\"fi_tsend\""), "task_clock\":") + 12) > 0);
}

/* A kernel that refuses perf_event_open: the filter says so to this process. */
static bool forbid_perf(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(rules) / sizeof(*rules), rules};

    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int run_forbidden(const char *spec)
{
    char from[64] = "", to[64], err[80];
    struct pair pair;
    bool ok = forbid_perf();

    snprintf(err, sizeof(err), "%s.err", path);
    ok = ok && freopen(err, "w", stderr);
    pair_open(&pair, spec);
    for (int i = 0; ok && i < 10; i++)
        ok = pair_message(&pair, from, to, 8, 1, &from, &to);
    pair_close(&pair);
    return ok ? 0 : 1;
}

static void without_counters_it_says_so_and_counts_ticks(void **state)
{
    char err[80];
    int lines = 0;

    assert_int_equal(pair_child(run_forbidden, stack("")), 0);
    read_file(path);
    says(" tsc ");
    says("fi_tsend                         10");
    snprintf(err, sizeof(err), "%s.err", path);
    read_file(err);
    unlink(err);
    says("perf: this kernel gives no counter for these events (Permission denied): counting TSC "
         "cycles instead\n");
    for (const char *at = report; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 1);
}

static struct pair shared;

static void *send_in_thread(void *arg)
{
    char byte = 0;

    for (int i = 0; i < 10; i++)
        fi_tinject(shared.ep[0], &byte, 1, shared.to[1], 1);
    return NULL;
}

static void each_thread_has_counters(void **state)
{
    pair_open(&shared, stack(kernel_counts() ? ",events=task_clock" : ",events=tsc"));
    for (int i = 0; i < 5; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, send_in_thread, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    send_in_thread(NULL);
    pair_close(&shared);
    read_file(path);
    says("fi_tinject                       60");
}

static void upstreams_names_work(void **state)
{
    char from[64] = "", to[64], spec[128];
    struct pair pair;

    setenv("FI_HOOK", "perf;trace", 1);
    setenv("FI_PERF_CNTR", "cpu_instr", 1);
    snprintf(spec, sizeof(spec), "%s.trace", path);
    setenv("FI_TRACE_FILE", spec, 1);
    setenv("FI_PERF_FILE", path, 1);
    pair_open(&pair, "loop");
    assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    pair_close(&pair);
    unsetenv("FI_HOOK");
    unsetenv("FI_PERF_CNTR");
    unsetenv("FI_TRACE_FILE");
    unsetenv("FI_PERF_FILE");
    assert_int_equal(unlink(spec), 0);
    read_file(path);
    says("perf over ");
    assert_true(strstr(report, "instructions") || strstr(report, "tsc"));
    assert_null(strstr(report, "cache_misses"));
    snprintf(spec, sizeof(spec), "ofi_hook_perf(file=%s);loop", path);
    pair_open(&pair, spec);
    pair_close(&pair);
}

static void mistakes_are_errors(void **state)
{
    assert_int_equal(pair_fabric_rc("perf(file=\"/nonexistent/x\");loop"), -ENOENT);
    assert_int_equal(pair_fabric_rc("perf(events=cycels);loop"), -FI_ENODATA);
}

static void ticks_need_no_system_call(void **state)
{
    pair_makes_no_system_call(stack(",events=tsc"));
}

/* The disk is full when the report is written: it is lost, and said so. */
static void a_full_disk_does_not_stop_the_program(void **state)
{
    pair_message_over("perf(file=\"/dev/full\");loop");
}

static void no_lock_is_taken_and_nothing_allocated(void **state)
{
    pair_costs_nothing(stack(",events=tsc"));
    pair_costs_nothing(stack(""));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_function_has_its_mean),
        TEST(software_events_are_counted),
        TEST(without_counters_it_says_so_and_counts_ticks),
        TEST(each_thread_has_counters),
        TEST(upstreams_names_work),
        TEST(mistakes_are_errors),
        TEST(ticks_need_no_system_call),
        TEST(a_full_disk_does_not_stop_the_program),
        TEST(no_lock_is_taken_and_nothing_allocated),
    };

    return cmocka_run_group_tests_name("perf", tests, NULL, NULL);
}
