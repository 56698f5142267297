/* SPDX-License-Identifier: BSD-2-Clause */
/* The hook of docs/adding-a-part.md: all that a layer needs which delays each operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/hook/hook.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/part/part.h"

/* ---- The hook ---- */

static ssize_t delay_post(struct ep *ep, struct op *op)
{
    usleep(1000);
    return hook_post(ep, op);
}

static int open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    return hook_open_fabric(args, fabric, context, &(struct hook_ops){.post = delay_post});
}

static const struct part delay_part = {
    .name = "delay",
    .prov_name = "delay",
    .summary = "delays each operation by a millisecond",
    .description = "An example.",
    .kind = PART_LAYER,
    .transparent = true,
    .needs = part_needs_same,
    .offer = part_offer_same,
    .open_fabric = open_fabric,
};

/* ---- The test: the hook over loop ---- */

static int close_lower(struct lower *lower)
{
    return fi_close(&lower->fabric->fid);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void each_operation_is_delayed(void **state)
{
    struct fi_info *hints = info_alloc(), *info;
    struct lower lower = {.peer = true, .close = close_lower}, *lowers = &lower;
    struct open_args args = {.part = &delay_part,
                             .api_version = FI_VERSION(2, 6),
                             .abi = ABI_1_9,
                             .lowers = &lowers,
                             .lower_count = 1};
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *srx;
    char in[8];
    double start;

    hints->ep_attr->type = FI_EP_RDM;
    assert_int_equal(info_set_string(&hints->fabric_attr->prov_name, "loop"), 0);
    assert_int_equal(getinfo_run(FI_VERSION(2, 6), NULL, NULL, 0, hints, ABI_1_9, &info), 0);
    assert_int_equal(fabric_open(info->fabric_attr, NULL, ABI_1_9, &lower.fabric, NULL), 0);
    args.attr = info->fabric_attr;
    assert_int_equal(delay_part.open_fabric(&args, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_srx_context(domain, info->rx_attr, &srx, NULL), 0);
    start = now();
    for (int i = 0; i < 10; i++)
        assert_int_equal(fi_trecv(srx, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    assert_true(now() - start >= 0.01);
    assert_int_equal(fi_close(&srx->fid), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    info_free(info);
    info_free(hints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operation_is_delayed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
