/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of a peer that are not as they must be: rights, operations, pieces, and order. */
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

#include "core/op/remote.h"
#include "tests/layers/srd/live/play.h"

static const uint64_t operands[8] = {1, 1, 1, 1, 1, 1, 1, 1};

static void forget(void)
{
    memset(memory, 7, sizeof(memory));
}

static void assert_untouched(void)
{
    for (size_t i = 0; i < sizeof(memory); i++)
        assert_int_equal(memory[i], 7);
}

static uint64_t base_of(void *bytes)
{
    return a.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)bytes : 0;
}

/* ---- Rights ---- */

/* Each kind of access with its size, and what it has to be allowed to. */
struct access {
    struct srd_header header;
    size_t len;
    uint64_t needs;
};

static const struct access accesses[] = {
    {{.type = SRD_DC_EAGER_RTW}, 8, FI_REMOTE_WRITE},
    {{.type = SRD_DC_LONGCTS_RTW, .total = 64}, 8, FI_REMOTE_WRITE},
    {{.type = SRD_SHORT_RTR, .total = 64, .window = 64}, 0, FI_REMOTE_READ},
    {{.type = SRD_LONGCTS_RTR, .total = 64, .window = 64}, 0, FI_REMOTE_READ},
    {{.type = SRD_LONGREAD_RTW, .total = 64, .read_count = 1}, 0, FI_REMOTE_WRITE},
    {{.type = SRD_DC_WRITE_RTA, .op = FI_SUM}, 8, FI_REMOTE_WRITE},
    {{.type = SRD_FETCH_RTA, .op = FI_ATOMIC_READ}, 8, FI_REMOTE_READ},
    {{.type = SRD_FETCH_RTA, .op = FI_SUM}, 8, FI_REMOTE_READ | FI_REMOTE_WRITE},
    {{.type = SRD_COMPARE_RTA, .op = FI_CSWAP}, 16, FI_REMOTE_READ | FI_REMOTE_WRITE},
};

static void request_access(const struct access *access, struct fid_mr *mr, struct fid_mr *source)
{
    struct srd_header header = access->header;

    header.send_id = header.recv_id = 6;
    header.datatype = FI_UINT64;
    header.msg_id = next_msg++;
    header.place_count = 1;
    header.places[0] =
        (struct fi_rma_iov){base_of(memory), header.total ? header.total : 8, fi_mr_key(mr)};
    header.reads[0] = (struct fi_rma_iov){(uintptr_t)large, header.total, fi_mr_key(source)};
    send_packet(header, operands, access->len);
}

/* A region allows what it was registered for, and no more. */
static void regions_allow_what_they_say(void **state)
{
    static const uint64_t rights[] = {FI_REMOTE_READ, FI_REMOTE_WRITE,
                                      FI_REMOTE_READ | FI_REMOTE_WRITE, FI_READ | FI_WRITE};
    struct fid_mr *source = reg(&raw, large, 64, FI_REMOTE_READ), *mr;

    introduce_with(FEATURES | SRD_CAN_READ | SRD_CAN_ERROR);
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
        assert_int_equal(fi_mr_reg(a.domain, memory, 64, rights[i], 0, 30 + i, 0, &mr, NULL), 0);
        for (size_t j = 0; j < sizeof(accesses) / sizeof(accesses[0]); j++) {
            bool may = (rights[i] & accesses[j].needs) == accesses[j].needs;
            struct srd_header got;

            forget();
            request_access(&accesses[j], mr, source);
            got = expect(0);
            if (may != (got.type != SRD_PEER_ERROR))
                fail_msg("rights %d, a packet %d: answered by %d", (int)i, accesses[j].header.type,
                         got.type);
            if (!may)
                assert_untouched();
            if (got.type == SRD_CTS) {
                struct srd_header rest = {.type = SRD_CTSDATA, .recv_id = got.recv_id, .offset = 8};

                send_packet(rest, large, 56);
                assert_int_equal(expect(0).type, SRD_RECEIPT);
            }
        }
        assert_int_equal(fi_close(&mr->fid), 0);
    }
    assert_int_equal(fi_close(&source->fid), 0);
    assert_alive();
}

/* ---- Atomics ---- */

struct wrong_atomic {
    uint8_t type;
    uint32_t op, datatype;
};

/* Operations that there are, but not so; none indexes beyond a table, and none touches memory. */
static void atomics_have_operations_of_their_kind(void **state)
{
    static const struct wrong_atomic wrong[] = {
        {SRD_DC_WRITE_RTA, FI_ATOMIC_READ, FI_UINT64},
        {SRD_DC_WRITE_RTA, FI_CSWAP, FI_UINT64},
        {SRD_FETCH_RTA, FI_CSWAP, FI_UINT64},
        {SRD_FETCH_RTA, FI_MSWAP, FI_UINT64},
        {SRD_COMPARE_RTA, FI_SUM, FI_UINT64},
        {SRD_COMPARE_RTA, FI_ATOMIC_READ, FI_UINT64},
        {SRD_DC_WRITE_RTA, FI_BOR, FI_DOUBLE},
        {SRD_FETCH_RTA, FI_BXOR, FI_FLOAT},
        {SRD_COMPARE_RTA, FI_MSWAP, FI_DOUBLE},
        {SRD_FETCH_RTA, FI_MIN, FI_FLOAT_COMPLEX},
        {SRD_DC_WRITE_RTA, FI_SUM, 25},
        {SRD_DC_WRITE_RTA, FI_SUM, 255},
        {SRD_FETCH_RTA, 25, FI_UINT64},
        {SRD_COMPARE_RTA, 255, FI_UINT64},
    };

    introduce_with(FEATURES | SRD_CAN_ERROR);
    forget();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct srd_header header = {.type = wrong[i].type,
                                    .op = wrong[i].op,
                                    .datatype = wrong[i].datatype,
                                    .send_id = 50 + (uint32_t)i,
                                    .recv_id = 50 + (uint32_t)i,
                                    .place_count = 1};

        header.places[0] = (struct fi_rma_iov){base_of(memory), 8, fi_mr_key(region)};
        send_packet(header, operands, wrong[i].type == SRD_COMPARE_RTA ? 16 : 8);
        assert_refused(50 + (uint32_t)i);
    }
    assert_untouched();
    assert_alive();
}

static void kill_by_atomic(uint8_t type, size_t place, size_t other, size_t len)
{
    struct srd_header header = {.type = type,
                                .op = type == SRD_COMPARE_RTA ? FI_CSWAP : FI_SUM,
                                .datatype = FI_UINT64,
                                .place_count = other ? 2 : 1};

    forget();
    header.places[0] = (struct fi_rma_iov){base_of(memory), place, fi_mr_key(region)};
    header.places[1] = (struct fi_rma_iov){base_of(memory) + 64, other, fi_mr_key(region)};
    send_packet(header, operands, len);
    assert_dead();
    assert_untouched();
}

static void places_of_parts_of_elements_kill(void **state)
{
    kill_by_atomic(SRD_DC_WRITE_RTA, 12, 0, 12);
}

static void places_that_are_whole_together_only_kill(void **state)
{
    kill_by_atomic(SRD_FETCH_RTA, 12, 4, 16);
}

static void compares_without_comparands_kill(void **state)
{
    kill_by_atomic(SRD_COMPARE_RTA, 8, 8, 16);
}

static void atomics_with_too_few_operands_kill(void **state)
{
    kill_by_atomic(SRD_DC_WRITE_RTA, 8, 8, 8);
}

static struct srd_header large_atomic(uint8_t type, uint32_t op, size_t size, struct fid_mr **mr)
{
    struct srd_header header = {.type = type,
                                .op = op,
                                .datatype = FI_UINT64,
                                .send_id = 4,
                                .recv_id = 4,
                                .place_count = 1};

    assert_int_equal(fi_mr_reg(a.domain, memory, sizeof(memory), FI_REMOTE_READ | FI_REMOTE_WRITE,
                               0, 40, 0, mr, NULL),
                     0);
    header.places[0] = (struct fi_rma_iov){base_of(memory), size, fi_mr_key(*mr)};
    forget();
    introduce_with(FEATURES | SRD_CAN_ERROR);
    expect(SRD_HANDSHAKE);
    return header;
}

/* Larger than there is room for on its way to memory. */
static void operands_of_any_size_kill(void **state)
{
    struct fid_mr *mr;
    struct srd_header header =
        large_atomic(SRD_DC_WRITE_RTA, FI_SUM, REMOTE_OPERAND + sizeof(uint64_t), &mr);

    header.places[0].len = REMOTE_OPERAND;
    send_packet(header, large, REMOTE_OPERAND);
    assert_int_equal(expect(0).type, SRD_RECEIPT);
    forget();
    header.msg_id++;
    header.places[0].len += sizeof(uint64_t);
    send_packet(header, large, header.places[0].len);
    assert_refused(4);
    assert_dead();
    assert_untouched();
    assert_int_equal(fi_close(&mr->fid), 0);
}

/* An atomic read has no operand, so that its result may be larger than its packet. */
static void results_larger_than_a_packet_kill(void **state)
{
    size_t most = (raw.info->ep_attr->max_msg_size - SRD_RESPONSE_HEAD) / 8 * 8;
    struct fid_mr *mr;
    struct srd_header header = large_atomic(SRD_FETCH_RTA, FI_ATOMIC_READ, most, &mr), got;

    assert_true(most + 8 < REMOTE_OPERAND);
    send_packet(header, "", 0);
    got = expect(0);
    assert_int_equal(got.type, SRD_ATOMRSP);
    assert_int_equal(got.len, most);
    assert_memory_equal(got.payload, memory, most);
    header.msg_id++;
    header.places[0].len += 8;
    send_packet(header, "", 0);
    assert_refused(4);
    assert_dead();
    assert_int_equal(fi_close(&mr->fid), 0);
}

/* Elements that no instruction can change at once are changed all the same. */
static void elements_may_lie_anywhere(void **state)
{
    uint64_t before = 0x0707070707070707, after;
    struct srd_header header = {.type = SRD_FETCH_RTA,
                                .op = FI_SUM,
                                .datatype = FI_UINT64,
                                .recv_id = 4,
                                .place_count = 1},
                      got;

    introduce_with(FEATURES);
    forget();
    header.places[0] = (struct fi_rma_iov){base_of(memory) + 3, 8, fi_mr_key(region)};
    send_packet(header, operands, 8);
    got = expect(SRD_ATOMRSP);
    assert_memory_equal(got.payload, &before, 8);
    memcpy(&after, memory + 3, 8);
    assert_true(after == before + 1);
    assert_int_equal(memory[2], 7);
    assert_int_equal(memory[11], 7);
}

static void a_read_without_a_window_kills(void **state)
{
    struct srd_header header = {.type = SRD_LONGCTS_RTR, .total = 64, .place_count = 1};

    header.places[0] = (struct fi_rma_iov){base_of(memory), 64, fi_mr_key(region)};
    send_packet(header, "", 0);
    assert_dead();
}

/* ---- Pieces ---- */

/* A message's second piece is of the same type. */
static void pieces_of_two_types_kill(void **state)
{
    struct srd_header header = {.type = SRD_MEDIUM_TAG, .total = 10, .tag = 4};

    receive(4);
    send_packet(header, "hello", 5);
    header.type = SRD_DC_MEDIUM_TAG;
    header.offset = 5;
    send_packet(header, "hello", 5);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

/* So does one that waits for its receive: that ends, and has no byte of what was too much. */
static void more_pieces_than_an_unexpected_message_has_kill(void **state)
{
    struct srd_header header = {.type = SRD_MEDIUM_TAG, .total = 7, .tag = 4};

    send_packet(header, "hello", 5);
    header.offset = 2;
    send_packet(header, "hello", 5);
    assert_dead();
    memset(in, 7, 16);
    receive(4);
    assert_int_equal(ended(), FI_ECONNRESET);
    for (size_t i = 5; i < 16; i++)
        assert_int_equal(in[i], 7);
}

/* A receive that is shorter than its message takes what it has room for, whatever pieces say. */
static void pieces_beyond_a_receive_are_cut(void **state)
{
    struct srd_header header = {.type = SRD_MEDIUM_TAG, .total = 10, .offset = 5, .tag = 4};

    memset(in, 7, 16);
    assert_int_equal(fi_trecv(a.ep, in, 6, NULL, FI_ADDR_UNSPEC, 4, 0, in), 0);
    send_packet(header, "WORLD", 5);
    header.offset = 0;
    send_packet(header, "hello", 5);
    assert_int_equal(ended(), FI_ETRUNC);
    assert_memory_equal(in, "helloW\7\7", 8);
}

/* ---- Messages anew ---- */

static const struct srd_header lent = {.type = SRD_LONGREAD_TAG,
                                       .total = 5,
                                       .tag = 8,
                                       .send_id = 42,
                                       .read_count = 1,
                                       .reads = {{0x1000, 5, 9}}};
static const struct srd_header anew = {
    .type = SRD_LONGCTS_TAG, .flags = SRD_AFTER_NACK, .total = 5, .tag = 8, .send_id = 43};

/* Before it was asked for: nothing has met it yet. */
static void a_message_anew_that_waits_kills(void **state)
{
    send_packet(lent, "", 0);
    assert_true(silent());
    send_packet(anew, "", 0);
    assert_dead();
}

static void refuse_anew(struct srd_header header, size_t len)
{
    receive(8);
    send_packet(lent, "", 0);
    assert_int_equal(expect(0).type, SRD_READ_NACK);
    send_packet(header, "hello", len);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

static void a_message_anew_has_no_bytes(void **state)
{
    refuse_anew(anew, 5);
}

static void a_message_anew_has_its_size(void **state)
{
    struct srd_header header = anew;

    header.total = 6;
    refuse_anew(header, 0);
}

static void a_message_anew_is_asked_for(void **state)
{
    struct srd_header header = lent;

    header.flags = SRD_AFTER_NACK;
    refuse_anew(header, 0);
}

static void a_message_is_anew_once(void **state)
{
    receive(8);
    send_packet(lent, "", 0);
    assert_int_equal(expect(0).type, SRD_READ_NACK);
    send_packet(anew, "", 0);
    assert_int_equal(expect(0).type, SRD_CTS);
    send_packet(anew, "", 0);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

/* ---- Order ---- */

/* A peer that never sends the first of its messages fills no memory. */
static void early_messages_without_end_kill(void **state)
{
    enum {
        EACH = 8000,
        MOST = 4 << 20 /* bytes */
    };
    struct srd_header header = {.type = SRD_EAGER_TAG, .tag = 4};
    size_t sent = 0;

    introduce_with(FEATURES);
    while (sent < MOST && fi_tsend(a.ep, large, 8, NULL, a.peer, 1, NULL) != -FI_ECONNABORTED) {
        header.msg_id++;
        send_packet(header, large, EACH);
        sent += EACH;
    }
    assert_true(sent > EACH && sent < MOST);
    assert_dead();
}

/* Numbers far ahead wait like near ones, in the same memory. */
static void a_message_far_ahead_waits(void **state)
{
    receive(5);
    next_msg = UINT32_MAX / 2 - 1;
    send_message(5, "far");
    assert_true(silent());
    next_msg = 0;
    send_message(5, "first");
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, "first", 5);
    receive(5);
    for (int i = 0; i < 50; i++)
        drive();
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    next_msg = 1;
    send_message(5, "second");
    assert_int_equal(ended(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(regions_allow_what_they_say),
        CASE(atomics_have_operations_of_their_kind),
        CASE(places_of_parts_of_elements_kill),
        CASE(places_that_are_whole_together_only_kill),
        CASE(compares_without_comparands_kill),
        CASE(atomics_with_too_few_operands_kill),
        CASE(operands_of_any_size_kill),
        SMALL(results_larger_than_a_packet_kill),
        CASE(elements_may_lie_anywhere),
        CASE(a_read_without_a_window_kills),
        CASE(pieces_of_two_types_kill),
        CASE(more_pieces_than_an_unexpected_message_has_kill),
        CASE(pieces_beyond_a_receive_are_cut),
        CASE(a_message_anew_that_waits_kills),
        CASE(a_message_anew_has_no_bytes),
        CASE(a_message_anew_has_its_size),
        CASE(a_message_anew_is_asked_for),
        CASE(a_message_is_anew_once),
        ORDERED(early_messages_without_end_kill),
        ORDERED(a_message_far_ahead_waits),
    };

    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)(i * 7 + i / 251);
    setenv("FI_SRD_SAVED_SIZE", "1m", 1);
    return cmocka_run_group_tests_name("srd: requests", tests, NULL, NULL);
}
