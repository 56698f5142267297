/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of endpoints of both fabrics, with libfabric's answers: those of sizes, and
 * FI_OPT_EFA_USE_DEVICE_RDMA beside FI_EFA_USE_DEVICE_RDMA; and what fi_getinfo makes of hints. The
 * first argument is the fabric, the second the variable's value or "auto".
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

static int open_as(uint32_t version)
{
    struct fi_info *hints = fi_allocinfo(), *info;

    hints->caps = FI_MSG | FI_RMA | (direct ? 0 : FI_TAGGED | FI_ATOMIC);
    hints->mode = FI_RX_CQ_DATA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->name = strdup(fabric);
    assert_int_equal(fi_getinfo(version, NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    end_open(&end, info, FI_CQ_FORMAT_DATA);
    return 0;
}

static int open_all(void **state)
{
    return open_as(FI_VERSION(2, 0));
}

static int open_old(void **state)
{
    return open_as(FI_VERSION(1, 17));
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

/* Options of tags and atomics are of fabric efa alone. */
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

/* The variable wins, in fabric efa: an option that contradicts it is refused. */
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

/* An application that does not know the option decides by the variable alone. */
static void older_applications_have_no_such_option(void **state)
{
    const bool no = false;

    assert_int_equal(set(end.ep, FI_OPT_EFA_USE_DEVICE_RDMA, &no, sizeof(no)), -FI_ENOPROTOOPT);
}

/* How often the device asks a receiver that is not ready: 0 to 7, before fi_enable. */
static void retries_are_set_before_enable(void **state)
{
    size_t retries = 3, told = 0, len = sizeof(told);
    struct fid_ep *ep;

    assert_int_equal(fi_endpoint(end.domain, end.info, &ep, NULL), 0);
    assert_int_equal(set(ep, FI_OPT_EFA_RNR_RETRY, &retries, sizeof(retries)), 0);
    assert_int_equal(get(ep, FI_OPT_EFA_RNR_RETRY, &told, &len), 0);
    assert_int_equal(told, 3);
    retries = 8;
    assert_int_equal(set(ep, FI_OPT_EFA_RNR_RETRY, &retries, sizeof(retries)), -FI_EINVAL);
    assert_int_equal(fi_close(&ep->fid), 0);
    retries = 3;
    assert_int_equal(set(end.ep, FI_OPT_EFA_RNR_RETRY, &retries, sizeof(retries)), -FI_EINVAL);
}

/* A multi-receive buffer is done when it has no room for what a packet holds: 168 bytes of it are
 * for headers. Packets of efa-direct are the device's, whose sizes are its MTU. */
static void multi_receives_have_room_for_a_packet(void **state)
{
    size_t least = 0, len = sizeof(least);
    struct fi_info *hints, *packets;

    if (direct)
        skip();
    hints = fi_allocinfo();
    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->name = strdup("efa-direct");
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &packets), 0);
    assert_int_equal(get(end.ep, FI_OPT_MIN_MULTI_RECV, &least, &len), 0);
    assert_int_equal(least, packets->ep_attr->max_msg_size - 168);
    fi_freeinfo(packets);
    fi_freeinfo(hints);
}

/* ---- What fi_getinfo makes of hints ---- */

enum hint {
    NOTHING,
    ORDER,
    NO_LOCAL_REGIONS,
    UNMANAGED,
    DOMAIN,
    ANOTHER_DOMAIN,
    BUS,
    ANOTHER_BUS,
    LOW_LATENCY,
    MANUAL,
    AUTO,
};

static void set_bus(struct fi_info *hints, bool other)
{
    struct fi_info *copy = fi_dupinfo(end.info);

    hints->nic = copy->nic;
    copy->nic = NULL;
    fi_freeinfo(copy);
    assert_int_equal(hints->nic->bus_attr->bus_type, FI_BUS_PCI);
    hints->nic->bus_attr->attr.pci.bus_id += other;
}

static void say(struct fi_info *hints, enum hint hint)
{
    switch (hint) {
    case ORDER: hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS; break;
    case NO_LOCAL_REGIONS: hints->domain_attr->mr_mode = 0; break;
    case UNMANAGED: hints->domain_attr->resource_mgmt = FI_RM_DISABLED; break;
    case DOMAIN: hints->domain_attr->name = strdup("efa_0-rdm"); break;
    case ANOTHER_DOMAIN: hints->domain_attr->name = strdup("efa_7-rdm"); break;
    case BUS:
    case ANOTHER_BUS: set_bus(hints, hint == ANOTHER_BUS); break;
    case LOW_LATENCY: hints->tx_attr->tclass = FI_TC_LOW_LATENCY; break;
    case MANUAL: hints->domain_attr->data_progress = FI_PROGRESS_MANUAL; break;
    case AUTO: hints->domain_attr->data_progress = FI_PROGRESS_AUTO; break;
    default: break;
    }
}

static struct fi_info *ask(enum hint hint)
{
    struct fi_info *hints = fi_allocinfo(), *found = NULL;

    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->name = strdup(fabric);
    say(hints, hint);
    if (fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &found))
        found = NULL;
    fi_freeinfo(hints);
    return found;
}

static bool is_found(enum hint hint)
{
    struct fi_info *info = ask(hint);

    fi_freeinfo(info);
    return info;
}

static void an_order_is_as_asked(void **state)
{
    struct fi_info *info = ask(NOTHING);

    assert_int_equal(info->tx_attr->msg_order | info->rx_attr->msg_order, 0);
    assert_int_equal(info->ep_attr->max_order_raw_size | info->ep_attr->max_order_waw_size, 0);
    fi_freeinfo(info);
    info = ask(ORDER);
    assert_true(!info == direct);
    assert_true(direct || info->rx_attr->msg_order & FI_ORDER_SAS);
    fi_freeinfo(info);
}

static void regions_are_as_asked(void **state)
{
    struct fi_info *info = ask(NO_LOCAL_REGIONS);

    assert_true(!info == direct);
    assert_true(direct || !(info->domain_attr->mr_mode & FI_MR_LOCAL));
    fi_freeinfo(info);
    info = ask(NOTHING);
    assert_true(info->domain_attr->mr_mode & FI_MR_LOCAL);
    assert_int_equal(info->domain_attr->resource_mgmt, FI_RM_ENABLED);
    fi_freeinfo(info);
    info = ask(UNMANAGED);
    assert_true(direct || info->domain_attr->resource_mgmt == FI_RM_DISABLED);
    fi_freeinfo(info);
}

static void names_choose(void **state)
{
    assert_true(is_found(DOMAIN));
    assert_false(is_found(ANOTHER_DOMAIN));
    assert_true(is_found(BUS));
    assert_false(is_found(ANOTHER_BUS));
}

/* The caller sees what the device was asked for: its level 8, by this endpoint alone. */
static void low_latency_has_its_level(void **state)
{
    struct fi_info *info = ask(LOW_LATENCY);

    assert_int_equal(info->tx_attr->tclass, FI_TC_LOW_LATENCY);
    end_open(&end, info, FI_CQ_FORMAT_DATA);
    end_close(&end);
}

static void progress_is_as_asked(void **state)
{
    struct fi_info *info = ask(MANUAL);

    assert_non_null(info);
    assert_int_equal(info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
    fi_freeinfo(info);
    info = ask(AUTO);
    assert_int_equal(info->domain_attr->data_progress, FI_PROGRESS_AUTO);
    fi_freeinfo(info);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sizes_may_be_less, open_all, close_all),
        cmocka_unit_test_setup_teardown(others_are_refused, open_all, close_all),
        cmocka_unit_test_setup_teardown(the_variable_is_not_contradicted, open_all, close_all),
        cmocka_unit_test_setup_teardown(older_applications_have_no_such_option, open_old,
                                        close_all),
        cmocka_unit_test_setup_teardown(retries_are_set_before_enable, open_all, close_all),
        cmocka_unit_test_setup_teardown(multi_receives_have_room_for_a_packet, open_all, close_all),
        cmocka_unit_test(an_order_is_as_asked),
        cmocka_unit_test(regions_are_as_asked),
        cmocka_unit_test_setup_teardown(names_choose, open_all, close_all),
        cmocka_unit_test(low_latency_has_its_level),
        cmocka_unit_test(progress_is_as_asked),
    };

    if (argc < 3)
        return 2;
    fabric = argv[1];
    variable = argv[2];
    direct = !strcmp(fabric, "efa-direct");
    return cmocka_run_group_tests_name("efa: options", tests, NULL, NULL);
}
