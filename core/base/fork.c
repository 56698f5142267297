/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/fork.h"

#include <pthread.h>

unsigned fork_generation;

static void count_fork(void)
{
    fork_generation++;
}

static void watch(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

void fork_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch);
}
