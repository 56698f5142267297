/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults in copied memory are an error; other faults go to the handler from before. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "transports/shm/shm_guard.h"

enum {
    PAGE = 4096,
    PAGES = 4, /* the second half is not there */
    HALF = PAGES / 2 * PAGE,
    THREADS = 4,
    TIMES = 100,
    STACK = 64 << 10,
};

/* In its handlers, whatever they ask for. */
#ifdef __SANITIZE_THREAD__
enum {
    BLOCKS_ALL = 1
};
#else
enum {
    BLOCKS_ALL = 0
};
#endif

/* In a child, which cmocka does not know of. */
#define check(ok)                                                                                  \
    do {                                                                                           \
        if (!(ok)) {                                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #ok);                               \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Memory whose second half gives that signal. */
static char *half_there(int signo)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    char *memory;

    assert_int_equal(ftruncate(fd, HALF), 0);
    memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(memory != MAP_FAILED);
    close(fd);
    memset(memory, 'm', HALF);
    if (signo == SIGSEGV)
        assert_int_equal(mprotect(memory + HALF, HALF, PROT_NONE), 0);
    return memory;
}

static void copy_both_halves(const char *memory)
{
    char to[2 * HALF] = "";
    struct shm_guard guard;

    check(!shm_guard_begin(&guard));
    check(shm_guard_copy(&guard, to, memory, HALF) && !memcmp(to, memory, HALF));
    check(!shm_guard_copy(&guard, to, memory, sizeof(to)));
    check(!shm_guard_copy(&guard, to, memory + HALF, 1));
    check(!shm_guard_copy(&guard, to, memory + HALF + HALF - 1, 1));
    check(shm_guard_copy(&guard, to, memory, HALF));
    shm_guard_end(&guard);
}

/* ---- Cases, each in a process of its own: handlers are installed once ---- */

static void faults_are_errors(void)
{
    copy_both_halves(half_there(SIGBUS));
    copy_both_halves(half_there(SIGSEGV));
}

static bool per_thread(int signo)
{
    sigset_t mask;

    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    return sigismember(&mask, signo) == 1;
}

/* As threads are that leave signals to others, our own among them. */
static void signals_may_be_blocked(void)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    faults_are_errors();
    check(per_thread(SIGBUS) && per_thread(SIGSEGV) && per_thread(SIGUSR1));
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    faults_are_errors();
    check(per_thread(SIGBUS) && !per_thread(SIGSEGV));
}

static void *copies(void *argument)
{
    for (int i = 0; i < TIMES; i++)
        faults_are_errors();
    return argument;
}

static void each_thread_for_itself(void)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        check(!pthread_create(&threads[i], NULL, copies, NULL));
    for (int i = 0; i < THREADS; i++)
        check(!pthread_join(threads[i], NULL));
}

static volatile sig_atomic_t took, code, on_stack, was_blocked;
static void *volatile took_at;
static sigjmp_buf back;
static char stack[STACK];

static void take(int signo, siginfo_t *info, void *context)
{
    const char *here = __builtin_frame_address(0);

    took = signo;
    code = info->si_code;
    took_at = info->si_addr;
    on_stack = here >= stack && here < stack + STACK;
    was_blocked = per_thread(signo) && per_thread(SIGUSR2);
    siglongjmp(back, 1);
}

static void take_from(int signo, int flags)
{
    struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO | flags};

    sigaddset(&action.sa_mask, SIGUSR2);
    check(!sigaction(signo, &action, NULL));
}

static void touch(volatile const char *at, int signo)
{
    took = 0;
    if (!sigsetjmp(back, 1))
        check(*at == 'm');
    check(took == signo && took_at == at);
}

static void other_faults_go_to_who_was_there(void)
{
    char *bus = half_there(SIGBUS), *segv = half_there(SIGSEGV);
    stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};

    check(!sigaltstack(&own, NULL));
    take_from(SIGSEGV, SA_ONSTACK);
    take_from(SIGBUS, SA_ONSTACK | SA_NODEFER);
    copy_both_halves(bus);
    touch(segv + HALF, SIGSEGV);
    check(on_stack && was_blocked);
    touch(bus + HALF, SIGBUS);
    check(on_stack && was_blocked == BLOCKS_ALL);
    check(!per_thread(SIGSEGV) && !per_thread(SIGUSR2));
    if (!sigsetjmp(back, 1))
        kill(getpid(), SIGSEGV);
    check(took == SIGSEGV && code == SI_USER);
    copy_both_halves(segv);
}

/* Between copies, and beside what is copied. */
static void what_is_written_to_is_not_guarded(void)
{
    char *bus = half_there(SIGBUS), *segv = half_there(SIGSEGV);
    struct shm_guard guard;

    take_from(SIGSEGV, 0);
    check(!shm_guard_begin(&guard));
    took = 0;
    if (!sigsetjmp(back, 1))
        shm_guard_copy(&guard, segv + HALF, bus, 1);
    check(took == SIGSEGV && took_at == segv + HALF);
}

static volatile sig_atomic_t count;

static void count_it(int signo)
{
    count += signo == SIGBUS;
}

static void simple_handlers_and_once(void)
{
    struct sigaction action = {.sa_handler = count_it, .sa_flags = (int)SA_RESETHAND};
    struct shm_guard guard;

    check(!sigaction(SIGBUS, &action, NULL));
    check(!shm_guard_begin(&guard));
    kill(getpid(), SIGBUS);
    check(count == 1);
    check(!sigaction(SIGBUS, NULL, &action) && action.sa_handler == SIG_DFL);
}

static void ignored_signals_stay_ignored(void)
{
    signal(SIGBUS, SIG_IGN);
    copy_both_halves(half_there(SIGBUS));
    kill(getpid(), SIGBUS);
}

static void nothing_is_copied_under_others_handlers(void)
{
    struct shm_guard guard;

    faults_are_errors();
    take_from(SIGSEGV, 0);
    check(shm_guard_begin(&guard) == -EBUSY);
    signal(SIGSEGV, SIG_DFL);
    check(shm_guard_begin(&guard) == -EBUSY);
}

/* ---- Those that end a process ---- */

static void default_is_the_end(void)
{
    signal(SIGSEGV, SIG_DFL);
    faults_are_errors();
    *(volatile char *)(half_there(SIGSEGV) + HALF) = 1;
}

static void default_is_the_end_for_who_is_sent_it(void)
{
    signal(SIGSEGV, SIG_DFL);
    faults_are_errors();
    kill(getpid(), SIGSEGV);
}

static void a_fault_cannot_be_ignored(void)
{
    signal(SIGSEGV, SIG_IGN);
    faults_are_errors();
    *(volatile char *)(half_there(SIGSEGV) + HALF) = 1;
}

static int status_of(void (*act)(void))
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (!pid) {
        alarm(60);
        act();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

#define CASE(name, expected)                                                                       \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        assert_int_equal(status_of(name), expected);                                               \
    }

CASE(faults_are_errors, 0)
CASE(signals_may_be_blocked, 0)
CASE(each_thread_for_itself, 0)
CASE(other_faults_go_to_who_was_there, 0)
CASE(what_is_written_to_is_not_guarded, 0)
CASE(simple_handlers_and_once, 0)
CASE(ignored_signals_stay_ignored, 0)
CASE(nothing_is_copied_under_others_handlers, 0)

static void test_ends(void **state)
{
    void (*const acts[])(void) = {default_is_the_end, default_is_the_end_for_who_is_sent_it,
                                  a_fault_cannot_be_ignored};

    (void)state;
    for (int i = 0; i < 3; i++) {
        int status = status_of(acts[i]);

        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSEGV);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults_are_errors),
        cmocka_unit_test(test_signals_may_be_blocked),
        cmocka_unit_test(test_each_thread_for_itself),
        cmocka_unit_test(test_other_faults_go_to_who_was_there),
        cmocka_unit_test(test_what_is_written_to_is_not_guarded),
        cmocka_unit_test(test_simple_handlers_and_once),
        cmocka_unit_test(test_ignored_signals_stay_ignored),
        cmocka_unit_test(test_nothing_is_copied_under_others_handlers),
        cmocka_unit_test(test_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
