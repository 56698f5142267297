/* SPDX-License-Identifier: BSD-2-Clause */
/* Items that come in any order are taken in the order of their numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/reorder.h"

enum {
    ITEMS = 3000,
    AHEAD = 200,
};

struct item {
    struct list link;
    uint32_t serial;
};

static struct item items[ITEMS];

static uint32_t take_all(struct reorder *reorder)
{
    struct list *link;

    while ((link = reorder_take(reorder))) {
        assert_int_equal(list_item(link, struct item, link)->serial, reorder->next);
        reorder->next++;
    }
    return reorder->next;
}

/* start: of the numbers, so that they wrap on the way. Each comes at most AHEAD before its turn. */
static void shuffled(uint32_t start)
{
    struct reorder reorder = {.next = start};
    struct list rest;
    size_t order[ITEMS];

    srand(start + 7);
    for (size_t i = 0; i < ITEMS; i++) {
        size_t from = i < AHEAD ? 0 : i - AHEAD, at = from + (size_t)rand() % (i - from + 1), other;

        items[i].serial = start + (uint32_t)i;
        order[i] = i;
        other = order[at];
        order[at] = order[i];
        order[i] = other;
    }
    for (size_t i = 0; i < ITEMS; i++) {
        struct item *item = &items[order[i]];

        assert_true(reorder_ahead(&reorder, item->serial) >= 0);
        assert_int_equal(reorder_keep(&reorder, item->serial, &item->link), 0);
        take_all(&reorder);
    }
    assert_int_equal(reorder.next, start + ITEMS);
    assert_int_equal(reorder.count, 0);
    list_init(&rest);
    reorder_finish(&reorder, &rest);
    assert_true(list_empty(&rest));
}

static void any_order_becomes_the_right_one(void **state)
{
    shuffled(0);
    shuffled(UINT32_MAX - ITEMS / 2);
}

static void items_of_one_number_are_all_kept(void **state)
{
    struct reorder reorder = {.next = 5};
    struct list rest;

    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(reorder_keep(&reorder, 6, &items[i].link), 0);
        assert_int_equal(reorder_keep(&reorder, 5000, &items[3 + i].link), 0);
    }
    assert_null(reorder_take(&reorder));
    reorder.next = 6;
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(reorder_take(&reorder), &items[i].link);
    assert_null(reorder_take(&reorder));
    reorder.next = 5000;
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(reorder_take(&reorder), &items[3 + i].link);
    assert_null(reorder_take(&reorder));
    list_init(&rest);
    reorder_finish(&reorder, &rest);
}

/* Kept when it was far away, and next to one that came when it was near. */
static void what_was_far_is_found_when_it_is_near(void **state)
{
    struct reorder reorder = {0};
    struct list rest;

    assert_int_equal(reorder_keep(&reorder, 20, &items[0].link), 0);
    reorder.next = 10;
    assert_int_equal(reorder_keep(&reorder, 20, &items[1].link), 0);
    reorder.next = 20;
    assert_non_null(reorder_take(&reorder));
    assert_non_null(reorder_take(&reorder));
    assert_null(reorder_take(&reorder));
    list_init(&rest);
    reorder_finish(&reorder, &rest);
}

static void the_rest_is_given_back(void **state)
{
    struct reorder reorder = {0};
    struct list rest;
    size_t count = 0;

    for (uint32_t i = 1; i <= 100; i++)
        assert_int_equal(reorder_keep(&reorder, i * 7, &items[i].link), 0);
    reorder.next = 3;
    list_init(&rest);
    reorder_reset(&reorder, &rest);
    list_for_each (pos, &rest)
        count++;
    assert_int_equal(count, 100);
    assert_int_equal(reorder.next, 0);
    assert_int_equal(reorder.count, 0);
    assert_null(reorder_take(&reorder));
    reorder_finish(&reorder, &rest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_becomes_the_right_one),
        cmocka_unit_test(items_of_one_number_are_all_kept),
        cmocka_unit_test(what_was_far_is_found_when_it_is_near),
        cmocka_unit_test(the_rest_is_given_back),
    };

    return cmocka_run_group_tests_name("core: reorder", tests, NULL, NULL);
}
