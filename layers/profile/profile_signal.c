/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/profile/profile_signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <rdma/fi_errno.h>

enum {
    SLOTS = 32,
    SIGNALS = 65
};

/* Semaphores live as long as the process: a handler may be at one at any time. */
static struct slot {
    atomic_int signo; /* 0: free */
    bool made;
    sem_t sem;
} slots[SLOTS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before[SIGNALS]; /* written before the handler stands */
static int users[SIGNALS];

int profile_signal_number(const char *name)
{
    static const struct {
        const char *name;
        int signo;
    } known[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}};

    for (size_t i = 0; name && i < sizeof(known) / sizeof(*known); i++)
        if (!strcasecmp(known[i].name, name))
            return known[i].signo;
    return 0;
}

static void handler(int signo, siginfo_t *info, void *context)
{
    const struct sigaction *other = &before[signo];
    int saved = errno;

    for (int i = 0; i < SLOTS; i++)
        if (atomic_load_explicit(&slots[i].signo, memory_order_acquire) == signo)
            sem_post(&slots[i].sem);
    errno = saved;
    if (other->sa_flags & SA_SIGINFO)
        other->sa_sigaction(signo, info, context);
    else if (other->sa_handler != SIG_DFL && other->sa_handler != SIG_IGN)
        other->sa_handler(signo);
}

static bool is_ours(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == handler;
}

/* Mutex held. The mask and flags of the other handler hold for ours, which calls it. */
static int install(int signo)
{
    struct sigaction ours = {0}, now;

    if (sigaction(signo, NULL, &now))
        return -errno;
    if (is_ours(&now))
        return 0;
    before[signo] = now;
    ours.sa_mask = now.sa_mask;
    ours.sa_flags = (now.sa_flags & (SA_ONSTACK | SA_NODEFER)) | SA_SIGINFO | SA_RESTART;
    ours.sa_sigaction = handler;
    return sigaction(signo, &ours, NULL) ? -errno : 0;
}

int profile_signal_take(int signo, sem_t **ret_sem)
{
    struct slot *slot = slots;
    int rc = -FI_EAGAIN;

    pthread_mutex_lock(&mutex);
    while (slot < slots + SLOTS && atomic_load(&slot->signo))
        slot++;
    if (slot < slots + SLOTS) {
        if (!slot->made)
            sem_init(&slot->sem, 0, 0);
        slot->made = true;
        while (!sem_trywait(&slot->sem))
            ;
        rc = install(signo);
    }
    if (!rc) {
        users[signo]++;
        atomic_store_explicit(&slot->signo, signo, memory_order_release);
        *ret_sem = &slot->sem;
    }
    pthread_mutex_unlock(&mutex);
    return rc;
}

void profile_signal_release(const sem_t *sem)
{
    struct sigaction now;

    if (!sem)
        return;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < SLOTS; i++) {
        int signo = atomic_load(&slots[i].signo);

        if (&slots[i].sem != sem || !signo)
            continue;
        atomic_store(&slots[i].signo, 0);
        if (!--users[signo] && !sigaction(signo, NULL, &now) && is_ours(&now))
            sigaction(signo, &before[signo], NULL);
    }
    pthread_mutex_unlock(&mutex);
}
