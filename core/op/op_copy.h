/* SPDX-License-Identifier: BSD-2-Clause */
/* A copy of an operation that outlives the call: for layers that post it later. */
#ifndef WEFT_CORE_OP_OP_COPY_H
#define WEFT_CORE_OP_OP_COPY_H

#include "core/op/op.h"

/* Bytes of what op points to: segments, descriptors and operands; with `bytes`, of the data that an
 * inject hands over too: of the local segments, and of the compare operand of an atomic. */
size_t op_copy_size(const struct op *op, bool bytes);
/* Copies op to *copy, and the data behind its pointers to memory: op_copy_size bytes aligned as
 * malloc aligns. The copy's pointers lead there. With `bytes` the data is in one segment of each,
 * without descriptors. */
void op_copy(const struct op *op, bool bytes, struct op *copy, void *memory);

#endif
