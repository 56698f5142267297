/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices that have too little for what is under way, by the public interface; the stack is
 * FI_PROVIDER's.
 *   scarce packets    registrations fail from a certain one on, so each end has the packets that it
 *                     had: messages and accesses in both directions, and their answers, wait
 *   scarce ordered    the same, and messages come in the order in which they were sent
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "tests/support/end.h"
#include "tests/support/patience.h"

#include "ask.h"

enum {
    MESSAGES = 24,
};

static char byte_of(size_t i, size_t seed)
{
    return (char)(i * 7 + i / 251 + seed * 29 + 1);
}

static void fill(char *buf, size_t len, size_t seed)
{
    for (size_t i = 0; i < len; i++)
        buf[i] = byte_of(i, seed);
}

static void expect(const char *buf, size_t len, size_t seed)
{
    for (size_t i = 0; i < len; i++)
        if (buf[i] != byte_of(i, seed))
            fail_msg("byte %zu of %zu is wrong", i, len);
}

/* ---- Packets ---- */

static const size_t sizes[] = {8, 3000, 20000, 300000, 1 << 20};

enum {
    SIZES = sizeof(sizes) / sizeof(*sizes),
    LARGE = 1 << 20,
};

static struct side {
    struct end end;
    size_t posted, sent, ended, came; /* messages: their receives; sent; their ends; the peer's */
    char *out[MESSAGES], *in[MESSAGES];
} sides[2];

/* The next completion of a side, if there is one. */
static ssize_t next(struct side *side, struct fi_cq_tagged_entry *entry)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    ssize_t rc = fi_cq_read(side->end.cq, entry, 1);

    if (rc == -FI_EAVAIL) {
        assert_int_equal(fi_cq_readerr(side->end.cq, &error, 0), 1);
        fail_msg("an operation ends with %s (%d)", fi_strerror(error.err), error.prov_errno);
    }
    return rc;
}

enum {
    PART = 100000, /* bytes of a read or a write */
    PARTS = LARGE / PART,
};

/* Of a side: what its peer reads, what it writes, and a counter; and what it has read and written
 * itself. */
static struct memory {
    char read[LARGE], written[LARGE], got[LARGE], put[LARGE];
    uint64_t counter, before[PARTS];
    struct fid_mr *mr;
} memories[2];

static bool ordered;

/* Of one thread: another one that drives the first end might register packets for it before the
 * second is there, which would have nothing left. */
static struct fi_info *ask_for_one_thread(void)
{
    struct fi_info *info = ask(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC);

    if (ordered)
        info->tx_attr->msg_order = info->rx_attr->msg_order = FI_ORDER_SAS;
    info->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    return info;
}

static int open_sides(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        sides[i] = (struct side){.sent = 0};
        end_open(&sides[i].end, ask_for_one_thread(), FI_CQ_FORMAT_TAGGED);
        for (int j = 0; j < MESSAGES; j++) {
            sides[i].out[j] = malloc(LARGE);
            sides[i].in[j] = malloc(LARGE);
            assert_true(sides[i].out[j] && sides[i].in[j]);
        }
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_mr_reg(sides[i].end.domain, &memories[i], sizeof(memories[i]),
                                   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &memories[i].mr,
                                   NULL),
                         0);
    end_meet(&sides[0].end, &sides[1].end);
    return 0;
}

static int close_sides(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_close(&memories[i].mr->fid), 0);
        end_close(&sides[i].end);
        for (int j = 0; j < MESSAGES; j++) {
            free(sides[i].out[j]);
            free(sides[i].in[j]);
        }
    }
    return 0;
}

static void post_receive(struct side *side)
{
    size_t i = side->posted;

    if (i < MESSAGES &&
        end_took(fi_trecv(side->end.ep, side->in[i], LARGE, NULL, FI_ADDR_UNSPEC, i, 0, NULL)))
        side->posted++;
}

static void post_send(struct side *side, uint64_t flags)
{
    size_t i = side->sent;
    struct iovec iov = {side->out[i % MESSAGES], sizes[i % SIZES]};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = side->end.peer, .tag = i};

    if (i < MESSAGES && end_took(fi_tsendmsg(side->end.ep, &msg, FI_COMPLETION | flags)))
        side->sent++;
}

/* A side posts what it can, and takes what has come. True: it has all. */
static bool turn(struct side *side, uint64_t flags)
{
    struct fi_cq_tagged_entry entry;

    post_receive(side);
    post_send(side, flags);
    while (next(side, &entry) == 1) {
        if (entry.flags & FI_RECV)
            side->came++;
        else
            side->ended++;
    }
    return side->came == MESSAGES && side->ended == MESSAGES;
}

static void exchange(uint64_t flags)
{
    bool all = false;

    for (size_t i = 0; i < 2; i++) {
        struct side *side = &sides[i];

        side->posted = side->sent = side->ended = side->came = 0;
        for (size_t j = 0; j < MESSAGES; j++) {
            fill(side->out[j], sizes[j % SIZES], i * MESSAGES + j);
            memset(side->in[j], 0, sizes[j % SIZES]);
        }
    }
    for (struct patience p = {0}; patience_lasts(&p) && !all;) {
        bool first = turn(&sides[0], flags);

        all = turn(&sides[1], flags) && first;
    }
    assert_true(all);
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < MESSAGES; j++)
            expect(sides[i].in[j], sizes[j % SIZES], (1 - i) * MESSAGES + j);
}

static void messages_wait_for_packets(void **state)
{
    (void)state;
    exchange(0);
    exchange(FI_DELIVERY_COMPLETE);
}

/* ---- Accesses ---- */

static uint64_t place(size_t i, const void *at)
{
    bool virtual = sides[i].end.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;

    return virtual ? (uintptr_t)at : (uint64_t)((const char *)at - memories[i].read);
}

static ssize_t access_part(size_t i, size_t part, int kind)
{
    struct memory *own = &memories[i];
    const struct memory *peer = &memories[1 - i];
    const struct end *end = &sides[i].end;
    uint64_t key = fi_mr_key(peer->mr);
    static const uint64_t one = 1;
    size_t at = part * PART;

    switch (kind) {
    case 0:
        return fi_read(end->ep, own->got + at, PART, NULL, end->peer, place(1 - i, peer->read + at),
                       key, NULL);
    case 1:
        return fi_write(end->ep, own->put + at, PART, NULL, end->peer,
                        place(1 - i, peer->written + at), key, NULL);
    default:
        return fi_fetch_atomic(end->ep, &one, 1, NULL, &own->before[part], NULL, end->peer,
                               place(1 - i, &peer->counter), key, FI_UINT64, FI_SUM, NULL);
    }
}

/* A side begins the next access, if it can. True: all have ended. */
static bool access_turn(size_t i)
{
    struct side *side = &sides[i];
    struct fi_cq_tagged_entry entry;

    if (side->sent < 3 * PARTS && end_took(access_part(i, side->sent / 3, (int)(side->sent % 3))))
        side->sent++;
    while (next(side, &entry) == 1)
        side->ended++;
    return side->ended == 3 * PARTS;
}

static void expect_accesses(size_t i)
{
    uint64_t sum = 0;

    expect(memories[i].got, PARTS * PART, 1 - i);
    expect(memories[i].written, PARTS * PART, 5 - i);
    assert_int_equal(memories[i].counter, PARTS);
    for (size_t j = 0; j < PARTS; j++)
        sum += memories[i].before[j];
    assert_int_equal(sum, PARTS * (PARTS - 1) / 2);
}

static void accesses_wait_for_packets(void **state)
{
    bool all = false;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sides[i].sent = sides[i].ended = 0;
        fill(memories[i].read, LARGE, i);
        fill(memories[i].put, LARGE, 4 + i);
    }
    for (struct patience p = {0}; patience_lasts(&p) && !all;) {
        bool first = access_turn(0);

        all = access_turn(1) && first;
    }
    assert_true(all);
    for (size_t i = 0; i < 2; i++) {
        expect_accesses(i);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest packets[] = {
        cmocka_unit_test(messages_wait_for_packets),
        cmocka_unit_test(accesses_wait_for_packets),
    };

    ordered = argc > 1 && !strcmp(argv[1], "ordered");
    return cmocka_run_group_tests_name("efa: few packets", packets, open_sides, close_sides);
}
