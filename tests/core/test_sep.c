/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/domain/domain.h"
#include "core/ep/endpoint.h"
#include "core/ep/sep.h"
#include "core/info/info.h"
#include "tests/core/objects.h"

enum {
    COUNT = 3,
};

/* A context of a part: what it has of its own. */
struct context {
    struct endpoint endpoint;
    size_t class;
    unsigned index;
    struct binding binding;
    struct av *av;
    struct fid_cq *cq;
};

static struct bare bare;
static struct fid_av *av;
static struct sep *sep;
static bool refuses;

/* ---- The part ---- */

static int open(struct sep *of, const struct sep_opening *opening, struct endpoint **ep)
{
    struct context *c = opening->context;

    *c = (struct context){.class = opening->class, .index = opening->index};
    *ep = &c->endpoint;
    return refuses ? -FI_ENOMEM : 0;
}

static int set_name(struct sep *of, void *addr, size_t len)
{
    return -FI_EADDRINUSE;
}

static int get_name(struct sep *of, void *addr, size_t *len)
{
    *len = 5;
    return 0;
}

static void give_back(struct sep *of)
{
    sep_finish(of);
    free(of);
    sep = NULL;
}

static const struct sep_ops ops = {
    .open = open, .setname = set_name, .getname = get_name, .close = give_back};

/* ---- Opening and closing ---- */

static int try_open(size_t tx_count, size_t rx_count)
{
    struct fi_info *info = info_alloc();
    int rc;

    info->ep_attr->tx_ctx_cnt = tx_count;
    info->ep_attr->rx_ctx_cnt = rx_count;
    sep = calloc(1, sizeof(*sep));
    rc = sep_init(sep, &bare.domain, info, &ops, NULL);
    info_free(info);
    if (rc)
        give_back(sep);
    return rc;
}

static void open_sep(enum fi_threading threading)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE};

    bare_init(&bare, false);
    bare.info.addr_format = FI_ADDR_STR;
    bare.domain_attr.threading = threading;
    assert_int_equal(domain_av_open(&bare.domain.fid, &attr, &av, NULL), 0);
    assert_int_equal(try_open(COUNT, COUNT), 0);
    assert_int_equal(fi_enable(&sep->fid), -FI_ENOAV);
    assert_int_equal(fi_scalable_ep_bind(&sep->fid, &av->fid, 0), 0);
    assert_int_equal(fi_scalable_ep_bind(&sep->fid, &av->fid, 0), -FI_EINVAL);
    assert_int_equal(fi_enable(&sep->fid), 0);
}

static void close_sep(void)
{
    assert_int_equal(fi_close(&av->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&sep->fid.fid), 0);
    assert_int_equal(fi_close(&av->fid), 0);
    assert_false(children_any(&bare.domain.children));
}

/* With a queue of its own, or without. */
static int open_context(struct context *c, size_t class, int index, bool queue)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    uint64_t flags = class == FI_CLASS_TX_CTX ? FI_TRANSMIT : FI_RECV;
    struct fid_ep *ep;
    int rc = class == FI_CLASS_TX_CTX ? fi_tx_context(&sep->fid, index, NULL, &ep, c)
                                      : fi_rx_context(&sep->fid, index, NULL, &ep, c);

    if (rc)
        return rc;
    if (queue) {
        assert_int_equal(cq_open(&bare.domain, &attr, &c->cq, NULL), 0);
        assert_int_equal(binding_add(&c->binding, &bare.domain, &c->cq->fid, flags), 0);
    }
    return sep_join(sep, class, (unsigned)index, &c->binding, &c->av);
}

static void close_context(struct context *c)
{
    sep_leave(sep, c->class, c->index);
    binding_finish(&c->binding);
    if (c->av)
        children_release(&c->av->children);
    if (c->cq)
        assert_int_equal(fi_close(&c->cq->fid), 0);
}

static bool are_one(const struct context *a, const struct context *b)
{
    return progress_root(a->binding.progress) == progress_root(b->binding.progress);
}

/* ---- Tests ---- */

static void contexts_with_queues_are_apart(void **state)
{
    struct context tx[2], rx;

    open_sep(FI_THREAD_COMPLETION);
    assert_int_equal(open_context(&tx[0], FI_CLASS_TX_CTX, 0, true), 0);
    assert_int_equal(open_context(&tx[1], FI_CLASS_TX_CTX, 1, true), 0);
    assert_int_equal(open_context(&rx, FI_CLASS_RX_CTX, 0, true), 0);
    assert_false(are_one(&tx[0], &tx[1]) || are_one(&tx[0], &rx) || are_one(&tx[1], &rx));
    assert_ptr_equal(rx.av, object_of(av, struct av, fid));
    close_context(&tx[0]);
    close_context(&tx[1]);
    close_context(&rx);
    close_sep();
}

static void one_without_a_queue_makes_them_one(void **state)
{
    struct context before, quiet, after, again;

    open_sep(FI_THREAD_SAFE);
    assert_int_equal(open_context(&before, FI_CLASS_TX_CTX, 2, true), 0);
    assert_int_equal(open_context(&quiet, FI_CLASS_RX_CTX, 0, false), 0);
    assert_int_equal(sep_join(sep, quiet.class, 0, &quiet.binding, &quiet.av), 0);
    assert_int_equal(open_context(&after, FI_CLASS_RX_CTX, 1, true), 0);
    assert_true(are_one(&before, &quiet) && are_one(&quiet, &after));
    close_context(&before);
    close_context(&quiet);
    assert_int_equal(open_context(&again, FI_CLASS_RX_CTX, 0, false), 0);
    assert_true(are_one(&again, &after));
    close_context(&again);
    close_context(&after);
    close_sep();
}

static void a_context_that_has_left_is_left_out(void **state)
{
    struct context gone, tx, quiet;

    open_sep(FI_THREAD_DOMAIN);
    assert_int_equal(open_context(&gone, FI_CLASS_TX_CTX, 0, true), 0);
    sep_leave(sep, gone.class, gone.index);
    assert_int_equal(open_context(&tx, FI_CLASS_TX_CTX, 0, true), 0);
    assert_int_equal(open_context(&quiet, FI_CLASS_RX_CTX, 0, false), 0);
    assert_true(are_one(&tx, &quiet));
    assert_false(are_one(&gone, &quiet));
    close_context(&tx);
    close_context(&quiet);
    close_context(&gone);
    close_sep();
}

static void what_needs_a_queue(void **state)
{
    struct context tx, rx;

    open_sep(FI_THREAD_SAFE);
    assert_int_equal(open_context(&tx, FI_CLASS_TX_CTX, 0, false), -FI_ENOCQ);
    close_context(&tx);
    close_sep();
    open_sep(FI_THREAD_COMPLETION);
    assert_int_equal(open_context(&rx, FI_CLASS_RX_CTX, 0, false), 0);
    close_context(&rx);
    close_sep();
}

static void contexts_are_numbered_and_opened_once(void **state)
{
    struct context c, other;

    open_sep(FI_THREAD_SAFE);
    assert_int_equal(open_context(&c, FI_CLASS_TX_CTX, -1, false), -FI_EINVAL);
    assert_int_equal(open_context(&c, FI_CLASS_RX_CTX, COUNT, false), -FI_EINVAL);
    refuses = true;
    assert_int_equal(open_context(&c, FI_CLASS_RX_CTX, 1, false), -FI_ENOMEM);
    refuses = false;
    assert_false(sep_has_contexts(sep));
    assert_int_equal(open_context(&c, FI_CLASS_RX_CTX, 1, false), 0);
    assert_int_equal(open_context(&other, FI_CLASS_RX_CTX, 1, false), -FI_EBUSY);
    assert_int_equal(fi_close(&sep->fid.fid), -FI_EBUSY);
    close_context(&c);
    close_sep();
}

static void the_endpoint_itself(void **state)
{
    char name[8];
    size_t len = sizeof(name);

    open_sep(FI_THREAD_SAFE);
    assert_int_equal(fi_setname(&sep->fid.fid, name, 1), -FI_EADDRINUSE);
    assert_int_equal(fi_getname(&sep->fid.fid, name, &len), 0);
    assert_int_equal(len, 5);
    assert_int_equal(fi_control(&sep->fid.fid, FI_BACKLOG, &len), -FI_ENOSYS);
    close_sep();
    assert_int_equal(try_open(SEP_CONTEXTS + 1, 1), -FI_EINVAL);
    assert_int_equal(try_open(1, SEP_CONTEXTS + 1), -FI_EINVAL);
    assert_false(children_any(&bare.domain.children));
    assert_int_equal(try_open(0, SEP_CONTEXTS), 0);
    assert_int_equal(sep->info->ep_attr->tx_ctx_cnt, 1);
    assert_int_equal(fi_close(&sep->fid.fid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_with_queues_are_apart),
        cmocka_unit_test(one_without_a_queue_makes_them_one),
        cmocka_unit_test(a_context_that_has_left_is_left_out),
        cmocka_unit_test(what_needs_a_queue),
        cmocka_unit_test(contexts_are_numbered_and_opened_once),
        cmocka_unit_test(the_endpoint_itself),
    };

    return cmocka_run_group_tests_name("sep", tests, NULL, NULL);
}
