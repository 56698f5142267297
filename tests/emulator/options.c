/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of endpoints of both fabrics, with libfabric's answers: those of sizes, and
 * FI_OPT_EFA_USE_DEVICE_RDMA beside FI_EFA_USE_DEVICE_RDMA. The first argument is the fabric, the
 * second the variable's value or "auto".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include "tests/support/end.h"

static const char *fabric, *variable;
static bool direct;
static struct end end;

static int open_all(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *info;

    hints->caps = FI_MSG | FI_RMA | (direct ? 0 : FI_TAGGED | FI_ATOMIC);
    hints->mode = FI_RX_CQ_DATA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->name = strdup(fabric);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    end_open(&end, info, FI_CQ_FORMAT_DATA);
    return 0;
}

static int close_all(void **state)
{
    end_close(&end);
    return 0;
}

static int get(struct fid_ep *ep, int name, void *value, size_t *len)
{
    return fi_getopt(&ep->fid, FI_OPT_ENDPOINT, name, value, len);
}

static int set(struct fid_ep *ep, int name, const void *value, size_t len)
{
    return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, name, value, len);
}

/* A size is told, and may be set to less than the device has before fi_enable, not to more. */
static void check_size(struct fid_ep *ep, int name)
{
    size_t most = 0, less = 0, len = sizeof(most);

    assert_int_equal(get(ep, name, &most, &len), 0);
    assert_true(most > 1);
    len = 4;
    assert_int_equal(get(ep, name, &less, &len), -FI_ETOOSMALL);
    if (++most)
        assert_int_equal(set(ep, name, &most, sizeof(most)), -FI_EINVAL);
    most -= 2;
    assert_int_equal(set(ep, name, &most, 4), -FI_EINVAL);
    assert_int_equal(set(ep, name, &most, sizeof(most)), 0);
    len = sizeof(less);
    assert_int_equal(get(ep, name, &less, &len), 0);
    assert_int_equal(less, most);
}

/* Those of tags and atomics are of fabric efa alone. */
static void sizes_may_be_less(void **state)
{
    static const int both[] = {FI_OPT_MAX_MSG_SIZE, FI_OPT_MAX_RMA_SIZE, FI_OPT_INJECT_MSG_SIZE},
                     layered[] = {FI_OPT_MAX_TAGGED_SIZE, FI_OPT_MAX_ATOMIC_SIZE,
                                  FI_OPT_INJECT_TAGGED_SIZE, FI_OPT_INJECT_ATOMIC_SIZE};
    struct fid_ep *ep;
    size_t size = 1, len = sizeof(size);

    assert_int_equal(fi_endpoint(end.domain, end.info, &ep, NULL), 0);
    for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++)
        check_size(ep, both[i]);
    for (size_t i = 0; i < sizeof(layered) / sizeof(layered[0]); i++) {
        if (!direct) {
            check_size(ep, layered[i]);
            continue;
        }
        assert_int_equal(get(ep, layered[i], &size, &len), -FI_ENOPROTOOPT);
        assert_int_equal(set(ep, layered[i], &size, sizeof(size)), -FI_ENOPROTOOPT);
    }
    assert_int_equal(fi_close(&ep->fid), 0);
}

static void others_are_refused(void **state)
{
    size_t size = 1, len = sizeof(size);

    assert_int_equal(get(end.ep, 12345, &size, &len), -FI_ENOPROTOOPT);
    assert_int_equal(set(end.ep, 12345, &size, sizeof(size)), -FI_ENOPROTOOPT);
    assert_int_equal(fi_setopt(&end.ep->fid, 77, FI_OPT_MAX_MSG_SIZE, &size, sizeof(size)),
                     -FI_ENOPROTOOPT);
}

/* The variable wins, in fabric efa: what contradicts it is refused. */
static void the_variable_is_not_contradicted(void **state)
{
    const bool values[] = {false, true};
    struct fid_ep *ep;

    if (direct)
        skip();
    for (int i = 0; i < 2; i++) {
        bool contradicts = !strcmp(variable, i ? "0" : "1");

        assert_int_equal(fi_endpoint(end.domain, end.info, &ep, NULL), 0);
        assert_int_equal(set(ep, FI_OPT_EFA_USE_DEVICE_RDMA, &values[i], sizeof(values[i])),
                         contradicts ? -FI_EINVAL : 0);
        assert_int_equal(fi_close(&ep->fid), 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sizes_may_be_less, open_all, close_all),
        cmocka_unit_test_setup_teardown(others_are_refused, open_all, close_all),
        cmocka_unit_test_setup_teardown(the_variable_is_not_contradicted, open_all, close_all),
    };

    if (argc < 3)
        return 2;
    fabric = argv[1];
    variable = argv[2];
    direct = !strcmp(fabric, "efa-direct");
    return cmocka_run_group_tests_name("efa: options", tests, NULL, NULL);
}
