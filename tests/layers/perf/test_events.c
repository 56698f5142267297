/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of the kernel: software events, which every machine has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>

#include <rdma/fi_errno.h>

#include "layers/perf/perf_events.h"
#include "layers/perf/perf_page.h"

static void names_are_known(void **state)
{
    struct perf_set set;
    char why[160] = "";

    assert_int_equal(perf_set_parse(&set, "cycles|cache_misses,page_faults", why, 160), 0);
    assert_int_equal(set.count, 3);
    assert_string_equal(set.events[1].name, "cache_misses");
    assert_int_equal(perf_set_parse(&set, "", why, 160), 0);
    assert_string_equal(set.events[0].name, "tsc");
    assert_int_equal(perf_set_parse(&set, "cycels", why, 160), -FI_EINVAL);
    assert_string_equal(why, "there is no event 'cycels'; did you mean 'cycles'?");
    assert_int_equal(perf_set_parse(&set, "cycles|tsc", why, 160), -FI_EINVAL);
    assert_int_equal(
        perf_set_parse(&set, "cycles|cycles|cycles|cycles|cycles|cycles|cycles", why, 160),
        -FI_EINVAL);
}

/* Each new page that is touched is a fault, and takes time. */
static void software_events_count(void **state)
{
    enum {
        PAGES = 200,
        PAGE = 4096
    };
    uint64_t before[PERF_EVENTS], after[PERF_EVENTS];
    struct perf_group group;
    struct perf_set set;
    char why[160], *pages;
    int rc;

    assert_int_equal(perf_set_parse(&set, "page_faults|task_clock", why, 160), 0);
    rc = perf_group_open(&group, &set);
    if (rc) {
        print_message("no perf_event_open here: %s\n", fi_strerror(-rc));
        skip();
    }
    pages = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    madvise(pages, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
    perf_group_read(&group, before);
    for (int i = 0; i < PAGES; i++)
        pages[(size_t)i * PAGE] = 1;
    perf_group_read(&group, after);
    assert_in_range(after[0] - before[0], PAGES, 2 * PAGES);
    assert_true(after[1] - before[1] > 1000);
    munmap(pages, (size_t)PAGES * PAGE);
    perf_group_close(&group);
}

/* ---- The page of a counter, as the kernel keeps it ---- */

static struct perf_event_mmap_page page;
static uint64_t counter;
static uint32_t asked;
static int reads, changes;

/* Meanwhile the kernel moves the event to another counter, `changes` times. */
static uint64_t read_counter(uint32_t number)
{
    reads++;
    asked = number;
    if (changes > 0) {
        changes--;
        page.lock += 2;
        page.index++;
        page.offset += 1000;
    }
    return counter;
}

static void page_is(uint32_t index, int64_t offset, uint16_t width, uint64_t value)
{
    memset(&page, 0, sizeof(page));
    page.lock = 8;
    page.index = index;
    page.offset = offset;
    page.pmc_width = width;
    page.cap_user_rdpmc = 1;
    counter = value;
    reads = changes = 0;
}

static void a_page_is_a_counter_and_an_offset(void **state)
{
    uint64_t value = 0;

    page_is(3, 5000, 48, 1234);
    assert_true(perf_page_read(&page, read_counter, &value));
    assert_int_equal(value, 6234);
    assert_int_equal(asked, 2);
    assert_int_equal(reads, 1);
}

static void no_counter_is_no_value(void **state)
{
    uint64_t value = 77;

    page_is(0, 5000, 48, 1234);
    assert_false(perf_page_read(&page, read_counter, &value));
    page_is(1, 5000, 48, 1234);
    page.cap_user_rdpmc = 0;
    assert_false(perf_page_read(&page, read_counter, &value));
    page_is(1, 5000, 0, 1234); /* no width that shifts could have */
    assert_false(perf_page_read(&page, read_counter, &value));
    page_is(1, 5000, 65, 1234);
    assert_false(perf_page_read(&page, read_counter, &value));
    assert_int_equal(value, 77);
    assert_int_equal(reads, 0);
}

/* The kernel starts counters below zero, so that they overflow in time. */
static void the_counter_has_a_sign_and_a_width(void **state)
{
    uint64_t value = 0;

    page_is(1, 1000000, 48, (((uint64_t)1 << 48) - 300) | (uint64_t)0xabcd << 48);
    assert_true(perf_page_read(&page, read_counter, &value));
    assert_int_equal(value, 1000000 - 300);
    page_is(1, 10, 64, UINT64_MAX);
    assert_true(perf_page_read(&page, read_counter, &value));
    assert_int_equal(value, 9);
    page_is(1, 100, 40, (uint64_t)0x7f << 32 | (uint64_t)1 << 45);
    assert_true(perf_page_read(&page, read_counter, &value));
    assert_int_equal(value, ((uint64_t)0x7f << 32) + 100);
}

static void a_page_that_changes_is_read_again(void **state)
{
    uint64_t value = 0;

    page_is(1, 0, 48, 5);
    changes = 3;
    assert_true(perf_page_read(&page, read_counter, &value));
    assert_int_equal(reads, 4);
    assert_int_equal(asked, 3);
    assert_int_equal(value, 3005);
}

static void the_clock_goes_on(void **state)
{
    uint64_t before[PERF_EVENTS], after[PERF_EVENTS];
    struct perf_group group;
    struct perf_set set;

    perf_set_clock(&set);
    assert_int_equal(perf_group_open(&group, &set), 0);
    perf_group_read(&group, before);
    perf_group_read(&group, after);
    assert_true(after[0] > before[0]);
    perf_group_close(&group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_known),
        cmocka_unit_test(software_events_count),
        cmocka_unit_test(a_page_is_a_counter_and_an_offset),
        cmocka_unit_test(no_counter_is_no_value),
        cmocka_unit_test(the_counter_has_a_sign_and_a_width),
        cmocka_unit_test(a_page_that_changes_is_read_again),
        cmocka_unit_test(the_clock_goes_on),
    };

    return cmocka_run_group_tests_name("perf events", tests, NULL, NULL);
}
