/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic operations as the CPU of the target carries them out: fi_atomic(3). Every fi_op on every
 * fi_datatype for which it has a meaning:
 *   integers             everything;
 *   floats of all kinds  everything but the bitwise operations (BOR, BAND, BXOR, MSWAP);
 *   complex numbers      what needs no order: SUM, DIFF, PROD, LOR, LAND, LXOR, ATOMIC_READ,
 *                        ATOMIC_WRITE, CSWAP, CSWAP_NE.
 * Values are compared as C compares them (-0.0 equals 0.0, a NaN equals nothing), sums and products
 * of integers wrap, floats of 16 and 8 bits are rounded to nearest even, and overflow as the OCP
 * specification of them has it: FLOAT8_E4M3 to NaN, the others to infinity. A long double's padding
 * is written as zeros, and passed on by ATOMIC_WRITE and the swaps.
 */
#ifndef WEFT_CORE_OP_ATOMIC_H
#define WEFT_CORE_OP_ATOMIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdma/fi_atomic.h>

enum {
    ATOMIC_MAX_SIZE = 32, /* bytes of the largest element */
};

/* Bytes of an element; 0: not a datatype that operations have (any other number, FI_VOID). */
size_t atomic_size(enum fi_datatype datatype);

/* Is the operation, settled, one of this kind, with a meaning for the datatype? flags: 0
 * (fi_atomic), FI_FETCH_ATOMIC or FI_COMPARE_ATOMIC. Takes any number for either. */
bool atomic_valid(enum fi_datatype datatype, enum fi_op op, uint64_t flags);

/* Is it of the datatypes (up to FI_FLOAT_COMPLEX) and operations (up to FI_MSWAP) that libfabric's
 * targets have? Release 2.6.0 ends in a null pointer on a request for another, so layers that speak
 * its wire send none. */
bool atomic_is_common(enum fi_datatype datatype, enum fi_op op);

/*
 * Applies an operation, valid for some kind, to count elements one after the other, each
 * atomically. operand: NULL for FI_ATOMIC_READ; compare: of the CSWAP family and FI_MSWAP only;
 * result: gets the old values, NULL when they are not wanted; none of them may overlap the target.
 * All may be unaligned. Elements of up to 8 bytes, naturally aligned, are atomic together with the
 * CPU's own instructions, in this process or over shared memory; the others under locks of this
 * process only, hence atomic together with other calls of atomic_apply at the same addresses.
 * Sequentially consistent. Never blocks longer than another thread needs for one element.
 */
void atomic_apply(enum fi_op op, enum fi_datatype datatype, void *target, const void *operand,
                  const void *compare, void *result, size_t count);

/*
 * At the target, for any transport: the rights that an operation, valid for that function (as flags
 * of atomic_valid), needs of the memory; whether pieces of memory (mr_resolve) hold whole elements,
 * as they must, since one in two pieces cannot be changed at once; and atomic_apply on them in
 * order. operands, compare and results are contiguous, for all pieces; NULL: there are none.
 * results may be the operands' memory.
 */
uint64_t atomic_access(enum fi_op op, uint64_t function);
bool atomic_is_whole(enum fi_datatype datatype, const struct iovec *pieces, size_t count);
void atomic_apply_pieces(enum fi_op op, enum fi_datatype datatype, const struct iovec *pieces,
                         size_t count, const void *operands, const void *compare, void *results);

/* Copies the elements of all segments, of `size` bytes each, to `to`; returns the end. */
uint8_t *atomic_gather(uint8_t *to, const struct fi_ioc *ioc, size_t segments, size_t size);

/*
 * For the *valid functions of an endpoint of which an operation takes max_bytes of one operand:
 * *count (unless NULL) gets the elements. flags as atomic_valid. -FI_EOPNOTSUPP: not valid, or too
 * large.
 */
int atomic_count(enum fi_datatype datatype, enum fi_op op, uint64_t flags, size_t max_bytes,
                 size_t *count);

/* fi_query_atomic; attr may be NULL. -FI_EOPNOTSUPP (FI_TAGGED too), -FI_EINVAL (both kinds at
 * once), -FI_EBADFLAGS. */
int atomic_query(enum fi_datatype datatype, enum fi_op op, struct fi_atomic_attr *attr,
                 uint64_t flags, size_t max_bytes);

/*
 * Is the operation, settled, one that an endpoint can take, of at most max_bytes of one operand and
 * iov_limit segments everywhere? *count gets its elements. 0; -FI_EOPNOTSUPP: no such operation on
 * the datatype, or a tagged buffer as its target; -FI_EBADFLAGS: FI_REMOTE_CQ_DATA, which atomics
 * do not have; -FI_EMSGSIZE: too many elements; -FI_EINVAL: none, too many segments, or not as many
 * in the segments of one kind as in those of the other.
 */
struct op;
int atomic_check_op(const struct op *op, size_t max_bytes, size_t iov_limit, size_t *count);

#endif
