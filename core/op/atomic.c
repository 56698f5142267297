/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/op/atomic.h"

#include <assert.h>
#include <complex.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/atomic_value.h"
#include "core/op/op.h"

enum {
    INTEGERS = 1,
    FLOATS = 2,
    COMPLEXES = 4,
    ORDERED = INTEGERS | FLOATS,
    NUMBERS = ORDERED | COMPLEXES,
};

struct datatype {
    size_t size;
    unsigned set;
    atomic_change *change;
};

static const struct datatype datatypes[] = {
    [FI_INT8] = {1, INTEGERS, atomic_change_int8},
    [FI_UINT8] = {1, INTEGERS, atomic_change_uint8},
    [FI_INT16] = {2, INTEGERS, atomic_change_int16},
    [FI_UINT16] = {2, INTEGERS, atomic_change_uint16},
    [FI_INT32] = {4, INTEGERS, atomic_change_int32},
    [FI_UINT32] = {4, INTEGERS, atomic_change_uint32},
    [FI_INT64] = {8, INTEGERS, atomic_change_int64},
    [FI_UINT64] = {8, INTEGERS, atomic_change_uint64},
    [FI_FLOAT] = {sizeof(float), FLOATS, atomic_change_float},
    [FI_DOUBLE] = {sizeof(double), FLOATS, atomic_change_double},
    [FI_FLOAT_COMPLEX] = {sizeof(float complex), COMPLEXES, atomic_change_float_complex},
    [FI_DOUBLE_COMPLEX] = {sizeof(double complex), COMPLEXES, atomic_change_double_complex},
    [FI_LONG_DOUBLE] = {sizeof(long double), FLOATS, atomic_change_long_double},
    [FI_LONG_DOUBLE_COMPLEX] = {sizeof(long double complex), COMPLEXES,
                                atomic_change_long_double_complex},
/* Compilers for 32 bits have none: such an element has no size, and no operation. */
#ifdef __SIZEOF_INT128__
    [FI_INT128] = {16, INTEGERS, atomic_change_int128},
    [FI_UINT128] = {16, INTEGERS, atomic_change_uint128},
#endif
    [FI_FLOAT16] = {2, FLOATS, atomic_change_float16},
    [FI_BFLOAT16] = {2, FLOATS, atomic_change_bfloat16},
    [FI_FLOAT8_E4M3] = {1, FLOATS, atomic_change_float8_e4m3},
    [FI_FLOAT8_E5M2] = {1, FLOATS, atomic_change_float8_e5m2},
};

/* Operations that are one instruction on integers, or on the bytes of any type. */
enum direct {
    DIRECT_NONE,
    DIRECT_ADD,
    DIRECT_SUB,
    DIRECT_OR,
    DIRECT_AND,
    DIRECT_XOR,
    DIRECT_READ,
    DIRECT_WRITE,
};

struct operation {
    unsigned base, fetch, compare; /* sets of datatypes: for fi_atomic, fi_fetch_atomic, ... */
    enum direct direct;            /* on integers */
};

static const struct operation operations[] = {
    [FI_MIN] = {ORDERED, ORDERED, 0, DIRECT_NONE},
    [FI_MAX] = {ORDERED, ORDERED, 0, DIRECT_NONE},
    [FI_SUM] = {NUMBERS, NUMBERS, 0, DIRECT_ADD},
    [FI_PROD] = {NUMBERS, NUMBERS, 0, DIRECT_NONE},
    [FI_LOR] = {NUMBERS, NUMBERS, 0, DIRECT_NONE},
    [FI_LAND] = {NUMBERS, NUMBERS, 0, DIRECT_NONE},
    [FI_BOR] = {INTEGERS, INTEGERS, 0, DIRECT_OR},
    [FI_BAND] = {INTEGERS, INTEGERS, 0, DIRECT_AND},
    [FI_LXOR] = {NUMBERS, NUMBERS, 0, DIRECT_NONE},
    [FI_BXOR] = {INTEGERS, INTEGERS, 0, DIRECT_XOR},
    [FI_ATOMIC_READ] = {0, NUMBERS, 0, DIRECT_READ},
    [FI_ATOMIC_WRITE] = {NUMBERS, NUMBERS, 0, DIRECT_WRITE},
    [FI_CSWAP] = {0, 0, NUMBERS, DIRECT_NONE},
    [FI_CSWAP_NE] = {0, 0, NUMBERS, DIRECT_NONE},
    [FI_CSWAP_LE] = {0, 0, ORDERED, DIRECT_NONE},
    [FI_CSWAP_LT] = {0, 0, ORDERED, DIRECT_NONE},
    [FI_CSWAP_GE] = {0, 0, ORDERED, DIRECT_NONE},
    [FI_CSWAP_GT] = {0, 0, ORDERED, DIRECT_NONE},
    [FI_MSWAP] = {0, 0, INTEGERS, DIRECT_NONE},
    [FI_DIFF] = {NUMBERS, NUMBERS, 0, DIRECT_SUB},
};

/* The numbers of both have no gaps, so that every one below the table's end is an element. */
static const struct datatype *datatype_of(enum fi_datatype datatype)
{
    size_t number = (size_t)datatype;

    return number < sizeof(datatypes) / sizeof(datatypes[0]) ? &datatypes[number] : NULL;
}

static const struct operation *operation_of(enum fi_op op)
{
    size_t number = (size_t)op;

    return number < sizeof(operations) / sizeof(operations[0]) ? &operations[number] : NULL;
}

size_t atomic_size(enum fi_datatype datatype)
{
    const struct datatype *type = datatype_of(datatype);

    return type ? type->size : 0;
}

bool atomic_valid(enum fi_datatype datatype, enum fi_op op, uint64_t flags)
{
    const struct datatype *type = datatype_of(datatype);
    const struct operation *operation = operation_of(op);

    if (!type || !operation)
        return false;
    switch (flags) {
    case 0: return operation->base & type->set;
    case FI_FETCH_ATOMIC: return operation->fetch & type->set;
    case FI_COMPARE_ATOMIC: return operation->compare & type->set;
    default: return false;
    }
}

uint64_t atomic_access(enum fi_op op, uint64_t function)
{
    if (op == FI_ATOMIC_READ)
        return FI_REMOTE_READ;
    return function ? FI_REMOTE_READ | FI_REMOTE_WRITE : FI_REMOTE_WRITE;
}

bool atomic_is_whole(enum fi_datatype datatype, const struct iovec *pieces, size_t count)
{
    size_t size = atomic_size(datatype);

    for (size_t i = 0; i < count; i++) {
        if (!size || pieces[i].iov_len % size)
            return false;
    }
    return true;
}

void atomic_apply_pieces(enum fi_op op, enum fi_datatype datatype, const struct iovec *pieces,
                         size_t count, const void *operands, const void *compare, void *results)
{
    size_t size = atomic_size(datatype), at = 0;

    assert(size); /* of a datatype that was checked */
    for (size_t i = 0; i < count; i++) {
        atomic_apply(op, datatype, pieces[i].iov_base,
                     operands ? (const char *)operands + at : NULL,
                     compare ? (const char *)compare + at : NULL,
                     results ? (char *)results + at : NULL, pieces[i].iov_len / size);
        at += pieces[i].iov_len;
    }
}

uint8_t *atomic_gather(uint8_t *to, const struct fi_ioc *ioc, size_t segments, size_t size)
{
    for (size_t i = 0; i < segments; i++) {
        if (ioc[i].count)
            memcpy(to, ioc[i].addr, ioc[i].count * size);
        to += ioc[i].count * size;
    }
    return to;
}

struct job {
    enum fi_op op;
    enum direct direct;
    size_t size;
    atomic_change *change;
};

#define NATIVE(bits)                                                                               \
    static void native_##bits(const struct job *job, void *target, const void *operand,            \
                              const void *compare, void *result)                                   \
    {                                                                                              \
        uint##bits##_t *word = target, value = 0, old = 0;                                         \
                                                                                                   \
        if (operand)                                                                               \
            memcpy(&value, operand, sizeof(value));                                                \
        switch (job->direct) {                                                                     \
        case DIRECT_ADD: old = __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST); break;           \
        case DIRECT_SUB: old = __atomic_fetch_sub(word, value, __ATOMIC_SEQ_CST); break;           \
        case DIRECT_OR: old = __atomic_fetch_or(word, value, __ATOMIC_SEQ_CST); break;             \
        case DIRECT_AND: old = __atomic_fetch_and(word, value, __ATOMIC_SEQ_CST); break;           \
        case DIRECT_XOR: old = __atomic_fetch_xor(word, value, __ATOMIC_SEQ_CST); break;           \
        case DIRECT_READ: old = __atomic_load_n(word, __ATOMIC_SEQ_CST); break;                    \
        case DIRECT_WRITE: old = __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST); break;        \
        case DIRECT_NONE:                                                                          \
            old = __atomic_load_n(word, __ATOMIC_SEQ_CST);                                         \
            do                                                                                     \
                value = old;                                                                       \
            while (job->change(job->op, &value, operand, compare) &&                               \
                   !__atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_SEQ_CST,        \
                                                __ATOMIC_SEQ_CST));                                \
        }                                                                                          \
        if (result)                                                                                \
            memcpy(result, &old, sizeof(old));                                                     \
    }

NATIVE(8)
NATIVE(16)
NATIVE(32)
NATIVE(64)

enum {
    STRIPES = 64,
    STRIPE_SHIFT = 4, /* an element of 16 bytes, aligned, is in one stripe */
    CACHE_LINE = 64,
    SPINS = 128,
};

/* Taken for the time of one element: no thread sleeps with one, but it may be preempted. */
static struct {
    _Alignas(CACHE_LINE) atomic_bool taken;
} stripes[STRIPES];

static atomic_bool *lock(const void *target)
{
    atomic_bool *taken = &stripes[(uintptr_t)target >> STRIPE_SHIFT & (STRIPES - 1)].taken;

    for (unsigned spins = 0; atomic_exchange_explicit(taken, true, memory_order_acquire);) {
        if (++spins % SPINS == 0)
            sched_yield();
    }
    return taken;
}

static void locked(const struct job *job, void *target, const void *operand, const void *compare,
                   void *result)
{
    char old[ATOMIC_MAX_SIZE], value[ATOMIC_MAX_SIZE];
    atomic_bool *taken = lock(target);

    memcpy(old, target, job->size);
    if (job->direct == DIRECT_WRITE) {
        assert(operand);
        memcpy(target, operand, job->size);
    } else if (job->direct != DIRECT_READ) {
        memcpy(value, old, job->size);
        if (job->change(job->op, value, operand, compare))
            memcpy(target, value, job->size);
    }
    atomic_store_explicit(taken, false, memory_order_release);
    if (result)
        memcpy(result, old, job->size);
}

static void one(const struct job *job, void *target, const void *operand, const void *compare,
                void *result)
{
    if ((uintptr_t)target & (job->size - 1)) {
        locked(job, target, operand, compare, result);
        return;
    }
    switch (job->size) {
    case 1: native_8(job, target, operand, compare, result); break;
    case 2: native_16(job, target, operand, compare, result); break;
    case 4: native_32(job, target, operand, compare, result); break;
    case 8: native_64(job, target, operand, compare, result); break;
    default: locked(job, target, operand, compare, result); break;
    }
}

void atomic_apply(enum fi_op op, enum fi_datatype datatype, void *target, const void *operand,
                  const void *compare, void *result, size_t count)
{
    const struct datatype *type = &datatypes[datatype];
    enum direct direct = operations[op].direct;
    struct job job = {.op = op, .direct = direct, .size = type->size, .change = type->change};

    if (type->set != INTEGERS && direct != DIRECT_READ && direct != DIRECT_WRITE)
        job.direct = DIRECT_NONE;
    for (size_t i = 0, at = 0; i < count; i++, at += job.size)
        one(&job, (char *)target + at, operand ? (const char *)operand + at : NULL,
            compare ? (const char *)compare + at : NULL, result ? (char *)result + at : NULL);
}

bool atomic_is_common(enum fi_datatype datatype, enum fi_op op)
{
    return (unsigned)datatype <= FI_FLOAT_COMPLEX && (unsigned)op <= FI_MSWAP;
}

int atomic_count(enum fi_datatype datatype, enum fi_op op, uint64_t flags, size_t max_bytes,
                 size_t *count)
{
    if (!atomic_valid(datatype, op, flags) || atomic_size(datatype) > max_bytes)
        return -FI_EOPNOTSUPP;
    if (count)
        *count = max_bytes / atomic_size(datatype);
    return 0;
}

int atomic_query(enum fi_datatype datatype, enum fi_op op, struct fi_atomic_attr *attr,
                 uint64_t flags, size_t max_bytes)
{
    const uint64_t kinds = FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC;
    size_t count;
    int rc;

    if (flags & ~(kinds | FI_TAGGED))
        return -FI_EBADFLAGS;
    if ((flags & kinds) == kinds)
        return -FI_EINVAL;
    rc = flags & FI_TAGGED ? -FI_EOPNOTSUPP : atomic_count(datatype, op, flags, max_bytes, &count);
    if (rc || !attr)
        return rc;
    attr->count = count;
    attr->size = atomic_size(datatype);
    return 0;
}

/* Elements of all segments; false when there are more than a limit, in which no sum can wrap. */
static bool count_elements(const struct fi_ioc *iov, size_t segments, size_t limit, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < segments; i++) {
        if (iov[i].count > limit - *count)
            return false;
        *count += iov[i].count;
    }
    return true;
}

static bool count_remote(const struct fi_rma_ioc *iov, size_t segments, size_t limit, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < segments; i++) {
        if (iov[i].count > limit - *count)
            return false;
        *count += iov[i].count;
    }
    return true;
}

int atomic_check_op(const struct op *op, size_t max_bytes, size_t iov_limit, size_t *count)
{
    bool reads = op->op == FI_ATOMIC_READ, compares = op->function == FI_COMPARE_ATOMIC;
    size_t limit, operands, compared, results, targets;

    if (op->flags & FI_TAGGED ||
        atomic_count(op->datatype, op->op, op->function, max_bytes, &limit))
        return -FI_EOPNOTSUPP;
    if (op->flags & FI_REMOTE_CQ_DATA)
        return -FI_EBADFLAGS;
    if (op->count > iov_limit || op->compare.count > iov_limit || op->result.count > iov_limit ||
        op->rma_count > iov_limit)
        return -FI_EINVAL;
    if (!count_elements(op->ioc, op->count, limit, &operands) ||
        !count_elements(op->compare.ioc, op->compare.count, limit, &compared) ||
        !count_elements(op->result.ioc, op->result.count, limit, &results) ||
        !count_remote(op->rma_ioc, op->rma_count, limit, &targets))
        return -FI_EMSGSIZE;
    if (!targets || operands != (reads ? 0 : targets) || compared != (compares ? targets : 0) ||
        results != (op->function ? targets : 0))
        return -FI_EINVAL;
    *count = targets;
    return 0;
}
