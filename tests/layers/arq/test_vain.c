/* SPDX-License-Identifier: BSD-2-Clause */
/* An application that looks in vain gives its core to other threads now and then: its peer may need
 * it to send. */
#include <sched.h>

#include "../../transports/udp/live/ends.h"

enum {
    LOOKS = 10000
};

static unsigned yields;

/* In front of the library's, too. */
int sched_yield(void)
{
    yields++;
    return 0;
}

static void a_core_is_offered_after_looks_in_vain(void **state)
{
    struct fi_cq_tagged_entry entry;

    ends_open(&(struct options){.spec = "arq;udp(iface=lo)",
                                .type = FI_EP_RDM,
                                .caps = FI_SOURCE,
                                .no_eq = true,
                                .alone = true});
    exchange_few();
    yields = 0;
    for (int i = 0; i < LOOKS; i++)
        assert_int_equal(fi_cq_read(b.rx, &entry, 1), -FI_EAGAIN);
    assert_in_range(yields, LOOKS / 1000, LOOKS / 10);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_core_is_offered_after_looks_in_vain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
