/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scalable endpoints of parts whose contexts are endpoints of their own: one address and AV, and up
 * to SEP_CONTEXTS contexts in each direction. Source: fi_endpoint(3).
 *
 * Contexts are progress domains of their own, until one of them has neither queue nor counter: a
 * receive context that is only a target of others. From then on all are one progress domain, so
 * that whichever queue is read drives them. See docs/decisions/contexts.md.
 */
#ifndef WEFT_CORE_EP_SEP_H
#define WEFT_CORE_EP_SEP_H

#include <pthread.h>

#include "core/av/av.h"
#include "core/base/fid.h"
#include "core/ep/ep.h"
#include "core/queue/binding.h"

enum {
    SEP_CONTEXTS = 64
};

struct endpoint;
struct sep;

/* A context to be opened, and of the attributes that the caller gives those which count. */
struct sep_opening {
    size_t class;             /* FI_CLASS_TX_CTX or FI_CLASS_RX_CTX */
    unsigned index;           /* free, and below the count of the endpoint's info */
    const uint64_t *op_flags; /* NULL: those of the endpoint's info */
    size_t size;              /* 0: that of the endpoint's info */
    void *context;
};

/* The part's. */
struct sep_ops {
    /* Opens a context. Default flags, and the size of a receive context, are set afterwards, as is
     * what the caller is told. sep->mutex is held. */
    int (*open)(struct sep *sep, const struct sep_opening *opening, struct endpoint **ep);
    int (*setname)(struct sep *sep, void *addr, size_t len);
    int (*getname)(struct sep *sep, void *addr, size_t *len);
    /* fi_control, but for FI_ENABLE. NULL: there is nothing else. */
    int (*control)(struct sep *sep, int command, void *arg);
    /* There are no contexts: gives back what is the part's, calls sep_finish, frees. */
    void (*close)(struct sep *sep);
};

struct sep_slot {
    bool taken;
    struct binding *binding; /* of a context that has joined, or NULL */
};

struct sep {
    union {
        struct ep base;
        struct fid_ep fid; /* base.fid; takes no operations itself */
    };
    const struct sep_ops *ops;
    struct domain *domain;
    struct fi_info *info;      /* its ep_attr has the numbers of contexts */
    struct av *av;             /* of all contexts, or NULL: not bound yet */
    struct progress *progress; /* of all contexts that have joined, or NULL: they are apart */
    pthread_mutex_t
        mutex; /* of progress domain and slots; taken before any progress domain's lock */
    struct sep_slot tx[SEP_CONTEXTS], rx[SEP_CONTEXTS];
};

/* Of zeroed memory; part of opening one. -FI_EINVAL for more contexts than SEP_CONTEXTS,
 * -FI_ENOMEM. sep_finish is to be called in any case. */
int sep_init(struct sep *sep, struct domain *domain, const struct fi_info *info,
             const struct sep_ops *ops, void *context);
void sep_finish(struct sep *sep);

static inline struct sep *sep_of(struct fid *fid)
{
    return object_of(fid, struct sep, fid.fid);
}

bool sep_has_contexts(struct sep *sep);
/* A progress domain for all contexts, whatever they are bound to. None has joined. */
int sep_share_progress(struct sep *sep);

/* A context, an endpoint of class FI_CLASS_TX_CTX or FI_CLASS_RX_CTX, is being enabled: *av, if it
 * is NULL, becomes the endpoint's and is held, and report has a progress domain. Progress domains
 * unlocked; may be called again. -FI_ENOAV. -FI_ENOCQ for a transmit context without queue and
 * counter, and for a receive context without them where no lock would stand between the threads
 * that drive it. -FI_ENOMEM. */
int sep_join(struct sep *sep, size_t class, unsigned index, struct binding *binding,
             struct av **av);
/* A context is closed; its report has not been finished. Progress domains unlocked. */
void sep_leave(struct sep *sep, size_t class, unsigned index);

#endif
