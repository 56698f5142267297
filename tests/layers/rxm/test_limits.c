/* SPDX-License-Identifier: BSD-2-Clause */
/* Up to where messages come in pieces: as the lower says, unless a parameter does. */
#include "inside.h"

static void messages_come_in_pieces_as_the_lower_says(void **state)
{
    static const struct {
        const char *spec;
        size_t limit;
    } cases[] = {
        {"rxm(tags=emulate);loop", 32768},
        {"rxm(tags=emulate,use_srx=no);loop", 16384},
        {"rxm(tags=emulate);loop(shape=rdma)", 16384},
        {"rxm(tags=emulate);noop;loop", 32768},
        {"rxm(tags=emulate,buffer_size=20k,use_srx=no);loop", 20480},
        {"rxm(tags=emulate,sar_limit=64k);loop", 65536},
        {"rxm(tags=emulate,sar_limit=64k,use_srx=no);loop", 65536},
        {"rxm(tags=emulate);tcp", 131072},
        {"rxm(tags=emulate,buffer_size=1k);tcp", 8192},
        {"rxm(tags=emulate,use_srx=no);tcp", 65536},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rdm_net net;
        struct rdm a, b;

        rdm_net_open(&net, cases[i].spec, 0);
        rdm_open(&a, &net, 0);
        rdm_open(&b, &net, 0);
        rdm_send(&a, rdm_insert(&a, &b.name), RDM_ENDS(&a, &b), 1, NULL);
        assert_int_equal(rdm_next(&a, RDM_ENDS(&a, &b), NULL, NULL, NULL), 0);
        assert_int_equal(inside_emu(&a)->segment_limit, cases[i].limit);
        rdm_close(&a);
        rdm_close(&b);
        rdm_net_close(&net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_in_pieces_as_the_lower_says),
    };

    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
