/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that waits offers its core, unless another thread waits for it. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <sys/resource.h>

#include "ends.h"
#include "layers/rxm/inside.h"
#include "transports/shm/shm_ep.h"

enum {
    PATIENCE = 60, /* s */
    ROUNDS = 20000,
    ENDS = 4, /* the last ones are silent */
    SOME = 16,
    MANY = 2000
};

static unsigned yields, naps;
/* Yields return at once, and after so many of them the core is taken; 0: they give it away. */
static unsigned unheard;
static long switches;

/* The library's, too: on a machine that others use. */
int sched_yield(void)
{
    double begin = end_seconds();

    yields++;
    if (unheard && yields % unheard == 0)
        switches++;
    while (!unheard && end_seconds() - begin < 20e-6)
        ;
    return 0;
}

#ifdef __GLIBC__
typedef __rusage_who_t rusage_who;
#else
typedef int rusage_who;
#endif

int getrusage(rusage_who who, struct rusage *usage)
{
    (void)who;
    *usage = (struct rusage){.ru_nivcsw = switches};
    return 0;
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)time;
    (void)left;
    naps++;
    return 0;
}

static void drive(struct end *ends)
{
    for (int i = 0; i < ENDS; i++)
        end_drive(&ends[i], NULL);
}

static void exchange(struct end *ends, fi_addr_t peer)
{
    struct fi_cq_tagged_entry entry;
    char in = 0;

    assert_int_equal(fi_trecv(ends[1].ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    end_post(&ends[0], &ends[1], fi_tinject(ends[0].ep, "y", 1, peer, 1));
    assert_int_equal(end_wait(&ends[1], &ends[0], &entry), 0);
    assert_int_equal(in, 'y');
}

static void until_the_core_is_offered(struct end *ends)
{
    double begin = end_seconds();

    for (yields = 0; !yields;) {
        drive(ends);
        assert_true(end_seconds() - begin < PATIENCE);
    }
}

static void test_silent_ends_beside_a_busy_one(void **state)
{
    struct end ends[ENDS];
    fi_addr_t peer;

    (void)state;
    for (int i = 0; i < ENDS; i++)
        end_open(&ends[i], "shm");
    peer = end_introduce(&ends[0], &ends[1]);
    exchange(ends, peer);
    until_the_core_is_offered(ends);
    exchange(ends, peer);
    yields = 0;
    for (int i = 0; i < ROUNDS; i++) {
        exchange(ends, peer);
        drive(ends);
    }
    assert_int_equal(yields, 0);
    until_the_core_is_offered(ends);
    for (int i = 0; i < ENDS; i++)
        end_close(&ends[i]);
}

static void until_yields(struct end *ends, unsigned enough)
{
    double begin = end_seconds();

    for (yields = 0; yields < enough && !naps;) {
        drive(ends);
        assert_true(end_seconds() - begin < PATIENCE);
    }
}

/* The scheduler keeps the groups of processes apart: a yield is for those of its own. */
static void test_yields_that_nobody_hears(void **state)
{
    struct end ends[ENDS];

    (void)state;
    for (int i = 0; i < ENDS; i++)
        end_open(&ends[i], "shm");
    naps = 0;
    unheard = MANY;
    until_yields(ends, MANY - 1);
    assert_int_equal(naps, 0);
    unheard = SOME;
    until_yields(ends, MANY);
    assert_true(naps > 0);
    unheard = 0;
    for (int i = 0; i < ENDS; i++)
        end_close(&ends[i]);
}

static void *want_the_lock(void *arg)
{
    progress_lock(arg);
    progress_unlock(arg);
    return NULL;
}

static void test_whose_lock_another_thread_wants(void **state)
{
    struct end ends[ENDS];
    struct progress *progress;
    struct shm_ep *ep;
    pthread_t thread;
    double begin;

    (void)state;
    for (int i = 0; i < ENDS; i++)
        end_open_as(&ends[i], "shm", &(struct end_want){.threading = FI_THREAD_SAFE});
    until_the_core_is_offered(ends);
    ep = shm_ep_of(ends[0].ep);
    progress = ep->base.binding.progress;
    progress_lock(progress);
    assert_int_equal(pthread_create(&thread, NULL, want_the_lock, progress), 0);
    while (!progress_others_wait())
        usleep(1000);
    yields = 0;
    begin = end_seconds();
    for (int i = 0; i < ROUNDS || end_seconds() - begin < 0.01; i++)
        shm_progress_ep(ep);
    assert_int_equal(yields, 0);
    progress_unlock(progress);
    assert_int_equal(pthread_join(thread, NULL), 0);
    until_the_core_is_offered(ends);
    for (int i = 0; i < ENDS; i++)
        end_close(&ends[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_ends_beside_a_busy_one),
        cmocka_unit_test(test_yields_that_nobody_hears),
        cmocka_unit_test(test_whose_lock_another_thread_wants),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
