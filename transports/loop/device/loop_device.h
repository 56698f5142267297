/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shapes of devices (shape=rdma, srd, ud), for tests of what stands on devices: local memory is
 * registered, and each shape refuses what such a device does not do.
 */
#ifndef WEFT_LOOP_DEVICE_H
#define WEFT_LOOP_DEVICE_H

#include "transports/loop/loop.h"

enum {
    LOOP_DEVICE_IOV = 2,       /* segments, */
    LOOP_DEVICE_MAX = 1 << 20, /* bytes of an operation, */
    LOOP_PACKET = 8192,        /* and of a message with shape=srd */
    LOOP_PREFIX = 40,          /* with shape=ud: in front of each buffer, */
    LOOP_PREFIX_BYTE = 0xa5,   /* filled with it */
    LOOP_SHUFFLE = 32,         /* with shape=srd: packets of which any may be the next */
};

static inline bool loop_is_device(const struct loop_fabric *fabric)
{
    return fabric->shape != LOOP_FULL;
}

/* ---- loop_device.c ---- */

extern const char *const loop_shapes[]; /* choices of shape=, in the order of enum loop_shape */
enum loop_shape loop_shape_of(const struct params *params);
/* struct part.peer and struct part.agree. */
unsigned loop_device_traits(const struct params *params);
bool loop_device_agree(const struct params *params, struct param_conflict *conflict);
/* The endpoint type of a device, and its restrictions of loop's offer. */
enum loop_offer loop_device_offer(enum loop_shape shape);
void loop_device_restrict(struct fi_info *info, enum loop_shape shape);

/* With shape=srd any of the first messages of the inbox that can be received now, or NULL. Port
 * locked. */
struct loop_op *loop_shuffled(struct loop_ep *ep, const struct list *inbox);
/* Packets that wait for a receive are looked at again. Progress domain locked. */
void loop_receive_posted(struct loop_ep *ep);
/* With shape=rdma a write with CQ data takes a receive. -FI_ENOENT: none is posted. */
int loop_device_take_receive(struct loop_ep *ep, void **context);

/* ---- loop_burst.c ---- */

/* The next random number of shape=srd. */
unsigned loop_random(struct loop_ep *ep);
/* A layer's endpoint, which is being enabled, sends and completes several messages in a call. */
void loop_burst_enable(struct loop_ep *ep);
/* With ep->burst: a message that was sent, or received without data, is told to the layer's queue
 * with others, by loop_burst_flush, before any other completion is. Progress domain locked. */
void loop_burst_done(struct loop_ep *ep, void *context, size_t len, fi_addr_t src);
void loop_burst_tell(struct loop_ep *ep);
static inline void loop_burst_flush(struct loop_ep *ep)
{
    if (__builtin_expect(ep->burst != NULL, 0))
        loop_burst_tell(ep);
}

/* ---- loop_rdma.c ---- */

extern struct fi_ops_mr loop_rdma_mr_ops;
/* Is it one that a device would take: its size, its segments, their descriptors? Flags of op are
 * final. -FI_EINVAL, -FI_EMSGSIZE; the log says why. */
int loop_rdma_check(struct loop_domain *domain, const struct op *op);

#endif
