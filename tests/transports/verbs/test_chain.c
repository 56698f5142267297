/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that wait for more, and receives that are posted together, on a device that takes so
 * many of a post. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/queue/cntr.h"
#include "transports/verbs/verbs_chain.h"
#include "transports/verbs/verbs_ep.h"
#include "transports/verbs/verbs_quick.h"

enum {
    TAKEN_MAX = 64,
    RECEIVES = 8, /* that the endpoint may have posted */
};

static struct {
    int posts, taken, takes, error; /* takes: requests until the error; -1: all */
    uint64_t ids[TAKEN_MAX], addrs[TAKEN_MAX];
} fake;

static struct ibv_context context;
static struct ibv_qp qp = {.context = &context};
static struct verbs_cq cq;
static int reported; /* errors */
static struct verbs_ep *ep;
static uint64_t next_id;

static int fake_post(struct ibv_qp *pair, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    fake.posts++;
    for (; wr; wr = wr->next) {
        if (!fake.takes) {
            *bad = wr;
            return fake.error;
        }
        fake.takes -= fake.takes > 0;
        fake.ids[fake.taken] = wr->wr_id;
        fake.addrs[fake.taken++] = wr->num_sge ? wr->sg_list->addr : 0;
    }
    return 0;
}

static int fake_post_recv(struct ibv_qp *pair, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    fake.posts++;
    for (; wr; wr = wr->next) {
        if (!fake.takes) {
            *bad = wr;
            return fake.error;
        }
        fake.takes -= fake.takes > 0;
        fake.ids[fake.taken] = wr->wr_id;
        fake.addrs[fake.taken++] = wr->sg_list->addr;
    }
    return 0;
}

static void count_error(struct fid_peer_cntr *peer)
{
    reported++;
}

static struct fi_ops_cntr_owner count_ops = {.size = sizeof(count_ops), .incerr = count_error};
static struct fid_peer_cntr sink = {.owner_ops = &count_ops};
static struct cntr counter = {.sink = &sink};

static int set_up(void **state)
{
    reported = 0;
    memset(&fake, 0, sizeof(fake));
    fake.takes = -1;
    next_id = 0;
    context.ops.post_send = fake_post;
    list_init(&cq.chained);
    ep = calloc(1, sizeof(*ep));
    assert_non_null(ep);
    ep->cq = &cq;
    ep->base.binding.cntr[BIND_SEND] = &counter;
    ep->qp = &qp;
    ep->tx_iov_limit = 2;
    ep->signal_every = 8;
    assert_int_equal(verbs_ring_init(&ep->tx, 64), 0);
    ep->sends = calloc(ep->tx.mask + 1, sizeof(*ep->sends));
    assert_int_equal(verbs_chain_open(ep), 0);
    return 0;
}

static int tear_down(void **state)
{
    assert_true(list_empty(&cq.chained));
    verbs_chain_close(ep);
    free(ep->sends);
    free(ep);
    return 0;
}

/* The next request; its memory is where its number says. */
static ssize_t add(bool more)
{
    struct ibv_sge sge = {.addr = 1000 + next_id, .length = 1};
    struct ibv_send_wr wr = {.wr_id = next_id++, .sg_list = &sge, .num_sge = 1};

    ep->sends[ep->tx.tail & ep->tx.mask] = (struct verbs_send){.kind = BIND_SEND};
    return verbs_chain_add(ep, &wr, more);
}

static void assert_taken(int count)
{
    assert_int_equal(fake.taken, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(fake.ids[i], i);
        assert_int_equal(fake.addrs[i], 1000 + i);
    }
}

static void all_go_with_the_first_that_has_no_more(void **state)
{
    for (int i = 0; i < 5; i++)
        assert_int_equal(add(true), 0);
    assert_int_equal(fake.posts, 0);
    assert_int_equal(add(false), 0);
    assert_int_equal(fake.posts, 1);
    assert_taken(6);
    assert_int_equal(ep->tx.tail, 6);
}

static void a_poll_posts_what_waits(void **state)
{
    assert_int_equal(add(true), 0);
    verbs_chain_flush_all(&cq);
    assert_taken(1);
    verbs_chain_flush_all(&cq);
    assert_int_equal(fake.posts, 1);
}

static void a_full_chain_goes(void **state)
{
    for (int i = 0; i < VERBS_CHAIN; i++)
        assert_int_equal(add(true), 0);
    assert_int_equal(fake.posts, 1);
    assert_taken(VERBS_CHAIN);
}

static void what_the_device_has_no_room_for_waits_on(void **state)
{
    for (int i = 0; i < 3; i++)
        assert_int_equal(add(true), 0);
    fake.takes = 2;
    fake.error = ENOMEM;
    assert_int_equal(add(false), -FI_EAGAIN);
    assert_int_equal(ep->tx.tail, 3); /* the caller's has no place */
    assert_int_equal(ep->chain->count, 1);
    assert_int_equal(reported, 0);
    next_id = 3;
    fake.takes = -1;
    assert_int_equal(add(false), 0);
    assert_taken(4);
    assert_int_equal(ep->tx.tail, 4);
}

static void the_place_of_what_the_device_refuses_is_free(void **state)
{
    for (int i = 0; i < 3; i++)
        assert_int_equal(add(true), 0);
    fake.takes = 1;
    fake.error = EINVAL;
    assert_int_equal(add(false), -FI_EINVAL);
    assert_int_equal(ep->tx.tail, 1);
    assert_int_equal(ep->chain->count, 0);
    assert_taken(1);
    assert_int_equal(reported, 2); /* those accepted before; the last one's error is the call's */
    assert_true(ep->unsignaled >= ep->signal_every); /* the signal may be lost: the next has one */
}

static int cancel(int id)
{
    return verbs_chain_cancel(ep, (void *)(uintptr_t)(id + 1));
}

static void what_waits_can_be_cancelled(void **state)
{
    for (int i = 0; i < 4; i++) {
        assert_int_equal(add(true), 0);
        ep->sends[i].context = (void *)(uintptr_t)(i + 1);
    }
    assert_int_equal(cancel(9), -FI_ENOENT);
    assert_int_equal(cancel(1), 0);
    assert_int_equal(cancel(1), -FI_ENOENT);
    assert_int_equal(cancel(3), 0); /* the last one */
    assert_int_equal(reported, 2);
    assert_int_equal(ep->tx.tail, 2);
    assert_true(ep->unsignaled >= ep->signal_every);
    verbs_chain_flush_all(&cq);
    assert_int_equal(fake.taken, 2);
    assert_int_equal(fake.addrs[0], 1000);
    assert_int_equal(fake.addrs[1], 1002);
    assert_int_equal(fake.ids[1], verbs_wr_id(ep->number, false, 1));
    assert_ptr_equal(ep->sends[1].context, (void *)3);
    assert_int_equal(cancel(0), -FI_ENOENT); /* the device has it */
}

static void the_only_one_that_waits_can_be_cancelled(void **state)
{
    assert_int_equal(add(true), 0);
    ep->sends[0].context = (void *)1;
    assert_int_equal(cancel(0), 0);
    assert_true(list_empty(&cq.chained));
    assert_int_equal(ep->tx.tail, 0);
    verbs_chain_flush_all(&cq);
    assert_int_equal(fake.posts, 0);
}

/* Or its completion would tell of the end of those that the device does not have yet. */
static void a_probe_goes_behind_what_waits(void **state)
{
    assert_int_equal(add(true), 0);
    verbs_post_probe(ep);
    assert_int_equal(fake.taken, 2);
    assert_int_equal(fake.addrs[0], 1000);
    assert_int_equal(ep->tx.tail, 2);
    assert_int_equal(add(true), 0);
    fake.takes = 0;
    fake.error = ENOMEM;
    verbs_post_probe(ep);
    assert_int_equal(fake.taken, 2);
    assert_int_equal(ep->tx.tail, 3);
    fake.takes = -1;
    verbs_chain_flush_all(&cq);
}

/* ---- Receives ---- */

static struct ibv_mr mr = {.lkey = 77};

static int set_up_receives(void **state)
{
    set_up(state);
    context.ops.post_recv = fake_post_recv;
    for (int i = 0; i < VERBS_RECEIVES; i++) {
        cq.receives.wrs[i].sg_list = &cq.receives.sges[i];
        cq.receives.wrs[i].num_sge = 1;
        cq.receives.wrs[i].next = i + 1 < VERBS_RECEIVES ? &cq.receives.wrs[i + 1] : NULL;
    }
    ep->base.binding.progress = &progress_none;
    assert_int_equal(verbs_ring_init(&ep->rx, RECEIVES), 0);
    ep->recvs = calloc(ep->rx.mask + 1, sizeof(*ep->recvs));
    assert_non_null(ep->recvs);
    verbs_quick_enable(ep);
    return 0;
}

static int tear_down_receives(void **state)
{
    free(ep->recvs);
    return tear_down(state);
}

/* How many are posted of as many, of which the one at `without` has no descriptor. */
static size_t receive(size_t count, size_t without)
{
    const struct op_target target = {.ep = &ep->base.base, .fid = &ep->fid};
    struct ep_receive receives[2 * RECEIVES];
    const struct ep_receive *list[2 * RECEIVES];

    for (size_t i = 0; i < count; i++) {
        receives[i] = (struct ep_receive){.buf = (void *)(uintptr_t)(1000 + next_id++),
                                          .desc = i == without ? NULL : &mr,
                                          .context = &receives[i],
                                          .len = 8};
        list[i] = &receives[i];
    }
    return op_receive(&target, list, count);
}

static void receives_go_in_one_post_as_far_as_there_is_room(void **state)
{
    assert_int_equal(receive(5, 99), 5);
    assert_int_equal(fake.posts, 1);
    assert_int_equal(fake.taken, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(fake.ids[i], verbs_wr_id(ep->number, true, i));
        assert_int_equal(fake.addrs[i], 1000 + i);
    }
    assert_int_equal(receive(5, 99), RECEIVES - 5);
    assert_int_equal(ep->rx.tail, RECEIVES);
    assert_int_equal(receive(1, 99), 0);
    assert_int_equal(fake.posts, 2);
    ep->rx.head = RECEIVES; /* all have come: the chain is whole again */
    assert_int_equal(receive(RECEIVES, 99), RECEIVES);
    assert_int_equal(ep->rx.tail, 2 * RECEIVES);
}

static void receives_that_the_device_refuses_are_not_posted(void **state)
{
    fake.takes = 2;
    fake.error = ENOMEM;
    assert_int_equal(receive(4, 99), 2);
    assert_int_equal(ep->rx.tail, 2);
    fake.takes = -1;
    assert_int_equal(receive(3, 1), 1); /* FI_MR_LOCAL */
    assert_int_equal(ep->rx.tail, 3);
    assert_int_equal(receive(1, 0), 0);
    ep->forks--; /* in a child */
    assert_int_equal(receive(1, 99), 0);
    assert_int_equal(ep->rx.tail, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_go_with_the_first_that_has_no_more, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_poll_posts_what_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_chain_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_device_has_no_room_for_waits_on, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_place_of_what_the_device_refuses_is_free, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_waits_can_be_cancelled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_only_one_that_waits_can_be_cancelled, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_probe_goes_behind_what_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(receives_go_in_one_post_as_far_as_there_is_room,
                                        set_up_receives, tear_down_receives),
        cmocka_unit_test_setup_teardown(receives_that_the_device_refuses_are_not_posted,
                                        set_up_receives, tear_down_receives),
    };

    return cmocka_run_group_tests_name("verbs chain", tests, NULL, NULL);
}
