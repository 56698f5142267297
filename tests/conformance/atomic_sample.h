/* SPDX-License-Identifier: BSD-2-Clause */
/* The results of every operation on every pair of some values, in the bytes of every datatype:
 * written after fi_atomic(3), for the cases of atomics to compare with. */
#ifndef WEFT_CONF_ATOMIC_SAMPLE_H
#define WEFT_CONF_ATOMIC_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_atomic.h>

enum {
    ATOMIC_DATATYPES = FI_FLOAT8_E5M2 + 1,
    ATOMIC_OPS = FI_DIFF + 1,
    ATOMIC_VALUES = 6,
    ATOMIC_MANY = ATOMIC_VALUES * ATOMIC_VALUES,
    ATOMIC_BYTES = 32, /* of the largest element */
};

/* Target, operand, compare and what the target is afterwards, of ATOMIC_MANY elements. */
struct atomic_sample {
    char old[ATOMIC_MANY * ATOMIC_BYTES], operand[ATOMIC_MANY * ATOMIC_BYTES];
    char compare[ATOMIC_MANY * ATOMIC_BYTES], now[ATOMIC_MANY * ATOMIC_BYTES];
};

/* Bytes of an element. */
size_t atomic_size_of(enum fi_datatype datatype);
/* Is there such an operation, as one of fi_atomic (kind 0), FI_FETCH_ATOMIC or FI_COMPARE_ATOMIC?
 */
bool atomic_has_meaning(enum fi_datatype datatype, enum fi_op op, uint64_t kind);
void atomic_sample_fill(struct atomic_sample *s, enum fi_datatype datatype, enum fi_op op);

#endif
