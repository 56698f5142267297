/* SPDX-License-Identifier: BSD-2-Clause */
/* Heads of packets, and what a flow answers to those that no peer would send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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

static void wild_heads_are_refused(void **state)
{
    static const struct {
        uint8_t at, value;
    } wild[] = {{0, 'X'}, {2, 1},  {2, 3},
                {3, 0},   {3, 6},  {20, 2},
                {20, 0},  {21, 5}, {22, MRAIL_ADDR_MAX + 1},
                {22, 0},  {23, 1}};
    struct mrail_head head = whole(), got = {.type = 0};

    for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
        mrail_head_put(&head, bytes);
        bytes[wild[i].at] = wild[i].value;
        assert_non_null(mrail_head_get(bytes, sizeof(bytes), &got));
    }
    head.type = MRAIL_ACK; /* with something behind it */
    mrail_head_put(&head, bytes);
    assert_null(mrail_head_get(bytes, mrail_head_size(&head), &got));
    assert_non_null(mrail_head_get(bytes, mrail_head_size(&head) + 1, &got));
    head = (struct mrail_head){.type = MRAIL_ACK}; /* nobody's */
    mrail_head_put(&head, bytes);
    assert_non_null(mrail_head_get(bytes, mrail_head_size(&head), &got));
}

static void says(const char *reason, struct mrail_head head)
{
    static struct model model;
    const char *wrong;

    model_open(&model, 2, 1);
    model_send(&model, 0, 10, 100, 10);
    flow_run(&model.side[0].flow, model.now);
    head.to = 1;
    wrong = flow_receive(&model.side[0].flow, 1, &head, (const uint8_t *)"abcd", 4, model.now);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, reason));
    assert_int_equal(model.side[0].done, 0);
    assert_int_equal(model.side[0].flow.in.next, 0);
    model_close(&model);
}

static void wild_packets_change_nothing(void **state)
{
    says("never sent", (struct mrail_head){.type = MRAIL_ACK, .ack = 11});
    says("never sent",
         (struct mrail_head){.type = MRAIL_ACK, .ack = 1, .words = 1, .bits = {1 << 8}});
    says("beyond the window", (struct mrail_head){.type = MRAIL_ACK, .limit = 1000});
    says("jumps", (struct mrail_head){.type = MRAIL_DATA, .serial = 256});
    says("jumps", (struct mrail_head){.type = MRAIL_DATA, .serial = 1u << 30});
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
        cmocka_unit_test(wild_packets_change_nothing),
        cmocka_unit_test(an_answer_to_no_probe_is_nothing),
    };

    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
