/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_fork.h"

#include <pthread.h>
#include <unistd.h>

#include "core/base/fork.h"
#include "transports/shm/shm_ep.h"
#include "transports/shm/shm_sep.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list all_eps = {&all_eps, &all_eps};

void shm_fork_hold(void)
{
    pthread_mutex_lock(&mutex);
}

void shm_fork_let(void)
{
    pthread_mutex_unlock(&mutex);
}

static void drop_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void in_child(void)
{
    list_for_each (pos, &all_eps) {
        struct shm_ep *ep = list_item(pos, struct shm_ep, all);

        drop_fd(&ep->listener);
        if (ep->sep)
            drop_fd(&ep->sep->listener);
        for (uint32_t i = 0; i < ep->number_count; i++) {
            if (ep->numbers[i])
                drop_fd(&ep->numbers[i]->fd);
        }
    }
    shm_fork_let();
}

static void watch(void)
{
    pthread_atfork(shm_fork_hold, shm_fork_let, in_child);
}

void shm_fork_watch(struct shm_ep *ep)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    fork_watch();
    pthread_once(&once, watch);
    shm_fork_hold();
    list_attach(&ep->all, &all_eps);
    shm_fork_let();
    ep->forks = fork_generation;
}

void shm_fork_forget(struct shm_ep *ep)
{
    shm_fork_hold();
    list_detach(&ep->all);
    shm_fork_let();
}
