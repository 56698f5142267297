/* SPDX-License-Identifier: BSD-2-Clause */
/* A send from memory that is not there, with rxm on top: it ends in error, what the peer waits for
 * of it does, too, and messages go on, on a new connection if need be. */
#include <sys/mman.h>

#include "layers/rxm/rdm.h"

enum {
    SMALL = 100000,
    BIG = 4 << 20, /* asks first */
    LIMIT_MS = 60000
};

static const char *const specs[] = {"rxm(tags=pass);tcp", "rxm(tags=emulate);tcp"};

static void expect_message(struct rdm *a, struct rdm *b, fi_addr_t to)
{
    struct rdm *const *ends = RDM_ENDS(a, b);
    struct fi_cq_tagged_entry done;
    char text[64];

    assert_int_equal(fi_trecv(b->ep, text, sizeof(text), NULL, FI_ADDR_UNSPEC, 9, 0, text), 0);
    rdm_send(a, to, ends, 9, NULL);
    assert_int_equal(rdm_next(a, ends, &done, NULL, NULL), 0);
    assert_int_equal(rdm_next(b, ends, &done, NULL, NULL), 0);
    assert_ptr_equal(done.op_context, text);
}

static void send_from_nowhere(const char *spec, size_t len, bool matched)
{
    uint8_t *nowhere = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *room = malloc(len);
    struct fi_cq_err_entry error = {0};
    struct rdm_net net;
    struct rdm a, b;
    struct rdm *const *ends = RDM_ENDS(&a, &b);
    long long limit = rdm_now_ms() + LIMIT_MS;
    ssize_t rc;

    assert_true(nowhere != MAP_FAILED);
    rdm_net_open(&net, spec, 0);
    rdm_open(&a, &net, 0);
    rdm_open(&b, &net, 0);
    fi_addr_t to = rdm_insert(&a, &b.name);
    rdm_insert(&b, &a.name);
    expect_message(&a, &b, to);
    assert_int_equal(fi_trecv(b.ep, room, len, NULL, FI_ADDR_UNSPEC, 1, 0, room), 0);
    while ((rc = fi_tsend(a.ep, nowhere, len, NULL, to, 1, nowhere)) == -FI_EAGAIN) {
        assert_true(rdm_now_ms() < limit);
        rdm_progress(ends);
    }
    assert_int_equal(rc, 0);
    assert_int_not_equal(rdm_next(&a, ends, NULL, NULL, &error), 0);
    assert_ptr_equal(error.op_context, nowhere);
    if (matched)
        assert_int_not_equal(rdm_next(&b, ends, NULL, NULL, &error), 0);
    else
        assert_int_equal(fi_cancel(&b.ep->fid, room), 0);
    if (!matched)
        assert_int_equal(rdm_next(&b, ends, NULL, NULL, &error), FI_ECANCELED);
    assert_ptr_equal(error.op_context, room);
    expect_message(&a, &b, to);
    rdm_close(&a);
    rdm_close(&b);
    rdm_net_close(&net);
    munmap(nowhere, len);
    free(room);
}

static void nothing_of_it_has_left(void **state)
{
    for (int i = 0; i < 2; i++)
        send_from_nowhere(specs[i], SMALL, false);
}

static void the_peer_waits_for_it(void **state)
{
    for (int i = 0; i < 2; i++)
        send_from_nowhere(specs[i], BIG, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_it_has_left),
        cmocka_unit_test(the_peer_waits_for_it),
    };
    return cmocka_run_group_tests_name("tcp memory, rdm", tests, NULL, NULL);
}
