/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../join_memory.h"
#include "../../pair.h"

static uint32_t host;

/* As layers/mrail/mrail_addr.h has it. */
static void make(unsigned char *raw, size_t len, uint32_t number)
{
    size_t sum = len;

    join_host_put(raw, len, &host, number);
    for (size_t i = 0; i < len; i++)
        sum += i == 1 ? 0 : raw[i] * (i + 1);
    raw[1] = (unsigned char)(sum ^ sum >> 8);
}

static void an_inserted_peer_is_small(void **state)
{
    static const char *const specs[] = {"mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]",
                                        "mrail;[rxm;tcp(iface=lo)+rxd;udp(iface=lo)]"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        host = htonl(INADDR_LOOPBACK);
        join_is_small(specs[i], make);
    }
}

enum {
    PEERS = 48,
    SESSION = 312 * sizeof(void *), /* bytes of what is under way with a peer, at least */
};

static void drive(struct pair *pair, unsigned *left)
{
    struct fi_cq_tagged_entry entries[16];
    ssize_t n = fi_cq_read(pair->cq, entries, 16);

    assert_true(n > 0 || n == -FI_EAGAIN);
    if (n > 0)
        *left -= (unsigned)n;
}

/* rxd asks for the life at an address that was removed before it sends to it. */
static void send_tagged(struct pair *pair, const uint64_t *from, fi_addr_t to, uint64_t tag,
                        unsigned *left)
{
    ssize_t rc;

    while ((rc = fi_tsend(pair->ep[0], from, 8, NULL, to, tag, (void *)(uintptr_t)from)) ==
           -FI_EAGAIN)
        drive(pair, left);
    assert_int_equal(rc, 0);
}

/* From the first endpoint to each of the others. */
static void a_message_to_each(struct pair *pair, struct fid_ep **ep, const fi_addr_t *to)
{
    static uint64_t from = 7, got[PEERS];
    unsigned left = 2 * PEERS;

    for (unsigned i = 0; i < PEERS; i++) {
        assert_int_equal(fi_trecv(ep[i], &got[i], 8, NULL, FI_ADDR_UNSPEC, i, 0, &got[i]), 0);
        send_tagged(pair, &from, to[i], i, &left);
    }
    while (left)
        drive(pair, &left);
    for (unsigned i = 0; i < PEERS; i++)
        assert_int_equal(got[i], from);
    memset(got, 0, sizeof(got));
}

/* Of two peers that rest: each gets the place that the other had in the address vector. */
static void swap_places(struct pair *pair, struct fid_ep **ep, fi_addr_t *to)
{
    fi_addr_t was[] = {to[0], to[1]};

    assert_int_equal(fi_av_remove(pair->av, was, 2, 0), 0);
    for (unsigned i = 2; i--;) {
        unsigned char name[256];
        size_t len = sizeof(name);

        assert_int_equal(fi_getname(&ep[i]->fid, name, &len), 0);
        assert_int_equal(fi_av_insert(pair->av, name, 1, &to[i], 0, NULL), 1);
    }
    assert_int_equal(to[0], was[1]);
    assert_int_equal(to[1], was[0]);
}

/* A second after its last packet. Both ends of each are in this process. */
static void a_peer_that_rests_is_small(void **state)
{
    struct pair pair;
    struct fid_ep *ep[PEERS];
    fi_addr_t to[PEERS];
    size_t used, rests;
    unsigned none = 0;

    pair_open(&pair, "mrail(same=yes);[loop+loop]");
    for (unsigned i = 0; i < PEERS; i++) {
        unsigned char name[256];
        size_t len = sizeof(name);

        assert_int_equal(fi_endpoint(pair.domain, pair.info, &ep[i], NULL), 0);
        assert_int_equal(fi_ep_bind(ep[i], &pair.cq->fid, FI_TRANSMIT | FI_RECV), 0);
        assert_int_equal(fi_ep_bind(ep[i], &pair.av->fid, 0), 0);
        assert_int_equal(fi_enable(ep[i]), 0);
        assert_int_equal(fi_getname(&ep[i]->fid, name, &len), 0);
        assert_int_equal(fi_av_insert(pair.av, name, 1, &to[i], 0, NULL), 1);
    }
    a_message_to_each(&pair, ep, to);
    used = heap_in_use();
    for (unsigned i = 0; i < 1500; i++, usleep(1000))
        drive(&pair, &none);
    rests = heap_in_use();
    print_message("a peer that rests gives %zu bytes back\n", (used - rests) / 2 / PEERS);
    if (used)
        assert_true(used - rests >= (size_t)2 * PEERS * SESSION);
    a_message_to_each(&pair, ep, to);
    for (unsigned i = 0; i < 1500; i++, usleep(1000))
        drive(&pair, &none);
    swap_places(&pair, ep, to);
    a_message_to_each(&pair, ep, to);
    for (unsigned i = 0; i < PEERS; i++)
        assert_int_equal(fi_close(&ep[i]->fid), 0);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_inserted_peer_is_small),
        cmocka_unit_test(a_peer_that_rests_is_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
