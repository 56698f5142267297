/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomic operations on one value, as plain functions for core/op/atomic.c. */
#ifndef WEFT_CORE_BASE_ATOMIC_VALUE_H
#define WEFT_CORE_BASE_ATOMIC_VALUE_H

#include <stdbool.h>

#include <rdma/fi_domain.h>

/*
 * Applies the operation to *value, which must be a copy; operand and compare as in atomic_apply,
 * for one element. Nothing needs to be aligned. false: it stays as it is. The operation must be
 * valid for the type of the function, and is none of FI_ATOMIC_READ, which changes nothing, and
 * FI_ATOMIC_WRITE, which needs no arithmetic.
 */
typedef bool atomic_change(enum fi_op op, void *value, const void *operand, const void *compare);

atomic_change atomic_change_int8, atomic_change_uint8, atomic_change_int16, atomic_change_uint16,
    atomic_change_int32, atomic_change_uint32, atomic_change_int64, atomic_change_uint64,
    atomic_change_int128, atomic_change_uint128, atomic_change_float, atomic_change_double,
    atomic_change_long_double, atomic_change_float_complex, atomic_change_double_complex,
    atomic_change_long_double_complex, atomic_change_float16, atomic_change_bfloat16,
    atomic_change_float8_e4m3, atomic_change_float8_e5m2;

#endif
