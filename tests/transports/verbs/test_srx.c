/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive contexts, on a device that counts what is posted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "transports/verbs/verbs_ep.h"
#include "transports/verbs/verbs_srx.h"

enum {
    SIZE = 4,
    QP = 0xabcdef
};

static struct {
    int posted, refuse;
    uint64_t last;
    struct ibv_sge sge;
} fake;

static struct ibv_context context;
static struct ibv_srq device_srq = {.context = &context};
static struct ibv_qp qp = {.qp_num = QP};
static struct ibv_mr mr = {.lkey = 77};
static struct verbs_device device = {.name = "fake0", .attr = {.max_srq = 1, .max_srq_wr = SIZE}};
static struct verbs_domain domain;
static struct verbs_cq cq = {.domain = &domain};
static struct verbs_ep *ep;
static struct fid_ep *srx;

static int fake_post(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (fake.refuse)
        return fake.refuse;
    fake.posted++;
    fake.last = wr->wr_id;
    fake.sge = *wr->sg_list;
    return 0;
}

static struct ibv_srq *fake_create(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    return &device_srq;
}

static int fake_destroy(struct ibv_srq *srq)
{
    return 0;
}

static int set_up(void **state)
{
    memset(&fake, 0, sizeof(fake));
    context.ops.post_srq_recv = fake_post;
    verbs_lib.create_srq = fake_create;
    verbs_lib.destroy_srq = fake_destroy;
    domain.device = &device;
    domain.forks = fork_generation;
    pthread_mutex_init(&domain.mutex, NULL);
    domain.base.info = info_alloc();
    ep = calloc(1, sizeof(*ep));
    assert_true(domain.base.info && ep);
    domain.base.info->rx_attr->size = SIZE;
    domain.base.info->rx_attr->iov_limit = 2;
    assert_int_equal(verbs_srx_open(&domain.base.fid, NULL, &srx, NULL), 0);
    ep->domain = &domain;
    ep->cq = &cq;
    ep->qp = &qp;
    ep->srx = object_of(srx, struct verbs_srx, base.fid);
    assert_int_equal(verbs_srx_join(ep), 0);
    return 0;
}

static int tear_down(void **state)
{
    verbs_srx_leave(ep);
    assert_int_equal(fi_close(&srx->fid), 0);
    verbs_srx_forget(&domain);
    info_free(domain.base.info);
    free(ep);
    return 0;
}

static ssize_t receive(void *buf)
{
    return fi_recv(srx, buf, 8, &mr, 0, buf);
}

static void arrives(uint32_t number, enum ibv_wc_status status)
{
    struct ibv_wc wc = {
        .wr_id = fake.last, .status = status, .qp_num = number, .opcode = IBV_WC_RECV};

    verbs_srx_received(&cq, (uint32_t)fake.last & 0x7fffffff, &wc);
}

static void a_context_has_the_receives_that_it_was_opened_for(void **state)
{
    char buf[8];

    for (int i = 0; i < SIZE; i++)
        assert_int_equal(receive(buf), 0);
    assert_int_equal(receive(buf), -FI_EAGAIN);
    assert_int_equal(fi_rx_size_left(srx), 0);
    arrives(QP, IBV_WC_SUCCESS);
    assert_int_equal(fi_rx_size_left(srx), 1);
    assert_int_equal(receive(buf), 0);
    assert_int_equal(receive(buf), -FI_EAGAIN);
}

static void a_receive_that_a_broken_connection_gives_back_is_posted_again(void **state)
{
    char buf[8];

    assert_int_equal(receive(buf), 0);
    assert_int_equal(fake.posted, 1);
    fake.sge.addr = 0;
    arrives(QP, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(fake.posted, 2);
    assert_ptr_equal((void *)(uintptr_t)fake.sge.addr, buf);
    assert_int_equal(fake.sge.lkey, 77);
    assert_int_equal(fi_rx_size_left(srx), SIZE - 1);
    ep->closing = true;
    arrives(QP, IBV_WC_SUCCESS);
    assert_int_equal(fake.posted, 3);
}

static void an_entry_of_a_queue_pair_that_is_gone_changes_nothing(void **state)
{
    char buf[8];

    assert_int_equal(receive(buf), 0);
    arrives(QP + 1, IBV_WC_SUCCESS);
    arrives(0, IBV_WC_SUCCESS);
    assert_int_equal(fi_rx_size_left(srx), SIZE - 1);
}

static void what_the_device_refuses_is_not_posted(void **state)
{
    char buf[8];

    fake.refuse = ENOMEM;
    assert_int_equal(receive(buf), -FI_EAGAIN);
    fake.refuse = EINVAL;
    assert_int_equal(receive(buf), -FI_EINVAL);
    assert_int_equal(fi_rx_size_left(srx), SIZE);
    assert_int_equal(fi_recv(srx, buf, 8, NULL, 0, NULL), -FI_EINVAL); /* FI_MR_LOCAL */
}

static void a_context_that_the_device_cannot_have_is_refused(void **state)
{
    struct fi_rx_attr attr = {.size = SIZE + 1};
    struct fi_rx_attr peers = {.op_flags = FI_PEER};
    struct fid_ep *other;

    assert_int_equal(verbs_srx_open(&domain.base.fid, &attr, &other, NULL), -FI_EINVAL);
    assert_int_equal(verbs_srx_open(&domain.base.fid, &peers, &other, NULL), -FI_ENOSYS);
    device.attr.max_srq = 0;
    assert_int_equal(verbs_srx_open(&domain.base.fid, NULL, &other, NULL), -FI_ENOSYS);
    device.attr.max_srq = 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_context_has_the_receives_that_it_was_opened_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_receive_that_a_broken_connection_gives_back_is_posted_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_entry_of_a_queue_pair_that_is_gone_changes_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_device_refuses_is_not_posted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_context_that_the_device_cannot_have_is_refused, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests_name("verbs srx", tests, NULL, NULL);
}
