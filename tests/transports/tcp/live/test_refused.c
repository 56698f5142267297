/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp(io=uring) where the kernel refuses it, from the start or later. Each in a process of its own.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../support/again.h"
#include "pair.h"

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#define SYS_io_uring_enter 426
#define SYS_io_uring_register 427
#endif

enum {
    SOCKETS_USED = 3, /* an exit code */
    BIG = 4 << 20
};

static uint8_t out[BIG], in[BIG];

static const struct options plain = {.spec = "tcp(io=uring)"};

static bool refuse(unsigned call, int err)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Each message arrives; how many rings there were. */
static int use_whatever_there_is(void)
{
    struct pair pair;

    pair_open(&pair, &plain);
    for (int i = 0; i < 20; i++) {
        receive_and_send(&pair, in, out, 50000);
        expect_both(&pair, in, out, 50000);
    }
    int used = rings();
    pair_close(&pair);
    return used;
}

/* For a process of its own, as the following ones. */
static int run_refused(unsigned call, int err)
{
    if (!refuse(call, err))
        return 77;
    return use_whatever_there_is() ? 1 : 0;
}

/* Setup: sysctl kernel.io_uring_disabled, or a container's filter; a kernel without; no memory. */
static int run_setup_eperm(void)
{
    return run_refused(SYS_io_uring_setup, EPERM);
}

static int run_setup_enosys(void)
{
    return run_refused(SYS_io_uring_setup, ENOSYS);
}

static int run_setup_enomem(void)
{
    return run_refused(SYS_io_uring_setup, ENOMEM);
}

static int run_register_eperm(void)
{
    return run_refused(SYS_io_uring_register, EPERM);
}

static int run_register_enomem(void)
{
    return run_refused(SYS_io_uring_register, ENOMEM);
}

/* Some kernels count rings there, some do not: with sockets or without, it says which. */
static int run_without_locked_memory(void)
{
    const struct rlimit none = {0, 0};

    if (setrlimit(RLIMIT_MEMLOCK, &none) || (!geteuid() && setresuid(65534, 65534, 65534)))
        return 77;
    return use_whatever_there_is() ? 0 : SOCKETS_USED;
}

/* Receives of both sides, in the kernel since before, and a send: each ends once, and close returns
 * with the memory. */
static int run_without_enter(void)
{
    void *memory = malloc(BIG);
    struct fi_cq_err_entry error;
    struct pair pair;

    pair_open(&pair, &plain);
    receive_and_send(&pair, in, out, 100);
    expect_both(&pair, in, out, 100);
    assert_int_equal(fi_recv(pair.a.ep, memory, BIG, NULL, 0, memory), 0);
    assert_int_equal(fi_recv(pair.b.ep, in, BIG, NULL, 0, in), 0);
    if (!refuse(SYS_io_uring_enter, EPERM))
        return 77;
    assert_int_equal(fi_send(pair.a.ep, out, BIG, NULL, 0, out), 0);
    assert_int_equal(expect_failure(&pair, pair.a.tx, &error), FI_EPERM);
    assert_ptr_equal(error.op_context, out);
    expect_failure(&pair, pair.a.rx, &error);
    assert_ptr_equal(error.op_context, memory);
    free(memory);
    expect_failure(&pair, pair.b.rx, &error);
    assert_ptr_equal(error.op_context, in);
    assert_true(fi_send(pair.a.ep, out, 10, NULL, 0, NULL) < 0);
    pair_close(&pair);
    return 0;
}

/* Close cannot ask the kernel to cancel, and returns all the same. */
static int run_without_register(void)
{
    struct fi_eq_cm_entry event;
    struct pair pair;

    pair_open(&pair, &plain);
    receive_and_send(&pair, in, out, 100000);
    expect_both(&pair, in, out, 100000);
    void *memory = malloc(BIG);
    assert_int_equal(fi_recv(pair.a.ep, memory, BIG, NULL, 0, NULL), 0);
    if (!refuse(SYS_io_uring_register, EPERM))
        return 77;
    receive_and_send(&pair, in, out, 100000);
    expect_both(&pair, in, out, 100000);
    fi_close(&pair.a.ep->fid);
    pair.a.ep = NULL;
    free(memory);
    expect_event(&pair, FI_SHUTDOWN, &event);
    pair_close(&pair);
    return 0;
}

enum {
    WITHOUT_LOCKED_MEMORY = 5,
    WITHOUT_ENTER,
    WITHOUT_REGISTER
};

static int (*const runs[])(void) = {
    run_setup_eperm,     run_setup_enosys,          run_setup_enomem,  run_register_eperm,
    run_register_enomem, run_without_locked_memory, run_without_enter, run_without_register,
};

static int run(const char *which, const char *log)
{
    dup2(atoi(log), STDERR_FILENO);
    return runs[atoi(which)]();
}

static unsigned count(const char *text, const char *word)
{
    unsigned found = 0;

    for (const char *pos = text; (pos = strstr(pos, word)); pos++)
        found++;
    return found;
}

/* This program again, with which of the runs and a log of its own as its arguments. */
static int run_again(unsigned which, int log)
{
    char numbers[2][16];
    int status;

    snprintf(numbers[0], sizeof(numbers[0]), "%u", which);
    snprintf(numbers[1], sizeof(numbers[1]), "%d", log);
    pid_t child = fork();
    if (!child) {
        exec_again((char *[]){"refused", numbers[0], numbers[1], NULL});
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* text gets what the run says; its code is returned. */
static int run_apart(unsigned which, char *text, size_t room)
{
    char name[] = "/tmp/weft-uring-XXXXXX";
    int log = mkstemp(name);

    assert_true(log >= 0);
    unlink(name);
    int code = run_again(which, log);
    ssize_t len = pread(log, text, room - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    close(log);
    if (code && code != SOCKETS_USED)
        fprintf(stderr, "%s", text);
    if (code == 77)
        skip();
    return code;
}

static void a_kernel_that_refuses_is_told_of_once(void **state)
{
    static const struct {
        const char *call, *error;
    } refusals[] = {
        {"io_uring_setup", "Operation not permitted"},
        {"io_uring_setup", "Function not implemented"},
        {"io_uring_setup", "Cannot allocate memory"},
        {"io_uring_register", "Operation not permitted"},
        {"io_uring_register", "Cannot allocate memory"},
    };
    char text[4096];

    for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        assert_int_equal(run_apart(i, text, sizeof(text)), 0);
        assert_int_equal(count(text, "io=uring"), 1);
        if (strstr(text, "built without liburing"))
            continue;
        assert_non_null(strstr(text, "sockets are used"));
        assert_non_null(strstr(text, refusals[i].call));
        assert_non_null(strstr(text, refusals[i].error));
    }
}

static void a_limit_on_locked_memory_is_no_end(void **state)
{
    char text[4096];
    int code = run_apart(WITHOUT_LOCKED_MEMORY, text, sizeof(text));

    assert_int_equal(count(text, "io=uring"), code == SOCKETS_USED);
    assert_true(code == 0 || code == SOCKETS_USED);
}

static void a_later_refusal_ends_each_operation_once(void **state)
{
    char text[4096];

    assert_int_equal(run_apart(WITHOUT_ENTER, text, sizeof(text)), 0);
    assert_non_null(strstr(text, "io_uring_enter is refused now"));
    assert_non_null(strstr(text, "Operation not permitted"));
}

static void close_ends_where_nothing_can_be_cancelled(void **state)
{
    char text[4096];

    assert_int_equal(run_apart(WITHOUT_REGISTER, text, sizeof(text)), 0);
    assert_non_null(strstr(text, "io_uring_register is refused now"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest refused[] = {
        cmocka_unit_test(a_kernel_that_refuses_is_told_of_once),
        cmocka_unit_test(a_limit_on_locked_memory_is_no_end),
    };
    const struct CMUnitTest later[] = {
        cmocka_unit_test(a_later_refusal_ends_each_operation_once),
        cmocka_unit_test(close_ends_where_nothing_can_be_cancelled),
    };

    setenv("FI_LOG_LEVEL", "warn", 1);
    if (argc > 2)
        return run(argv[1], argv[2]);
    int failed = cmocka_run_group_tests_name("tcp uring refused", refused, NULL, NULL);
    if (failed || !have_rings(plain.spec))
        return failed;
    return cmocka_run_group_tests_name("tcp uring refused later", later, NULL, NULL);
}
