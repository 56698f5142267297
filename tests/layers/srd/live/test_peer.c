/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that is played here, packet by packet, over the same packets: what srd answers, and what
 * becomes of packets that cannot be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "tests/layers/srd/live/play.h"

/* ---- What is said ---- */

static void a_handshake_answers_the_first_packet(void **state)
{
    struct srd_header got;

    send_packet((struct srd_header){.type = SRD_EAGER_RTW}, "", 0);
    got = expect(SRD_HANDSHAKE);
    assert_true(got.features & SRD_CAN_DC && got.features & SRD_WANTS_CONNID);
    assert_true(got.flags & SRD_CONNID);
    send_message(1, "x");
    assert_true(silent());
}

static void the_address_is_said_until_the_handshake(void **state)
{
    struct srd_header got;

    assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_EAGER_TAG);
    assert_true(got.flags & SRD_RAW_ADDR && !(got.flags & SRD_CONNID));
    assert_int_equal(got.msg_id, 0);
    assert_int_equal(ended(), 0);
    shake_hands();
    assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_EAGER_TAG);
    assert_true(got.flags & SRD_CONNID && !(got.flags & SRD_RAW_ADDR));
    assert_int_equal(got.msg_id, 1);
    assert_int_equal(ended(), 0);
}

static void a_message_of_several_packets_is_whole(void **state)
{
    struct srd_header got;
    size_t came = 0;
    uint32_t id = 0;

    assert_int_equal(fi_tsend(a.ep, large, 20000, NULL, a.peer, 3, NULL), 0);
    while (came < 20000) {
        got = expect(SRD_MEDIUM_TAG);
        assert_int_equal(got.total, 20000);
        assert_memory_equal(got.payload, large + got.offset, got.len);
        assert_true(!came || got.msg_id == id);
        id = got.msg_id;
        came += got.len;
    }
    assert_int_equal(came, 20000);
    assert_int_equal(ended(), 0);
}

static void a_large_message_waits_to_be_asked_for(void **state)
{
    struct srd_header cts = {.type = SRD_CTS, .recv_id = 77, .window = 1000}, got;
    size_t came;

    assert_int_equal(fi_tsend(a.ep, large, 100000, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_LONGCTS_TAG);
    assert_int_equal(got.total, 100000);
    assert_memory_equal(got.payload, large, got.len);
    came = got.len;
    assert_true(silent());
    shake_hands();
    cts.send_id = got.send_id;
    send_packet(cts, "", 0);
    got = expect(SRD_CTSDATA);
    assert_int_equal(got.recv_id, 77);
    assert_int_equal(got.len, 1000);
    assert_int_equal(got.offset, came);
    assert_true(silent());
    cts.window = 100000 - came - 1000;
    send_packet(cts, "", 0);
    assert_int_equal(ended(), 0);
}

static void a_receipt_ends_what_is_to_be_delivered(void **state)
{
    struct iovec iov = {large, 8};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = a.peer, .tag = 4};
    const uint64_t flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    struct srd_header got;

    assert_int_equal(fi_tsendmsg(a.ep, &msg, flags), -FI_EAGAIN);
    got = expect(SRD_EAGER_RTW);
    assert_int_equal(got.place_count, 0);
    shake_hands();
    assert_int_equal(fi_tsendmsg(a.ep, &msg, flags), 0);
    got = expect(SRD_DC_EAGER_TAG);
    assert_true(silent());
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    send_packet((struct srd_header){.type = SRD_RECEIPT, .send_id = got.send_id + 1}, "", 0);
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    send_packet((struct srd_header){.type = SRD_RECEIPT, .send_id = got.send_id}, "", 0);
    assert_int_equal(ended(), 0);
}

static void long_messages_that_are_to_be_read_are_asked_for(void **state)
{
    struct srd_header header = {.type = SRD_LONGREAD_TAG,
                                .msg_id = next_msg++,
                                .total = 5,
                                .tag = 8,
                                .send_id = 42,
                                .read_count = 1,
                                .reads = {{0x1000, 5, 9}}},
                      got;

    receive(8);
    send_packet(header, "", 0);
    got = expect(0);
    assert_int_equal(got.type, SRD_READ_NACK);
    assert_int_equal(got.send_id, 42);
    header.type = SRD_LONGCTS_TAG;
    header.flags = SRD_AFTER_NACK;
    header.read_count = 0;
    header.send_id = 43;
    send_packet(header, "", 0);
    got = expect(SRD_CTS);
    assert_int_equal(got.send_id, 43);
    assert_int_equal(got.window, 5);
    header = (struct srd_header){.type = SRD_CTSDATA, .recv_id = got.recv_id};
    send_packet(header, "hello", 5);
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "hello", 5);
    assert_alive();
}

/* ---- Order ---- */

static void early_messages_wait_for_those_before(void **state)
{
    receive(5);
    next_msg = 2;
    send_message(5, "third");
    next_msg = 1;
    send_message(5, "second");
    assert_true(silent());
    next_msg = 0;
    send_message(5, "first");
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "first", 5);
    receive(5);
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "second", 6);
    receive(5);
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "third", 5);
}

static void without_an_order_nothing_waits(void **state)
{
    receive(5);
    next_msg = 7;
    send_message(5, "seventh");
    assert_int_equal(ended(), 0);
}

static void a_message_twice_is_an_error(void **state)
{
    send_message(5, "first");
    next_msg = 0;
    send_message(5, "again");
    assert_dead();
}

/* ---- What cannot be ---- */

static void packets_that_are_none_are_dropped(void **state)
{
    static const uint8_t bad[][8] = {{0}, {SRD_EAGER_TAG, 3}, {200, 4}, {1, 4}, {SRD_CTS, 4}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memcpy(out, bad[i], sizeof(bad[i]));
        send_bytes(sizeof(bad[i]));
    }
    out[0] = SRD_EAGER_MSG;
    send_bytes(1);
    assert_alive();
}

static void names_of_others_are_refused(void **state)
{
    struct srd_header header = {.type = SRD_EAGER_TAG, .tag = 1, .flags = SRD_RAW_ADDR};
    uint8_t addr[SRD_ADDR_SIZE];

    assert_alive();
    receive(1);
    put_address(&a, addr);
    header.raw_addr = addr;
    header.raw_len = sizeof(addr);
    srd_header_put(&header, out);
    send_bytes(srd_header_size(&header));
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    assert_alive();
}

static void addresses_that_are_too_short_are_dropped(void **state)
{
    struct srd_header header = {.type = SRD_EAGER_TAG, .tag = 1, .flags = SRD_RAW_ADDR};
    uint8_t addr[SRD_ADDR_SIZE];

    assert_alive();
    receive(1);
    put_address(&raw, addr);
    header.raw_addr = addr;
    header.raw_len = sizeof(addr) - 8;
    srd_header_put(&header, out);
    send_bytes(srd_header_size(&header));
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    assert_alive();
}

/* An id of each kind that was never given, or for another kind. */
static void numbers_that_mean_nothing_are_nothing(void **state)
{
    static const uint8_t types[] = {SRD_CTS,     SRD_RECEIPT, SRD_EOR,    SRD_READ_NACK,
                                    SRD_CTSDATA, SRD_READRSP, SRD_ATOMRSP};
    struct srd_header got, header;

    assert_alive();
    assert_int_equal(fi_tsend(a.ep, large, 100000, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_LONGCTS_TAG);
    for (size_t i = 0; i < sizeof(types); i++) {
        bool data = i >= 4;

        header = (struct srd_header){.type = types[i], .window = 1};
        header.send_id = header.recv_id = got.send_id ^ 0x55555;
        send_packet(header, "x", data);
        header.send_id = header.recv_id = got.send_id;
        if (data)
            send_packet(header, "x", 1);
    }
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    assert_alive();
}

/* The first packet of another endpoint, and one with a number that it was not given. */
static void send_as(struct end *stranger, struct fid_mr *mr, uint8_t type, uint32_t id)
{
    uint8_t addr[SRD_ADDR_SIZE];
    struct srd_header intro = {.type = SRD_EAGER_RTW, .flags = SRD_RAW_ADDR, .raw_addr = addr},
                      header = {.type = type, .flags = SRD_CONNID, .connid = connid, .window = 1};
    bool data = type == SRD_CTSDATA || type == SRD_READRSP;

    put_address(stranger, addr);
    intro.raw_len = sizeof(addr);
    header.send_id = header.recv_id = id;
    header.len = data;
    for (int i = 0; i < 2; i++) {
        const struct srd_header *one = i ? &header : &intro;

        *srd_header_put(one, out) = 'x';
        assert_int_equal(fi_send(stranger->ep, out, srd_header_size(one) + one->len, fi_mr_desc(mr),
                                 stranger->peer, NULL),
                         0);
        for (int j = 0; j < 50; j++) {
            fi_cq_read(stranger->cq, NULL, 0);
            drive();
        }
    }
}

/* A stranger ends nothing, and moves no bytes, of what is under way with another. */
static void numbers_of_another_peer_are_nothing(void **state)
{
    static const uint8_t types[] = {SRD_CTS, SRD_PEER_ERROR, SRD_RECEIPT, SRD_READ_NACK, SRD_EOR};
    struct srd_header got;
    struct end stranger;
    struct fid_mr *mr;

    open_end(&stranger, "loop(shape=srd)", FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ, 0);
    assert_int_equal(fi_av_insert(stranger.av, a.name, 1, &stranger.peer, 0, NULL), 1);
    assert_int_equal(fi_mr_reg(stranger.domain, out, sizeof(out), FI_SEND, 0, 8, 0, &mr, NULL), 0);
    assert_int_equal(fi_tsend(a.ep, large, 100000, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_LONGCTS_TAG);
    for (size_t i = 0; i < sizeof(types); i++)
        send_as(&stranger, mr, types[i], got.send_id);
    assert_true(silent());
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    receive(4);
    send_packet((struct srd_header){.type = SRD_LONGCTS_TAG, .total = 9, .tag = 4, .send_id = 1},
                "hello", 5);
    got = expect(SRD_CTS);
    send_as(&stranger, mr, SRD_CTSDATA, got.recv_id);
    send_as(&stranger, mr, SRD_READRSP, got.recv_id);
    assert_true(silent());
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    send_packet((struct srd_header){.type = SRD_CTSDATA, .recv_id = got.recv_id, .offset = 5},
                "you!", 4);
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "helloyou!", 9);
    assert_int_equal(fi_close(&mr->fid), 0);
    end_close(&stranger);
}

static void more_than_there_is_kills(void **state)
{
    struct srd_header got;

    assert_int_equal(fi_tsend(a.ep, large, 100000, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_LONGCTS_TAG);
    shake_hands();
    send_packet((struct srd_header){.type = SRD_CTS, .send_id = got.send_id, .window = 100000}, "",
                0);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

static void data_that_nobody_asked_for_kills(void **state)
{
    struct srd_header header = {.type = SRD_LONGCTS_TAG, .total = 100, .tag = 4, .send_id = 1}, got;

    receive(4);
    send_packet(header, "hello", 5);
    got = expect(SRD_CTS);
    assert_int_equal(got.window, 95);
    header = (struct srd_header){.type = SRD_CTSDATA, .recv_id = got.recv_id, .offset = 99};
    send_packet(header, "xy", 2);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

static void pieces_that_differ_kill(void **state)
{
    struct srd_header header = {.type = SRD_MEDIUM_TAG, .total = 100, .tag = 4};

    receive(4);
    send_packet(header, "hello", 5);
    header.total = 101;
    header.offset = 5;
    send_packet(header, "hello", 5);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

static void more_pieces_than_a_message_has_kill(void **state)
{
    struct srd_header header = {.type = SRD_MEDIUM_TAG, .total = 7, .tag = 4};

    receive(4);
    send_packet(header, "hello", 5);
    header.offset = 2;
    send_packet(header, "hello", 5);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

static void a_nack_of_nothing_kills(void **state)
{
    send_packet(
        (struct srd_header){
            .type = SRD_LONGCTS_TAG, .flags = SRD_AFTER_NACK, .msg_id = 3, .total = 10},
        "", 0);
    assert_dead();
}

static void answers_to_no_question_kill(void **state)
{
    assert_alive();
    send_packet((struct srd_header){.type = SRD_PEER_ERROR, .send_id = 5, .ref_kind = 7}, "", 0);
    assert_dead();
}

/* A sender that waits for an answer gets one, for messages that came before and after. */
static void the_dead_are_told(void **state)
{
    struct srd_header header = {.type = SRD_LONGCTS_TAG, .total = 8000, .send_id = 21};

    introduce_with(FEATURES | SRD_CAN_ERROR);
    send_packet(header, "begin", 5);
    assert_true(silent());
    header = (struct srd_header){.type = SRD_PEER_ERROR, .ref_kind = 7};
    send_packet(header, "", 0);
    assert_refused(21);
    header = (struct srd_header){.type = SRD_DC_EAGER_TAG, .send_id = 22, .msg_id = 1, .total = 4};
    send_packet(header, "late", 4);
    assert_refused(22);
    assert_dead();
}

/* With another connid the peer begins a new life; packets of the old one are late. */
static void the_dead_may_begin_anew(void **state)
{
    answers_to_no_question_kill(state);
    connid++;
    next_msg = life = 0;
    assert_alive();
    connid--;
    receive(6);
    send_message(6, "late");
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    connid++;
    send_message(6, "new");
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "new", 3);
}

/* Of a life that did not introduce itself. */
static void a_packet_of_another_life_is_dropped(void **state)
{
    struct srd_header header = {.type = SRD_EAGER_TAG, .flags = SRD_CONNID, .tag = 6};

    assert_alive();
    receive(6);
    header.msg_id = next_msg;
    connid++;
    send_packet(header, "other", 5);
    connid--;
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    send_packet(header, "own", 3);
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "own", 3);
}

/* ---- Remote memory ---- */

static void accesses_are_checked(void **state)
{
    uint64_t key = fi_mr_key(region);
    struct srd_header header = {.type = SRD_DC_EAGER_RTW, .send_id = 6, .place_count = 1}, got;
    struct fi_rma_iov good = {0, 5, key},
                      bad[] = {{1020, 5, key}, {UINT64_MAX - 1, 5, key}, {0, 5, key + 1}};

    if (a.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        good.addr = (uintptr_t)memory;
    memset(memory, 0, sizeof(memory));
    introduce_with(FEATURES | SRD_CAN_ERROR);
    header.places[0] = good;
    send_packet(header, "hello", 5);
    got = expect(SRD_RECEIPT);
    assert_int_equal(got.send_id, 6);
    assert_memory_equal(memory, "hello", 5);
    for (size_t i = 0; i < 3; i++) {
        header.places[0] = bad[i];
        send_packet(header, "HELLO", 5);
        got = expect(0);
        assert_int_equal(got.type, SRD_PEER_ERROR);
        assert_int_equal(got.send_id, 6);
    }
    assert_memory_equal(memory, "hello", 5);
    header = (struct srd_header){.type = SRD_SHORT_RTR, .total = 5, .window = 5, .recv_id = 9};
    header.place_count = 1;
    header.places[0] = good;
    send_packet(header, "", 0);
    got = expect(SRD_READRSP);
    assert_int_equal(got.recv_id, 9);
    assert_memory_equal(got.payload, "hello", 5);
    assert_alive();
}

/* The requester's HANDSHAKE may be overtaken by its request. */
static void a_refusal_waits_for_the_handshake(void **state)
{
    struct srd_header header = {.type = SRD_DC_EAGER_RTW, .send_id = 8, .place_count = 1}, got;

    header.places[0] = (struct fi_rma_iov){0, 5, fi_mr_key(region) + 1};
    send_packet(header, "HELLO", 5);
    assert_true(silent());
    introduce_with(FEATURES | SRD_CAN_ERROR);
    got = expect(0);
    assert_int_equal(got.type, SRD_PEER_ERROR);
    assert_int_equal(got.send_id, 8);
}

/* The rest of a write comes when its memory is there no more. */
static void memory_that_goes_under_a_write_is_not_written(void **state)
{
    struct fid_mr *mr;
    struct srd_header header = {.type = SRD_DC_LONGCTS_RTW,
                                .send_id = 6,
                                .place_count = 1,
                                .total = 100},
                      got;

    assert_int_equal(fi_mr_reg(a.domain, in, 100, FI_REMOTE_WRITE, 0, 9, 0, &mr, NULL), 0);
    memset(in, 0, 100);
    header.places[0] = (struct fi_rma_iov){0, 100, fi_mr_key(mr)};
    if (a.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        header.places[0].addr = (uintptr_t)in;
    introduce_with(FEATURES | SRD_CAN_ERROR);
    send_packet(header, "hello", 5);
    got = expect(SRD_CTS);
    assert_int_equal(got.window, 95);
    assert_int_equal(fi_close(&mr->fid), 0);
    send_packet((struct srd_header){.type = SRD_CTSDATA, .recv_id = got.recv_id, .offset = 5},
                large, 95);
    assert_refused(6);
    assert_int_equal(in[5], 0);
    assert_alive();
}

/* One beyond the end of its memory, of each kind; none of its places is touched. */
static void atomics_beyond_memory_touch_nothing(void **state)
{
    static const uint8_t types[] = {SRD_DC_WRITE_RTA, SRD_FETCH_RTA, SRD_COMPARE_RTA};
    uint64_t at = a.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)memory : 0;
    uint64_t operands[4] = {1, 1, 0, 0};
    struct srd_header header = {
        .place_count = 2, .datatype = FI_UINT64, .send_id = 4, .recv_id = 4};

    memset(memory, 0, sizeof(memory));
    introduce_with(FEATURES | SRD_CAN_ERROR);
    for (size_t i = 0; i < sizeof(types); i++) {
        header.type = types[i];
        header.op = types[i] == SRD_COMPARE_RTA ? FI_CSWAP : FI_SUM;
        header.places[0] = (struct fi_rma_iov){at, 8, fi_mr_key(region)};
        header.places[1] = (struct fi_rma_iov){at + 1020, 8, fi_mr_key(region)};
        send_packet(header, operands, types[i] == SRD_COMPARE_RTA ? 32 : 16);
        assert_refused(4);
        for (size_t j = 0; j < 1030; j++)
            assert_int_equal(memory[j], 0);
    }
    assert_alive();
}

/* Operands of the second place are behind those of the first, and so are the comparands. */
static void compares_of_several_places_have_their_own(void **state)
{
    uint64_t at = a.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)memory : 0;
    const uint64_t before[2] = {3, 4}, operands[4] = {30, 40, 3, 4}, after[2] = {30, 40};
    struct srd_header header = {.type = SRD_COMPARE_RTA,
                                .place_count = 2,
                                .datatype = FI_UINT64,
                                .op = FI_CSWAP,
                                .recv_id = 4},
                      got;

    memcpy(memory + 16, &before[0], 8);
    memcpy(memory + 64, &before[1], 8);
    introduce_with(FEATURES | SRD_CAN_ERROR);
    header.places[0] = (struct fi_rma_iov){at + 16, 8, fi_mr_key(region)};
    header.places[1] = (struct fi_rma_iov){at + 64, 8, fi_mr_key(region)};
    send_packet(header, operands, sizeof(operands));
    got = expect(SRD_ATOMRSP);
    assert_int_equal(got.len, 16);
    assert_memory_equal(got.payload, before, 16);
    assert_memory_equal(memory + 16, &after[0], 8);
    assert_memory_equal(memory + 64, &after[1], 8);
}

static void atomics_are_checked(void **state)
{
    uint64_t key = fi_mr_key(region), one = 1, value[2] = {1, 0};
    struct srd_header header = {.type = SRD_FETCH_RTA,
                                .recv_id = 6,
                                .place_count = 1,
                                .datatype = FI_UINT64,
                                .op = FI_SUM,
                                .places = {{0, 8, key}}},
                      got;

    if (a.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        header.places[0].addr = (uintptr_t)memory;
    memset(memory, 0, sizeof(memory));
    introduce_with(FEATURES | SRD_CAN_ERROR);
    send_packet(header, &one, 8);
    got = expect(SRD_ATOMRSP);
    assert_int_equal(got.len, 8);
    assert_memory_equal(memory, &one, 8);
    /* Some peers send an atomic read with an operand, others without. */
    header.op = FI_ATOMIC_READ;
    send_packet(header, value, 8);
    assert_int_equal(expect(SRD_ATOMRSP).len, 8);
    send_packet(header, value, 0);
    assert_int_equal(expect(SRD_ATOMRSP).len, 8);
    header.op = FI_SUM;
    header.datatype = 200;
    send_packet(header, &one, 8);
    assert_int_equal(expect(0).type, SRD_PEER_ERROR);
    header.datatype = FI_UINT64;
    header.op = 200;
    send_packet(header, &one, 8);
    assert_int_equal(expect(0).type, SRD_PEER_ERROR);
    header.op = FI_SUM;
    header.places[0].key++;
    send_packet(header, &one, 8);
    assert_int_equal(expect(0).type, SRD_PEER_ERROR);
    assert_memory_equal(memory, &one, 8);
    send_packet(header, value, 16); /* two operands for one place */
    assert_dead();
}

/* Targets of libfabric's want an operand of what only reads. */
static void a_read_by_atomics_has_an_operand(void **state)
{
    uint64_t result, zero = 0;
    struct srd_header got;

    introduce_with(FEATURES);
    assert_int_equal(fi_fetch_atomic(a.ep, NULL, 1, NULL, &result, NULL, a.peer, 0, 1, FI_UINT64,
                                     FI_ATOMIC_READ, NULL),
                     0);
    got = expect(SRD_FETCH_RTA);
    assert_int_equal(got.len, 8);
    assert_memory_equal(got.payload, &zero, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_handshake_answers_the_first_packet),
        CASE(the_address_is_said_until_the_handshake),
        CASE(a_message_of_several_packets_is_whole),
        CASE(a_large_message_waits_to_be_asked_for),
        CASE(a_receipt_ends_what_is_to_be_delivered),
        CASE(long_messages_that_are_to_be_read_are_asked_for),
        ORDERED(early_messages_wait_for_those_before),
        CASE(without_an_order_nothing_waits),
        ORDERED(a_message_twice_is_an_error),
        CASE(packets_that_are_none_are_dropped),
        CASE(names_of_others_are_refused),
        CASE(addresses_that_are_too_short_are_dropped),
        CASE(numbers_that_mean_nothing_are_nothing),
        CASE(numbers_of_another_peer_are_nothing),
        CASE(more_than_there_is_kills),
        CASE(data_that_nobody_asked_for_kills),
        CASE(pieces_that_differ_kill),
        CASE(more_pieces_than_a_message_has_kill),
        CASE(a_nack_of_nothing_kills),
        CASE(answers_to_no_question_kill),
        CASE(a_read_by_atomics_has_an_operand),
        CASE(the_dead_are_told),
        CASE(the_dead_may_begin_anew),
        CASE(a_packet_of_another_life_is_dropped),
        CASE(accesses_are_checked),
        CASE(a_refusal_waits_for_the_handshake),
        CASE(memory_that_goes_under_a_write_is_not_written),
        CASE(atomics_are_checked),
        CASE(atomics_beyond_memory_touch_nothing),
        CASE(compares_of_several_places_have_their_own),
    };

    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)(i * 7 + i / 251);
    return cmocka_run_group_tests_name("srd: peer", tests, NULL, NULL);
}
