/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/ids.h"

static int items[64];

static void numbers_find_their_items(void **state)
{
    struct ids ids;
    uint64_t id[64];

    ids_init(&ids, 31, 64);
    for (int i = 0; i < 64; i++) {
        id[i] = ids_add(&ids, &items[i]);
        assert_true(id[i] != IDS_NONE);
    }
    for (int i = 0; i < 64; i++)
        assert_ptr_equal(ids_find(&ids, id[i]), &items[i]);
    ids_finish(&ids);
}

static void late_number_finds_nothing(void **state)
{
    struct ids ids;
    uint64_t old, now;

    ids_init(&ids, 31, 64);
    old = ids_add(&ids, &items[0]);
    assert_true(old != IDS_NONE);
    ids_remove(&ids, old);
    assert_null(ids_find(&ids, old));
    now = ids_add(&ids, &items[1]);
    assert_true(now != old);
    assert_null(ids_find(&ids, old));
    assert_ptr_equal(ids_find(&ids, now), &items[1]);
    ids_finish(&ids);
}

static void invented_number_finds_nothing(void **state)
{
    struct ids ids;
    uint64_t id;

    ids_init(&ids, 20, 32);
    assert_null(ids_find(&ids, 0));
    assert_null(ids_find(&ids, UINT64_MAX));
    id = ids_add(&ids, &items[0]);
    assert_true(id != IDS_NONE);
    assert_null(ids_find(&ids, id + 1));
    assert_null(ids_find(&ids, id + 1000));
    assert_null(ids_find(&ids, id | UINT64_C(1) << 40));
    ids_remove(&ids, id);
    /* The next number of a free slot. */
    assert_null(ids_find(&ids, id + (UINT64_C(1) << 20)));
    ids_finish(&ids);
}

static void generation_wraps_within_the_bits(void **state)
{
    struct ids ids;
    uint64_t first, id;

    ids_init(&ids, 4, 8);
    first = ids_add(&ids, &items[0]);
    id = first;
    for (int i = 0; i < 16; i++) {
        assert_true(id <= 0xff);
        assert_ptr_equal(ids_find(&ids, id), &items[0]);
        ids_remove(&ids, id);
        id = ids_add(&ids, &items[0]);
    }
    assert_int_equal(id, first);
    ids_finish(&ids);
}

static void no_more_than_the_index_counts(void **state)
{
    struct ids ids;

    ids_init(&ids, 4, 32);
    for (int i = 0; i < 16; i++)
        assert_true(ids_add(&ids, &items[i]) != IDS_NONE);
    assert_true(ids_add(&ids, &items[16]) == IDS_NONE);
    ids_remove(&ids, 3);
    assert_int_equal(ids_add(&ids, &items[16]), 1 << 4 | 3);
    ids_finish(&ids);
    ids_finish(&ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_find_their_items),
        cmocka_unit_test(late_number_finds_nothing),
        cmocka_unit_test(invented_number_finds_nothing),
        cmocka_unit_test(generation_wraps_within_the_bits),
        cmocka_unit_test(no_more_than_the_index_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
