/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp(io=uring): what the ring adds to the states of a connection, and a kernel that refuses it.
 * The tests of the other rooms run on it in uring_too. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif

enum {
    FDS = 1024,
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

static int rings(void)
{
    char path[64], target[64];
    int count = 0;

    for (int fd = 0; fd < FDS; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, target, sizeof(target) - 1);

        target[len > 0 ? len : 0] = '\0';
        count += strstr(target, "[io_uring]") != NULL;
    }
    return count;
}

/* The kernel has them, and the library was built with liburing. */
static bool have_rings(void)
{
    struct pair pair;

    pair_open(&pair, &plain);
    int count = rings();
    pair_close(&pair);
    return count > 0;
}

static void receive_and_send(struct pair *pair, size_t offset, size_t len)
{
    assert_int_equal(fi_recv(pair->b.ep, in + offset, len, NULL, 0, in + offset), 0);
    assert_int_equal(fi_send(pair->a.ep, out + offset, len, NULL, 0, out + offset), 0);
}

static void expect_both(struct pair *pair, size_t offset, size_t len)
{
    struct fi_cq_tagged_entry done;

    expect_completion(pair, pair->a.tx, &done);
    assert_ptr_equal(done.op_context, out + offset);
    expect_completion(pair, pair->b.rx, &done);
    assert_ptr_equal(done.op_context, in + offset);
    assert_int_equal(done.len, len);
}

static void rings_come_and_go_with_connections(void **state)
{
    struct pair pair;
    int before = rings();

    pair_open(&pair, &plain);
    assert_int_equal(rings(), before + 2);
    receive_and_send(&pair, 0, 1);
    expect_both(&pair, 0, 1);
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
            receive_and_send(&pair, offset, len);
            expect_both(&pair, offset, len);
            assert_memory_equal(in + offset, out + offset, len);
            assert_int_equal(in[offset + len], 0);
        }
    }
    pair_close(&pair);
}

/* Nobody drives the receiver until all is sent: its buffers run out, and nothing is lost. */
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
    while ((sent < posted || received < posted) && now_ms() - start < 20000) {
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
        receive_and_send(&pair, offset, i % 3 ? 100000 : 10);
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

    while (rc != 1 && rc != -FI_EAVAIL && now_ms() - start < 20000) {
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
    receive_and_send(&pair, 0, 100000);
    pid_t child = fork();
    if (!child) {
        side_close(&pair.a);
        side_close(&pair.b);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_both(&pair, 0, 100000);
    receive_and_send(&pair, 0, 10);
    expect_both(&pair, 0, 10);
    pair_close(&pair);
}

static void *use_and_end(void *arg)
{
    struct pair *pair = arg;

    for (int i = 0; i < 3; i++) {
        receive_and_send(pair, 0, 200000);
        expect_both(pair, 0, 200000);
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
        expect_both(&pair, 0, BIG);
        assert_memory_equal(in, out, BIG);
    }
    pair_close(&pair);
}

static void automatic_progress_needs_no_call(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;

    pair_open(&pair, &(struct options){.spec = "tcp(io=uring)", .automatic = true});
    fill(out, BIG, 6);
    for (int i = 0; i < 4; i++) {
        receive_and_send(&pair, 0, BIG);
        expect_completion(&pair, pair.b.rx, &done);
        expect_completion(&pair, pair.a.tx, &done);
        assert_memory_equal(in, out, BIG);
    }
    pair_close(&pair);
}

/* ---- A kernel that refuses ---- */

static bool refuse_rings(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* For a process of its own. */
static int run_refused(int log)
{
    struct pair pair;

    if (!refuse_rings())
        return 77;
    dup2(log, STDERR_FILENO);
    pair_open(&pair, &plain);
    for (int i = 0; i < 20; i++) {
        receive_and_send(&pair, 0, 50000);
        expect_both(&pair, 0, 50000);
    }
    int used = rings();
    pair_close(&pair);
    return used ? 1 : 0;
}

static unsigned count(const char *text, const char *word)
{
    unsigned found = 0;

    for (const char *pos = text; (pos = strstr(pos, word)); pos++)
        found++;
    return found;
}

/* This program again, with a log of its own as its argument. */
static int run_again(int log)
{
    char number[16];
    int status;

    snprintf(number, sizeof(number), "%d", log);
    pid_t child = fork();
    if (!child) {
        execl("/proc/self/exe", "refused", number, NULL);
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_kernel_that_refuses_is_told_of_once(void **state)
{
    char name[] = "/tmp/weft-uring-XXXXXX", text[4096] = "";
    int log = mkstemp(name);

    assert_true(log >= 0);
    unlink(name);
    int code = run_again(log);
    ssize_t len = pread(log, text, sizeof(text) - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    close(log);
    if (code == 77)
        skip();
    assert_int_equal(code, 0);
    assert_int_equal(count(text, "io=uring"), 1);
    assert_non_null(strstr(text, "sockets are used"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest refused[] = {
        cmocka_unit_test(a_kernel_that_refuses_is_told_of_once),
    };
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
        cmocka_unit_test(automatic_progress_needs_no_call),
    };

    setenv("FI_LOG_LEVEL", "warn", 1);
    if (make_buffers(NULL))
        return 1;
    if (argc > 1)
        return run_refused(atoi(argv[1]));
    int failed = cmocka_run_group_tests_name("tcp uring, refused", refused, NULL, NULL);
    if (failed)
        return failed;
    if (!have_rings()) {
        fprintf(stderr, "there is no io_uring here\n");
        return 77;
    }
    return cmocka_run_group_tests_name("tcp uring", tests, NULL, free_buffers);
}
