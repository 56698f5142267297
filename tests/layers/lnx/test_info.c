/* SPDX-License-Identifier: BSD-2-Clause */
/* The hints that the join passes to its branches, and the infos that it makes of two of theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "layers/lnx/lnx_info.h"

extern const struct part lnx_part;

static struct fi_info *near, *far, *hints; /* of shared memory, of a network */
static struct params *params;
static struct reasons *reasons;

static struct fi_info *branch_info(const char *domain, uint64_t reach)
{
    struct fi_info *info = info_alloc();

    assert_non_null(info);
    info->caps = FI_MSG | FI_TAGGED | FI_ATOMIC | FI_FENCE | FI_PEER | reach;
    info->addr_format = FI_ADDR_STR;
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->protocol = FI_PROTO_SHM;
    info->ep_attr->mem_tag_format = UINT64_MAX / 3 * 2;
    info->domain_attr->max_ep_srx_ctx = 1;
    assert_int_equal(info_set_string(&info->domain_attr->name, domain), 0);
    assert_int_equal(info_set_string(&info->fabric_attr->name, domain), 0);
    return info;
}

static int set_up(void **state)
{
    char why[256];
    size_t bad;

    near = branch_info("here", FI_LOCAL_COMM);
    far = branch_info("net", FI_LOCAL_COMM | FI_REMOTE_COMM);
    hints = info_alloc();
    reasons = reasons_create();
    assert_non_null(hints);
    assert_non_null(reasons);
    return params_resolve("lnx", "lnx", lnx_part.params, NULL, 0, &params, &bad, why, sizeof(why));
}

static int tear_down(void **state)
{
    info_free(near);
    info_free(far);
    info_free(hints);
    reasons_destroy(reasons);
    params_destroy(params);
    return 0;
}

static struct request request(void)
{
    return (struct request){
        .hints = hints, .params = params, .part = &lnx_part, .reasons = reasons, .cpu_atomics = 3};
}

/* The only info of both, or NULL. */
static struct fi_info *join(const struct request *req)
{
    const struct fi_info *branches[] = {near, far};
    struct fi_info *info = NULL;

    lnx_join(req, branches, 2, &info);
    assert_true(!info || !info->next);
    return info;
}

static void sizes_are_the_least_and_orders_those_of_all(void **state)
{
    struct request req = request();
    struct fi_info *info;

    near->tx_attr->inject_size = 100;
    far->tx_attr->inject_size = 200;
    near->ep_attr->max_msg_size = 5000;
    far->ep_attr->max_msg_size = 4000;
    near->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_WAW;
    far->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_RAR;
    near->caps |= FI_RMA;
    near->mode = FI_CONTEXT;
    info = join(&req);
    assert_non_null(info);
    assert_int_equal(info->tx_attr->inject_size, 100);
    assert_int_equal(info->ep_attr->max_msg_size, 4000);
    assert_int_equal(info->tx_attr->msg_order, FI_ORDER_SAS);
    assert_int_equal(info->caps & (FI_RMA | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_TAGGED),
                     FI_LOCAL_COMM | FI_REMOTE_COMM | FI_TAGGED);
    assert_int_equal(info->mode, FI_CONTEXT);
    assert_string_equal(info->domain_attr->name, "here+net");
    info_free(info);
}

/* A region has one mechanism. */
static void atomics_want_a_cpu_in_every_branch(void **state)
{
    struct request req = request();
    struct fi_info *info = join(&req);

    assert_non_null(info);
    assert_true(info->caps & FI_ATOMIC);
    info_free(info);
    req.cpu_atomics = 1;
    info = join(&req);
    assert_non_null(info);
    assert_false(info->caps & FI_ATOMIC);
    info_free(info);
    assert_non_null(strstr(reasons_summary(reasons),
                           "no FI_ATOMIC, since branch 2 leaves atomics to a device"));
}

static void a_join_is_no_branch(void **state)
{
    struct request req = request();
    struct fi_info *info = join(&req);

    assert_non_null(info);
    info_free(far);
    far = info;
    assert_null(join(&req));
    assert_non_null(reasons_summary(reasons));
    assert_non_null(strstr(reasons_summary(reasons), "branch 2 is a join"));
}

/* They write into our queues, and say sources as we number them; only a network has the node. */
static void branches_are_asked_for_peer_objects_and_user_ids(void **state)
{
    struct request req = request();
    struct fi_info *needs = NULL;
    size_t named = 0;

    hints->caps = FI_TAGGED | FI_REMOTE_COMM | FI_SOURCE_ERR;
    req.node = "here";
    req.named = &named;
    assert_int_equal(lnx_needs(&req, &needs), 0);
    assert_int_equal(named, 1);
    assert_int_equal(needs->caps,
                     FI_TAGGED | FI_SOURCE_ERR | FI_PEER | FI_AV_USER_ID | FI_REMOTE_COMM);
    assert_int_equal(needs->next->caps, FI_TAGGED | FI_SOURCE_ERR | FI_PEER | FI_AV_USER_ID);
    assert_null(needs->next->next);
    info_free(needs);
    hints->caps = FI_SHARED_AV;
    assert_int_equal(lnx_needs(&req, &needs), -FI_ENODATA);
}

/* An info of ours as hints, as layers ask for what they open: its addresses are those of hints. */
static void addresses_of_hints_are_kept(void **state)
{
    struct request req = request();
    struct fi_info *own, *again;

    assert_int_equal(info_set_src(near, "fi_shm://one", 13), 0);
    assert_int_equal(info_set_src(far, "fi_net://1", 11), 0);
    far->ep_attr->protocol = FI_PROTO_RXM;
    own = join(&req);
    assert_non_null(own);
    assert_int_equal(info_set_src(near, "fi_shm://two", 13), 0);
    assert_int_equal(info_set_src(hints, own->src_addr, own->src_addrlen), 0);
    assert_int_equal(info_set_dest(hints, own->src_addr, own->src_addrlen), 0);
    again = join(&req);
    assert_non_null(again);
    assert_int_equal(again->src_addrlen, own->src_addrlen);
    assert_memory_equal(again->src_addr, own->src_addr, own->src_addrlen);
    assert_int_equal(again->dest_addrlen, own->src_addrlen);
    assert_memory_equal(again->dest_addr, own->src_addr, own->src_addrlen);
    info_free(again);
    /* A service is for the source. */
    req.service = "4711";
    req.flags = FI_SOURCE;
    again = join(&req);
    assert_non_null(again);
    assert_memory_not_equal(again->src_addr, own->src_addr, own->src_addrlen);
    assert_memory_equal(again->dest_addr, own->src_addr, own->src_addrlen);
    info_free(again);
    info_free(own);
}

static void addresses_of_hints_are_ours(void **state)
{
    struct request req = request();
    struct fi_info *own;

    assert_int_equal(info_set_src(near, "fi_shm://one", 13), 0);
    own = join(&req);
    assert_non_null(own);
    assert_int_equal(info_set_src(hints, own->src_addr, own->src_addrlen), 0);
    info_free(own);
    near->ep_attr->protocol = far->ep_attr->protocol = FI_PROTO_RXM;
    assert_null(join(&req));
    assert_non_null(strstr(reasons_summary(reasons), "src_addr: no address of this lnx: it is of "
                                                     "branches that this bracket lacks"));
    reasons_destroy(reasons);
    req.reasons = reasons = reasons_create();
    assert_int_equal(info_set_dest(hints, "x", 2), 0);
    assert_int_equal(info_set_src(hints, NULL, 0), 0);
    assert_null(join(&req));
    assert_non_null(strstr(reasons_summary(reasons), "dest_addr: no address of this lnx: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sizes_are_the_least_and_orders_those_of_all, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(atomics_want_a_cpu_in_every_branch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_join_is_no_branch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(branches_are_asked_for_peer_objects_and_user_ids, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(addresses_of_hints_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(addresses_of_hints_are_ours, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("lnx infos", tests, NULL, NULL);
}
