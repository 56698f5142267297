/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The remote side of an operation where the CPU of the target carries it out: the check of its
 * remote segments against the regions of a domain, and the access itself. RMA and atomics of every
 * kind; the local segments of the op are memory of this process. Source: fi_rma(3), fi_atomic(3),
 * fi_mr(3).
 */
#ifndef WEFT_CORE_OP_REMOTE_H
#define WEFT_CORE_OP_REMOTE_H

#include "core/domain/mr.h"
#include "core/op/op.h"

enum {
    REMOTE_SEGMENTS = 4,   /* remote segments of an operation */
    REMOTE_PIECES = 4,     /* pieces of memory of one region: the domain's mr_iov_limit */
    REMOTE_OPERAND = 4096, /* bytes of one operand of an atomic */
};

/* The memory that an operation means. */
struct remote {
    struct mr *mrs[REMOTE_SEGMENTS]; /* held; NULL for no bytes */
    size_t mr_count;
    uint64_t access; /* that the operation has, as mr_accessed takes it */
    struct iovec iov[REMOTE_SEGMENTS * REMOTE_PIECES];
    size_t count;
};

/* Resolves the remote segments of an RMA or atomic operation, at most REMOTE_SEGMENTS, with the
 * access that it needs, and holds their regions. 0, or with nothing held -FI_EACCES or -FI_EINVAL
 * as mr_resolve; -FI_EINVAL also for an element that lies in two pieces of a region. */
int remote_resolve(struct mr_map *map, const struct op *op, struct remote *remote);
/* Copies, or computes: into the remote memory, into the op's local or result segments. Reads copy
 * as much as fits. Operands have at most REMOTE_OPERAND bytes. */
void remote_access(const struct op *op, const struct remote *remote);
void remote_release(struct remote *remote);

#endif
