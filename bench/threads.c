/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two threads, each with a domain of its own and two endpoints in it, exchange 8-byte messages in
 * one process: what both do together in the CPU time that one takes alone. Windows of one and of
 * two threads take turns. Locks that the library takes meanwhile are counted: with FI_THREAD_DOMAIN
 * there must be none.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stack.h"

enum {
    BATCH = 64,
    ROUNDS = 2000,
    WINDOWS = 21,
    THREADS = 2,
    APART = 128 /* bytes; two cache lines, which the processor fetches together */
};

struct lane {
    struct bench_stack stack;
    struct fid_ep *ep[2];
    fi_addr_t to;
    int core;
    pthread_barrier_t *start;
    uint64_t ns, locks;
    _Alignas(APART) char data[2][APART]; /* and the next thread's lane begins behind them */
};

static __thread uint64_t locks;

/* Takes the place of libc's, for the library, too. */
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t * mutex);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    locks++;
    return real(mutex);
}

static void open_lane(struct lane *lane, const char *spec)
{
    char address[256];
    size_t len = sizeof address;

    bench_stack_open(&lane->stack, spec, NULL);
    for (int i = 0; i < 2; i++)
        lane->ep[i] = bench_stack_ep(&lane->stack, NULL);
    bench_check(&lane->stack, "fi_getname", fi_getname(&lane->ep[1]->fid, address, &len));
    if (fi_av_insert(lane->stack.av, address, 1, &lane->to, 0, NULL) != 1)
        bench_die("%s: fi_av_insert fails", spec);
}

static void reap(struct lane *lane, int count)
{
    struct fi_cq_tagged_entry entries[16];

    while (count) {
        ssize_t n = fi_cq_read(lane->stack.cq, entries, 16);

        if (n > 0)
            count -= (int)n;
        else if (n != -FI_EAGAIN)
            bench_check(&lane->stack, "fi_cq_read", n);
    }
}

static void post(struct lane *lane, bool receive)
{
    ssize_t rc = -FI_EAGAIN;

    while (rc == -FI_EAGAIN) {
        if (receive)
            rc = fi_trecv(lane->ep[1], lane->data[1], 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL);
        else
            rc = fi_tsend(lane->ep[0], lane->data[0], 8, NULL, lane->to, 1, NULL);
        if (rc == -FI_EAGAIN)
            fi_cq_read(lane->stack.cq, NULL, 0);
    }
    bench_check(&lane->stack, "post", rc);
}

static void exchange(struct lane *lane)
{
    for (int i = 0; i < BATCH; i++)
        post(lane, true);
    for (int i = 0; i < BATCH; i++)
        post(lane, false);
    reap(lane, 2 * BATCH);
}

/* Of this thread: what others do on the machine does not count. */
static uint64_t cpu_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void *run(void *arg)
{
    struct lane *lane = arg;
    uint64_t start;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(lane->core, &set);
    sched_setaffinity(0, sizeof set, &set);
    exchange(lane);
    pthread_barrier_wait(lane->start);
    locks = 0;
    start = cpu_now();
    for (int i = 0; i < ROUNDS; i++)
        exchange(lane);
    lane->ns = cpu_now() - start;
    lane->locks = locks;
    return NULL;
}

/* Messages in a second of CPU, of all lanes together. */
static double window(struct lane *lanes, int count)
{
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    double rate = 0;

    pthread_barrier_init(&start, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) {
        lanes[i].start = &start;
        pthread_create(&threads[i], NULL, run, &lanes[i]);
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    for (int i = 0; i < count; i++)
        rate += (double)ROUNDS * BATCH / (double)lanes[i].ns * 1e9;
    return rate;
}

int bench_threads(const char *library, const int core[2], char **specs, int count)
{
    bench_load(library);
    for (int s = 0; s < count; s++) {
        struct lane *lanes = aligned_alloc(APART, THREADS * sizeof *lanes);
        double rates[THREADS][WINDOWS];
        uint64_t taken = 0;

        if (!lanes)
            bench_die("out of memory");
        memset(lanes, 0, THREADS * sizeof *lanes);
        for (int i = 0; i < THREADS; i++) {
            lanes[i].core = core[i];
            open_lane(&lanes[i], specs[s]);
        }
        for (int w = 0; w < WINDOWS; w++) {
            for (int threads = 1; threads <= THREADS; threads++)
                rates[threads - 1][w] = window(lanes, threads);
            taken += lanes[0].locks + lanes[1].locks;
        }
        for (int i = 0; i < THREADS; i++)
            qsort(rates[i], WINDOWS, sizeof(double), bench_ascending);
        printf("threads    %-32s one %.2f M/s, two %.2f M/s, ratio %.2f; %.4f locks a message\n",
               specs[s], rates[0][WINDOWS / 2] / 1e6, rates[1][WINDOWS / 2] / 1e6,
               rates[1][WINDOWS / 2] / rates[0][WINDOWS / 2],
               (double)taken / WINDOWS / THREADS / ROUNDS / BATCH);
        free(lanes);
    }
    return 0;
}
