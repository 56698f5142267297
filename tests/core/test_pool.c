/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/pool.h"

static void items_are_distinct_aligned_and_writable(void **state)
{
    static void *items[1000];
    struct pool pool;

    pool_init(&pool, 100, 0);
    for (size_t i = 0; i < 1000; i++) {
        items[i] = pool_get(&pool);
        assert_non_null(items[i]);
        assert_int_equal((uintptr_t)items[i] % 64, 0);
        memset(items[i], (int)(i & 0xff), 100);
    }
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(((unsigned char *)items[i])[99], i & 0xff);
    assert_int_equal(pool.used, 1000);
    pool_finish(&pool);
}

static void dense_items_take_what_they_need(void **state)
{
    static char *items[100];
    struct pool pool;

    pool_init_dense(&pool, 181, 0);
    for (size_t i = 0; i < 100; i++) {
        items[i] = pool_get(&pool);
        assert_non_null(items[i]);
        assert_int_equal((uintptr_t)items[i] % 8, 0);
        memset(items[i], (int)i, 181);
        assert_true(pool_owns(&pool, items[i]));
    }
    assert_int_equal(pool.item_size, 184);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(items[i][180], i);
    pool_finish(&pool);
    pool_init_dense(&pool, 1, 0);
    assert_non_null(pool_get(&pool));
    pool_finish(&pool);
}

static void last_freed_is_first_reused(void **state)
{
    struct pool pool;
    void *a, *b;

    pool_init(&pool, 24, 0);
    a = pool_get(&pool);
    b = pool_get(&pool);
    pool_put(&pool, a);
    pool_put(&pool, b);
    assert_ptr_equal(pool_get(&pool), b);
    assert_ptr_equal(pool_get(&pool), a);
    assert_int_equal(pool.count, 16);
    pool_finish(&pool);
}

static void limit_is_kept(void **state)
{
    struct pool pool;
    void *item = NULL;

    pool_init(&pool, 8, 21);
    for (int i = 0; i < 21; i++) {
        item = pool_get(&pool);
        assert_non_null(item);
    }
    assert_null(pool_get(&pool));
    pool_put(&pool, item);
    assert_ptr_equal(pool_get(&pool), item);
    pool_finish(&pool);
    assert_int_equal(pool.count, 0);
}

static void finish_takes_a_zeroed_pool(void **state)
{
    struct pool pool = {0};

    pool_finish(&pool);
}

static void it_knows_its_own_items(void **state)
{
    struct pool pool;
    void *items[40];
    int other;

    pool_init(&pool, 100, 0);
    assert_false(pool_owns(&pool, &other));
    for (int i = 0; i < 40; i++)
        items[i] = pool_get(&pool);
    for (int i = 0; i < 40; i++) {
        assert_true(pool_owns(&pool, items[i]));
        assert_false(pool_owns(&pool, (char *)items[i] + 1));
    }
    assert_false(pool_owns(&pool, &other));
    assert_false(pool_owns(&pool, NULL));
    pool_finish(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_distinct_aligned_and_writable),
        cmocka_unit_test(dense_items_take_what_they_need),
        cmocka_unit_test(last_freed_is_first_reused),
        cmocka_unit_test(limit_is_kept),
        cmocka_unit_test(it_knows_its_own_items),
        cmocka_unit_test(finish_takes_a_zeroed_pool),
    };

    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
