/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that reads of peers were lent is taken back while packets that may be sent again name it:
 * their data is copied, and none has a byte of what comes there later. */
#include "lent.h"

enum {
    FIRST = 20,   /* us: no request has come yet */
    STEP = 25,    /* us */
    ROUNDS = 100, /* the last take the memory back when all has ended */
};

static void reads_have_the_bytes_that_were_there(void **state)
{
    unsigned lent = 0, good = 0, refused = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        begin(true);
        start_reads();
        run(sw.now + (FIRST + round * (uint64_t)STEP) * 1000);
        lent += take_back();
        run(sw.now + 100 * SECOND);
        assert_int_equal(ended_with(RC_OK) + ended_with(RC_BAD_MKEY), READS);
        good += ended_with(RC_OK);
        refused += ended_with(RC_BAD_MKEY);
        finish_reads();
        end();
    }
    print_message("%u replies were copied; of the reads %u had their bytes, %u were refused\n",
                  lent, good, refused);
    assert_true(lent > ROUNDS && good > ROUNDS && refused > ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_have_the_bytes_that_were_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
