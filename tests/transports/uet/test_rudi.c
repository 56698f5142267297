/* SPDX-License-Identifier: BSD-2-Clause */
/* RUDI in virtual time: each packet is carried out at least once, and answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pds_world.h"

static void idempotent_packets_come_at_least_once(void **state)
{
    struct pds_settings settings = patient();

    for (int form = 0; form < 4; form++) {
        settings.short_rudi = form % 2;
        settings.rudi_first = form < 2 ? 0 : UINT32_C(63) << 26;
        begin(&settings);
        idempotent = true;
        bad_path();
        sw.late = 3000000;
        nodes[1].nack = NACK_NO_RESOURCE;
        nodes[1].nacks = 100;
        all_to_all(300 * scale);
        assert_true(pds_counters(nodes[0].pds)->resent > 0);
        assert_int_equal(pds_counters(nodes[0].pds)->opened, 0);
        end();
    }
}

static void each_code_ends_or_repeats_an_idempotent_packet(void **state)
{
    struct pds_settings settings = patient();

    for (unsigned code = 0; code < 256; code++) {
        enum pds_reaction reaction = pds_reaction((uint8_t)code);
        bool fails = reaction == REACTION_REOPEN || reaction == REACTION_FAIL;

        begin(&settings);
        idempotent = true;
        nodes[1].nack = (uint8_t)code;
        nodes[1].nacks = 2;
        send_message(0, 1, 0, 4);
        run(sw.now + 100 * SECOND);
        assert_int_equal(nodes[0].failed, fails ? 2 : 0);
        assert_int_equal(nodes[0].responses, fails ? 2 : 4);
        end();
    }
}

static void a_silent_peer_of_idempotent_packets_is_given_up(void **state)
{
    begin(NULL);
    idempotent = true;
    nodes[1].dead = true;
    send_message(0, 1, 0, 3);
    run(sw.now + 100 * SECOND);
    assert_int_equal(nodes[0].failed, 3);
    assert_int_equal(pds_counters(nodes[0].pds)->sent, 3 * (1 + pds_defaults.rto_count));
    /* An answer to none of them, and one of another peer. */
    for (unsigned i = 0; i < 2; i++) {
        const struct pds_header header = {
            .type = i ? PDS_NACK : PDS_RUDI_RESPONSE, .flags = i ? PDS_NT_RUDI : 0, .psn = i};
        uint8_t bytes[PDS_HEADER_MAX];
        union addr from = switch_addr(2);

        pds_receive(nodes[0].pds, sw.now, &from, bytes, pds_header_put(&header, false, bytes),
                    false);
    }
    assert_int_equal(pds_counters(nodes[0].pds)->strangers + pds_counters(nodes[0].pds)->malformed,
                     2);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idempotent_packets_come_at_least_once),
        cmocka_unit_test(each_code_ends_or_repeats_an_idempotent_packet),
        cmocka_unit_test(a_silent_peer_of_idempotent_packets_is_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
