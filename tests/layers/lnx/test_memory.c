/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../join_memory.h"
#include "../pair.h"

static uint32_t host;

/* As layers/lnx/lnx_addr.h has it: of another node, by another token of the first branch. */
static void make(unsigned char *raw, size_t len, uint32_t number)
{
    unsigned sum = (unsigned)len;

    if (raw[5] & 63 && host == htonl(INADDR_LOOPBACK))
        raw[6] ^= 0xff;
    join_host_put(raw, len, &host, number);
    for (size_t i = 0; i < len; i++)
        sum += i == 1 ? 0 : raw[i];
    raw[1] = (unsigned char)sum;
}

static void an_inserted_peer_is_small(void **state)
{
    static const char *const specs[] = {"lnx;[rxm;tcp(iface=lo)]", "lnx;[shm+rxm;tcp(iface=lo)]",
                                        "lnx;[shm+rxd;udp(iface=lo)]"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        host = htonl(INADDR_LOOPBACK);
        join_is_small(specs[i], make);
    }
}

enum {
    PEERS = 64,
    BESIDE = 128, /* bytes of a peer that is used, beside what the branch has */
};

static void open_one(struct pair *pair, struct fid_ep **ep, fi_addr_t *to)
{
    unsigned char name[256];
    size_t len = sizeof(name);

    assert_int_equal(fi_endpoint(pair->domain, pair->info, ep, NULL), 0);
    assert_int_equal(fi_ep_bind(*ep, &pair->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(*ep, &pair->av->fid, 0), 0);
    assert_int_equal(fi_enable(*ep), 0);
    assert_int_equal(fi_getname(&(*ep)->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(pair->av, name, 1, to, 0, NULL), 1);
}

/* There and back. */
static void use(struct pair *pair, struct fid_ep *peer, fi_addr_t to)
{
    struct fid_ep *ends[2] = {pair->ep[0], peer};
    fi_addr_t address[2] = {pair->to[0], to};
    struct fi_cq_tagged_entry entry;
    uint64_t from = 7, got;

    for (int i = 0; i < 2; i++) {
        int left = 2;
        ssize_t rc;

        got = 0;
        assert_int_equal(fi_trecv(ends[!i], &got, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &got), 0);
        while ((rc = fi_tsend(ends[i], &from, 8, NULL, address[!i], 1, &from)) == -FI_EAGAIN)
            fi_cq_read(pair->cq, NULL, 0);
        assert_int_equal(rc, 0);
        while (left) {
            rc = fi_cq_read(pair->cq, &entry, 1);
            assert_true(rc == 1 || rc == -FI_EAGAIN);
            left -= rc == 1;
        }
        assert_int_equal(got, from);
    }
}

/* Of both ends of each pair, when they are used for the first time. */
static size_t bytes_of_use(const char *spec)
{
    static struct fid_ep *ep[PEERS];
    static fi_addr_t to[PEERS];
    struct pair pair;
    size_t before, after;

    pair_open(&pair, spec);
    use(&pair, pair.ep[1], pair.to[1]);
    for (unsigned i = 0; i < PEERS; i++)
        open_one(&pair, &ep[i], &to[i]);
    before = heap_in_use();
    for (unsigned i = 0; i < PEERS; i++)
        use(&pair, ep[i], to[i]);
    after = heap_in_use();
    for (unsigned i = 0; i < PEERS; i++)
        assert_int_equal(fi_close(&ep[i]->fid), 0);
    pair_close(&pair);
    return after > before ? (after - before) / 2 / PEERS : 0;
}

static void a_used_peer_is_its_branchs(void **state)
{
    static const char *const specs[][2] = {{"loop", "lnx;[loop]"},
                                           {"loop", "lnx;[loop+rxm;tcp(iface=lo)]"},
                                           {"shm", "lnx;[shm+rxm;tcp(iface=lo)]"},
                                           {"rxm;tcp(iface=lo)", "lnx;[rxm;tcp(iface=lo)]"},
                                           {"rxm;tcp(iface=lo)", "lnx;[rxm;tcp(iface=lo)+loop]"}};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        size_t branch = bytes_of_use(specs[i][0]), join = bytes_of_use(specs[i][1]);

        print_message("a peer that is used: %s %zu bytes, %s %zu\n", specs[i][0], branch,
                      specs[i][1], join);
        assert_true(join <= branch + BESIDE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_inserted_peer_is_small),
        cmocka_unit_test(a_used_peer_is_its_branchs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
