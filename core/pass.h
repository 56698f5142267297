/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects that pass everything on to the lower's: what `noop` is, and what every hook starts from.
 * (`no_*`, the answers of a part that does nothing at all, are in core/no.h.)
 *
 * Each object below wraps one object of the lower; the application, or the layer above, holds ours.
 * Every fid that crosses is exchanged for the other side's: fi_ep_bind targets, fi_trywait fids,
 * info->handle, domain_attr->domain and fabric_attr->fabric, EQ entries and their infos, base
 * regions, AV sets, aliases, members of poll sets, and peer objects with the entries that travel
 * through them. Memory descriptors, keys and multicast addresses, which applications read inline,
 * are copied. Operation contexts are the lower's to keep: they pass untouched, but for the counter
 * in one of a triggered operation (core/pass_trigger.h).
 *
 * The way back from a lower's fid is its context: every lower object is opened with the address of
 * ours as its context, except where fi_peer(3) takes that argument.
 *
 * An operation costs one indirect call more, and nothing else. Structs go down in the layout that
 * they came in: a transparent layer's lower is opened for the layouts of the layer's own upper.
 *
 * A hook fills a struct pass_ops with tables of its own, usually copies of pass_* with some entries
 * replaced, which call the pass_* ones or, by pass_lower_ep and the like, the lower directly.
 */
#ifndef WEFT_CORE_PASS_H
#define WEFT_CORE_PASS_H

#include <pthread.h>

#include <rdma/providers/fi_peer.h>

#include "core/fid.h"
#include "core/list.h"
#include "core/no.h"

struct lower;
struct open_args;
struct params;
struct pass_triggers;
struct pass_watch;
struct work_copy;

/* The tables that the objects of one fabric get. NULL: the pass_* one. */
struct pass_ops {
    struct fi_ops *fabric_fid, *domain_fid, *ep_fid, *pep_fid, *stx_fid, *cq_fid, *cntr_fid,
        *eq_fid, *av_fid, *av_set_fid, *mr_fid, *mc_fid, *wait_fid, *poll_fid;
    struct fi_ops_fabric *fabric;
    struct fi_ops_domain *domain;
    struct fi_ops_mr *mr;
    struct fi_ops_ep *ep, *pep;
    struct fi_ops_cm *cm, *pep_cm;
    struct fi_ops_msg *msg;
    struct fi_ops_tagged *tagged;
    struct fi_ops_rma *rma;
    struct fi_ops_atomic *atomic;
    struct fi_ops_collective *collective;
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
    /* Gets the memory of an object of ours that has closed (its lower's, too), and frees it when it
     * likes: fid is its address. NULL: it is freed at once. */
    void (*retire)(struct fid *fid);
    /* Gets the hook's own of a fabric that has closed, if it has any. NULL: nobody does. */
    void (*finish)(void *own);
    /* Who is told of objects (core/pass_watch.h); NULL: nobody. */
    const struct pass_watch *watch;
};

/* The fid is the first member of each: a fid of ours and its object have one address. `hook` is the
 * hook's own: NULL when the object is opened, never read here; it frees it when it closes. */

struct pass_fabric {
    struct fabric base;
    struct fid_fabric *lower;
    void *hook;
    struct lower *hold;
    struct params *params;          /* the part's; owned */
    struct pass_ops ops;            /* complete */
    struct pass_triggers *triggers; /* of a transparent part; else NULL */
    char *prov_name;                /* that the infos of its events get; may be NULL */
    pthread_mutex_t mutex;          /* of domains */
    struct list domains;
};

struct pass_domain {
    struct fid_domain fid;
    struct fid_domain *lower;
    void *hook;
    struct pass_fabric *fabric;
    struct children children;
    struct list link;
    pthread_mutex_t work_mutex; /* of works */
    struct work_copy **works;   /* deferred work that has gone down; NULL: none yet */
};

/* Active and scalable endpoints, transmit and receive contexts, shared receive contexts. */
struct pass_ep {
    struct fid_ep fid;
    struct fid_ep *lower;
    void *hook;
    struct pass_domain *domain;
    bool triggers; /* opened with FI_TRIGGER */
    /* A shared receive context opened with FI_PEER: what the lower holds, what the upper gave, and
     * the table that is set in the upper's: its address leads from there to this object. */
    struct fid_peer_srx peer;
    struct fid_peer_srx *owner;
    struct fi_ops_srx_peer peer_ops;
};

struct pass_pep {
    struct fid_pep fid;
    struct fid_pep *lower;
    void *hook;
    struct pass_fabric *fabric;
};

struct pass_stx {
    struct fid_stx fid;
    struct fid_stx *lower;
    void *hook;
    struct pass_domain *domain;
};

struct pass_cq {
    struct fid_cq fid;
    struct fid_cq *lower;
    void *hook;
    struct pass_domain *domain;
    enum fi_cq_format format;  /* of the entries that are read */
    struct fid_peer_cq peer;   /* FI_PEER: what the lower writes to */
    struct fid_peer_cq *owner; /* the upper's */
};

struct pass_cntr {
    struct fid_cntr fid;
    struct fid_cntr *lower;
    void *hook;
    struct pass_domain *domain;
    struct fid_peer_cntr peer;
    struct fid_peer_cntr *owner;
};

struct pass_eq {
    struct fid_eq fid;
    struct fid_eq *lower;
    void *hook;
    struct pass_fabric *fabric;
    struct fid_eq peer; /* FI_PEER: what the lower writes to */
    struct fid_eq *owner;
};

struct pass_av {
    struct fid_av fid;
    struct fid_av *lower;
    void *hook;
    struct pass_domain *domain;
    struct fid_peer_av peer;
    struct fid_peer_av *owner;
};

struct pass_av_set {
    struct fid_av_set fid;
    struct fid_av_set *lower;
    void *hook;
    struct pass_domain *domain;
    struct fid_peer_av_set peer;
    struct fid_peer_av_set *owner;
};

struct pass_mr {
    struct fid_mr fid;
    struct fid_mr *lower;
    void *hook;
    struct pass_domain *domain;
};

struct pass_mc {
    struct fid_mc fid;
    struct fid_mc *lower;
    void *hook;
    struct pass_domain *domain;
};

/* Other objects name a wait set as the application does: it is found through any wrapper. */
struct pass_wait {
    struct fid_wait fid;
    struct fid_wait *lower;
    void *hook;
    struct pass_fabric *fabric;
};

struct pass_poll {
    struct fid_poll fid;
    struct fid_poll *lower;
    void *hook;
    struct pass_domain *domain;
};

extern struct fi_ops pass_fabric_fid_ops, pass_domain_fid_ops, pass_ep_fid_ops, pass_pep_fid_ops,
    pass_stx_fid_ops, pass_cq_fid_ops, pass_cntr_fid_ops, pass_eq_fid_ops, pass_av_fid_ops,
    pass_av_set_fid_ops, pass_mr_fid_ops, pass_mc_fid_ops, pass_wait_fid_ops, pass_poll_fid_ops;
extern struct fi_ops_fabric pass_fabric_ops;
extern struct fi_ops_domain pass_domain_ops;
extern struct fi_ops_mr pass_mr_ops;
extern struct fi_ops_ep pass_ep_ops, pass_pep_ops;
extern struct fi_ops_cm pass_cm_ops, pass_pep_cm_ops;
extern struct fi_ops_msg pass_msg_ops;
extern struct fi_ops_tagged pass_tagged_ops;
extern struct fi_ops_rma pass_rma_ops;
extern struct fi_ops_atomic pass_atomic_ops;
extern struct fi_ops_collective pass_collective_ops;
extern struct fi_ops_cq pass_cq_ops;
extern struct fi_ops_cntr pass_cntr_ops;
extern struct fi_ops_eq pass_eq_ops;
extern struct fi_ops_av pass_av_ops;
extern struct fi_ops_av_set pass_av_set_ops;
extern struct fi_ops_wait pass_wait_ops;
extern struct fi_ops_poll pass_poll_ops;
extern struct fi_ops_cq_owner pass_cq_owner_ops;
extern struct fi_ops_cntr_owner pass_cntr_owner_ops;
extern struct fi_ops_srx_owner pass_srx_owner_ops;
extern struct fi_ops_srx_peer pass_srx_peer_ops;

/* part.open_fabric of a pass-through part: args->lowers[0] is what it passes to. overrides is
 * copied; NULL: none. */
int pass_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context,
                     const struct pass_ops *overrides);

static inline struct fid_ep *pass_lower_ep(struct fid_ep *ep)
{
    return object_of(ep, struct pass_ep, fid)->lower;
}

static inline struct fid_cq *pass_lower_cq(struct fid_cq *cq)
{
    return object_of(cq, struct pass_cq, fid)->lower;
}

/* The lower's fid for one of ours; others (connection requests, NULL) as they are. */
struct fid *pass_down(struct fid *fid);
/* Ours for a fid of the lower that was opened with ours as its context. NULL for NULL. */
struct fid *pass_up(const struct fid *lower);

/* The pass_* table of objects of that class (FI_CLASS_EP, ...), which close, bind and control them.
 */
const struct fi_ops *pass_fid_ops(size_t fclass);

/* Where the hook's own is kept in one of our objects. */
void **pass_hook(struct fid *fid);

/* A copy of an info as the lower should see it, or NULL without memory; info_free. */
struct fi_info *pass_info_down(struct pass_fabric *fabric, const struct fi_info *info);
/* Changes an info that comes from the lower into what the upper should see. */
void pass_info_up(struct pass_fabric *fabric, struct fi_info *info);

/* ---- Between the files of this room ---- */

static inline struct pass_fabric *pass_fabric_of(struct fid_fabric *fid)
{
    return object_of(fid, struct pass_fabric, base.fid);
}

static inline struct pass_domain *pass_domain_of(struct fid_domain *fid)
{
    return object_of(fid, struct pass_domain, fid);
}

/* The end of a close: fid is not ours any more. */
void pass_retire(struct pass_fabric *fabric, struct fid *fid);

/* bind, control and ops_set of objects of every class. FI_ALIAS is for endpoints alone. */
int pass_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int pass_control(struct fid *fid, int command, void *arg);
/* ops_open. What a lower gives there takes the lower's fids, which nobody above has: only what is
 * complete in itself passes, "fi_profile_ops" (fi_profile(3)). */
int pass_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int pass_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);

int pass_domain_open(struct pass_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                     uint64_t flags, void *context);
int pass_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                  void *context);
int pass_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                 void *context);
int pass_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set);
int pass_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **set);
int pass_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                 void *context);
int pass_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                   void *context);
int pass_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                 void *context);
int pass_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                 void *context);
int pass_ep_open2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                  uint64_t flags, void *context);
int pass_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                  void *context);
int pass_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
                  void *context);
int pass_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                  void *context);

/* Wire the peer object that the lower gets to the upper's. -FI_EINVAL for a bad context. */
int pass_peer_cq(struct pass_cq *cq, const void *context, struct fi_peer_cq_context *down);
int pass_peer_cntr(struct pass_cntr *cntr, const void *context, struct fi_peer_cntr_context *down);
int pass_peer_eq(struct pass_eq *eq, const void *context, struct fi_peer_eq_context *down);
int pass_peer_av(struct pass_av *av, const void *context, struct fi_peer_av_context *down);
int pass_peer_av_set(struct pass_av_set *set, const void *context,
                     struct fi_peer_av_set_context *down);
int pass_peer_srx(struct pass_ep *srx, const void *context, struct fi_peer_srx_context *down);
/* After the lower has opened: the upper's gets the functions that lead to the lower's. */
void pass_peer_srx_opened(struct pass_ep *srx);

/* An event of len bytes in buf: its fid, context and info, of the lower, become ours. */
void pass_event_up(struct pass_fabric *fabric, uint32_t event, void *buf, size_t len);

#endif
