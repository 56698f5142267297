/* SPDX-License-Identifier: BSD-2-Clause */
/* An endpoint on a rail that speaks in the name of a peer: with a later epoch, with an old one, and
 * goodbyes. Nothing of the peer's ends by it, and the peer is not shut out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../pair.h"
#include "layers/mrail/mrail_wire.h"

enum {
    WINDOW = 256, /* FLOW_WINDOW */
    NUMBERS = 16, /* that are guessed */
};

static const char *const specs[] = {
    "mrail;[rxm;tcp(iface=lo)]",
    "mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]",
    "mrail;[rxm;tcp(iface=lo)+arq;udp(iface=lo)]",
};

static struct pair pair, rail; /* the second one's endpoint lies */
static struct mrail_addr victim;
static unsigned char names[2][MRAIL_ADDR_MAX];
static size_t name_len;
static fi_addr_t to;

/* Entries that have come. An injected message to the liar, which is none, may fail. *failed: of
 * others. */
static unsigned ends_of(struct fid_cq *cq, bool *failed)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    struct fi_cq_tagged_entry entry;
    ssize_t rc = fi_cq_read(cq, &entry, 1);

    if (rc == -FI_EAGAIN)
        return 0;
    if (rc == 1)
        return 1;
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
    *failed = *failed || error.op_context;
    return error.op_context != NULL;
}

static void drive(void)
{
    bool failed = false;

    assert_int_equal(ends_of(pair.cq, &failed), 0);
    assert_int_equal(ends_of(rail.cq, &failed), 0);
}

static void send_head(const struct mrail_head *head)
{
    unsigned char packet[MRAIL_HEAD_MAX];
    ssize_t rc;

    mrail_head_put(head, packet);
    do {
        rc = fi_inject(rail.ep[0], packet, mrail_head_size(head), to);
        drive();
    } while (rc == -FI_EAGAIN);
    assert_int_equal(rc, 0);
    for (int i = 0; i < 200; i++)
        drive();
}

/* In the name of the second endpoint of the pair, to the first. */
static void lie(enum mrail_type type, uint32_t number, uint64_t epoch)
{
    struct mrail_head head = {
        .type = (uint8_t)type,
        .to = number,
        .limit = WINDOW,
        .flags = epoch ? MRAIL_INTRO : 0,
        .epoch = epoch,
        .giving = 7,
        .addr = names[1],
        .addr_len = (uint8_t)name_len,
    };

    send_head(&head);
}

/* Each is true to one of them, and a lie for the other. */
static void lie_at_every_number(void)
{
    for (uint32_t number = 0; number < NUMBERS; number++) {
        lie(MRAIL_ACK, number, UINT64_MAX);
        lie(MRAIL_ACK, number, 1);
        lie(MRAIL_BYE, number, 0);
        lie(MRAIL_BYE, number, UINT64_MAX);
    }
}

static void read_names(void)
{
    char why[200];

    for (int i = 0; i < 2; i++) {
        name_len = sizeof(names[i]);
        assert_int_equal(fi_getname(&pair.ep[i]->fid, names[i], &name_len), 0);
    }
    assert_int_equal(mrail_addr_decode(names[0], name_len, &victim, why, sizeof(why)), 0);
    assert_int_equal(fi_av_insert(rail.av, victim.rail[0].addr, 1, &to, 0, NULL), 1);
}

/* The liar's own address, as if it were a peer: the rail tells it as the source then. */
static void know_the_liar(void)
{
    struct mrail_addr addr = victim;
    unsigned char name[MRAIL_ADDR_MAX], own[64];
    size_t len = sizeof(own);
    fi_addr_t liar;

    assert_int_equal(fi_getname(&rail.ep[0]->fid, own, &len), 0);
    assert_true(len <= sizeof(addr.rail[0].addr));
    addr.count = 1;
    memcpy(addr.rail[0].addr, own, len);
    addr.rail[0].len = len;
    assert_int_equal(mrail_addr_encode(&addr, name, name_len), 0);
    assert_int_equal(fi_av_insert(pair.av, name, 1, &liar, 0, NULL), 1);
    assert_int_equal(fi_inject(pair.ep[0], "", 1, liar), 0);
    for (int i = 0; i < 200; i++)
        drive();
}

/* From one of the two to the other; false: it failed, and its receive is taken back. */
static bool message(unsigned at)
{
    static uint64_t from, got;
    bool failed = false;

    from++;
    assert_int_equal(fi_trecv(pair.ep[!at], &got, 8, NULL, FI_ADDR_UNSPEC, 9, 0, &got), 0);
    PAIR_POST(&pair, fi_tsend(pair.ep[at], &from, 8, NULL, pair.to[!at], 9, &from));
    for (unsigned ends = 0; ends < 2;) {
        bool before = failed;

        ends += ends_of(pair.cq, &failed);
        if (failed && !before)
            fi_cancel(&pair.ep[!at]->fid, &got);
        ends_of(rail.cq, &before);
    }
    return !failed && got == from;
}

static void messages_pass(void)
{
    for (unsigned i = 0; i < 4; i++)
        assert_true(message(i % 2));
}

static void lies_about(const char *spec, bool known, bool early)
{
    print_message("%s, %s%s\n", spec, known ? "a peer" : "a stranger", early ? ", early" : "");
    pair_open(&pair, spec);
    pair_open(&rail, "rxm;tcp(iface=lo)");
    read_names();
    if (!early)
        messages_pass();
    if (known)
        know_the_liar();
    if (early)
        lie(MRAIL_ACK, 0, UINT64_MAX);
    else
        lie_at_every_number();
    if (early) /* what is sent to the wrong state may end with it, once */
        message(0);
    messages_pass();
    lie_at_every_number();
    messages_pass();
    pair_close(&rail);
    pair_close(&pair);
}

static void a_peer_that_is_heard_is_not_spoken_for(void **state)
{
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        lies_about(specs[i], false, false);
        lies_about(specs[i], true, false);
    }
}

/* Before it was heard first: what was said in its name is taken back. */
static void a_peer_is_not_shut_out_by_what_was_said_before(void **state)
{
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        lies_about(specs[i], false, true);
        lies_about(specs[i], true, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_is_heard_is_not_spoken_for),
        cmocka_unit_test(a_peer_is_not_shut_out_by_what_was_said_before),
    };

    return cmocka_run_group_tests_name("forged", tests, NULL, NULL);
}
