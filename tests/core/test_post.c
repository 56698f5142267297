/* SPDX-License-Identifier: BSD-2-Clause */
/* Every form of a transfer is the same post: through the public calls, on the templates' tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/atomic.h"
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

static struct post_atomic atomic_seen; /* its segments are copies */
static struct fi_ioc atomic_iov, atomic_compare, atomic_result;
static struct fi_rma_ioc atomic_rma;

static ssize_t post_atomic(struct fid_ep *fid, const struct post_atomic *post)
{
    static const struct fi_ioc none;

    atomic_seen = *post;
    atomic_iov = post->count ? post->iov[0] : none;
    atomic_compare = post->compare_count ? post->compare[0] : none;
    atomic_result = post->result_count ? post->result[0] : none;
    atomic_rma = post->rma[0];
    return 0;
}

static int count_atomic(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, uint64_t kind,
                        size_t *count)
{
    return atomic_count(datatype, op, kind, 64, count);
}

#include "core/post_atomic.inc"
#include "core/post_recv.inc"
#include "core/post_rma.inc"
#include "core/post_send.inc"
#include "core/post_trecv.inc"
#include "core/post_tsend.inc"

static struct fi_ops_msg msg_ops = {.size = sizeof(msg_ops), POST_RECV, POST_SEND};
static struct fi_ops_tagged tagged_ops = {.size = sizeof(tagged_ops), POST_TRECV, POST_TSEND};
static struct fi_ops_rma rma_ops = {.size = sizeof(rma_ops), POST_RMA};
static struct fi_ops_atomic atomic_ops = {.size = sizeof(atomic_ops), POST_ATOMIC};
static struct fid_ep ep = {
    .msg = &msg_ops, .tagged = &tagged_ops, .rma = &rma_ops, .atomic = &atomic_ops};

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

/* Forgets what it has seen. */
static void check_atomic(uint64_t function, enum fi_op op, const void *operand, const void *compare,
                         const void *result, size_t count, uint64_t flags)
{
    assert_int_equal(atomic_seen.function, function);
    assert_int_equal(atomic_seen.kind, FI_ATOMIC | (function ? FI_READ : FI_WRITE));
    assert_int_equal(atomic_seen.op, op);
    assert_int_equal(atomic_seen.datatype, FI_UINT16);
    assert_ptr_equal(atomic_iov.addr, operand);
    assert_ptr_equal(atomic_compare.addr, compare);
    assert_ptr_equal(atomic_result.addr, result);
    assert_int_equal(atomic_rma.count, count);
    assert_int_equal(atomic_rma.addr, 7);
    assert_int_equal(atomic_rma.key, 9);
    assert_int_equal(atomic_seen.peer, 5);
    assert_int_equal(atomic_seen.flags, flags);
    assert_int_equal(atomic_seen.silent, flags == FI_INJECT);
    assert_ptr_equal(atomic_seen.context, flags == FI_INJECT ? NULL : buf);
    memset(&atomic_seen, 0, sizeof(atomic_seen));
}

static void atomics_are_one_post(void **state)
{
    struct fi_ioc two[] = {{buf, 2}, {more, 1}}, results[] = {{more, 2}, {buf, 1}};
    const struct fi_rma_ioc remote = {.addr = 7, .key = 9, .count = 3};
    const struct fi_msg_atomic msg = {.msg_iov = two,
                                      .iov_count = 2,
                                      .addr = 5,
                                      .rma_iov = &remote,
                                      .rma_iov_count = 1,
                                      .datatype = FI_UINT16,
                                      .op = FI_SUM,
                                      .context = buf};
    struct fi_msg_atomic swap = msg, read = msg;

    swap.op = FI_CSWAP;
    read.op = FI_ATOMIC_READ;
    fi_atomic(&ep, buf, 3, NULL, 5, 7, 9, FI_UINT16, FI_SUM, buf);
    check_atomic(0, FI_SUM, buf, NULL, NULL, 3, DEFAULT_TX);
    fi_atomicv(&ep, two, NULL, 2, 5, 7, 9, FI_UINT16, FI_SUM, buf);
    check_atomic(0, FI_SUM, buf, NULL, NULL, 3, DEFAULT_TX);
    fi_atomicmsg(&ep, &msg, FI_FENCE);
    check_atomic(0, FI_SUM, buf, NULL, NULL, 3, FI_FENCE);
    fi_inject_atomic(&ep, buf, 3, 5, 7, 9, FI_UINT16, FI_SUM);
    check_atomic(0, FI_SUM, buf, NULL, NULL, 3, FI_INJECT);

    fi_fetch_atomic(&ep, buf, 3, NULL, more, NULL, 5, 7, 9, FI_UINT16, FI_SUM, buf);
    check_atomic(FI_FETCH_ATOMIC, FI_SUM, buf, NULL, more, 3, DEFAULT_TX);
    fi_fetch_atomicv(&ep, two, NULL, 2, results, NULL, 2, 5, 7, 9, FI_UINT16, FI_SUM, buf);
    check_atomic(FI_FETCH_ATOMIC, FI_SUM, buf, NULL, more, 3, DEFAULT_TX);
    fi_fetch_atomicmsg(&ep, &msg, results, NULL, 2, FI_FENCE);
    check_atomic(FI_FETCH_ATOMIC, FI_SUM, buf, NULL, more, 3, FI_FENCE);
    fi_fetch_atomic(&ep, NULL, 3, NULL, more, NULL, 5, 7, 9, FI_UINT16, FI_ATOMIC_READ, buf);
    check_atomic(FI_FETCH_ATOMIC, FI_ATOMIC_READ, NULL, NULL, more, 3, DEFAULT_TX);
    fi_fetch_atomicv(&ep, NULL, NULL, 0, results, NULL, 2, 5, 7, 9, FI_UINT16, FI_ATOMIC_READ, buf);
    check_atomic(FI_FETCH_ATOMIC, FI_ATOMIC_READ, NULL, NULL, more, 3, DEFAULT_TX);
    fi_fetch_atomicmsg(&ep, &read, results, NULL, 2, 0);
    check_atomic(FI_FETCH_ATOMIC, FI_ATOMIC_READ, NULL, NULL, more, 3, 0);

    fi_compare_atomic(&ep, buf, 3, NULL, more, NULL, buf, NULL, 5, 7, 9, FI_UINT16, FI_CSWAP, buf);
    check_atomic(FI_COMPARE_ATOMIC, FI_CSWAP, buf, more, buf, 3, DEFAULT_TX);
    fi_compare_atomicv(&ep, two, NULL, 2, two, NULL, 2, results, NULL, 2, 5, 7, 9, FI_UINT16,
                       FI_CSWAP, buf);
    check_atomic(FI_COMPARE_ATOMIC, FI_CSWAP, buf, buf, more, 3, DEFAULT_TX);
    fi_compare_atomicmsg(&ep, &swap, two, NULL, 2, results, NULL, 2, FI_MORE);
    check_atomic(FI_COMPARE_ATOMIC, FI_CSWAP, buf, buf, more, 3, FI_MORE);
}

static void valid_operations_are_counted_by_function(void **state)
{
    size_t count = 0;

    assert_int_equal(fi_atomicvalid(&ep, FI_UINT32, FI_SUM, &count), 0);
    assert_int_equal(count, 16);
    assert_int_equal(fi_atomicvalid(&ep, FI_UINT32, FI_CSWAP, &count), -FI_EOPNOTSUPP);
    assert_int_equal(fi_fetch_atomicvalid(&ep, FI_UINT64, FI_ATOMIC_READ, &count), 0);
    assert_int_equal(count, 8);
    assert_int_equal(fi_compare_atomicvalid(&ep, FI_UINT8, FI_CSWAP, &count), 0);
    assert_int_equal(fi_compare_atomicvalid(&ep, FI_UINT8, FI_SUM, &count), -FI_EOPNOTSUPP);
}

static int checked(struct post_atomic post)
{
    size_t count = 0;
    int rc = atomic_check(&post, 64, 2, &count);

    assert_int_equal(count, rc ? 0 : 3);
    return rc;
}

static void unsound_atomics_are_refused(void **state)
{
    static const struct fi_ioc three = {buf, 3}, two[] = {{buf, 2}, {buf, 1}, {buf, 0}};
    static const struct fi_ioc large = {buf, 65}, wraps[] = {{buf, SIZE_MAX}, {buf, 4}};
    static struct fi_ioc result = {buf, 3}, short_result = {buf, 2};
    static const struct fi_rma_ioc remote = {0, 3, 0}, far = {0, SIZE_MAX, 0};
    const struct post_atomic sound = {.iov = &three,
                                      .count = 1,
                                      .rma = &remote,
                                      .rma_count = 1,
                                      .datatype = FI_INT8,
                                      .op = FI_MAX};
    struct post_atomic post = sound;

    assert_int_equal(checked(post), 0);
    post.iov = two;
    post.count = 2;
    assert_int_equal(checked(post), 0);
    post.count = 1;
    assert_int_equal(checked(post), -FI_EINVAL);
    post.count = 3;
    assert_int_equal(checked(post), -FI_EINVAL);
    post = sound;
    post.iov = wraps;
    assert_int_equal(checked(post), -FI_EMSGSIZE);
    post.count = 2;
    assert_int_equal(checked(post), -FI_EMSGSIZE);
    post.iov = &large;
    post.count = 1;
    assert_int_equal(checked(post), -FI_EMSGSIZE);
    post = sound;
    post.rma = &far;
    assert_int_equal(checked(post), -FI_EMSGSIZE);
    post.rma_count = 0;
    post.count = 0;
    assert_int_equal(checked(post), -FI_EINVAL);
    post = sound;
    post.op = FI_CSWAP;
    assert_int_equal(checked(post), -FI_EOPNOTSUPP);
    post = sound;
    post.flags = FI_TAGGED;
    assert_int_equal(checked(post), -FI_EOPNOTSUPP);
    post.flags = FI_REMOTE_CQ_DATA;
    assert_int_equal(checked(post), -FI_EBADFLAGS);
    post = sound;
    post.function = FI_FETCH_ATOMIC;
    assert_int_equal(checked(post), -FI_EINVAL);
    post.result = &short_result;
    post.result_count = 1;
    assert_int_equal(checked(post), -FI_EINVAL);
    post.result = &result;
    assert_int_equal(checked(post), 0);
    post.function = FI_COMPARE_ATOMIC;
    post.op = FI_MSWAP;
    assert_int_equal(checked(post), -FI_EINVAL);
    post.compare = &three;
    post.compare_count = 1;
    assert_int_equal(checked(post), 0);
}

/* No form of a transfer takes it, and none is posted. */
static void matching_is_not_waited_for(void **state)
{
    struct fi_msg msg = {0};
    struct fi_msg_tagged tagged = {0};
    struct fi_msg_rma rma = {0};
    struct fi_msg_atomic atomic = {0};
    uint64_t flags = FI_COMPLETION | FI_MATCH_COMPLETE;

    assert_int_equal(msg_sendmsg(NULL, &msg, flags), -FI_EOPNOTSUPP);
    assert_int_equal(tagged_sendmsg(NULL, &tagged, flags), -FI_EOPNOTSUPP);
    assert_int_equal(rma_writemsg(NULL, &rma, flags), -FI_EOPNOTSUPP);
    assert_int_equal(rma_readmsg(NULL, &rma, flags), -FI_EOPNOTSUPP);
    assert_int_equal(atomic_writemsg(NULL, &atomic, flags), -FI_EOPNOTSUPP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matching_is_not_waited_for),
        cmocka_unit_test(messages_are_one_post),
        cmocka_unit_test(tagged_messages_are_one_post),
        cmocka_unit_test(writes_are_one_post),
        cmocka_unit_test(reads_have_nothing_to_inject),
        cmocka_unit_test(receives_take_the_default_flags),
        cmocka_unit_test(atomics_are_one_post),
        cmocka_unit_test(valid_operations_are_counted_by_function),
        cmocka_unit_test(unsound_atomics_are_refused),
    };

    return cmocka_run_group_tests_name("post", tests, NULL, NULL);
}
