/* SPDX-License-Identifier: BSD-2-Clause */
/* shape=rdma refuses what a device would: local memory that is not registered for its use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_eq *eq;
static struct fid_ep *ep;
static char memory[4096];

static int open_all(void **state)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA};
    struct fi_eq_attr eq_attr = {0};

    assert_non_null(hints);
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_RX_CQ_DATA;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup("loop(shape=rdma)");
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_eq_open(fabric, &eq_attr, &eq, NULL), 0);
    assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &eq->fid, 0), 0);
    assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(ep), 0);
    return 0;
}

static int close_all(void **state)
{
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&cq->fid), 0);
    assert_int_equal(fi_close(&eq->fid), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
    return 0;
}

static struct fid_mr *registered(uint64_t access)
{
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(domain, memory, 1024, access, 0, 0, 0, &mr, NULL), 0);
    return mr;
}

static ssize_t receive(char *buf, size_t len, void *desc)
{
    return fi_recv(ep, buf, len, desc, FI_ADDR_UNSPEC, NULL);
}

static void receives_need_memory_of_their_descriptor(void **state)
{
    struct fid_mr *mr = registered(FI_RECV);
    void *desc = fi_mr_desc(mr);

    assert_int_equal(receive(memory, 1024, desc), 0);
    assert_int_equal(receive(memory + 24, 1000, desc), 0);
    assert_int_equal(receive(memory, 0, NULL), 0);
    assert_int_equal(receive(memory, 8, NULL), -FI_EINVAL);
    assert_int_equal(receive(memory, 1025, desc), -FI_EINVAL);
    assert_int_equal(receive(memory + 25, 1000, desc), -FI_EINVAL);
    assert_int_equal(receive(memory + 2048, 8, desc), -FI_EINVAL);
    assert_int_equal(receive(memory, 8, memory), -FI_EINVAL);
    assert_int_equal(fi_close(&mr->fid), 0);
    assert_int_equal(receive(memory, 8, desc), -FI_EINVAL);
}

static void rights_are_checked(void **state)
{
    struct fid_mr *mr = registered(FI_SEND | FI_REMOTE_READ);

    assert_int_equal(receive(memory, 8, fi_mr_desc(mr)), -FI_EINVAL);
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void sends_are_as_large_as_a_device_takes(void **state)
{
    static char large[(1 << 20) + 1];
    struct iovec iov[3] = {{large, 1}, {large, 1}, {large, 1}};
    void *descs[3];
    struct fid_mr *mr;
    void *desc;

    assert_int_equal(info->ep_attr->max_msg_size, 1 << 20);
    assert_int_equal(fi_mr_reg(domain, large, sizeof(large), FI_SEND, 0, 0, 0, &mr, NULL), 0);
    desc = descs[0] = descs[1] = descs[2] = fi_mr_desc(mr);
    assert_int_equal(fi_send(ep, large, sizeof(large), desc, FI_ADDR_UNSPEC, NULL), -FI_EMSGSIZE);
    assert_int_equal(fi_send(ep, large, sizeof(large) - 1, desc, FI_ADDR_UNSPEC, NULL),
                     -FI_ENOTCONN);
    assert_int_equal(fi_send(ep, large, 8, NULL, FI_ADDR_UNSPEC, NULL), -FI_EINVAL);
    assert_int_equal(fi_inject(ep, large, 8, FI_ADDR_UNSPEC), -FI_ENOTCONN);
    assert_int_equal(fi_sendv(ep, iov, descs, 3, FI_ADDR_UNSPEC, NULL), -FI_EINVAL);
    assert_int_equal(fi_close(&mr->fid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receives_need_memory_of_their_descriptor),
        cmocka_unit_test(rights_are_checked),
        cmocka_unit_test(sends_are_as_large_as_a_device_takes),
    };

    return cmocka_run_group_tests_name("loop(shape=rdma)", tests, open_all, close_all);
}
