/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collectives over tagged messages of the lower. A group's members exchange messages whose tags are
 * disjoint from the application's (coll_tag.h); each collective runs its schedule (coll_plan.h) as
 * the messages of a round end. Everything but sets of addresses and event queues is guarded by the
 * domain's progress domain. See docs/design/coll.md.
 */
#ifndef WEFT_COLL_H
#define WEFT_COLL_H

#include <rdma/fi_collective.h>

#include "core/layer/layer.h"
#include "layers/coll/coll_plan.h"

enum {
    COLL_RX_RESERVE = 64,     /* of the lower's receive queue */
    COLL_OUTSTANDING = 1024,  /* collectives of a group at once */
    COLL_GROUPS_MAX = 65536,  /* of an endpoint */
    COLL_PING_MS = 1000,      /* first silence after which a member is asked for a sign of life */
    COLL_PING_MAX_MS = 60000, /* it doubles up to this */
};

struct coll_domain {
    struct layer_domain cover;
    struct pool ops;              /* struct coll_op */
    struct list ready, stalled;   /* struct coll_op.todo: to go on; to be posted again */
    struct list controls;         /* struct coll_item.todo: to be posted */
    struct list breaking;         /* struct coll_group.todo */
    struct list deaf;             /* struct coll_ep.todo: without a receive for controls */
    struct list active;           /* struct coll_op.all */
    struct progress_source timer; /* fd -1: not made yet */
    int64_t due_ms;               /* next look at silent members; 0: none */
};

struct coll_ep {
    struct layer_ep cover;
    bool collects; /* opened for collectives */
    struct hook_eq *eq;
    struct list groups;        /* struct coll_group.link */
    struct coll_group **by_id; /* id_count of them; NULL: free */
    size_t id_count, next_id;
    struct list controls; /* struct coll_item.link: out or to be posted */
    struct list todo;     /* in domain->deaf */
    bool enabled;
};

/* A join that its queue has not told yet. Guarded by the queue's mutex. */
struct coll_event {
    struct list link; /* in coll_eq.joining, .done, .failed, or none */
    struct fid *fid;
    void *context;
    uint64_t serial;
    bool driven; /* by readers of the queue: there is no upper with a lock of its own */
    int err;
};

struct coll_group {
    struct fid_mc mc;
    struct coll_domain *domain;
    struct coll_ep *ep; /* NULL after it has closed */
    unsigned refs;
    struct list link, todo;
    struct list ops; /* struct coll_op.link */
    uint16_t id;     /* what others call this group at this endpoint */
    uint32_t rank, size, hash;
    uint64_t allowed; /* FI_*_SET; 0: all */
    fi_addr_t *members;
    uint32_t *words; /* exchanged by the join; then the ids of the members */
    uint16_t sequence;
    bool joining; /* its join is under way; before, it waits for one of the same members */
    bool joined, closed;
    int broken;    /* FI_E code: nothing more is possible */
    int breaking;  /* the code with which it will be, by the next pump */
    bool tell;     /* the others do not know yet */
    char *scratch; /* kept between collectives; NULL while in use */
    size_t scratch_size;
    struct coll_event event;
};

/* One collective. */
struct coll_op {
    struct list link, todo, all;
    struct coll_group *group;
    struct coll_plan plan;
    size_t element;
    enum fi_datatype datatype;
    enum fi_op op;
    const char *in;
    char *out, *scratch;
    size_t scratch_size;
    void *in_desc, *out_desc;
    uint64_t tag; /* all but the round */
    void *context;
    bool wanted, join, running, cancelled, poison;
    int err;
    uint32_t round;
    struct coll_step steps[COLL_STEPS_MAX];
    unsigned count, next, pending;
    struct list items; /* struct coll_item.link */
    int64_t since_ms;
    int pause_ms;
};

enum coll_item_kind {
    COLL_ITEM_SEND,
    COLL_ITEM_RECV,
    COLL_ITEM_CONTROL,
    COLL_ITEM_LISTEN, /* the receive for controls */
};

/* One message of ours in the lower. */
struct coll_item {
    struct fi_context2 context;
    enum coll_item_kind kind;
    bool cancelled;
    struct list link, todo;
    struct coll_op *op;       /* SEND, RECV */
    struct coll_ep *ep;       /* CONTROL, LISTEN */
    struct coll_group *group; /* CONTROL; held */
    uint32_t peer;
    uint64_t tag;
    size_t len;
};

static inline struct coll_ep *coll_ep_of(struct fid_ep *fid)
{
    return (struct coll_ep *)layer_ep_of(fid);
}

static inline struct coll_domain *coll_domain_of(struct coll_ep *ep)
{
    return (struct coll_domain *)ep->cover.domain;
}

/* ---- coll.c ---- */

/* Has it collectives? Contexts have none, nor has an endpoint that receives through a shared one:
 * the layer's own receives are the endpoint's. */
bool coll_ep_collects(const struct coll_ep *ep);

/* ---- coll_op.c ---- */

/* The arguments of a collective, checked. */
struct coll_request {
    struct coll_plan plan;
    size_t element;
    enum fi_datatype datatype;
    enum fi_op op;
    const void *in;
    void *out;
    void *in_desc, *out_desc;
    uint64_t tag;
    void *context;
    bool wanted, join;
};

/* Accepts a collective on a group and goes as far as it can. -FI_EAGAIN, -FI_ENOMEM. */
int coll_op_start(struct coll_group *group, const struct coll_request *request);
/* It cannot succeed any more. */
void coll_op_fail(struct coll_op *op, int err);
/* Its endpoint is gone: nothing will be reported. */
void coll_op_discard(struct coll_op *op);

void coll_completed(struct layer_domain *domain, const struct layer_done *done);
void coll_pump(struct layer_domain *domain);
bool coll_busy(struct layer_domain *domain);

/* ---- coll_control.c ---- */

int coll_timer_open(struct coll_domain *domain);
void coll_timer_close(struct coll_domain *domain);
void coll_timer_arm(struct coll_domain *domain);

/* Posts the receive for controls; false: to be tried again. */
bool coll_listen(struct coll_ep *ep);
void coll_ping(struct coll_group *group, uint32_t peer);
void coll_control_completed(struct coll_item *item, const struct layer_done *done);
void coll_controls_post(struct coll_domain *domain);
/* The next pump breaks the group; tell: and lets the other members know. */
void coll_group_break(struct coll_group *group, int err, bool tell);
void coll_groups_break(struct coll_domain *domain);
void coll_controls_discard(struct coll_ep *ep);

/* ---- coll_group.c ---- */

struct coll_group *coll_group_find(struct coll_ep *ep, fi_addr_t addr);
void coll_group_release(struct coll_group *group);
void coll_joined(struct coll_group *group, int err);
void coll_groups_orphan(struct coll_ep *ep);
int coll_join(struct fid_ep *fid, const void *addr, uint64_t flags, struct fid_mc **mc,
              void *context);

/* ---- coll_set.c ---- */

struct coll_set {
    struct fid_av_set fid;
    struct hook_av *av;
    struct layer_domain *domain;
    fi_addr_t *addrs;
    size_t count, room;
    uint64_t allowed;
    bool has_key;
    uint32_t key;   /* hash of the communication key */
    fi_addr_t addr; /* what fi_av_set_addr gives */
};

extern struct fi_ops coll_av_fid_ops;
extern struct fi_ops_av coll_av_ops;
extern struct fi_ops_domain coll_domain_ops;
/* NULL: not one of ours. */
const struct coll_set *coll_set_of(const struct fid_av_set *fid);
/* The endpoint's place in the set, and a hash of all members. -FI_EINVAL: it is not in it. */
int coll_set_rank(const struct coll_set *set, struct coll_ep *ep, uint32_t *rank, uint32_t *hash);

/* ---- coll_eq.c ---- */

extern struct fi_ops coll_eq_fid_ops;
extern struct fi_ops_eq coll_eq_ops;
extern struct fi_ops_fabric coll_fabric_ops;
/* The endpoint's queue; NULL: none any more. */
void coll_eq_bind(struct coll_ep *ep, struct hook_eq *eq);
/* A join that its queue will hear of; the group's. -FI_ENOEQ */
int coll_event_begin(struct coll_group *group, struct hook_eq *eq);
void coll_event_end(struct coll_group *group, int err);
/* Drops the group's events that were not read. */
void coll_event_forget(struct coll_group *group);

/* ---- coll_ep.c ---- */

/* struct ep.post of its endpoints. */
ssize_t coll_post(struct ep *ep, struct op *op);
extern struct fi_ops coll_ep_fid_ops;
extern struct fi_ops_cm coll_cm_ops;
int coll_query(struct fid_domain *domain, enum fi_collective_op coll,
               struct fi_collective_attr *attr, uint64_t flags);

#endif
