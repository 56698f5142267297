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
    assert_true(fi_tinject(pair.ep[0], from, SIZE_MAX / 4, pair.to[1], 1) < 0);
    pair_close(&pair);
    read_report();
}

static void read_often(struct pair *pair)
{
    for (int i = 0; i < 1000; i++)
        fi_cq_read(pair->cq, NULL, 0);
}

static void json_has_every_count(void **state)
{
    run(",format=json,sample=1", 100);
    says("{\"over\":\"loop\"");
    says("\"fi_trecv\":{\"calls\":100,\"again\":0,\"failed\":0,\"retried\":0}");
    says("\"fi_tsend\":{\"calls\":100,\"again\":0,\"failed\":0,\"retried\":0,\"bytes\":800,"
         "\"sizes\":{\"8\":100}}");
    says("\"fi_tinject\":{\"calls\":1,\"again\":0,\"failed\":1,\"retried\":0,\"bytes\":0,"
         "\"sizes\":{}}");
    says("\"received\":{\"messages\":100,\"bytes\":800,\"sizes\":{\"8\":100}}");
    says("\"completions\":200,\"errors\":0");
    says("\"receive\":{\"first\":1,");
    says("\"timed\":99,");
    says("\"send\":{\"first\":1,");
}

static int timed(const char *class)
{
    const char *at = strstr(report, class);

    at = at ? strstr(at, "\"timed\":") : NULL;
    return at ? atoi(at + strlen("\"timed\":")) : 0;
}

static void one_in_so_many_is_timed(void **state)
{
    run(",format=json,sample=10", 1000);
    assert_in_range(timed("\"receive\":{"), 70, 140);
    assert_in_range(timed("\"send\":{"), 70, 140);
}

/* Receive, receive, send, send, 64 times over: one countdown for all would land on one of them. */
static void no_period_hides_a_kind(void **state)
{
    char from[8] = "", to[2][8];
    struct fi_cq_tagged_entry entry;
    struct pair pair;

    pair_open(&pair, stack(",format=json,sample=64"));
    for (int i = 0; i < 1000; i++) {
        for (int n = 0; n < 2; n++)
            assert_int_equal(fi_trecv(pair.ep[1], to[n], 8, NULL, FI_ADDR_UNSPEC, 1, 0, to[n]), 0);
        for (int n = 0; n < 2; n++)
            assert_int_equal(fi_tsend(pair.ep[0], from, 8, NULL, pair.to[1], 1, from + n), 0);
        for (int left = 4; left;)
            left -= fi_cq_read(pair.cq, &entry, 1) == 1;
    }
    pair_close(&pair);
    read_report();
    assert_in_range(timed("\"receive\":{"), 10, 80);
    assert_in_range(timed("\"send\":{"), 10, 80);
}

/* A refused first operation is not the first; the one that is accepted then is. */
static void the_first_is_told_apart(void **state)
{
    char from[8] = "", to[8];
    struct pair pair;

    pair_open(&pair, stack_over(",format=json,sample=1", "fault(fail=send:1);loop"));
    assert_true(fi_tsend(pair.ep[0], from, 8, NULL, pair.to[1], 1, &from) < 0);
    for (int i = 0; i < 5; i++)
        assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    pair_close(&pair);
    read_report();
    says("\"send\":{\"first\":1,\"first_ns\":");
    assert_int_equal(timed("\"send\":{"), 4);
}

static void what_is_not_known_is_left_out(void **state)
{
    char from[8] = "";
    struct pair pair;

    pair_open(&pair, stack(",format=json,sample=1"));
    assert_int_equal(fi_tinject(pair.ep[0], from, 8, pair.to[1], 1), 0);
    pair_close(&pair);
    read_report();
    says("\"classes\":{}");
    assert_null(strstr(report, "\"received\":"));
    assert_null(strstr(report, "\"unexpected\":"));
    assert_null(strstr(report, "\"rank\":"));
    says("\"waiting\":0,");
}

/* Not those of the buffers that were posted. */
static void sizes_of_receives_are_those_that_came(void **state)
{
    static char from[300], to[65536];
    struct fi_cq_tagged_entry entry;
    struct pair pair;

    pair_open(&pair, stack(",format=json,sample=1"));
    for (int i = 0; i < 10; i++) {
        assert_int_equal(fi_trecv(pair.ep[1], to, sizeof(to), NULL, FI_ADDR_UNSPEC, 1, 0, to), 0);
        assert_int_equal(fi_tsend(pair.ep[0], from, sizeof(from), NULL, pair.to[1], 1, NULL), 0);
        for (int left = 2; left;)
            left -= fi_cq_read(pair.cq, &entry, 1) == 1;
    }
    pair_close(&pair);
    read_report();
    says("\"received\":{\"messages\":10,\"bytes\":3000,\"sizes\":{\"256\":10}}");
    says("\"by_size\":[{\"from\":64,\"to\":511,\"timed\":9,");
}

/* Looking at a message with FI_PEEK receives nothing. */
static void a_message_that_is_looked_at_is_not_received(void **state)
{
    char from[8] = "", to[8];
    struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = 1, .context = to};
    struct fi_cq_tagged_entry entry;
    struct pair pair;

    pair_open(&pair, stack(",format=json"));
    assert_int_equal(fi_tinject(pair.ep[0], from, 8, pair.to[1], 1), 0);
    read_often(&pair);
    assert_int_equal(fi_trecvmsg(pair.ep[1], &msg, FI_PEEK), 0);
    while (fi_cq_read(pair.cq, &entry, 1) != 1)
        ;
    assert_int_equal(entry.len, 8);
    assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, to), 0);
    while (fi_cq_read(pair.cq, &entry, 1) != 1)
        ;
    pair_close(&pair);
    read_report();
    says("\"received\":{\"messages\":1,\"bytes\":8,");
}

/* Each has the other's address. */
static void what_goes_to_each_peer(void **state)
{
    char from[300] = "", to[300], address[256], text[300];
    size_t len = sizeof(address);
    struct pair pair;

    pair_open(&pair, stack(",format=json"));
    for (int i = 0; i < 3; i++)
        assert_true(pair_message(&pair, from, to, 300, 1, &from, &to));
    assert_int_equal(fi_tinject(pair.ep[1], from, 8, pair.to[0], 9), 0);
    assert_int_equal(fi_getname(&pair.ep[1]->fid, address, &len), 0);
    pair_close(&pair);
    read_report();
    says("\"addresses\":[\"");
    says(",\"messages\":3,\"bytes\":900}");
    says(",\"messages\":1,\"bytes\":8}");
    if (len && address[0] > ' ') {
        snprintf(text, sizeof(text), "{\"address\":\"%.200s\",\"messages\":3", address);
        says(text);
    }
}

/* As Open MPI does before it closes. */
static void a_peer_that_is_removed_is_told(void **state)
{
    char from[8] = "", to[8];
    struct pair pair;

    pair_open(&pair, stack(",format=json"));
    for (int i = 0; i < 3; i++)
        assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    assert_int_equal(fi_av_remove(pair.av, pair.to, 2, 0), 0);
    pair_close(&pair);
    read_report();
    says("\"peers\":[{\"address\":\"");
    says(",\"messages\":3,\"bytes\":24}]");
}

static void reports_say_whose_they_are(void **state)
{
    setenv("PMI_RANK", "many", 1);
    setenv("PMIX_RANK", "7", 1);
    run(",format=json", 1);
    says("\"program\":\"test_layers_pro");
    says("\"host\":\"");
    says("\"pid\":");
    says("\"rank\":7,");
    says("\"elapsed\":");
    unlink(path);
    run(",format=prometheus", 1);
    says("rank=\"7\",");
    says("host=\"");
    says("# TYPE weft_elapsed_seconds gauge");
    unlink(path);
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    run("", 1);
    says(", rank 3, process ");
    unsetenv("PMI_RANK");
    unsetenv("PMIX_RANK");
    unsetenv("OMPI_COMM_WORLD_RANK");
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

static int report_beside(const char *spec)
{
    pair_message_over(spec);
    return 0;
}

/* Neither replaces the other's: the second one's file has its number. */
static void two_processes_with_one_file_have_two(void **state)
{
    char spec[300], other[128];
    struct pair pair;
    pid_t pid;
    int status;

    snprintf(spec, sizeof(spec), "%s", stack(",format=prometheus"));
    pair_open(&pair, spec);
    pid = fork();
    if (!pid)
        _exit(report_beside(spec));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    pair_close(&pair);
    read_report();
    snprintf(other, sizeof(other), "pid=\"%d\"", (int)getpid());
    says(other);
    snprintf(other, sizeof(other), "/tmp/weft-test-profile.%d.%d%s", (int)getpid(), (int)pid,
             strrchr(path, '.'));
    assert_int_equal(rename(other, path), 0);
    read_report();
    snprintf(other, sizeof(other), "pid=\"%d\"", (int)pid);
    says(other);
}

static void a_table_to_read(void **state)
{
    run("", 10);
    says("profile over loop: test_layers_pro");
    says("fi_tsend ");
    says("received: 10 messages, 80 bytes\n");
    says("sizes of fi_tsend, bytes: 8-15: 10\n");
    says("sizes of received messages, bytes: 8-15: 10\n");
    says("messages before their receive: 0 wait now, at most 0 were seen to wait at once");
    says(": 10 operations, 80 bytes\n");
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
    says("sizes of fi_tinject, bytes: 1: 3\n");
    says("sizes of fi_tsend, bytes: 0: 1, 256-511: 1\n");
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
        TEST(no_period_hides_a_kind),
        TEST(the_first_is_told_apart),
        TEST(what_is_not_known_is_left_out),
        TEST(sizes_of_receives_are_those_that_came),
        TEST(a_message_that_is_looked_at_is_not_received),
        TEST(what_goes_to_each_peer),
        TEST(a_peer_that_is_removed_is_told),
        TEST(reports_say_whose_they_are),
        TEST(prometheus_text),
        TEST(two_processes_with_one_file_have_two),
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
