/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that bound fi_getinfo, fi_dupinfo and fi_freeinfo at each version there ever was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "old_layouts.h"

typedef int getinfo_fn(uint32_t version, const char *node, const char *service, uint64_t flags,
                       const struct fi_info *hints, struct fi_info **info);
typedef struct fi_info *dupinfo_fn(const struct fi_info *info);
typedef void freeinfo_fn(struct fi_info *info);
typedef int fabric_fn(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/* References to one version each, as the linker of that time left them. */
#define AT(suffix, version)                                                                        \
    extern getinfo_fn getinfo_##suffix;                                                            \
    extern dupinfo_fn dupinfo_##suffix;                                                            \
    extern freeinfo_fn freeinfo_##suffix;                                                          \
    __asm__(".symver getinfo_" #suffix ", fi_getinfo@FABRIC_" version);                            \
    __asm__(".symver dupinfo_" #suffix ", fi_dupinfo@FABRIC_" version);                            \
    __asm__(".symver freeinfo_" #suffix ", fi_freeinfo@FABRIC_" version)

AT(1_0, "1.0");
AT(1_1, "1.1");
AT(1_2, "1.2");
AT(1_3, "1.3");
AT(1_7, "1.7");
AT(1_8, "1.8");
AT(1_9, "1.9");

extern fabric_fn fabric_1_0;
__asm__(".symver fabric_1_0, fi_fabric@FABRIC_1.0");

static const struct {
    getinfo_fn *getinfo;
    dupinfo_fn *dupinfo;
    freeinfo_fn *freeinfo;
    uint32_t version; /* of the newest release with these symbols */
} at[LEVELS] = {
    {getinfo_1_0, dupinfo_1_0, freeinfo_1_0, FI_VERSION(1, 4)},
    {getinfo_1_1, dupinfo_1_1, freeinfo_1_1, FI_VERSION(1, 6)},
    {getinfo_1_2, dupinfo_1_2, freeinfo_1_2, FI_VERSION(1, 8)},
    {getinfo_1_3, dupinfo_1_3, freeinfo_1_3, FI_VERSION(1, 19)},
    {getinfo_1_7, dupinfo_1_7, freeinfo_1_7, FI_VERSION(1, 22)},
    {getinfo_1_8, dupinfo_1_8, freeinfo_1_8, FI_VERSION(2, 4)},
    {getinfo_1_9, dupinfo_1_9, freeinfo_1_9, FI_VERSION(2, 6)},
};

static void an_allocated_info_is_empty_and_complete(void **state)
{
    for (int level = 0; level < LEVELS; level++) {
        struct fi_info *info = at[level].dupinfo(NULL);

        assert_non_null(info);
        assert_true(info->tx_attr && info->rx_attr && info->ep_attr);
        assert_true(info->domain_attr && info->fabric_attr);
        assert_int_equal(info->caps, 0);
        at[level].freeinfo(info);
    }
}

static void a_duplicate_has_what_the_callers_layout_has(void **state)
{
    for (int level = 0; level < LEVELS; level++) {
        struct fences fences = {{NULL}, 0};
        struct fi_info *info = at[level].dupinfo(old_info(&fences, level)), *again;

        assert_non_null(info);
        fences_finish(&fences);
        old_info_check(info, level);
        again = at[level].dupinfo(info);
        assert_non_null(again);
        at[level].freeinfo(info);
        old_info_check(again, level);
        at[level].freeinfo(again);
    }
}

/* Hints in each layout and at each release's version are understood: they ask for nothing odd. */
static void hints_are_read_in_the_callers_layout(void **state)
{
    struct fi_info *any = NULL;

    /* A build with no transport but hidden ones has nothing to ask for. */
    if (fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, NULL, &any) == -FI_ENODATA)
        skip();
    fi_freeinfo(any);
    for (int level = 0; level < LEVELS; level++) {
        struct fences fences = {{NULL}, 0};
        struct fi_info *hints = old_info(&fences, level), *info = NULL;

        memset(hints->tx_attr, 0, published[level].tx);
        memset(hints->rx_attr, 0, sizeof(*hints->rx_attr));
        memset(hints->ep_attr, 0, published[level].ep);
        memset(hints->domain_attr, 0, published[level].domain);
        memset(hints->fabric_attr, 0, 28);
        hints->src_addr = NULL;
        hints->src_addrlen = 0;
        hints->ep_attr->type = FI_EP_MSG;
        hints->mode = ~0ULL;
        hints->fabric_attr->prov_name = strdup("tcp");
        if (level > LEVEL_1_0)
            hints->domain_attr->mr_mode =
                FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
        assert_int_equal(at[level].getinfo(at[level].version, NULL, NULL, 0, hints, &info), 0);
        free(hints->fabric_attr->prov_name);
        fences_finish(&fences);
        assert_non_null(info);
        assert_int_equal(info->ep_attr->type, FI_EP_MSG);
        assert_true(level >= LEVEL_1_2 || !info->nic);
        at[level].freeinfo(info);
    }
}

static void nothing_to_write_to_is_an_error(void **state)
{
    struct fid_fabric *fabric;

    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, NULL, NULL), -FI_EINVAL);
    assert_int_equal(fi_fabric(NULL, &fabric, NULL), -FI_EINVAL);
    assert_int_equal(fabric_1_0(NULL, &fabric, NULL), -FI_EINVAL);
    assert_int_equal(fi_fabric2(NULL, &fabric, 0, NULL), -FI_EINVAL);
    fi_freeinfo(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocated_info_is_empty_and_complete),
        cmocka_unit_test(a_duplicate_has_what_the_callers_layout_has),
        cmocka_unit_test(hints_are_read_in_the_callers_layout),
        cmocka_unit_test(nothing_to_write_to_is_an_error),
    };

    return cmocka_run_group_tests_name("levels", tests, NULL, NULL);
}
