/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/domain/mr_pool.h"

enum {
    ITEM = 200,
    FIRST = 4,
    MOST = 8,
};

/* A domain of a lower that registers: regions are counted, their descriptor is the memory. */
struct lower {
    struct fid_domain fid;
    struct fi_ops_mr ops;
    struct fid_mr mrs[8];
    unsigned asked, opened, closed;
    size_t bytes;
    int refuse;
};

static struct lower lower;

static int mr_close(struct fid *fid)
{
    lower.closed++;
    return 0;
}

static struct fi_ops mr_fid_ops = {.size = sizeof(mr_fid_ops), .close = mr_close};

static int reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
               uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    lower.asked++;
    if (lower.refuse)
        return lower.refuse;
    lower.bytes = len;
    *mr = &lower.mrs[lower.opened++];
    (*mr)->fid.fclass = FI_CLASS_MR;
    (*mr)->fid.ops = &mr_fid_ops;
    (*mr)->mem_desc = (void *)(uintptr_t)buf;
    return 0;
}

static int set_up(void **state)
{
    memset(&lower, 0, sizeof(lower));
    lower.fid.fid.fclass = FI_CLASS_DOMAIN;
    lower.fid.mr = &lower.ops;
    lower.ops = (struct fi_ops_mr){.size = sizeof(lower.ops), .reg = reg};
    return 0;
}

static void chunks_are_registered_and_closed(void **state)
{
    struct mr_pool pool;
    struct mr_buffer *items[FIRST + MOST];

    mr_pool_init(&pool, "test", &lower.fid, ITEM, FIRST, MOST);
    assert_int_equal(lower.opened, 0);
    for (unsigned i = 0; i < FIRST; i++) {
        items[i] = mr_pool_get(&pool);
        assert_non_null(items[i]);
        assert_int_equal((uintptr_t)items[i] % 64, 0);
        assert_ptr_equal(items[i]->desc, lower.mrs[0].mem_desc);
        assert_true((char *)items[i] >= (char *)items[i]->desc);
        assert_true((char *)items[i] + ITEM <= (char *)items[i]->desc + lower.bytes);
    }
    assert_int_equal(lower.opened, 1);
    items[FIRST] = mr_pool_get(&pool);
    assert_non_null(items[FIRST]);
    assert_int_equal(lower.opened, 2);
    assert_ptr_equal(items[FIRST]->desc, lower.mrs[1].mem_desc);
    assert_int_equal(pool.used, FIRST + 1);
    mr_pool_finish(&pool);
    assert_int_equal(lower.closed, 2);
}

static void last_freed_is_first_reused(void **state)
{
    struct mr_pool pool;
    void *a, *b;

    mr_pool_init(&pool, "test", NULL, ITEM, FIRST, MOST);
    a = mr_pool_get(&pool);
    b = mr_pool_get(&pool);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(((struct mr_buffer *)a)->desc);
    mr_pool_put(&pool, a);
    mr_pool_put(&pool, b);
    assert_ptr_equal(mr_pool_get(&pool), b);
    assert_ptr_equal(mr_pool_get(&pool), a);
    mr_pool_finish(&pool);
    assert_int_equal(pool.used, 0);
}

static void chunks_grow_up_to_a_bound(void **state)
{
    struct mr_pool pool;
    size_t before = 0;

    mr_pool_init(&pool, "test", NULL, ITEM, FIRST, MOST);
    for (unsigned i = 0; i < 100; i++) {
        assert_non_null(mr_pool_get(&pool));
        assert_true(pool.count - before <= MOST);
        before = pool.count;
    }
    mr_pool_finish(&pool);
}

static void refused_registration_gives_nothing(void **state)
{
    struct mr_pool pool;

    lower.refuse = -FI_ENOMEM;
    mr_pool_init(&pool, "test", &lower.fid, ITEM, FIRST, MOST);
    assert_null(mr_pool_get(&pool));
    assert_int_equal(pool.count, 0);
    lower.refuse = 0;
    assert_non_null(mr_pool_get(&pool));
    mr_pool_finish(&pool);
    assert_int_equal(lower.opened, lower.closed);
}

/* A lower that goes on refusing is asked less and less, and again. */
static void refused_registrations_are_not_repeated_each_time(void **state)
{
    struct mr_pool pool;
    unsigned calls = 1;

    lower.refuse = -FI_ENOMEM;
    mr_pool_init(&pool, "test", &lower.fid, ITEM, FIRST, MOST);
    for (int i = 0; i < 10000; i++)
        assert_null(mr_pool_get(&pool));
    assert_true(lower.asked > 2 && lower.asked < 30);
    lower.refuse = 0;
    while (!mr_pool_get(&pool))
        calls++;
    assert_in_range(calls, 1, 1025);
    assert_non_null(mr_pool_get(&pool));
    mr_pool_finish(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(chunks_are_registered_and_closed, set_up),
        cmocka_unit_test_setup(last_freed_is_first_reused, set_up),
        cmocka_unit_test_setup(chunks_grow_up_to_a_bound, set_up),
        cmocka_unit_test_setup(refused_registration_gives_nothing, set_up),
        cmocka_unit_test_setup(refused_registrations_are_not_repeated_each_time, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
