/* SPDX-License-Identifier: BSD-2-Clause */
/* Small operations that follow each other leave together; none waits for a call that may not come.
 * System calls that send are counted: where a thread of the library would send what has waited for
 * long, and so would where this one is kept from running, the count of one of several tries holds,
 * of a new connection each. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"
#include "../../../support/tries.h"

enum {
    BURST = 40, /* fewer than fill a call */
    LONG = 4000,
    COUNTED = 200, /* those whose calls are counted: some calls' worth, and soon over */
    CALLS = COUNTED / 16,
};

static atomic_uint sends;
static atomic_uint refusals;      /* sends to come that find the socket full */
static atomic_size_t at_most = 0; /* bytes of the send after them; 0: no matter */
static uint64_t out[LONG], in[LONG];

/* These take the place of libc's for the library, too. */
ssize_t send(int fd, const void *buf, size_t len, int flags)
{
    size_t some = 0;

    atomic_fetch_add(&sends, 1);
    if (refusals) {
        refusals--;
        errno = EAGAIN;
        return -1;
    }
    some = atomic_exchange(&at_most, 0);
    return syscall(SYS_sendto, fd, buf, some && some < len ? some : len, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    atomic_fetch_add(&sends, 1);
    return syscall(SYS_sendmsg, fd, message, flags);
}

static void post_receives(struct side *side, int count)
{
    for (int i = 0; i < count; i++) {
        in[i] = ~0ull;
        assert_int_equal(fi_recv(side->ep, &in[i], sizeof(in[i]), NULL, 0, &in[i]), 0);
    }
}

static void post_sends(struct side *side, int count)
{
    for (int i = 0; i < count; i++) {
        out[i] = (uint64_t)i;
        assert_int_equal(fi_send(side->ep, &out[i], sizeof(out[i]), NULL, 0, &out[i]), 0);
    }
}

/* `count` completions of one queue, in the order of the posts; nothing but that queue is driven. */
static void expect_in_order(struct fid_cq *cq, const uint64_t *contexts, int count)
{
    struct fi_cq_tagged_entry done;
    long long start = now_ms();

    for (int i = 0; i < count;) {
        ssize_t rc = fi_cq_read(cq, &done, 1);

        if (rc == 1)
            assert_ptr_equal(done.op_context, &contexts[i++]);
        else
            assert_int_equal(rc, -FI_EAGAIN);
        assert_true(now_ms() - start < 60000);
    }
    expect_nothing(cq);
}

static void check_received(int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(in[i], i);
}

static bool burst_of(int count, unsigned calls)
{
    struct pair pair;
    unsigned made;

    pair_open(&pair, &(struct options){.tx_size = LONG});
    post_receives(&pair.b, count);
    sends = 0;
    post_sends(&pair.a, count);
    expect_in_order(pair.a.tx, out, count);
    made = sends;
    expect_in_order(pair.b.rx, in, count);
    check_received(count);
    pair_close(&pair);
    return made >= 1 && made <= calls;
}

static bool burst_leaves_in_few_calls(void)
{
    return burst_of(COUNTED, CALLS);
}

static void a_burst_leaves_in_few_calls_and_in_order(void **state)
{
    assert_true(tries_show(burst_leaves_in_few_calls));
    burst_of(LONG / 2, LONG);
}

static void a_lone_message_leaves_at_once(void **state)
{
    struct pair pair;

    pair_open(&pair, &(struct options){.tx_size = LONG});
    for (int round = 0; round < 3; round++) {
        post_receives(&pair.b, 1);
        sends = 0;
        post_sends(&pair.a, 1);
        assert_int_equal(sends, 1);
        expect_in_order(pair.b.rx, in, 1);
        expect_in_order(pair.a.tx, out, 1);
        /* A long burst shows that waiting pays; the next lone message must not suffer by it. */
        post_receives(&pair.b, 1000);
        post_sends(&pair.a, 1000);
        expect_in_order(pair.a.tx, out, 1000);
        expect_in_order(pair.b.rx, in, 1000);
    }
    pair_close(&pair);
}

/* The kernel takes any number of bytes of a message, or none at first. Messages posted meanwhile go
 * behind it. */
static void a_lone_message_may_leave_in_parts(void **state)
{
    struct pair pair;

    pair_open(&pair, &(struct options){.tx_size = LONG});
    for (unsigned part = 0; part < 26; part++) {
        for (unsigned full = 0; full < 3; full++) {
            post_receives(&pair.b, 3);
            refusals = full;
            at_most = part;
            post_sends(&pair.a, 3);
            expect_in_order(pair.a.tx, out, 3);
            expect_in_order(pair.b.rx, in, 3);
            check_received(3);
        }
    }
    refusals = 0; /* a ring makes no such call */
    at_most = 0;
    pair_close(&pair);
}

/* An upper that reads nothing: as many as tx_attr->size are taken, and each ends once. */
static void a_part_counts_as_a_post(void **state)
{
    struct pair pair;
    int taken = 0;

    pair_open(&pair, &(struct options){.tx_size = 8});
    post_receives(&pair.b, 16);
    refusals = ~0u;
    while (taken < 16 && !fi_send(pair.a.ep, &out[taken], 8, NULL, 0, &out[taken]))
        taken++;
    refusals = 0;
    assert_int_equal(taken, 8);
    expect_in_order(pair.a.tx, out, 8);
    expect_in_order(pair.b.rx, in, 8);
    pair_close(&pair);
}

/* A sender that computes after a burst, and calls nothing. */
static void the_tail_leaves_without_a_call(void **state)
{
    struct pair pair;

    for (int automatic = 0; automatic < 2; automatic++) {
        pair_open(&pair, &(struct options){.tx_size = LONG, .automatic = automatic});
        for (int round = 0; round < 5; round++) {
            post_receives(&pair.b, BURST);
            post_sends(&pair.a, BURST);
            expect_in_order(pair.b.rx, in, BURST);
            check_received(BURST);
            expect_in_order(pair.a.tx, out, BURST);
        }
        pair_close(&pair);
    }
}

static void injected_messages_leave_without_a_call(void **state)
{
    struct pair pair;
    uint64_t value;

    pair_open(&pair, &(struct options){0});
    post_receives(&pair.b, BURST);
    for (value = 0; value < BURST; value++)
        assert_int_equal(fi_inject(pair.a.ep, &value, sizeof(value), 0), 0);
    expect_in_order(pair.b.rx, in, BURST);
    check_received(BURST);
    pair_close(&pair);
}

static void a_sleep_sends_first(void **state)
{
    struct pair pair;
    struct fid *fid;
    struct fi_cq_tagged_entry done;

    pair_open(&pair, &(struct options){0});
    post_receives(&pair.b, BURST);
    post_sends(&pair.a, BURST);
    fid = &pair.a.rx->fid;
    while (fi_trywait(pair.fabric, &fid, 1))
        fi_cq_read(pair.a.rx, &done, 1);
    expect_in_order(pair.a.tx, out, BURST);
    expect_in_order(pair.b.rx, in, BURST);
    /* From now on the application may be asleep after any post: no message waits. */
    post_receives(&pair.b, BURST);
    sends = 0;
    post_sends(&pair.a, BURST);
    assert_int_equal(sends, BURST);
    pair_close(&pair);
}

static void it_can_be_turned_off(void **state)
{
    struct pair pair;

    pair_open(&pair, &(struct options){.spec = "tcp(coalesce=no)"});
    post_receives(&pair.b, BURST);
    sends = 0;
    post_sends(&pair.a, BURST);
    assert_int_equal(sends, BURST);
    expect_in_order(pair.b.rx, in, BURST);
    pair_close(&pair);
}

static void a_child_may_close_what_waits(void **state)
{
    struct pair pair;
    int status;

    pair_open(&pair, &(struct options){0});
    post_receives(&pair.b, BURST);
    post_sends(&pair.a, BURST);
    pid_t child = fork();
    if (!child) {
        side_close(&pair.a);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_in_order(pair.b.rx, in, BURST);
    expect_in_order(pair.a.tx, out, BURST);
    pair_close(&pair);
}

static void close_sends_what_waits(void **state)
{
    struct pair pair;

    pair_open(&pair, &(struct options){0});
    post_receives(&pair.b, BURST);
    post_sends(&pair.a, BURST);
    side_close(&pair.a);
    expect_in_order(pair.b.rx, in, BURST);
    check_received(BURST);
    pair_close(&pair);
}

static void every_operation_ends_once_when_the_peer_dies(void **state)
{
    struct pair pair;

    for (int pause_ms = 0; pause_ms < 4; pause_ms++) {
        struct fi_cq_tagged_entry done;
        struct fi_cq_err_entry error = {0};
        long long start = now_ms();
        int ended = 0, accepted = BURST;

        pair_open(&pair, &(struct options){0});
        post_sends(&pair.a, BURST);
        side_close(&pair.b);
        usleep((unsigned)pause_ms * 1000);
        for (int i = 0; i < BURST; i++)
            accepted += fi_send(pair.a.ep, out, 8, NULL, 0, NULL) == 0;
        while (ended < accepted && now_ms() - start < 60000) {
            ssize_t rc = fi_cq_read(pair.a.tx, &done, 1);

            if (rc == -FI_EAVAIL)
                rc = fi_cq_readerr(pair.a.tx, &error, 0);
            ended += rc == 1;
        }
        assert_int_equal(ended, accepted);
        settle(&pair);
        expect_nothing(pair.a.tx);
        pair_close(&pair);
    }
}

static uint64_t remote(const struct pair *pair, int i)
{
    bool virtual = pair->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;

    return virtual ? (uint64_t)(uintptr_t)&in[i] : (uint64_t)i * 8;
}

static struct fid_mr *expose(const struct pair *pair, uint64_t access)
{
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(pair->b.domain, in, sizeof(in), access, 0, 7, 0, &mr, NULL), 0);
    return mr;
}

static void post_reads(const struct pair *pair, struct fid_mr *mr, int first, int count)
{
    for (int i = first; i < first + count; i++)
        assert_int_equal(
            fi_read(pair->a.ep, &out[i], 8, NULL, 0, remote(pair, i), fi_mr_key(mr), &out[i]), 0);
}

/* A requester that keeps a window of reads outstanding posts one for each answer. */
static bool read_waits_where_others_are_under_way(void)
{
    struct pair pair;
    int waited = 0;

    pair_open(&pair, &(struct options){.tx_size = LONG});
    struct fid_mr *mr = expose(&pair, FI_REMOTE_READ);
    post_reads(&pair, mr, 0, BURST);
    for (int i = 0; i < 20; i++) {
        expect_nothing(pair.a.tx); /* progress: gathered requests leave */
        sends = 0;
        post_reads(&pair, mr, BURST + i, 1);
        waited += !sends;
    }
    settle(&pair);
    expect_in_order(pair.a.tx, out, BURST + 20);
    fi_close(&mr->fid);
    pair_close(&pair);
    return waited > 0;
}

static void a_read_waits_where_others_are_under_way(void **state)
{
    assert_true(tries_show(read_waits_where_others_are_under_way));
}

static bool half_a_window_of_reads_leaves(void)
{
    struct pair pair;
    unsigned made;

    pair_open(&pair, &(struct options){.tx_size = LONG});
    struct fid_mr *mr = expose(&pair, FI_REMOTE_READ);
    sends = 0;
    post_reads(&pair, mr, 0, 4 + 32);
    made = sends;
    settle(&pair);
    expect_in_order(pair.a.tx, out, 4 + 32);
    fi_close(&mr->fid);
    pair_close(&pair);
    return made >= 4 + 1 && made <= 4 + 4;
}

static void half_a_window_of_reads_leaves_while_the_rest_gathers(void **state)
{
    assert_true(tries_show(half_a_window_of_reads_leaves));
}

/* Calls that `count` writes make, and then as many reads of the same, with their answers. */
static void write_and_read(int count, unsigned *writing, unsigned *reading)
{
    struct fi_cq_tagged_entry done;
    struct pair pair;

    pair_open(&pair, &(struct options){.tx_size = LONG});
    struct fid_mr *mr = expose(&pair, FI_REMOTE_WRITE | FI_REMOTE_READ);
    sends = 0;
    for (int i = 0; i < count; i++) {
        out[i] = (uint64_t)i;
        in[i] = ~0ull;
        assert_int_equal(
            fi_write(pair.a.ep, &out[i], 8, NULL, 0, remote(&pair, i), fi_mr_key(mr), &out[i]), 0);
    }
    expect_in_order(pair.a.tx, out, count);
    *writing = sends;
    while (fi_cntr_read(pair.b.remote_writes) < (uint64_t)count)
        ;
    check_received(count);
    memset(out, 0, sizeof(out));
    sends = 0;
    post_reads(&pair, mr, 0, count);
    for (int i = 0; i < count; i++) {
        expect_completion(&pair, pair.a.tx, &done);
        assert_ptr_equal(done.op_context, &out[i]);
        assert_int_equal(out[i], i);
    }
    *reading = sends;
    assert_int_equal(fi_close(&mr->fid), 0);
    pair_close(&pair);
}

static bool remote_access_makes_few_calls(void)
{
    unsigned writing, reading;

    write_and_read(COUNTED, &writing, &reading);
    return writing >= 1 && writing <= CALLS && reading >= 2 && reading <= 2 * CALLS;
}

static void remote_access_and_counters_in_bursts(void **state)
{
    unsigned writing, reading;

    assert_true(tries_show(remote_access_makes_few_calls));
    write_and_read(1000, &writing, &reading);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_leaves_in_few_calls_and_in_order),
        cmocka_unit_test(a_lone_message_leaves_at_once),
        cmocka_unit_test(a_lone_message_may_leave_in_parts),
        cmocka_unit_test(a_part_counts_as_a_post),
        cmocka_unit_test(the_tail_leaves_without_a_call),
        cmocka_unit_test(injected_messages_leave_without_a_call),
        cmocka_unit_test(a_sleep_sends_first),
        cmocka_unit_test(it_can_be_turned_off),
        cmocka_unit_test(a_child_may_close_what_waits),
        cmocka_unit_test(close_sends_what_waits),
        cmocka_unit_test(every_operation_ends_once_when_the_peer_dies),
        cmocka_unit_test(a_read_waits_where_others_are_under_way),
        cmocka_unit_test(half_a_window_of_reads_leaves_while_the_rest_gathers),
        cmocka_unit_test(remote_access_and_counters_in_bursts),
    };

    return cmocka_run_group_tests_name("tcp coalesce", tests, NULL, NULL);
}
