/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors of local buffers where one branch wants them: debug stands in that branch, demands
 * them, and reports a buffer that its region does not cover; fault fails its registrations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rdma/fi_atomic.h>

#include "../pair.h"

enum {
    LARGE = 1 << 20
};

static char report[64];

static void permit_shared_memory(struct pair *pair, bool permitted)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_setopt(&pair->ep[i]->fid, FI_OPT_ENDPOINT,
                                   FI_OPT_SHARED_MEMORY_PERMITTED, &permitted, sizeof(permitted)),
                         0);
}

static void wait_for(struct pair *pair, int count)
{
    struct fi_cq_tagged_entry entry;

    while (count) {
        ssize_t rc = fi_cq_read(pair->cq, &entry, 1);

        assert_true(rc == 1 || rc == -FI_EAGAIN);
        count -= rc == 1;
    }
}

/* A message, a read and an atomic operation with a result. */
static void use_all(struct pair *pair, char *from, char *to, struct fid_mr *from_mr,
                    struct fid_mr *to_mr, size_t len)
{
    static struct fi_context2 contexts[4];
    uint64_t base = pair->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)to : 0;
    void *from_desc = fi_mr_desc(from_mr), *to_desc = fi_mr_desc(to_mr);

    assert_non_null(from_desc);
    memset(from, 7, len);
    memset(to, 0, len);
    PAIR_POST(pair, fi_trecv(pair->ep[1], to, len, to_desc, FI_ADDR_UNSPEC, 1, 0, &contexts[0]));
    PAIR_POST(pair, fi_tsend(pair->ep[0], from, len, from_desc, pair->to[1], 1, &contexts[1]));
    wait_for(pair, 2);
    assert_memory_equal(from, to, len);
    PAIR_POST(pair, fi_read(pair->ep[0], from, len, from_desc, pair->to[1], base, fi_mr_key(to_mr),
                            &contexts[2]));
    wait_for(pair, 1);
    PAIR_POST(pair,
              fi_fetch_atomic(pair->ep[0], from, 1, from_desc, from + 8, from_desc, pair->to[1],
                              base, fi_mr_key(to_mr), FI_UINT64, FI_SUM, &contexts[3]));
    wait_for(pair, 1);
    assert_memory_equal(from + 8, from, 8);
    assert_int_equal(to[0], 14);
}

static void send_one(struct pair *pair, char *from, char *to, void *from_desc, void *to_desc)
{
    static struct fi_context2 contexts[2];

    PAIR_POST(pair, fi_trecv(pair->ep[1], to, LARGE, to_desc, FI_ADDR_UNSPEC, 1, 0, &contexts[0]));
    PAIR_POST(pair, fi_tsend(pair->ep[0], from, LARGE, from_desc, pair->to[1], 1, &contexts[1]));
    wait_for(pair, 2);
}

/* With either branch: the one of shared memory wants none. */
static void descriptors_are_those_of_the_branch(void **state)
{
    char spec[256], *from = calloc(2, LARGE), *to = from + LARGE;
    struct fid_mr *from_mr, *to_mr;
    struct pair pair;

    snprintf(report, sizeof(report), "/tmp/weft-test-local.%d", (int)getpid());
    snprintf(spec, sizeof(spec), "lnx;[shm+debug(demand=mr_local,file=%s);rxm;tcp(iface=lo)]",
             report);
    pair_caps = FI_ATOMIC;
    pair_open(&pair, spec);
    pair_caps = 0;
    assert_true(pair.info->domain_attr->mr_mode & FI_MR_LOCAL);
    assert_int_equal(fi_mr_reg(pair.domain, from, LARGE, FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0,
                               1, 0, &from_mr, NULL),
                     0);
    assert_int_equal(fi_mr_reg(pair.domain, to, LARGE, FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE,
                               0, 2, 0, &to_mr, NULL),
                     0);
    for (int round = 0; round < 4; round++) {
        permit_shared_memory(&pair, round % 2);
        use_all(&pair, from, to, from_mr, to_mr, round < 2 ? 64 : LARGE);
    }
    assert_int_equal(fi_close(&from_mr->fid), 0);
    assert_int_equal(fi_close(&to_mr->fid), 0);
    pair_close(&pair);
    free(from);
}

/* In the network's branch, whose registration number `fail` fails: none by shared memory; then each
 * region once. */
static void register_first_use(const char *fail, bool fails)
{
    char spec[256], *from = calloc(2, LARGE), *to = from + LARGE;
    struct fid_mr *from_mr, *to_mr;
    struct pair pair;

    snprintf(spec, sizeof(spec),
             "lnx;[shm+fault(fail=%s);debug(demand=mr_local);rxm;tcp(iface=lo)]", fail);
    pair_open(&pair, spec);
    assert_int_equal(fi_mr_reg(pair.domain, from, LARGE, FI_SEND, 0, 1, 0, &from_mr, NULL), 0);
    assert_int_equal(fi_mr_reg(pair.domain, to, LARGE, FI_RECV, 0, 2, 0, &to_mr, NULL), 0);
    send_one(&pair, from, to, fi_mr_desc(from_mr), fi_mr_desc(to_mr));
    permit_shared_memory(&pair, false);
    if (fails)
        assert_int_equal(fi_tsend(pair.ep[0], from, LARGE, fi_mr_desc(from_mr), pair.to[1], 1, to),
                         -FI_ENOMEM);
    for (int i = 0; i < 3; i++)
        send_one(&pair, from, to, fi_mr_desc(from_mr), fi_mr_desc(to_mr));
    assert_int_equal(fi_close(&from_mr->fid), 0);
    assert_int_equal(fi_close(&to_mr->fid), 0);
    pair_close(&pair);
    free(from);
}

static void a_local_region_is_registered_with_its_first_use(void **state)
{
    register_first_use("mr:1", true);
    register_first_use("mr:3", false);
}

static void nothing_is_reported(void **state)
{
    char text[512] = "";
    FILE *file = fopen(report, "r");

    if (file) {
        fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
        unlink(report);
    }
    print_message("%s", text);
    assert_null(strstr(text, "debug"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_those_of_the_branch),
        cmocka_unit_test(nothing_is_reported),
        cmocka_unit_test(a_local_region_is_registered_with_its_first_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
