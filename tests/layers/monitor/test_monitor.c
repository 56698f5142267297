/* SPDX-License-Identifier: BSD-2-Clause */
/* The page file: its numbers for known traffic, place and removal; and the cost of counting. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "../pair.h"
#include "../../../tools/mon_page.h"

static char base[64];
static struct mon_file *files;
static int file_count;

static int setup(void **state)
{
    static int number;

    snprintf(base, sizeof(base), "/dev/shm/weft-test-mon.%d.%d", (int)getpid(), number++);
    return 0;
}

static int teardown(void **state)
{
    char command[128];

    mon_files_free(files, file_count);
    files = NULL;
    file_count = 0;
    snprintf(command, sizeof(command), "rm -rf '%s'", base);
    return system(command);
}

static const char *stack_over(const char *options, const char *lower)
{
    static char spec[256];

    snprintf(spec, sizeof(spec), "monitor(basepath=\"%s\"%s);%s", base, options, lower);
    return spec;
}

static const char *stack(const char *options)
{
    return stack_over(options, "loop");
}

/* The files there are. */
static int look(void)
{
    mon_files_free(files, file_count);
    files = NULL;
    file_count = mon_files_read(base, &files);
    assert_true(file_count >= 0);
    return file_count;
}

static const struct mon_page *page(void)
{
    assert_int_equal(look(), 1);
    assert_non_null(files[0].page);
    return files[0].page;
}

static uint64_t count_of(const struct mon_page *it, const char *name, uint64_t *bytes)
{
    uint64_t count = 0;

    *bytes = 0;
    for (uint32_t call = 0; call < it->header.call_count; call++)
        for (int i = 0; i < WEFT_MONITOR_SIZES && !strcmp(it->header.names[call], name); i++) {
            count += it->cells[call][i].count;
            *bytes += it->cells[call][i].bytes;
        }
    return count;
}

static void counts_are_exact(void **state)
{
    char from[512] = "", to[512];
    const struct mon_page *it;
    struct pair pair;
    uint64_t bytes;

    pair_open(&pair, stack(""));
    for (int i = 0; i < 100; i++)
        assert_true(pair_message(&pair, from, to, i < 60 ? 8 : 300, 1, &from, &to));
    assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 9, 0, &to), 0);
    assert_true(fi_tinject(pair.ep[0], from, SIZE_MAX / 4, pair.to[1], 1) < 0);
    it = page();
    assert_int_equal(count_of(it, "fi_tsend", &bytes), 100);
    assert_int_equal(bytes, 60 * 8 + 40 * 300);
    assert_int_equal(count_of(it, "fi_trecv", &bytes), 101);
    assert_int_equal(it->sum.calls, 201);
    assert_int_equal(it->sum.failed, 1);
    assert_int_equal(it->sum.counts[WEFT_MONITOR_DONE_TX], 100);
    assert_int_equal(it->sum.counts[WEFT_MONITOR_DONE_RX], 100);
    assert_int_equal(mon_depth(it, &it->sum, false), 0);
    assert_int_equal(mon_depth(it, &it->sum, true), 1);
    assert_int_equal(it->threads, 1);
    assert_string_equal(it->header.stack, "loop");
    assert_non_null(strstr(it->header.whole, "loop;ofi_hook_monitor("));
    assert_int_equal(it->header.pid, getpid());
    assert_int_equal(files[0].life, MON_RUNS);
    pair_close(&pair);
    assert_int_equal(look(), 0);
}

static void each_endpoint_has_its_counts(void **state)
{
    char from[64] = "", to[64];
    const struct mon_page *it;
    int senders = 0, receivers = 0;
    struct pair pair;

    pair_open(&pair, stack(""));
    for (int i = 0; i < 10; i++)
        assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    it = page();
    for (uint32_t i = 1; i <= it->header.object_count; i++) {
        const struct mon_object *object = &it->objects[i];

        if (object->serial && object->fclass == FI_CLASS_EP && object->sum.sent == 80)
            senders++;
        else if (object->serial && object->fclass == FI_CLASS_EP && object->sum.calls == 10)
            receivers++;
    }
    assert_int_equal(senders, 1);
    assert_int_equal(receivers, 1);
    pair_close(&pair);
}

/* Counts of what has closed are kept, and its place is used again. */
static void counts_outlive_their_objects(void **state)
{
    char from[64] = "", to[64];
    const struct mon_page *it;
    struct pair pair;

    pair_open(&pair, stack(""));
    assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(fi_close(&pair.ep[0]->fid), 0);
        assert_int_equal(fi_endpoint(pair.domain, pair.info, &pair.ep[0], NULL), 0);
        assert_int_equal(fi_ep_bind(pair.ep[0], &pair.cq->fid, FI_TRANSMIT | FI_RECV), 0);
        assert_int_equal(fi_ep_bind(pair.ep[0], &pair.av->fid, 0), 0);
        assert_int_equal(fi_enable(pair.ep[0]), 0);
        assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    }
    it = page();
    assert_int_equal(it->sum.calls, 12);
    assert_int_equal(it->objects[0].sum.calls, 5);
    assert_int_equal(it->header.object_count, 4); /* domain, cq, two endpoints */
    /* Of cq, two endpoints and what has closed: a program may open and close for ever. */
    assert_int_equal(it->header.block_count, 4);
    pair_close(&pair);
}

static void more_objects_than_entries_are_counted_together(void **state)
{
    enum {
        MANY = WEFT_MONITOR_OBJECTS + 20
    };
    static struct fid_cq *cqs[MANY];
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 1};
    struct fi_cq_tagged_entry entry;
    struct pair pair;

    pair_open(&pair, stack(""));
    for (int i = 0; i < MANY; i++)
        assert_int_equal(fi_cq_open(pair.domain, &attr, &cqs[i], NULL), 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(fi_cq_read(cqs[i], &entry, 1), -FI_EAGAIN);
    assert_int_equal(page()->sum.counts[WEFT_MONITOR_EMPTY_READS], MANY);
    assert_int_equal(page()->header.lost, 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(fi_close(&cqs[i]->fid), 0);
    assert_int_equal(page()->sum.counts[WEFT_MONITOR_EMPTY_READS], MANY);
    pair_close(&pair);
}

/* Receive, receive, send, send, 64 times over: one countdown for all would land on one of them. */
static void no_period_hides_a_kind(void **state)
{
    char from[8] = "", to[2][8];
    struct fi_cq_tagged_entry entry;
    const struct mon_page *it;
    struct pair pair;

    pair_open(&pair, stack(",sample=64"));
    for (int i = 0; i < 1000; i++) {
        for (int n = 0; n < 2; n++)
            assert_int_equal(fi_trecv(pair.ep[1], to[n], 8, NULL, FI_ADDR_UNSPEC, 1, 0, to[n]), 0);
        for (int n = 0; n < 2; n++)
            assert_int_equal(fi_tsend(pair.ep[1], from, 8, NULL, pair.to[1], 1, from + n), 0);
        for (int left = 4; left;)
            left -= fi_cq_read(pair.cq, &entry, 1) == 1;
    }
    it = page();
    assert_in_range(mon_timed(&it->header.times[WEFT_MONITOR_SEND], NULL), 10, 80);
    assert_in_range(mon_timed(&it->header.times[WEFT_MONITOR_RECEIVE], NULL), 10, 80);
    pair_close(&pair);
}

static void latencies_are_sampled(void **state)
{
    char from[64] = "", to[64];
    const struct mon_page *it;
    struct pair pair;

    pair_open(&pair, stack(",sample=1"));
    for (int i = 0; i < 50; i++)
        assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    it = page();
    assert_int_equal(mon_timed(&it->header.times[WEFT_MONITOR_SEND], NULL), 49); /* not the first */
    assert_true(mon_quantile(&it->header.times[WEFT_MONITOR_SEND], NULL, 0.5) > 0);
    assert_true(mon_quantile(&it->header.times[WEFT_MONITOR_SEND], NULL, 0.5) <=
                mon_quantile(&it->header.times[WEFT_MONITOR_SEND], NULL, 1));
    pair_close(&pair);
}

struct work {
    struct fid_cq *cq;
    int reads;
};

static void *read_often(void *arg)
{
    struct fi_cq_tagged_entry entry;
    struct work *work = arg;

    for (int i = 0; i < work->reads; i++)
        fi_cq_read(work->cq, &entry, 1);
    return NULL;
}

/* Threads come and go, and a reader looks meanwhile. */
static void threads_lose_no_count(void **state)
{
    enum {
        THREADS = 4,
        ROUNDS = 5,
        READS = 5000
    };
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 1};
    struct work work[THREADS];
    pthread_t threads[THREADS];
    struct pair pair;
    uint64_t last = 0;

    pair_threading = FI_THREAD_SAFE; /* a read may move what belongs to the other queues */
    pair_open(&pair, stack(""));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(fi_cq_open(pair.domain, &attr, &work[i].cq, NULL), 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < THREADS; i++) {
            work[i].reads = READS;
            assert_int_equal(pthread_create(&threads[i], NULL, read_often, &work[i]), 0);
        }
        for (int i = 0; i < 20; i++) {
            uint64_t now = page()->sum.counts[WEFT_MONITOR_EMPTY_READS];

            assert_true(now >= last);
            last = now;
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    assert_int_equal(page()->sum.counts[WEFT_MONITOR_EMPTY_READS], THREADS * ROUNDS * READS);
    assert_int_equal(page()->threads, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(fi_close(&work[i].cq->fid), 0);
    pair_close(&pair);
    pair_threading = FI_THREAD_DOMAIN;
}

static int open_and_leave(const char *spec)
{
    struct pair pair;

    pair_open(&pair, spec);
    exit(0);
}

static int open_and_die(const char *spec)
{
    struct pair pair;

    pair_open(&pair, spec);
    _exit(0);
}

static void a_process_that_just_ends_leaves_no_file(void **state)
{
    assert_int_equal(pair_child(open_and_leave, stack("")), 0);
    assert_int_equal(look(), 0);
}

static void one_that_dies_is_gone(void **state)
{
    assert_int_equal(pair_child(open_and_die, stack("")), 0);
    assert_int_equal(look(), 1);
    assert_int_equal(files[0].life, MON_GONE);
}

/* The same number, another process. */
static void a_number_used_again_is_another_process(void **state)
{
    struct weft_monitor_header header;
    struct pair pair;

    pair_open(&pair, stack(""));
    header = page()->header;
    assert_int_equal(mon_life(&header), MON_RUNS);
    header.process_start++;
    assert_int_equal(mon_life(&header), MON_GONE);
    header.boot++;
    assert_int_equal(mon_life(&header), MON_UNKNOWN);
    pair_close(&pair);
}

static void a_file_lingers_when_asked(void **state)
{
    char from[64] = "", to[64];
    struct pair pair;
    struct stat info;

    pair_open(&pair, stack(",linger"));
    assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    assert_int_equal(stat((look(), files[0].path), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    pair_close(&pair);
    assert_int_equal(page()->sum.calls, 2);
    assert_int_equal(files[0].life, MON_CLOSED);
}

static void the_child_of_a_fork_counts_nowhere(void **state)
{
    char from[64] = "", to[64];
    struct pair pair;
    int status;
    pid_t pid;

    pair_open(&pair, stack(""));
    assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    pid = fork();
    if (!pid) {
        for (int i = 0; i < 10; i++)
            fi_cq_read(pair.cq, NULL, 0);
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(page()->sum.calls, 2);
    assert_true(page()->sum.counts[WEFT_MONITOR_EMPTY_READS] < 10);
    pair_close(&pair);
}

static void a_place_that_cannot_be_written_is_an_error(void **state)
{
    assert_int_equal(pair_fabric_rc("monitor(basepath=\"/proc/nowhere\");loop"), -ENOENT);
    assert_int_equal(pair_fabric_rc("monitor(basepath=\"/dev/null\");loop"), -ENOTDIR);
    assert_int_equal(pair_fabric_rc(stack(",file_mode=rw")), -FI_ENODATA);
    assert_int_equal(pair_fabric_rc(stack("")), 0);
}

/* The file's room is reserved when the fabric is opened: no page turns into SIGBUS later. */
static void a_file_without_room_is_an_error(void **state)
{
    struct rlimit old, little;
    int rc;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    little = (struct rlimit){1024, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    rc = pair_fabric_rc(stack(""));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(rc, -EFBIG);
    assert_int_equal(pair_fabric_rc(stack("")), 0);
    assert_int_equal(look(), 0);
}

static void it_stands_in_the_middle_too(void **state)
{
    char from[64] = "", to[64];
    struct pair pair;

    pair_open(&pair, stack_over("", "noop;loop"));
    assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    assert_int_equal(page()->sum.calls, 2);
    pair_close(&pair);
    snprintf(from, sizeof(from), "%s", base);
    setenv("FI_MONITOR_BASEPATH", base, 1);
    pair_open(&pair, "monitor;noop;monitor;loop");
    assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    assert_int_equal(look(), 2);
    assert_int_equal(files[0].page->sum.calls, 2);
    assert_int_equal(files[1].page->sum.calls, 2);
    pair_close(&pair);
    unsetenv("FI_MONITOR_BASEPATH");
}

static void no_system_call_is_made(void **state)
{
    pair_makes_no_system_call(stack(""));
}

static void no_lock_is_taken_and_nothing_allocated(void **state)
{
    pair_costs_nothing(stack(",sample=1"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(counts_are_exact),
        TEST(each_endpoint_has_its_counts),
        TEST(counts_outlive_their_objects),
        TEST(more_objects_than_entries_are_counted_together),
        TEST(latencies_are_sampled),
        TEST(no_period_hides_a_kind),
        TEST(threads_lose_no_count),
        TEST(a_process_that_just_ends_leaves_no_file),
        TEST(one_that_dies_is_gone),
        TEST(a_number_used_again_is_another_process),
        TEST(a_file_lingers_when_asked),
        TEST(the_child_of_a_fork_counts_nowhere),
        TEST(a_place_that_cannot_be_written_is_an_error),
        TEST(a_file_without_room_is_an_error),
        TEST(it_stands_in_the_middle_too),
        TEST(no_system_call_is_made),
        TEST(no_lock_is_taken_and_nothing_allocated),
    };

    return cmocka_run_group_tests_name("monitor", tests, NULL, NULL);
}
