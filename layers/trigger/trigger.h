/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Triggered operations (FI_TRIGGER) and deferred work (FI_QUEUE_WORK) over any lower: kept here
 * until their counter has reached its threshold, then posted. All of it is guarded by the domain's
 * unit. See docs/design/trigger.md. Source: fi_trigger(3).
 */
#ifndef WEFT_TRIGGER_H
#define WEFT_TRIGGER_H

#include <rdma/fi_trigger.h>

#include "core/cover.h"

enum {
    TRIGGER_IOV_MAX = 8,      /* segments of one operation; offered limits are no larger */
    TRIGGER_WORK_MAX = 65536, /* operations of a domain that wait or are on their way */
};

enum trigger_state {
    TRIGGER_WAITING, /* in the counter's list, by threshold and then age */
    TRIGGER_FIRED,   /* in the domain's list, to be posted */
    TRIGGER_POSTED,  /* deferred work that has not completed yet */
};

struct trigger_domain {
    struct cover_domain cover;
    struct list fired;   /* struct trigger_work.link, in this order */
    struct list all;     /* struct trigger_work.all */
    atomic_uint waiting; /* how many: the application's threads look without the lock */
    bool pumping;
};

struct trigger_ep {
    struct cover_ep cover;
    bool blocked;        /* in this pump: what comes later on it waits for what was refused */
    struct list aliases; /* with FI_TRIGGER among their flags */
};

/* Copies of what a triggered operation's arguments point to. */
struct trigger_arrays {
    union {
        struct iovec iov[TRIGGER_IOV_MAX];
        struct fi_ioc ioc[TRIGGER_IOV_MAX];
    };
    union {
        struct fi_rma_iov rma_iov[TRIGGER_IOV_MAX];
        struct fi_rma_ioc rma_ioc[TRIGGER_IOV_MAX];
    };
    struct fi_ioc result[TRIGGER_IOV_MAX], compare[TRIGGER_IOV_MAX];
    void *desc[TRIGGER_IOV_MAX], *result_desc[TRIGGER_IOV_MAX], *compare_desc[TRIGGER_IOV_MAX];
};

struct trigger_work {
    struct fi_context2 context; /* of the lower's operation, if it is deferred work */
    struct list link, all;
    enum trigger_state state;
    enum fi_op_type type;
    struct fi_deferred_work *deferred; /* NULL: a triggered operation */
    struct pass_ep *ep;                /* NULL: of a counter */
    struct cover_cntr *cntr;           /* that it waits for */
    uint64_t threshold;
    struct cover_cntr *target; /* completion counter, or the one to be changed; held; or NULL */
    uint64_t value;            /* of FI_OP_CNTR_* */
    uint64_t flags;
    void *user_context;
    bool wanted; /* deferred: an entry in the queue */
    union {
        struct fi_msg msg;
        struct fi_msg_tagged tagged;
        struct fi_msg_rma rma;
        struct fi_msg_atomic atomic;
    };
    struct fi_msg_fetch fetch;
    struct fi_msg_compare compare;
    struct trigger_arrays arrays;
};

static inline struct trigger_domain *trigger_domain_of(struct cover_domain *cover)
{
    return (struct trigger_domain *)cover;
}

/* ---- trigger_work.c ---- */

/* Work with undefined content but its links and domain's; -FI_EAGAIN. */
int trigger_work_create(struct trigger_domain *domain, struct trigger_work **work);
void trigger_work_destroy(struct trigger_domain *domain, struct trigger_work *work);
/* Waits for its counter, or is on its way. The domain pumps afterwards. */
void trigger_work_arm(struct trigger_domain *domain, struct trigger_work *work);
/* It did not happen: what the application is told. */
void trigger_work_failed(struct trigger_domain *domain, struct trigger_work *work, int err);

void trigger_pump(struct cover_domain *cover);
bool trigger_busy(struct cover_domain *cover);
void trigger_completed(struct cover_domain *cover, const struct cover_done *done);
void trigger_counted(struct cover_cntr *cntr);
void trigger_changed(struct cntr *cntr);

/* ---- trigger_post.c ---- */

/* Hands the operation to the lower. */
ssize_t trigger_post(struct trigger_work *work);

/* ---- trigger_queue.c ---- */

int trigger_control(struct fid *domain, int command, void *arg);

/* ---- trigger_ep.c ---- */

void trigger_ep_tables(struct pass_ops *tables);
/* The pass-through object of an endpoint of this layer in that domain, for an alias that of the
 * endpoint itself; NULL: it is none. */
struct pass_ep *trigger_ep_find(struct cover_domain *domain, struct fid_ep *fid);
/* Can an operation of that type wait for a counter on it? A receive on a shared context cannot:
 * which endpoint's queue would hear of its failure, nobody knows before a message takes it. */
bool trigger_ep_does(const struct cover_ep *ep, enum fi_op_type type);

/* ---- trigger_alias.c ---- */

/* fi_ep_alias with FI_TRIGGER; passed: the control of an endpoint without. */
int trigger_alias_open(struct fid *fid, struct fi_alias *alias,
                       int (*passed)(struct fid *, int, void *));
/* Of one that is closed, or of no such alias. */
void trigger_alias_close(struct trigger_ep *ep, const struct pass_ep *pass);
void trigger_alias_tables(const struct pass_ops *tables);

/* May counter take part: is it of this domain, with its values here? */
struct cover_cntr *trigger_cntr_find(struct cover_domain *domain, struct fid_cntr *fid);

#endif
