/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fabric and domain of layers of message_ep.h. Regions, queues, counters and address vectors are
 * core's, since accesses are done by the CPU of their target; addresses may be of a form that only
 * the lower reads.
 */
#ifndef WEFT_CORE_LAYER_MESSAGE_DOMAIN_H
#define WEFT_CORE_LAYER_MESSAGE_DOMAIN_H

#include "core/av/av.h"
#include "core/layer/lower_domain.h"

struct message_domain {
    struct lower_domain base;
    struct av_kind kind; /* of own addresses */
};

extern struct fi_ops message_domain_fid_ops;
extern struct fi_ops_domain message_domain_ops;

/* Fields of struct message_wire.domain. */
#define MESSAGE_DOMAIN                                                                             \
    .size = sizeof(struct message_domain), .fid_ops = &message_domain_fid_ops,                     \
    .ops = &message_domain_ops

#endif
