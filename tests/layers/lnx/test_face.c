/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of a join that has the face of one branch, and signs that its endpoints put up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "layers/lnx/lnx_face.h"

enum {
    EFA = 32
};

static unsigned char own[EFA] = {0xfe, 0x80, [15] = 9, [16] = 7, [20] = 1, [21] = 2};

static int give_own(fid_t fid, void *addr, size_t *len)
{
    (void)fid;
    assert_true(*len >= EFA);
    memcpy(addr, own, EFA);
    *len = EFA;
    return 0;
}

static struct fi_ops_cm cm = {.size = sizeof(cm), .getname = give_own};
static struct fid_ep ep = {.cm = &cm};
static struct fi_ep_attr shm_ep = {.protocol = FI_PROTO_SHM}, efa_ep = {.protocol = FI_PROTO_EFA};
static struct fi_info shm = {.addr_format = FI_ADDR_STR, .ep_attr = &shm_ep};
static struct fi_info efa = {.addr_format = FI_ADDR_EFA, .ep_attr = &efa_ep, .src_addrlen = EFA};
static struct lnx_domain domain;
static struct lnx_addr addr;
static char why[200];

/* [shm + efa], with the face of the second, or of none. */
static void make_domain(size_t face)
{
    memset(&domain, 0, sizeof(domain));
    domain.count = 2;
    domain.face = face;
    domain.branch[0].info = &shm;
    domain.branch[0].local = true;
    domain.branch[0].reach.len = 8;
    domain.branch[0].kind = lnx_addr_kind(&shm);
    domain.branch[1].info = &efa;
    domain.branch[1].kind = lnx_addr_kind(&efa);
}

static struct lnx_addr_branch of_efa(const unsigned char *bytes)
{
    struct lnx_addr_branch branch = {.format = FI_ADDR_EFA, .len = EFA};

    memcpy(branch.addr, bytes, EFA);
    return branch;
}

static void an_address_is_a_text_and_back(void **state)
{
    unsigned char wide[EFA] = {0x20, 1, 0xd, 0xb8, [15] = 1, [16] = 0xff, [17] = 0xfe, [23] = 0x80};
    unsigned char odd[EFA];
    const unsigned char *cases[] = {own, wide, odd};

    (void)state;
    memset(odd, 0xa5, sizeof(odd)); /* more than an address of EFA has: as it is */
    for (int i = 0; i < 3; i++) {
        struct lnx_addr_branch face = of_efa(cases[i]), inside, back;

        assert_true(lnx_face_write(&face, &inside));
        assert_int_equal(inside.format, FI_ADDR_STR);
        assert_int_equal(inside.len, strlen((char *)inside.addr) + 1);
        assert_memory_equal(inside.addr, "lnx://", 6);
        assert_true(lnx_face_read(&inside, &back));
        assert_int_equal(back.len, EFA);
        assert_memory_equal(back.addr, cases[i], EFA);
    }
}

/* A peer in shared memory may call itself anything. */
static void words_of_peers_are_checked(void **state)
{
    static const char *const texts[] = {
        "",           "fi_shm://1:2:3", "lnx:/",      "lnx://",     "lnx://0",
        "lnx://0g00", "lnx://05",       "lnx://ff00", "lnx://03ff", "lnx://050102030405060708",
    };
    struct lnx_addr_branch inside = {.format = FI_ADDR_STR}, face = of_efa(own), back;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        inside.len = strlen(texts[i]) + 1;
        memcpy(inside.addr, texts[i], inside.len);
        if (lnx_face_read(&inside, &back))
            fail_msg("'%s' is taken for an address", texts[i]);
    }
    assert_true(lnx_face_write(&face, &inside));
    inside.len--; /* without its end */
    assert_false(lnx_face_read(&inside, &back));
    memset(inside.addr, '0', sizeof(inside.addr)); /* as long as can be */
    memcpy(inside.addr, "lnx://", 6);
    inside.addr[sizeof(inside.addr) - 1] = 0;
    inside.len = sizeof(inside.addr);
    assert_false(lnx_face_read(&inside, &back));
}

static size_t branches_of(const unsigned char *raw)
{
    assert_int_equal(lnx_face_decode(&domain, raw, &addr, why, sizeof(why)), 0);
    return addr.count;
}

static void a_peer_is_inside_while_its_sign_is_up(void **state)
{
    int sign = -1, second = -1;
    unsigned char other[EFA];

    (void)state;
    make_domain(1);
    /* Of this process alone. */
    memcpy(own + 20, &(uint32_t){(uint32_t)getpid()}, sizeof(uint32_t));
    memcpy(other, own, EFA);
    other[8] ^= 1;
    assert_int_equal(branches_of(own), 1);
    assert_int_equal(addr.branch[0].kind, domain.branch[1].kind);
    assert_memory_equal(addr.branch[0].addr, own, EFA);
    assert_int_equal(lnx_face_show(&domain, &ep, &sign), 0);
    assert_int_equal(branches_of(own), 2);
    assert_int_equal(addr.branch[1].kind, domain.branch[0].kind);
    assert_int_equal(addr.branch[1].reach.len, 8);
    assert_int_equal(branches_of(other), 1);
    assert_int_equal(lnx_face_show(&domain, &ep, &second), -FI_EADDRINUSE);
    assert_int_equal(second, -1);
    close(sign);
    assert_int_equal(branches_of(own), 1);
}

/* Where no branch stays in the node there is nothing to find. */
static void a_network_alone_has_no_sign(void **state)
{
    int sign = -1;

    (void)state;
    make_domain(1);
    domain.branch[0].local = false;
    assert_int_not_equal(lnx_face_show(&domain, &ep, &sign), 0);
    assert_int_equal(sign, -1);
    assert_int_equal(branches_of(own), 1);
}

static void an_address_is_that_of_the_face(void **state)
{
    struct lnx_addr_branch face = of_efa(own);
    unsigned char raw[LNX_ADDR_MAX];

    (void)state;
    make_domain(1);
    assert_int_equal(lnx_face_size(&domain), EFA);
    addr.count = 1;
    addr.branch[0] = face;
    addr.branch[0].kind = domain.branch[1].kind;
    assert_int_equal(lnx_face_encode(&domain, &addr, raw), EFA);
    assert_memory_equal(raw, own, EFA);
    assert_true(lnx_face_write(&face, &addr.branch[0]));
    addr.branch[0].kind = domain.branch[0].kind;
    memset(raw, 0, sizeof(raw));
    assert_int_equal(lnx_face_encode(&domain, &addr, raw), EFA);
    assert_memory_equal(raw, own, EFA);
    addr.branch[0].addr[10] = 'x'; /* one that calls itself something else */
    assert_int_equal(lnx_face_encode(&domain, &addr, raw), 0);
    make_domain(SIZE_MAX);
    assert_int_equal(lnx_face_size(&domain), lnx_addr_size(2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_a_text_and_back),
        cmocka_unit_test(words_of_peers_are_checked),
        cmocka_unit_test(a_peer_is_inside_while_its_sign_is_up),
        cmocka_unit_test(a_network_alone_has_no_sign),
        cmocka_unit_test(an_address_is_that_of_the_face),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
