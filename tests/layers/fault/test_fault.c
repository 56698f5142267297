/* SPDX-License-Identifier: BSD-2-Clause */
/* What goes wrong, that it is the same for the same seed, and what is said to a mistake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <time.h>

#include "../pair.h"

enum {
    CALLS = 1000
};

/* Which of CALLS receives are refused. */
static int course(const char *spec, char refused[CALLS])
{
    struct pair pair;
    char byte;
    int count = 0;

    pair_open(&pair, spec);
    for (int i = 0; i < CALLS; i++) {
        ssize_t rc = fi_trecv(pair.ep[1], &byte, 1, NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0, &pair);

        assert_true(!rc || rc == -FI_EAGAIN);
        refused[i] = rc == -FI_EAGAIN;
        count += refused[i];
    }
    pair_close(&pair);
    return count;
}

static void so_many_are_refused(void **state)
{
    char refused[CALLS];

    assert_int_equal(course("fault;loop", refused), 0);
    assert_int_equal(course("fault(eagain=100%);loop", refused), CALLS);
    assert_in_range(course("fault(eagain=20%);loop", refused), CALLS * 15 / 100, CALLS * 25 / 100);
    assert_in_range(course("fault(eagain=0.5);loop", refused), 1, 20);
}

static void a_seed_is_a_course(void **state)
{
    char one[CALLS], same[CALLS], other[CALLS];

    course("fault(eagain=20%,seed=7);loop", one);
    course("fault(eagain=20%,seed=7);loop", same);
    course("fault(eagain=20%,seed=8);loop", other);
    assert_memory_equal(one, same, CALLS);
    assert_memory_not_equal(one, other, CALLS);
}

static void the_call_that_is_named_fails_once(void **state)
{
    struct pair pair;
    char byte = 0;

    pair_open(&pair, "fault(fail=send:3);loop");
    for (int i = 1; i <= 5; i++)
        assert_int_equal(fi_tinject(pair.ep[0], &byte, 1, pair.to[1], 1), i == 3 ? -FI_EIO : 0);
    pair_close(&pair);
}

/* Opening a domain and what hangs on it, when one of the calls fails: its error, or 0. */
static int open_some(const char *spec)
{
    struct fi_info *info = pair_info(spec);
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fid_cq *cq = NULL;
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fid_av *av = NULL;
    int rc;

    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    rc = fi_domain(fabric, info, &domain, NULL);
    if (!rc) {
        rc = fi_cq_open(domain, &cq_attr, &cq, NULL);
        rc = rc ? rc : fi_av_open(domain, &av_attr, &av, NULL);
        if (cq)
            assert_int_equal(fi_close(&cq->fid), 0);
        if (av)
            assert_int_equal(fi_close(&av->fid), 0);
        assert_int_equal(fi_close(&domain->fid), 0);
    }
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
    return rc;
}

static void objects_fail_to_open(void **state)
{
    assert_int_equal(open_some("fault;loop"), 0);
    assert_int_equal(open_some("fault(fail=domain:1);loop"), -FI_ENOMEM);
    assert_int_equal(open_some("fault(fail=domain:2|cq:1);loop"), -FI_ENOMEM);
    assert_int_equal(open_some("fault(fail=av:1);loop"), -FI_ENOMEM);
    assert_int_equal(open_some("fault(fail=av:2);loop"), 0);
}

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void completions_come_late_and_all(void **state)
{
    double start = now_ms();
    struct pair pair;
    char from[8] = "", to[8];

    pair_open(&pair, "fault(delay=20ms);loop");
    for (int i = 0; i < 3; i++)
        assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    assert_true(now_ms() - start >= 5 * 20); /* of six reads */
    pair_close(&pair);
}

static int fabric_rc(const char *spec)
{
    struct fi_info *info = pair_info(spec);
    struct fid_fabric *fabric;
    int rc = fi_fabric(info->fabric_attr, &fabric, NULL);

    if (!rc)
        fi_close(&fabric->fid);
    fi_freeinfo(info);
    return rc;
}

static int getinfo_rc(const char *spec)
{
    struct fi_info *info = NULL;
    int rc;

    setenv("FI_PROVIDER", spec, 1);
    rc = fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, NULL, &info);
    fi_freeinfo(info);
    return rc;
}

static void mistakes_are_errors(void **state)
{
    assert_int_not_equal(getinfo_rc("fault(eagain=101%);loop"), 0);
    assert_int_not_equal(getinfo_rc("fault(eagain=often);loop"), 0);
    assert_int_not_equal(getinfo_rc("fault(egain=1%);loop"), 0);
    assert_int_equal(fabric_rc("fault(fail=sned:1);loop"), -FI_EINVAL);
    assert_int_equal(fabric_rc("fault(fail=send);loop"), -FI_EINVAL);
    assert_int_equal(fabric_rc("fault(fail=send:0);loop"), -FI_EINVAL);
    assert_int_equal(fabric_rc("fault(fail=send:1x);loop"), -FI_EINVAL);
}

static void a_connection_is_needed_to_end_one(void **state)
{
    struct fi_info *info = pair_info("fault(kill_conn=1);loop");
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;

    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), -FI_EINVAL);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
}

/* Over rxm the next message goes over a new connection, or the operation ends in an error: once. */
static void a_connection_that_ends_loses_no_completion(void **state)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    char from[8] = "";
    struct pair pair;
    int sent = 0, ended = 0;
    ssize_t rc;

    pair_open(&pair, "rxm;fault(kill_conn=5);tcp");
    for (double start = now_ms(); ended < 10 && now_ms() - start < 20000;) {
        if (sent == ended && sent < 10) {
            rc = fi_tsend(pair.ep[0], from, 8, NULL, pair.to[1], 1, &from);
            assert_true(!rc || rc == -FI_EAGAIN);
            sent += !rc;
        }
        rc = fi_cq_read(pair.cq, &entry, 1);
        if (rc == -FI_EAVAIL)
            rc = fi_cq_readerr(pair.cq, &error, 0);
        ended += rc == 1;
    }
    assert_int_equal(ended, 10);
    assert_int_equal(fi_cq_read(pair.cq, &entry, 1), -FI_EAGAIN);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_are_refused),
        cmocka_unit_test(a_seed_is_a_course),
        cmocka_unit_test(the_call_that_is_named_fails_once),
        cmocka_unit_test(objects_fail_to_open),
        cmocka_unit_test(completions_come_late_and_all),
        cmocka_unit_test(mistakes_are_errors),
        cmocka_unit_test(a_connection_is_needed_to_end_one),
        cmocka_unit_test(a_connection_that_ends_loses_no_completion),
    };

    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
