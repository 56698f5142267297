/* SPDX-License-Identifier: BSD-2-Clause */
/* Every public call makes one op, which is posted once; and a copy of it says the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/ep/endpoint.h"
#include "core/op/atomic.h"
#include "core/op/op_copy.h"

enum {
    DEFAULT_TX = FI_COMPLETION | FI_INJECT,
    DEFAULT_RX = FI_MULTI_RECV,
};

/* The last operation, with final flags: a copy, as a layer keeps it. */
static struct op seen;
static _Alignas(max_align_t) char memory[4096];

static ssize_t post(struct ep *base, struct op *op)
{
    ssize_t rc = 0;

    if (op->group & (OP_GROUP_RECV | OP_GROUP_TRECV))
        op_finalize_flags(op, DEFAULT_RX);
    else
        rc = op_settle(op, DEFAULT_TX);
    if (rc)
        return rc;
    assert_true(op_copy_size(op, false) <= sizeof(memory));
    op_copy(op, false, &seen, memory);
    return 0;
}

static int count_valid(struct ep *base, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                       size_t *count)
{
    return atomic_count(datatype, op, function, 64, count);
}

static struct ep object = {.post = post, .groups = OP_GROUP_ALL, .atomic_valid = count_valid};
#define ep object.fid

static int set_tables(void **state)
{
    ep_set_data_ops(&object);
    return 0;
}

static char buf[8], more[4];
static const struct iovec both[] = {{buf, 8}, {more, 4}};

/* The op that each function leaves; forgets it. */
static void check(uint64_t kind, size_t count, uint64_t flags, uint64_t data, uint64_t tag,
                  void *context)
{
    assert_int_equal(seen.kind, kind);
    assert_int_equal(seen.count, count);
    assert_ptr_equal(seen.iov->iov_base, buf);
    assert_int_equal(seen.iov->iov_len, 8);
    assert_int_equal(seen.len, count == 2 ? 12 : 8);
    assert_int_equal(seen.peer, 5);
    assert_int_equal(seen.flags, flags);
    assert_int_equal(seen.data, data);
    if (kind & FI_TAGGED)
        assert_int_equal(seen.tag, tag);
    assert_ptr_equal(seen.context, context);
    assert_int_equal(op_is_inject(&seen), !context);
    if (kind & FI_RMA) {
        assert_int_equal(seen.rma_count, 1);
        assert_int_equal(seen.rma->addr, 100);
        assert_int_equal(seen.rma->len, count == 2 ? 12 : 8);
        assert_int_equal(seen.rma->key, 9);
    }
    memset(&seen, 0, sizeof(seen));
}

static void messages_are_one_post(void **state)
{
    const struct fi_msg msg = {both, NULL, 2, 5, &object, 7};

    fi_send(&ep, buf, 8, NULL, 5, &object);
    check(FI_SEND | FI_MSG, 1, DEFAULT_TX, 0, 0, &object);
    fi_sendv(&ep, both, NULL, 2, 5, &object);
    check(FI_SEND | FI_MSG, 2, DEFAULT_TX, 0, 0, &object);
    fi_sendmsg(&ep, &msg, FI_MORE);
    check(FI_SEND | FI_MSG, 2, FI_MORE, 7, 0, &object);
    fi_senddata(&ep, buf, 8, NULL, 7, 5, &object);
    check(FI_SEND | FI_MSG, 1, DEFAULT_TX | FI_REMOTE_CQ_DATA, 7, 0, &object);
    fi_inject(&ep, buf, 8, 5);
    check(FI_SEND | FI_MSG, 1, FI_INJECT, 0, 0, NULL);
    fi_injectdata(&ep, buf, 8, 7, 5);
    check(FI_SEND | FI_MSG, 1, FI_INJECT | FI_REMOTE_CQ_DATA, 7, 0, NULL);
}

static void tagged_messages_are_one_post(void **state)
{
    const struct fi_msg_tagged msg = {both, NULL, 2, 5, 3, 0, &object, 7};

    fi_tsend(&ep, buf, 8, NULL, 5, 3, &object);
    check(FI_SEND | FI_TAGGED, 1, DEFAULT_TX, 0, 3, &object);
    fi_tsendv(&ep, both, NULL, 2, 5, 3, &object);
    check(FI_SEND | FI_TAGGED, 2, DEFAULT_TX, 0, 3, &object);
    fi_tsendmsg(&ep, &msg, FI_MORE);
    check(FI_SEND | FI_TAGGED, 2, FI_MORE, 7, 3, &object);
    fi_tsenddata(&ep, buf, 8, NULL, 7, 5, 3, &object);
    check(FI_SEND | FI_TAGGED, 1, DEFAULT_TX | FI_REMOTE_CQ_DATA, 7, 3, &object);
    fi_tinject(&ep, buf, 8, 5, 3);
    check(FI_SEND | FI_TAGGED, 1, FI_INJECT, 0, 3, NULL);
    fi_tinjectdata(&ep, buf, 8, 7, 5, 3);
    check(FI_SEND | FI_TAGGED, 1, FI_INJECT | FI_REMOTE_CQ_DATA, 7, 3, NULL);
}

static void writes_are_one_post(void **state)
{
    const struct fi_rma_iov remote = {100, 12, 9};
    const struct fi_msg_rma msg = {both, NULL, 2, 5, &remote, 1, &object, 7};

    fi_write(&ep, buf, 8, NULL, 5, 100, 9, &object);
    check(FI_RMA | FI_WRITE, 1, DEFAULT_TX, 0, 0, &object);
    fi_writev(&ep, both, NULL, 2, 5, 100, 9, &object);
    check(FI_RMA | FI_WRITE, 2, DEFAULT_TX, 0, 0, &object);
    fi_writemsg(&ep, &msg, FI_MORE);
    check(FI_RMA | FI_WRITE, 2, FI_MORE, 7, 0, &object);
    fi_writedata(&ep, buf, 8, NULL, 7, 5, 100, 9, &object);
    check(FI_RMA | FI_WRITE, 1, DEFAULT_TX | FI_REMOTE_CQ_DATA, 7, 0, &object);
    fi_inject_write(&ep, buf, 8, 5, 100, 9);
    check(FI_RMA | FI_WRITE, 1, FI_INJECT, 0, 0, NULL);
    fi_inject_writedata(&ep, buf, 8, 7, 5, 100, 9);
    check(FI_RMA | FI_WRITE, 1, FI_INJECT | FI_REMOTE_CQ_DATA, 7, 0, NULL);
}

static void reads_have_nothing_to_inject(void **state)
{
    const struct fi_rma_iov remote = {100, 12, 9};
    const struct fi_msg_rma msg = {both, NULL, 2, 5, &remote, 1, &object, 0};

    fi_read(&ep, buf, 8, NULL, 5, 100, 9, &object);
    check(FI_RMA | FI_READ, 1, FI_COMPLETION, 0, 0, &object);
    fi_readv(&ep, both, NULL, 2, 5, 100, 9, &object);
    check(FI_RMA | FI_READ, 2, FI_COMPLETION, 0, 0, &object);
    fi_readmsg(&ep, &msg, FI_INJECT | FI_REMOTE_CQ_DATA | FI_MORE);
    check(FI_RMA | FI_READ, 2, FI_MORE, 0, 0, &object);
}

static void check_receive(size_t count, uint64_t tag, uint64_t ignore)
{
    bool tagged = seen.group == OP_GROUP_TRECV;

    assert_int_equal(seen.count, count);
    assert_int_equal(seen.peer, 5);
    assert_int_equal(tagged ? seen.tag : 0, tag);
    assert_int_equal(tagged ? seen.ignore : 0, ignore);
    assert_ptr_equal(seen.iov->iov_base, buf);
    assert_int_equal(seen.iov->iov_len, 8);
    assert_int_equal(seen.flags, DEFAULT_RX);
    memset(&seen, 0, sizeof(seen));
}

static void receives_take_the_default_flags(void **state)
{
    fi_recv(&ep, buf, 8, NULL, 5, &object);
    check_receive(1, 0, 0);
    fi_recvv(&ep, both, NULL, 2, 5, &object);
    check_receive(2, 0, 0);
    fi_trecv(&ep, buf, 8, NULL, 5, 3, 4, &object);
    check_receive(1, 3, 4);
    fi_trecvv(&ep, both, NULL, 2, 5, 3, 4, &object);
    check_receive(2, 3, 4);
}

/* Forgets what it has seen. */
static void check_atomic(uint64_t function, enum fi_op op, const void *operand, const void *compare,
                         const void *result, size_t count, uint64_t flags)
{
    const void *operand_seen = seen.count ? seen.ioc->addr : NULL;
    const void *compare_seen = seen.compare.count ? seen.compare.ioc->addr : NULL;
    const void *result_seen = seen.result.count ? seen.result.ioc->addr : NULL;

    assert_int_equal(seen.function, function);
    assert_int_equal(seen.kind, FI_ATOMIC | (function ? FI_READ : FI_WRITE));
    assert_int_equal(seen.op, op);
    assert_int_equal(seen.datatype, FI_UINT16);
    assert_ptr_equal(operand_seen, operand);
    assert_ptr_equal(compare_seen, compare);
    assert_ptr_equal(result_seen, result);
    assert_int_equal(seen.rma_ioc->count, count);
    assert_int_equal(seen.rma_ioc->addr, 7);
    assert_int_equal(seen.rma_ioc->key, 9);
    assert_int_equal(seen.peer, 5);
    assert_int_equal(seen.flags, flags);
    assert_int_equal(op_is_inject(&seen), flags == FI_INJECT);
    assert_ptr_equal(seen.context, flags == FI_INJECT ? NULL : buf);
    memset(&seen, 0, sizeof(seen));
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

static int checked(struct op op)
{
    size_t count = 0;
    int rc = atomic_check_op(&op, 64, 2, &count);

    assert_int_equal(count, rc ? 0 : 3);
    return rc;
}

static void unsound_atomics_are_refused(void **state)
{
    static const struct fi_ioc three = {buf, 3}, two[] = {{buf, 2}, {buf, 1}, {buf, 0}};
    static const struct fi_ioc large = {buf, 65}, wraps[] = {{buf, SIZE_MAX}, {buf, 4}};
    static struct fi_ioc result = {buf, 3}, short_result = {buf, 2};
    static const struct fi_rma_ioc remote = {0, 3, 0}, far = {0, SIZE_MAX, 0};
    const struct op sound = {.ioc = &three,
                             .count = 1,
                             .rma_ioc = &remote,
                             .rma_count = 1,
                             .datatype = FI_INT8,
                             .op = FI_MAX};
    struct op op = sound;

    assert_int_equal(checked(op), 0);
    op.ioc = two;
    op.count = 2;
    assert_int_equal(checked(op), 0);
    op.count = 1;
    assert_int_equal(checked(op), -FI_EINVAL);
    op.count = 3;
    assert_int_equal(checked(op), -FI_EINVAL);
    op = sound;
    op.ioc = wraps;
    assert_int_equal(checked(op), -FI_EMSGSIZE);
    op.count = 2;
    assert_int_equal(checked(op), -FI_EMSGSIZE);
    op.ioc = &large;
    op.count = 1;
    assert_int_equal(checked(op), -FI_EMSGSIZE);
    op = sound;
    op.rma_ioc = &far;
    assert_int_equal(checked(op), -FI_EMSGSIZE);
    op.rma_count = 0;
    op.count = 0;
    assert_int_equal(checked(op), -FI_EINVAL);
    op = sound;
    op.op = FI_CSWAP;
    assert_int_equal(checked(op), -FI_EOPNOTSUPP);
    op = sound;
    op.flags = FI_TAGGED;
    assert_int_equal(checked(op), -FI_EOPNOTSUPP);
    op.flags = FI_REMOTE_CQ_DATA;
    assert_int_equal(checked(op), -FI_EBADFLAGS);
    op = sound;
    op.function = FI_FETCH_ATOMIC;
    assert_int_equal(checked(op), -FI_EINVAL);
    op.result.ioc = &short_result;
    op.result.count = 1;
    assert_int_equal(checked(op), -FI_EINVAL);
    op.result.ioc = &result;
    assert_int_equal(checked(op), 0);
    op.function = FI_COMPARE_ATOMIC;
    op.op = FI_MSWAP;
    assert_int_equal(checked(op), -FI_EINVAL);
    op.compare.ioc = &three;
    op.compare.count = 1;
    assert_int_equal(checked(op), 0);
}

static void injected_bytes_are_copied(void **state)
{
    char text[] = "injected";
    struct iovec parts[] = {{text, 3}, {text + 3, 5}};
    struct op op = {.group = OP_GROUP_SEND, .iov = parts, .count = 2}, copy;

    assert_true(op_copy_size(&op, true) <= sizeof(memory));
    op_copy(&op, true, &copy, memory);
    memset(text, 0, sizeof(text));
    assert_int_equal(copy.count, 1);
    assert_int_equal(copy.iov->iov_len, 8);
    assert_memory_equal(copy.iov->iov_base, "injected", 8);
}

static void injected_operands_are_copied(void **state)
{
    uint32_t operand[] = {1, 2, 3}, compare[] = {4, 5, 6}, result[3];
    struct fi_ioc local[] = {{operand, 1}, {operand + 1, 2}}, against = {compare, 3};
    struct fi_ioc results[] = {{result, 2}, {result + 2, 1}};
    struct op op = {.group = OP_GROUP_ATOMIC, .ioc = local, .count = 2}, copy;

    op.datatype = FI_UINT32;
    op.function = FI_COMPARE_ATOMIC;
    op.compare = (struct op_operand){.ioc = &against, .count = 1};
    op.result = (struct op_operand){.ioc = results, .count = 2};
    assert_true(op_copy_size(&op, true) <= sizeof(memory));
    op_copy(&op, true, &copy, memory);
    operand[1] = operand[2] = compare[0] = compare[2] = 0;
    assert_int_equal(copy.count, 1);
    assert_int_equal(copy.ioc->count, 3);
    assert_memory_equal(copy.ioc->addr, ((uint32_t[]){1, 2, 3}), 12);
    assert_int_equal(copy.compare.count, 1);
    assert_int_equal(copy.compare.ioc->count, 3);
    assert_memory_equal(copy.compare.ioc->addr, ((uint32_t[]){4, 5, 6}), 12);
    assert_int_equal(copy.result.count, 2);
    assert_ptr_equal(copy.result.ioc[1].addr, result + 2);
}

/* No form of a transfer takes it, and none is posted. */
static void matching_is_not_waited_for(void **state)
{
    struct fi_msg msg = {0};
    struct fi_msg_tagged tagged = {0};
    struct fi_msg_rma rma = {0};
    struct fi_msg_atomic atomic = {0};
    uint64_t flags = FI_COMPLETION | FI_MATCH_COMPLETE;

    assert_int_equal(fi_sendmsg(&ep, &msg, flags), -FI_EOPNOTSUPP);
    assert_int_equal(fi_tsendmsg(&ep, &tagged, flags), -FI_EOPNOTSUPP);
    assert_int_equal(fi_writemsg(&ep, &rma, flags), -FI_EOPNOTSUPP);
    assert_int_equal(fi_readmsg(&ep, &rma, flags), -FI_EOPNOTSUPP);
    assert_int_equal(fi_atomicmsg(&ep, &atomic, flags), -FI_EOPNOTSUPP);
}

/* An answer of the target that nothing would tell of is not asked for. */
static void injects_are_delivered_for_a_counter(void **state)
{
    static const struct {
        enum op_call call;
        uint64_t kind;
        enum binding_kind counted;
    } injects[] = {{OP_TINJECT, FI_SEND | FI_TAGGED, BIND_SEND},
                   {OP_INJECT, FI_SEND | FI_MSG, BIND_SEND},
                   {OP_INJECT_WRITE, FI_RMA | FI_WRITE, BIND_WRITE},
                   {OP_INJECT_ATOMIC, FI_ATOMIC | FI_WRITE, BIND_WRITE}};
    struct cntr counter;

    for (size_t i = 0; i < sizeof(injects) / sizeof(*injects); i++) {
        for (int kind = 0; kind < BIND_KINDS; kind++) {
            struct endpoint endpoint = {.tx_op_flags = FI_DELIVERY_COMPLETE | FI_COMPLETION};
            struct op op = {.call = injects[i].call, .kind = injects[i].kind, .flags = FI_INJECT};

            endpoint.binding.cntr[kind] = &counter;
            assert_int_equal(endpoint_settle(&endpoint, &op), 0);
            assert_int_equal(op.flags, kind == (int)injects[i].counted
                                           ? FI_INJECT | FI_DELIVERY_COMPLETE
                                           : FI_INJECT);
        }
    }
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
        cmocka_unit_test(injects_are_delivered_for_a_counter),
        cmocka_unit_test(injected_bytes_are_copied),
        cmocka_unit_test(injected_operands_are_copied),
    };

    return cmocka_run_group_tests_name("op", tests, set_tables, NULL);
}
