/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum {
    SIGNALS = 2
};

struct copy {
    uintptr_t from;
    size_t len;
    sigjmp_buf back;
};

static const int signals[SIGNALS] = {SIGBUS, SIGSEGV};
static struct sigaction before[SIGNALS]; /* written before the handlers stand */

/* The copy of this thread, or NULL. A handler can get no memory for it. */
static _Thread_local struct copy *volatile current __attribute__((tls_model("initial-exec")));

/* ---- Faults of others ---- */

/* Ends the process as if no handler were installed: a fault recurs at its instruction, where a
 * debugger or core file shows it; a signal that was sent is raised again. */
static void die(int signo, const siginfo_t *info)
{
    signal(signo, SIG_DFL);
    if (info->si_code <= 0)
        raise(signo);
}

static void pass_on(int signo, siginfo_t *info, void *context)
{
    const struct sigaction *other = &before[signo == SIGBUS ? 0 : 1];
    sigset_t mask = other->sa_mask, now;

    if (other->sa_handler == SIG_IGN && info->si_code <= 0)
        return; /* a fault cannot be ignored */
    if (other->sa_handler == SIG_DFL || other->sa_handler == SIG_IGN) {
        die(signo, info);
        return;
    }
    if (other->sa_flags & (int)SA_RESETHAND)
        signal(signo, SIG_DFL);
    if (!(other->sa_flags & SA_NODEFER))
        sigaddset(&mask, signo);
    pthread_sigmask(SIG_BLOCK, &mask, &now);
    if (other->sa_flags & SA_SIGINFO)
        other->sa_sigaction(signo, info, context);
    else
        other->sa_handler(signo);
    pthread_sigmask(SIG_SETMASK, &now, NULL);
}

static void handler(int signo, siginfo_t *info, void *context)
{
    struct copy *copy = current;

    if (copy && info->si_code > 0 && (uintptr_t)info->si_addr - copy->from < copy->len)
        siglongjmp(copy->back, 1);
    pass_on(signo, info, context);
}

/* ---- The handlers ---- */

static bool is_ours(int signo)
{
    struct sigaction now;

    return !sigaction(signo, NULL, &now) && now.sa_flags & SA_SIGINFO &&
           now.sa_sigaction == handler;
}

/* SA_ONSTACK: the handlers that were installed before may expect the alternate stack. SA_NODEFER:
 * their own flags decide whether the signal is blocked meanwhile. */
static void install(void)
{
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

        if (sigaction(signals[i], NULL, &before[i]))
            continue;
        ours.sa_flags |= before[i].sa_flags & SA_RESTART;
        ours.sa_sigaction = handler;
        sigaction(signals[i], &ours, NULL);
    }
}

static sigset_t both(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (int i = 0; i < SIGNALS; i++)
        sigaddset(&set, signals[i]);
    return set;
}

int shm_guard_begin(struct shm_guard *guard)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigset_t set = both();

    pthread_once(&once, install);
    for (int i = 0; i < SIGNALS; i++) {
        if (!is_ours(signals[i]))
            return -EBUSY;
    }
    /* A fault whose signal is blocked is the end of the process. */
    return -pthread_sigmask(SIG_UNBLOCK, &set, &guard->mask);
}

void shm_guard_end(const struct shm_guard *guard)
{
    bool blocked = false;

    for (int i = 0; i < SIGNALS; i++)
        blocked = blocked || sigismember(&guard->mask, signals[i]) == 1;
    if (blocked)
        pthread_sigmask(SIG_SETMASK, &guard->mask, NULL);
}

/* ---- Copying ---- */

/* After a jump out of a handler the thread has its mask: nothing is blocked by ours, but everything
 * by those that sanitizers put around it. */
static void unmask(const struct shm_guard *guard)
{
    sigset_t set = guard->mask;

    for (int i = 0; i < SIGNALS; i++)
        sigdelset(&set, signals[i]);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
}

bool shm_guard_copy(const struct shm_guard *guard, void *to, const void *from, size_t len)
{
    struct copy copy = {.from = (uintptr_t)from, .len = len};

    if (sigsetjmp(copy.back, 0)) {
        current = NULL;
        unmask(guard);
        /* Stores of the copy past the caches must be seen before later ones. */
        atomic_thread_fence(memory_order_seq_cst);
        return false;
    }
    current = &copy;
    atomic_signal_fence(memory_order_seq_cst);
    memcpy(to, from, len);
    atomic_signal_fence(memory_order_seq_cst);
    current = NULL;
    return true;
}
