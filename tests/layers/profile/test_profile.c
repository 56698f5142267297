/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports in each format, and what counting costs: no lock, allocation, system call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>

#include <rdma/fi_profile.h>

#include "../pair.h"

enum {
    PATIENCE = 6000 /* looks, of 10 ms */
};

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

static const char *stack_over(const char *options, const char *below)
{
    static char spec[256];

    snprintf(spec, sizeof(spec), "profile(file=%s%s);%s", path, options, below);
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
    says("\"fi_trecv\":{\"calls\":100,\"again\":0,\"failed\":0,\"bytes\":800,\"retried\":0,"
         "\"sizes\":{\"8\":100}}");
    says("\"fi_tinject\":{\"calls\":1,\"again\":0,\"failed\":1,\"bytes\":0,\"retried\":0,"
         "\"sizes\":{}}");
    says("\"completions\":200,\"errors\":0");
    says("\"receive\":{\"timed\":100,");
    says("\"send\":{\"timed\":100,");
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
    says("# TYPE weft_message_bytes histogram\n");
    says("call=\"fi_tsend\",le=\"7\"} 0\n");
    says("call=\"fi_tsend\",le=\"15\"} 10\n");
    says("call=\"fi_tsend\",le=\"+Inf\"} 10\n");
    says("weft_message_bytes_sum{");
    run(",format=prometheus", 20); /* replaced, not added to */
    says("call=\"fi_tsend\"} 20\n");
    assert_null(strstr(report, "call=\"fi_tsend\"} 10\n"));
}

static void a_table_to_read(void **state)
{
    run("", 10);
    says("profile over loop, process ");
    says("fi_tsend ");
    says("sizes of fi_tsend: 8.. 10\n");
}

static void each_call_has_its_sizes(void **state)
{
    char bytes[300] = {0};
    struct pair pair;

    pair_open(&pair, stack(""));
    for (int i = 0; i < 3; i++)
        assert_int_equal(fi_tinject(pair.ep[0], bytes, 1, pair.to[1], 1), 0);
    assert_int_equal(fi_tsend(pair.ep[0], bytes, 300, NULL, pair.to[1], 1, NULL), 0);
    assert_int_equal(fi_tsend(pair.ep[0], bytes, 0, NULL, pair.to[1], 1, NULL), 0);
    pair_close(&pair);
    read_report();
    says("sizes of fi_tinject: 1.. 3\n");
    says("sizes of fi_tsend: 0 1 256.. 1\n");
}

static void reports_come_at_intervals(void **state)
{
    struct pair pair;

    pair_open(&pair, stack(",every=20ms"));
    for (int i = 0; i < PATIENCE && (i == 0 || !report[0]); i++) {
        usleep(10000);
        read_report();
    }
    says("profile over loop");
    pair_close(&pair);
}

/* ---- Refusals, messages that wait ---- */

static void accepted_after_a_refusal_is_a_retry(void **state)
{
    struct pair pair;
    char byte = 0;

    pair_open(&pair, stack_over(",format=json", "fault(eagain=50%);loop"));
    for (int i = 0; i < 100; i++)
        while (fi_tinject(pair.ep[0], &byte, 1, pair.to[1], 1) == -FI_EAGAIN)
            ;
    pair_close(&pair);
    read_report();
    says("\"fi_tinject\":{\"calls\":");
    assert_in_range(atoi(strstr(report, "\"retried\":") + strlen("\"retried\":")), 25, 75);
}

static void read_often(struct pair *pair)
{
    for (int i = 0; i < 1000; i++)
        fi_cq_read(pair->cq, NULL, 0);
}

static void what_waits_is_seen(void **state)
{
    char byte = 0, to[8];
    struct pair pair;

    pair_open(&pair, stack(",format=json,every=20ms"));
    for (int i = 0; i < 7; i++)
        assert_int_equal(fi_tinject(pair.ep[0], &byte, 1, pair.to[1], 1), 0);
    read_often(&pair);
    for (int i = 0; i < PATIENCE && !strstr(report, "\"waiting\":7,\"most_waiting\":7,"); i++) {
        usleep(10000);
        read_report();
    }
    says("\"waiting\":7,\"most_waiting\":7,");
    for (int i = 0; i < 7; i++)
        assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    read_often(&pair);
    for (int i = 0; i < PATIENCE && !strstr(report, "\"waiting\":0,\"most_waiting\":7,"); i++) {
        usleep(10000);
        read_report();
    }
    says("\"waiting\":0,\"most_waiting\":7,");
    pair_close(&pair);
}

/* ---- Signals ---- */

static atomic_int own_handler;

static void count_signal(int signo)
{
    own_handler++;
}

static bool reported(void)
{
    for (int i = 0; i < PATIENCE; i++) {
        usleep(10000);
        read_report();
        if (report[0])
            return true;
    }
    return false;
}

static void a_signal_is_a_report(void **state)
{
    struct sigaction before = {.sa_handler = count_signal}, now;
    struct pair pair;

    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    pair_open(&pair, stack(",signal=USR1"));
    report[0] = 0;
    raise(SIGUSR1);
    assert_true(reported());
    says("profile over loop");
    assert_int_equal(own_handler, 1); /* the application's is called, too */
    pair_close(&pair);
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_true(now.sa_handler == count_signal); /* and stands again */
}

static void a_later_handler_stays(void **state)
{
    struct sigaction later = {.sa_handler = count_signal}, now;
    struct pair pair;

    signal(SIGUSR2, SIG_DFL);
    pair_open(&pair, stack(",signal=USR2"));
    raise(SIGUSR2); /* it would have ended the process */
    assert_int_equal(sigaction(SIGUSR2, &later, NULL), 0);
    pair_close(&pair);
    assert_int_equal(sigaction(SIGUSR2, NULL, &now), 0);
    assert_true(now.sa_handler == count_signal);
    signal(SIGUSR2, SIG_DFL);
}

static void two_fabrics_share_a_signal(void **state)
{
    struct pair one, two;

    pair_open(&one, stack(",signal=USR1"));
    pair_open(&two, stack(",signal=USR1"));
    pair_close(&one);
    unlink(path);
    raise(SIGUSR1);
    for (int i = 0; i < PATIENCE && access(path, F_OK); i++)
        usleep(10000);
    assert_int_equal(access(path, F_OK), 0);
    pair_close(&two);
}

/* ---- fi_profile(3) ---- */

static uint64_t value(struct fid_profile *profile, uint32_t id)
{
    uint64_t data = UINT64_MAX;

    assert_int_equal(fi_profile_read_u64(profile, id, &data), 0);
    return data;
}

static uint32_t id_of(struct fid_profile *profile, const char *name)
{
    struct fi_profile_desc list[64];
    size_t count = 64;
    ssize_t given = fi_profile_query_vars(profile, list, &count);

    for (ssize_t i = 0; i < given; i++)
        if (!strcmp(list[i].name, name))
            return list[i].id;
    fail_msg("no variable %s", name);
    return 0;
}

static void variables_are_listed(void **state)
{
    struct fi_profile_desc list[64];
    struct fid_profile *profile = NULL;
    size_t all = 0, two = 2;
    struct pair pair;

    pair_open(&pair, stack(""));
    assert_int_equal(fi_profile_open(&pair.domain->fid, 0, &profile, &pair), 0);
    assert_ptr_equal(profile->fid.context, &pair);
    assert_int_equal(fi_profile_query_vars(profile, NULL, &all), 0);
    assert_in_range(all, 5, 64);
    assert_int_equal(fi_profile_query_vars(profile, list, &two), 2);
    assert_int_equal(two, all);
    assert_int_equal(fi_profile_query_vars(profile, list, &all), all);
    for (size_t i = 0; i < all; i++) {
        if (list[i].id == FI_VAR_UNEXP_MSG_QUEUE)
            continue; /* what_waits_is_told */
        assert_int_equal(list[i].datatype_sel, fi_primitive_type);
        assert_int_equal(list[i].datatype.primitive, FI_UINT64);
        assert_int_equal(list[i].size, 8);
        assert_non_null(list[i].desc);
        value(profile, list[i].id);
    }
    all = 5;
    assert_int_equal(fi_profile_query_events(profile, list, &all), 0); /* it stands above */
    assert_int_equal(all, 0);
    assert_int_equal(fi_profile_read_u64(profile, 4711, (uint64_t *)list), -FI_EINVAL);
    assert_int_equal(fi_profile_close(profile), 0);
    pair_close(&pair);
}

static void variables_have_the_counts(void **state)
{
    struct fid_profile *profile = NULL;
    char from[8] = "", to[8];
    struct pair pair;

    pair_open(&pair, stack(""));
    assert_int_equal(fi_profile_open(&pair.ep[1]->fid, 0, &profile, NULL), 0);
    for (int i = 0; i < 10; i++)
        assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    assert_int_equal(value(profile, id_of(profile, "calls")), 20);
    assert_int_equal(value(profile, id_of(profile, "bytes_sent")), 80);
    assert_int_equal(value(profile, id_of(profile, "completions")), 20);
    assert_int_equal(fi_tinject(pair.ep[0], from, 8, pair.to[1], 5), 0);
    read_often(&pair);
    assert_int_equal(value(profile, FI_VAR_UNEXP_MSG_CNT), 1);
    fi_profile_start_reads(profile, 0);
    assert_int_equal(fi_tinject(pair.ep[0], from, 8, pair.to[1], 5), 0);
    read_often(&pair);
    assert_int_equal(value(profile, id_of(profile, "calls")), 21);
    assert_int_equal(value(profile, FI_VAR_UNEXP_MSG_CNT), 1);
    fi_profile_end_reads(profile, 0);
    assert_int_equal(value(profile, id_of(profile, "calls")), 22);
    assert_int_equal(value(profile, FI_VAR_UNEXP_MSG_CNT), 2);
    fi_profile_reset(profile, 0);
    assert_int_equal(value(profile, id_of(profile, "calls")), 0);
    fi_close(&pair.ep[1]->fid); /* the handle outlives its endpoint */
    value(profile, FI_VAR_UNEXP_MSG_CNT);
    assert_int_equal(fi_profile_close(profile), 0);
    assert_int_equal(fi_endpoint(pair.domain, pair.info, &pair.ep[1], NULL), 0);
    pair_close(&pair);
}

/* Which messages wait, and that they do not change while they are looked at. */
static void what_waits_is_told(void **state)
{
    struct fi_profile_desc list[64];
    struct fi_cq_err_entry waiting[4];
    struct fid_profile *profile = NULL;
    struct pair pair;
    char from[64] = "";
    size_t size, count = 64;

    pair_open(&pair, stack(""));
    assert_int_equal(fi_profile_open(&pair.ep[1]->fid, 0, &profile, NULL), 0);
    assert_true(fi_profile_query_vars(profile, list, &count) > 0);
    assert_int_equal(list[count - 1].id, FI_VAR_UNEXP_MSG_QUEUE);
    assert_int_equal(list[count - 1].datatype_sel, fi_defined_type);
    assert_int_equal(list[count - 1].datatype.defined, FI_TYPE_CQ_ERR_ENTRY);
    size = sizeof(waiting);
    assert_int_equal(profile->ops->read_var(profile, FI_VAR_UNEXP_MSG_QUEUE, waiting, &size), 0);
    assert_int_equal(size, 0);
    assert_int_equal(fi_tinject(pair.ep[0], from, 8, pair.to[1], 5), 0);
    assert_int_equal(fi_tinjectdata(pair.ep[0], from, 20, 9, pair.to[1], 6), 0);
    assert_int_equal(fi_inject(pair.ep[0], from, 3, pair.to[1]), 0);
    read_often(&pair);
    size = sizeof(waiting[0]);
    assert_int_equal(profile->ops->read_var(profile, FI_VAR_UNEXP_MSG_QUEUE, waiting, &size),
                     -FI_ETOOSMALL);
    assert_int_equal(size, 3 * sizeof(waiting[0]));
    fi_profile_start_reads(profile, 0);
    assert_int_equal(fi_tinject(pair.ep[0], from, 8, pair.to[1], 7), 0);
    read_often(&pair);
    size = sizeof(waiting);
    assert_int_equal(profile->ops->read_var(profile, FI_VAR_UNEXP_MSG_QUEUE, waiting, &size), 0);
    assert_int_equal(size, 3 * sizeof(waiting[0]));
    assert_int_equal(waiting[0].flags, FI_MSG | FI_RECV);
    assert_int_equal(waiting[0].len, 3);
    assert_int_equal(waiting[1].flags, FI_TAGGED | FI_RECV);
    assert_int_equal(waiting[1].tag, 5);
    assert_int_equal(waiting[2].len, 20);
    assert_int_equal(waiting[2].tag, 6);
    assert_int_equal(waiting[2].data, 9);
    assert_true(waiting[2].flags & FI_REMOTE_CQ_DATA);
    fi_profile_end_reads(profile, 0);
    size = sizeof(waiting);
    assert_int_equal(profile->ops->read_var(profile, FI_VAR_UNEXP_MSG_QUEUE, waiting, &size), 0);
    assert_int_equal(size, 4 * sizeof(waiting[0]));
    assert_int_equal(fi_profile_close(profile), 0);
    pair_close(&pair);
}

static void other_hooks_let_it_through(void **state)
{
    struct fid_profile *profile = NULL;
    struct pair pair;

    pair_open(&pair, "noop;debug;profile(file=/dev/null);loop");
    assert_int_equal(fi_profile_open(&pair.ep[0]->fid, 0, &profile, NULL), 0);
    value(profile, FI_VAR_UNEXP_MSG_CNT);
    assert_int_equal(fi_profile_close(profile), 0);
    pair_close(&pair);
    pair_open(&pair, "noop;loop");
    assert_int_equal(fi_profile_open(&pair.ep[0]->fid, 0, &profile, NULL), -FI_ENOSYS);
    pair_close(&pair);
}

static void a_file_that_cannot_be_written_is_an_error(void **state)
{
    assert_int_equal(pair_fabric_rc("profile(file=\"/nonexistent/x\");loop"), -ENOENT);
    assert_int_equal(pair_fabric_rc("profile(file=\"/tmp\");loop"), -EISDIR);
}

static void no_system_call_is_made(void **state)
{
    pair_makes_no_system_call(stack(""));
}

/* The disk is full when the report is written: it is lost, and said so. */
static void a_full_disk_does_not_stop_the_program(void **state)
{
    pair_message_over("profile(file=\"/dev/full\");loop");
}

static void no_lock_is_taken_and_nothing_allocated(void **state)
{
    pair_costs_nothing(stack(",sample=1"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(json_has_every_count),
        TEST(one_in_so_many_is_timed),
        TEST(prometheus_text),
        TEST(a_table_to_read),
        TEST(each_call_has_its_sizes),
        TEST(reports_come_at_intervals),
        TEST(a_file_that_cannot_be_written_is_an_error),
        TEST(accepted_after_a_refusal_is_a_retry),
        TEST(what_waits_is_seen),
        TEST(a_signal_is_a_report),
        TEST(a_later_handler_stays),
        TEST(two_fabrics_share_a_signal),
        TEST(variables_are_listed),
        TEST(variables_have_the_counts),
        TEST(what_waits_is_told),
        TEST(other_hooks_let_it_through),
        TEST(no_system_call_is_made),
        TEST(a_full_disk_does_not_stop_the_program),
        TEST(no_lock_is_taken_and_nothing_allocated),
    };

    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
