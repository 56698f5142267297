/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_eq.h>

#include "core/info/abi.h"
#include "core/info/info.h"

#include "../abi/old_layouts.h"

static void import_reads_only_what_the_level_has(void **state)
{
    for (enum abi_level level = ABI_1_0; level < LEVELS; level++) {
        struct fences fences = {{NULL}, 0};
        struct fi_info *theirs = old_info(&fences, level);
        struct fi_info *info = abi_info_import(theirs, level);

        assert_non_null(info);
        fences_finish(&fences);
        assert_null(info->next);
        old_info_check(info, level);
        info_free(info);
    }
}

static void import_of_nothing_is_an_empty_info(void **state)
{
    struct fi_info *info = abi_info_import(NULL, ABI_1_3);

    assert_non_null(info);
    assert_non_null(info->domain_attr);
    assert_int_equal(info->caps, 0);
    info_free(info);
}

static void import_keeps_absent_attrs_absent(void **state)
{
    struct fi_info theirs = {.caps = FI_TAGGED, .next = (struct fi_info *)old_name};
    struct fi_info *info = abi_info_import(&theirs, ABI_1_9);

    assert_non_null(info);
    assert_int_equal(info->caps, FI_TAGGED);
    assert_null(info->next);
    assert_null(info->tx_attr);
    assert_null(info->fabric_attr);
    info_free(info);
}

static void entry_sizes_are_those_of_the_headers(void **state)
{
#if UINTPTR_MAX == UINT64_MAX
    static const size_t cq[] = {72, 80, 80, 80, 88, 88, 88};
    static const size_t eq[] = {40, 48, 48, 48, 48, 48, 48};
#elif defined(__i386__) /* numbers of 64 bits lie at multiples of 4 */
    static const size_t cq[] = {52, 56, 56, 56, 64, 64, 64};
    static const size_t eq[] = {28, 32, 32, 32, 32, 32, 32};
#else
    static const size_t cq[LEVELS], eq[LEVELS];

    skip();
#endif

    for (enum abi_level level = ABI_1_0; level < LEVELS; level++) {
        assert_int_equal(abi_cq_err_entry_size(level), cq[level]);
        assert_int_equal(abi_eq_err_entry_size(level), eq[level]);
    }
}

static void mr_attr_import_reads_only_what_the_level_has(void **state)
{
    static const size_t sizes[] = {
        [ABI_1_0] = offsetof(struct fi_mr_attr, auth_key_size),
        [ABI_1_1] = offsetof(struct fi_mr_attr, iface),
        [ABI_1_2] = offsetof(struct fi_mr_attr, iface),
        [ABI_1_3] = offsetof(struct fi_mr_attr, hmem_data),
        [ABI_1_7] = offsetof(struct fi_mr_attr, page_size),
        [ABI_1_8] = sizeof(struct fi_mr_attr),
        [ABI_1_9] = sizeof(struct fi_mr_attr),
    };
    struct fi_mr_attr full = {.iov_count = 1,
                              .context = old_name,
                              .auth_key = old_key,
                              .iface = FI_HMEM_CUDA,
                              .hmem_data = old_name,
                              .sub_mr_cnt = 2};

    for (enum abi_level level = ABI_1_0; level < LEVELS; level++) {
        struct fences fences = {{NULL}, 0};
        size_t size = sizes[level];
        void *theirs = fenced(&fences, size);
        struct fi_mr_attr out;

        memcpy(theirs, &full, size);
        memset(&out, 0xAA, sizeof(out));
        abi_mr_attr_import(theirs, level, &out);
        fences_finish(&fences);
        assert_int_equal(out.iov_count, 1);
        assert_ptr_equal(out.context, old_name);
        assert_ptr_equal(out.auth_key, level >= ABI_1_1 ? old_key : NULL);
        assert_int_equal(out.iface, level >= ABI_1_3 ? FI_HMEM_CUDA : FI_HMEM_SYSTEM);
        assert_ptr_equal(out.hmem_data, level >= ABI_1_7 ? old_name : NULL);
        assert_int_equal(out.sub_mr_cnt, level >= ABI_1_8 ? 2 : 0);
    }
}

static void noted_attrs_keep_their_level(void **state)
{
    struct fi_fabric_attr attrs[100];

    for (size_t i = 0; i < 100; i++)
        abi_note(&attrs[i], i % LEVELS);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(abi_of(&attrs[i]), i % LEVELS);
    abi_note(&attrs[1], ABI_1_9);
    assert_int_equal(abi_of(&attrs[1]), ABI_1_9);
    for (size_t i = 0; i < 100; i++)
        abi_forget(&attrs[i]);
    abi_forget(&attrs[0]);
    abi_forget(NULL);
}

/* Runs before anything calls abi_bound: the lowest level only ever falls. */
static void unknown_attrs_are_of_the_lowest_level_bound(void **state)
{
    struct fi_fabric_attr own = {0}, other = {0};

    assert_int_equal(abi_of(&own), ABI_1_9);
    abi_bound(ABI_1_8);
    assert_int_equal(abi_of(&own), ABI_1_8);
    abi_bound(ABI_1_3);
    abi_bound(ABI_1_9);
    assert_int_equal(abi_of(&own), ABI_1_3);
    abi_note(&other, ABI_1_9);
    assert_int_equal(abi_of(&other), ABI_1_9);
    abi_forget(&other);
    assert_int_equal(abi_of(&other), ABI_1_3);
}

static void exported_lists_are_noted_until_freed(void **state)
{
    struct fi_info *list = info_alloc();
    struct fi_fabric_attr *first, *second;

    assert_non_null(list);
    list->next = info_alloc();
    assert_non_null(list->next);
    first = list->fabric_attr;
    second = list->next->fabric_attr;
    abi_info_export(list, ABI_1_8);
    assert_int_equal(abi_of(first), ABI_1_8);
    assert_int_equal(abi_of(second), ABI_1_8);
    abi_info_free(list, ABI_1_8);
    assert_int_not_equal(abi_of(first), ABI_1_8);
    assert_int_not_equal(abi_of(second), ABI_1_8);
    abi_info_free(NULL, ABI_1_0);
}

static int closed;

static int close_nic(struct fid *fid)
{
    closed++;
    return 0;
}

static void nic_is_not_given_to_those_who_cannot_free_it(void **state)
{
    struct fi_ops ops = {.size = sizeof(ops), .close = close_nic};
    struct fid_nic nic = {.fid = {.fclass = FI_CLASS_NIC, .ops = &ops}};
    struct fi_info *info = info_alloc();

    assert_non_null(info);
    closed = 0;
    info->nic = &nic;
    abi_info_export(info, ABI_1_2);
    assert_ptr_equal(info->nic, &nic);
    assert_int_equal(closed, 0);
    abi_info_export(info, ABI_1_1);
    assert_null(info->nic);
    assert_int_equal(closed, 1);
    abi_info_free(info, ABI_1_1);
}

/* malloc's own padding hides one byte too many here: valgrind and ASan see it. */
static void freeing_the_applications_own_info_stays_within_its_layout(void **state)
{
    for (enum abi_level level = ABI_1_0; level < LEVELS; level++) {
        struct fi_info *info = calloc(1, published[level].info);

        assert_non_null(info);
        info->tx_attr = calloc(1, published[level].tx);
        info->ep_attr = calloc(1, published[level].ep);
        info->domain_attr = calloc(1, published[level].domain);
        info->fabric_attr = calloc(1, 32);
        info->domain_attr->name = strdup(old_name);
        info->fabric_attr->prov_name = strdup(old_name);
        if (level >= ABI_1_1) {
            info->domain_attr->auth_key = malloc(4);
            info->ep_attr->auth_key = malloc(4);
        }
        abi_info_free(info, level);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_attrs_are_of_the_lowest_level_bound),
        cmocka_unit_test(noted_attrs_keep_their_level),
        cmocka_unit_test(import_reads_only_what_the_level_has),
        cmocka_unit_test(import_of_nothing_is_an_empty_info),
        cmocka_unit_test(import_keeps_absent_attrs_absent),
        cmocka_unit_test(entry_sizes_are_those_of_the_headers),
        cmocka_unit_test(mr_attr_import_reads_only_what_the_level_has),
        cmocka_unit_test(exported_lists_are_noted_until_freed),
        cmocka_unit_test(nic_is_not_given_to_those_who_cannot_free_it),
        cmocka_unit_test(freeing_the_applications_own_info_stays_within_its_layout),
    };

    return cmocka_run_group_tests_name("abi", tests, NULL, NULL);
}
