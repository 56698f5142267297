/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A layer that takes part in the operations of its lower: what core/hook/hook.h is, plus what a
 * layer needs that posts operations of its own on the endpoints of its upper.
 *
 * The lower is opened FI_THREAD_DOMAIN and driven by hand. Each domain is one progress progress
 * domain (one lock, one thread for FI_PROGRESS_AUTO), which every call on an endpoint takes. Queues
 * and counters are those of core/queue/cq.h and core/queue/cntr.h: the lower writes its completions
 * to a peer queue of ours, which hands those of the layer's own operations to the layer, and the
 * others on. An operation is the layer's if its context is an item of the domain's pool.
 *
 * Everything else passes: AVs, regions, event queues. Scalable endpoints, their contexts and shared
 * receive contexts are a struct layer_ep each, told apart by the class of their fid; the layer says
 * what it does on which. The lower must speak FI_PEER.
 */
#ifndef WEFT_CORE_LAYER_LAYER_H
#define WEFT_CORE_LAYER_LAYER_H

#include <rdma/fi_errno.h>

#include "core/base/pool.h"
#include "core/hook/hook.h"
#include "core/layer/peer_cq.h"
#include "core/match/match.h"
#include "core/part/part.h"
#include "core/queue/binding.h"

struct layer_cntr;
struct layer_domain;
struct layer_ep;

/* How one of the layer's own operations ended. The entry is valid during the call. */
struct layer_done {
    void *context; /* the pool's item */
    uint64_t flags, data, tag;
    size_t len;
    void *buf;
    fi_addr_t src;
    const struct fi_cq_err_entry *error; /* NULL: success */
    struct layer_cq *cq;                 /* that it was written to */
};

/* Functions of the layer. They may be NULL; all but `changed` are called with the progress
 * domain locked.
 */
struct layer_ops {
    size_t domain_size, ep_size; /* of structs that begin with a layer_domain, a layer_ep */
    size_t item_size;            /* of the pool of operations; begins with a struct fi_context2 */
    uint64_t tags;               /* bits of a tag that the upper may not use */
    uint64_t adds;               /* capabilities that the lower need not have */
    const struct hook_ops *hook; /* functions of the tables below that the layer replaces */
    /* The hints for the lower that infos and hints of ours mean; NULL without memory. */
    struct fi_info *(*lower_hints)(const struct fi_info *info);
    int (*domain_opened)(struct layer_domain *domain); /* fails: it is not opened */
    void (*domain_closing)(struct layer_domain *domain);
    int (*ep_opened)(struct layer_ep *ep);   /* fails: the endpoint is closed again */
    int (*ep_enabled)(struct layer_ep *ep);  /* fails: so does fi_enable */
    void (*ep_closing)(struct layer_ep *ep); /* the lower's is still open */
    void (*ep_closed)(struct layer_ep *ep);  /* no operation of it completes after this */
    /* From inside the lower: may not post. */
    void (*completed)(struct layer_domain *domain, const struct layer_done *done);
    void (*counted)(struct layer_cntr *cntr);
    /* The application changed a counter; not locked. */
    void (*changed)(struct cntr *cntr);
    /* After the lower was driven: posts waiting operations. */
    void (*pump)(struct layer_domain *domain);
    /* Is there work that only another pump can do? Then no thread sleeps. */
    bool (*busy)(struct layer_domain *domain);
};

struct layer_domain {
    struct domain base; /* of queues and counters; its fid is not used */
    struct hook_domain *hook;
    const struct layer_ops *ops;
    struct progress *progress;
    struct pool items;
    atomic_bool av_changed; /* since the lower was driven last */
};

struct layer_cq {
    union {
        struct cq cq; /* base.cq */
        struct peer_cq base;
    };
    struct fid_peer_cq inner; /* the lower's sink */
    struct layer_domain *domain;
    bool mute; /* made for an endpoint without a queue; never read */
};

struct layer_cntr {
    union {
        struct cntr cntr; /* base.cntr */
        struct peer_cntr base;
    };
    struct fid_peer_cntr inner;
    struct layer_domain *domain;
    unsigned quiet, quiet_errors; /* next increments that are of the layer's own operations */
    struct list waiting;          /* the layer's */
};

struct layer_ep {
    struct hook_ep *hook;
    struct layer_domain *domain;
    struct binding binding; /* the upper's queues and counters */
    struct fi_info *info;   /* as the upper opened it, or what it belongs to; current layout */
    struct layer_cq *mute;  /* in place of a queue that it did not bind */
    unsigned aliases;
    bool enabled;
    bool top;                           /* no upper sees what happens before the application does */
    struct match_watch watch, *watcher; /* an upper's, not told of the layer's own receives */
};

/* part.open_fabric of the layer whose functions part.layer has. */
int layer_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);
/* Tables of a layer base that adds nothing. The functions set in these are called by layers that
 * replace them. */
extern struct fi_ops layer_ep_fid_ops;  /* bind, control, close */
extern struct fi_ops layer_stx_fid_ops; /* close */
extern struct fi_ops_ep layer_ep_ops;   /* all */
extern struct fi_ops_cm layer_cm_ops;   /* join */
extern struct fi_ops_av layer_av_ops;   /* insert, insertsvc, insertsym, remove */
extern struct fi_ops_eq layer_eq_ops;   /* read, sread, readerr */
/* Their post: refuses tags that are the layer's, and posts to the lower with the progress domain
 * locked. */
ssize_t layer_post(struct ep *ep, struct op *op);

/* For needs and lower_hints: a copy of hints without the capabilities that the layer adds, and with
 * the hints that every layer base has for its lower. NULL without memory. */
struct fi_info *layer_hints(const struct fi_info *hints, uint64_t added);
/* For offer: the lower's info as a layer base offers it, with `added`. NULL without memory. */
struct fi_info *layer_offer(const struct fi_info *lower, uint64_t added);

static inline struct layer_domain *layer_domain_of(struct fid_domain *fid)
{
    return hook_domain_of(fid)->own;
}

static inline struct layer_ep *layer_ep_of(struct fid_ep *fid)
{
    return object_of(fid, struct hook_ep, fid)->own;
}

/* FI_CLASS_EP, FI_CLASS_SEP, FI_CLASS_TX_CTX, FI_CLASS_RX_CTX or FI_CLASS_SRX_CTX. */
static inline size_t layer_ep_class(const struct layer_ep *ep)
{
    return ep->hook->fid.fid.fclass;
}

/* Around a post that does not go through the data transfers of layer_tables: takes the lock; gives
 * it back, and returns rc. */
void layer_take_av_changes(struct layer_ep *ep);

static inline void layer_enter(struct layer_ep *ep)
{
    progress_lock(ep->domain->progress);
    if (__builtin_expect(atomic_load_explicit(&ep->domain->av_changed, memory_order_relaxed), 0))
        layer_take_av_changes(ep);
}

/* A poster that does nothing but try again makes progress too. */
static inline ssize_t layer_leave(struct layer_ep *ep, ssize_t rc)
{
    if (__builtin_expect(rc == -FI_EAGAIN && ep->top, 0))
        progress_poll(ep->domain->progress);
    progress_unlock(ep->domain->progress);
    return rc;
}

/* The counter that a fid is, or NULL when it is none of that domain's. */
struct layer_cntr *layer_cntr_of(struct layer_domain *domain, struct fid *fid);

/* An operation of the layer's own, of that kind, has ended: the upper's counter, which the lower is
 * about to raise, stays as it is. Called by `completed`. */
static inline void layer_uncounted(struct layer_ep *ep, enum binding_kind kind, bool error)
{
    struct cntr *cntr = ep->binding.cntr[kind];
    struct layer_cntr *own = cntr ? object_of(cntr, struct layer_cntr, cntr) : NULL;

    if (own && error)
        own->quiet_errors++;
    else if (own)
        own->quiet++;
}

/* Of the room's own files. */
int layer_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                  void *context);
struct layer_cq *layer_cq_mute(struct layer_domain *domain);
int layer_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                    void *context);
struct layer_cq *layer_cq_of(struct layer_domain *domain, struct fid *fid);
int layer_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                  void *context);
int layer_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                   void *context);
/* Takes info; NULL without it, or without memory. */
struct layer_ep *layer_ep_create(struct layer_domain *domain, struct fi_info *info);
/* Takes own, for the endpoint or context that pass_* has opened, with result rc. */
int layer_ep_adopt(struct layer_ep *own, int rc, struct fid_ep **ep);
int layer_tx_open(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
                  void *context);
int layer_rx_open(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
                  void *context);
int layer_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
                   void *context);
int layer_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                   void *context);
/* The lower's info for one of ours. */
int layer_lower_info(struct layer_domain *domain, const struct fi_info *info,
                     struct fi_info **lower_info);

#endif
