/* SPDX-License-Identifier: BSD-2-Clause */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/small_float.h"
#include "core/op/atomic.h"

#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;
enum {
    HAVE_128 = 1
};
#else
typedef int64_t wide;
typedef uint64_t unsigned_wide;
enum {
    HAVE_128 = 0
};
#endif

enum {
    DATATYPES = FI_FLOAT8_E5M2 + 1,
    OPS = FI_DIFF + 1,
    ELEMENTS = 5,
};

static bool is_integer(enum fi_datatype datatype)
{
    return datatype <= FI_UINT64 || datatype == FI_INT128 || datatype == FI_UINT128;
}

static bool is_complex(enum fi_datatype datatype)
{
    return datatype == FI_FLOAT_COMPLEX || datatype == FI_DOUBLE_COMPLEX ||
           datatype == FI_LONG_DOUBLE_COMPLEX;
}

static bool is_signed(enum fi_datatype datatype)
{
    return datatype == FI_INT128 || (datatype <= FI_UINT64 && datatype % 2 == 0);
}

static uint64_t kind_of(enum fi_op op)
{
    return op == FI_ATOMIC_READ               ? FI_FETCH_ATOMIC
           : op >= FI_CSWAP && op <= FI_MSWAP ? FI_COMPARE_ATOMIC
                                              : 0;
}

static const struct small_float *small_of(enum fi_datatype datatype)
{
    switch (datatype) {
    case FI_FLOAT16: return &small_float16;
    case FI_BFLOAT16: return &small_bfloat16;
    case FI_FLOAT8_E4M3: return &small_float8_e4m3;
    case FI_FLOAT8_E5M2: return &small_float8_e5m2;
    default: return NULL;
    }
}

/* ---- The reference: integers in the widest type, everything else as pairs of long doubles ---- */

static wide integer_load(enum fi_datatype datatype, const void *from)
{
    size_t size = atomic_size(datatype);
    unsigned_wide value = 0;

    memcpy(&value, from, size);
    if (is_signed(datatype) && size < sizeof(value) && value >> (size * 8 - 1))
        value |= ~(unsigned_wide)0 << (size * 8);
    return (wide)value;
}

static bool integer_less(enum fi_datatype datatype, wide a, wide b)
{
    return is_signed(datatype) ? a < b : (unsigned_wide)a < (unsigned_wide)b;
}

static wide integer_result(enum fi_datatype datatype, enum fi_op op, wide a, wide b, wide c)
{
    bool less = integer_less(datatype, c, a), greater = integer_less(datatype, a, c);

    switch (op) {
    case FI_MIN: return integer_less(datatype, b, a) ? b : a;
    case FI_MAX: return integer_less(datatype, a, b) ? b : a;
    case FI_SUM: return (wide)((unsigned_wide)a + (unsigned_wide)b);
    case FI_DIFF: return (wide)((unsigned_wide)a - (unsigned_wide)b);
    case FI_PROD: return (wide)((unsigned_wide)a * (unsigned_wide)b);
    case FI_LOR: return a || b;
    case FI_LAND: return a && b;
    case FI_LXOR: return (a && !b) || (!a && b);
    case FI_BOR: return a | b;
    case FI_BAND: return a & b;
    case FI_BXOR: return a ^ b;
    case FI_ATOMIC_READ: return a;
    case FI_ATOMIC_WRITE: return b;
    case FI_CSWAP: return a == c ? b : a;
    case FI_CSWAP_NE: return a != c ? b : a;
    case FI_CSWAP_LE: return less || a == c ? b : a;
    case FI_CSWAP_LT: return less ? b : a;
    case FI_CSWAP_GE: return greater || a == c ? b : a;
    case FI_CSWAP_GT: return greater ? b : a;
    case FI_MSWAP: return (b & c) | (a & ~c);
    default: fail(); return 0;
    }
}

struct number {
    long double re, im;
};

static struct number number_load(enum fi_datatype datatype, const void *from)
{
    float floats[2] = {0};
    double doubles[2] = {0};
    struct number number = {0};
    uint16_t code = 0;

    switch (datatype) {
    case FI_FLOAT:
    case FI_FLOAT_COMPLEX:
        memcpy(floats, from, atomic_size(datatype));
        return (struct number){floats[0], floats[1]};
    case FI_DOUBLE:
    case FI_DOUBLE_COMPLEX:
        memcpy(doubles, from, atomic_size(datatype));
        return (struct number){doubles[0], doubles[1]};
    case FI_LONG_DOUBLE:
    case FI_LONG_DOUBLE_COMPLEX: memcpy(&number, from, atomic_size(datatype)); return number;
    default:
        memcpy(&code, from, atomic_size(datatype));
        return (struct number){(long double)small_float_decode(small_of(datatype), code), 0};
    }
}

static struct number number_result(enum fi_op op, struct number a, struct number b, struct number c)
{
    bool set = a.re != 0 || a.im != 0, given = b.re != 0 || b.im != 0;
    bool same = a.re == c.re && a.im == c.im;

    switch (op) {
    case FI_MIN: return b.re < a.re ? b : a;
    case FI_MAX: return b.re > a.re ? b : a;
    case FI_SUM: return (struct number){a.re + b.re, a.im + b.im};
    case FI_DIFF: return (struct number){a.re - b.re, a.im - b.im};
    case FI_PROD: return (struct number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    case FI_LOR: return (struct number){set || given, 0};
    case FI_LAND: return (struct number){set && given, 0};
    case FI_LXOR: return (struct number){set != given, 0};
    case FI_ATOMIC_READ: return a;
    case FI_ATOMIC_WRITE: return b;
    case FI_CSWAP: return same ? b : a;
    case FI_CSWAP_NE: return same ? a : b;
    case FI_CSWAP_LE: return c.re <= a.re ? b : a;
    case FI_CSWAP_LT: return c.re < a.re ? b : a;
    case FI_CSWAP_GE: return c.re >= a.re ? b : a;
    case FI_CSWAP_GT: return c.re > a.re ? b : a;
    default: fail(); return a;
    }
}

/* Small whole numbers, exact in every format together with their sums and products. */
static void store(enum fi_datatype datatype, void *to, int re, int im)
{
    wide integer = re;
    float floats[2] = {(float)re, (float)im};
    double doubles[2] = {re, im};
    struct number number = {re, im};
    uint16_t code;
    size_t size = atomic_size(datatype);

    switch (datatype) {
    case FI_FLOAT:
    case FI_FLOAT_COMPLEX: memcpy(to, floats, size); break;
    case FI_DOUBLE:
    case FI_DOUBLE_COMPLEX: memcpy(to, doubles, size); break;
    case FI_LONG_DOUBLE:
    case FI_LONG_DOUBLE_COMPLEX: memcpy(to, &number, size); break;
    default:
        if (is_integer(datatype)) {
            memcpy(to, &integer, size);
        } else {
            code = small_float_encode(small_of(datatype), re);
            memcpy(to, &code, size);
        }
    }
}

static void expect(enum fi_datatype datatype, enum fi_op op, const char *old, const char *operand,
                   const char *compare, const char *now)
{
    size_t size = atomic_size(datatype);

    if (is_integer(datatype)) {
        wide want =
            integer_result(datatype, op, integer_load(datatype, old),
                           integer_load(datatype, operand), integer_load(datatype, compare));

        if (memcmp(&want, now, size))
            fail_msg("datatype %d, op %d", (int)datatype, (int)op);
    } else {
        struct number want =
            number_result(op, number_load(datatype, old), number_load(datatype, operand),
                          number_load(datatype, compare));
        struct number got = number_load(datatype, now);

        if (want.re != got.re || want.im != got.im)
            fail_msg("datatype %d, op %d: %Lg+%Lgi, not %Lg+%Lgi", (int)datatype, (int)op, got.re,
                     got.im, want.re, want.im);
    }
}

static void check_operation(enum fi_datatype datatype, enum fi_op op, size_t shift)
{
    static const int values[][ELEMENTS] = {{0, 2, 3, 1, 4}, {0, 3, 2, 0, 4}, {0, 2, 1, 3, 7}};
    _Alignas(32) char target[ELEMENTS * ATOMIC_MAX_SIZE + 8] = {0};
    char old[sizeof(target)], operand[sizeof(target)], compare[sizeof(target)];
    char result[sizeof(target)];
    size_t size = atomic_size(datatype);
    bool compares = kind_of(op) == FI_COMPARE_ATOMIC, negative = is_signed(datatype);

    memset(operand, 0, sizeof(operand));
    memset(compare, 0, sizeof(compare));
    for (size_t i = 0; i < ELEMENTS; i++) {
        store(datatype, target + shift + i * size, values[0][i] * (negative && i % 2 ? -1 : 1), 1);
        store(datatype, operand + shift + i * size, values[1][i], 2);
        store(datatype, compare + shift + i * size, values[2][i] * (negative && i % 2 ? -1 : 1), 1);
    }
    memcpy(old, target, sizeof(old));
    memset(result, 0xa5, sizeof(result));
    atomic_apply(op, datatype, target + shift, op == FI_ATOMIC_READ ? NULL : operand + shift,
                 compares ? compare + shift : NULL, result + shift, ELEMENTS);
    assert_memory_equal(result + shift, old + shift, ELEMENTS * size);
    assert_int_equal((unsigned char)result[shift + ELEMENTS * size], 0xa5);
    for (size_t i = 0; i < ELEMENTS; i++)
        expect(datatype, op, old + shift + i * size, operand + shift + i * size,
               compare + shift + i * size, target + shift + i * size);
    assert_memory_equal(target, old, shift);
    assert_memory_equal(target + shift + ELEMENTS * size, old + shift + ELEMENTS * size,
                        sizeof(target) - shift - ELEMENTS * size);

    memcpy(result, target, sizeof(result));
    memcpy(target, old, sizeof(target));
    atomic_apply(op, datatype, target + shift, op == FI_ATOMIC_READ ? NULL : operand + shift,
                 compares ? compare + shift : NULL, NULL, ELEMENTS);
    assert_memory_equal(target, result, sizeof(target));
}

static void every_operation_does_what_the_manual_says(void **state)
{
    for (int datatype = 0; datatype < DATATYPES; datatype++)
        for (int op = 0; op < OPS; op++)
            if (atomic_valid(datatype, op, kind_of(op)))
                for (size_t shift = 0; shift < 8; shift++)
                    check_operation(datatype, op, shift);
}

static void sets_of_operations(void **state)
{
    for (int datatype = 0; datatype < DATATYPES; datatype++) {
        if (!HAVE_128 && (datatype == FI_INT128 || datatype == FI_UINT128))
            continue;
        for (int op = 0; op < OPS; op++) {
            bool bitwise = op == FI_BOR || op == FI_BAND || op == FI_BXOR || op == FI_MSWAP;
            bool order = op == FI_MIN || op == FI_MAX || (op >= FI_CSWAP_LE && op <= FI_CSWAP_GT);
            bool means = !(bitwise && !is_integer(datatype)) && !(order && is_complex(datatype));
            uint64_t kind = kind_of(op);

            assert_int_equal(atomic_valid(datatype, op, 0), means && kind == 0);
            assert_int_equal(atomic_valid(datatype, op, FI_FETCH_ATOMIC),
                             means && kind != FI_COMPARE_ATOMIC);
            assert_int_equal(atomic_valid(datatype, op, FI_COMPARE_ATOMIC),
                             means && kind == FI_COMPARE_ATOMIC);
        }
    }
    assert_false(atomic_valid(FI_VOID, FI_SUM, 0));
    assert_false(atomic_valid((enum fi_datatype)DATATYPES, FI_SUM, 0));
    assert_false(atomic_valid(FI_INT8, (enum fi_op)OPS, 0));
    assert_false(atomic_valid(FI_INT8, FI_NOOP, 0));
    assert_false(atomic_valid((enum fi_datatype) - 1, (enum fi_op) - 1, 0));
    assert_false(atomic_valid(FI_INT8, FI_SUM, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC));
    assert_int_equal(atomic_size(FI_VOID), 0);
    assert_int_equal(atomic_size(FI_LONG_DOUBLE_COMPLEX), sizeof(long double complex));
}

static void queries(void **state)
{
    struct fi_atomic_attr attr;
    size_t count = 0;

    if (HAVE_128) {
        assert_int_equal(atomic_query(FI_INT128, FI_SUM, &attr, 0, 100), 0);
        assert_int_equal(attr.count, 6);
        assert_int_equal(attr.size, 16);
    } else {
        assert_int_equal(atomic_query(FI_INT128, FI_SUM, &attr, 0, 100), -FI_EOPNOTSUPP);
        assert_int_equal(atomic_query(FI_UINT128, FI_MSWAP, &attr, FI_COMPARE_ATOMIC, 100),
                         -FI_EOPNOTSUPP);
        assert_int_equal(atomic_size(FI_INT128), 0);
    }
    assert_int_equal(atomic_query(FI_INT8, FI_CSWAP, NULL, FI_COMPARE_ATOMIC, 100), 0);
    assert_int_equal(atomic_query(FI_INT8, FI_CSWAP, &attr, FI_FETCH_ATOMIC, 100), -FI_EOPNOTSUPP);
    assert_int_equal(atomic_query(FI_INT8, FI_SUM, &attr, FI_TAGGED, 100), -FI_EOPNOTSUPP);
    assert_int_equal(atomic_query(FI_INT8, FI_SUM, &attr, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC, 100),
                     -FI_EINVAL);
    assert_int_equal(atomic_query(FI_INT8, FI_SUM, &attr, FI_INJECT, 100), -FI_EBADFLAGS);
    assert_int_equal(atomic_count(FI_DOUBLE, FI_MIN, 0, 64, &count), 0);
    assert_int_equal(count, 8);
    assert_int_equal(atomic_count(FI_DOUBLE, FI_MIN, 0, 64, NULL), 0);
    assert_int_equal(atomic_count(FI_DOUBLE, FI_MIN, 0, 7, &count), -FI_EOPNOTSUPP);
}

static void signs_and_wrapping(void **state)
{
    uint8_t byte = 200;
    int8_t small = -128, minus = -1, result = 0;
    int64_t least = INT64_MIN;
    double not_a_number = NAN, zero = -0.0, compare = 0.0, one = 1.0, target = 5.0;

    atomic_apply(FI_SUM, FI_UINT8, &byte, &byte, NULL, NULL, 1);
    assert_int_equal(byte, 144);
    atomic_apply(FI_PROD, FI_INT8, &small, &minus, NULL, &result, 1);
    assert_int_equal(small, -128);
    assert_int_equal(result, -128);
    atomic_apply(FI_DIFF, FI_INT64, &least, &(int64_t){1}, NULL, NULL, 1);
    assert_true(least == INT64_MAX);
    byte = 255;
    atomic_apply(FI_MIN, FI_INT8, &byte, &(int8_t){0}, NULL, NULL, 1);
    assert_int_equal(byte, 255);
    atomic_apply(FI_MIN, FI_UINT8, &byte, &(int8_t){0}, NULL, NULL, 1);
    assert_int_equal(byte, 0);

    atomic_apply(FI_MIN, FI_DOUBLE, &target, &not_a_number, NULL, NULL, 1);
    assert_true(target == 5.0);
    atomic_apply(FI_CSWAP, FI_DOUBLE, &not_a_number, &one, &not_a_number, NULL, 1);
    assert_true(isnan(not_a_number));
    atomic_apply(FI_CSWAP, FI_DOUBLE, &zero, &one, &compare, NULL, 1);
    assert_true(zero == 1.0);
}

static void no_byte_of_the_stack_in_padding(void **state)
{
    long double pair[2] = {3, 4}, operand[2] = {1, 1};
    unsigned char bytes[sizeof(pair)];
    size_t used = 10; /* of 16, or of 12 where words have 32 bits */

    if (LDBL_MANT_DIG != 64)
        skip();
    memset(pair, 0xff, sizeof(pair));
    pair[0] = 3;
    pair[1] = 4;
    atomic_apply(FI_SUM, FI_LONG_DOUBLE, &pair[0], operand, NULL, NULL, 1);
    atomic_apply(FI_SUM, FI_LONG_DOUBLE, &pair[1], operand, NULL, NULL, 1);
    atomic_apply(FI_SUM, FI_LONG_DOUBLE_COMPLEX, pair, operand, NULL, NULL, 1);
    memcpy(bytes, pair, sizeof(bytes));
    for (size_t i = used; i < sizeof(pair[0]); i++) {
        assert_int_equal(bytes[i], 0);
        assert_int_equal(bytes[sizeof(pair[0]) + i], 0);
    }
    assert_true(pair[0] == 5 && pair[1] == 6);
}

/* ---- Small floats against a search among all codes ---- */

static uint16_t nearest(const struct small_float *format, double value)
{
    uint16_t sign = (uint16_t)(1u << (format->exponent_bits + format->mantissa_bits)), best = 0;
    uint16_t none = format->infinities
                        ? (uint16_t)(((1u << format->exponent_bits) - 1) << format->mantissa_bits)
                        : (uint16_t)(sign - 1);
    double size = fabs(value), largest = small_float_decode(format, none - 1);
    double step = largest - small_float_decode(format, none - 2), least = INFINITY;

    if (size > largest + step / 2 || (size == largest + step / 2 && (none - 1) % 2))
        best = none;
    else
        for (uint16_t code = 0; code < none; code++) {
            double off = fabs(size - small_float_decode(format, code));

            if (off < least || (off == least && code % 2 == 0)) {
                least = off;
                best = code;
            }
        }
    return signbit(value) ? best | sign : best;
}

static void bytes_round_as_a_search_would(void **state)
{
    const struct small_float *formats[] = {&small_float8_e4m3, &small_float8_e5m2};

    for (size_t f = 0; f < 2; f++) {
        for (unsigned a = 0; a < 256; a++) {
            for (unsigned b = 0; b < 256; b++) {
                double x = small_float_decode(formats[f], (uint16_t)a);
                double y = small_float_decode(formats[f], (uint16_t)b);

                if (!isfinite(x) || !isfinite(y))
                    continue;
                assert_int_equal(small_float_encode(formats[f], x + y), nearest(formats[f], x + y));
                assert_int_equal(small_float_encode(formats[f], x * y), nearest(formats[f], x * y));
            }
        }
    }
}

static void words_round_as_a_search_would(void **state)
{
    const struct small_float *formats[] = {&small_float16, &small_bfloat16};
    uint32_t seed = 12345;

    for (size_t f = 0; f < 2; f++) {
        for (unsigned code = 0; code < 65536; code++) {
            double value = small_float_decode(formats[f], (uint16_t)code);

            if (!isnan(value))
                assert_int_equal(small_float_encode(formats[f], value), code);
        }
        for (int i = 0; i < 150; i++) {
            double x, y;

            seed = seed * 1664525 + 1013904223;
            x = small_float_decode(formats[f], (uint16_t)(seed >> 16));
            y = small_float_decode(formats[f], (uint16_t)((seed >> 16) + (unsigned)i * 7));
            if (!isfinite(x) || !isfinite(y))
                continue;
            assert_int_equal(small_float_encode(formats[f], x + y), nearest(formats[f], x + y));
            assert_int_equal(small_float_encode(formats[f], x * y), nearest(formats[f], x * y));
        }
    }
}

static void known_codes(void **state)
{
    assert_true(small_float_decode(&small_float16, 0x3c00) == 1.0);
    assert_true(small_float_decode(&small_float16, 0x7bff) == 65504.0);
    assert_true(small_float_decode(&small_float16, 0x0001) == 0x1p-24);
    assert_true(small_float_decode(&small_bfloat16, 0xc000) == -2.0);
    assert_true(small_float_decode(&small_float8_e4m3, 0x7e) == 448.0);
    assert_true(isnan(small_float_decode(&small_float8_e4m3, 0x7f)));
    assert_true(small_float_decode(&small_float8_e5m2, 0x7b) == 57344.0);
    assert_true(isinf(small_float_decode(&small_float8_e5m2, 0x7c)));
    assert_int_equal(small_float_encode(&small_float8_e4m3, 1000.0), 0x7f);
    assert_int_equal(small_float_encode(&small_float8_e4m3, -INFINITY), 0xff);
    assert_int_equal(small_float_encode(&small_float8_e5m2, -1e9), 0xfc);
    assert_int_equal(small_float_encode(&small_float16, NAN) & 0x7fff, 0x7e00);
    assert_int_equal(small_float_encode(&small_float16, 0x1p-1060), 0);
}

/* ---- Threads ---- */

enum {
    THREADS = 4,
    ROUNDS = 20000,
};

struct hammer {
    enum fi_datatype datatype;
    enum fi_op op;
    void *target;
    pthread_t thread;
};

static void *hammer_sum(void *arg)
{
    struct hammer *hammer = arg;
    char one[ATOMIC_MAX_SIZE] = {0};

    store(hammer->datatype, one, 1, 1);
    for (int i = 0; i < ROUNDS; i++)
        atomic_apply(hammer->op, hammer->datatype, hammer->target, one, NULL, NULL, 1);
    return NULL;
}

/* Adds by compare and swap, as an application would. */
static void *hammer_swap(void *arg)
{
    struct hammer *hammer = arg;
    char old[ATOMIC_MAX_SIZE] = {0}, next[ATOMIC_MAX_SIZE], seen[ATOMIC_MAX_SIZE];
    char one[ATOMIC_MAX_SIZE] = {0};
    size_t size = atomic_size(hammer->datatype);

    store(hammer->datatype, one, 1, 1);
    for (int i = 0; i < ROUNDS / 4; i++) {
        atomic_apply(FI_ATOMIC_READ, hammer->datatype, hammer->target, NULL, NULL, old, 1);
        for (;;) {
            memcpy(next, old, size);
            atomic_apply(FI_SUM, hammer->datatype, next, one, NULL, NULL, 1);
            atomic_apply(FI_CSWAP, hammer->datatype, hammer->target, next, old, seen, 1);
            if (!memcmp(seen, old, size))
                break;
            memcpy(old, seen, size);
        }
    }
    return NULL;
}

static void hammer_all(void *(*run)(void *), enum fi_datatype datatype, enum fi_op op, size_t shift,
                       int want)
{
    _Alignas(32) char target[ATOMIC_MAX_SIZE * 2] = {0};
    struct hammer hammers[THREADS];
    char expected[ATOMIC_MAX_SIZE] = {0};

    for (size_t i = 0; i < THREADS; i++) {
        hammers[i] = (struct hammer){.datatype = datatype, .op = op, .target = target + shift};
        assert_int_equal(pthread_create(&hammers[i].thread, NULL, run, &hammers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(hammers[i].thread, NULL);
    store(datatype, expected, want, want);
    if (is_integer(datatype))
        assert_memory_equal(target + shift, expected, atomic_size(datatype));
    else
        assert_true(number_load(datatype, target + shift).re == want);
}

static void no_sum_is_lost(void **state)
{
    const enum fi_datatype datatypes[] = {FI_UINT32, FI_INT64,  FI_DOUBLE,     FI_FLOAT_COMPLEX,
                                          FI_INT128, FI_UINT16, FI_LONG_DOUBLE};

    for (size_t i = 0; i < sizeof(datatypes) / sizeof(datatypes[0]); i++) {
        for (size_t shift = 0; shift < 2 && atomic_size(datatypes[i]); shift++) {
            hammer_all(hammer_sum, datatypes[i], FI_SUM, shift, THREADS * ROUNDS);
            hammer_all(hammer_swap, datatypes[i], FI_CSWAP, shift, THREADS * (ROUNDS / 4));
        }
    }
    hammer_all(hammer_sum, FI_INT64, FI_DIFF, 0, -THREADS * ROUNDS);
}

static void *hammer_cpu(void *arg)
{
    struct hammer *hammer = arg;

    for (int i = 0; i < ROUNDS; i++)
        __atomic_fetch_add((uint64_t *)hammer->target, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void *hammer_product(void *arg)
{
    struct hammer *hammer = arg;
    uint64_t three = 3;

    for (int i = 0; i < ROUNDS; i++) {
        atomic_apply(FI_PROD, FI_UINT64, hammer->target, &three, NULL, NULL, 1);
        atomic_apply(FI_SUM, FI_UINT64, hammer->target, &three, NULL, NULL, 1);
    }
    return NULL;
}

static void atomic_with_the_cpu(void **state)
{
    _Alignas(8) uint64_t word = 0;
    struct hammer a = {.target = &word}, b = {.datatype = FI_UINT64, .op = FI_SUM, .target = &word};

    assert_int_equal(pthread_create(&a.thread, NULL, hammer_cpu, &a), 0);
    assert_int_equal(pthread_create(&b.thread, NULL, hammer_sum, &b), 0);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    assert_int_equal(word, 2 * ROUNDS);

    word = 1;
    assert_int_equal(pthread_create(&a.thread, NULL, hammer_product, &a), 0);
    assert_int_equal(pthread_create(&b.thread, NULL, hammer_product, &b), 0);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    /* A product keeps the parity, a sum changes it, and there were an even number. */
    assert_int_equal(word % 2, 1);
}

static void rights_of_the_target(void **state)
{
    assert_int_equal(atomic_access(FI_SUM, 0), FI_REMOTE_WRITE);
    assert_int_equal(atomic_access(FI_SUM, FI_FETCH_ATOMIC), FI_REMOTE_READ | FI_REMOTE_WRITE);
    assert_int_equal(atomic_access(FI_CSWAP, FI_COMPARE_ATOMIC), FI_REMOTE_READ | FI_REMOTE_WRITE);
    assert_int_equal(atomic_access(FI_ATOMIC_READ, FI_FETCH_ATOMIC), FI_REMOTE_READ);
}

static void pieces_are_done_in_order(void **state)
{
    uint32_t first[2] = {1, 2}, second[1] = {3}, operands[3] = {10, 20, 30};
    uint32_t compare[3] = {1, 0, 3};
    struct iovec pieces[2] = {{first, sizeof(first)}, {second, sizeof(second)}};

    atomic_apply_pieces(FI_SUM, FI_UINT32, pieces, 2, operands, NULL, operands);
    assert_int_equal(first[0], 11);
    assert_int_equal(first[1], 22);
    assert_int_equal(second[0], 33);
    assert_int_equal(operands[0], 1);
    assert_int_equal(operands[1], 2);
    assert_int_equal(operands[2], 3);
    compare[0] = 11;
    compare[2] = 33;
    atomic_apply_pieces(FI_CSWAP, FI_UINT32, pieces, 2, operands, compare, NULL);
    assert_int_equal(first[0], 1);
    assert_int_equal(first[1], 22);
    assert_int_equal(second[0], 3);
}

static void pieces_hold_whole_elements(void **state)
{
    char memory[16];
    struct iovec pieces[2] = {{memory, 8}, {memory + 8, 4}};

    assert_true(atomic_is_whole(FI_UINT32, pieces, 2));
    assert_true(atomic_is_whole(FI_UINT64, pieces, 1));
    assert_false(atomic_is_whole(FI_UINT64, pieces, 2));
    assert_true(atomic_is_whole(FI_UINT64, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_does_what_the_manual_says),
        cmocka_unit_test(sets_of_operations),
        cmocka_unit_test(queries),
        cmocka_unit_test(rights_of_the_target),
        cmocka_unit_test(pieces_are_done_in_order),
        cmocka_unit_test(pieces_hold_whole_elements),
        cmocka_unit_test(signs_and_wrapping),
        cmocka_unit_test(no_byte_of_the_stack_in_padding),
        cmocka_unit_test(bytes_round_as_a_search_would),
        cmocka_unit_test(words_round_as_a_search_would),
        cmocka_unit_test(known_codes),
        cmocka_unit_test(no_sum_is_lost),
        cmocka_unit_test(atomic_with_the_cpu),
    };

    return cmocka_run_group_tests_name("atomic", tests, NULL, NULL);
}
