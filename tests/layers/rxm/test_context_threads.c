/* SPDX-License-Identifier: BSD-2-Clause */
#include "../../support/context_threads.h"

static void contexts_share_an_event_queue(void **state)
{
    threads_keep_to_their_queues("rxm;tcp");
}

static void so_they_do_with_packets_of_our_own(void **state)
{
    threads_keep_to_their_queues("rxm(tags=emulate);tcp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_share_an_event_queue),
        cmocka_unit_test(so_they_do_with_packets_of_our_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
