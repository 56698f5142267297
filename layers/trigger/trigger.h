/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Triggered operations (FI_TRIGGER) and deferred work (FI_QUEUE_WORK) over any lower: kept here
 * until their counter has reached its threshold, then posted. All of it is guarded by the domain's
 * progress domain. See docs/design/trigger.md. Source: fi_trigger(3).
 */
#ifndef WEFT_TRIGGER_H
#define WEFT_TRIGGER_H

#include <rdma/fi_trigger.h>

#include "core/layer/layer.h"

enum {
    TRIGGER_IOV_MAX = 8, /* segments of one operation; offered limits are no larger */
    TRIGGER_MEMORY = 8 * 16 * TRIGGER_IOV_MAX, /* bytes of all segments and descriptors */
    TRIGGER_WORK_MAX = 65536, /* operations of a domain that wait or are on their way */
};

enum trigger_state {
    TRIGGER_WAITING, /* in the counter's list, by threshold and then age */
    TRIGGER_FIRED,   /* in the domain's list, to be posted */
    TRIGGER_POSTED,  /* deferred work that has not completed yet */
};

struct trigger_domain {
    struct layer_domain cover;
    struct list fired;   /* struct trigger_work.link, in this order */
    struct list all;     /* struct trigger_work.all */
    atomic_uint waiting; /* how many: the application's threads look without the lock */
    bool pumping;
};

struct trigger_ep {
    struct layer_ep cover;
    bool blocked; /* in this pump: later work on it waits for the refused one */
};

struct trigger_work {
    struct fi_context2 context; /* of the lower's operation, if it is deferred work */
    struct list link, all;
    enum trigger_state state;
    enum fi_op_type type;
    struct fi_deferred_work *deferred; /* NULL: a triggered operation */
    struct hook_ep *ep;                /* NULL: of a counter */
    struct layer_cntr *cntr;           /* that it waits for */
    uint64_t threshold;
    struct layer_cntr *target; /* completion counter, or the one to be changed; held; or NULL */
    uint64_t value;            /* of FI_OP_CNTR_* */
    void *user_context;
    bool wanted;  /* deferred: an entry in the queue */
    struct op op; /* the operation to post: a *msg call; its context is set then */
    _Alignas(max_align_t) char memory[TRIGGER_MEMORY]; /* data behind op's pointers */
};

static inline struct trigger_domain *trigger_domain_of(struct layer_domain *cover)
{
    return (struct trigger_domain *)cover;
}

/* ---- trigger_work.c ---- */

/* Work with undefined content but its links and domain's; -FI_EAGAIN. */
int trigger_work_create(struct trigger_domain *domain, struct trigger_work **work);
void trigger_work_destroy(struct trigger_domain *domain, struct trigger_work *work);
/* Waits for its counter, or is on its way. The domain pumps afterwards. */
void trigger_work_arm(struct trigger_domain *domain, struct trigger_work *work);
/* Reports to the application work that did not happen. */
void trigger_work_failed(struct trigger_domain *domain, struct trigger_work *work, int err);

void trigger_pump(struct layer_domain *cover);
bool trigger_busy(struct layer_domain *cover);
void trigger_completed(struct layer_domain *cover, const struct layer_done *done);
void trigger_counted(struct layer_cntr *cntr);
void trigger_changed(struct cntr *cntr);

/* ---- trigger_queue.c ---- */

int trigger_control(struct fid *domain, int command, void *arg);

/* ---- trigger_ep.c ---- */

extern const struct hook_ops trigger_tables;
/* The pass-through object of an endpoint of this layer in that domain, for an alias that of the
 * endpoint itself; NULL: it is none. */
struct hook_ep *trigger_ep_find(struct layer_domain *domain, struct fid_ep *fid);
/* Can an operation of that type wait for a counter on it? A receive on a shared context cannot:
 * the endpoint whose queue would hear of its failure is not known before a message takes it. */
bool trigger_ep_does(const struct layer_ep *ep, enum fi_op_type type);

/* May counter take part: is it of this domain, with its values here? */
struct layer_cntr *trigger_cntr_find(struct layer_domain *domain, struct fid_cntr *fid);

#endif
