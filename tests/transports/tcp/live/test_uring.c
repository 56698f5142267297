/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp(io=uring): what the ring adds to the states of a connection. The tests of the other rooms run
 * on it in uring_too. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

enum {
    BIG = 4 << 20,
    SMALL = 8192,
    MANY = 600, /* of SMALL: more than the buffers of a ring hold */
};

static uint8_t *out, *in;

static const struct options plain = {.spec = "tcp(io=uring)"};

static int make_buffers(void **state)
{
    out = malloc(2 * (size_t)BIG);
    in = malloc(2 * (size_t)BIG);
    return !out || !in;
}

static int free_buffers(void **state)
{
    free(out);
    free(in);
    return 0;
}

static void rings_come_and_go_with_connections(void **state)
{
    struct pair pair;
    int before = rings();

    pair_open(&pair, &plain);
    assert_int_equal(rings(), before + 2);
    receive_and_send(&pair, in, out, 1);
    expect_both(&pair, in, out, 1);
    pair_close(&pair);
    assert_int_equal(rings(), before);
}

static void large_and_small_alternate(void **state)
{
    static const size_t sizes[] = {BIG, 10, 40000, 32768, 32767, BIG - 1, 0, 300000, 100, 65536};
    struct pair pair;
    size_t offset = 0;

    pair_open(&pair, &plain);
    fill(out, 2 * (size_t)BIG, 1);
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            size_t len = sizes[(i * 7 + (size_t)round) % 10];

            offset = (offset + 4099) % 65536;
            memset(in, 0, offset + len + 1);
            receive_and_send(&pair, in + offset, out + offset, len);
            expect_both(&pair, in + offset, out + offset, len);
            assert_memory_equal(in + offset, out + offset, len);
            assert_int_equal(in[offset + len], 0);
        }
    }
    pair_close(&pair);
}

/* No thread drives the receiver until all is sent: its buffers run out, and nothing is lost. */
static void buffers_that_run_out_lose_nothing(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    int sent = 0, received = 0, posted = 0;
    long long start = now_ms();

    pair_open(&pair, &plain);
    fill(out, 2 * (size_t)BIG, 2);
    memset(in, 0, (size_t)MANY * SMALL);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(fi_recv(pair.b.ep, in + i * SMALL, SMALL, NULL, 0, NULL), 0);
    while (posted < MANY && now_ms() - start < 1000) {
        if (!fi_send(pair.a.ep, out + posted * SMALL, SMALL, NULL, 0, NULL))
            posted++;
        sent += fi_cq_read(pair.a.tx, &done, 1) == 1;
    }
    start = now_ms();
    while ((sent < posted || received < posted) && now_ms() - start < 60000) {
        sent += fi_cq_read(pair.a.tx, &done, 1) == 1;
        received += fi_cq_read(pair.b.rx, &done, 1) == 1;
    }
    assert_int_equal(received, posted);
    assert_int_equal(sent, posted);
    assert_memory_equal(in, out, (size_t)posted * SMALL);
    pair_close(&pair);
}

/* The memory of a send comes back with its completion, and completions stay in order. */
static void sends_without_a_copy_end_once_and_in_order(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    size_t offset = 0;

    pair_open(&pair, &(struct options){.spec = "tcp(io=uring,zero_copy_size=16k)"});
    fill(out, 2 * (size_t)BIG, 3);
    memset(in, 0, 2 * (size_t)BIG);
    for (size_t i = 0; i < 40; i++, offset += 100000)
        receive_and_send(&pair, in + offset, out + offset, i % 3 ? 100000 : 10);
    offset = 0;
    for (size_t i = 0; i < 40; i++, offset += 100000) {
        expect_completion(&pair, pair.a.tx, &done);
        assert_ptr_equal(done.op_context, out + offset);
    }
    offset = 0;
    for (size_t i = 0; i < 40; i++, offset += 100000) {
        expect_completion(&pair, pair.b.rx, &done);
        assert_ptr_equal(done.op_context, in + offset);
        assert_memory_equal(in + offset, out + offset, i % 3 ? 100000 : 10);
    }
    expect_nothing(pair.a.tx);
    pair_close(&pair);
}

/* Beyond max_saved_size the connection is not read, and goes on when receives are posted. */
static void unexpected_messages_stop_the_reading(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;

    pair_open(&pair, &(struct options){.spec = "tcp(io=uring,max_saved_size=64k)"});
    fill(out, 2 * (size_t)BIG, 4);
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(fi_send(pair.a.ep, out + i * 50000, 50000, NULL, 0, NULL), 0);
    settle(&pair);
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(fi_recv(pair.b.ep, in + i * 50000, 50000, NULL, 0, NULL), 0);
    for (size_t i = 0; i < 40; i++)
        expect_completion(&pair, pair.b.rx, &done);
    for (size_t i = 0; i < 40; i++)
        expect_completion(&pair, pair.a.tx, &done);
    assert_memory_equal(in, out, 40 * 50000);
    pair_close(&pair);
}

/* One completion, or one error. */
static void expect_end(struct pair *pair, struct fid_cq *cq, const void *context)
{
    struct fi_cq_tagged_entry done;
    struct fi_cq_err_entry error = {0};
    long long start = now_ms();
    ssize_t rc = 0;

    while (rc != 1 && rc != -FI_EAVAIL && now_ms() - start < 60000) {
        fi_cq_read(pair->b.tx, NULL, 0);
        rc = fi_cq_read(cq, &done, 1);
    }
    if (rc == -FI_EAVAIL)
        assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
    assert_ptr_equal(rc == 1 ? done.op_context : error.op_context, context);
}

/* Large messages are under way in both directions when one end goes; the kernel may finish them. */
static void a_peer_that_goes_ends_each_operation_once(void **state)
{
    for (int i = 0; i < 8; i++) {
        struct pair pair;
        struct fi_eq_cm_entry event;

        pair_open(&pair, &plain);
        assert_int_equal(fi_recv(pair.b.ep, in, 2 * (size_t)BIG, NULL, 0, in), 0);
        assert_int_equal(fi_send(pair.b.ep, out, 2 * (size_t)BIG, NULL, 0, out), 0);
        assert_int_equal(fi_send(pair.a.ep, out, 2 * (size_t)BIG, NULL, 0, NULL), 0);
        for (int j = 0; j < i; j++)
            fi_cq_read(pair.b.rx, NULL, 0);
        fi_close(&pair.a.ep->fid);
        pair.a.ep = NULL;
        expect_event(&pair, FI_SHUTDOWN, &event);
        expect_end(&pair, pair.b.rx, in);
        expect_end(&pair, pair.b.tx, out);
        expect_nothing(pair.b.rx);
        expect_nothing(pair.b.tx);
        pair_close(&pair);
    }
}

/* After it the memory is the application's again. */
static void close_takes_back_what_the_kernel_has(void **state)
{
    for (int i = 0; i < 8; i++) {
        struct pair pair;

        pair_open(&pair, &(struct options){.spec = i % 2 ? "tcp(io=uring,zero_copy_size=16k)"
                                                         : "tcp(io=uring)"});
        void *memory = malloc(BIG), *source = calloc(1, BIG);
        assert_int_equal(fi_recv(pair.b.ep, memory, BIG, NULL, 0, NULL), 0);
        assert_int_equal(fi_send(pair.a.ep, source, BIG, NULL, 0, NULL), 0);
        for (int j = 0; j < i; j++)
            fi_cq_read(pair.b.rx, NULL, 0);
        fi_close(&pair.b.ep->fid);
        free(memory);
        pair.b.ep = NULL;
        fi_close(&pair.a.ep->fid);
        free(source);
        pair.a.ep = NULL;
        pair_close(&pair);
    }
}

static void a_child_leaves_the_ring_alone(void **state)
{
    struct pair pair;
    int status;

    pair_open(&pair, &plain);
    receive_and_send(&pair, in, out, 100000);
    pid_t child = fork();
    if (!child) {
        if (fi_shutdown(pair.a.ep, 0) != -FI_EOPBADSTATE)
            _exit(1);
        side_close(&pair.a);
        side_close(&pair.b);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_both(&pair, in, out, 100000);
    receive_and_send(&pair, in, out, 10);
    expect_both(&pair, in, out, 10);
    pair_close(&pair);
}

static void *use_and_end(void *arg)
{
    struct pair *pair = arg;

    for (int i = 0; i < 3; i++) {
        receive_and_send(pair, in, out, 200000);
        expect_both(pair, in, out, 200000);
    }
    assert_int_equal(fi_recv(pair->b.ep, in, BIG, NULL, 0, in), 0);
    return NULL;
}

/* The kernel cancels what a thread has asked for when the thread ends. */
static void a_thread_that_ends_takes_nothing_with_it(void **state)
{
    struct pair pair;
    pthread_t thread;

    pair_open(&pair, &plain);
    fill(out, BIG, 5);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&thread, NULL, use_and_end, &pair), 0);
        pthread_join(thread, NULL);
        assert_int_equal(fi_send(pair.a.ep, out, BIG, NULL, 0, out), 0);
        expect_both(&pair, in, out, BIG);
        assert_memory_equal(in, out, BIG);
    }
    pair_close(&pair);
}

struct hold {
    struct pair *pair;
    sem_t open;
    int held[2], release[2]; /* pipes */
};

/* A thread that waits for its child in vfork runs nothing, not even what the kernel has for it. */
static void *ask_and_be_held(void *arg)
{
    struct hold *hold = arg;
    char byte = 0;
    int status;

    pair_open(hold->pair, &plain);
    sem_post(&hold->open);
    pid_t child = vfork();
    if (!child) {
        syscall(SYS_write, hold->held[1], &byte, 1);
        syscall(SYS_read, hold->release[0], &byte, 1);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return NULL;
}

/* The end of a connection whose receive another thread has asked for, when that thread is busy. */
static void the_end_is_told_however_late_the_kernel_answers(void **state)
{
    struct pair pair;
    struct hold hold = {.pair = &pair};
    struct fi_eq_cm_entry event;
    struct fi_cq_tagged_entry done;
    pthread_t thread;
    uint32_t which;
    char byte = 0;
    int fd;

    assert_int_equal(sem_init(&hold.open, 0, 0), 0);
    assert_int_equal(pipe(hold.held), 0);
    assert_int_equal(pipe(hold.release), 0);
    assert_int_equal(pthread_create(&thread, NULL, ask_and_be_held, &hold), 0);
    assert_int_equal(sem_wait(&hold.open), 0);
    assert_int_equal(read(hold.held[0], &byte, 1), 1);
    assert_int_equal(fi_recv(pair.b.ep, in, 100, NULL, 0, NULL), 0);
    assert_int_equal(fi_send(pair.a.ep, out, 100, NULL, 0, NULL), 0);
    assert_int_equal(fi_control(&pair.a.ep->fid, FI_GET_FD, &fd), 0);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    ssize_t early = fi_eq_sread(pair.eq, &which, &event, sizeof(event), 300, 0);
    assert_int_equal(write(hold.release[1], &byte, 1), 1);
    pthread_join(thread, NULL);
    if (early < 0)
        expect_event(&pair, FI_SHUTDOWN, &event);
    assert_ptr_equal(event.fid, &pair.b.ep->fid);
    assert_int_equal(fi_cq_read(pair.b.rx, &done, 1), 1);
    for (int i = 0; i < 2; i++) {
        close(hold.held[i]);
        close(hold.release[i]);
    }
    sem_destroy(&hold.open);
    pair_close(&pair);
}

static void automatic_progress_needs_no_call(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;

    pair_open(&pair, &(struct options){.spec = "tcp(io=uring)", .automatic = true});
    fill(out, BIG, 6);
    for (int i = 0; i < 4; i++) {
        receive_and_send(&pair, in, out, BIG);
        expect_completion(&pair, pair.b.rx, &done);
        expect_completion(&pair, pair.a.tx, &done);
        assert_memory_equal(in, out, BIG);
    }
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_come_and_go_with_connections),
        cmocka_unit_test(large_and_small_alternate),
        cmocka_unit_test(buffers_that_run_out_lose_nothing),
        cmocka_unit_test(sends_without_a_copy_end_once_and_in_order),
        cmocka_unit_test(unexpected_messages_stop_the_reading),
        cmocka_unit_test(a_peer_that_goes_ends_each_operation_once),
        cmocka_unit_test(close_takes_back_what_the_kernel_has),
        cmocka_unit_test(a_child_leaves_the_ring_alone),
        cmocka_unit_test(a_thread_that_ends_takes_nothing_with_it),
        cmocka_unit_test(the_end_is_told_however_late_the_kernel_answers),
        cmocka_unit_test(automatic_progress_needs_no_call),
    };

    if (!have_rings(plain.spec)) {
        fprintf(stderr, "there is no io_uring here\n");
        return 77;
    }
    return cmocka_run_group_tests_name("tcp uring", tests, make_buffers, free_buffers);
}
