/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet delivery in virtual time, over paths that lose, repeat and reorder: each packet is carried
 * out once, with its own bytes, in order where that was asked; each code of refusal, and the loss
 * of each control packet. WEFT_UET_PACKETS runs more packets, WEFT_SEED others; a failure prints
 * the seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pds_world.h"

/* ---- Traffic ---- */

static void packets_go_once_over_a_good_path(void **state)
{
    struct pds_settings settings = patient();

    for (int mode = 0; mode < 2; mode++) {
        begin(&settings);
        ordered = mode;
        all_to_all(200);
        assert_int_equal(pds_counters(nodes[0].pds)->resent, 0);
        end();
    }
}

static void packets_go_once_over_a_bad_path(void **state)
{
    struct pds_settings settings = patient();

    for (int mode = 0; mode < 2; mode++) {
        for (int i = 0; i < 5; i++) {
            begin(&settings);
            ordered = mode;
            bad_path();
            all_to_all(300 * scale);
            assert_true(pds_counters(nodes[0].pds)->resent > 0);
            end();
        }
    }
}

static void guaranteed_answers_come_once(void **state)
{
    struct pds_settings settings = patient();

    settings.stored = 16;
    for (int i = 0; i < 3; i++) {
        begin(&settings);
        bad_path();
        for (unsigned j = 0; j < NODES; j++)
            nodes[j].guaranteed = 64;
        all_to_all(300 * scale);
        end();
    }
}

static void each_ack_setting_works(void **state)
{
    struct pds_settings settings = patient();

    settings.ack_each = true;
    begin(&settings);
    bad_path();
    all_to_all(100);
    end();
    settings = patient();
    settings.mpr = 128;
    settings.window = 1500;
    begin(&settings);
    bad_path();
    all_to_all(100);
    end();
}

/* pds_push sends, and what else there is to do waits for pds_run. */
static void what_is_pushed_leaves_at_once(void **state)
{
    struct pds_settings settings = patient();
    struct pds *pds;
    uint64_t sent;

    begin(&settings);
    pds = nodes[0].pds;
    send_message(0, 1, 0, 3);
    run(sw.now + 10 * SECOND);
    assert_false(pds_is_urgent(pds));
    send_message(0, 1, 1, 3);
    sent = pds_counters(pds)->sent;
    assert_true(pds_is_urgent(pds));
    pds_push(pds, sw.now, pdc_ref(list_item(pds->used.prev, struct pdc, used)));
    assert_int_equal(pds_counters(pds)->sent, sent + 3);
    assert_false(pds_is_urgent(pds)); /* what was, has left */
    assert_int_equal(pds_deadline(pds), 0);
    pds_push(pds, sw.now, (struct pds_ref){0, 0});
    run(sw.now + 10 * SECOND);
    check_inbox(1, 0, 6);
    assert_int_equal(nodes[0].responses, 6);
    assert_int_equal(pds_counters(pds)->resent, 0);
    end();
}

enum {
    OPEN = 2000 /* the message that opens the PDC */
};

static unsigned calm; /* packets that came while no peer waited */
static void (*deliver)(void *arg, unsigned port, const union addr *from, const uint8_t *bytes,
                       size_t len);

static void deliver_and_count(void *arg, unsigned port, const union addr *from,
                              const uint8_t *bytes, size_t len)
{
    calm += port == 1 && !pds_is_urgent(nodes[1].pds);
    deliver(arg, port, from, bytes, len);
}

/* Packets of which none asks for it share an acknowledgement, which leaves when the caller has
 * nothing better to do, until the peer may have to wait for it. */
static void an_acknowledgement_that_no_packet_asks_for_can_wait(void **state)
{
    struct pds_settings settings = patient();
    struct pds *to;
    uint64_t acks;

    begin(&settings);
    to = nodes[1].pds;
    send_message(0, 1, OPEN, 1);
    run(sw.now + 10 * SECOND);
    acks = pds_counters(to)->acks_sent;
    calm = 0;
    deliver = sw.deliver;
    sw.deliver = deliver_and_count;
    send_message(0, 1, 0, 200); /* whose last packet asks */
    pds_run(nodes[0].pds, sw.now);
    switch_run(&sw, switch_next(&sw));
    assert_true(calm > settings.ack_trigger / settings.ack_least);
    assert_true(calm > 4 * settings.ack_trigger / settings.ack_least); /* short ones */
    assert_true(calm <= settings.mpr / 8);
    assert_int_equal(pds_counters(to)->acks_sent, acks);
    assert_int_equal(pds_deadline(to), 0);
    pds_run(to, sw.now);
    assert_int_equal(pds_counters(to)->acks_sent, acks + 1);
    run(sw.now + 10 * SECOND);
    check_inbox(1, 0, 201);
    end();
}

/* ---- One message of two packets, and what befalls it ---- */

static void the_loss_of_any_packet_is_mended(void **state)
{
    static const uint8_t types[] = {PDS_RUD, PDS_ROD, PDS_ACK, PDS_ACK_CC};
    struct pds_settings settings = patient();

    for (size_t i = 0; i < sizeof(types); i++) {
        for (unsigned count = 1; count < 4; count++) {
            begin(&settings);
            ordered = types[i] == PDS_ROD;
            losing(types[i], 0, count);
            for (uint32_t m = 0; m < 4; m++) {
                send_message(0, 1, m, 3);
                run(sw.now + 10 * SECOND);
            }
            check_inbox(1, 0, 12);
            assert_int_equal(nodes[0].responses, 12);
            assert_true(dropped > 0);
            end();
        }
    }
}

static void the_loss_of_each_control_packet_is_mended(void **state)
{
    static const uint8_t kinds[] = {CONTROL_CLEAR, CONTROL_CLOSE, CONTROL_PROBE,
                                    CONTROL_ACK_REQUEST, CONTROL_NOOP};
    struct pds_settings settings = patient();

    for (size_t i = 0; i < sizeof(kinds); i++) {
        begin(&settings);
        losing(PDS_CONTROL, kinds[i], 2);
        nodes[1].guaranteed = 255;
        nodes[1].later = kinds[i] == CONTROL_ACK_REQUEST;
        send_message(0, 1, 0, 3);
        run(sw.now + SECOND / 100);
        nodes[1].dead = kinds[i] == CONTROL_PROBE;
        send_message(0, 1, 1, 3);
        run(sw.now + SECOND / 200);
        nodes[1].dead = false;
        if (kinds[i] == CONTROL_NOOP) {
            pds_hold(nodes[0].pds, pdc_ref(list_item(nodes[0].pds->used.next, struct pdc, used)));
            run(sw.now + SECOND);
            pds_release(nodes[0].pds,
                        pdc_ref(list_item(nodes[0].pds->used.next, struct pdc, used)));
        }
        run(sw.now + SECOND);
        for (unsigned j = 0; j < nodes[1].owed; j++)
            assert_true(pds_answer(nodes[1].pds, &nodes[1].tickets[j], &(struct pds_answer){0}));
        run(sw.now + 10 * SECOND);
        pds_close_all(nodes[0].pds);
        run(sw.now + 30 * SECOND);
        check_inbox(1, 0, 6);
        assert_int_equal(nodes[0].responses, 6);
        assert_true(dropped > 0);
        assert_int_equal(pds_count(nodes[0].pds), 0);
        assert_int_equal(pds_count(nodes[1].pds), 0);
        end();
    }
}

/* The peer's wishes, which are not acknowledged: without them it waits, or closes in error. */
static void the_loss_of_a_wish_is_mended(void **state)
{
    struct pds_settings settings = patient();

    settings.stored = 4;
    begin(&settings);
    losing(PDS_CONTROL, CONTROL_CLEAR_REQUEST, 3);
    nodes[1].guaranteed = 255;
    sw.jitter = 20000;
    for (uint32_t m = 0; m < 40; m++)
        send_message(0, 1, m, 5);
    run(sw.now + 100 * SECOND);
    check_inbox(1, 0, 200);
    assert_true(dropped > 0);
    end();
    begin(&settings);
    losing(PDS_CONTROL, CONTROL_CLOSE_REQUEST, 3);
    send_message(0, 1, 0, 5);
    run(sw.now + SECOND);
    pds_close(nodes[1].pds, pdc_ref(list_item(nodes[1].pds->used.next, struct pdc, used)));
    run(sw.now + SECOND);
    assert_int_equal(dropped, 1);
    assert_int_equal(pds_count(nodes[1].pds), 0);
    send_message(0, 1, 1, 5); /* on a PDC that the peer knows no more */
    run(sw.now + SECOND);
    send_message(0, 1, 2, 5);
    run(sw.now + SECOND);
    assert_int_equal(nodes[0].failed,
                     5); /* this one was not sent again, since it might have come */
    assert_int_equal(nodes[1].from[0].count, 10);
    end();
}

static void answers_may_come_later(void **state)
{
    begin(NULL);
    nodes[1].later = 1;
    send_message(0, 1, 0, 3);
    run(sw.now + 5 * SECOND);
    assert_int_equal(nodes[0].responses, 0);
    assert_int_equal(nodes[0].failed, 0);
    assert_int_equal(nodes[1].owed, 3);
    for (unsigned i = 3; i-- > 0;)
        assert_true(pds_answer(nodes[1].pds, &nodes[1].tickets[i], &(struct pds_answer){0}));
    run(sw.now + SECOND);
    assert_int_equal(nodes[0].responses, 3);
    check_inbox(1, 0, 3);
    end();
}

/* ---- Refusals ---- */

static void each_code_has_its_reaction(void **state)
{
    struct pds_settings settings = patient();

    for (unsigned code = 0; code < 256; code++) {
        enum pds_reaction reaction = pds_reaction((uint8_t)code);

        begin(&settings);
        send_message(0, 1, 0, 1);
        run(sw.now + SECOND);
        nodes[1].nack = (uint8_t)code;
        nodes[1].nacks = 2;
        send_message(0, 1, 1, 2);
        run(sw.now + 100 * SECOND);
        if (reaction == REACTION_REOPEN || reaction == REACTION_FAIL) {
            /* Messages that may have been carried out are not sent on another PDC. */
            assert_int_equal(nodes[0].failed, 2);
            assert_int_equal(nodes[0].closed, 1);
        } else if (reaction == REACTION_WAIT) {
            /* A lie, which the request for the answer finds out. */
            assert_int_equal(nodes[0].responses, 3);
        } else {
            check_inbox(1, 0, 3);
            assert_int_equal(nodes[0].responses, 3);
        }
        end();
    }
}

static void a_pdc_that_was_refused_is_opened_again(void **state)
{
    static const uint8_t codes[] = {NACK_INVALID_DPDCID, NACK_MISMATCH, NACK_CLOSING,
                                    NACK_INVALID_SYN, NACK_MODE_MISMATCH};
    struct pds_settings settings = patient();

    for (size_t i = 0; i < sizeof(codes); i++) {
        begin(&settings);
        nodes[1].nack = codes[i];
        nodes[1].nacks = 1;
        send_message(0, 1, 0, 1);
        run(sw.now + 10 * SECOND);
        check_inbox(1, 0, 1);
        assert_int_equal(nodes[0].responses, 1);
        end();
    }
}

/* The acknowledgement is lost, and "still at it" comes: to ask for the answer it takes the id that
 * the refusal names. Opening again would carry the request out twice. */
static void a_refusal_tells_the_id_of_the_pdc(void **state)
{
    struct pds_settings settings = patient();

    begin(&settings);
    losing(PDS_ACK_CC, 0, 3);
    nodes[1].later = 1;
    send_message(0, 1, 0, 1);
    run(sw.now + SECOND);
    assert_int_equal(nodes[1].owed, 1);
    assert_true(pds_answer(nodes[1].pds, &nodes[1].tickets[0], &(struct pds_answer){0}));
    run(sw.now + SECOND);
    check_inbox(1, 0, 1);
    assert_int_equal(nodes[0].responses, 1);
    end();
}

static void a_start_that_is_asked_for_is_taken(void **state)
{
    struct pds_header nack = {.type = PDS_NACK, .nack_code = NACK_NEW_START, .payload = 0xfffffffe};
    uint8_t bytes[PDS_HEADER_MAX];
    const struct pdc *pdc;
    union addr to = switch_addr(1);

    begin(NULL);
    losing(PDS_RUD, 0, 3);
    send_message(0, 1, 0, 3);
    pds_run(nodes[0].pds, sw.now);
    pdc = list_item(nodes[0].pds->used.next, struct pdc, used);
    nack.psn = pdc->tx_start;
    nack.dpdcid = pdc->id;
    pds_receive(nodes[0].pds, sw.now, &to, bytes, pds_header_put(&nack, false, bytes), false);
    assert_int_equal(pdc->tx_start, 0xfffffffe);
    run(sw.now + SECOND);
    check_inbox(1, 0, 3); /* over the wrap of the PSN */
    assert_int_equal(nodes[0].responses, 3);
    end();
}

static void what_is_refused_for_ever_fails(void **state)
{
    begin(NULL);
    nodes[1].nack = NACK_NO_RESOURCE;
    nodes[1].nacks = UINT32_MAX;
    send_message(0, 1, 0, 1);
    run(sw.now + 100 * SECOND);
    assert_int_equal(nodes[0].failed, 1);
    assert_int_equal(UINT32_MAX - nodes[1].nacks, pds_defaults.nack_count + 1);
    end();
}

static void ordered_packets_wait_for_what_was_refused(void **state)
{
    struct pds_settings settings = patient();

    begin(&settings);
    ordered = true;
    nodes[1].nack = NACK_NO_MESSAGE;
    nodes[1].nacks = 20;
    for (uint32_t m = 0; m < 50; m++)
        send_message(0, 1, m, 2);
    run(sw.now + 100 * SECOND);
    check_inbox(1, 0, 100);
    assert_int_equal(nodes[0].responses, 100);
    end();
}

/* ---- Peers ---- */

static void a_peer_that_is_gone_is_given_up(void **state)
{
    begin(NULL);
    nodes[1].dead = true;
    send_message(0, 1, 0, 3);
    run(sw.now + 100 * SECOND);
    assert_int_equal(nodes[0].failed, 3);
    assert_int_equal(pds_count(nodes[0].pds), 0);
    end();
}

static void a_held_pdc_finds_out_that_its_peer_has_gone(void **state)
{
    begin(NULL);
    send_message(0, 1, 0, 1);
    run(sw.now + SECOND);
    pds_hold(nodes[0].pds, pdc_ref(list_item(nodes[0].pds->used.next, struct pdc, used)));
    run(sw.now + 10 * SECOND);
    assert_int_equal(nodes[0].closed, 0);
    nodes[1].dead = true;
    run(sw.now + 10 * SECOND);
    assert_int_equal(nodes[0].closed, 1);
    end();
}

static void a_peer_that_starts_again_gets_no_old_packets(void **state)
{
    begin(NULL);
    send_message(0, 1, 0, 1);
    run(sw.now + SECOND);
    pds_destroy(nodes[1].pds);
    nodes[1].pds = pds_create(&pds_defaults, &ops, &nodes[1], switch_random(&sw));
    send_message(0, 1, 1, 1);
    run(sw.now + SECOND);
    assert_int_equal(nodes[0].failed, 1); /* it was told, and will not send that again */
    send_message(0, 1, 2, 1);
    run(sw.now + SECOND);
    assert_int_equal(nodes[0].responses, 2);
    check_inbox(1, 0, 2);
    end();
}

static struct sw_packet first;

static bool keep_first(struct sw *network, struct sw_packet *packet)
{
    static bool kept;

    if (network->carried == 0) {
        first = *packet;
        kept = true;
    } else if (kept && packet->from == 0) {
        /* The opening packet, again, before each one that follows. */
        union addr from = switch_addr(0);

        pds_receive(nodes[1].pds, network->now, &from, first.bytes, first.len, false);
    }
    return true;
}

static void a_late_opening_opens_nothing(void **state)
{
    begin(NULL);
    sw.filter = keep_first;
    send_message(0, 1, 0, 2);
    run(sw.now + SECOND);
    send_message(0, 1, 1, 2);
    run(sw.now + SECOND);
    pds_close_all(nodes[0].pds);
    run(sw.now + SECOND / 20);
    assert_int_equal(pds_count(nodes[0].pds), 0);
    assert_int_equal(pds_count(nodes[1].pds), 1); /* remembered */
    send_message(0, 1, 2, 2);
    run(sw.now + SECOND / 20);
    check_inbox(1, 0, 6);
    run(sw.now + 10 * SECOND);
    assert_int_equal(pds_count(nodes[1].pds), 1); /* forgotten, and the new one */
    end();
}

static bool only_keep_first(struct sw *network, struct sw_packet *packet)
{
    first = network->carried ? first : *packet;
    return true;
}

/* The PDC that it opened, closed since, has given its place to others. */
static void a_late_opening_opens_nothing_where_its_pdc_was_forgotten(void **state)
{
    struct pds_settings settings = patient();
    union addr from = switch_addr(0);

    settings.pdcs = 2;
    begin(&settings);
    sw.filter = only_keep_first;
    send_message(0, 1, 0, 2);
    run(sw.now + SECOND);
    pds_close_all(nodes[0].pds);
    run(sw.now + SECOND / 100);
    send_message(2, 1, 0, 1);
    send_message(3, 1, 0, 1);
    run(sw.now + SECOND / 50);
    check_inbox(1, 3, 1);
    pds_receive(nodes[1].pds, sw.now, &from, first.bytes, first.len, false);
    run(sw.now + SECOND);
    check_inbox(1, 0, 2);
    end();
}

static void idle_ones_are_closed_and_opened_again(void **state)
{
    struct pds_settings settings = patient();

    settings.idle_time = SECOND / 10;
    begin(&settings);
    for (uint32_t m = 0; m < 20; m++) {
        send_message(0, 1, m, 3);
        run(sw.now + SECOND);
        assert_int_equal(pds_count(nodes[0].pds), 0);
    }
    check_inbox(1, 0, 60);
    assert_int_equal(nodes[0].responses, 60);
    assert_true(pds_counters(nodes[0].pds)->opened >= 20);
    end();
}

static void few_pdcs_take_turns(void **state)
{
    struct pds_settings settings = patient();

    settings.pdcs = 2;
    begin(&settings);
    for (uint32_t m = 0; m < 30; m++)
        for (unsigned to = 1; to < NODES; to++)
            send_message(0, to, m, 2);
    run(sw.now + 100 * SECOND);
    for (unsigned to = 1; to < NODES; to++)
        check_inbox(to, 0, 60);
    end();
}

static void the_peer_may_ask_to_close(void **state)
{
    struct pds_settings settings = patient();

    settings.close_time = SECOND;
    begin(&settings);
    send_message(0, 1, 0, 1);
    run(sw.now + SECOND);
    pds_close(nodes[1].pds, pdc_ref(list_item(nodes[1].pds->used.next, struct pdc, used)));
    run(sw.now + 10 * SECOND);
    assert_int_equal(pds_count(nodes[0].pds), 0);
    assert_int_equal(pds_count(nodes[1].pds), 0);
    assert_int_equal(pds_counters(nodes[1].pds)->failed, 0);
    /* One that does not come ends the PDC all the same. */
    send_message(0, 1, 1, 1);
    run(sw.now + SECOND);
    nodes[0].dead = true;
    pds_close(nodes[1].pds, pdc_ref(list_item(nodes[1].pds->used.next, struct pdc, used)));
    run(sw.now + 10 * SECOND);
    assert_int_equal(pds_count(nodes[1].pds), 0);
    assert_int_equal(pds_counters(nodes[1].pds)->failed, 1);
    check_inbox(1, 0, 2);
    end();
}

static void a_lost_wish_to_close_is_repeated(void **state)
{
    struct pds_settings settings = patient();

    settings.close_time = SECOND;
    begin(&settings);
    send_message(0, 1, 0, 1);
    run(sw.now + SECOND);
    losing(PDS_CONTROL, CONTROL_CLOSE_REQUEST, 3);
    pds_close(nodes[1].pds, pdc_ref(list_item(nodes[1].pds->used.next, struct pdc, used)));
    run(sw.now + SECOND / 2);
    assert_int_equal(dropped, 3);
    assert_int_equal(pds_count(nodes[0].pds), 0);
    assert_int_equal(pds_counters(nodes[1].pds)->failed, 0);
    /* The next message takes another PDC. */
    send_message(0, 1, 1, 1);
    run(sw.now + SECOND);
    check_inbox(1, 0, 2);
    end();
}

static void a_late_caller_is_no_silent_peer(void **state)
{
    uint64_t rto = pds_defaults.rto, start;

    begin(NULL);
    nodes[1].dead = true;
    send_message(0, 1, 0, 1);
    start = sw.now;
    pds_run(nodes[0].pds, start);
    pds_run(nodes[0].pds, start + 2 * rto); /* what has come is not read yet */
    assert_int_equal(pds_counters(nodes[0].pds)->resent, 0);
    assert_true(pds_deadline(nodes[0].pds) == start + 3 * rto);
    pds_run(nodes[0].pds, start + 3 * rto);
    assert_int_equal(pds_counters(nodes[0].pds)->resent, 1);
    pds_run(nodes[0].pds, start + 8 * rto); /* late again and again is no excuse */
    pds_run(nodes[0].pds, start + 16 * rto);
    assert_true(pds_counters(nodes[0].pds)->resent > 1);
    end();
}

/* ---- Bad input ---- */

static bool mutate(struct sw *network, struct sw_packet *packet)
{
    if (packet->from == 3 && packet->len) {
        size_t at = switch_random(network) % packet->len;

        packet->bytes[at < 16 ? at : at % 16] ^= (uint8_t)(1u << switch_random(network) % 8);
        if (switch_random(network) % 8 == 0)
            packet->len = switch_random(network) % packet->len;
    }
    return true;
}

static void take_any(void *arg, const struct pds_arrival *arrival, struct pds_answer *answer)
{
    (void)arg;
    answer->kind = arrival->len % 16 == 3 ? ANSWER_NACK : ANSWER_NOW;
    answer->nack = (uint8_t)arrival->len;
}

static void changed_headers_hurt_nobody_else(void **state)
{
    struct pds_ops taking = ops;
    struct pds_settings settings = patient();

    taking.request = take_any;
    for (int round = 0; round < 5; round++) {
        begin(&settings);
        sw.filter = mutate;
        pds_destroy(nodes[2].pds);
        nodes[2].pds = pds_create(&settings, &taking, &nodes[2], 1);
        for (uint32_t m = 0; m < 300; m++) {
            send_message(3, 2, m, 3);
            send_message(0, 1, m, 3);
        }
        run(sw.now + 100 * SECOND);
        check_inbox(1, 0, 900);
        assert_int_equal(nodes[0].responses, 900);
        end();
    }
}

static void openings_without_end_are_bounded(void **state)
{
    struct pds_settings settings = patient();
    struct pds_header syn = {.type = PDS_RUD, .next = NEXT_STANDARD, .flags = PDS_SYN};
    uint8_t bytes[PDS_HEADER_MAX + BODY] = {0};
    union addr from = switch_addr(3);

    settings.pdcs = 100;
    begin(&settings);
    for (unsigned i = 1; i < 60000; i++) {
        size_t size;

        syn.spdcid = (uint16_t)i;
        syn.psn = i * 77777;
        size = pds_header_put(&syn, false, bytes);
        fill_body(bytes + size, 3, i, 0);
        pds_receive(nodes[1].pds, sw.now, &from, bytes, size + BODY, false);
        assert_true(pds_count(nodes[1].pds) <= 100);
    }
    run(sw.now + SECOND);
    send_message(0, 1, 0, 3); /* idle openings give their place */
    run(sw.now + 10 * SECOND);
    check_inbox(1, 0, 3);
    end();
}

/* ---- A start that the receiver gives ---- */

static void a_start_is_demanded_and_taken(void **state)
{
    struct pds_settings settings = patient();

    settings.demand_start = true;
    for (int mode = 0; mode < 2; mode++) {
        begin(&settings);
        ordered = mode;
        send_message(0, 1, 0, 40);
        run(sw.now + SECOND);
        check_inbox(1, 0, 40);
        assert_true(pds_counters(nodes[1].pds)->demanded > 0);
        assert_int_equal(pds_counters(nodes[1].pds)->opened, 1);
        end();
        begin(&settings);
        ordered = mode;
        bad_path();
        all_to_all(100);
        end();
        /* The demand, and what follows it, get lost. */
        begin(&settings);
        ordered = mode;
        losing(PDS_NACK, 0, 3);
        send_message(0, 1, 0, 3);
        run(sw.now + 10 * SECOND);
        check_inbox(1, 0, 3);
        assert_int_equal(dropped, 3);
        end();
    }
}

static void forged_openings_keep_nothing(void **state)
{
    struct pds_settings settings = patient();
    struct pds_header syn = {.type = PDS_RUD, .next = NEXT_STANDARD, .flags = PDS_SYN};
    uint8_t bytes[PDS_HEADER_MAX + BODY] = {0};
    union addr from = switch_addr(0);
    uint64_t responses;

    settings.demand_start = true;
    begin(&settings);
    send_message(0, 1, 0, 3);
    run(sw.now + SECOND);
    responses = nodes[0].responses;
    assert_int_equal(responses, 3);
    for (unsigned i = 1; i < 60000; i++) {
        syn.spdcid = (uint16_t)i;
        syn.psn = i * 77777;
        pds_receive(nodes[1].pds, sw.now, &from, bytes, pds_header_put(&syn, false, bytes) + BODY,
                    false);
        assert_int_equal(pds_count(nodes[1].pds), 1);
    }
    send_message(0, 1, 1, 3); /* on the PDC whose id was among them */
    run(sw.now + SECOND);
    check_inbox(1, 0, 6);
    assert_int_equal(pds_counters(nodes[0].pds)->opened, 1);
    end();
}

/* ---- Credit and negotiation ---- */

static void they_are_understood_and_change_nothing(void **state)
{
    static const uint8_t kinds[] = {CONTROL_CREDIT, CONTROL_CREDIT_REQUEST, CONTROL_NEGOTIATION,
                                    CONTROL_NEGOTIATION, CONTROL_NEGOTIATION};
    static const uint32_t payloads[] = {UINT32_MAX, 1000, 0x01020000, 0x01020001, 0x02020000};
    uint8_t bytes[PDS_HEADER_MAX + 4] = {0};
    union addr from = switch_addr(0);
    struct pds_header header = {.type = PDS_CONTROL};
    const struct pds_counters *counters;
    const struct pdc *pdc;

    begin(NULL);
    send_message(0, 1, 0, 3);
    run(sw.now + SECOND / 100);
    pdc = list_item(nodes[1].pds->used.next, struct pdc, used);
    counters = pds_counters(nodes[1].pds);
    header.spdcid = pdc->peer_id;
    header.dpdcid = pdc->id;
    for (size_t i = 0; i < sizeof(kinds); i++) {
        header.next = kinds[i];
        header.payload = payloads[i];
        pds_receive(nodes[1].pds, sw.now, &from, bytes, pds_header_put(&header, false, bytes) + 4,
                    false);
    }
    pds_receive(nodes[1].pds, sw.now, &from, bytes, 16, false); /* without its second word */
    assert_int_equal(counters->credits, 2);
    assert_int_equal(counters->negotiations, 1);
    assert_int_equal(counters->malformed, 3);
    send_message(0, 1, 1, 3);
    run(sw.now + SECOND);
    check_inbox(1, 0, 6);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_go_once_over_a_good_path),
        cmocka_unit_test(packets_go_once_over_a_bad_path),
        cmocka_unit_test(guaranteed_answers_come_once),
        cmocka_unit_test(each_ack_setting_works),
        cmocka_unit_test(what_is_pushed_leaves_at_once),
        cmocka_unit_test(an_acknowledgement_that_no_packet_asks_for_can_wait),
        cmocka_unit_test(the_loss_of_any_packet_is_mended),
        cmocka_unit_test(the_loss_of_each_control_packet_is_mended),
        cmocka_unit_test(the_loss_of_a_wish_is_mended),
        cmocka_unit_test(answers_may_come_later),
        cmocka_unit_test(each_code_has_its_reaction),
        cmocka_unit_test(a_pdc_that_was_refused_is_opened_again),
        cmocka_unit_test(a_refusal_tells_the_id_of_the_pdc),
        cmocka_unit_test(a_start_that_is_asked_for_is_taken),
        cmocka_unit_test(what_is_refused_for_ever_fails),
        cmocka_unit_test(ordered_packets_wait_for_what_was_refused),
        cmocka_unit_test(a_peer_that_is_gone_is_given_up),
        cmocka_unit_test(a_held_pdc_finds_out_that_its_peer_has_gone),
        cmocka_unit_test(a_peer_that_starts_again_gets_no_old_packets),
        cmocka_unit_test(a_late_opening_opens_nothing),
        cmocka_unit_test(a_late_opening_opens_nothing_where_its_pdc_was_forgotten),
        cmocka_unit_test(idle_ones_are_closed_and_opened_again),
        cmocka_unit_test(few_pdcs_take_turns),
        cmocka_unit_test(the_peer_may_ask_to_close),
        cmocka_unit_test(a_lost_wish_to_close_is_repeated),
        cmocka_unit_test(a_late_caller_is_no_silent_peer),
        cmocka_unit_test(changed_headers_hurt_nobody_else),
        cmocka_unit_test(openings_without_end_are_bounded),
        cmocka_unit_test(a_start_is_demanded_and_taken),
        cmocka_unit_test(forged_openings_keep_nothing),
        cmocka_unit_test(they_are_understood_and_change_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
