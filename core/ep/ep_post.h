/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations that a layer makes of its own, posted on an endpoint of its lower: each as the public
 * function that takes the same struct, and with its result.
 */
#ifndef WEFT_CORE_EP_EP_POST_H
#define WEFT_CORE_EP_EP_POST_H

#include "core/ep/ep.h"
#include "core/op/op_build.h"

/* call: OP_SENDMSG or OP_RECVMSG. */
OP_INLINE ssize_t op_post_msg(const struct op_target *target, enum op_call call,
                              const struct fi_msg *msg, uint64_t flags)
{
    struct op op;

    op_of_msg(&op, call, msg, flags);
    return op_post(target, &op);
}

/* call: OP_TSENDMSG or OP_TRECVMSG. */
OP_INLINE ssize_t op_post_tagged(const struct op_target *target, enum op_call call,
                                 const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct op op;

    op_of_tagged(&op, call, msg, flags);
    return op_post(target, &op);
}

/* call: OP_READMSG or OP_WRITEMSG. */
OP_INLINE ssize_t op_post_rma(const struct op_target *target, enum op_call call,
                              const struct fi_msg_rma *msg, uint64_t flags)
{
    struct op op;

    op_of_rma(&op, call, msg, flags);
    return op_post(target, &op);
}

#endif
