/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic operations of the device: fetch-and-add and compare-and-swap on one naturally aligned
 * integer of 8 bytes. The device writes the value that was there; where the caller does not
 * want it, into 8 bytes of the endpoint's that the library never reads.
 *
 * Results are in the order of this host: a device that answers in another order says
 * IBV_ATOMIC_NONE to the kernel's drivers, and is offered without atomics.
 */
#include "transports/verbs/verbs_atomic.h"

#include <inttypes.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/op/atomic.h"
#include "transports/verbs/verbs_ep.h"

enum {
    SIZE = sizeof(uint64_t)
};

bool verbs_has_atomics(const struct verbs_device *device)
{
    return device->attr.atomic_cap != IBV_ATOMIC_NONE;
}

static bool is_native(uint64_t function, enum fi_datatype datatype, enum fi_op op)
{
    if (datatype != FI_UINT64 && datatype != FI_INT64)
        return false;
    switch (function) {
    case 0: return op == FI_SUM;
    case FI_FETCH_ATOMIC: return op == FI_SUM || op == FI_ATOMIC_READ;
    case FI_COMPARE_ATOMIC: return op == FI_CSWAP;
    default: return false;
    }
}

int verbs_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                       size_t *count)
{
    if (!is_native(function, datatype, op))
        return -FI_EOPNOTSUPP;
    return atomic_count(datatype, op, function, SIZE, count);
}

int verbs_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                       struct fi_atomic_attr *attr, uint64_t flags)
{
    uint64_t function = flags & (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC);

    if (!verbs_has_atomics(verbs_domain_of(fid)->device))
        return -FI_EOPNOTSUPP;
    if (function != (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) && !is_native(function, datatype, op))
        return -FI_EOPNOTSUPP;
    return atomic_query(datatype, op, attr, flags, SIZE);
}

int verbs_atomic_check(const struct op *op)
{
    size_t count;
    int rc = atomic_check_op(op, SIZE, 1, &count);

    if (rc)
        return rc;
    if (!is_native(op->function, op->datatype, op->op))
        return -FI_EOPNOTSUPP;
    if (op->rma_ioc->addr % SIZE == 0)
        return 0;
    LOG_WARN("verbs", FI_LOG_EP_DATA,
             "an atomic operation at %#" PRIx64 ": the device needs an address divisible by %d",
             op->rma_ioc->addr, SIZE);
    return -FI_EINVAL;
}

static uint64_t operand_of(const struct fi_ioc *ioc)
{
    uint64_t value;

    memcpy(&value, ioc->addr, sizeof(value));
    return value;
}

int verbs_atomic_fill(const struct verbs_ep *ep, const struct op *op, struct ibv_send_wr *wr,
                      struct ibv_sge *sge)
{
    const struct ibv_mr *mr = ep->discard_mr;
    const void *result = &ep->discard;
    uint64_t operand = op->op == FI_ATOMIC_READ ? 0 : operand_of(op->ioc);

    if (op->function) {
        result = op->result.ioc->addr;
        mr = op->result.desc ? op->result.desc[0] : NULL;
    }
    if (!mr)
        return -FI_EINVAL; /* FI_MR_LOCAL */
    *sge = (struct ibv_sge){.addr = (uintptr_t)result, .length = SIZE, .lkey = mr->lkey};
    wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr->wr.atomic.compare_add = operand;
    if (op->function == FI_COMPARE_ATOMIC) {
        wr->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
        wr->wr.atomic.compare_add = operand_of(op->compare.ioc);
        wr->wr.atomic.swap = operand;
    }
    wr->wr.atomic.remote_addr = op->rma_ioc->addr;
    wr->wr.atomic.rkey = (uint32_t)op->rma_ioc->key;
    return 1;
}

int verbs_atomic_open(struct verbs_ep *ep)
{
    if (!(ep->base.caps & FI_ATOMIC))
        return 0;
    ep->discard_mr = verbs_lib.reg_mr(ep->domain->pd, &ep->discard, SIZE, IBV_ACCESS_LOCAL_WRITE);
    return ep->discard_mr ? 0 : verbs_error(-1);
}

void verbs_atomic_close(struct verbs_ep *ep)
{
    if (ep->discard_mr)
        verbs_lib.dereg_mr(ep->discard_mr);
    ep->discard_mr = NULL;
}
