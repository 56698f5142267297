/* SPDX-License-Identifier: BSD-2-Clause */
/* The device: nothing happens without it, and others are let in only where they are already. */
#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../live/ends.h"
#include "../fake.h"

enum {
    LARGE = 1 << 20,
    TIMES = 12, /* until each way has been measured */
    SECONDS = 60,
};

static char *out;

/* In a child, which cmocka does not know of. */
#define check(ok)                                                                                  \
    do {                                                                                           \
        if (!(ok)) {                                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #ok);                               \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static bool handled(void)
{
    struct sigaction now;

    check(!sigaction(SIGBUS, NULL, &now));
    return now.sa_handler != SIG_DFL;
}

/* Large messages between two endpoints of this process. */
static void exchange(const char *spec)
{
    static char in[LARGE];
    struct fi_cq_tagged_entry entry;
    struct end a, b;
    fi_addr_t peer;

    end_open(&a, spec);
    end_open(&b, spec);
    peer = end_introduce(&a, &b);
    for (int i = 0; i < TIMES; i++) {
        memset(out, 'a' + i, LARGE);
        check(!fi_trecv(b.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        end_post(&a, &b, fi_tsend(a.ep, out, LARGE, NULL, peer, 1, NULL));
        check(!end_wait(&a, &b, &entry) && !end_wait(&b, &a, &entry));
        check(!memcmp(in, out, LARGE));
    }
    end_close(&a);
    end_close(&b);
}

/* ---- Cases, each in a process of its own, without capabilities ---- */

static void without_a_device(void)
{
    fake->there = false;
    signal(SIGBUS, SIG_DFL);
    exchange("shm");
    exchange("shm(xpmem=on)");
    check(fake->opens == 1 && !handled());
    for (int i = 0; i < FAKE_COMMANDS; i++)
        check(!fake->calls[i]);
}

static void not_wanted(void)
{
    signal(SIGBUS, SIG_DFL);
    exchange("shm(xpmem=off)");
    check(!fake->opens && !handled());
}

static void of_no_use(void)
{
    signal(SIGBUS, SIG_DFL);
    fake->errs[FAKE_VERSION] = ENOTTY;
    exchange("shm(xpmem=on)");
    check(!fake->calls[FAKE_MAKE] && !handled());
}

static void no_segment(void)
{
    signal(SIGBUS, SIG_DFL);
    fake->errs[FAKE_MAKE] = ENOMEM;
    exchange("shm(xpmem=on)");
    check(fake->calls[FAKE_MAKE] && !fake->calls[FAKE_GET] && !handled());
}

static void where_all_may_attach(void)
{
    exchange("shm");
    check(fake->calls[FAKE_MAKE] == 1 && fake->calls[FAKE_ATTACH]);
    fake->yama = 0;
    exchange("shm");
    check(fake->opens == 1 && fake->calls[FAKE_MAKE] == 1);
}

static void without_yama(void)
{
    fake->yama = 0;
    exchange("shm");
    check(fake->calls[FAKE_MAKE] == 1);
}

/* Only who says so lets others in. */
static void kept_out(void)
{
    exchange("shm");
    check(fake->opens == 1 && !fake->calls[FAKE_MAKE] && !fake->calls[FAKE_ATTACH]);
    exchange("shm(xpmem=on)");
    check(fake->calls[FAKE_MAKE] == 1 && fake->calls[FAKE_ATTACH]);
}

static void yama_restricts(void)
{
    fake->yama = '1';
    kept_out();
}

static void yama_is_strange(void)
{
    fake->yama = '\n';
    kept_out();
}

static void not_dumpable(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    kept_out();
}

static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

    check(!syscall(SYS_capset, &header, none));
}

static int run(void (*act)(void), bool capable)
{
    pid_t pid;
    int status;

    fake_begin();
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        setenv("CMOCKA_TEST_ABORT", "1", 1);
        alarm(SECONDS);
        if (!capable)
            drop_capabilities();
        check(!prctl(PR_SET_DUMPABLE, 1));
        act();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

#define CASE(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        assert_int_equal(run(name, false), 0);                                                     \
    }

CASE(without_a_device)
CASE(not_wanted)
CASE(of_no_use)
CASE(no_segment)
CASE(where_all_may_attach)
CASE(without_yama)
CASE(yama_restricts)
CASE(yama_is_strange)
CASE(not_dumpable)

static void test_capabilities(void **state)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct mine[_LINUX_CAPABILITY_U32S_3];

    (void)state;
    assert_int_equal(syscall(SYS_capget, &header, mine), 0);
    if (!mine[0].permitted)
        skip();
    assert_int_equal(run(kept_out, true), 0);
}

static int begin(void **state)
{
    (void)state;
    fake_begin();
    out = fake_memory(LARGE, LARGE);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_device),
        cmocka_unit_test(test_not_wanted),
        cmocka_unit_test(test_of_no_use),
        cmocka_unit_test(test_no_segment),
        cmocka_unit_test(test_where_all_may_attach),
        cmocka_unit_test(test_without_yama),
        cmocka_unit_test(test_yama_restricts),
        cmocka_unit_test(test_yama_is_strange),
        cmocka_unit_test(test_not_dumpable),
        cmocka_unit_test(test_capabilities),
    };

    return cmocka_run_group_tests(tests, begin, NULL);
}
