/* SPDX-License-Identifier: BSD-2-Clause */
/* Multi-receive buffers: slices in place, end to end, whatever the kernel hands over at once. */
#include "ends.h"

#include <stdlib.h>
#include <string.h>

enum {
    BUFFER = 1 << 18,
    MANY = 300
};

static char out[BUFFER], in[BUFFER], other[BUFFER];

static void run(const char *spec, size_t len, bool more)
{
    struct options options = {.spec = spec, .caps = FI_MULTI_RECV | FI_SOURCE};
    char *next = in;
    fi_addr_t src;

    ends_open(&options);
    receive_multi(&b, in, BUFFER);
    for (unsigned i = 0; i < 40; i++) {
        fill(out + i * len, len, i);
        send_flags(&a, a.peer, out + i * len, len, (more && i < 39 ? FI_MORE : 0) | FI_COMPLETION);
    }
    for (unsigned i = 0; i < 40; i++) {
        struct fi_cq_tagged_entry entry = expect(b.rx, in, &src);

        assert_int_equal(entry.flags, FI_MSG | FI_RECV);
        assert_int_equal(entry.len, len);
        assert_ptr_equal(entry.buf, next);
        assert_int_equal(src, b.peer);
        check_filled(next, len, i);
        next += len;
    }
    for (unsigned i = 0; i < 40; i++)
        expect(a.tx, out + i * len, NULL);
    assert_int_equal(fi_cntr_read(b.received), 40);
    ends_close();
}

static void slices_lie_end_to_end(void **state)
{
    run("udp", 1000, false);
    run("udp", 1000, true);
    run("udp", 1, true);
    run("udp(gro=no)", 1000, true);
    run("udp(gso=no)", 1000, true);
}

/* With all lengths and buffers nothing is lost, doubled, cut or out of order. */
static void any_lengths(const char *spec, unsigned seed)
{
    struct options options = {.spec = spec, .caps = FI_MULTI_RECV, .min_multi_recv = 1};
    static size_t lens[MANY];
    unsigned got = 0, sent = 0;
    size_t room = 0;

    srandom(seed);
    print_message("seed %u\n", seed);
    ends_open(&options);
    while (got < MANY) {
        struct fi_cq_tagged_entry entry;
        bool plain = random() % 3 == 0;

        for (unsigned i = 0; i < 20 && sent < MANY && sent < got + 100; i++, sent++) {
            lens[sent] = (size_t)(random() % 4 ? 700 : random() % 1400);
            fill(out, lens[sent], sent);
            send_flags(&a, a.peer, out, lens[sent], random() % 3 ? FI_INJECT : 0);
        }
        room = random() % 2 ? BUFFER : (size_t)(1400 + random() % 5000);
        if (plain)
            receive(&b, in, room);
        else
            receive_multi(&b, in, room);
        for (bool over = false; !over && got < sent;) {
            ssize_t rc = fi_cq_read(b.rx, &entry, 1);

            assert_true(rc == 1 || rc == -FI_EAGAIN);
            if (rc != 1)
                continue;
            over = plain || entry.flags & FI_MULTI_RECV;
            if (!(entry.flags & FI_RECV))
                continue; /* the buffer is given back */
            assert_int_equal(entry.len, lens[got]);
            check_filled(entry.buf, entry.len, got++);
        }
        if (fi_cancel(&b.ep->fid, in) == 0)
            expect_failure(b.rx, in, FI_ECANCELED);
        while (fi_cq_read(a.tx, &entry, 1) == 1)
            ;
    }
    ends_close();
}

static void lengths_and_buffers_of_all_kinds(void **state)
{
    unsigned seed = getenv("WEFT_SEED") ? (unsigned)atoi(getenv("WEFT_SEED")) : 1;

    any_lengths("udp", seed);
    any_lengths("udp(gro=no)", seed + 1);
    any_lengths("udp(gso=no)", seed + 2);
}

static void a_buffer_is_given_back_with_its_last_message(void **state)
{
    struct fi_cq_tagged_entry entry;

    ends_open(&(struct options){.caps = FI_MULTI_RECV, .min_multi_recv = 100});
    receive_multi(&b, in, 1000);
    receive_multi(&b, other, 1000);
    for (int i = 0; i < 3; i++)
        send_to(&a, a.peer, out, 460);
    assert_int_equal(expect(b.rx, in, NULL).flags, FI_MSG | FI_RECV);
    entry = expect(b.rx, in, NULL);
    assert_int_equal(entry.flags, FI_MSG | FI_RECV | FI_MULTI_RECV);
    assert_int_equal(entry.len, 460);
    assert_ptr_equal(expect(b.rx, other, NULL).buf, other);
    ends_close();
}

static void what_does_not_fit_goes_to_the_next_buffer(void **state)
{
    struct fi_cq_tagged_entry entry;

    ends_open(&(struct options){.caps = FI_MULTI_RECV, .min_multi_recv = 100});
    fill(out, 700, 5);
    receive_multi(&b, in, 1000);
    send_to(&a, a.peer, out, 700);
    send_to(&a, a.peer, out, 700);
    assert_int_equal(expect(b.rx, in, NULL).flags, FI_MSG | FI_RECV);
    entry = expect(b.rx, in, NULL);
    assert_int_equal(entry.flags, FI_MULTI_RECV);
    assert_int_equal(entry.len, 0);
    expect_nothing(b.rx); /* it waits for a receive */
    receive(&b, other, 700);
    assert_int_equal(expect(b.rx, other, NULL).len, 700);
    check_filled(other, 700, 5);
    ends_close();
}

static void what_is_longer_than_the_whole_buffer_is_cut(void **state)
{
    struct fi_cq_err_entry error;

    ends_open(&(struct options){.caps = FI_MULTI_RECV, .min_multi_recv = 100});
    receive_multi(&b, in, 500);
    send_to(&a, a.peer, out, 700);
    error = expect_failure(b.rx, in, FI_ETRUNC);
    assert_int_equal(error.len, 500);
    assert_int_equal(error.olen, 200);
    assert_true(error.flags & FI_MULTI_RECV);
    ends_close();
}

/* The kernel hands over several at once, and there is one plain receive at a time. */
static void pieces_are_cut_for_plain_receives_too(void **state)
{
    ends_open(&(struct options){.caps = FI_MULTI_RECV});
    receive_multi(&b, other, BUFFER); /* from here on the kernel may */
    assert_int_equal(fi_cancel(&b.ep->fid, other), 0);
    expect_failure(b.rx, other, FI_ECANCELED);
    for (unsigned i = 0; i < 30; i++) {
        fill(out + 500 * i, 500, i);
        send_flags(&a, a.peer, out + 500 * i, 500, i < 29 ? FI_MORE : 0);
    }
    for (unsigned i = 0; i < 30; i++) {
        receive(&b, in, 2000);
        assert_int_equal(expect(b.rx, in, NULL).len, 500);
        check_filled(in, 500, i);
    }
    receive(&b, in, 2000);
    expect_nothing(b.rx);
    ends_close();
}

static void a_buffer_has_one_segment(void **state)
{
    struct iovec iov[2] = {{in, 100}, {in + 100, 100}};
    struct fi_msg msg = {.msg_iov = iov, .iov_count = 2, .addr = FI_ADDR_UNSPEC};

    ends_open(&(struct options){.caps = FI_MULTI_RECV});
    assert_int_equal(fi_recvmsg(b.ep, &msg, FI_MULTI_RECV), -FI_EINVAL);
    ends_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_lie_end_to_end),
        cmocka_unit_test(lengths_and_buffers_of_all_kinds),
        cmocka_unit_test(a_buffer_is_given_back_with_its_last_message),
        cmocka_unit_test(what_does_not_fit_goes_to_the_next_buffer),
        cmocka_unit_test(what_is_longer_than_the_whole_buffer_is_cut),
        cmocka_unit_test(pieces_are_cut_for_plain_receives_too),
        cmocka_unit_test(a_buffer_has_one_segment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
