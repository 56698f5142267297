/* SPDX-License-Identifier: BSD-2-Clause */
/* A hook that is told of objects before they are opened, and refuses some: over loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/hook/hook_watch.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/part/part.h"

/* ---- The hook ---- */

static size_t refused_class;
static unsigned begun, opened, refused;
static int refused_rc;

static int watch_opening(const struct hook_fabric *fabric, struct fid *fid,
                         struct hook_opening *opening)
{
    opening->note = ++begun;
    return fid->fclass == refused_class ? -FI_EBUSY : 0;
}

static void watch_opened(const struct hook_fabric *fabric, struct fid *fid,
                         const struct hook_opening *opening)
{
    assert_int_equal(opening->note, begun);
    assert_null(*hook_own(fid));
    opened++;
}

static void watch_refused(const struct fid *fid, const struct hook_opening *opening, int rc)
{
    assert_int_equal(opening->note, begun);
    refused_rc = rc;
    refused++;
}

static const struct hook_watch watch = {
    .opening = watch_opening, .opened = watch_opened, .refused = watch_refused};

static int open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    return hook_open_fabric(args, fabric, context, &(struct hook_ops){.watch = &watch});
}

static const struct part watch_part = {
    .name = "watch",
    .prov_name = "watch",
    .summary = "refuses objects",
    .description = "A test.",
    .kind = PART_LAYER,
    .transparent = true,
    .needs = part_needs_same,
    .offer = part_offer_same,
    .open_fabric = open_fabric,
};

/* ---- The stack ---- */

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct lower lower;

static int close_lower(struct lower *hold)
{
    return fi_close(&hold->fabric->fid);
}

static int setup(void **state)
{
    struct fi_info *hints = info_alloc();
    struct lower *lowers = &lower;
    struct open_args args = {.part = &watch_part,
                             .api_version = FI_VERSION(2, 6),
                             .abi = ABI_1_9,
                             .lowers = &lowers,
                             .lower_count = 1};

    lower = (struct lower){.peer = true, .close = close_lower};
    hints->ep_attr->type = FI_EP_RDM;
    assert_int_equal(info_set_string(&hints->fabric_attr->prov_name, "loop"), 0);
    assert_int_equal(getinfo_run(FI_VERSION(2, 6), NULL, NULL, 0, hints, ABI_1_9, &info), 0);
    assert_int_equal(fabric_open(info->fabric_attr, NULL, ABI_1_9, &lower.fabric, NULL), 0);
    args.attr = info->fabric_attr;
    assert_int_equal(watch_part.open_fabric(&args, &fabric, NULL), 0);
    refused_class = 0;
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    begun = opened = refused = 0;
    info_free(hints);
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    info_free(info);
    return 0;
}

/* ---- Objects of each class ---- */

static int open_domain(struct fid **fid)
{
    struct fid_domain *other = NULL;
    int rc = fi_domain(fabric, info, &other, NULL);

    *fid = other ? &other->fid : NULL;
    return rc;
}

static int open_eq(struct fid **fid)
{
    struct fid_eq *eq = NULL;
    int rc = fi_eq_open(fabric, &(struct fi_eq_attr){.size = 4}, &eq, NULL);

    *fid = eq ? &eq->fid : NULL;
    return rc;
}

static int open_cq(struct fid **fid)
{
    struct fid_cq *cq = NULL;
    int rc = fi_cq_open(domain, &(struct fi_cq_attr){.size = 4}, &cq, NULL);

    *fid = cq ? &cq->fid : NULL;
    return rc;
}

static int open_cntr(struct fid **fid)
{
    struct fid_cntr *cntr = NULL;
    int rc = fi_cntr_open(domain, NULL, &cntr, NULL);

    *fid = cntr ? &cntr->fid : NULL;
    return rc;
}

static int open_av(struct fid **fid)
{
    struct fid_av *av = NULL;
    int rc = fi_av_open(domain, &(struct fi_av_attr){.type = FI_AV_TABLE}, &av, NULL);

    *fid = av ? &av->fid : NULL;
    return rc;
}

static int open_ep(struct fid **fid)
{
    struct fid_ep *ep = NULL;
    int rc = fi_endpoint(domain, info, &ep, NULL);

    *fid = ep ? &ep->fid : NULL;
    return rc;
}

static int open_srx(struct fid **fid)
{
    struct fid_ep *srx = NULL;
    int rc = fi_srx_context(domain, info->rx_attr, &srx, NULL);

    *fid = srx ? &srx->fid : NULL;
    return rc;
}

static int open_poll(struct fid **fid)
{
    struct fid_poll *set = NULL;
    int rc = fi_poll_open(domain, &(struct fi_poll_attr){0}, &set);

    *fid = set ? &set->fid : NULL;
    return rc;
}

static int open_wait(struct fid **fid)
{
    struct fid_wait *set = NULL;
    int rc = fi_wait_open(fabric, &(struct fi_wait_attr){.wait_obj = FI_WAIT_FD}, &set);

    *fid = set ? &set->fid : NULL;
    return rc;
}

static int open_mr(struct fid **fid)
{
    static char memory[64];
    struct fid_mr *mr = NULL;
    int rc = fi_mr_reg(domain, memory, sizeof(memory), FI_REMOTE_READ, 0, 1, 0, &mr, NULL);

    *fid = mr ? &mr->fid : NULL;
    return rc;
}

static const struct {
    size_t fclass;
    int (*open)(struct fid **fid);
} classes[] = {
    {FI_CLASS_DOMAIN, open_domain}, {FI_CLASS_EQ, open_eq},     {FI_CLASS_CQ, open_cq},
    {FI_CLASS_CNTR, open_cntr},     {FI_CLASS_AV, open_av},     {FI_CLASS_EP, open_ep},
    {FI_CLASS_SRX_CTX, open_srx},   {FI_CLASS_POLL, open_poll}, {FI_CLASS_WAIT, open_wait},
    {FI_CLASS_MR, open_mr},
};
enum {
    CLASSES = sizeof(classes) / sizeof(*classes)
};

/* The lower is not asked: it would count a child, and the teardown would find it busy. */
static void objects_are_refused_before_the_lower_is_asked(void **state)
{
    struct fid *fid;

    for (size_t i = 0; i < CLASSES; i++) {
        refused_class = classes[i].fclass;
        assert_int_equal(classes[i].open(&fid), -FI_EBUSY);
        assert_null(fid);
        assert_int_equal(refused_rc, -FI_EBUSY);
    }
    assert_int_equal(begun, CLASSES);
    assert_int_equal(refused, CLASSES);
    assert_int_equal(opened, 0);
}

static void objects_that_are_not_refused_open(void **state)
{
    struct fid *fid;

    for (size_t i = 0; i < CLASSES; i++) {
        assert_int_equal(classes[i].open(&fid), 0);
        assert_int_equal(fid->fclass, classes[i].fclass);
        assert_int_equal(fi_close(fid), 0);
    }
    assert_int_equal(begun, CLASSES);
    assert_int_equal(opened, CLASSES);
    assert_int_equal(refused, 0);
}

/* A domain of a fabric whose lower does not know the info. */
static void errors_of_the_lower_end_an_open_too(void **state)
{
    struct fi_mr_attr attr = {.mr_iov = NULL, .iov_count = 1};
    struct fid_mr *mr;

    assert_int_not_equal(fi_mr_regattr(domain, &attr, UINT64_C(1) << 63, &mr), 0);
    assert_int_equal(begun, 1);
    assert_int_equal(refused, 1);
    assert_int_not_equal(refused_rc, -FI_EBUSY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(objects_are_refused_before_the_lower_is_asked),
        TEST(objects_that_are_not_refused_open),
        TEST(errors_of_the_lower_end_an_open_too),
    };

    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
