/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>

#include "core/base/per_thread.h"

struct counted {
    struct block block;
    uint64_t count;
};

static int takes, leaves;

static void taken(struct per_thread *per_thread, struct block *block)
{
    takes++;
}

static void left(struct block *block)
{
    leaves++;
}

static int setup(void **state)
{
    takes = leaves = 0;
    return 0;
}

static void *count_some(void *arg)
{
    for (int i = 0; i < 1000; i++)
        per_thread_add(&((struct counted *)per_thread_of(arg))->count, 1);
    return NULL;
}

static uint64_t sum(struct per_thread *per_thread, int *number)
{
    uint64_t total = 0;

    *number = 0;
    per_thread_lock();
    for (struct block *block = per_thread->first; block; block = block->next) {
        total += __atomic_load_n(&((struct counted *)block)->count, __ATOMIC_RELAXED);
        ++*number;
    }
    per_thread_unlock();
    return total;
}

static void each_thread_has_its_own(void **state)
{
    struct per_thread per_thread;
    pthread_t threads[4];
    int number;

    per_thread_init(&per_thread, sizeof(struct counted), taken, left);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_some, &per_thread), 0);
    sum(&per_thread, &number);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(sum(&per_thread, &number), 4000);
    assert_in_range(number, 1, 4);
    assert_int_equal(takes, 4);
    assert_int_equal(leaves, 4);
    per_thread_finish(&per_thread);
}

static void one_of_an_ended_thread_is_taken_over(void **state)
{
    struct per_thread per_thread;
    int number;

    per_thread_init(&per_thread, sizeof(struct counted), taken, left);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, count_some, &per_thread), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_int_equal(sum(&per_thread, &number), 10000);
    assert_int_equal(number, 1);
    per_thread_finish(&per_thread);
    assert_int_equal(leaves, 10);
}

static void several_owners_do_not_mix(void **state)
{
    struct per_thread one, two;
    int number;

    per_thread_init(&one, sizeof(struct counted), NULL, NULL);
    per_thread_init(&two, sizeof(struct counted), NULL, NULL);
    for (int i = 0; i < 3; i++) {
        count_some(&one);
        count_some(&two);
        count_some(&two);
    }
    assert_int_equal(sum(&one, &number), 3000);
    assert_int_equal(number, 1);
    assert_int_equal(sum(&two, &number), 6000);
    per_thread_finish(&one);
    /* A later object at the same place is not taken for it. */
    per_thread_init(&one, sizeof(struct counted), NULL, NULL);
    count_some(&one);
    assert_int_equal(sum(&one, &number), 1000);
    per_thread_finish(&one);
    per_thread_finish(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_thread_has_its_own, setup),
        cmocka_unit_test_setup(one_of_an_ended_thread_is_taken_over, setup),
        cmocka_unit_test_setup(several_owners_do_not_mix, setup),
    };

    return cmocka_run_group_tests_name("blocks", tests, NULL, NULL);
}
