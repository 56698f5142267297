/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts that need no device: private data, depths, errors, numbers, infos of made-up
 * attributes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/net/rdma_nic.h"
#include "core/op/op.h"
#include "transports/verbs/verbs_atomic.h"
#include "transports/verbs/verbs_cq.h"
#include "transports/verbs/verbs_ep.h"
#include "transports/verbs/verbs_info.h"
#include "transports/verbs/verbs_private.h"

extern const struct part verbs_part;

static void private_data_survives_padding(void **state)
{
    uint8_t raw[196] = {0}, data[VERBS_CM_DATA];

    for (size_t len = 0; len <= VERBS_CM_DATA; len++) {
        const uint8_t *got;
        size_t got_len;

        memset(data, (int)len + 1, sizeof(data));
        memset(raw, 0, sizeof(raw));
        assert_int_equal(verbs_private_put(data, len, raw), len + 1);
        assert_int_equal(raw[0], len);
        assert_true(verbs_private_get(raw, sizeof(raw), &got, &got_len));
        assert_int_equal(got_len, len);
        assert_memory_equal(got, data, len);
        assert_true(verbs_private_get(raw, len + 1, &got, &got_len));
    }
}

static void private_data_that_promises_more_is_refused(void **state)
{
    uint8_t raw[256] = {0};
    const uint8_t *got;
    size_t len = 9;

    raw[0] = 8;
    assert_false(verbs_private_get(raw, 8, &got, &len));
    assert_int_equal(len, 0);
    raw[0] = VERBS_CM_DATA + 1;
    assert_false(verbs_private_get(raw, sizeof(raw), &got, &len));
    assert_true(verbs_private_get(raw, 0, &got, &len));
    assert_int_equal(len, 0);
    assert_true(verbs_private_get(NULL, 0, &got, &len));
}

static void queues_of_the_device_never_overrun(void **state)
{
    assert_int_equal(verbs_cq_room(0, 0, 768, 32767), 1024);
    assert_int_equal(verbs_cq_room(1024, 768, 768, 32767), 2048);
    assert_int_equal(verbs_cq_room(1024, 0, 768, 32767), 1024);
    assert_int_equal(verbs_cq_room(16384, 16000, 768, 32767), 32767);
    assert_int_equal(verbs_cq_room(32767, 32256, 511, 32767), 32767);
    assert_int_equal(verbs_cq_room(32767, 32256, 768, 32767), SIZE_MAX);
    assert_int_equal(verbs_cq_room(0, 0, 100, 64), SIZE_MAX);
}

static void rings_have_room_for_what_is_promised(void **state)
{
    struct verbs_ring ring;

    assert_int_equal(verbs_ring_init(&ring, 384), 0);
    assert_int_equal(ring.mask, 511);
    assert_int_equal(ring.limit, 384);
    assert_int_equal(verbs_ring_init(&ring, 1), 0);
    assert_int_equal(ring.mask, 0);
    assert_int_equal(verbs_ring_init(&ring, (1 << 20) + 1), -FI_EINVAL);
}

static void work_numbers_name_endpoint_and_place(void **state)
{
    uint64_t id = verbs_wr_id(0xfedcba98, true, 0x7ffffff);

    assert_int_equal(id >> 32, 0xfedcba98);
    assert_int_equal(id >> 31 & 1, 1);
    assert_int_equal(id & 0x7fffffff, 0x7ffffff);
    assert_int_equal(verbs_wr_id(1, false, 3) >> 31 & 1, 0);
}

static void failures_to_connect_are_told_apart(void **state)
{
    assert_int_equal(verbs_cm_error(RDMA_CM_EVENT_REJECTED, 28), FI_ECONNREFUSED);
    assert_int_equal(verbs_cm_error(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT), FI_ETIMEDOUT);
    assert_int_equal(verbs_cm_error(RDMA_CM_EVENT_UNREACHABLE, -ENETUNREACH), FI_EHOSTUNREACH);
    assert_int_equal(verbs_cm_error(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV), FI_EHOSTUNREACH);
    assert_int_equal(verbs_cm_error(RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT), FI_ETIMEDOUT);
    assert_int_equal(verbs_cm_error(RDMA_CM_EVENT_DEVICE_REMOVAL, 0), FI_ENODEV);
    assert_int_equal(verbs_cm_error(RDMA_CM_EVENT_CONNECT_ERROR, 0), FI_ECONNABORTED);
}

static void statuses_of_work_are_errors(void **state)
{
    assert_int_equal(verbs_status_error(IBV_WC_SUCCESS, false), 0);
    assert_int_equal(verbs_status_error(IBV_WC_WR_FLUSH_ERR, true), FI_ECANCELED);
    assert_int_equal(verbs_status_error(IBV_WC_LOC_LEN_ERR, true), FI_ETRUNC);
    assert_int_equal(verbs_status_error(IBV_WC_LOC_LEN_ERR, false), FI_EMSGSIZE);
    assert_int_equal(verbs_status_error(IBV_WC_REM_ACCESS_ERR, false), FI_EACCES);
    assert_int_equal(verbs_status_error(IBV_WC_RETRY_EXC_ERR, false), FI_ETIMEDOUT);
    assert_int_equal(verbs_status_error(IBV_WC_RNR_RETRY_EXC_ERR, false), FI_ENORX);
    assert_int_equal(verbs_status_error(IBV_WC_FATAL_ERR, false), FI_EIO);
}

static void links_have_mtu_and_speed(void **state)
{
    assert_int_equal(rdma_mtu(IBV_MTU_256), 256);
    assert_int_equal(rdma_mtu(IBV_MTU_4096), 4096);
    assert_int_equal(rdma_mtu(0), 0);
    assert_int_equal(rdma_speed(32, 2),
                     SIZE_MAX < 100000000000 ? SIZE_MAX : 100000000000); /* EDR, 4 lanes */
    assert_int_equal(rdma_speed(1, 1), 2500000000);
    assert_int_equal(rdma_speed(3, 2), 0);
}

/* A device of a PCI card, as the kernel shows one in sysfs. */
static const char *const card[] = {"class",   "class/infiniband",  "class/infiniband/fake0",
                                   "drivers", "drivers/fake_core", "0001:03:02.1",
                                   NULL};

static void make_card(const char *root)
{
    assert_int_equal(chdir(root), 0);
    for (size_t i = 0; card[i]; i++)
        assert_int_equal(mkdir(card[i], 0700), 0);
    assert_int_equal(symlink("../../../0001:03:02.1", "class/infiniband/fake0/device"), 0);
    assert_int_equal(symlink("../drivers/fake_core", "0001:03:02.1/driver"), 0);
}

static void remove_card(const char *root)
{
    unlink("class/infiniband/fake0/device");
    unlink("0001:03:02.1/driver");
    for (size_t i = sizeof(card) / sizeof(*card) - 1; i > 0; i--)
        assert_int_equal(rmdir(card[i - 1]), 0);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(root), 0);
}

static void a_nic_tells_all_of_its_card(void **state)
{
    const struct ibv_device_attr device = {
        .fw_ver = "16.35.2", .vendor_id = 0x2c9, .vendor_part_id = 4121, .hw_ver = 7};
    struct ibv_port_attr port = {.state = IBV_PORT_ACTIVE,
                                 .active_mtu = IBV_MTU_4096,
                                 .active_speed = 1,
                                 .active_width = 1,
                                 .link_layer = IBV_LINK_LAYER_ETHERNET};
    char root[] = "/tmp/weft-card-XXXXXX";
    struct fi_info *info = info_alloc();
    struct fid_nic *nic;

    assert_non_null(info);
    assert_non_null(mkdtemp(root));
    make_card(root);
    setenv("SYSFS_PATH", root, 1);
    nic = info->nic = rdma_nic("fake0", &device, &port, "10.0.0.7");
    unsetenv("SYSFS_PATH");
    remove_card(root);
    assert_non_null(nic);
    assert_string_equal(nic->device_attr->name, "fake0");
    assert_string_equal(nic->device_attr->device_id, "0x1019");
    assert_string_equal(nic->device_attr->vendor_id, "0x02c9");
    assert_string_equal(nic->device_attr->device_version, "7");
    assert_string_equal(nic->device_attr->driver, "fake_core");
    assert_string_equal(nic->device_attr->firmware, "16.35.2");
    assert_int_equal(nic->bus_attr->bus_type, FI_BUS_PCI);
    assert_int_equal(nic->bus_attr->attr.pci.domain_id, 1);
    assert_int_equal(nic->bus_attr->attr.pci.bus_id, 3);
    assert_int_equal(nic->bus_attr->attr.pci.device_id, 2);
    assert_int_equal(nic->bus_attr->attr.pci.function_id, 1);
    assert_string_equal(nic->link_attr->address, "10.0.0.7");
    assert_int_equal(nic->link_attr->mtu, 4096);
    assert_int_equal(nic->link_attr->speed, 2500000000);
    assert_int_equal(nic->link_attr->state, FI_LINK_UP);
    assert_string_equal(nic->link_attr->network_type, "Ethernet");
    info_free(info);
}

static void limits_are_the_devices(void **state)
{
    struct verbs_device device = {.name = "fake0",
                                  .inline_max = 60,
                                  .attr = {.max_qp_wr = 100,
                                           .max_sge = 3,
                                           .max_cq = 7,
                                           .max_qp = 9,
                                           .max_mr = 11,
                                           .max_cqe = 1000}};
    struct verbs_place place = {.device = &device, .port = 1, .port_attr = {.max_msg_sz = 8 << 20}};
    struct fi_info *info = info_alloc();
    struct params *params;
    char why[100];
    size_t bad;

    assert_non_null(info);
    assert_int_equal(params_resolve("verbs", "verbs", verbs_part.params, NULL, 0, &params, &bad,
                                    why, sizeof(why)),
                     0);
    verbs_info_fill(info, &place, params);
    assert_int_equal(info->tx_attr->size, 100);
    assert_int_equal(info->rx_attr->size, 100);
    assert_int_equal(info->tx_attr->iov_limit, 3);
    assert_int_equal(info->tx_attr->inject_size, 60);
    assert_int_equal(info->ep_attr->max_msg_size, 8 << 20);
    assert_int_equal(info->domain_attr->cq_cnt, 7);
    assert_int_equal(info->domain_attr->ep_cnt, 9);
    assert_int_equal(info->domain_attr->mr_cnt, 11);
    assert_int_equal(info->domain_attr->mr_key_size, 4);
    assert_false(info->caps & FI_ATOMIC);
    assert_false(info->tx_attr->msg_order & (FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR));
    assert_true(info->domain_attr->mr_mode & FI_MR_LOCAL);
    params_destroy(params);
    info_free(info);
}

static void only_aligned_integers_of_8_bytes_are_atomic(void **state)
{
    uint64_t values[2] = {1, 2};
    struct fi_ioc ioc = {values, 1};
    struct fi_rma_ioc at = {.addr = 0x1000, .count = 1, .key = 5};
    struct op op = {.call = OP_ATOMIC,
                    .group = OP_GROUP_ATOMIC,
                    .ioc = &ioc,
                    .count = 1,
                    .len = 1,
                    .rma_ioc = &at,
                    .rma_count = 1,
                    .datatype = FI_UINT64,
                    .op = FI_SUM};

    assert_int_equal(verbs_atomic_check(&op), 0);
    at.addr = 0x1004;
    assert_int_equal(verbs_atomic_check(&op), -FI_EINVAL);
    at.addr = 0x1008;
    op.datatype = FI_DOUBLE;
    assert_int_equal(verbs_atomic_check(&op), -FI_EOPNOTSUPP);
    op.datatype = FI_UINT32;
    assert_int_equal(verbs_atomic_check(&op), -FI_EOPNOTSUPP);
    op.datatype = FI_INT64;
    assert_int_equal(verbs_atomic_check(&op), 0);
    op.op = FI_ATOMIC_WRITE;
    assert_int_equal(verbs_atomic_check(&op), -FI_EOPNOTSUPP);
    op.op = FI_SUM;
    ioc.count = op.len = at.count = 2;
    assert_int_equal(verbs_atomic_check(&op), -FI_EMSGSIZE);
}

static void what_is_atomic_is_told_before(void **state)
{
    size_t count = 9;

    assert_int_equal(verbs_atomic_valid(NULL, 0, FI_UINT64, FI_SUM, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(verbs_atomic_valid(NULL, FI_FETCH_ATOMIC, FI_INT64, FI_SUM, &count), 0);
    assert_int_equal(verbs_atomic_valid(NULL, FI_FETCH_ATOMIC, FI_UINT64, FI_ATOMIC_READ, NULL), 0);
    assert_int_equal(verbs_atomic_valid(NULL, FI_COMPARE_ATOMIC, FI_UINT64, FI_CSWAP, NULL), 0);
    assert_int_equal(verbs_atomic_valid(NULL, FI_COMPARE_ATOMIC, FI_UINT64, FI_CSWAP_NE, NULL),
                     -FI_EOPNOTSUPP);
    assert_int_equal(verbs_atomic_valid(NULL, FI_FETCH_ATOMIC, FI_UINT64, FI_BOR, NULL),
                     -FI_EOPNOTSUPP);
    assert_int_equal(verbs_atomic_valid(NULL, 0, FI_FLOAT, FI_SUM, NULL), -FI_EOPNOTSUPP);
}

static void reads_have_the_segments_of_the_device(void **state)
{
    struct ibv_device_attr device = {.max_sge_rd = 1};

    assert_int_equal(verbs_read_segments(&device, 4), 1);
    device.max_sge_rd = 30;
    assert_int_equal(verbs_read_segments(&device, 4), 4);
    device.max_sge_rd = 0; /* it does not say */
    assert_int_equal(verbs_read_segments(&device, 4), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_data_survives_padding),
        cmocka_unit_test(private_data_that_promises_more_is_refused),
        cmocka_unit_test(queues_of_the_device_never_overrun),
        cmocka_unit_test(rings_have_room_for_what_is_promised),
        cmocka_unit_test(work_numbers_name_endpoint_and_place),
        cmocka_unit_test(failures_to_connect_are_told_apart),
        cmocka_unit_test(statuses_of_work_are_errors),
        cmocka_unit_test(links_have_mtu_and_speed),
        cmocka_unit_test(a_nic_tells_all_of_its_card),
        cmocka_unit_test(limits_are_the_devices),
        cmocka_unit_test(only_aligned_integers_of_8_bytes_are_atomic),
        cmocka_unit_test(what_is_atomic_is_told_before),
        cmocka_unit_test(reads_have_the_segments_of_the_device),
    };

    return cmocka_run_group_tests_name("verbs", tests, NULL, NULL);
}
