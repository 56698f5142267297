/* SPDX-License-Identifier: BSD-2-Clause */
/* Heads of packets, and what a flow answers to those that no peer would send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "layers/mrail/mrail_keys.h"
#include "model.h"

static uint8_t bytes[512];

static struct mrail_head whole(void)
{
    static const uint8_t name[64] = {1, 2, 3};

    return (struct mrail_head){
        .type = MRAIL_DATA,
        .flags = MRAIL_INTRO,
        .words = 2,
        .to = 5,
        .serial = 6,
        .ack = 7,
        .limit = 8,
        .bits = {9, 10},
        .epoch = 11,
        .giving = 12,
        .addr = name,
        .addr_len = sizeof(name),
    };
}

static void heads_come_back(void **state)
{
    struct mrail_head head = whole(), got = {.type = 0};
    size_t size = mrail_head_size(&head);

    mrail_head_put(&head, bytes);
    assert_null(mrail_head_get(bytes, size + 3, &got));
    assert_int_equal(got.to, 5);
    assert_int_equal(got.serial, 6);
    assert_int_equal(got.ack, 7);
    assert_int_equal(got.limit, 8);
    assert_int_equal(got.bits[1], 10);
    assert_int_equal(got.epoch, 11);
    assert_int_equal(got.giving, 12);
    assert_memory_equal(got.addr, head.addr, head.addr_len);
    for (size_t i = 0; i < size; i++)
        assert_non_null(mrail_head_get(bytes, i, &got));
}

static void head_says(size_t len, const char *reason)
{
    struct mrail_head got = {.type = 0};
    const char *wrong = mrail_head_get(bytes, len, &got);

    assert_non_null(wrong);
    assert_string_equal(wrong, reason);
}

static void wild_heads_are_refused(void **state)
{
    static const struct {
        uint8_t at, value;
        const char *reason;
    } wild[] = {{0, 'X', "a packet of another protocol"},
                {2, 1, "a packet of another version"},
                {2, 3, "a packet of another version"},
                {3, 0, "a packet of an unknown kind"},
                {3, 6, "a packet of an unknown kind"},
                {20, 2, "a packet with wild counts"},
                {20, 0, "a packet with wild counts"},
                {20, 4, "a packet of an unknown kind"},
                {21, 5, "a packet with wild counts"},
                {22, MRAIL_ADDR_MAX + 1, "a packet with wild counts"},
                {22, 0, "a packet with wild counts"},
                {23, 1, "a packet of an unknown kind"},
                {40, 0, "an introduction that says nothing"},
                {48, 0, "an introduction that says nothing"}};
    struct mrail_head head = whole(), got = {.type = 0};

    for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
        mrail_head_put(&head, bytes);
        bytes[wild[i].at] = wild[i].value;
        head_says(sizeof(bytes), wild[i].reason);
    }
    mrail_head_put(&head, bytes);
    head_says(MRAIL_HEAD_SIZE - 1, "a packet shorter than its head");
    head_says(mrail_head_size(&head) - 1, "a packet cut short");
    head.type = MRAIL_ACK;
    mrail_head_put(&head, bytes);
    assert_null(mrail_head_get(bytes, mrail_head_size(&head), &got));
    head_says(mrail_head_size(&head) + 1, "a packet with something behind it");
    head = (struct mrail_head){.type = MRAIL_ACK};
    mrail_head_put(&head, bytes);
    head_says(mrail_head_size(&head), "a packet of nobody");
}

/* Of the join's own messages. */
static void keys_say(size_t len, const char *reason)
{
    struct mrail_keys got;
    const char *wrong = mrail_keys_get(bytes, len, &got);

    assert_non_null(wrong);
    assert_string_equal(wrong, reason);
}

static void keys_of_rails_that_there_are_not_are_refused(void **state)
{
    struct mrail_keys keys = {.kind = MRAIL_TOLD, .id = 3, .count = 2, .key = {4, 5}}, got;
    size_t size = mrail_keys_put(&keys, bytes);

    assert_null(mrail_keys_get(bytes, size, &got));
    assert_int_equal(got.key[1], 5);
    keys_say(size - 1, "keys that are cut short");
    keys_say(size + 8, "keys that are cut short");
    keys_say(MRAIL_KEYS_HEAD - 1, "a message of the join's that says nothing");
    bytes[1] = MRAIL_RAILS + 1;
    keys_say(MRAIL_KEYS_HEAD + 8 * (MRAIL_RAILS + 1), "keys of rails that there are not");
    bytes[1] = 2;
    bytes[0] = MRAIL_ASKED; /* of two regions */
    keys_say(size, "keys of rails that there are not");
}

static void says(const char *reason, struct mrail_head head, size_t len)
{
    static const uint8_t payload[MODEL_PACKET + 1];
    static struct model model;
    const char *wrong;

    model_open(&model, 2, 1);
    model_send(&model, 0, 10, 100, 10);
    flow_run(&model.side[0].flow, model.now);
    head.to = 1;
    wrong = flow_receive(&model.side[0].flow, 1, &head, payload, len, model.now);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, reason));
    assert_int_equal(model.side[0].done, 0);
    assert_int_equal(model.side[0].flow.in.next, 0);
    model_close(&model);
}

static void wild_packets_change_nothing(void **state)
{
    says("never sent", (struct mrail_head){.type = MRAIL_ACK, .ack = 11}, 0);
    says("never sent",
         (struct mrail_head){.type = MRAIL_ACK, .ack = 1, .words = 1, .bits = {1 << 8}}, 0);
    says("beyond the window", (struct mrail_head){.type = MRAIL_ACK, .limit = 1000}, 0);
    says("a sequence that jumps", (struct mrail_head){.type = MRAIL_DATA, .serial = 256}, 4);
    says("a sequence that jumps", (struct mrail_head){.type = MRAIL_DATA, .serial = 1u << 30}, 4);
    says("a message larger than a packet", (struct mrail_head){.type = MRAIL_DATA},
         MODEL_PACKET + 1);
}

/* With all of what came kept, or no memory for more: the window alone would move on with it. */
static void a_peer_sends_no_more_than_it_was_told(void **state)
{
    static const uint8_t payload[4];
    static struct model model;
    struct mrail_head head = {.type = MRAIL_DATA, .to = 1};
    struct flow *flow = &model.side[0].flow;
    const char *wrong;

    model_open(&model, 2, 1);
    model_send(&model, 1, 2 * FLOW_WINDOW, 4, 2 * FLOW_WINDOW);
    flow->shut = true;
    for (head.serial = 0; head.serial < FLOW_WINDOW; head.serial++) {
        uint8_t message[4] = {(uint8_t)head.serial, (uint8_t)(head.serial >> 8)};

        assert_null(flow_receive(flow, 1, &head, message, sizeof(message), model.now));
        flow_run(flow, model.now);
    }
    wrong = flow_receive(flow, 1, &head, payload, sizeof(payload), model.now);
    assert_non_null(wrong);
    assert_string_equal(wrong, "a message beyond the room that was told");
    assert_int_equal(flow->in.next, FLOW_WINDOW);
    model_close(&model);
}

static void an_answer_to_no_probe_is_nothing(void **state)
{
    static struct model model;
    struct mrail_head head = {.type = MRAIL_ANSWER, .to = 1, .serial = 1};

    model_open(&model, 2, 1);
    flow_rail_failed(&model.side[0].flow, 1, 5, model.now);
    assert_null(flow_receive(&model.side[0].flow, 1, &head, bytes, 0, model.now));
    assert_int_equal(model.side[0].flow.paths[1].state, PATH_DOWN);
    model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_come_back),
        cmocka_unit_test(wild_heads_are_refused),
        cmocka_unit_test(keys_of_rails_that_there_are_not_are_refused),
        cmocka_unit_test(wild_packets_change_nothing),
        cmocka_unit_test(a_peer_sends_no_more_than_it_was_told),
        cmocka_unit_test(an_answer_to_no_probe_is_nothing),
    };

    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
