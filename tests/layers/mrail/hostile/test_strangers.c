/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer on a rail that introduces any number of others, which there are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "../../pair.h"
#include "layers/mrail/mrail_wire.h"

enum {
    STRANGERS = 64, /* that are known at a time */
    FORGED = 20 * STRANGERS,
    EACH = 4096,  /* bytes: a session and its place; without a bound there are 18 times as many */
    WINDOW = 256, /* FLOW_WINDOW */
};

static struct mrail_addr addr;
static unsigned char name[MRAIL_ADDR_MAX];
static size_t name_len;

static void read_name(struct fid_ep *ep)
{
    char why[200];

    name_len = sizeof(name);
    assert_int_equal(fi_getname(&ep->fid, name, &name_len), 0);
    assert_int_equal(mrail_addr_decode(name, name_len, &addr, why, sizeof(why)), 0);
}

static void drive(struct pair *pair)
{
    assert_int_equal(fi_cq_read(pair->cq, NULL, 0), -FI_EAGAIN);
}

/* From an endpoint of a rail: of a peer with an address that no endpoint has. */
static void introduce(struct pair *rail, fi_addr_t to, unsigned number, struct pair *driven)
{
    struct mrail_head head = {.type = MRAIL_ACK,
                              .flags = MRAIL_INTRO,
                              .limit = WINDOW,
                              .epoch = 1,
                              .giving = 7,
                              .addr_len = (uint8_t)name_len};
    unsigned char packet[MRAIL_HEAD_MAX], forged[MRAIL_ADDR_MAX];
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)addr.rail[0].addr;
    ssize_t rc;

    in->sin_addr.s_addr = htonl(0x7f010000 + number);
    in->sin_port = htons(1);
    assert_int_equal(mrail_addr_encode(&addr, forged, name_len), 0);
    head.addr = forged;
    mrail_head_put(&head, packet);
    do {
        rc = fi_inject(rail->ep[0], packet, mrail_head_size(&head), to);
        drive(driven);
        drive(rail);
    } while (rc == -FI_EAGAIN);
    assert_int_equal(rc, 0);
}

static fi_addr_t insert(struct pair *pair, const void *raw)
{
    fi_addr_t to;

    assert_int_equal(fi_av_insert(pair->av, raw, 1, &to, 0, NULL), 1);
    return to;
}

/* One that there is, though the receiver's address vector has it not either. */
static void message_of_a_stranger(struct pair *pair, const unsigned char *raw)
{
    struct fi_cq_tagged_entry entry;
    uint64_t from = 3, got = 0;
    struct pair far;
    fi_addr_t to;
    int left = 2;

    pair_open(&far, "mrail;[rxm;tcp(iface=lo)]");
    to = insert(&far, raw);
    assert_int_equal(fi_trecv(pair->ep[0], &got, 8, NULL, FI_ADDR_UNSPEC, 9, 0, &got), 0);
    assert_int_equal(fi_tsend(far.ep[0], &from, 8, NULL, to, 9, &from), 0);
    while (left) {
        left -= fi_cq_read(far.cq, &entry, 1) == 1;
        left -= fi_cq_read(pair->cq, &entry, 1) == 1;
    }
    assert_int_equal(got, from);
    pair_close(&far);
}

static void strangers_that_there_are_not_take_no_more_memory(void **state)
{
    unsigned char own[MRAIL_ADDR_MAX];
    uint64_t from = 5, got = 0;
    struct pair pair, rail;
    size_t before, after;
    fi_addr_t to;

    pair_open(&pair, "mrail(strangers=64);[rxm;tcp(iface=lo)]");
    assert_true(pair_message(&pair, &from, &got, 8, 1, &from, &got));
    read_name(pair.ep[0]);
    memcpy(own, name, name_len);
    pair_open(&rail, "rxm;tcp(iface=lo)");
    to = insert(&rail, addr.rail[0].addr);
    for (unsigned i = 0; i < 2 * STRANGERS; i++)
        introduce(&rail, to, i, &pair);
    before = heap_in_use();
    for (unsigned i = 2 * STRANGERS; i < FORGED; i++)
        introduce(&rail, to, i, &pair);
    after = heap_in_use();
    print_message("%u more strangers: %zd bytes\n", (unsigned)(FORGED - 2 * STRANGERS),
                  (ssize_t)(after - before));
    assert_true(after < before + (size_t)STRANGERS * EACH);
    assert_true(pair_message(&pair, &from, &got, 8, 2, &from, &got));
    message_of_a_stranger(&pair, own);
    pair_close(&rail);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_that_there_are_not_take_no_more_memory),
    };

    return cmocka_run_group_tests_name("strangers", tests, NULL, NULL);
}
