/* SPDX-License-Identifier: BSD-2-Clause */
/* The inline functions of the headers that do more than one call through a table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_profile.h>
#include <rdma/fi_tagged.h>

/* The last call to a table; each test leaves it empty, for it points to its stack. */
static struct {
    void *object;
    int command;
    uint64_t flags;
    union {
        struct fi_alias alias;
        struct fi_fid_var var;
        struct fi_mr_raw_attr raw;
        struct fi_mr_map_raw map;
        struct fi_mr_modify modify;
        struct fi_fid_export export;
        uint64_t key;
    } arg;
    struct fi_collective_addr coll;
    const char *name;
    const char *called;
} got;

static struct fid_ep other_ep;
static struct fid_profile profile;

static int control(struct fid *fid, int command, void *arg)
{
    static const size_t sizes[] = {
        [FI_ALIAS] = sizeof(struct fi_alias),
        [FI_GET_RAW_MR] = sizeof(struct fi_mr_raw_attr),
        [FI_MAP_RAW_MR] = sizeof(struct fi_mr_map_raw),
        [FI_UNMAP_KEY] = sizeof(uint64_t),
        [FI_REFRESH] = sizeof(struct fi_mr_modify),
        [FI_GET_VAL] = sizeof(struct fi_fid_var),
        [FI_SET_VAL] = sizeof(struct fi_fid_var),
        [FI_EXPORT_FID] = sizeof(struct fi_fid_export),
        [FI_GET_FD] = 0,
    };

    got.object = fid;
    got.command = command;
    if (arg)
        memcpy(&got.arg, arg, sizes[command]);
    if (arg && command == FI_ALIAS)
        *((struct fi_alias *)arg)->fid = &other_ep.fid;
    return 0;
}

static int ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    got.object = fid;
    got.name = name;
    got.flags = flags;
    *ops = &profile;
    return 0;
}

static struct fi_ops fid_ops = {.size = sizeof(fid_ops), .control = control, .ops_open = ops_open};

static void endpoint_controls_carry_their_arguments(void **state)
{
    struct fid_ep ep = {.fid = {.ops = &fid_ops}}, *alias = NULL;
    struct fid *exported;
    int value;

    assert_int_equal(fi_ep_alias(&ep, &alias, FI_TRANSMIT), 0);
    assert_true(got.object == &ep);
    assert_int_equal(got.command, FI_ALIAS);
    assert_int_equal(got.arg.alias.flags, FI_TRANSMIT);
    assert_ptr_equal(alias, &other_ep);

    assert_int_equal(fi_get_val(&ep.fid, 77, &value), 0);
    assert_int_equal(got.command, FI_GET_VAL);
    assert_int_equal(got.arg.var.name, 77);
    assert_ptr_equal(got.arg.var.val, &value);
    assert_int_equal(fi_set_val(&ep.fid, 78, &value), 0);
    assert_int_equal(got.command, FI_SET_VAL);
    assert_int_equal(got.arg.var.name, 78);

    assert_int_equal(fi_enable(&ep), 0);
    assert_int_equal(got.command, FI_ENABLE);

    assert_int_equal(fi_export_fid(&ep.fid, 9, &exported, &value), 0);
    assert_int_equal(got.command, FI_EXPORT_FID);
    assert_ptr_equal(got.arg.export.fid, &exported);
    assert_int_equal(got.arg.export.flags, 9);
    assert_ptr_equal(got.arg.export.context, &value);
    memset(&got, 0, sizeof(got));
}

static void region_controls_carry_their_arguments(void **state)
{
    struct fid_mr mr = {.fid = {.ops = &fid_ops}};
    struct fid_domain domain = {.fid = {.ops = &fid_ops}};
    struct iovec iov[2];
    uint8_t raw[4];
    uint64_t addr, key;
    size_t size;

    assert_int_equal(fi_mr_raw_attr(&mr, &addr, raw, &size, 5), 0);
    assert_int_equal(got.command, FI_GET_RAW_MR);
    assert_int_equal(got.arg.raw.flags, 5);
    assert_ptr_equal(got.arg.raw.base_addr, &addr);
    assert_ptr_equal(got.arg.raw.raw_key, raw);
    assert_ptr_equal(got.arg.raw.key_size, &size);

    assert_int_equal(fi_mr_map_raw(&domain, 99, raw, 4, &key, 6), 0);
    assert_int_equal(got.command, FI_MAP_RAW_MR);
    assert_int_equal(got.arg.map.flags, 6);
    assert_int_equal(got.arg.map.base_addr, 99);
    assert_ptr_equal(got.arg.map.raw_key, raw);
    assert_int_equal(got.arg.map.key_size, 4);
    assert_ptr_equal(got.arg.map.key, &key);

    assert_int_equal(fi_mr_unmap_key(&domain, 0x1234), 0);
    assert_int_equal(got.command, FI_UNMAP_KEY);
    assert_int_equal(got.arg.key, 0x1234);

    assert_int_equal(fi_mr_refresh(&mr, iov, 2, 8), 0);
    assert_int_equal(got.command, FI_REFRESH);
    assert_int_equal(got.arg.modify.flags, 8);
    assert_ptr_equal(got.arg.modify.attr.mr_iov, iov);
    assert_int_equal(got.arg.modify.attr.iov_count, 2);
    assert_int_equal(got.arg.modify.attr.sub_mr_cnt, 0);

    assert_int_equal(fi_mr_enable(&mr), 0);
    assert_int_equal(got.command, FI_ENABLE);
    memset(&got, 0, sizeof(got));
}

static void a_profile_is_opened_by_its_name(void **state)
{
    struct fid_ep ep = {.fid = {.ops = &fid_ops}};
    struct fid_profile *opened = NULL;

    assert_int_equal(fi_profile_open(&ep.fid, 3, &opened, NULL), 0);
    assert_string_equal(got.name, "fi_profile_ops");
    assert_int_equal(got.flags, 3);
    assert_ptr_equal(opened, &profile);
    memset(&got, 0, sizeof(got));
}

static int join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
                void *context)
{
    got.object = ep;
    got.flags = flags;
    memcpy(&got.coll, addr, sizeof(got.coll));
    return 0;
}

static void joining_a_collective_is_a_join(void **state)
{
    struct fi_ops_cm cm = {.size = sizeof(cm), .join = join};
    struct fid_ep ep = {.cm = &cm};
    struct fid_av_set set;
    struct fid_mc *mc;

    assert_int_equal(fi_join_collective(&ep, 12, &set, FI_SCATTER, &mc, NULL), 0);
    assert_int_equal(got.flags, FI_COLLECTIVE | FI_SCATTER);
    assert_ptr_equal(got.coll.set, &set);
    assert_int_equal(got.coll.coll_addr, 12);
    memset(&got, 0, sizeof(got));
}

static int domain1(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                   void *context)
{
    got.called = "domain";
    return 0;
}

static int domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                   uint64_t flags, void *context)
{
    got.called = "domain2";
    return 0;
}

static int endpoint1(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                     void *context)
{
    got.called = "endpoint";
    return 0;
}

static ssize_t barrier1(struct fid_ep *ep, fi_addr_t coll_addr, void *context)
{
    got.called = "barrier";
    return 0;
}

/* Tables of before the second version of a call serve it when there are no flags. */
static void second_versions_need_their_entry_only_for_flags(void **state)
{
    struct fi_ops_fabric fabric_ops = {
        .size = offsetof(struct fi_ops_fabric, domain2), .domain = domain1, .domain2 = domain2};
    struct fi_ops_domain domain_ops = {.size = offsetof(struct fi_ops_domain, endpoint2),
                                       .endpoint = endpoint1};
    struct fi_ops_collective coll_ops = {.size = sizeof(coll_ops), .barrier = barrier1};
    struct fid_fabric fabric = {.ops = &fabric_ops};
    struct fid_domain domain = {.ops = &domain_ops}, *domain_out;
    struct fid_ep ep = {.collective = &coll_ops}, *ep_out;

    assert_int_equal(fi_domain2(&fabric, NULL, &domain_out, 0, NULL), 0);
    assert_string_equal(got.called, "domain");
    assert_int_equal(fi_domain2(&fabric, NULL, &domain_out, FI_PEER, NULL), -FI_ENOSYS);
    fabric_ops.size = sizeof(fabric_ops);
    assert_int_equal(fi_domain2(&fabric, NULL, &domain_out, FI_PEER, NULL), 0);
    assert_string_equal(got.called, "domain2");

    assert_int_equal(fi_endpoint2(&domain, NULL, &ep_out, 0, NULL), 0);
    assert_string_equal(got.called, "endpoint");
    assert_int_equal(fi_endpoint2(&domain, NULL, &ep_out, 1, NULL), -FI_ENOSYS);

    assert_int_equal(fi_barrier2(&ep, 0, 0, NULL), 0);
    assert_string_equal(got.called, "barrier");
    assert_int_equal(fi_barrier2(&ep, 0, FI_PEER_TRANSFER, NULL), -FI_ENOSYS);
}

static void entries_behind_the_size_of_a_table_are_absent(void **state)
{
    struct fi_ops fid_old = {.size = offsetof(struct fi_ops, ops_set)};
    struct fi_ops_domain domain_old = {.size = offsetof(struct fi_ops_domain, query_atomic)};
    struct fi_ops_av av_old = {.size = offsetof(struct fi_ops_av, av_set)};
    struct fi_ops_cntr cntr_old = {.size = offsetof(struct fi_ops_cntr, adderr)};
    struct fi_ops_cm cm_old = {.size = offsetof(struct fi_ops_cm, join)};
    struct fid_domain domain = {.fid = {.ops = &fid_old}, .ops = &domain_old};
    struct fid_av av = {.ops = &av_old};
    struct fid_cntr cntr = {.ops = &cntr_old};
    struct fid_ep ep = {.cm = &cm_old};

    /* The library may not call what lies there. */
    fid_old.ops_set = (int (*)(struct fid *, const char *, uint64_t, void *, void *))(uintptr_t)8;
    av_old.set_user_id = (int (*)(struct fid_av *, fi_addr_t, fi_addr_t, uint64_t))(uintptr_t)8;
    assert_int_equal(fi_set_ops(&domain.fid, "x", 0, NULL, NULL), -FI_ENOSYS);
    assert_int_equal(fi_open_ops(&domain.fid, "x", 0, NULL, NULL), -FI_ENOSYS);
    assert_int_equal(fi_control(&domain.fid, FI_ENABLE, NULL), -FI_ENOSYS);
    assert_int_equal(fi_query_atomic(&domain, FI_INT8, FI_MIN, NULL, 0), -FI_ENOSYS);
    assert_int_equal(fi_query_collective(&domain, FI_BARRIER, NULL, 0), -FI_ENOSYS);
    assert_int_equal(fi_av_set(&av, NULL, NULL, NULL), -FI_ENOSYS);
    assert_int_equal(fi_av_insert_auth_key(&av, NULL, 0, NULL, 0), -FI_ENOSYS);
    assert_int_equal(fi_av_lookup_auth_key(&av, 0, NULL, NULL), -FI_ENOSYS);
    assert_int_equal(fi_av_set_user_id(&av, 0, 0, 0), -FI_ENOSYS);
    assert_int_equal(fi_cntr_adderr(&cntr, 1), -FI_ENOSYS);
    assert_int_equal(fi_cntr_seterr(&cntr, 1), -FI_ENOSYS);
    assert_int_equal(fi_join(&ep, NULL, 0, NULL, NULL), -FI_ENOSYS);
}

static void addresses_tags_and_classes_are_put_together(void **state)
{
    assert_int_equal(fi_rx_addr(5, 3, 8), 0x0300000000000005ULL);
    assert_int_equal(fi_rx_addr(5, 0, 0), 5);
    assert_int_equal(fi_group_addr(5, 7), 0x0000000700000005ULL);
    assert_int_equal(fi_tag_mpi(0x12345678, 0xAB), 0xAB12345678ULL);
    assert_int_equal(fi_tag_mpi(-1, 1), 0x1FFFFFFFFULL);
    assert_int_equal(fi_hmem_ze_device(2, 3), 0x20003);
    assert_int_equal(fi_tc_dscp_set(46), FI_TC_DSCP | 46);
    assert_int_equal(fi_tc_dscp_get(fi_tc_dscp_set(46)), 46);
    assert_int_equal(fi_tc_dscp_get(FI_TC_LOW_LATENCY), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endpoint_controls_carry_their_arguments),
        cmocka_unit_test(region_controls_carry_their_arguments),
        cmocka_unit_test(a_profile_is_opened_by_its_name),
        cmocka_unit_test(joining_a_collective_is_a_join),
        cmocka_unit_test(second_versions_need_their_entry_only_for_flags),
        cmocka_unit_test(entries_behind_the_size_of_a_table_are_absent),
        cmocka_unit_test(addresses_tags_and_classes_are_put_together),
    };

    return cmocka_run_group_tests_name("inline", tests, NULL, NULL);
}
