/* SPDX-License-Identifier: BSD-2-Clause */
/* Hints that bring the layer in, and its infos; queues, aliases, shared contexts. The conformance
 * suite tests its promises ("strict: ..."). Over shm, whose large messages are told when the peer
 * has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../pair.h"

enum {
    LARGE = 1 << 20,
    SEEN_MAX = 64
};

static char large[LARGE], room[LARGE], small[8] = "small", in[8];

/* ---- Infos ---- */

static struct fi_info *ask(const char *provider, enum fi_ep_type type, uint64_t tx, uint64_t rx,
                           uint64_t caps)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    int rc;

    assert_non_null(hints);
    hints->caps = FI_MSG | caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = type;
    hints->tx_attr->comp_order = tx;
    hints->rx_attr->comp_order = rx;
    setenv("FI_PROVIDER", provider, 1);
    rc = fi_getinfo(FI_VERSION(1, 15), NULL, NULL, 0, hints, &info);
    assert_true(!rc || rc == -FI_ENODATA);
    fi_freeinfo(hints);
    return info;
}

static bool named(const struct fi_info *info)
{
    return strstr(info->fabric_attr->prov_name, "ofi_order");
}

static void hints_bring_it_in(void **state)
{
    static const uint64_t orders[][2] = {{FI_ORDER_STRICT, 0},
                                         {0, FI_ORDER_STRICT},
                                         {FI_ORDER_STRICT, FI_ORDER_STRICT | FI_ORDER_DATA}};
    struct fi_info *info;

    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        info = ask("shm", FI_EP_RDM, orders[i][0], orders[i][1], 0);
        assert_non_null(info);
        assert_true(named(info));
        assert_int_equal(info->tx_attr->comp_order, orders[i][0]);
        assert_int_equal(info->rx_attr->comp_order, orders[i][1]);
        fi_freeinfo(info);
    }
    info = ask("shm", FI_EP_RDM, FI_ORDER_DATA, FI_ORDER_DATA, 0);
    assert_non_null(info);
    for (const struct fi_info *pos = info; pos; pos = pos->next)
        assert_false(named(pos));
    fi_freeinfo(info);
}

/* loop is a candidate only where it is named. */
static void a_stack_that_hints_spell_takes_what_they_ask_for(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;

    assert_non_null(hints);
    hints->caps = FI_MSG | FI_TRIGGER;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->comp_order = FI_ORDER_STRICT;
    hints->fabric_attr->prov_name = strdup("loop");
    unsetenv("FI_PROVIDER");
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    assert_string_equal(info->fabric_attr->prov_name, "loop;ofi_order;ofi_trigger");
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

static void it_stands_under_triggers_and_over_collectives(void **state)
{
    struct fi_info *info =
        ask("shm", FI_EP_RDM, FI_ORDER_STRICT, 0, FI_TAGGED | FI_TRIGGER | FI_COLLECTIVE);

    assert_non_null(info);
    assert_string_equal(info->fabric_attr->prov_name, "shm;ofi_coll;ofi_order;ofi_trigger");
    fi_freeinfo(info);
}

static void connected_endpoints_take_it_without_the_layer(void **state)
{
    struct fi_info *info = ask("tcp", FI_EP_MSG, FI_ORDER_STRICT, FI_ORDER_STRICT, 0);

    assert_non_null(info);
    assert_false(named(info));
    fi_freeinfo(info);
}

static void datagrams_refuse_it(void **state)
{
    assert_null(ask("loop", FI_EP_DGRAM, FI_ORDER_STRICT, 0, 0));
}

static void denied_it_is_not_there(void **state)
{
    assert_null(ask("^order", FI_EP_RDM, FI_ORDER_STRICT, 0, 0));
}

/* ---- Completions ---- */

static struct fi_cq_tagged_entry seen[SEEN_MAX];
static size_t seen_count;

static void drive(struct fid_cq *cq)
{
    ssize_t rc = fi_cq_read(cq, &seen[seen_count], 1);

    assert_true(rc == 1 || rc == -FI_EAGAIN);
    if (rc == 1)
        seen_count++;
    assert_true(seen_count < SEEN_MAX);
}

static void see(struct fid_cq *cq, size_t count)
{
    while (seen_count < count)
        drive(cq);
}

static void need(const int *contexts, size_t count)
{
    assert_int_equal(seen_count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal((uintptr_t)seen[i].op_context, contexts[i]);
    seen_count = 0;
}

static void post_trecv(struct pair *pair, void *buf, size_t len, uint64_t tag, uintptr_t context)
{
    ssize_t rc;

    while ((rc = fi_trecv(pair->ep[1], buf, len, NULL, FI_ADDR_UNSPEC, tag, 0, (void *)context)) ==
           -FI_EAGAIN)
        drive(pair->cq);
    assert_int_equal(rc, 0);
}

static void post_tsend(struct pair *pair, struct fid_ep *ep, void *buf, size_t len, uint64_t tag,
                       uintptr_t context)
{
    ssize_t rc;

    while ((rc = fi_tsend(ep, buf, len, NULL, pair->to[1], tag, (void *)context)) == -FI_EAGAIN)
        drive(pair->cq);
    assert_int_equal(rc, 0);
}

/* Two more endpoints, both of one transmit context. */
static void endpoints_of_a_shared_transmit_context_are_one_order(void **state)
{
    struct fid_ep *ep[2];
    struct fid_stx *stx;
    struct pair pair;

    pair_open(&pair, "order;shm");
    seen_count = 0;
    pair.info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
    assert_int_equal(fi_stx_context(pair.domain, NULL, &stx, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_endpoint(pair.domain, pair.info, &ep[i], NULL), 0);
        assert_int_equal(fi_ep_bind(ep[i], &stx->fid, 0), 0);
        assert_int_equal(fi_ep_bind(ep[i], &pair.cq->fid, FI_TRANSMIT | FI_RECV), 0);
        assert_int_equal(fi_ep_bind(ep[i], &pair.av->fid, 0), 0);
        assert_int_equal(fi_enable(ep[i]), 0);
    }
    post_tsend(&pair, ep[0], large, LARGE, 1, 1);
    post_trecv(&pair, in, sizeof(in), 2, 2);
    post_tsend(&pair, ep[1], small, sizeof(small), 2, 3);
    see(pair.cq, 1);
    need((int[]){2}, 1); /* it has come, and is not told here */
    for (int i = 0; i < 1000; i++)
        drive(pair.cq);
    assert_int_equal(seen_count, 0);
    post_tsend(&pair, pair.ep[0], small, sizeof(small), 3, 4); /* another context */
    see(pair.cq, 1);
    need((int[]){4}, 1);
    post_trecv(&pair, in, sizeof(in), 3, 5);
    see(pair.cq, 1);
    seen_count = 0;
    /* Closed, its own are forgotten, and those behind are told. */
    assert_int_equal(fi_close(&ep[0]->fid), 0);
    see(pair.cq, 1);
    need((int[]){3}, 1);
    assert_int_equal(fi_close(&ep[1]->fid), 0);
    assert_int_equal(fi_close(&stx->fid), 0);
    pair_close(&pair);
}

/* Held operations count against the queue; what wants no completion does not. */
static void a_full_queue_says_try_again(void **state)
{
    size_t posted = 0;
    struct pair pair;
    ssize_t rc;

    pair_open(&pair, "order;shm");
    assert_int_equal(fi_close(&pair.ep[0]->fid), 0);
    pair.info->tx_attr->size = 16;
    assert_int_equal(fi_endpoint(pair.domain, pair.info, &pair.ep[0], NULL), 0);
    assert_int_equal(fi_ep_bind(pair.ep[0], &pair.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(pair.ep[0], &pair.av->fid, 0), 0);
    assert_int_equal(fi_enable(pair.ep[0]), 0);
    seen_count = 0;
    post_tsend(&pair, pair.ep[0], large, LARGE, 1, 1);
    for (uintptr_t i = 0; i < 1000; i++) {
        post_trecv(&pair, in, sizeof(in), 2, 2);
        while ((rc = fi_tinject(pair.ep[0], small, sizeof(small), pair.to[1], 2)) == -FI_EAGAIN)
            drive(pair.cq);
        assert_int_equal(rc, 0);
        see(pair.cq, 1);
        need((int[]){2}, 1);
    }
    for (int i = 0; i < 100 && posted < 100; i++) {
        rc = fi_tsend(pair.ep[0], small, sizeof(small), NULL, pair.to[1], 3, (void *)3);
        posted += !rc;
        assert_true(!rc || rc == -FI_EAGAIN);
        drive(pair.cq);
    }
    assert_int_equal(posted, 15);
    assert_int_equal(seen_count, 0);
    post_trecv(&pair, room, LARGE, 1, 4);
    see(pair.cq, 2 + posted);
    for (size_t i = 0, behind = 0; i < seen_count; i++) {
        if (seen[i].op_context == (void *)3)
            assert_true(behind);
        behind = behind || seen[i].op_context == (void *)1;
    }
    seen_count = 0;
    for (size_t i = 0; i < posted; i++)
        post_trecv(&pair, in, sizeof(in), 3, 5);
    see(pair.cq, posted);
    pair_close(&pair);
}

/* An alias has flags of its own, and its endpoint's place in the order. */
static void an_alias_posts_into_its_endpoints_order(void **state)
{
    struct fi_alias request = {.flags = FI_TRANSMIT | FI_COMPLETION | FI_DELIVERY_COMPLETE};
    struct fid *alias = NULL;
    struct fid_ep *other;
    struct pair pair;

    pair_open(&pair, "order;shm");
    seen_count = 0;
    request.fid = &alias;
    assert_int_equal(fi_control(&pair.ep[0]->fid, FI_ALIAS, &request), 0);
    other = (struct fid_ep *)(void *)alias;
    post_tsend(&pair, pair.ep[0], large, LARGE, 1, 1);
    post_trecv(&pair, in, sizeof(in), 2, 2);
    post_tsend(&pair, other, small, sizeof(small), 2, 3);
    see(pair.cq, 1);
    need((int[]){2}, 1);
    for (int i = 0; i < 1000; i++)
        drive(pair.cq);
    assert_int_equal(seen_count, 0);
    post_trecv(&pair, room, LARGE, 1, 4);
    see(pair.cq, 3);
    assert_true(seen[2].op_context == (void *)3 || seen[1].op_context == (void *)3);
    assert_true(seen[0].op_context != (void *)3);
    seen_count = 0;
    assert_int_equal(fi_close(&pair.ep[0]->fid), -FI_EBUSY);
    assert_int_equal(fi_close(alias), 0);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hints_bring_it_in),
        cmocka_unit_test(a_stack_that_hints_spell_takes_what_they_ask_for),
        cmocka_unit_test(it_stands_under_triggers_and_over_collectives),
        cmocka_unit_test(connected_endpoints_take_it_without_the_layer),
        cmocka_unit_test(datagrams_refuse_it),
        cmocka_unit_test(denied_it_is_not_there),
        cmocka_unit_test(endpoints_of_a_shared_transmit_context_are_one_order),
        cmocka_unit_test(a_full_queue_says_try_again),
        cmocka_unit_test(an_alias_posts_into_its_endpoints_order),
    };

    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
