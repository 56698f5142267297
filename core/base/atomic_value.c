/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/atomic_value.h"

#include <complex.h>
#include <float.h>
#include <stdint.h>
#include <string.h>

#include "core/base/small_float.h"

#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;
#endif

enum {
    /* An x87 number in memory has padding, which an assignment leaves as the stack had it. */
    LONG_DOUBLE_BYTES = LDBL_MANT_DIG == 64 ? 10 : sizeof(long double),
};

/* Does the comparison of a swap hold? */
#define COMPARES(op, a, b)                                                                         \
    ((op) == FI_CSWAP      ? (a) == (b)                                                            \
     : (op) == FI_CSWAP_NE ? (a) != (b)                                                            \
     : (op) == FI_CSWAP_LE ? (a) <= (b)                                                            \
     : (op) == FI_CSWAP_LT ? (a) < (b)                                                             \
     : (op) == FI_CSWAP_GE ? (a) >= (b)                                                            \
                           : (a) > (b))

/* Operations on what C gives an order; `wide` is an unsigned type in which sums and products of
 * integers wrap instead of overflowing. */
#define ARITHMETIC(a, b)                                                                           \
    case FI_SUM: (a) = (a) + (b); break;                                                           \
    case FI_DIFF: (a) = (a) - (b); break;                                                          \
    case FI_PROD:                                                                                  \
        (a) = (a) * (b);                                                                           \
        break;

#define LOGIC(a, b)                                                                                \
    case FI_LOR: (a) = (a) || (b); break;                                                          \
    case FI_LAND: (a) = (a) && (b); break;                                                         \
    case FI_LXOR:                                                                                  \
        (a) = !(a) != !(b);                                                                        \
        break;

#define ORDER(a, b)                                                                                \
    case FI_MIN:                                                                                   \
        if (!((b) < (a)))                                                                          \
            return false;                                                                          \
        (a) = (b);                                                                                 \
        break;                                                                                     \
    case FI_MAX:                                                                                   \
        if (!((b) > (a)))                                                                          \
            return false;                                                                          \
        (a) = (b);                                                                                 \
        break;

/* Swaps take the operand's bytes as they are. */
#define SWAP(size)                                                                                 \
    do {                                                                                           \
        memcpy(value, operand, (size));                                                            \
        return true;                                                                               \
    } while (0)

#define CHANGE(name)                                                                               \
    bool atomic_change_##name(enum fi_op op, void *value, const void *operand, const void *compare)

/* The value, its operand and what it is compared with, if anything. */
#define OPERANDS(type, a, b, c)                                                                    \
    type a, b, c = 0;                                                                              \
                                                                                                   \
    memcpy(&a, value, sizeof(a));                                                                  \
    memcpy(&b, operand, sizeof(b));                                                                \
    if (compare)                                                                                   \
        memcpy(&c, compare, sizeof(c));

#define INTEGER(name, type, wide)                                                                  \
    CHANGE(name)                                                                                   \
    {                                                                                              \
        OPERANDS(type, a, b, c)                                                                    \
        switch (op) {                                                                              \
            ORDER(a, b)                                                                            \
            LOGIC(a, b)                                                                            \
        case FI_SUM: a = (type)((wide)a + (wide)b); break;                                         \
        case FI_DIFF: a = (type)((wide)a - (wide)b); break;                                        \
        case FI_PROD: a = (type)((wide)a * (wide)b); break;                                        \
        case FI_BOR: a = (type)(a | b); break;                                                     \
        case FI_BAND: a = (type)(a & b); break;                                                    \
        case FI_BXOR: a = (type)(a ^ b); break;                                                    \
        case FI_MSWAP: a = (type)((b & c) | (a & ~c)); break;                                      \
        default:                                                                                   \
            if (!COMPARES(op, c, a))                                                               \
                return false;                                                                      \
            a = b;                                                                                 \
        }                                                                                          \
        memcpy(value, &a, sizeof(a));                                                              \
        return true;                                                                               \
    }

INTEGER(int8, int8_t, uint64_t)
INTEGER(uint8, uint8_t, uint64_t)
INTEGER(int16, int16_t, uint64_t)
INTEGER(uint16, uint16_t, uint64_t)
INTEGER(int32, int32_t, uint64_t)
INTEGER(uint32, uint32_t, uint64_t)
INTEGER(int64, int64_t, uint64_t)
INTEGER(uint64, uint64_t, uint64_t)
#ifdef __SIZEOF_INT128__
INTEGER(int128, int128, uint128)
INTEGER(uint128, uint128, uint128)
#endif

#define FLOATING(name, type, bytes)                                                                \
    CHANGE(name)                                                                                   \
    {                                                                                              \
        OPERANDS(type, a, b, c)                                                                    \
        switch (op) {                                                                              \
            ORDER(a, b)                                                                            \
            LOGIC(a, b)                                                                            \
            ARITHMETIC(a, b)                                                                       \
        default:                                                                                   \
            if (!COMPARES(op, c, a))                                                               \
                return false;                                                                      \
            SWAP(sizeof(type));                                                                    \
        }                                                                                          \
        memset(value, 0, sizeof(a));                                                               \
        memcpy(value, &a, (bytes));                                                                \
        return true;                                                                               \
    }

FLOATING(float, float, sizeof(float))
FLOATING(double, double, sizeof(double))
FLOATING(long_double, long double, LONG_DOUBLE_BYTES)

#define COMPLEX(name, type, part, bytes)                                                           \
    CHANGE(name)                                                                                   \
    {                                                                                              \
        part halves[2];                                                                            \
        OPERANDS(type, a, b, c)                                                                    \
        switch (op) {                                                                              \
            LOGIC(a, b)                                                                            \
            ARITHMETIC(a, b)                                                                       \
        default:                                                                                   \
            if ((c == a) != (op == FI_CSWAP))                                                      \
                return false;                                                                      \
            SWAP(sizeof(type));                                                                    \
        }                                                                                          \
        memcpy(halves, &a, sizeof(a));                                                             \
        memset(value, 0, sizeof(a));                                                               \
        memcpy(value, &halves[0], (bytes));                                                        \
        memcpy((char *)value + sizeof(part), &halves[1], (bytes));                                 \
        return true;                                                                               \
    }

COMPLEX(float_complex, float complex, float, sizeof(float))
COMPLEX(double_complex, double complex, double, sizeof(double))
COMPLEX(long_double_complex, long double complex, long double, LONG_DOUBLE_BYTES)

/* In double precision, which holds every product of such numbers, and rounds their sums so that
 * rounding once more gives what rounding the exact sum would. */
#define SMALL(name, type, format)                                                                  \
    CHANGE(name)                                                                                   \
    {                                                                                              \
        double a, b, c;                                                                            \
        OPERANDS(type, old, with, against)                                                         \
        a = small_float_decode(&(format), old);                                                    \
        b = small_float_decode(&(format), with);                                                   \
        c = small_float_decode(&(format), against);                                                \
        switch (op) {                                                                              \
            ORDER(a, b)                                                                            \
            LOGIC(a, b)                                                                            \
            ARITHMETIC(a, b)                                                                       \
        default:                                                                                   \
            if (!COMPARES(op, c, a))                                                               \
                return false;                                                                      \
            SWAP(sizeof(type));                                                                    \
        }                                                                                          \
        old = (type)small_float_encode(&(format), a);                                              \
        memcpy(value, &old, sizeof(old));                                                          \
        return true;                                                                               \
    }

SMALL(float16, uint16_t, small_float16)
SMALL(bfloat16, uint16_t, small_bfloat16)
SMALL(float8_e4m3, uint8_t, small_float8_e4m3)
SMALL(float8_e5m2, uint8_t, small_float8_e5m2)
