/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports in each format, and what counting costs: no lock, allocation, system call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../pair.h"

static char path[64], report[16384];

static int setup(void **state)
{
    static int number;

    snprintf(path, sizeof(path), "/tmp/weft-test-profile.%d.%d", (int)getpid(), number++);
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

    snprintf(spec, sizeof(spec), "profile(file=%s%s);loop", path, options);
    return spec;
}

static void read_report(void)
{
    int fd = open(path, O_RDONLY);
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
    assert_true(fi_tinject(pair.ep[0], from, (size_t)1 << 40, pair.to[1], 1) < 0);
    pair_close(&pair);
    read_report();
}

static void json_has_every_count(void **state)
{
    run(",format=json,sample=1", 100);
    says("{\"over\":\"loop\"");
    says("\"fi_trecv\":{\"calls\":100,\"again\":0,\"failed\":0,\"bytes\":800}");
    says("\"fi_tinject\":{\"calls\":1,\"again\":0,\"failed\":1,\"bytes\":0}");
    says("\"completions\":200,\"errors\":0");
    says("\"receive\":{\"sizes\":{\"8\":100},\"timed\":100,");
    says("\"send\":{\"sizes\":{\"8\":100},\"timed\":100,");
}

static void one_in_so_many_is_timed(void **state)
{
    run(",format=json,sample=10", 100); /* of 200 operations */
    says("\"timed\":");
    assert_int_equal(atoi(strstr(strstr(report, "\"receive\""), "\"timed\":") + 8) +
                         atoi(strstr(strstr(report, "\"send\""), "\"timed\":") + 8),
                     20);
}

static void prometheus_text(void **state)
{
    run(",format=prometheus,sample=1", 10);
    says("# TYPE weft_calls_total counter\n");
    says("over=\"loop\",call=\"fi_tsend\"} 10\n");
    says("class=\"send\",quantile=\"0.99\"} 0.0");
    says("weft_latency_seconds_count{");
    run(",format=prometheus", 20); /* replaced, not added to */
    says("call=\"fi_tsend\"} 20\n");
    assert_null(strstr(report, "call=\"fi_tsend\"} 10\n"));
}

static void a_table_to_read(void **state)
{
    run("", 10);
    says("profile over loop, process ");
    says("fi_tsend ");
    says("sizes of send: 8.. 10\n");
}

static void reports_come_at_intervals(void **state)
{
    struct pair pair;

    pair_open(&pair, stack(",every=20ms"));
    for (int i = 0; i < 200 && (i == 0 || !report[0]); i++) {
        usleep(10000);
        read_report();
    }
    says("profile over loop");
    pair_close(&pair);
}

static int fabric_rc(const char *spec)
{
    struct fi_info *info = pair_info(spec);
    struct fid_fabric *fabric;
    int rc = fi_fabric(info->fabric_attr, &fabric, NULL);

    if (!rc)
        fi_close(&fabric->fid);
    fi_freeinfo(info);
    return rc;
}

static void a_file_that_cannot_be_written_is_an_error(void **state)
{
    assert_int_equal(fabric_rc("profile(file=\"/nonexistent/x\");loop"), -ENOENT);
    assert_int_equal(fabric_rc("profile(file=\"/tmp\");loop"), -EISDIR);
}

static void no_system_call_is_made(void **state)
{
    assert_int_equal(pair_child(pair_without_system_calls, stack("")), 0);
}

static void no_lock_is_taken_and_nothing_allocated(void **state)
{
    bool same_heap;
    int without = pair_locks_of("loop", &same_heap);

    assert_int_equal(pair_locks_of(stack(",sample=1"), &same_heap), without);
    assert_true(same_heap);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(json_has_every_count),      TEST(one_in_so_many_is_timed),
        TEST(prometheus_text),           TEST(a_table_to_read),
        TEST(reports_come_at_intervals), TEST(a_file_that_cannot_be_written_is_an_error),
        TEST(no_system_call_is_made),    TEST(no_lock_is_taken_and_nothing_allocated),
    };

    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
