/* SPDX-License-Identifier: BSD-2-Clause */
#include "../../support/context_threads.h"

static void contexts_share_packets(void **state)
{
    threads_keep_to_their_queues("rxd;udp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_share_packets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
