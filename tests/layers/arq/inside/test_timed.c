/* SPDX-License-Identifier: BSD-2-Clause */
/* When the lower is asked to tell how long each packet has waited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/seam.h"
#include "layers/arq/arq_ep.h"

enum {
    SOON = 10000, /* ns between two looks */
    LATE = 5000000,
};

static unsigned asked;
static uint32_t notes;

static int setopt(struct fid *fid, int level, int name, const void *value, size_t len)
{
    assert_int_equal(name, OPT_NOTES);
    assert_int_equal(len, sizeof(notes));
    memcpy(&notes, value, sizeof(notes));
    asked++;
    return 0;
}

static struct fi_ops_ep ops = {.size = sizeof(ops), .setopt = setopt};
static struct fid_ep lower = {.fid.fclass = FI_CLASS_EP, .ops = &ops};

static void look(struct arq_ep *ep, uint64_t gap, unsigned times)
{
    while (times--)
        arq_lower_note_gap(ep, gap);
}

/* Its reader loses its core each few milliseconds: what it reads then tells nothing, and no packet
 * costs more for it. */
static void packets_of_a_busy_machine_are_not_timed(void **state)
{
    static struct arq_ep ep;

    ep.lower.ep = &lower;
    ep.lower.notes = true;
    asked = 0;
    for (int i = 0; i < 1000; i++) {
        look(&ep, LATE, 1);
        assert_true(ep.lower.late);
        look(&ep, SOON, 100);
        assert_false(ep.lower.late);
    }
    assert_int_equal(asked, 0);
}

/* Packets that came in a gap may be read one by one: those of the looks behind it may have waited,
 * too, but not for ever, if there are always more. */
static void packets_of_a_gap_are_read_by_many_looks(void **state)
{
    static struct arq_ep ep;

    ep.lower.ep = &lower;
    ep.lower.notes = true;
    look(&ep, LATE, 1);
    for (int i = 0; i < 8; i++) {
        look(&ep, SOON, 1);
        assert_true(ep.lower.late);
    }
    look(&ep, SOON, 50);
    assert_false(ep.lower.late);
}

/* All that it reads has waited, so nothing else would tell of the round trip. */
static void packets_of_who_looks_seldom_are_timed(void **state)
{
    static struct arq_ep ep;

    ep.lower.ep = &lower;
    ep.lower.notes = true;
    asked = 0;
    look(&ep, LATE, 8);
    assert_int_equal(asked, 1);
    assert_true(notes & OPT_NOTES_WAITED_EACH);
    assert_true(ep.lower.late); /* that one came before */
    look(&ep, LATE, 100);
    assert_false(ep.lower.late);
    look(&ep, SOON, 10000);
    assert_int_equal(asked, 1);
    look(&ep, SOON, 10000);
    assert_int_equal(asked, 2);
    assert_false(notes & OPT_NOTES_WAITED_EACH);
    look(&ep, LATE, 1);
    assert_int_equal(asked, 2);
}

/* It would never tell. */
static void lower_without_notes_is_not_asked(void **state)
{
    static struct arq_ep ep;

    ep.lower.ep = &lower;
    asked = 0;
    look(&ep, LATE, 100);
    assert_int_equal(asked, 0);
    assert_false(ep.lower.late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_of_a_busy_machine_are_not_timed),
        cmocka_unit_test(packets_of_a_gap_are_read_by_many_looks),
        cmocka_unit_test(packets_of_who_looks_seldom_are_timed),
        cmocka_unit_test(lower_without_notes_is_not_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
