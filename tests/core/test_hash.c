/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/hash.h"

/* From here on uthash's memory comes from these. */
static int allocations_left = INT32_MAX;

static void *limited_malloc(size_t size)
{
    return allocations_left-- > 0 ? malloc(size) : NULL;
}

#undef uthash_malloc
#define uthash_malloc(size) limited_malloc(size)

struct element {
    uint32_t key;
    UT_hash_handle hh;
};

/* The published values of FNV-1a, 64 bits. */
static void bytes_hash_as_published(void **state)
{
    assert_int_equal(hash_bytes(HASH_START, "", 0), UINT64_C(0xcbf29ce484222325));
    assert_int_equal(hash_bytes(HASH_START, "a", 1), UINT64_C(0xaf63dc4c8601ec8c));
    assert_int_equal(hash_bytes(HASH_START, "foobar", 6), UINT64_C(0x85944171f73967e8));
    assert_int_equal(hash_bytes(hash_bytes(HASH_START, "foo", 3), "bar", 3),
                     UINT64_C(0x85944171f73967e8));
}

static struct element *find(struct element *table, uint32_t key)
{
    struct element *found;

    HASH_FIND(hh, table, &key, sizeof(key), found);
    return found;
}

static void elements_are_found(void **state)
{
    static struct element elements[1000];
    struct element *table = NULL;

    for (uint32_t i = 0; i < 1000; i++) {
        elements[i].key = i * 4096;
        HASH_ADD(hh, table, key, sizeof(uint32_t), &elements[i]);
        assert_true(hash_has(&elements[i]));
    }
    for (uint32_t i = 0; i < 1000; i++)
        assert_ptr_equal(find(table, i * 4096), &elements[i]);
    assert_null(find(table, 1));
    HASH_DEL(table, &elements[7]);
    assert_null(find(table, 7 * 4096));
    HASH_CLEAR(hh, table);
}

/* Any allocation of the table's may fail: what was in it stays, what came is not in it. */
static void element_without_memory_is_left_out(void **state)
{
    static struct element elements[1000];

    for (int fail_at = 0; fail_at < 4; fail_at++) {
        struct element *table = NULL;
        uint32_t left_out = 0;

        memset(elements, 0, sizeof(elements));
        allocations_left = fail_at;
        for (uint32_t i = 0; i < 1000; i++) {
            elements[i].key = i;
            HASH_ADD(hh, table, key, sizeof(uint32_t), &elements[i]);
            left_out += !hash_has(&elements[i]);
            assert_ptr_equal(find(table, i), hash_has(&elements[i]) ? &elements[i] : NULL);
        }
        assert_true(left_out > 0);
        assert_int_equal(HASH_COUNT(table), 1000 - left_out);
        allocations_left = INT32_MAX;
        HASH_CLEAR(hh, table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_hash_as_published),
        cmocka_unit_test(elements_are_found),
        cmocka_unit_test(element_without_memory_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
