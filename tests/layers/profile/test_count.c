/* SPDX-License-Identifier: BSD-2-Clause */
/* Buckets of times, and blocks of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "layers/profile/profile.h"

static void a_bucket_is_off_by_one_in_32_at_most(void **state)
{
    unsigned last = 0;

    for (uint64_t ns = 1; ns < (uint64_t)1 << 40; ns += ns / 100 + 1) {
        unsigned bucket = profile_bucket(ns);

        assert_true(bucket >= last);
        assert_true(profile_bucket_end(bucket) >= ns);
        assert_true(profile_bucket_end(bucket) - ns <= ns / 32);
        assert_int_equal(profile_bucket(profile_bucket_end(bucket)), bucket);
        assert_int_equal(profile_bucket(profile_bucket_end(bucket) + 1), bucket + 1);
        last = bucket;
    }
    assert_true(profile_bucket(UINT64_MAX) < PROFILE_BUCKETS);
}

static void quantiles_are_of_what_was_counted(void **state)
{
    static struct profile_times times;

    assert_int_equal(profile_quantile(&times, 0.5), 0);
    for (uint64_t ns = 1; ns <= 1000; ns++) {
        times.buckets[profile_bucket(ns * 1000)]++;
        times.count++;
    }
    assert_in_range(profile_quantile(&times, 0.5), 500000, 516000);
    assert_in_range(profile_quantile(&times, 0.99), 990000, 1022000);
    assert_in_range(profile_quantile(&times, 1), 1000000, 1032000);
}

static void the_99th_of_two_is_the_larger(void **state)
{
    static struct profile_times times;

    times.buckets[profile_bucket(10)] = times.buckets[profile_bucket(20)] = 1;
    times.count = 2;
    assert_int_equal(profile_quantile(&times, 0.5), 10);
    assert_int_equal(profile_quantile(&times, 0.99), 20);
}

static void *count_some(void *arg)
{
    struct profile_block *block = profile_block_of(arg);

    for (int i = 0; i < 1000; i++)
        per_thread_add(&block->counts.sizes[OP_SEND][1], 1);
    return NULL;
}

static void no_count_of_a_thread_is_lost(void **state)
{
    struct profile *profile = profile_create(1);
    struct profile_counts sum;
    pthread_t threads[4];

    assert_non_null(profile);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_some, profile), 0);
    profile_sum(profile, &sum);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    profile_sum(profile, &sum);
    assert_int_equal(sum.sizes[OP_SEND][1], 4000);
    profile_destroy(profile);
}

static void blocks_of_ended_threads_are_used_again(void **state)
{
    struct profile *profile = profile_create(1);
    struct profile_counts sum;
    int per_thread = 0;

    assert_non_null(profile);
    for (int i = 0; i < 100; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, count_some, profile), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    for (struct block *block = profile->per_thread.first; block; block = block->next)
        per_thread++;
    assert_int_equal(per_thread, 1);
    profile_sum(profile, &sum);
    assert_int_equal(sum.sizes[OP_SEND][1], 100000);
    profile_destroy(profile);
}

static int told;

static int tell(struct fid_profile *profile, struct fi_profile_desc *event, void *param,
                size_t size, void *context)
{
    uint64_t waiting = 0;

    assert_int_equal(fi_profile_read_u64(profile, FI_VAR_UNEXP_MSG_CNT, &waiting), 0);
    assert_int_equal(waiting, event->id == FI_EVENT_UNEXP_MSG_RECVD ? 1 : 0);
    assert_ptr_equal(context, &told);
    told++;
    return 0;
}

/* Where the layer that matches stands above. */
static void events_are_told(void **state)
{
    struct fi_profile_desc events[4];
    struct profile *profile = profile_create(1);
    struct fid_profile *handle;
    struct fid target;
    void *ops = NULL;
    size_t count = 4;

    assert_non_null(profile);
    profile_matches_above(profile);
    assert_int_equal(profile_handle_open(profile, &target, 0, NULL, &ops), 0);
    handle = ops;
    assert_int_equal(fi_profile_query_events(handle, events, &count), 2);
    assert_int_equal(fi_profile_register_callback(handle, 17, tell, &told), -FI_EINVAL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_profile_register_callback(handle, events[i].id, tell, &told), 0);
    profile_depth_count(&profile->depth, true);
    profile_tell(profile, FI_EVENT_UNEXP_MSG_RECVD);
    profile_depth_count(&profile->depth, false);
    profile_tell(profile, FI_EVENT_UNEXP_MSG_MATCHED);
    assert_int_equal(told, 2);
    profile_destroy(profile);
    assert_int_equal(fi_profile_close(handle), 0); /* after its fabric */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_is_off_by_one_in_32_at_most),
        cmocka_unit_test(quantiles_are_of_what_was_counted),
        cmocka_unit_test(the_99th_of_two_is_the_larger),
        cmocka_unit_test(no_count_of_a_thread_is_lost),
        cmocka_unit_test(blocks_of_ended_threads_are_used_again),
        cmocka_unit_test(events_are_told),
    };

    return cmocka_run_group_tests_name("profile counts", tests, NULL, NULL);
}
