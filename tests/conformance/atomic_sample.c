/* SPDX-License-Identifier: BSD-2-Clause */
/* Small whole numbers, exact in every format together with their sums and products. */
#include "atomic_sample.h"

#include <complex.h>
#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct number {
    int re, im;
};

static bool is_integer(enum fi_datatype datatype)
{
    return datatype <= FI_UINT64 || datatype == FI_INT128 || datatype == FI_UINT128;
}

static bool is_unsigned(enum fi_datatype datatype)
{
    return datatype == FI_UINT128 || (datatype <= FI_UINT64 && datatype % 2);
}

static bool is_complex(enum fi_datatype datatype)
{
    return datatype == FI_FLOAT_COMPLEX || datatype == FI_DOUBLE_COMPLEX ||
           datatype == FI_LONG_DOUBLE_COMPLEX;
}

size_t atomic_size_of(enum fi_datatype datatype)
{
    static const size_t sizes[] = {
        1,  1,  2, 2, 4, 4, 8, 8, 4, 8, 8, 16, sizeof(long double), sizeof(long double complex),
        16, 16, 2, 2, 1, 1};

    return sizes[datatype];
}

bool atomic_has_meaning(enum fi_datatype datatype, enum fi_op op, uint64_t kind)
{
    bool bitwise = op == FI_BOR || op == FI_BAND || op == FI_BXOR || op == FI_MSWAP;
    bool order = op == FI_MIN || op == FI_MAX || (op >= FI_CSWAP_LE && op <= FI_CSWAP_GT);
    bool compares = op >= FI_CSWAP && op <= FI_MSWAP;

    if ((bitwise && !is_integer(datatype)) || (order && is_complex(datatype)))
        return false;
    if (op == FI_ATOMIC_READ)
        return kind == FI_FETCH_ATOMIC;
    return compares == (kind == FI_COMPARE_ATOMIC);
}

/* A code of 1 sign bit, so many of exponent and mantissa. */
static unsigned small_float(int value, int exponent_bits, int mantissa_bits)
{
    unsigned size = (unsigned)abs(value), bias = (1u << (exponent_bits - 1)) - 1, e = 0;

    if (!value)
        return 0;
    while (size >> (e + 1))
        e++;
    return (value < 0 ? 1u << (exponent_bits + mantissa_bits) : 0) | (bias + e) << mantissa_bits |
           (((size << mantissa_bits) >> e) & ((1u << mantissa_bits) - 1));
}

static void put_long_double(char *to, long double value)
{
    memset(to, 0, sizeof(value));
    memcpy(to, &value, LDBL_MANT_DIG == 64 ? 10 : sizeof(value));
}

static void store(enum fi_datatype datatype, char *to, struct number value)
{
    int64_t halves[2] = {value.re, value.re < 0 ? -1 : 0};
    float floats[2] = {(float)value.re, (float)value.im};
    double doubles[2] = {value.re, value.im};
    unsigned code = 0;

    switch ((int)datatype) {
    case FI_FLOAT:
    case FI_FLOAT_COMPLEX: memcpy(to, floats, atomic_size_of(datatype)); return;
    case FI_DOUBLE:
    case FI_DOUBLE_COMPLEX: memcpy(to, doubles, atomic_size_of(datatype)); return;
    case FI_LONG_DOUBLE_COMPLEX: put_long_double(to + sizeof(long double), value.im);
    /* fall through */
    case FI_LONG_DOUBLE: put_long_double(to, value.re); return;
    case FI_FLOAT16: code = small_float(value.re, 5, 10); break;
    case FI_BFLOAT16: code = small_float(value.re, 8, 7); break;
    case FI_FLOAT8_E4M3: code = small_float(value.re, 4, 3); break;
    case FI_FLOAT8_E5M2: code = small_float(value.re, 5, 2); break;
    default: memcpy(to, halves, atomic_size_of(datatype)); return;
    }
    memcpy(to, &code, atomic_size_of(datatype));
}

static struct number truth(bool value)
{
    return (struct number){value, 0};
}

static struct number reference(enum fi_op op, struct number a, struct number b, struct number c)
{
    bool set = a.re || a.im, given = b.re || b.im, same = a.re == c.re && a.im == c.im;

    switch ((int)op) {
    case FI_MIN: return b.re < a.re ? b : a;
    case FI_MAX: return b.re > a.re ? b : a;
    case FI_SUM: return (struct number){a.re + b.re, a.im + b.im};
    case FI_DIFF: return (struct number){a.re - b.re, a.im - b.im};
    case FI_PROD: return (struct number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    case FI_LOR: return truth(set || given);
    case FI_LAND: return truth(set && given);
    case FI_LXOR: return truth(set != given);
    case FI_BOR: return (struct number){a.re | b.re, 0};
    case FI_BAND: return (struct number){a.re & b.re, 0};
    case FI_BXOR: return (struct number){a.re ^ b.re, 0};
    case FI_ATOMIC_WRITE: return b;
    case FI_CSWAP: return same ? b : a;
    case FI_CSWAP_NE: return same ? a : b;
    case FI_CSWAP_LE: return c.re <= a.re ? b : a;
    case FI_CSWAP_LT: return c.re < a.re ? b : a;
    case FI_CSWAP_GE: return c.re >= a.re ? b : a;
    case FI_CSWAP_GT: return c.re > a.re ? b : a;
    case FI_MSWAP: return (struct number){(b.re & c.re) | (a.re & ~c.re), 0};
    default: return a;
    }
}

static struct number value_of(enum fi_datatype datatype, size_t i)
{
    static const int values[ATOMIC_VALUES] = {0, 1, -2, 4, -1, 2};
    int re = values[i % ATOMIC_VALUES], im = values[(i + 2) % ATOMIC_VALUES];

    return (struct number){is_unsigned(datatype) ? abs(re) : re, is_complex(datatype) ? im : 0};
}

/* A product with a negative number is -0 else, which whole numbers do not have. */
static struct number without_zero(enum fi_datatype datatype, struct number value)
{
    return (struct number){value.re ? value.re : 1,
                           !value.im && is_complex(datatype) ? 1 : value.im};
}

void atomic_sample_fill(struct atomic_sample *s, enum fi_datatype datatype, enum fi_op op)
{
    size_t size = atomic_size_of(datatype);

    for (size_t i = 0; i < ATOMIC_MANY; i++) {
        struct number a = value_of(datatype, i), b = value_of(datatype, i / ATOMIC_VALUES);
        struct number c = value_of(datatype, i % 2 ? i : i + 1);

        if (op == FI_PROD) {
            a = without_zero(datatype, a);
            b = without_zero(datatype, b);
        }
        store(datatype, s->old + i * size, a);
        store(datatype, s->operand + i * size, b);
        store(datatype, s->compare + i * size, c);
        store(datatype, s->now + i * size, reference(op, a, b, c));
    }
}
