/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations that were posted before the way to their peer was there: copies with final flags, each
 * in the list of its peer, in which order they are posted later, and in that of its endpoint, for
 * fi_cancel. The part knows its peers and when they can be reached. Not locked: the endpoint's
 * progress domain lock covers it. An upper may post from inside of an error that is reported here;
 * the call under way does not touch the operation that it adds.
 */
#ifndef WEFT_CORE_EP_OP_QUEUE_H
#define WEFT_CORE_EP_OP_QUEUE_H

#include <stddef.h>

#include "core/base/list.h"
#include "core/op/op.h"
#include "core/queue/binding.h"

struct op_queue {
    struct list all;         /* struct queued_op, oldest first */
    size_t count;            /* operations that are queued, or taken and not ended */
    struct binding *binding; /* where errors are reported */
};

struct queued_op {
    struct list of_peer, of_ep;
    struct op op; /* its peer is FI_ADDR_UNSPEC; its data follows in memory */
    _Alignas(max_align_t) char memory[];
};

void op_queue_init(struct op_queue *queue, struct binding *binding);
/* Frees all operations without completions. */
void op_queue_finish(struct op_queue *queue);

/* Copies op, which is settled (op_settle), with its segments and descriptors but not its data,
 * behind the others of the list `peer`. NULL without memory. */
struct queued_op *op_queue_add(struct op_queue *queue, const struct op *op, struct list *peer);

/* Takes it out of both lists, to be posted; it still counts. Then either of these: it goes back to
 * where it was, in front of the others, or it was posted, and is freed, or it ends in error. */
void op_queue_take(struct queued_op *queued);
void op_queue_return(struct op_queue *queue, struct queued_op *queued, struct list *peer);
void op_queue_posted(struct op_queue *queue, struct queued_op *queued);
/* err: positive FI_E code; why: a sentence for fi_cq_strerror, valid during the call, or NULL. The
 * operation may still be in its lists. */
void op_queue_fail(struct op_queue *queue, struct queued_op *queued, int err, const char *why);

/* Ends all operations of a peer so. */
void op_queue_fail_peer(struct op_queue *queue, struct list *peer, int err, const char *why);
/* Ends the oldest of that context with FI_ECANCELED: 0, or -FI_ENOENT. */
int op_queue_cancel(struct op_queue *queue, const void *context);

static inline struct queued_op *op_queue_first(const struct list *peer)
{
    return list_item(peer->next, struct queued_op, of_peer);
}

#endif
