/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet delivery in virtual time at its limits: packets that hundreds overtake, times that are as
 * short and as long as they may be, numbers that wrap; datagrams; and the example of guaranteed
 * delivery.
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

/* ---- The worked example of guaranteed delivery ---- */

static struct {
    unsigned from;
    struct pds_header header;
} seen[16];
static unsigned seen_count;

static bool record(struct sw *world, struct sw_packet *packet)
{
    assert_true(seen_count < sizeof(seen) / sizeof(seen[0]));
    seen[seen_count].from = packet->from;
    assert_true(pds_header_get(packet->bytes, packet->len, false, &seen[seen_count].header) > 0);
    seen_count++;
    return true;
}

/* The packet of a node that is a control packet of that kind, or none. */
static const struct pds_header *control_of(unsigned from, uint8_t kind)
{
    for (unsigned i = 0; i < seen_count; i++)
        if (seen[i].from == from && seen[i].header.type == PDS_CONTROL &&
            seen[i].header.next == kind)
            return &seen[i].header;
    return NULL;
}

/* The last packet of a node that is none. */
static const struct pds_header *last_of(unsigned from)
{
    for (unsigned i = seen_count; i-- > 0;)
        if (seen[i].from == from && seen[i].header.type != PDS_CONTROL)
            return &seen[i].header;
    fail();
    return NULL;
}

static uint32_t cack_of(unsigned node)
{
    const struct pdc *pdc = list_item(nodes[node].pds->used.next, struct pdc, used);

    return pdc->rx_start + (uint32_t)pdc_rx_cack(pdc) - 1;
}

/* Idle at 332; 333 has an answer that must not be lost. */
static void send_333(uint64_t clear_time)
{
    struct pds_settings settings = patient();
    struct pdc *pdc;

    settings.clear_time = clear_time;
    settings.rest_time = 100 * SECOND;
    begin(&settings);
    send_message(0, 1, 0, 1);
    pdc = list_item(nodes[0].pds->used.next, struct pdc, used);
    pdc->tx_start = pdc->rx_start = 332;
    run(sw.now + SECOND);
    assert_int_equal(cack_of(1), 332);
    sw.filter = record;
    seen_count = 0;
    nodes[1].later = 1;
    send_message(0, 1, 1, 1);
    run(sw.now + SECOND / 2000);
    nodes[1].later = 0;
    assert_int_equal(last_of(0)->psn, 333);
    assert_true(
        pds_answer(nodes[1].pds, &nodes[1].tickets[0], &(struct pds_answer){.guaranteed = true}));
    run(sw.now + SECOND / 2000);
    assert_int_equal(last_of(1)->psn, 332);
    assert_int_equal(last_of(1)->offset, 1);
    assert_true(last_of(1)->flags & PDS_WANTS_CLEAR);
    assert_int_equal(cack_of(1), 332);
    assert_int_equal(nodes[0].responses, 2);
}

static void answers_are_cleared_as_in_the_example(void **state)
{
    send_333(SECOND / 1000);
    assert_null(control_of(0, CONTROL_CLEAR));
    run(sw.now + SECOND / 500);
    assert_int_equal(control_of(0, CONTROL_CLEAR)->payload, 333);
    assert_int_equal(cack_of(1), 333);
    end();
    send_333(SECOND);
    send_message(0, 1, 2, 1);
    run(sw.now + SECOND / 500);
    assert_null(control_of(0, CONTROL_CLEAR));
    assert_int_equal(last_of(0)->psn, 334);
    assert_int_equal(last_of(0)->offset, -1);
    assert_int_equal(cack_of(1), 334);
    check_inbox(1, 0, 3);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_go_once_where_hundreds_overtake_them),
        cmocka_unit_test(datagrams_come_whole_or_not_at_all),
        cmocka_unit_test(each_timer_at_its_limits),
        cmocka_unit_test(numbers_wrap),
        cmocka_unit_test(an_hour_passes_at_once),
        cmocka_unit_test(answers_are_cleared_as_in_the_example),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
