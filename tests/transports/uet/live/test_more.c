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

#include "../../../support/end.h"

enum {
    MESSAGES = 40,
    LOOKS = 100,
    LONG = 250, /* words of a message that is not copied */
};

static uint32_t out[MESSAGES][LONG], in[MESSAGES][LONG];
static size_t words; /* of a message */
static struct end from, to;

struct mode {
    size_t words;
    bool ordered;
};

static void open_end(struct end *end, uint64_t order)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->fabric_attr->prov_name = strdup("uet(burst_wait=10000000)"); /* on slow machines, too */
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &info), 0);
    fi_freeinfo(hints);
    end_open(end, info, FI_CQ_FORMAT_MSG);
}

static void send_one(uint32_t i, uint64_t flags)
{
    struct iovec iov = {out[i], words * sizeof(out[i][0])};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = from.peer, .context = out[i]};

    ssize_t rc;

    for (size_t at = 0; at < words; at++)
        out[i][at] = i + 1;
    while ((rc = fi_sendmsg(from.ep, &msg, flags)) == -FI_EAGAIN)
        fi_cq_read(to.cq, NULL, 0);
    assert_int_equal(rc, 0);
}

static void receive_one(uint32_t i)
{
    memset(in[i], 0, sizeof(in[i]));
    assert_int_equal(fi_recv(to.ep, in[i], sizeof(in[i]), NULL, FI_ADDR_UNSPEC, in[i]), 0);
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
    const struct mode *mode = *state;
    uint64_t order = mode->ordered ? FI_ORDER_SAS : FI_ORDER_NONE;

    words = mode->words;
    open_end(&from, order);
    open_end(&to, order);
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
    end_close(&from);
    end_close(&to);
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
        assert_true(in[i][0] && in[i][0] <= MESSAGES);
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
    assert_ptr_equal(entry.op_context, out[0]);
    while (!look(&to))
        ;
    assert_int_equal(in[0][0], 1);
}

static void one_without_another_is_sent_at_the_end(void **state)
{
    receive_one(0);
    send_one(0, FI_MORE | FI_INJECT);
    end_close(&from);
    while (!look(&to))
        ;
    assert_int_equal(in[0][0], 1);
    open_end(&from, 0);
}

enum {
    BURST = 8,
    TRIES = 2000,
};

static void receive_burst(void)
{
    for (uint32_t i = 0; i < BURST; i++)
        receive_one(i);
}

static void send_burst(void)
{
    for (uint32_t i = 0; i < BURST; i++)
        send_one(i, 0);
}

/* All completions of a burst, of both ends. */
static void end_burst(unsigned came)
{
    struct fi_cq_msg_entry entry;

    for (unsigned ended = 0; ended < BURST || came < BURST;) {
        ended += fi_cq_read(from.cq, &entry, 1) == 1;
        came += fi_cq_read(to.cq, &entry, 1) == 1;
    }
    for (uint32_t i = 0; i < BURST; i++)
        assert_int_equal(in[i][words - 1], in[i][0]);
}

/* Not before it has shown that it polls: a program that posts and computes is not kept waiting. */
static void a_burst_leaves_without_a_poll(void **state)
{
    receive_burst();
    send_burst();
    for (unsigned came = 0; came < BURST;)
        came += look(&to);
    end_burst(BURST);
}

/* When it has polled at once some times, the poll sends what is behind the first one. */
static void a_burst_waits_for_a_poll_that_is_likely(void **state)
{
    unsigned waited = 0;

    for (unsigned i = 0; i < TRIES && !waited; i++) {
        unsigned came = 0;

        receive_burst();
        send_burst();
        if (i % 8 == 7) {
            came = look(&to);
            waited = came < BURST;
        }
        end_burst(came);
    }
    assert_true(waited);
}

int main(void)
{
    static struct mode modes[] = {{1, false}, {1, true}, {LONG, true}};
    struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(they_leave_with_the_next_one, start, finish,
                                                 &modes[0]),
        cmocka_unit_test_prestate_setup_teardown(they_leave_with_the_next_one, start, finish,
                                                 &modes[1]),
        cmocka_unit_test_prestate_setup_teardown(a_completion_is_of_a_message_that_has_left, start,
                                                 finish, &modes[0]),
        cmocka_unit_test_prestate_setup_teardown(a_burst_leaves_without_a_poll, start, finish,
                                                 &modes[0]),
        cmocka_unit_test_prestate_setup_teardown(a_burst_waits_for_a_poll_that_is_likely, start,
                                                 finish, &modes[1]),
        cmocka_unit_test_prestate_setup_teardown(a_burst_leaves_without_a_poll, start, finish,
                                                 &modes[2]),
        cmocka_unit_test_prestate_setup_teardown(a_burst_waits_for_a_poll_that_is_likely, start,
                                                 finish, &modes[2]),
        cmocka_unit_test_prestate_setup_teardown(one_without_another_is_sent_at_the_end, start,
                                                 finish, &modes[0]),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
