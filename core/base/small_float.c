/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/small_float.h"

#include <string.h>

const struct small_float small_float16 = {5, 10, true};
const struct small_float small_bfloat16 = {8, 7, true};
const struct small_float small_float8_e4m3 = {4, 3, false};
const struct small_float small_float8_e5m2 = {5, 2, true};

enum {
    DOUBLE_MANTISSA = 52,
    DOUBLE_BIAS = 1023,
    DOUBLE_SPECIAL = 2047,
};

static int bias_of(const struct small_float *format)
{
    return (1 << (format->exponent_bits - 1)) - 1;
}

/* All bits but the sign. */
static uint16_t magnitude_mask(const struct small_float *format)
{
    return (uint16_t)((1u << (format->exponent_bits + format->mantissa_bits)) - 1);
}

static double of_bits(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* A power of two within the range of normal doubles. */
static double power(int exponent)
{
    return of_bits((uint64_t)(exponent + DOUBLE_BIAS) << DOUBLE_MANTISSA);
}

double small_float_decode(const struct small_float *format, uint16_t code)
{
    uint16_t magnitude = code & magnitude_mask(format);
    uint64_t sign = (uint64_t)(magnitude != code) << 63;
    int exponent = magnitude >> format->mantissa_bits;
    int mantissa = magnitude & ((1 << format->mantissa_bits) - 1);
    int special = (1 << format->exponent_bits) - 1;
    double value;

    if (exponent == special && (format->infinities || magnitude == magnitude_mask(format)))
        return of_bits(sign | (uint64_t)DOUBLE_SPECIAL << DOUBLE_MANTISSA |
                       (mantissa ? 1ull << (DOUBLE_MANTISSA - 1) : 0));
    if (exponent)
        mantissa += 1 << format->mantissa_bits;
    else
        exponent = 1;
    value = mantissa * power(exponent - bias_of(format) - (int)format->mantissa_bits);
    return sign ? -value : value;
}

/* The mantissa of 53 bits without its last ones, to nearest even. */
static uint64_t round_off(uint64_t mantissa, int bits)
{
    uint64_t half, rest;

    if (bits > DOUBLE_MANTISSA + 1)
        return 0;
    half = 1ull << (bits - 1);
    rest = mantissa & ((half << 1) - 1);
    mantissa >>= bits;
    return mantissa + (rest > half || (rest == half && mantissa & 1));
}

uint16_t small_float_encode(const struct small_float *format, double value)
{
    const uint16_t mask = magnitude_mask(format);
    const uint16_t infinity =
        (uint16_t)(((1u << format->exponent_bits) - 1) << format->mantissa_bits);
    const uint16_t nan =
        format->infinities ? (uint16_t)(infinity | 1u << (format->mantissa_bits - 1)) : mask;
    const uint16_t beyond = format->infinities ? infinity : mask; /* the first code that is none */
    uint64_t bits, mantissa, code;
    int exponent, drop;
    uint16_t sign;

    memcpy(&bits, &value, sizeof(bits));
    sign = bits >> 63 ? (uint16_t)(mask + 1) : 0;
    mantissa = bits & ((1ull << DOUBLE_MANTISSA) - 1);
    exponent = (int)(bits >> DOUBLE_MANTISSA & DOUBLE_SPECIAL);
    if (exponent == DOUBLE_SPECIAL)
        return sign | (mantissa ? nan : beyond);
    if (!exponent) /* below every subnormal of ours */
        return sign;
    mantissa |= 1ull << DOUBLE_MANTISSA;
    exponent += bias_of(format) - DOUBLE_BIAS;
    drop = DOUBLE_MANTISSA - (int)format->mantissa_bits;
    if (exponent < 1)
        drop += 1 - exponent;
    /* A carry out of the mantissa goes into the exponent, as it should; of a normal number the
     * leading bit counts for one exponent. */
    code = round_off(mantissa, drop);
    if (exponent > 1)
        code += (uint64_t)(exponent - 1) << format->mantissa_bits;
    return sign | (code >= beyond ? beyond : (uint16_t)code);
}
