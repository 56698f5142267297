/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet delivery in virtual time at its limits: packets that hundreds overtake, times that are as
 * short and as long as they may be, numbers that wrap; and datagrams.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pds_world.h"

/* Of all packets 10 % are lost, 5 % repeated, and 10 % overtaken by 500 others and more. */
static void packets_go_once_where_hundreds_overtake_them(void **state)
{
    struct pds_settings settings = patient();

    for (int mode = 0; mode < 2; mode++) {
        begin(&settings);
        ordered = mode;
        bad_path();
        sw.late = 3000000;
        all_to_all(600 * scale);
        assert_true(sw.farthest >= 500);
        end();
    }
}

/* Datagrams come at most once where the network repeats none, whole, and by themselves. */
static void datagrams_come_whole_or_not_at_all(void **state)
{
    union addr to = switch_addr(1);
    uint64_t sent = 20000 * scale;

    begin(NULL);
    bad_path();
    sw.dup = 0;
    sw.late = 3000000;
    for (uint32_t i = 0; i < sent; i++) {
        uint8_t body[BODY];
        const struct iovec iov[2] = {{body, 10}, {body + 10, BODY - 10}};

        fill_body(body, 0, i / 64, i % 64);
        pds_datagram(nodes[0].pds, &to, NEXT_STANDARD, iov, 2);
        if (i % 2000 == 0)
            run(sw.now + SECOND / 10000);
    }
    run(sw.now + SECOND);
    switch_run(&sw, sw.now + SECOND);
    assert_int_equal(nodes[1].from[0].twice, 0);
    assert_int_equal(nodes[1].from[0].wrong, 0);
    assert_int_equal(nodes[1].from[0].count + sw.lost, sent);
    assert_true(sw.lost > sent / 20 && sw.lost < sent / 5);
    assert_true(sw.farthest >= 500);
    end();
}

/* Each time as short and as long as it may be; nothing is lost by it but time. */
static void each_timer_at_its_limits(void **state)
{
    struct pds_settings settings;
    const struct {
        uint64_t *time, least, most;
    } timers[] = {
        {&settings.rto, 1000, 8 * SECOND},
        {&settings.nack_time, 0, 8 * SECOND},
        {&settings.tail_time, 1000, 8 * SECOND},
        {&settings.clear_time, 0, SECOND},
        {&settings.new_pdc_time, 0, SECOND / 10},
        {&settings.close_time, 1000, SECOND},
        {&settings.safety_time, 0, 8 * SECOND},
        {&settings.idle_time, 1000, 8 * SECOND},
        {&settings.rest_time, 0, 8 * SECOND},
        {&settings.noop_time, 1000, 8 * SECOND},
        {&settings.patience, 8 * SECOND, UINT64_MAX},
    };

    for (size_t i = 0; i < 2 * sizeof(timers) / sizeof(timers[0]); i++) {
        settings = patient();
        *timers[i / 2].time = i % 2 ? timers[i / 2].most : timers[i / 2].least;
        begin(&settings);
        bad_path();
        for (unsigned j = 0; j < NODES; j++)
            nodes[j].guaranteed = 16;
        nodes[1].nack = NACK_NO_RESOURCE;
        nodes[1].nacks = 20;
        for (uint32_t m = 0; m < 20; m++) {
            send_message(0, 1, m, 3);
            send_message(2, 1, m, 3);
            if (m % 5 == 4)
                run(sw.now + SECOND / 50);
        }
        run(sw.now + 600 * SECOND);
        check_inbox(1, 0, 60);
        check_inbox(1, 2, 60);
        assert_int_equal(nodes[0].responses + nodes[2].responses, 120);
        end();
    }
}

/* The number that is behind 2^32 - 1 is 0, for both directions and all acknowledgements. */
static void numbers_wrap(void **state)
{
    struct pds_settings settings = patient();

    for (int mode = 0; mode < 4; mode++) {
        const uint32_t starts[] = {UINT32_MAX - 150, 0x7fffffff - 150};
        struct pdc *pdc;

        begin(&settings);
        ordered = mode % 2;
        bad_path();
        nodes[1].guaranteed = 64;
        send_message(0, 1, 0, 50);
        pdc = list_item(nodes[0].pds->used.next, struct pdc, used);
        pdc->tx_start = pdc->rx_start = starts[mode / 2];
        run(sw.now + 10 * SECOND);
        for (uint32_t m = 1; m < 20; m++)
            send_message(0, 1, m, 50);
        run(sw.now + 100 * SECOND);
        check_inbox(1, 0, 1000);
        assert_int_equal(nodes[0].responses, 1000);
        end();
    }
}

/* A machine that slept, or a caller that did not look for an hour: its peers have not gone. */
static void an_hour_passes_at_once(void **state)
{
    struct pds_settings settings = patient();

    settings.patience = 10 * SECOND;
    for (int mode = 0; mode < 2; mode++) {
        begin(&settings);
        ordered = mode;
        for (uint32_t m = 0; m < 30; m++) {
            send_message(0, 1, m, 5);
            if (m % 10 == 3) {
                run(sw.now + 7000); /* some are under way */
                sw.now += 3600 * SECOND;
            }
        }
        run(sw.now + 100 * SECOND);
        check_inbox(1, 0, 150);
        assert_int_equal(nodes[0].responses, 150);
        assert_int_equal(nodes[0].failed, 0);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_go_once_where_hundreds_overtake_them),
        cmocka_unit_test(datagrams_come_whole_or_not_at_all),
        cmocka_unit_test(each_timer_at_its_limits),
        cmocka_unit_test(numbers_wrap),
        cmocka_unit_test(an_hour_passes_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
