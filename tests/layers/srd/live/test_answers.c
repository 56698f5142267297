/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers that no peer owes: of a peer that was not asked, to a question of another kind, or to one
 * that is over. Each is asked on each kind of operation, which ends by the right answer only.
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
#define WARNINGS_PUBLIC
#include "tests/support/warnings.h"

static uint8_t zeros[PACKET];

/* ---- A stranger ---- */

static struct end stranger;
static struct fid_mr *stranger_mr;

static int open_stranger(void **state)
{
    open_all(state);
    open_end(&stranger, "loop(shape=srd)", FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ, 0);
    assert_int_equal(fi_av_insert(stranger.av, a.name, 1, &stranger.peer, 0, NULL), 1);
    assert_int_equal(
        fi_mr_reg(stranger.domain, out, sizeof(out), FI_SEND, 0, 8, 0, &stranger_mr, NULL), 0);
    return 0;
}

static int close_stranger(void **state)
{
    assert_int_equal(fi_close(&stranger_mr->fid), 0);
    end_close(&stranger);
    return close_all(state);
}

static void send_strangely(const struct srd_header *header)
{
    memset(srd_header_put(header, out), 'x', header->len);
    assert_int_equal(fi_send(stranger.ep, out, srd_header_size(header) + header->len,
                             fi_mr_desc(stranger_mr), stranger.peer, NULL),
                     0);
    for (int i = 0; i < 50; i++) {
        fi_cq_read(stranger.cq, NULL, 0);
        drive();
    }
}

/* The stranger introduces itself, and answers. */
static void answer_strangely(struct srd_header header)
{
    uint8_t addr[SRD_ADDR_SIZE];
    struct srd_header intro = {
        .type = SRD_EAGER_RTW, .flags = SRD_RAW_ADDR, .raw_addr = addr, .raw_len = sizeof(addr)};

    put_address(&stranger, addr);
    send_strangely(&intro);
    header.flags |= SRD_CONNID;
    header.connid = connid;
    send_strangely(&header);
}

/* ---- Questions ---- */

enum question {
    DELIVERED_SEND, /* waits for a RECEIPT */
    LONG_SEND,      /* for a CTS */
    LENT_SEND,      /* for an EOR or a READ_NACK */
    DELIVERED_WRITE,
    DELIVERED_ATOMIC,
    READ,
    FETCH,
    BEING_READ, /* the peer's access, for its CTS */
    WRITTEN,    /* the peer's, for its data */
    RECEIVED,   /* a message of the peer's, for its data */
    QUESTIONS,
};

static const char *const names[QUESTIONS] = {
    [DELIVERED_SEND] = "a send to be delivered",
    [LONG_SEND] = "a long send",
    [LENT_SEND] = "a lent send",
    [DELIVERED_WRITE] = "a write to be delivered",
    [DELIVERED_ATOMIC] = "an atomic to be delivered",
    [READ] = "a read",
    [FETCH] = "an atomic that fetches",
    [BEING_READ] = "memory that is read",
    [WRITTEN] = "memory that is written",
    [RECEIVED] = "a receive",
};

static void ask_send(enum question question)
{
    struct iovec iov = {large, question == DELIVERED_SEND ? 8 : LARGE};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = a.peer, .tag = 4};

    introduce_with(FEATURES | (question == LENT_SEND ? SRD_CAN_READ : 0));
    assert_int_equal(
        fi_tsendmsg(a.ep, &msg,
                    FI_COMPLETION | (question == DELIVERED_SEND ? FI_DELIVERY_COMPLETE : 0)),
        0);
}

/* The peer asks for memory, or for what is in it. */
static void ask_access(enum question question)
{
    struct srd_header header = {.type = SRD_LONGCTS_RTR,
                                .total = 1000,
                                .window = 10,
                                .send_id = 5,
                                .recv_id = 5,
                                .place_count = 1};
    bool writes = question == WRITTEN;

    if (writes)
        header.type = SRD_DC_LONGCTS_RTW;
    header.places[0] = (struct fi_rma_iov){0, 1000, fi_mr_key(region)};
    if (a.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        header.places[0].addr = (uintptr_t)memory;
    introduce_with(FEATURES);
    send_packet(header, "hello", writes ? 5 : 0);
}

/* The number under which the question waits for its answer. */
static uint32_t ask(enum question question)
{
    static uint64_t one = 1, result;
    struct srd_header got;

    switch (question) {
    case DELIVERED_SEND:
    case LONG_SEND:
    case LENT_SEND:
        ask_send(question);
        got = expect(0);
        return got.send_id;
    case DELIVERED_WRITE:
        introduce_with(FEATURES | SRD_CAN_ERROR);
        assert_int_equal(fi_write(a.ep, large, 8, NULL, a.peer, 0, 9, NULL), 0);
        return expect(SRD_DC_EAGER_RTW).send_id;
    case DELIVERED_ATOMIC:
        introduce_with(FEATURES | SRD_CAN_ERROR);
        assert_int_equal(fi_atomic(a.ep, &one, 1, NULL, a.peer, 0, 9, FI_UINT64, FI_SUM, NULL), 0);
        return expect(SRD_DC_WRITE_RTA).send_id;
    case READ:
        introduce_with(FEATURES);
        assert_int_equal(fi_read(a.ep, in, 1, NULL, a.peer, 0, 9, NULL), 0);
        return expect(SRD_SHORT_RTR).recv_id;
    case FETCH:
        introduce_with(FEATURES);
        assert_int_equal(fi_fetch_atomic(a.ep, &one, 1, NULL, &result, NULL, a.peer, 0, 9,
                                         FI_UINT64, FI_SUM, NULL),
                         0);
        return expect(SRD_FETCH_RTA).recv_id;
    case BEING_READ: ask_access(question); return expect(SRD_READRSP).send_id;
    case WRITTEN: ask_access(question); return expect(SRD_CTS).recv_id;
    default:
        introduce_with(FEATURES);
        receive(4);
        send_packet(
            (struct srd_header){.type = SRD_LONGCTS_TAG, .total = 9, .tag = 4, .send_id = 1},
            "hello", 5);
        return expect(SRD_CTS).recv_id;
    }
}

/* ---- Answers ---- */

static const struct srd_header answers[] = {
    {.type = SRD_RECEIPT},
    {.type = SRD_CTS, .window = 1},
    {.type = SRD_CTS, .window = 1, .flags = SRD_CTS_READ},
    {.type = SRD_EOR},
    {.type = SRD_READ_NACK},
    {.type = SRD_READRSP, .len = 1},
    {.type = SRD_ATOMRSP, .len = 8},
    {.type = SRD_ATOMRSP},
    {.type = SRD_CTSDATA, .len = 1},
    {.type = SRD_PEER_ERROR, .ref_kind = SRD_REF_OP, .error = 4127},
};

enum {
    ANSWERS = sizeof(answers) / sizeof(answers[0])
};

static struct srd_header answer_to(size_t answer, uint32_t id)
{
    struct srd_header header = answers[answer];

    header.send_id = header.recv_id = id;
    return header;
}

/* Is it an answer to that question? */
static bool answers_it(const struct srd_header *answer, enum question question)
{
    bool reads = answer->flags & SRD_CTS_READ;

    switch (question) {
    case DELIVERED_SEND:
    case DELIVERED_WRITE:
    case DELIVERED_ATOMIC: return answer->type == SRD_RECEIPT || answer->type == SRD_PEER_ERROR;
    case LONG_SEND: return (answer->type == SRD_CTS && !reads) || answer->type == SRD_PEER_ERROR;
    case LENT_SEND:
        return answer->type == SRD_EOR || answer->type == SRD_READ_NACK ||
               answer->type == SRD_PEER_ERROR;
    case READ:
        return answer->type == SRD_READRSP || answer->type == SRD_CTSDATA ||
               answer->type == SRD_PEER_ERROR;
    case FETCH:
        return (answer->type == SRD_ATOMRSP && answer->len == sizeof(uint64_t)) ||
               answer->type == SRD_PEER_ERROR;
    case BEING_READ: return answer->type == SRD_CTS && reads;
    default: return answer->type == SRD_CTSDATA;
    }
}

static bool completes(void)
{
    for (int i = 0; i < 50; i++)
        drive();
    return fi_cq_read(a.cq, NULL, 0) != -FI_EAGAIN;
}

/* Of the peer's operation: memory has changed. */
static bool is_written(void)
{
    return memcmp(memory, "hello\0\0\0", 8) || memcmp(in, "hello\0\0\0", 8);
}

static void begin(void)
{
    memset(memory, 0, sizeof(memory));
    memcpy(memory, "hello", 5);
    memset(in, 0, 16);
    memcpy(in, "hello", 5);
}

/* Nothing ends, moves or is answered by them, and then the peer's own answer counts. */
static void a_stranger_answers_nothing(void **state)
{
    for (enum question question = 0; question < QUESTIONS; question++) {
        uint32_t id;

        open_stranger(state);
        begin();
        id = ask(question);
        for (size_t i = 0; i < ANSWERS; i++) {
            answer_strangely(answer_to(i, id));
            if (completes() || !silent() || is_written())
                fail_msg("%s: a stranger's packet %d", names[question], answers[i].type);
        }
        for (size_t i = 0; i < ANSWERS; i++) {
            struct srd_header answer = answer_to(i, id);

            if (!answers_it(&answer, question))
                continue;
            send_packet(answer, zeros, answer.len);
            if (!completes() && silent() && !is_written())
                fail_msg("%s: the peer's packet %d does nothing", names[question], answers[i].type);
            break;
        }
        close_stranger(state);
    }
}

/* An answer of another kind ends nothing well, and touches no memory. It may end the peer. */
static void an_answer_is_for_its_kind(void **state)
{
    for (enum question question = 0; question < QUESTIONS; question++) {
        for (size_t i = 0; i < ANSWERS; i++) {
            struct srd_header answer;
            uint32_t id;

            if (answers_it(&answers[i], question))
                continue;
            open_all(state);
            begin();
            id = ask(question);
            answer = answer_to(i, id);
            send_packet(answer, zeros, answer.len);
            if ((completes() && ended() != FI_EPROTO) || is_written())
                fail_msg("%s: ended by a packet %d", names[question], answers[i].type);
            close_all(state);
        }
    }
}

/* The number of an operation that is over names no other one, which has its record. */
static void an_answer_twice_is_for_nobody(void **state)
{
    uint32_t first = ask(DELIVERED_SEND), second;

    send_packet((struct srd_header){.type = SRD_RECEIPT, .send_id = first}, "", 0);
    assert_int_equal(ended(), 0);
    second = ask(DELIVERED_SEND);
    assert_int_not_equal(first, second);
    send_packet((struct srd_header){.type = SRD_RECEIPT, .send_id = first}, "", 0);
    assert_false(completes());
    send_packet((struct srd_header){.type = SRD_RECEIPT, .send_id = second}, "", 0);
    assert_int_equal(ended(), 0);
}

/* Nothing is taken of a peer that has not introduced itself; the log has it. */
static void what_nobody_sends_is_told(void **state)
{
    struct srd_header header = {.type = SRD_EAGER_TAG, .flags = SRD_CONNID, .tag = 99};

    assert_int_equal(warnings_import(), 0);
    warnings_forget();
    receive(99);
    send_strangely(&header);
    assert_true(completes() == false && silent());
    assert_non_null(strstr(warnings, "a packet of no peer"));
    send_message(99, "mine");
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "mine", 4);
}

/* Memory that the peer reads is not its sender's again before the peer says so. */
static void a_receipt_ends_nothing_that_is_read(void **state)
{
    struct srd_header got, answer = {.type = SRD_RECEIPT};
    size_t came;

    open_stack("srd(medium=10k,read_size=11k,runt_size=64k);loop(shape=srd,seed=5)");
    introduce_with(FEATURES | SRD_CAN_READ | SRD_CAN_RUNT);
    assert_int_equal(fi_tsend(a.ep, large, 20000, NULL, a.peer, 3, NULL), 0);
    for (came = 0; came < 20000; came += got.len)
        got = expect(SRD_RUNTREAD_TAG);
    assert_int_equal(got.runt, 20000);
    answer.send_id = got.send_id;
    send_packet(answer, "", 0);
    assert_false(completes());
    answer.type = SRD_EOR;
    send_packet(answer, "", 0);
    assert_int_equal(ended(), 0);
    close_all(state);
}

/* Messages until the peer has no receive. */
static void use_up_receives(void)
{
    while (receives_left()) {
        assert_int_equal(fi_tsend(a.ep, large, 8, NULL, a.peer, 1, NULL), 0);
        assert_int_equal(ended(), 0);
        expect(SRD_EAGER_TAG);
    }
}

/* The first answer counts: behind an error, while packets are under way, one makes no success. */
static void a_receipt_behind_an_error_is_late(void **state)
{
    struct iovec iov = {large, 20000};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = a.peer, .tag = 4};
    struct srd_header answer = {.type = SRD_PEER_ERROR, .ref_kind = SRD_REF_OP, .error = 4111};

    introduce_with(FEATURES);
    use_up_receives();
    assert_int_equal(fi_tsendmsg(a.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    assert_true(silent());
    post_receives(1);
    answer.send_id = expect(SRD_DC_MEDIUM_TAG).send_id;
    send_packet(answer, "", 0);
    answer.type = SRD_RECEIPT;
    send_packet(answer, "", 0);
    assert_false(completes());
    post_receives(4);
    assert_int_equal(ended(), FI_EACCES);
}

/* ---- Sizes of answers ---- */

static void breaks(enum question question, struct srd_header answer)
{
    answer.send_id = answer.recv_id = ask(question);
    send_packet(answer, zeros, answer.len);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

static void a_result_of_another_size_kills(void **state)
{
    breaks(FETCH, (struct srd_header){.type = SRD_ATOMRSP, .len = 16});
}

static void a_result_that_is_short_kills(void **state)
{
    breaks(FETCH, (struct srd_header){.type = SRD_ATOMRSP, .len = 4});
}

static void more_than_was_read_kills(void **state)
{
    breaks(READ, (struct srd_header){.type = SRD_READRSP, .len = 2});
}

static void bytes_behind_what_was_read_kill(void **state)
{
    breaks(READ, (struct srd_header){.type = SRD_CTSDATA, .offset = 1, .len = 1});
}

static void an_answer_without_bytes_kills(void **state)
{
    breaks(READ, (struct srd_header){.type = SRD_READRSP});
}

/* The windows of several CTSs count together. */
static void windows_that_add_up_to_too_much_kill(void **state)
{
    struct srd_header cts = {.type = SRD_CTS, .window = 50000};

    assert_int_equal(fi_tsend(a.ep, large, 100000, NULL, a.peer, 3, NULL), 0);
    cts.send_id = expect(SRD_LONGCTS_TAG).send_id;
    shake_hands();
    send_packet(cts, "", 0);
    send_packet(cts, "", 0);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

/* The bytes that a reader has asked for come, and none beyond its length. */
static void more_than_is_read_kills(void **state)
{
    struct srd_header cts = {.type = SRD_CTS, .flags = SRD_CTS_READ, .window = 990};
    struct srd_header got;

    cts.send_id = ask(BEING_READ);
    cts.window = 980;
    send_packet(cts, "", 0);
    got = expect(SRD_CTSDATA);
    assert_int_equal(got.offset, 10);
    assert_int_equal(got.len, 980);
    cts.window = 11;
    send_packet(cts, "", 0);
    assert_true(silent());
    assert_dead();
}

/* Bytes within a message that the window does not reach yet. */
static void bytes_beyond_the_window_kill(void **state)
{
    struct srd_header header = {.type = SRD_LONGCTS_TAG, .total = LARGE, .tag = 4, .send_id = 1},
                      got;
    size_t came;

    receive(4);
    send_packet(header, "hello", 5);
    got = expect(SRD_CTS);
    assert_true(got.window < LARGE - 5);
    header = (struct srd_header){.type = SRD_CTSDATA, .recv_id = got.recv_id};
    for (came = 0; came + 4096 <= got.window; came += 4096)
        send_packet(header, zeros, 4096);
    for (int i = 0; i < 50; i++)
        drive();
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    send_packet(header, zeros, 4096);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

/* Its variable has two names: page and program of libfabric differ. */
static void windows_are_as_asked(void **state)
{
    static const char *const variables[] = {"FI_EFA_TX_MIN_CREDITS", "FI_EFA_RX_WINDOW_SIZE"};
    struct srd_header header = {.type = SRD_LONGCTS_TAG, .total = LARGE, .tag = 4, .send_id = 1};

    for (int i = 0; i < 2; i++) {
        setenv(variables[i], "3", 1);
        open_all(state);
        unsetenv(variables[i]);
        receive(4);
        send_packet(header, "hello", 5);
        assert_int_equal(expect(SRD_CTS).window, 3 * (PACKET - SRD_DATA_HEAD));
        close_all(state);
    }
}

/* ---- Errors ---- */

static struct fi_cq_err_entry error_of(struct srd_header answer)
{
    struct fi_cq_err_entry error = {0};

    send_packet(answer, zeros, answer.len);
    for (int i = 0; i < 50; i++)
        drive();
    assert_int_equal(fi_cq_readerr(a.cq, &error, 0), 1);
    return error;
}

/* Every number of libfabric's efa has a text, and what a peer says of an error is told. */
static void errors_have_their_number_and_text(void **state)
{
    struct srd_header answer = answers[ANSWERS - 1];
    char text[128];

    for (int code = 4096; code <= 4127; code++) {
        fi_cq_strerror(a.cq, code, NULL, text, sizeof(text));
        if (!strncmp(text, "Unknown", 7))
            fail_msg("%d has no text", code);
    }
    answer.send_id = ask(DELIVERED_WRITE);
    answer.error = 4111;
    assert_int_equal(error_of(answer).prov_errno, 4111);
}

/* One of ours that breaks the protocol, and one of no memory, are none of a device. */
static void errors_of_the_wire_have_one_too(void **state)
{
    struct srd_header answer = {.type = SRD_ATOMRSP, .len = 16};
    struct fi_cq_err_entry error;

    answer.recv_id = ask(FETCH);
    error = error_of(answer);
    assert_int_equal(error.err, FI_EPROTO);
    assert_int_equal(error.prov_errno, FI_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stranger_answers_nothing),
        cmocka_unit_test(an_answer_is_for_its_kind),
        cmocka_unit_test_setup_teardown(what_nobody_sends_is_told, open_stranger, close_stranger),
        cmocka_unit_test(a_receipt_ends_nothing_that_is_read),
        CASE(a_receipt_behind_an_error_is_late),
        CASE(an_answer_twice_is_for_nobody),
        CASE(a_result_of_another_size_kills),
        CASE(a_result_that_is_short_kills),
        CASE(more_than_was_read_kills),
        CASE(bytes_behind_what_was_read_kill),
        CASE(an_answer_without_bytes_kills),
        CASE(windows_that_add_up_to_too_much_kill),
        CASE(more_than_is_read_kills),
        CASE(bytes_beyond_the_window_kill),
        cmocka_unit_test(windows_are_as_asked),
        CASE(errors_have_their_number_and_text),
        CASE(errors_of_the_wire_have_one_too),
    };

    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)(i * 7 + i / 251);
    return cmocka_run_group_tests_name("srd: answers", tests, NULL, NULL);
}
