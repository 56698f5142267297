/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that no peer should send, one by one: each is dropped or refused with its code, counted,
 * and changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pds_world.h"

enum {
    PACKETS = 6,
    SILENCE = 0xffff, /* no answer */
};

static struct pdc *initiator, *target; /* both ends of a PDC between nodes 0 and 1 */
static struct pds_header refusal;      /* what node 1 said last */
static unsigned refusals;

static bool note_refusals(struct sw *network, struct sw_packet *packet)
{
    struct pds_header header;

    if (packet->from == 1 && pds_header_get(packet->bytes, packet->len, false, &header) > 0 &&
        header.type == PDS_NACK) {
        refusal = header;
        refusals++;
    }
    return true;
}

static void meet(bool in_order)
{
    struct pds_settings settings = patient();

    settings.new_pdc_time = SECOND;
    begin(&settings);
    ordered = in_order;
    sw.filter = note_refusals;
    send_message(0, 1, 0, PACKETS);
    run(sw.now + SECOND / 100);
    initiator = list_item(nodes[0].pds->used.next, struct pdc, used);
    target = pdc_at(nodes[1].pds, initiator->peer_id);
    assert_non_null(target);
}

/* All goes on as before. */
static void part(void)
{
    send_message(0, 1, 1, PACKETS);
    run(sw.now + SECOND);
    check_inbox(1, 0, (uint64_t)2 * PACKETS);
    assert_int_equal(nodes[0].responses, 2 * PACKETS);
    assert_int_equal(nodes[0].failed + nodes[1].failed + nodes[1].closed, 0);
    assert_int_equal(pds_count(nodes[1].pds), 1);
    ordered = false;
    end();
}

/* Node `at` gets it; node 1's answer is code, or SILENCE. */
static void give(unsigned at, unsigned from, const struct pds_header *header, size_t body,
                 unsigned code)
{
    uint8_t bytes[PDS_HEADER_MAX + SES_HEADER_MAX + BODY] = {0};
    size_t size = pds_header_put(header, false, bytes);
    const struct pds_counters before = *pds_counters(nodes[at].pds);
    const struct pds_counters *after = pds_counters(nodes[at].pds);
    union addr address = switch_addr(from);
    uint64_t received = nodes[1].from[0].count;

    refusals = 0;
    pds_receive(nodes[at].pds, sw.now, &address, bytes, size + body, false);
    run(sw.now + SECOND / 100);
    assert_int_equal(nodes[1].from[0].count, received);
    if (code == SILENCE) {
        assert_int_equal(after->nacks_sent, before.nacks_sent);
        assert_true(after->strangers + after->malformed + after->duplicates >
                    before.strangers + before.malformed + before.duplicates);
    } else {
        assert_int_equal(after->nacks_sent, before.nacks_sent + 1);
        assert_int_equal(refusals, 1);
        assert_int_equal(refusal.nack_code, code);
    }
}

/* A request of the PDC, as node 0 would send it next. */
static struct pds_header request(void)
{
    return (struct pds_header){.type = target->key.mode == PDS_MODE_ROD ? PDS_ROD : PDS_RUD,
                               .next = NEXT_STANDARD,
                               .flags = PDS_AR,
                               .psn = initiator->tx_start + PACKETS,
                               .spdcid = initiator->id,
                               .dpdcid = target->id};
}

static void requests_of_strangers_are_refused(void **state)
{
    for (int in_order = 0; in_order < 2; in_order++) {
        struct pds_header header;

        meet(in_order);
        header = request(); /* no such PDC */
        header.dpdcid = (uint16_t)(target->id + 1);
        give(1, 0, &header, BODY, NACK_INVALID_DPDCID);
        header = request(); /* of another address, or by another PDC of the peer */
        give(1, 2, &header, BODY, NACK_MISMATCH);
        header = request();
        header.spdcid++;
        give(1, 0, &header, BODY, NACK_MISMATCH);
        header = request(); /* ordered on an unordered one, or the reverse */
        header.type = in_order ? PDS_RUD : PDS_ROD;
        give(1, 0, &header, BODY, NACK_MODE_MISMATCH);
        header = request(); /* far ahead, before the first one, and once more */
        header.psn += 1u << 20;
        give(1, 0, &header, BODY, NACK_OUT_OF_WINDOW);
        header = request();
        header.psn = initiator->tx_start - 1;
        give(1, 0, &header, BODY, NACK_OUT_OF_WINDOW);
        header = request();
        header.psn = initiator->tx_start;
        give(1, 0, &header, BODY, SILENCE);
        header = request(); /* a CLEAR_PSN ahead of the packet */
        header.offset = 1;
        give(1, 0, &header, BODY, SILENCE);
        if (in_order) {
            header = request(); /* one is missing before it */
            header.psn++;
            give(1, 0, &header, BODY, NACK_ROD_OOO);
        }
        part();
    }
}

static void control_packets_of_strangers_are_refused(void **state)
{
    for (unsigned kind = 0; kind < CONTROL_KINDS; kind++) {
        struct pds_header header = {.type = PDS_CONTROL, .next = (uint8_t)kind};

        meet(false);
        header.psn = initiator->tx_start + PACKETS;
        header.spdcid = initiator->id;
        header.dpdcid = (uint16_t)(target->id + 1);
        give(1, 0, &header, 0, NACK_INVALID_DPDCID);
        header.dpdcid = target->id;
        give(1, 2, &header, 0, NACK_MISMATCH);
        part();
    }
}

/* Of what was not sent, of another address, and of no PDC. */
static void acknowledgements_of_strangers_are_ignored(void **state)
{
    static const uint8_t types[] = {PDS_ACK, PDS_ACK_CC, PDS_NACK};

    for (size_t i = 0; i < sizeof(types); i++) {
        struct pds_header header = {.type = types[i], .nack_code = NACK_NOT_RECEIVED};

        meet(false);
        header.spdcid = target->id;
        header.dpdcid = initiator->id;
        header.psn = initiator->tx_start + PACKETS; /* was not sent */
        give(0, 1, &header, 0, SILENCE);
        header.psn = initiator->tx_start + PACKETS - 1;
        give(0, 2, &header, 0, SILENCE);
        header.dpdcid++;
        give(0, 1, &header, 0, SILENCE);
        header.dpdcid = initiator->id;
        header.spdcid++;
        give(0, 1, &header, 0, SILENCE);
        part();
    }
}

/* Of the id of a PDC that is in use: its sender must show that it hears the answer. */
static void an_opening_ends_no_other_pdc(void **state)
{
    for (int in_order = 0; in_order < 2; in_order++) {
        struct pds_header header;

        meet(in_order);
        header = request();
        header.flags |= PDS_SYN;
        header.dpdcid = 0;
        for (uint32_t psn = 1000; psn < 5000; psn += 1000) {
            header.psn = psn;
            give(1, 0, &header, BODY, NACK_NEW_START);
            assert_ptr_equal(pdc_at(nodes[1].pds, initiator->peer_id), target);
        }
        part();
    }
}

/* A process that has died, and began again with the id that it had. */
static void a_peer_that_begins_again_is_heard(void **state)
{
    struct pds_header header;
    uint16_t former;

    meet(false);
    former = target->id;
    header = request();
    header.flags |= PDS_SYN;
    header.dpdcid = 0;
    give(1, 0, &header, BODY, NACK_NEW_START);
    header.psn = refusal.payload;
    nodes[1].nacks = 1;
    nodes[1].nack = NACK_NO_MESSAGE;
    give(1, 0, &header, BODY, NACK_NO_MESSAGE);
    assert_null(pdc_at(nodes[1].pds, former));
    assert_int_equal(pds_count(nodes[1].pds), 1);
    assert_int_equal(nodes[1].closed, 1);
    end();
}

/* Node 0 has sent its first packets, and heard nothing yet. */
static void open_only(void)
{
    struct pds_settings settings = patient();

    begin(&settings);
    send_message(0, 1, 0, PACKETS);
    pds_run(nodes[0].pds, sw.now);
    initiator = list_item(nodes[0].pds->used.next, struct pdc, used);
    assert_int_equal(initiator->state, PDC_SYN);
}

/* From node 1's address, to the PDC that is being opened. */
static void hear(const struct pds_header *header, size_t body)
{
    uint8_t bytes[PDS_HEADER_MAX + SES_HEADER_MAX + BODY] = {0};
    size_t size = pds_header_put(header, false, bytes);
    union addr address = switch_addr(1);

    pds_receive(nodes[0].pds, sw.now, &address, bytes, size + body, false);
}

static void check_still_opening(uint64_t strangers)
{
    assert_int_equal(initiator->state, PDC_SYN);
    assert_int_equal(initiator->peer_id, 0);
    assert_int_equal(pds_counters(nodes[0].pds)->strangers, strangers);
    assert_int_equal(nodes[0].from[1].count, 0);
}

/* The initiator does not take packets that a peer at the same address still sends to a former owner
 * of the id (several processes share the address) for the answer to the PDC being opened. */
static void late_packets_for_a_former_owner_do_not_open(void **state)
{
    static const uint8_t types[] = {PDS_RUD, PDS_ROD, PDS_ACK, PDS_ACK_CC, PDS_NACK};
    static const uint32_t distances[] = {UINT32_MAX - 1, 1024, 65536, 1u << 31};

    for (size_t d = 0; d < sizeof(distances) / sizeof(distances[0]); d++) {
        struct pds_header header = {.spdcid = 0x7777, .nack_code = NACK_NO_PDC};
        uint64_t strangers = 0;

        open_only();
        header.psn = initiator->tx_start + distances[d];
        header.dpdcid = initiator->id;
        for (size_t i = 0; i < sizeof(types); i++) {
            header.type = types[i];
            header.next = pds_is_request(types[i]) ? NEXT_RESPONSE_DATA : NEXT_NONE;
            hear(&header, pds_is_request(types[i]) ? BODY : 0);
            check_still_opening(++strangers);
        }
        header.type = PDS_CONTROL;
        for (header.next = 0; header.next < CONTROL_KINDS; header.next++) {
            hear(&header, 0);
            check_still_opening(++strangers);
        }
        run(sw.now + SECOND);
        check_inbox(1, 0, PACKETS);
        assert_int_equal(nodes[0].responses, PACKETS);
        assert_int_equal(nodes[0].failed + nodes[1].failed, 0);
        end();
    }
}

/* Of several owners of a block, one after the other, each begins with other ids. */
static void ids_of_a_former_owner_come_late(void **state)
{
    enum {
        OWNERS = 32,
        BLOCK = 5
    };
    struct pds_settings settings = patient();
    bool given[PDS_ID_BLOCK] = {false};
    unsigned distinct = 0;

    settings.ids = UINT64_C(1) << BLOCK;
    for (int i = 0; i < OWNERS; i++) {
        unsigned id;

        begin(&settings);
        send_message(0, 1, 0, 1);
        id = list_item(nodes[0].pds->used.next, struct pdc, used)->id;
        assert_int_equal(id / PDS_ID_BLOCK, BLOCK);
        distinct += !given[id % PDS_ID_BLOCK];
        given[id % PDS_ID_BLOCK] = true;
        run(sw.now + SECOND);
        check_inbox(1, 0, 1);
        end();
    }
    assert_true(distinct > OWNERS / 2);
}

/* Data may overtake the acknowledgement of what asked for it. */
static void data_from_its_target_opens(void **state)
{
    struct pds_header header = {.type = PDS_RUD, .next = NEXT_RESPONSE_DATA, .spdcid = 0x7777};

    for (uint32_t number = 0; number < 1024; number += 1023) {
        open_only();
        header.dpdcid = initiator->id;
        header.psn = initiator->tx_start + number;
        nodes[0].nacks = 1;
        hear(&header, BODY);
        assert_int_equal(initiator->state, PDC_ESTABLISHED);
        assert_int_equal(initiator->peer_id, 0x7777);
        end();
    }
}

/* A peer that is silent is given up whatever strangers send. */
static void strangers_are_no_sign_of_life(void **state)
{
    static const uint8_t types[] = {PDS_ACK, PDS_NACK};

    for (size_t i = 0; i < sizeof(types); i++) {
        struct pds_header header = {.type = types[i], .nack_code = NACK_NOT_RECEIVED};
        uint64_t heard;

        meet(false);
        heard = initiator->heard;
        header.spdcid = (uint16_t)(target->id + 1);
        header.dpdcid = initiator->id;
        header.psn = initiator->tx_start + PACKETS - 1;
        give(0, 1, &header, 0, SILENCE);
        assert_int_equal(initiator->heard, heard);
        part();
    }
}

/* Another has the address of a peer whose close did not come through: a message that follows the
 * removal of the address is the other's, and none is lost. Orders are kept. */
static void who_has_the_address_of_another_is_met(bool order)
{
    const union addr to = switch_addr(1), other = switch_addr(2);

    ordered = order;
    begin(NULL);
    send_message(0, 1, 0, 3);
    send_message(0, 2, 0, 1);
    run(sw.now + SECOND / 100);
    check_inbox(1, 0, 3);
    pds_destroy(nodes[1].pds);
    nodes[1].pds = pds_create(&pds_defaults, &ops, &nodes[1], switch_random(&sw));
    pds_leave(nodes[0].pds, &to);
    send_message(0, 1, 1, 3);
    send_message(0, 2, 1, 1);
    run(sw.now + SECOND);
    check_inbox(1, 0, 6);
    check_inbox(2, 0, 2);
    assert_int_equal(pds_counters(nodes[0].pds)->opened, 3);
    /* A PDC that has something to do goes on. */
    losing(order ? PDS_ROD : PDS_RUD, 0, 1);
    send_message(0, 2, 2, 1);
    pds_leave(nodes[0].pds, &other);
    pds_leave(nodes[0].pds, NULL);
    send_message(0, 1, 2, 1);
    run(sw.now + SECOND);
    check_inbox(1, 0, 7);
    check_inbox(2, 0, 3);
    assert_int_equal(pds_counters(nodes[0].pds)->opened, 4);
    end();
    ordered = false;
}

static void addresses_that_are_left_are_met_anew(void **state)
{
    who_has_the_address_of_another_is_met(false);
    who_has_the_address_of_another_is_met(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_of_strangers_are_refused),
        cmocka_unit_test(control_packets_of_strangers_are_refused),
        cmocka_unit_test(acknowledgements_of_strangers_are_ignored),
        cmocka_unit_test(an_opening_ends_no_other_pdc),
        cmocka_unit_test(a_peer_that_begins_again_is_heard),
        cmocka_unit_test(late_packets_for_a_former_owner_do_not_open),
        cmocka_unit_test(ids_of_a_former_owner_come_late),
        cmocka_unit_test(data_from_its_target_opens),
        cmocka_unit_test(strangers_are_no_sign_of_life),
        cmocka_unit_test(addresses_that_are_left_are_met_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
