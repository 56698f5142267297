/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects that pass everything on to the lower's: what `noop` is, and what every hook starts from.
 * (`no_*`, the answers of a part that does nothing at all, are in core/base/enosys.h.)
 *
 * Each object below wraps one object of the lower; the application, or the layer above, holds ours.
 * Every fid that crosses is exchanged for the other side's: fi_ep_bind targets, fi_trywait fids,
 * info->handle, domain_attr->domain and fabric_attr->fabric, EQ entries and their infos, base
 * regions, AV sets, aliases, members of poll sets, and peer objects with the entries that travel
 * through them. Memory descriptors, keys and multicast addresses, which applications read inline,
 * are copied. Operation contexts are the lower's to keep: they pass untouched, but for the counter
 * in one of a triggered operation (core/hook/hook_trigger.h).
 *
 * The way back from a lower's fid is its context: every lower object is opened with the address of
 * ours as its context, except where fi_peer(3) takes that argument.
 *
 * An operation costs one indirect call more, and nothing else. Structs go down in the layout that
 * they came in: a transparent layer's lower is opened for the layouts of the layer's own upper.
 *
 * A hook fills a struct hook_ops with tables of its own, which hold the functions that it replaces.
 * Their functions call the hook_* ones or, by hook_lower_ep and the like, the lower directly.
 */
#ifndef WEFT_CORE_HOOK_HOOK_H
#define WEFT_CORE_HOOK_HOOK_H

#include <pthread.h>

#include <rdma/providers/fi_peer.h>

#include "core/base/enosys.h"
#include "core/base/fid.h"
#include "core/base/list.h"
#include "core/ep/ep.h"

struct lower;
struct open_args;
struct params;
struct hook_cq;
struct hook_watch;
struct work_copy;
struct hook_ep;
struct hook_eq;

/* An entry of a completion queue. Fields that the queue's format lacks are 0. */
struct completion {
    void *context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data, tag;
    fi_addr_t src; /* FI_ADDR_NOTAVAIL: not told */
    int err;       /* positive FI_E code; 0: success */
};

/* How it came: read by the upper, alone or in a batch, or written by the lower to a peer queue. */
enum completion_way {
    COMPLETION_READ,
    COMPLETION_READ_ERROR,
    COMPLETION_WRITTEN,
};

/* The tables that the objects of one fabric get. NULL: the hook_* one; so for functions of a table
 * that are NULL (core/base/table.h). */
struct hook_ops {
    struct fi_ops *fabric_fid, *domain_fid, *ep_fid, *pep_fid, *stx_fid, *cq_fid, *cntr_fid,
        *eq_fid, *av_fid, *av_set_fid, *mr_fid, *mc_fid, *wait_fid, *poll_fid;
    struct fi_ops_fabric *fabric;
    struct fi_ops_domain *domain;
    struct fi_ops_mr *mr;
    struct fi_ops_ep *ep, *pep;
    struct fi_ops_cm *cm, *pep_cm;
    struct fi_ops_cq *cq;
    struct fi_ops_cntr *cntr;
    struct fi_ops_eq *eq;
    struct fi_ops_av *av;
    struct fi_ops_av_set *av_set;
    struct fi_ops_wait *wait;
    struct fi_ops_poll *poll;
    /* Calls that come up from the lower through peer objects. */
    struct fi_ops_cq_owner *cq_owner;
    struct fi_ops_cntr_owner *cntr_owner;
    struct fi_ops_srx_owner *srx_owner;
    struct fi_ops_srx_peer *srx_peer; /* and down from the owner of a receive context */
    /* ---- Functions from here on ---- */
    /* Takes each operation: struct ep.post of endpoints and contexts, usually around a call of
     * hook_post. */
    ssize_t (*post)(struct ep *ep, struct op *op);
    /* Called for each entry of a completion queue before the upper gets it; may not fail. */
    void (*completed)(struct hook_cq *cq, const struct completion *completion,
                      enum completion_way way);
    /* With `completed`: called with the result of each read of a queue, before its entries. */
    void (*cq_read)(struct hook_cq *cq, ssize_t rc);
    /* Called for each event that a reader gets, which it may change or keep (-FI_EAGAIN); returns
     * the result of the read. */
    ssize_t (*event)(struct hook_eq *eq, ssize_t rc, uint32_t *event, void *buf);
    /* Called when a message came before its receive, by an upper's receive context. */
    void (*unexpected)(struct hook_ep *ep);
    /* Gets the memory of an object of ours that has closed (its lower's, too), and frees it when it
     * likes: fid is its address. NULL: it is freed at once. */
    void (*retire)(struct fid *fid);
    /* Gets the hook's own of a fabric that has closed, if it has any. NULL: it is not told. */
    void (*finish)(void *own);
    /* Called for opened and closed objects (core/hook/hook_watch.h); or NULL. */
    const struct hook_watch *watch;
};

/* The fid is the first member of each: a fid of ours and its object have one address. `own` is the
 * hook's: NULL when the object is opened, never read here; it frees it when it closes. */

struct hook_fabric {
    struct fabric base;
    struct fid_fabric *lower;
    void *own;
    struct lower *hold;
    struct params *params; /* the part's; owned */
    struct hook_ops ops;   /* complete */
    bool triggers;         /* exchanges those of triggered operations: transparent */
    char *prov_name;       /* that the infos of its events get; may be NULL */
    pthread_mutex_t mutex; /* of domains */
    struct list domains;
};

struct hook_domain {
    struct fid_domain fid;
    struct fid_domain *lower;
    void *own;
    struct hook_fabric *fabric;
    struct children children;
    struct list link;
    struct fi_info *info; /* that the lower was opened with, which may keep pointers into it */
    pthread_mutex_t work_mutex; /* of works */
    struct work_copy **works;   /* deferred work that has gone down; NULL: none yet */
};

/* Active and scalable endpoints, transmit and receive contexts, shared receive contexts. */
struct hook_ep {
    union {
        struct ep base;
        struct fid_ep fid; /* base.fid */
    };
    struct fid_ep *lower;
    void *own;
    struct op_target target; /* lower, for operations */
    struct hook_domain *domain;
    struct fi_info
        *info;     /* that the lower was opened with, or NULL; it may keep pointers into it */
    bool triggers; /* opened with FI_TRIGGER */
    /* Of an alias with FI_TRIGGER: its flags, a direction among them. Operations of that direction
     * have these default flags. Else 0. */
    uint64_t trigger_flags;
    /* A shared receive context opened with FI_PEER: the lower's view of it, the upper's context,
     * and the table that is set in the upper's context: its address leads from there to this
     * object. */
    struct fid_peer_srx peer;
    struct fid_peer_srx *owner;
    struct fi_ops_srx_peer peer_ops;
};

struct hook_pep {
    struct fid_pep fid;
    struct fid_pep *lower;
    void *own;
    struct hook_fabric *fabric;
    struct fi_info *info; /* that the lower was opened with, which may keep pointers into it */
};

struct hook_stx {
    struct fid_stx fid;
    struct fid_stx *lower;
    void *own;
    struct hook_domain *domain;
};

struct hook_cq {
    struct fid_cq fid;
    struct fid_cq *lower;
    void *own;
    struct hook_domain *domain;
    enum fi_cq_format format; /* of the entries that are read */
    void (*completed)(struct hook_cq *cq, const struct completion *completion,
                      enum completion_way way); /* the hook's */
    void (*read)(struct hook_cq *cq, ssize_t rc);
    struct fid_peer_cq peer;   /* FI_PEER: the sink of the lower's */
    struct fid_peer_cq *owner; /* the upper's */
};

struct hook_cntr {
    struct fid_cntr fid;
    struct fid_cntr *lower;
    void *own;
    struct hook_domain *domain;
    struct fid_peer_cntr peer;
    struct fid_peer_cntr *owner;
};

struct hook_eq {
    struct fid_eq fid;
    struct fid_eq *lower;
    void *own;
    struct hook_fabric *fabric;
    struct fid_eq peer; /* FI_PEER: the sink of the lower's */
    struct fid_eq *owner;
};

struct hook_av {
    struct fid_av fid;
    struct fid_av *lower;
    void *own;
    struct hook_domain *domain;
    struct fid_peer_av peer;
    struct fid_peer_av *owner;
};

struct hook_av_set {
    struct fid_av_set fid;
    struct fid_av_set *lower;
    void *own;
    struct hook_domain *domain;
    struct fid_peer_av_set peer;
    struct fid_peer_av_set *owner;
};

struct hook_mr {
    struct fid_mr fid;
    struct fid_mr *lower;
    void *own;
    struct hook_domain *domain;
};

struct hook_mc {
    struct fid_mc fid;
    struct fid_mc *lower;
    void *own;
    struct hook_domain *domain;
};

/* Other objects name a wait set as the application does: it is found through any wrapper. */
struct hook_wait {
    struct fid_wait fid;
    struct fid_wait *lower;
    void *own;
    struct hook_fabric *fabric;
};

struct hook_poll {
    struct fid_poll fid;
    struct fid_poll *lower;
    void *own;
    struct hook_domain *domain;
};

/* hook_object_fid_ops is that of the classes without a name here: objects of a domain that close,
 * bind and are controlled alike. */
extern struct fi_ops hook_fabric_fid_ops, hook_domain_fid_ops, hook_ep_fid_ops, hook_pep_fid_ops,
    hook_eq_fid_ops, hook_mr_fid_ops, hook_wait_fid_ops, hook_object_fid_ops;
extern struct fi_ops_fabric hook_fabric_ops;
extern struct fi_ops_domain hook_domain_ops;
extern struct fi_ops_mr hook_mr_ops;
extern struct fi_ops_ep hook_ep_ops, hook_pep_ops;
extern struct fi_ops_cm hook_cm_ops, hook_pep_cm_ops;
extern struct fi_ops_cq hook_cq_ops, hook_watched_cq_ops; /* the second: for hook_ops.completed */
extern struct fi_ops_cntr hook_cntr_ops;
extern struct fi_ops_eq hook_eq_ops;
extern struct fi_ops_av hook_av_ops;
extern struct fi_ops_av_set hook_av_set_ops;
extern struct fi_ops_wait hook_wait_ops;
extern struct fi_ops_poll hook_poll_ops;
extern struct fi_ops_cq_owner hook_cq_owner_ops, hook_watched_cq_owner_ops;
extern struct fi_ops_cntr_owner hook_cntr_owner_ops;
extern struct fi_ops_srx_owner hook_srx_owner_ops;
extern struct fi_ops_srx_peer hook_srx_peer_ops;

/* Sets entries that ops leaves NULL to those of base: tables, their functions, and functions. */
void hook_ops_inherit(struct hook_ops *ops, const struct hook_ops *base);
/* part.open_fabric of a pass-through part: args->lowers[0] is its lower. overrides is copied, its
 * tables are completed; NULL: none. */
int hook_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context,
                     const struct hook_ops *overrides);

static inline struct hook_ep *hook_ep_of(struct ep *ep)
{
    return object_of(ep, struct hook_ep, base);
}

/* The post of a part that changes nothing. */
static inline ssize_t hook_post(struct ep *ep, struct op *op)
{
    return op_post(&hook_ep_of(ep)->target, op);
}

/* struct ep.atomic_valid of every part: the lower's answer. */
int hook_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                      size_t *count);

static inline struct fid_ep *hook_lower_ep(struct fid_ep *ep)
{
    return object_of(ep, struct hook_ep, fid)->lower;
}

static inline struct fid_cq *hook_lower_cq(struct fid_cq *cq)
{
    return object_of(cq, struct hook_cq, fid)->lower;
}

/* The lower's fid for one of ours; others (connection requests, NULL) as they are. */
struct fid *hook_down(struct fid *fid);
/* Ours for a fid of the lower that was opened with ours as its context. NULL for NULL. */
struct fid *hook_up(const struct fid *lower);

/* The hook_* table of objects of that class (FI_CLASS_EP, ...), which close, bind and control them.
 */
const struct fi_ops *hook_fid_ops(size_t fclass);

/* Where the hook's own is kept in one of our objects. */
void **hook_own(struct fid *fid);

/* A copy of an info as the lower should see it, or NULL without memory; info_free. */
struct fi_info *hook_info_down(struct hook_fabric *fabric, const struct fi_info *info);
/* Changes the lower's info for the upper. */
void hook_info_up(struct hook_fabric *fabric, struct fi_info *info);

/* ---- Between the files of this room ---- */

static inline struct hook_fabric *hook_fabric_of(struct fid_fabric *fid)
{
    return object_of(fid, struct hook_fabric, base.fid);
}

static inline struct hook_domain *hook_domain_of(struct fid_domain *fid)
{
    return object_of(fid, struct hook_domain, fid);
}

/* The end of a close: fid is not ours any more. */
void hook_retire(struct hook_fabric *fabric, struct fid *fid);

/* close of objects of a domain's that hold nothing but their lower. */
int hook_object_close(struct fid *fid);
/* bind, control and ops_set of objects of every class. FI_ALIAS is for endpoints alone. */
int hook_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int hook_control(struct fid *fid, int command, void *arg);
/* ops_open. A lower's tables take the lower's fids, which no upper has: only a table passes that is
 * complete in itself, "fi_profile_ops" (fi_profile(3)), or that takes handles of covers, as a part
 * of ours says (CONTROL_OWN). */
int hook_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int hook_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);
/* Of endpoints and passive endpoints. */
int hook_getopt(fid_t fid, int level, int name, void *value, size_t *len);
int hook_setopt(fid_t fid, int level, int name, const void *value, size_t len);
int hook_setname(fid_t fid, void *addr, size_t len);
int hook_getname(fid_t fid, void *addr, size_t *len);
/* A function that only passes its call on: fi_<name> of the lower's object. Its parameters stand at
 * the end, what the lower gets in the brackets before them. */
#define HOOK_PASS(type, name, args, ...)                                                           \
    static type name(__VA_ARGS__)                                                                  \
    {                                                                                              \
        return fi_##name args;                                                                     \
    }
/* All of a struct fi_ops but close, for an object that gives no tables of functions. */
#define HOOK_FID_PASSES                                                                            \
    .bind = hook_bind, .control = hook_control, .ops_open = enosys_ops_open,                       \
    .tostr = enosys_tostr, .ops_set = hook_ops_set

int hook_domain_open(struct hook_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                     uint64_t flags, void *context);
int hook_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                  void *context);
int hook_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                 void *context);
int hook_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set);
int hook_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **set);
int hook_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                 void *context);
int hook_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                   void *context);
int hook_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                 void *context);
int hook_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                 void *context);
int hook_ep_open2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                  uint64_t flags, void *context);
int hook_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                  void *context);
int hook_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
                  void *context);
int hook_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                  void *context);

/* Wire the peer object that the lower gets to the upper's. -FI_EINVAL for a bad context. */
int hook_peer_cq(struct hook_cq *cq, const void *context, struct fi_peer_cq_context *down);
int hook_peer_cntr(struct hook_cntr *cntr, const void *context, struct fi_peer_cntr_context *down);
int hook_peer_eq(struct hook_eq *eq, const void *context, struct fi_peer_eq_context *down);
int hook_peer_av(struct hook_av *av, const void *context, struct fi_peer_av_context *down);
int hook_peer_av_set(struct hook_av_set *set, const void *context,
                     struct fi_peer_av_set_context *down);
int hook_peer_srx(struct hook_ep *srx, const void *context, struct fi_peer_srx_context *down);
/* After the lower has opened: the upper's gets the functions that lead to the lower's. */
void hook_peer_srx_opened(struct hook_ep *srx);

/* An event of len bytes in buf: its fid, context and info, of the lower, become ours. */
void hook_event_up(struct hook_fabric *fabric, uint32_t event, void *buf, size_t len);

#endif
