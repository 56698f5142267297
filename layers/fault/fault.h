/* SPDX-License-Identifier: BSD-2-Clause */
/* The layer: its state behind `hook` of its objects, and its tables. */
#ifndef WEFT_FAULT_H
#define WEFT_FAULT_H

#include "core/hook/hook.h"
#include "layers/fault/fault_plan.h"

/* Of a fabric the hook is a struct fault_plan. */
struct fault_ep {
    struct fault_plan *plan;
    uint64_t number;
    atomic_uint_fast64_t calls;
    struct fid_eq *eq; /* bound to it; ours */
    /* The fates of its messages: fault_wire.c. */
    atomic_uint_fast64_t messages; /* that were accepted */
    uint64_t tx_op_flags;
    bool registers; /* the lower wants FI_MR_LOCAL */
    bool selective;
    bool loose;             /* writes may be doubled and overtaken */
    struct hook_cq *tx;     /* bound for FI_TRANSMIT; or NULL */
    struct hook_cq *rx;     /* bound for FI_RECV; or NULL */
    struct hook_cntr *sent; /* bound for FI_SEND; or NULL */
    struct hook_cntr *read, *written;
    int busy; /* sends of copies that are under way; under the plan's mutex */
    bool closing;
};

/* The event that stands in the lower's queue for the FI_SHUTDOWN of the connection that was ended:
 * one about an endpoint would outlive it there. */
enum {
    FAULT_ENDED = 0x46415554
};

/* The end of a transfer that was lost, for a queue that is read. */
struct fault_end {
    void *context;
    uint64_t flags;
    int err; /* 0: success */
};

struct fault_cq {
    struct fault_plan *plan;
    atomic_uint_fast64_t silent_until; /* CLOCK_MONOTONIC, ns: until then nothing comes */
    atomic_uint empty_reads;           /* since something came; may be off by some */
    /* Under the plan's mutex: a ring of `room`. */
    struct fault_end *ends;
    size_t first, room;
    atomic_size_t count;
    bool in_set; /* wakes a wait set for entries that are left */
};

struct fault_cntr {
    atomic_uint_fast64_t extra; /* copies that the lower counts and no caller sent */
};

static inline struct fault_plan *fault_of(struct fid_domain *domain)
{
    return hook_domain_of(domain)->fabric->own;
}

/* struct ep.post of its endpoints. */
ssize_t fault_post(struct ep *ep, struct op *op);
/* Each sets the tables of its file. */
void fault_queue_ops(struct hook_ops *ops);
void fault_control_ops(struct hook_ops *ops);

/* Does fi_trywait have to say no? */
bool fault_cq_is_silent(const struct fid *fid);
/* A transfer ended that the lower has never seen. -FI_EAGAIN: there is no room for that. */
int fault_cq_end(struct hook_cq *cq, struct fault_end end);

/* ---- fault_lost.c: transfers that the lower has never got; kinds are those of struct op ---- */

/* How it ends: 0 or FI_ETIMEDOUT. */
int fault_lost_error(uint64_t kind, uint64_t flags);
/* Ends it. -FI_EAGAIN: it cannot now, and nothing has happened. */
int fault_lost_end(const struct fault_ep *own, bool wanted, void *context, uint64_t kind, int err);
/* Which counter has such operations; NULL. */
struct hook_cntr *fault_cntr_of(const struct fault_ep *own, uint64_t kind);
/* Posts a read or an atomic, or loses it. */
ssize_t fault_lost_post(const struct hook_ep *ep, struct op *op);

/* Before and after a data transfer: 0 or the error that it has instead. */
ssize_t fault_call_enter(struct hook_ep *ep, enum op_class class);
void fault_call_accepted(struct hook_ep *ep, enum op_class class);

/* Posts a message or a write, or what becomes of it. */
ssize_t fault_wire_post(struct hook_ep *ep, struct op *op);

/* Sends what waits to be overtaken, where nothing comes to overtake it: of the endpoints that are
 * bound to the queue, since others may be another thread's; of those of a domain; or (NULL) of all.
 */
void fault_wire_flush_cq(struct fault_plan *plan, const struct hook_cq *cq);
void fault_wire_flush(struct fault_plan *plan, const struct hook_domain *domain);
/* Is this the context of a copy that we sent? Then it is done: *context becomes that of the user,
 * and *wanted says whether he has to see it; errors are always seen, but for those of doubles. */
bool fault_wire_done(struct fault_plan *plan, void **context, bool failed, bool *wanted);
/* Before the lower's endpoint closes (and false when it did not): nothing more is sent on it. */
void fault_wire_closing(struct fault_ep *own, bool closing);
/* It is closed: frees its remaining copies. */
void fault_wire_closed(const struct fault_ep *own);

#endif
