/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lives of a peer that is played here: late and forged packets harm none, and another endpoint at
 * the peer's address takes its place when it has shown that it is there.
 */
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

#include "tests/layers/srd/live/play.h"

enum {
    OTHER = 0x2345678, /* connid of an endpoint that was not heard before */
    THIRD = 0x3456789,
};

/* Fields of an introduction of srd's. */
static uint32_t view_of(const struct srd_header *header)
{
    uint32_t view;

    assert_true(header->flags & SRD_RAW_ADDR);
    memcpy(&view, header->raw_addr + 28, 4);
    return view;
}

static uint32_t connid_of(const struct srd_header *header)
{
    uint32_t theirs;

    assert_true(header->flags & SRD_RAW_ADDR);
    memcpy(&theirs, header->raw_addr + 20, 4);
    return theirs;
}

/* The next proposal to that life: the life of srd's that it is of. */
static uint32_t expect_proposal(uint32_t to, uint32_t kind)
{
    struct srd_header got = expect(SRD_EAGER_RTW);

    assert_int_equal(got.place_count, 0);
    assert_int_equal(view_of(&got), to | kind);
    return connid_of(&got);
}

/* A message by an endpoint that knows that life of srd's. */
static void send_as(uint32_t whose, uint32_t view, uint64_t tag, const char *text)
{
    struct srd_header header = {.type = SRD_EAGER_TAG, .tag = tag, .total = strlen(text)};
    uint32_t kept_connid = connid, kept_life = life;

    connid = whose;
    life = view;
    send_packet(header, text, strlen(text));
    connid = kept_connid;
    if (life == view) /* no packet has told another one */
        life = kept_life;
}

static void shake_hands_as(uint32_t whose, uint32_t view)
{
    uint32_t kept_connid = connid, kept_life = life;

    connid = whose;
    life = view;
    send_packet((struct srd_header){.type = SRD_HANDSHAKE, .features = FEATURES}, "", 0);
    connid = kept_connid;
    if (life == view)
        life = kept_life;
}

/* A message to the played peer that waits to be asked for; the life that it is of. */
static struct srd_header begin_large(void)
{
    introduce_with(FEATURES);
    assert_int_equal(fi_tsend(a.ep, large, 100000, NULL, a.peer, 3, NULL), 0);
    return expect(SRD_LONGCTS_TAG);
}

static void end_large(const struct srd_header *got, uint32_t mine)
{
    struct srd_header cts = {
        .type = SRD_CTS, .send_id = got->send_id, .recv_id = 77, .window = 100000 - got->len};

    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    send_packet(cts, "", 0);
    assert_int_equal(ended(), 0);
    life = mine;
    next_msg = 40;
    assert_alive();
}

/* ---- What harms none ---- */

static void a_life_that_does_not_answer_ends_none(void **state)
{
    struct srd_header got = begin_large();
    uint32_t mine = life;

    receive(9);
    send_as(OTHER, 0, 9, "forged");
    expect_proposal(OTHER, SRD_PROPOSES);
    send_as(OTHER, 0, 9, "again");
    assert_true(silent());
    assert_int_equal(fi_cancel(&a.ep->fid, in), 0);
    assert_int_equal(ended(), FI_ECANCELED);
    end_large(&got, mine);
}

static void views_that_are_guessed_end_none(void **state)
{
    static const uint32_t kinds[] = {SRD_PLAIN, SRD_PROPOSES, SRD_RENEWS, SRD_LEAVES};
    struct srd_header got = begin_large();
    uint32_t mine = life;

    for (size_t i = 0; i < 4; i++) {
        shake_hands_as(OTHER, (mine ^ 1) | kinds[i]);
        if (kinds[i])
            send_as(OTHER, (mine ^ 1) | kinds[i], 9, "guessed");
        shake_hands_as(connid, (mine ^ 1) | kinds[i]);
    }
    send_as(OTHER, SRD_LEAVES | mine, 9, "not the one that leaves");
    shake_hands_as(OTHER, SRD_LEAVES | mine);
    assert_true(silent());
    end_large(&got, mine);
}

/* It was for another endpoint at our address, or for a former life of ours. */
static void a_handshake_for_another_is_none(void **state)
{
    struct srd_header got;

    shake_hands_as(CONNID, 0x777);
    shake_hands_as(CONNID, 0);
    for (int i = 0; i < 100; i++)
        drive();
    assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_EAGER_TAG);
    assert_true(got.flags & SRD_RAW_ADDR);
    assert_int_equal(view_of(&got), 0);
    assert_int_equal(ended(), 0);
    shake_hands();
    assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 3, NULL), 0);
    assert_true(expect(SRD_EAGER_TAG).flags & SRD_CONNID);
    assert_int_equal(ended(), 0);
}

static void what_overtakes_the_handshake_waits_for_it(void **state)
{
    struct srd_header header = {.type = SRD_EAGER_TAG, .flags = SRD_CONNID, .total = 5}, got;

    assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 3, NULL), 0);
    assert_int_equal(ended(), 0);
    receive(0);
    send_packet(header, "early", 5);
    got = expect(SRD_EAGER_RTW); /* it may not know that we do not know it */
    assert_int_equal(view_of(&got), 0);
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    shake_hands_as(OTHER, 0x777);
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    shake_hands();
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "early", 5);
}

/* ---- Another one takes its place ---- */

static void what_was_held_back_comes_once(void **state)
{
    uint32_t next;

    begin_large();
    receive(9);
    send_as(OTHER, 0, 9, "first");
    next = expect_proposal(OTHER, SRD_PROPOSES);
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    shake_hands_as(OTHER, next);
    assert_int_equal(ended(), FI_ECONNRESET); /* what was with the one before */
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "first", 5);
    assert_int_equal(expect(SRD_HANDSHAKE).connid, next);
    receive(9);
    send_as(CONNID, 0, 9, "late");
    send_as(OTHER, next, 9, "second");
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "second", 6);
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 3, NULL), 0);
    assert_int_equal(expect(SRD_EAGER_TAG).msg_id, 0);
    assert_int_equal(ended(), 0);
}

/* It knows a former life: its packets are dropped, so that it has to begin anew. */
static void one_that_knows_a_former_life_renews_its_own(void **state)
{
    uint32_t next;

    introduce_with(FEATURES);
    receive(9);
    send_as(OTHER, 0x777, 9, "dropped");
    next = expect_proposal(OTHER, SRD_RENEWS);
    send_as(THIRD, next, 9, "first");
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "first", 5);
}

/* The same, asked of us. */
static void we_renew_ours(void **state)
{
    uint32_t mine, now;

    begin_large();
    mine = life;
    connid = OTHER;
    send_packet((struct srd_header){.type = SRD_EAGER_RTW, .view = SRD_RENEWS}, "", 0);
    assert_int_equal(ended(), FI_ECONNRESET);
    now = expect(SRD_HANDSHAKE).connid;
    assert_int_not_equal(now, mine);
    assert_alive();
}

/* The peer's new life knows ours: messages that we have sent go on. */
static void a_life_that_knows_ours_takes_over(void **state)
{
    struct srd_header got = begin_large();
    uint32_t mine = life;

    connid = OTHER;
    send_packet((struct srd_header){.type = SRD_EAGER_RTW, .view = SRD_PROPOSES}, "", 0);
    assert_int_equal(expect(SRD_HANDSHAKE).connid, mine);
    shake_hands();
    end_large(&got, mine);
}

/* More comes before the answer than is held back. */
static void a_flood_begins_anew(void **state)
{
    enum {
        BYTES = 8000,
        PACKETS = (5 << 20) / BYTES,
    };
    struct srd_header header = {.type = SRD_EAGER_TAG, .tag = 1};
    uint32_t next, last;

    introduce_with(FEATURES);
    connid = OTHER;
    for (int i = 0; i < PACKETS; i++) {
        life = 0;
        header.msg_id = (uint32_t)i;
        send_packet(header, large, BYTES);
    }
    next = expect_proposal(OTHER, SRD_PROPOSES);
    shake_hands_as(OTHER, next);
    last = expect_proposal(OTHER, SRD_RENEWS);
    assert_int_not_equal(last, next);
    receive(9);
    send_as(THIRD, last, 9, "anew");
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "anew", 4);
}

static void one_that_leaves_ends_what_waits(void **state)
{
    struct srd_header got;
    uint32_t mine;

    begin_large();
    mine = life;
    shake_hands_as(connid, life | SRD_LEAVES);
    assert_int_equal(ended(), FI_ECONNRESET);
    assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 3, NULL), -FI_EAGAIN);
    got = expect(SRD_EAGER_RTW);
    assert_int_equal(view_of(&got), 0);
    assert_int_not_equal(connid_of(&got), mine);
    shake_hands_as(OTHER, connid_of(&got));
    assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 3, NULL), 0);
    assert_int_equal(expect(SRD_EAGER_TAG).msg_id, 0);
    assert_int_equal(ended(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_life_that_does_not_answer_ends_none),
        CASE(views_that_are_guessed_end_none),
        CASE(a_handshake_for_another_is_none),
        CASE(what_overtakes_the_handshake_waits_for_it),
        CASE(what_was_held_back_comes_once),
        CASE(one_that_knows_a_former_life_renews_its_own),
        CASE(we_renew_ours),
        CASE(a_life_that_knows_ours_takes_over),
        CASE(a_flood_begins_anew),
        CASE(one_that_leaves_ends_what_waits),
    };

    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)(i * 7 + i / 251);
    return cmocka_run_group_tests_name("srd: life", tests, NULL, NULL);
}
