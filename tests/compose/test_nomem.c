/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocation number N fails, for N = 1, 2, ... until none does: an error, and nothing left
 * behind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "compose/candidate.h"
#include "compose/hold.h"
#include "compose/plan.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "fake.h"
#include "nomem.h"

#if NOMEM_WORKS
/* All that one fi_getinfo and one fi_fabric do. */
static int plan_and_open(const struct environment *environment, const char *wanted)
{
    const struct query query = {.version = FI_VERSION(2, 6)};
    struct opening opening = {NULL, FI_VERSION(2, 6)};
    struct fi_info *hints = info_complete(NULL);
    struct fi_info *infos = NULL;
    struct candidates candidates = {0};
    struct fid_fabric *fabric;
    int rc = -FI_ENOMEM;

    if (hints)
        rc = candidates_make(&fake_parts, environment, 0, wanted, NULL, &candidates);
    for (size_t i = 0; !rc && i < candidates.count; i++) {
        rc = plan_getinfo(candidates.list[i].stack, candidates.list[i].name, &query, hints, NULL,
                          &infos);
        if (rc)
            break;
        opening.name = infos->fabric_attr->name;
        rc = stack_open(candidates.list[i].stack, &opening, ABI_1_3, &fabric, NULL);
        info_free(infos);
        infos = NULL;
        if (!rc)
            fi_close(&fabric->fid);
    }
    if (!rc && !candidates.count)
        rc = -FI_ENODATA;
    candidates_finish(&candidates);
    info_free(hints);
    return rc;
}
#endif

static void every_allocation_may_fail(void **state)
{
#if NOMEM_WORKS
    static const struct {
        const char *provider, *hook, *wanted;
    } cases[] = {
        {NULL, NULL, NULL},
        {"noop;rxm(eager=1k);noop;tcp(iface=lo),udp", "trace(file=x)", NULL},
        {"lnx;[shm+tcp]", NULL, NULL},
        {NULL, NULL, "noop;rxm;tcp"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct environment environment = {cases[i].provider, cases[i].hook};
        int rc = plan_and_open(&environment, cases[i].wanted);
        long n, before = nomem_live;

        assert_int_equal(rc, 0);
        rc = -1;
        for (n = 1; rc && n < 100000; n++) {
            nomem_at = n;
            rc = plan_and_open(&environment, cases[i].wanted);
            if (nomem_at && rc) {
                nomem_at = 0;
                fail_msg("allocation %ld: %d", n, rc);
            }
            /* The run ended before the allocation that was to fail. */
            if (!nomem_at)
                rc = -1;
            nomem_at = 0;
            assert_int_equal(fake_open_now, 0);
            assert_int_equal(nomem_live, before);
        }
        assert_int_equal(rc, 0);
        print_message("%ld allocations\n", n - 1);
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests_name("nomem", tests, NULL, NULL);
}
