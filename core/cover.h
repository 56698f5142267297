/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A layer that takes part in the operations of its lower: what core/pass.h is, plus what a layer
 * needs that posts operations of its own on the endpoints of its upper.
 *
 * The lower is opened FI_THREAD_DOMAIN and driven by hand. Each domain is one progress unit (one
 * lock, one thread for FI_PROGRESS_AUTO), which every call on an endpoint takes. Queues and
 * counters are those of core/cq.h and core/cntr.h: the lower writes its completions to a peer queue
 * of ours, which hands those of the layer's own operations to the layer, and the others on. An
 * operation is the layer's if its context is an item of the domain's pool.
 *
 * Everything else passes: AVs, regions, event queues. Scalable endpoints, their contexts and shared
 * receive contexts are a struct cover_ep each, told apart by the class of their fid; the layer says
 * what it does on which. The lower must speak FI_PEER.
 */
#ifndef WEFT_CORE_COVER_H
#define WEFT_CORE_COVER_H

#include <rdma/fi_errno.h>

#include "core/cntr.h"
#include "core/cq.h"
#include "core/match.h"
#include "core/part.h"
#include "core/pass.h"
#include "core/pool.h"
#include "core/report.h"

struct lower_cq;
struct cover_cntr;
struct cover_domain;
struct cover_ep;

/* How one of the layer's own operations ended. The entry is valid during the call. */
struct cover_done {
    void *context; /* the pool's item */
    uint64_t flags, data, tag;
    size_t len;
    void *buf;
    fi_addr_t src;
    const struct fi_cq_err_entry *error; /* NULL: success */
    struct cover_cq *cq;                 /* that it was written to */
};

/* What the layer is. The functions may be NULL; all but `changed` are called with the unit locked.
 */
struct cover_ops {
    size_t domain_size, ep_size; /* of structs that begin with a cover_domain, a cover_ep */
    size_t item_size;            /* of the pool of operations; begins with a struct fi_context2 */
    uint64_t tags;               /* bits of a tag that the upper may not use */
    uint64_t adds;               /* capabilities that the lower need not have */
    struct pass_ops *pass;       /* filled by cover_tables, then changed by the layer */
    /* The hints for the lower that infos and hints of ours mean; NULL without memory. */
    struct fi_info *(*lower_hints)(const struct fi_info *info);
    int (*domain_opened)(struct cover_domain *domain); /* fails: it is not opened */
    void (*domain_closing)(struct cover_domain *domain);
    int (*ep_opened)(struct cover_ep *ep);   /* fails: the endpoint is closed again */
    int (*ep_enabled)(struct cover_ep *ep);  /* fails: so does fi_enable */
    void (*ep_closing)(struct cover_ep *ep); /* the lower's is still open */
    void (*ep_closed)(struct cover_ep *ep);  /* nothing of it will complete any more */
    /* From inside the lower: may not post. */
    void (*completed)(struct cover_domain *domain, const struct cover_done *done);
    void (*counted)(struct cover_cntr *cntr);
    /* The application changed a counter; not locked. */
    void (*changed)(struct cntr *cntr);
    /* After the lower was driven: posts what is to be posted. */
    void (*pump)(struct cover_domain *domain);
    /* Is there work that only another pump can do? Then nobody sleeps. */
    bool (*busy)(struct cover_domain *domain);
};

struct cover_domain {
    struct domain base; /* of queues and counters; its fid is not used */
    struct pass_domain *pass;
    const struct cover_ops *ops;
    struct unit *unit;
    struct pool items;
    atomic_bool av_changed; /* since the lower was driven last */
};

struct cover_cq {
    struct cq cq;
    struct fid_peer_cq inner; /* what the lower writes to */
    struct cover_domain *domain;
    struct lower_cq *lower;
    struct unit_source source;
    bool mute; /* made for an endpoint without a queue: nobody reads it */
};

struct cover_cntr {
    struct cntr cntr;
    struct fid_peer_cntr inner;
    struct cover_domain *domain;
    struct fid_cntr *lower;
    unsigned quiet, quiet_errors; /* next increments that are of the layer's own operations */
    struct list waiting;          /* the layer's */
};

struct cover_ep {
    struct pass_ep *pass;
    struct cover_domain *domain;
    struct report report;  /* what the upper bound */
    struct fi_info *info;  /* as the upper opened it, or what it belongs to; current layout */
    struct cover_cq *mute; /* in place of a queue that it did not bind */
    unsigned aliases;
    bool enabled;
    bool top;                           /* no upper sees what happens before the application does */
    struct match_watch watch, *watcher; /* an upper's, not told of the layer's own receives */
};

/* part.open_fabric of the layer. */
int cover_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context,
                      const struct cover_ops *ops);
/* Tables of a cover that adds nothing. The data transfers of other tables must lock. */
void cover_tables(struct pass_ops *tables);

/* For needs and lower_hints: a copy of hints without the capabilities that the layer adds, and with
 * what every cover asks of its lower. NULL without memory. */
struct fi_info *cover_hints(const struct fi_info *hints, uint64_t added);
/* For offer: the lower's info as a cover of it has it, with `added`. NULL without memory. */
struct fi_info *cover_offer(const struct fi_info *lower, uint64_t added);

static inline struct cover_domain *cover_domain_of(struct fid_domain *fid)
{
    return pass_domain_of(fid)->hook;
}

static inline struct cover_ep *cover_ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct pass_ep, fid)->hook;
}

/* FI_CLASS_EP, FI_CLASS_SEP, FI_CLASS_TX_CTX, FI_CLASS_RX_CTX or FI_CLASS_SRX_CTX. */
static inline size_t cover_ep_class(const struct cover_ep *ep)
{
    return ep->pass->fid.fid.fclass;
}

/* Around a post that does not go through the data transfers of cover_tables: takes the lock; gives
 * it back, and returns rc. */
void cover_take_av_changes(struct cover_ep *ep);

static inline void cover_enter(struct cover_ep *ep)
{
    unit_lock(ep->domain->unit);
    if (__builtin_expect(atomic_load_explicit(&ep->domain->av_changed, memory_order_relaxed), 0))
        cover_take_av_changes(ep);
}

/* A poster that does nothing but try again makes progress too. */
static inline ssize_t cover_leave(struct cover_ep *ep, ssize_t rc)
{
    if (__builtin_expect(rc == -FI_EAGAIN && ep->top, 0))
        unit_progress(ep->domain->unit);
    unit_unlock(ep->domain->unit);
    return rc;
}

/* The counter that a fid is, or NULL when it is none of that domain's. */
struct cover_cntr *cover_cntr_of(struct cover_domain *domain, struct fid *fid);

/* An operation of the layer's own, of that kind, has ended: the upper's counter, which the lower is
 * about to raise, stays as it is. Called by `completed`. */
static inline void cover_uncounted(struct cover_ep *ep, enum report_kind kind, bool error)
{
    struct cntr *cntr = ep->report.cntr[kind];
    struct cover_cntr *own = cntr ? object_of(cntr, struct cover_cntr, cntr) : NULL;

    if (own && error)
        own->quiet_errors++;
    else if (own)
        own->quiet++;
}

/* Of the room's own files. */
int cover_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                  void *context);
struct cover_cq *cover_cq_mute(struct cover_domain *domain);
int cover_cq_finish(struct cover_cq *cq);
int cover_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                    void *context);
struct cover_cq *cover_cq_of(struct cover_domain *domain, struct fid *fid);
int cover_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                  void *context);
int cover_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                   void *context);
void cover_ep_tables(struct pass_ops *tables);
/* Takes info; NULL without it, or without memory. */
struct cover_ep *cover_ep_create(struct cover_domain *domain, struct fi_info *info);
/* Takes own, for the endpoint or context that pass_* has opened, with result rc. */
int cover_ep_adopt(struct cover_ep *own, int rc, struct fid_ep **ep);
int cover_tx_open(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
                  void *context);
int cover_rx_open(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
                  void *context);
int cover_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
                   void *context);
int cover_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                   void *context);
void cover_context_tables(struct pass_ops *tables);
/* The lower's info for one of ours. */
int cover_lower_info(struct cover_domain *domain, const struct fi_info *info,
                     struct fi_info **lower_info);

#endif
