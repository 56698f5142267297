/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages with FI_MORE wait for the next one, and so do their completions. */
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
#include <rdma/fi_ext_uet.h>

enum {
    MESSAGES = 40,
    LOOKS = 100,
    ORDERED = 1,
};

struct end {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    fi_addr_t peer;
    uint8_t name[FI_ADDR_UET_SIZE];
};

static uint32_t out[MESSAGES], in[MESSAGES];
static struct end from, to;

static void open_end(struct end *end, uint64_t order)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    size_t len = sizeof(end->name);

    hints->fabric_attr->prov_name = strdup("uet");
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &end->info),
                     0);
    fi_freeinfo(hints);
    assert_int_equal(fi_fabric(end->info->fabric_attr, &end->fabric, NULL), 0);
    assert_int_equal(fi_domain(end->fabric, end->info, &end->domain, NULL), 0);
    assert_int_equal(fi_cq_open(end->domain, &cq_attr, &end->cq, NULL), 0);
    assert_int_equal(fi_av_open(end->domain, &av_attr, &end->av, NULL), 0);
    assert_int_equal(fi_endpoint(end->domain, end->info, &end->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    assert_int_equal(fi_enable(end->ep), 0);
    assert_int_equal(fi_getname(&end->ep->fid, end->name, &len), 0);
}

static void close_end(struct end *end)
{
    fi_close(&end->ep->fid);
    fi_close(&end->av->fid);
    fi_close(&end->cq->fid);
    fi_close(&end->domain->fid);
    fi_close(&end->fabric->fid);
    fi_freeinfo(end->info);
}

static void send_one(uint32_t i, uint64_t flags)
{
    struct iovec iov = {&out[i], sizeof(out[i])};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = from.peer, .context = &out[i]};

    out[i] = i + 1;
    assert_int_equal(fi_sendmsg(from.ep, &msg, flags), 0);
}

static void receive_one(uint32_t i)
{
    in[i] = 0;
    assert_int_equal(fi_recv(to.ep, &in[i], sizeof(in[i]), NULL, FI_ADDR_UNSPEC, &in[i]), 0);
}

/* Completions of that end, which alone is driven. */
static unsigned look(struct end *end)
{
    struct fi_cq_msg_entry entry;
    unsigned count = 0;

    for (int i = 0; i < LOOKS; i++)
        count += fi_cq_read(end->cq, &entry, 1) == 1;
    return count;
}

static void await_one(struct end *end, struct end *other)
{
    struct fi_cq_msg_entry entry;
    ssize_t rc;

    while ((rc = fi_cq_read(end->cq, &entry, 1)) == -FI_EAGAIN)
        fi_cq_read(other->cq, NULL, 0);
    assert_int_equal(rc, 1);
}

/* With one message there and back, so that the peers know each other. */
static int start(void **state)
{
    static const uint64_t orders[] = {FI_ORDER_NONE, FI_ORDER_SAS};

    open_end(&from, orders[*(int *)*state]);
    open_end(&to, orders[*(int *)*state]);
    assert_int_equal(fi_av_insert(from.av, to.name, 1, &from.peer, 0, NULL), 1);
    assert_int_equal(fi_av_insert(to.av, from.name, 1, &to.peer, 0, NULL), 1);
    receive_one(0);
    send_one(0, 0);
    await_one(&to, &from);
    await_one(&from, &to);
    return 0;
}

static int finish(void **state)
{
    close_end(&from);
    close_end(&to);
    return 0;
}

static void they_leave_with_the_next_one(void **state)
{
    for (uint32_t i = 0; i < MESSAGES; i++)
        receive_one(i);
    for (uint32_t i = 0; i + 1 < MESSAGES; i++)
        send_one(i, FI_MORE);
    assert_int_equal(look(&to), 0);
    send_one(MESSAGES - 1, 0);
    /* The sender does nothing any more. */
    for (unsigned came = 0; came < MESSAGES;)
        came += look(&to);
    for (uint32_t i = 0; i < MESSAGES; i++)
        assert_true(in[i] && in[i] <= MESSAGES);
    for (unsigned ended = 0; ended < MESSAGES;)
        ended += look(&from);
}

static void a_completion_is_of_a_message_that_has_left(void **state)
{
    struct fi_cq_msg_entry entry;

    receive_one(0);
    send_one(0, FI_MORE);
    assert_int_equal(look(&to), 0);
    assert_int_equal(fi_cq_read(from.cq, &entry, 1), 1);
    assert_ptr_equal(entry.op_context, &out[0]);
    while (!look(&to))
        ;
    assert_int_equal(in[0], 1);
}

static void one_without_another_is_sent_at_the_end(void **state)
{
    receive_one(0);
    send_one(0, FI_MORE | FI_INJECT);
    close_end(&from);
    while (!look(&to))
        ;
    assert_int_equal(in[0], 1);
    open_end(&from, 0);
}

int main(void)
{
    static int modes[] = {0, ORDERED};
    struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(they_leave_with_the_next_one, start, finish,
                                                 &modes[0]),
        cmocka_unit_test_prestate_setup_teardown(they_leave_with_the_next_one, start, finish,
                                                 &modes[1]),
        cmocka_unit_test_prestate_setup_teardown(a_completion_is_of_a_message_that_has_left, start,
                                                 finish, &modes[0]),
        cmocka_unit_test_prestate_setup_teardown(one_without_another_is_sent_at_the_end, start,
                                                 finish, &modes[0]),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
