/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is not there when the kernel reads it: a message that was never begun fails alone,
 * one that the peer has a part of ends the connection, for both sides. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pair.h"

enum {
    LEN = 100000,
    BIG = 8 << 20,
    HOLE = 6 << 20, /* of BIG is not there from here on: more than sockets hold */
    HUGE = 64 << 20,
    SMALL = 2000,
    BURST = 12
};

static uint8_t out[BURST * SMALL], in[BURST * SMALL];
static uint8_t *big; /* BIG bytes, of which a test may forbid some */

static int make_big(void **state)
{
    big = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return big == MAP_FAILED;
}

static int free_big(void **state)
{
    return munmap(big, BIG);
}

static void forbid(size_t from)
{
    assert_int_equal(mprotect(big + from, BIG - from, PROT_NONE), 0);
}

static void exchange(struct pair *pair)
{
    struct fi_cq_tagged_entry done;

    assert_int_equal(fi_recv(pair->b.ep, in, SMALL, NULL, 0, in), 0);
    assert_int_equal(fi_send(pair->a.ep, out, SMALL, NULL, 0, out), 0);
    assert_int_equal(fi_recv(pair->a.ep, in + SMALL, SMALL, NULL, 0, in), 0);
    assert_int_equal(fi_send(pair->b.ep, out, SMALL, NULL, 0, out), 0);
    expect_completion(pair, pair->a.tx, &done);
    expect_completion(pair, pair->b.rx, &done);
    expect_completion(pair, pair->b.tx, &done);
    expect_completion(pair, pair->a.rx, &done);
    assert_memory_equal(in, out, SMALL);
}

static void expect_fault(struct pair *pair, const void *context)
{
    struct fi_cq_err_entry error;

    assert_int_equal(expect_failure(pair, pair->a.tx, &error), FI_EFAULT);
    assert_ptr_equal(error.op_context, context);
}

static const char *const specs[] = {"tcp", "tcp(zero_copy_size=16k)"};

static void a_send_from_nowhere_fails_alone(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct pair pair;

        pair_open(&pair, &(struct options){.spec = specs[i]});
        fill(out, sizeof(out), 1);
        forbid(0);
        exchange(&pair);
        assert_int_equal(fi_send(pair.a.ep, big, LEN, NULL, 0, big), 0);
        expect_fault(&pair, big);
        exchange(&pair);
        settle(&pair);
        expect_nothing(pair.a.tx);
        expect_no_event(&pair);
        pair_close(&pair);
    }
}

/* Messages before it and behind it leave as if it were not there. */
static void one_of_a_burst_fails_alone(void **state)
{
    for (int bad = 0; bad < BURST; bad++) {
        struct pair pair;
        struct fi_cq_tagged_entry done;

        pair_open(&pair, &(struct options){.spec = specs[bad % 2]});
        fill(out, sizeof(out), (unsigned)bad);
        memset(in, 0, sizeof(in));
        forbid(0);
        for (int i = 0; i < BURST; i++) {
            const struct iovec iov = {i == bad ? big : out + i * SMALL, i == bad ? LEN : SMALL};
            const struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = iov.iov_base};

            if (i != bad)
                assert_int_equal(fi_recv(pair.b.ep, in + i * SMALL, SMALL, NULL, 0, NULL), 0);
            assert_int_equal(fi_sendmsg(pair.a.ep, &msg, i + 1 < BURST ? FI_MORE : 0), 0);
        }
        for (int i = 0; i < BURST; i++) {
            if (i == bad) {
                expect_fault(&pair, big);
                continue;
            }
            expect_completion(&pair, pair.a.tx, &done);
            assert_ptr_equal(done.op_context, out + i * SMALL);
            expect_completion(&pair, pair.b.rx, &done);
            assert_memory_equal(in + i * SMALL, out + i * SMALL, SMALL);
        }
        expect_nothing(pair.a.tx);
        expect_no_event(&pair);
        pair_close(&pair);
    }
}

static uint64_t base(const struct pair *pair)
{
    return pair->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)big : 0;
}

static void a_write_from_nowhere_fails_alone(void **state)
{
    struct pair pair;
    struct fid_mr *mr;
    struct fi_cq_tagged_entry done;
    uint8_t *nowhere = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(nowhere != MAP_FAILED);
    pair_open(&pair, &(struct options){0});
    assert_int_equal(fi_mr_reg(pair.b.domain, big, BIG, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL), 0);
    assert_int_equal(
        fi_write(pair.a.ep, nowhere, LEN, NULL, 0, base(&pair), fi_mr_key(mr), nowhere), 0);
    expect_fault(&pair, nowhere);
    assert_int_equal(fi_write(pair.a.ep, out, SMALL, NULL, 0, base(&pair), fi_mr_key(mr), out), 0);
    expect_completion(&pair, pair.a.tx, &done);
    exchange(&pair);
    assert_memory_equal(big, out, SMALL);
    fi_close(&mr->fid);
    pair_close(&pair);
    munmap(nowhere, LEN);
}

static void expect_end_of_both(struct pair *pair)
{
    struct fi_eq_cm_entry first, second;

    expect_event(pair, FI_SHUTDOWN, &first);
    expect_event(pair, FI_SHUTDOWN, &second);
    assert_ptr_not_equal(first.fid, second.fid);
    expect_no_event(pair);
}

/* The peer has its beginning. */
static void half_a_message_ends_the_connection(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct pair pair;
        struct fi_cq_err_entry error;
        uint8_t *room = malloc(BIG);

        pair_open(&pair, &(struct options){.spec = specs[i]});
        forbid(HOLE);
        assert_int_equal(fi_recv(pair.a.ep, in, SMALL, NULL, 0, in), 0);
        assert_int_equal(fi_recv(pair.b.ep, room, BIG, NULL, 0, room), 0);
        assert_int_equal(fi_recv(pair.b.ep, in, SMALL, NULL, 0, in), 0);
        assert_int_equal(fi_send(pair.a.ep, big, BIG, NULL, 0, big), 0);
        assert_int_equal(fi_send(pair.a.ep, out, SMALL, NULL, 0, out), 0);
        expect_fault(&pair, big);
        expect_failure(&pair, pair.a.tx, &error);
        assert_ptr_equal(error.op_context, out);
        expect_failure(&pair, pair.a.rx, &error);
        expect_failure(&pair, pair.b.rx, &error);
        assert_ptr_equal(error.op_context, room);
        expect_failure(&pair, pair.b.rx, &error);
        assert_ptr_equal(error.op_context, in);
        expect_end_of_both(&pair);
        assert_int_equal(fi_send(pair.a.ep, out, SMALL, NULL, 0, out), -FI_ENOTCONN);
        expect_nothing(pair.a.tx);
        expect_nothing(pair.b.rx);
        pair_close(&pair);
        free(room);
        assert_int_equal(mprotect(big, BIG, PROT_READ | PROT_WRITE), 0);
    }
}

/* The wire has no answer that says so. */
static void a_region_that_is_gone_ends_the_connection(void **state)
{
    struct pair pair;
    struct fid_mr *mr;
    struct fi_cq_err_entry error;
    uint8_t *room = malloc(LEN);

    pair_open(&pair, &(struct options){0});
    assert_int_equal(fi_mr_reg(pair.b.domain, big, BIG, FI_REMOTE_READ, 0, 1, 0, &mr, NULL), 0);
    forbid(0);
    assert_int_equal(fi_read(pair.a.ep, room, LEN, NULL, 0, base(&pair), fi_mr_key(mr), room), 0);
    expect_failure(&pair, pair.a.tx, &error);
    assert_ptr_equal(error.op_context, room);
    expect_end_of_both(&pair);
    expect_nothing(pair.a.tx);
    assert_int_equal(mprotect(big, BIG, PROT_READ | PROT_WRITE), 0);
    fi_close(&mr->fid);
    pair_close(&pair);
    free(room);
}

static bool all_are(const uint8_t *bytes, size_t len, uint8_t value)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

/* Drives both until the first byte has come. */
static void until_it_begins(struct pair *pair, const uint8_t *to)
{
    struct fi_cq_tagged_entry done;

    while (!*(const volatile uint8_t *)to) {
        fi_cq_read(pair->a.tx, &done, 0);
        fi_cq_read(pair->b.rx, &done, 1);
    }
}

/* With io=uring the kernel goes on by itself, and may have been quicker than fi_close. */
static bool ends_in_error(struct pair *pair, const void *context)
{
    struct fi_cq_tagged_entry done;
    struct fi_cq_err_entry error;
    ssize_t rc;

    do {
        rc = fi_cq_read(pair->a.tx, &done, 1);
        fi_cq_read(pair->b.rx, NULL, 0);
    } while (rc == -FI_EAGAIN);
    if (rc == 1) {
        assert_non_null(getenv("FI_TCP_IO"));
        return false;
    }
    expect_failure(pair, pair->a.tx, &error);
    assert_ptr_equal(error.op_context, context);
    return true;
}

static uint8_t *pages(void)
{
    void *at = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(at != MAP_FAILED);
    return at;
}

/* The rest of the transfer neither touches the memory nor shows it. */
static void a_region_that_is_closed_is_left_alone(const char *spec, bool reads)
{
    struct pair pair;
    struct fid_mr *mr;
    uint8_t *region = pages(), *room = pages();
    uint64_t access = reads ? FI_REMOTE_READ : FI_REMOTE_WRITE, addr;

    pair_open(&pair, &(struct options){.spec = spec});
    addr = base(&pair) ? (uintptr_t)region : 0;
    assert_int_equal(fi_mr_reg(pair.b.domain, region, HUGE, access, 0, 1, 0, &mr, NULL), 0);
    memset(reads ? region : room, 1, HUGE);
    if (reads)
        assert_int_equal(fi_read(pair.a.ep, room, HUGE, NULL, 0, addr, fi_mr_key(mr), room), 0);
    else
        assert_int_equal(fi_write(pair.a.ep, room, HUGE, NULL, 0, addr, fi_mr_key(mr), room), 0);
    until_it_begins(&pair, reads ? room : region);
    assert_int_equal(fi_close(&mr->fid), 0);
    memset(region, 7, HUGE);
    if (ends_in_error(&pair, room))
        expect_end_of_both(&pair);
    assert_true(all_are(region, HUGE, 7));
    assert_null(memchr(room, 7, HUGE));
    pair_close(&pair);
    munmap(region, HUGE);
    munmap(room, HUGE);
}

static void regions_that_are_closed_are_left_alone(void **state)
{
    for (int i = 0; i < 2; i++) {
        a_region_that_is_closed_is_left_alone(specs[i], false);
        a_region_that_is_closed_is_left_alone(specs[i], true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_send_from_nowhere_fails_alone, make_big, free_big),
        cmocka_unit_test_setup_teardown(one_of_a_burst_fails_alone, make_big, free_big),
        cmocka_unit_test_setup_teardown(a_write_from_nowhere_fails_alone, make_big, free_big),
        cmocka_unit_test_setup_teardown(half_a_message_ends_the_connection, make_big, free_big),
        cmocka_unit_test_setup_teardown(a_region_that_is_gone_ends_the_connection, make_big,
                                        free_big),
        cmocka_unit_test(regions_that_are_closed_are_left_alone),
    };
    return cmocka_run_group_tests_name("tcp memory", tests, NULL, NULL);
}
