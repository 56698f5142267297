/* SPDX-License-Identifier: BSD-2-Clause */
/* Every form of a transfer is the same post: through the public calls, on the templates' tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/post.h"

enum {
    DEFAULT_TX = FI_COMPLETION | FI_INJECT,
    DEFAULT_RX = FI_MULTI_RECV,
};

static struct post seen; /* the last post; its segments are copies */
static struct iovec seen_iov;
static struct fi_rma_iov seen_rma;
static struct fi_msg_tagged received;
static uint64_t receive_flags;

static uint64_t tx_flags(struct fid_ep *fid)
{
    return DEFAULT_TX;
}

static uint64_t rx_flags(struct fid_ep *fid)
{
    return DEFAULT_RX;
}

static ssize_t post_send(struct fid_ep *fid, const struct post *post)
{
    seen = *post;
    seen_iov = post->iov[0];
    return 0;
}

static ssize_t post_rma(struct fid_ep *fid, const struct post *post)
{
    seen_rma = post->rma[0];
    return post_send(fid, post);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    received = (struct fi_msg_tagged){.iov_count = msg->iov_count, .addr = msg->addr};
    seen_iov = msg->msg_iov[0];
    receive_flags = flags;
    return 0;
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    received = *msg;
    seen_iov = msg->msg_iov[0];
    receive_flags = flags;
    return 0;
}

#include "core/post_recv.inc"
#include "core/post_rma.inc"
#include "core/post_send.inc"
#include "core/post_trecv.inc"
#include "core/post_tsend.inc"

static struct fi_ops_msg msg_ops = {.size = sizeof(msg_ops), POST_RECV, POST_SEND};
static struct fi_ops_tagged tagged_ops = {.size = sizeof(tagged_ops), POST_TRECV, POST_TSEND};
static struct fi_ops_rma rma_ops = {.size = sizeof(rma_ops), POST_RMA};
static struct fid_ep ep = {.msg = &msg_ops, .tagged = &tagged_ops, .rma = &rma_ops};

static char buf[8], more[4];
static const struct iovec both[] = {{buf, 8}, {more, 4}};

/* What every form leaves behind; forgets it. */
static void check(uint64_t kind, size_t count, uint64_t flags, uint64_t data, uint64_t tag,
                  void *context)
{
    assert_int_equal(seen.kind, kind);
    assert_int_equal(seen.count, count);
    assert_ptr_equal(seen_iov.iov_base, buf);
    assert_int_equal(seen_iov.iov_len, 8);
    assert_int_equal(seen.peer, 5);
    assert_int_equal(seen.flags, flags);
    assert_int_equal(seen.data, data);
    assert_int_equal(seen.tag, tag);
    assert_ptr_equal(seen.context, context);
    assert_int_equal(seen.silent, !context);
    if (kind & FI_RMA) {
        assert_int_equal(seen.rma_count, 1);
        assert_int_equal(seen_rma.addr, 100);
        assert_int_equal(seen_rma.len, count == 2 ? 12 : 8);
        assert_int_equal(seen_rma.key, 9);
    }
    memset(&seen, 0, sizeof(seen));
}

static void messages_are_one_post(void **state)
{
    const struct fi_msg msg = {both, NULL, 2, 5, &ep, 7};

    fi_send(&ep, buf, 8, NULL, 5, &ep);
    check(FI_SEND | FI_MSG, 1, DEFAULT_TX, 0, 0, &ep);
    fi_sendv(&ep, both, NULL, 2, 5, &ep);
    check(FI_SEND | FI_MSG, 2, DEFAULT_TX, 0, 0, &ep);
    fi_sendmsg(&ep, &msg, FI_MORE);
    check(FI_SEND | FI_MSG, 2, FI_MORE, 7, 0, &ep);
    fi_senddata(&ep, buf, 8, NULL, 7, 5, &ep);
    check(FI_SEND | FI_MSG, 1, DEFAULT_TX | FI_REMOTE_CQ_DATA, 7, 0, &ep);
    fi_inject(&ep, buf, 8, 5);
    check(FI_SEND | FI_MSG, 1, FI_INJECT, 0, 0, NULL);
    fi_injectdata(&ep, buf, 8, 7, 5);
    check(FI_SEND | FI_MSG, 1, FI_INJECT | FI_REMOTE_CQ_DATA, 7, 0, NULL);
}

static void tagged_messages_are_one_post(void **state)
{
    const struct fi_msg_tagged msg = {both, NULL, 2, 5, 3, 0, &ep, 7};

    fi_tsend(&ep, buf, 8, NULL, 5, 3, &ep);
    check(FI_SEND | FI_TAGGED, 1, DEFAULT_TX, 0, 3, &ep);
    fi_tsendv(&ep, both, NULL, 2, 5, 3, &ep);
    check(FI_SEND | FI_TAGGED, 2, DEFAULT_TX, 0, 3, &ep);
    fi_tsendmsg(&ep, &msg, FI_MORE);
    check(FI_SEND | FI_TAGGED, 2, FI_MORE, 7, 3, &ep);
    fi_tsenddata(&ep, buf, 8, NULL, 7, 5, 3, &ep);
    check(FI_SEND | FI_TAGGED, 1, DEFAULT_TX | FI_REMOTE_CQ_DATA, 7, 3, &ep);
    fi_tinject(&ep, buf, 8, 5, 3);
    check(FI_SEND | FI_TAGGED, 1, FI_INJECT, 0, 3, NULL);
    fi_tinjectdata(&ep, buf, 8, 7, 5, 3);
    check(FI_SEND | FI_TAGGED, 1, FI_INJECT | FI_REMOTE_CQ_DATA, 7, 3, NULL);
}

static void writes_are_one_post(void **state)
{
    const struct fi_rma_iov remote = {100, 12, 9};
    const struct fi_msg_rma msg = {both, NULL, 2, 5, &remote, 1, &ep, 7};

    fi_write(&ep, buf, 8, NULL, 5, 100, 9, &ep);
    check(FI_RMA | FI_WRITE, 1, DEFAULT_TX, 0, 0, &ep);
    fi_writev(&ep, both, NULL, 2, 5, 100, 9, &ep);
    check(FI_RMA | FI_WRITE, 2, DEFAULT_TX, 0, 0, &ep);
    fi_writemsg(&ep, &msg, FI_MORE);
    check(FI_RMA | FI_WRITE, 2, FI_MORE, 7, 0, &ep);
    fi_writedata(&ep, buf, 8, NULL, 7, 5, 100, 9, &ep);
    check(FI_RMA | FI_WRITE, 1, DEFAULT_TX | FI_REMOTE_CQ_DATA, 7, 0, &ep);
    fi_inject_write(&ep, buf, 8, 5, 100, 9);
    check(FI_RMA | FI_WRITE, 1, FI_INJECT, 0, 0, NULL);
    fi_inject_writedata(&ep, buf, 8, 7, 5, 100, 9);
    check(FI_RMA | FI_WRITE, 1, FI_INJECT | FI_REMOTE_CQ_DATA, 7, 0, NULL);
}

static void reads_have_nothing_to_inject(void **state)
{
    const struct fi_rma_iov remote = {100, 12, 9};
    const struct fi_msg_rma msg = {both, NULL, 2, 5, &remote, 1, &ep, 0};

    fi_read(&ep, buf, 8, NULL, 5, 100, 9, &ep);
    check(FI_RMA | FI_READ, 1, FI_COMPLETION, 0, 0, &ep);
    fi_readv(&ep, both, NULL, 2, 5, 100, 9, &ep);
    check(FI_RMA | FI_READ, 2, FI_COMPLETION, 0, 0, &ep);
    fi_readmsg(&ep, &msg, FI_INJECT | FI_REMOTE_CQ_DATA | FI_MORE);
    check(FI_RMA | FI_READ, 2, FI_MORE, 0, 0, &ep);
}

static void check_receive(size_t count, uint64_t tag, uint64_t ignore)
{
    assert_int_equal(received.iov_count, count);
    assert_int_equal(received.addr, 5);
    assert_int_equal(received.tag, tag);
    assert_int_equal(received.ignore, ignore);
    assert_ptr_equal(seen_iov.iov_base, buf);
    assert_int_equal(seen_iov.iov_len, 8);
    assert_int_equal(receive_flags, DEFAULT_RX);
    memset(&received, 0, sizeof(received));
}

static void receives_take_the_default_flags(void **state)
{
    fi_recv(&ep, buf, 8, NULL, 5, &ep);
    check_receive(1, 0, 0);
    fi_recvv(&ep, both, NULL, 2, 5, &ep);
    check_receive(2, 0, 0);
    fi_trecv(&ep, buf, 8, NULL, 5, 3, 4, &ep);
    check_receive(1, 3, 4);
    fi_trecvv(&ep, both, NULL, 2, 5, 3, 4, &ep);
    check_receive(2, 3, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_one_post),
        cmocka_unit_test(tagged_messages_are_one_post),
        cmocka_unit_test(writes_are_one_post),
        cmocka_unit_test(reads_have_nothing_to_inject),
        cmocka_unit_test(receives_take_the_default_flags),
    };

    return cmocka_run_group_tests_name("post", tests, NULL, NULL);
}
