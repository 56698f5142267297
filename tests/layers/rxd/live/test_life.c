/* SPDX-License-Identifier: BSD-2-Clause */
/* Lives of a peer that is played by the test, packet by packet: unproven lives end, and begin,
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "layers/rxd/rxd_wire.h"
#include "tests/support/end.h"

enum {
    PACKET = 8192,
    TURNS = 2000,
    LARGE = 1 << 20,
    NUMBER = 0x55,
    FLOOD = 1000,
};

static struct end a, raw;
static uint8_t heard[PACKET];
static struct fid_mr *heard_mr;
static char in[LARGE], out[LARGE];

/* The life that the played peer tells; and, as heard last, a's life (view) and a's number for the
 * peer. */
static struct {
    uint32_t life, view, number;
} me;

/* ---- Ends ---- */

static int open_all(void **state)
{
    end_open(&a, end_info("rxd;loop(shape=srd,seed=11)", FI_MSG | FI_TAGGED, 0),
             FI_CQ_FORMAT_TAGGED);
    end_open(&raw, end_info("loop(shape=srd)", FI_MSG, 0), FI_CQ_FORMAT_TAGGED);
    end_meet(&a, &raw);
    memset(&me, 0, sizeof(me));
    assert_int_equal(fi_mr_reg(raw.domain, heard, PACKET, FI_RECV, 0, 0, 0, &heard_mr, NULL), 0);
    assert_int_equal(fi_recv(raw.ep, heard, PACKET, fi_mr_desc(heard_mr), FI_ADDR_UNSPEC, heard),
                     0);
    return 0;
}

static int close_all(void **state)
{
    assert_int_equal(fi_close(&heard_mr->fid), 0);
    end_close(&raw);
    end_close(&a);
    return 0;
}

/* ---- Packets ---- */

static void say(unsigned flags, uint32_t sequence, uint32_t life, uint32_t view,
                const struct rxd_record *record, const void *payload)
{
    struct rxd_head head = {.flags = (uint8_t)flags,
                            .number = flags & RXD_INTRO ? 0 : me.number,
                            .sequence = sequence,
                            .life = life,
                            .view = view,
                            .giving = NUMBER};
    uint8_t bytes[256], *at = bytes;

    memcpy(&head.name.addr, raw.name, sizeof(head.name.addr.in));
    rxd_head_put(&head, at);
    at += rxd_head_size(&head);
    if (record) {
        at = rxd_record_put(record, at);
        memcpy(at, payload, record->len);
        at += record->len;
    }
    while (fi_inject(raw.ep, bytes, (size_t)(at - bytes), raw.peer))
        fi_cq_read(raw.cq, NULL, 0);
}

/* A message of a life. */
static void say_message(uint32_t sequence, uint32_t life, uint32_t view, const char *text)
{
    struct rxd_record record = {
        .kind = RXD_MSG, .flags = RXD_TAGGED, .size = strlen(text), .tag = 1, .len = strlen(text)};

    say(RXD_INTRO | RXD_ORDERED, sequence, life, view, &record, text);
}

/* The next packet of a's: its head, and its first record, of kind 0 where it has none. False: none
 * comes. */
static bool next_packet(struct rxd_head *head, struct rxd_record *record)
{
    struct fi_cq_tagged_entry entry;
    size_t size;

    memset(record, 0, sizeof(*record));
    for (int i = 0; i < TURNS; i++) {
        fi_cq_read(a.cq, NULL, 0);
        if (fi_cq_read(raw.cq, &entry, 1) != 1 || !(entry.flags & FI_RECV))
            continue;
        assert_null(rxd_head_get(heard, entry.len, head));
        if (entry.len > rxd_head_size(head))
            assert_null(rxd_record_get(heard + rxd_head_size(head), entry.len - rxd_head_size(head),
                                       head->flags & RXD_ORDERED, record, &size));
        assert_int_equal(
            fi_recv(raw.ep, heard, PACKET, fi_mr_desc(heard_mr), FI_ADDR_UNSPEC, heard), 0);
        return true;
    }
    return false;
}

/* Hears all that comes. The last introduction of these flags, if there was one. */
static bool hear(unsigned flags, struct rxd_head *found)
{
    struct rxd_record record;
    struct rxd_head head = {0};
    bool any = false;

    while (next_packet(&head, &record)) {
        if (head.flags != flags)
            continue;
        *found = head;
        any = true;
    }
    return any;
}

/* Hears packets until one with such a record. */
static bool await(uint8_t kind, struct rxd_head *head, struct rxd_record *record)
{
    while (next_packet(head, record)) {
        if (record->kind == kind)
            return true;
    }
    return false;
}

/* A life that a takes for the peer's first one. */
static void meet(uint32_t life)
{
    struct rxd_head head = {0};

    me.life = life;
    say(RXD_INTRO, 0, life, 0, NULL, NULL);
    assert_true(hear(RXD_INTRO, &head));
    assert_int_equal(head.view, life);
    me.view = head.life;
    me.number = head.giving;
    say(RXD_INTRO, 0, life, me.view, NULL, NULL);
    assert_false(hear(RXD_INTRO, &head));
}

/* The peer's life has told that it knows what a has proposed, and a says so. */
static void agree(const struct rxd_head *proposal, uint32_t life)
{
    me.life = life;
    me.view = proposal->life;
    me.number = proposal->giving;
    say(RXD_INTRO, 0, life, me.view, NULL, NULL);
}

/* ---- a ---- */

static void receive(void)
{
    memset(in, 0, 16);
    assert_int_equal(fi_trecv(a.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
}

/* 1: a completion comes, 0: none, -FI_E: an error. */
static int look(void)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t rc = -FI_EAGAIN;

    for (int i = 0; i < TURNS && rc == -FI_EAGAIN; i++)
        rc = fi_cq_read(a.cq, &entry, 1);
    if (rc != -FI_EAVAIL)
        return rc == 1;
    assert_int_equal(fi_cq_readerr(a.cq, &error, 0), 1);
    return -error.err;
}

static void comes(const char *text)
{
    assert_int_equal(look(), 1);
    assert_memory_equal(in, text, strlen(text) + 1);
}

/* Something of a's is under way with the peer until its life ends. */
static void begin_large(void)
{
    struct rxd_head head = {0};

    assert_int_equal(fi_tsend(a.ep, out, LARGE, NULL, a.peer, 9, out), 0);
    hear(0, &head);
}

/* ---- Cases ---- */

static void a_life_that_does_not_answer_ends_nothing(void **state)
{
    struct rxd_head head = {0};

    meet(7);
    begin_large();
    receive();
    say_message(0, 8, 0, "forged");
    assert_true(hear(RXD_INTRO | RXD_PROPOSES, &head));
    assert_int_equal(head.view, 8);
    assert_int_not_equal(head.life, me.view);
    assert_int_equal(look(), 0);
    say_message(0, 8, me.view ^ head.life, "forged"); /* a guess */
    assert_true(hear(RXD_INTRO | RXD_RENEWS, &head));
    say_message(0, 8, 1, "forged");
    say(RXD_INTRO | RXD_PROPOSES, 0, 8, me.view + 1, NULL, NULL);
    say(RXD_INTRO | RXD_RENEWS, 0, 8, me.view + 1, NULL, NULL);
    assert_int_equal(look(), 0);
    say_message(0, 7, me.view, "mine");
    comes("mine");
    receive();
    say_message(1, 7, me.view, "and mine");
    comes("and mine");
}

static void a_life_that_answers_follows(void **state)
{
    struct rxd_head head = {0};

    meet(7);
    begin_large();
    receive();
    say_message(1, 8, 0, "second");
    say_message(0, 8, 0, "first");
    assert_true(hear(RXD_INTRO | RXD_PROPOSES, &head));
    agree(&head, 8);
    assert_int_equal(look(), -FI_ECONNRESET); /* the large one */
    comes("first");
    receive();
    comes("second");
    assert_int_equal(look(), 0);
}

static void packets_of_a_life_that_is_over_are_late(void **state)
{
    uint32_t old_view, old_number, number;
    struct rxd_record record = {
        .kind = RXD_MSG, .flags = RXD_TAGGED, .size = 1, .tag = 1, .len = 1};
    struct rxd_head head = {0};

    meet(7);
    old_view = me.view;
    old_number = me.number;
    say_message(0, 8, 0, "new");
    assert_true(hear(RXD_INTRO | RXD_PROPOSES, &head));
    agree(&head, 8);
    receive();
    comes("new");
    begin_large();
    receive();
    say_message(0, 7, old_view, "late");
    say_message(0, 7, 0, "late");
    number = me.number;
    me.number = old_number;
    say(RXD_ORDERED, 1, 0, 0, &record, "l");
    me.number = number;
    assert_int_equal(look(), 0);
    assert_false(hear(RXD_INTRO | RXD_PROPOSES, &head));
    say(RXD_ORDERED, 1, 0, 0, &record, "m");
    comes("m");
}

/* A peer whose packets were for another endpoint than this one has to begin anew. */
static void a_view_of_another_life_is_told_so(void **state)
{
    struct rxd_head head = {0};

    receive();
    say_message(3, 7, 99, "for another");
    assert_true(hear(RXD_INTRO | RXD_RENEWS, &head));
    assert_int_equal(head.view, 7);
    assert_int_equal(look(), 0);
    me.number = head.giving;
    say_message(0, 8, head.life, "for it");
    comes("for it");
}

/* A peer that has left our life, and its own: both begin anew. */
static void a_renewal_ends_what_is_under_way(void **state)
{
    struct rxd_head head = {0};

    meet(7);
    begin_large();
    say(RXD_INTRO | RXD_RENEWS, 0, 8, me.view, NULL, NULL);
    assert_int_equal(look(), -FI_ECONNRESET);
    assert_true(hear(RXD_INTRO, &head));
    assert_int_equal(head.view, 8);
    assert_int_not_equal(head.life, me.view);
    receive();
    say_message(0, 8, head.life, "anew");
    comes("anew");
}

/* It comes while the end of the peer, which has sent what it must not, is still to be carried out.
 */
static void a_life_begins_as_another_breaks(void **state)
{
    char text[] = "0";

    meet(7);
    receive();
    say_message(0, 7, me.view, "once");
    comes("once");
    say_message(0, 7, me.view, "twice"); /* which is wrong */
    for (uint32_t i = 0; i < 8; i++) {
        text[0] = (char)('0' + i);
        say_message(i, 8, 0, text);
    }
    for (uint32_t i = 0; i < 8; i++) {
        receive();
        text[0] = (char)('0' + i);
        comes(text);
    }
}

/* Its next life was told to the peer, but not that the one before is over: what the peer sends in
 * that one counts for neither. */
static void a_peer_in_a_life_that_we_have_left_begins_anew(void **state)
{
    struct rxd_head head = {0};
    uint32_t second;

    meet(7);
    receive();
    say_message(0, 7, me.view, "once");
    comes("once");
    say_message(0, 7, me.view, "twice"); /* which is wrong */
    assert_true(hear(RXD_INTRO | RXD_RENEWS, &head));
    second = head.life;
    assert_int_not_equal(second, me.view);
    say(RXD_INTRO, 0, 7, second, NULL, NULL);
    assert_true(hear(RXD_INTRO | RXD_RENEWS, &head));
    assert_int_equal(head.view, 7);
    assert_int_not_equal(head.life, second);
    say(RXD_INTRO, 0, 7, 0, NULL, NULL); /* it has not heard of either */
    assert_true(hear(RXD_INTRO | RXD_RENEWS, &head));
    receive();
    say_message(0, 8, head.life, "anew");
    comes("anew");
}

static void a_proposal_is_taken(void **state)
{
    struct rxd_head head = {0};

    receive();
    assert_int_equal(fi_tsend(a.ep, "x", 1, NULL, a.peer, 1, NULL), 0);
    assert_true(hear(RXD_INTRO | RXD_ORDERED, &head)); /* as if there were one before us */
    me.view = head.life;
    say(RXD_INTRO | RXD_PROPOSES, 0, 8, me.view, NULL, NULL);
    assert_int_equal(look(), 1);
    assert_true(hear(RXD_INTRO, &head));
    assert_int_equal(head.view, 8);
    assert_int_equal(head.life, me.view); /* what was sent goes on */
    say_message(0, 8, me.view, "yes");
    comes("yes");
}

/* The packets that are kept of them are bounded; a life whose packets were not kept has to begin
 * anew. */
static void many_lives_cost_little(void **state)
{
    struct rxd_head head = {0};

    meet(7);
    receive();
    for (uint32_t i = 0; i < FLOOD; i++) {
        say_message(0, 100 + i, 0, "forged");
        if (i % 50 == 0)
            hear(0, &head);
    }
    hear(0, &head);
    say_message(0, 7, me.view, "mine");
    comes("mine");
    say_message(0, 8, 0, "lost");
    assert_true(hear(RXD_INTRO | RXD_PROPOSES, &head));
    agree(&head, 8);
    assert_true(hear(RXD_INTRO | RXD_RENEWS, &head));
    assert_int_equal(head.view, 8);
    agree(&head, 9);
    receive();
    say_message(0, 9, me.view, "found");
    comes("found");
    assert_int_equal(look(), 0);
}

/* Its address was removed: it is asked first, and only the answer to that counts. */
static void a_removed_peer_is_asked(void **state)
{
    struct rxd_record record, here = {.kind = RXD_HERE};
    struct rxd_head head = {0};

    meet(7);
    assert_int_equal(fi_av_remove(a.av, &a.peer, 1, 0), 0);
    assert_int_equal(fi_av_insert(a.av, raw.name, 1, &a.peer, 0, NULL), 1);
    assert_int_equal(fi_tsend(a.ep, out, 1, NULL, a.peer, 1, out), -FI_EAGAIN);
    assert_true(await(RXD_ASK, &head, &record));
    assert_int_equal(head.flags, RXD_INTRO);
    assert_int_equal(head.view, 7);
    here.id = record.id + 1;
    say(RXD_INTRO, 0, 7, me.view, &here, "");
    assert_int_equal(look(), 0);
    assert_int_equal(fi_tsend(a.ep, out, 1, NULL, a.peer, 1, out), -FI_EAGAIN);
    here.id = record.id;
    say(RXD_INTRO, 0, 7, me.view, &here, "");
    assert_int_equal(look(), 0);
    assert_int_equal(fi_tsend(a.ep, out, 1, NULL, a.peer, 1, out), 0);
    assert_int_equal(look(), 1);
}

static void a_question_is_answered(void **state)
{
    struct rxd_record record, question = {.kind = RXD_ASK, .id = 1234};
    struct rxd_head head = {0};

    meet(7);
    say(0, 0, 0, 0, &question, "");
    assert_true(await(RXD_HERE, &head, &record));
    assert_int_equal(record.id, 1234);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_life_that_does_not_answer_ends_nothing),
        CASE(a_life_that_answers_follows),
        CASE(packets_of_a_life_that_is_over_are_late),
        CASE(a_view_of_another_life_is_told_so),
        CASE(a_renewal_ends_what_is_under_way),
        CASE(a_life_begins_as_another_breaks),
        CASE(a_peer_in_a_life_that_we_have_left_begins_anew),
        CASE(a_proposal_is_taken),
        CASE(many_lives_cost_little),
        CASE(a_removed_peer_is_asked),
        CASE(a_question_is_answered),
    };

    return cmocka_run_group_tests_name("rxd: lives", tests, NULL, NULL);
}
