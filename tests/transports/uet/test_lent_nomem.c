/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that reads were lent is taken back, and there is none for a copy. */
#include "../../support/nomem.h"
#include "lent.h"

static bool drops;

static bool drop_data(struct sw *s, struct sw_packet *packet)
{
    return !drops || packet->from != 1;
}

static void a_read_without_memory_for_its_copy_fails(void **state)
{
    struct post *opener;
    unsigned lent;

    if (!NOMEM_WORKS)
        skip();
    begin(false);
    sw.filter = drop_data;
    drops = false;
    opener = send_tagged(2, 1, 0, 100, 0, PDS_MODE_RUD);
    run(sw.now + SECOND / 1000);
    finish_post(opener, RC_OK);
    drops = true;
    start_reads();
    run(sw.now + SECOND / 10000);
    nomem_at = 1;
    lent = take_back();
    assert_int_equal(nomem_at, 0);
    assert_true(lent > READS);
    drops = false;
    run(sw.now + 100 * SECOND);
    assert_int_equal(ended_with(RC_UNCOR_TRANSIENT), 1);
    assert_int_equal(ended_with(RC_OK), READS - 1);
    finish_reads();
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_without_memory_for_its_copy_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
