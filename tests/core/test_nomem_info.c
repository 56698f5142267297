/* SPDX-License-Identifier: BSD-2-Clause */
/* Infos, parameters and lists of variables with allocation number N failing, for each N. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/reason.h"
#include "core/info/info.h"
#include "core/info/nic.h"
#include "core/param/param.h"
#include "nomem.h"

#if NOMEM_WORKS
static struct fi_info *sample; /* everything that an info can hold */

static void make_sample(void)
{
    sample = info_alloc();
    info_set_src(sample, "source", 7);
    info_set_dest(sample, "dest", 5);
    info_set_string(&sample->domain_attr->name, "domain");
    info_set_string(&sample->fabric_attr->name, "fabric");
    info_set_string(&sample->fabric_attr->prov_name, "tcp");
    sample->ep_attr->auth_key = (uint8_t *)strdup("key");
    sample->ep_attr->auth_key_size = 4;
    sample->domain_attr->auth_key = (uint8_t *)strdup("key");
    sample->domain_attr->auth_key_size = 4;
    sample->nic = nic_create();
    sample->nic->device_attr->name = strdup("nic");
    sample->nic->link_attr->address = strdup("address");
}

static int copy_info(void)
{
    struct fi_info *copy = info_dup(sample);

    info_free(copy);
    return copy ? 0 : -FI_ENOMEM;
}

static int complete_info(void)
{
    struct fi_info *copy = info_complete(sample);

    info_free(copy);
    return copy ? 0 : -FI_ENOMEM;
}

static int settle_info(void)
{
    struct fi_info *offer = info_alloc();
    int ret = offer ? info_settle(offer, sample, FI_VERSION(2, 6)) : -FI_ENOMEM;

    info_free(offer);
    return ret;
}

static const struct param_def defs[] = {
    {.key = "a", .type = PARAM_SIZE, .default_text = "64k", .help = "A."},
    {.key = "b", .type = PARAM_STRING, .default_text = "x", .help = "B."},
    {.key = NULL},
};

static int resolve_params(void)
{
    const struct param_text text = {"b", "y"};
    struct params *params, *copy;
    char why[64];
    size_t bad;
    int ret = params_resolve("demo", NULL, defs, &text, 1, &params, &bad, why, sizeof(why));

    if (ret)
        return ret;
    copy = params_dup(params);
    params_destroy(params);
    params_destroy(copy);
    return copy ? 0 : -FI_ENOMEM;
}

static int list_params(void)
{
    struct fi_param *params;
    int count, ret = fi_getparams(&params, &count);

    if (!ret)
        fi_freeparams(params);
    return ret;
}

/* A ledger without memory loses sentences, and is still balanced. */
static int keep_reasons(void)
{
    struct reasons *reasons = reasons_create();

    if (!reasons)
        return -FI_ENOMEM;
    reasons_enter(reasons, "tcp");
    reasons_add(reasons, "one");
    reasons_enter(reasons, "inner");
    reasons_leave(reasons, 0);
    reasons_leave(reasons, 0);
    reasons_summary(reasons);
    reasons_destroy(reasons);
    return 0;
}

static void sweep(const char *name, int (*body)(void))
{
    long before;
    bool reached = true;

    assert_int_equal(body(), 0); /* what is kept for ever is there now */
    before = nomem_live;
    for (long n = 1; reached; n++) {
        int ret;

        nomem_at = n;
        ret = body();
        reached = !nomem_at;
        nomem_at = 0;
        assert_true(ret == 0 || ret == -FI_ENOMEM);
        assert_true(reached || ret == 0);
        if (nomem_live != before)
            fail_msg("%s: allocation %ld: %ld left", name, n, nomem_live - before);
    }
}
#endif

static void every_allocation_may_fail(void **state)
{
#if NOMEM_WORKS
    params_publish("demo", NULL, defs);
    make_sample();
    sweep("copy_info", copy_info);
    sweep("complete_info", complete_info);
    sweep("settle_info", settle_info);
    sweep("resolve_params", resolve_params);
    sweep("list_params", list_params);
    sweep("keep_reasons", keep_reasons);
    info_free(sample);
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
