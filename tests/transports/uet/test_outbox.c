/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that wait: whole, in their order, and in one piece of memory where they are copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transports/uet/nic/outbox.h"

enum {
    HEADER = 56,
    LONG = 1000, /* bytes of a payload that is named */
};

static struct outbox outbox;
static uint8_t payload[LONG];

/* Packet `number`; len: of its payload. */
static struct leaving *add(unsigned number, size_t len)
{
    uint8_t header[HEADER], copied[OUTBOX_COPIED];
    struct iovec iov[2] = {{header, HEADER}, {len == LONG ? payload : copied, len}};

    memset(header, (int)number, sizeof(header));
    memset(copied, (int)(number ^ 0x5a), sizeof(copied));
    return outbox_add(&outbox, iov, 2);
}

static void check(unsigned at, unsigned number, size_t len)
{
    const struct leaving *leaving = &outbox.leaving[outbox.first + at];
    const struct datagram *datagram = &leaving->datagram;
    const uint8_t *bytes = datagram->iov[0].iov_base;

    assert_int_equal(datagram->len, HEADER + len + (leaving->has_trailer ? TRAILER_SIZE : 0));
    for (size_t i = 0; i < datagram->iov[0].iov_len; i++)
        assert_int_equal(bytes[i], (i < HEADER ? number : number ^ 0x5a) & 0xff);
    if (leaving->named)
        assert_ptr_equal(datagram->iov[1].iov_base, payload);
    if (leaving->has_trailer)
        assert_ptr_equal(datagram->iov[datagram->count - 1].iov_base, leaving->trailer);
}

static size_t length_of(unsigned number)
{
    return number % 7 == 3 ? LONG : number * 5 % (OUTBOX_COPIED - HEADER + 1);
}

static void copied_packets_lie_one_behind_the_other(void **state)
{
    memset(&outbox, 0, sizeof(outbox));
    for (unsigned i = 0; i < DATAGRAM_BATCH_MAX; i++)
        assert_false(add(i, 8)->named);
    assert_true(outbox_is_full(&outbox));
    for (unsigned i = 1; i < DATAGRAM_BATCH_MAX; i++)
        assert_ptr_equal(outbox.leaving[i].datagram.iov[0].iov_base,
                         (char *)outbox.leaving[i - 1].datagram.iov[0].iov_base + HEADER + 8);
    outbox_drop(&outbox, DATAGRAM_BATCH_MAX);
    assert_int_equal(outbox_waiting(&outbox), 0);
    assert_ptr_equal(add(0, 8)->datagram.iov[0].iov_base, outbox.bytes);
}

/* The kernel takes a few at a time, and the outbox is filled up behind the others. */
static void packets_stay_whole_when_others_have_left(void **state)
{
    unsigned next = 0, first = 0;

    memset(&outbox, 0, sizeof(outbox));
    for (unsigned round = 0; round < 1000; round++) {
        unsigned gone = round * 11 % DATAGRAM_BATCH_MAX + 1;

        outbox_move_up(&outbox);
        while (!outbox_is_full(&outbox)) {
            struct leaving *leaving = add(next, length_of(next));

            assert_true(outbox.used <= sizeof(outbox.bytes));
            if (next++ % 3 == 0)
                outbox_add_trailer(leaving);
        }
        assert_int_equal(outbox_waiting(&outbox), next - first);
        for (unsigned i = 0; i < outbox_waiting(&outbox); i++)
            check(i, first + i, length_of(first + i));
        gone = gone < outbox_waiting(&outbox) ? gone : outbox_waiting(&outbox);
        outbox_drop(&outbox, gone);
        first += gone;
    }
    outbox_drop(&outbox, outbox_waiting(&outbox));
    assert_int_equal(outbox.named, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copied_packets_lie_one_behind_the_other),
        cmocka_unit_test(packets_stay_whole_when_others_have_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
