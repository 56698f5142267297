/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/ep/srx.h"
#include "tests/core/objects.h"

static struct fi_ops_srx_peer peer_ops;
static const struct match_attr own = {.size = 2, .iov_limit = 1, .min_multi_recv = 64};
static struct bare bare;
static struct fid_ep *fid;

/* A part's own state of an endpoint. */
struct end {
    struct srx_user user;
    struct match_source source;
    struct binding binding;
    struct fid_cq *cq;
};

static void end_open(struct end *end)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};

    *end = (struct end){.cq = NULL};
    list_init(&end->user.link);
    assert_int_equal(cq_open(&bare.domain, &attr, &end->cq, NULL), 0);
    assert_int_equal(binding_add(&end->binding, &bare.domain, &end->cq->fid, FI_RECV), 0);
    assert_int_equal(
        srx_attach(object_of(fid, struct srx, fid), &end->user, &end->source, &end->binding), 0);
    assert_ptr_equal(end->source.srx.peer_ops, &peer_ops);
}

static void end_close(struct end *end)
{
    struct srx *srx = object_of(fid, struct srx, fid);

    progress_lock(srx->progress);
    srx_detach(srx, &end->user);
    srx_detach(srx, &end->user); /* one that is not attached */
    progress_unlock(srx->progress);
    binding_finish(&end->binding);
    assert_int_equal(fi_close(&end->cq->fid), 0);
}

static void cancel_is_told_to(struct end *end)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    struct fi_cq_tagged_entry entry;
    char buf[8];

    assert_int_equal(fi_trecv(fid, buf, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &error), 0);
    assert_int_equal(fi_cancel(&fid->fid, &error), 0);
    assert_int_equal(fi_cq_read(end->cq, &entry, 1), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(end->cq, &error, 0), 1);
    assert_int_equal(error.err, FI_ECANCELED);
    assert_ptr_equal(error.op_context, &error);
}

static void the_first_endpoint_hears_of_the_context(void **state)
{
    struct end a, b;

    bare_init(&bare, false);
    assert_int_equal(srx_open(&bare.domain, &own, &peer_ops, NULL, &fid, NULL), 0);
    end_open(&a);
    end_open(&b);
    cancel_is_told_to(&a);
    end_close(&a);
    cancel_is_told_to(&b);
    end_close(&b);
    assert_int_equal(fi_cancel(&fid->fid, &a), -FI_ENOENT);
    assert_int_equal(fi_close(&fid->fid), 0);
    assert_false(children_any(&bare.domain.children));
}

static void receives_are_limited_by_the_size(void **state)
{
    struct fi_rx_attr attr = {.size = 1};
    char buf[8];

    bare_init(&bare, false);
    assert_int_equal(srx_open(&bare.domain, &own, &peer_ops, &attr, &fid, NULL), 0);
    assert_int_equal(fi_recv(fid, buf, 8, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_recv(fid, buf, 8, NULL, FI_ADDR_UNSPEC, NULL), -FI_EAGAIN);
    assert_int_equal(fi_send(fid, buf, 8, NULL, 0, NULL), -FI_ENOSYS);
    assert_int_equal(fi_close(&fid->fid), 0);
}

static void options_are_those_of_the_engine(void **state)
{
    size_t value, len = sizeof(value);

    bare_init(&bare, false);
    assert_int_equal(srx_open(&bare.domain, &own, &peer_ops, NULL, &fid, NULL), 0);
    assert_int_equal(fi_getopt(&fid->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len), 0);
    assert_int_equal(value, 64);
    value = 128;
    assert_int_equal(
        fi_setopt(&fid->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, sizeof(value)), 0);
    assert_int_equal(fi_setopt(&fid->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, 1),
                     -FI_EINVAL);
    assert_int_equal(match_min_multi_recv(object_of(fid, struct srx, fid)->match), 128);
    assert_int_equal(fi_enable(fid), 0);
    children_hold(&object_of(fid, struct srx, fid)->children);
    assert_int_equal(fi_close(&fid->fid), -FI_EBUSY);
    children_release(&object_of(fid, struct srx, fid)->children);
    assert_int_equal(fi_close(&fid->fid), 0);
}

static void the_uppers_gets_the_callbacks(void **state)
{
    struct fid_peer_srx upper = {.peer_ops = NULL};
    struct fi_peer_srx_context context = {.size = sizeof(context), .srx = &upper};
    struct fi_rx_attr attr = {.op_flags = FI_PEER};
    char buf[8];

    bare_init(&bare, false);
    assert_int_equal(srx_open(&bare.domain, NULL, &peer_ops, NULL, &fid, NULL), -FI_ENOSYS);
    assert_int_equal(srx_open(&bare.domain, NULL, &peer_ops, &attr, &fid, NULL), -FI_EINVAL);
    context.size--;
    assert_int_equal(srx_open(&bare.domain, NULL, &peer_ops, &attr, &fid, &context), -FI_EINVAL);
    context.size++;
    assert_int_equal(srx_open(&bare.domain, NULL, &peer_ops, &attr, &fid, &context), 0);
    assert_ptr_equal(upper.peer_ops, &peer_ops);
    assert_ptr_equal(object_of(fid, struct srx, fid)->peer, &upper);
    assert_int_equal(fi_recv(fid, buf, 8, NULL, FI_ADDR_UNSPEC, NULL), -FI_ENOSYS);
    assert_int_equal(fi_close(&fid->fid), 0);
    assert_false(children_any(&bare.domain.children));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_endpoint_hears_of_the_context),
        cmocka_unit_test(receives_are_limited_by_the_size),
        cmocka_unit_test(options_are_those_of_the_engine),
        cmocka_unit_test(the_uppers_gets_the_callbacks),
    };

    return cmocka_run_group_tests_name("srx", tests, NULL, NULL);
}
