/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of the kernel: software events, which every machine has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <sys/mman.h>

#include <rdma/fi_errno.h>

#include "layers/perf/perf_events.h"

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
    assert_string_equal(why, "events: there is no event 'cycels'; did you mean 'cycles'?");
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
        cmocka_unit_test(the_clock_goes_on),
    };

    return cmocka_run_group_tests_name("perf events", tests, NULL, NULL);
}
