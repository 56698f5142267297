/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floating point formats of 16 and 8 bits as numbers of C. Sources: IEEE 754-2008 (half
 * precision), the "OCP 8-bit Floating Point Specification" (E4M3 without infinities, E5M2 with).
 */
#ifndef WEFT_CORE_BASE_SMALL_FLOAT_H
#define WEFT_CORE_BASE_SMALL_FLOAT_H

#include <stdbool.h>
#include <stdint.h>

struct small_float {
    unsigned exponent_bits, mantissa_bits;
    bool infinities; /* false: only the code of all ones is no number, a NaN */
};

extern const struct small_float small_float16, small_bfloat16, small_float8_e4m3, small_float8_e5m2;

double small_float_decode(const struct small_float *format, uint16_t code);

/* Rounds to nearest, ties to even. Too large a value becomes infinity, a NaN without infinities.
 * Any NaN becomes the quiet one with its sign. */
uint16_t small_float_encode(const struct small_float *format, double value);

#endif
