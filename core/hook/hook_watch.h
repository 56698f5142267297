/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a hook follows objects: functions before and after each is opened and one for each that was
 * closed, of whatever class and by whatever call, in place of a wrapper around every call that
 * opens something. A hook that changes the arguments of a call still wraps that.
 */
#ifndef WEFT_CORE_HOOK_HOOK_WATCH_H
#define WEFT_CORE_HOOK_HOOK_WATCH_H

#include "core/hook/hook.h"

/* The call that registers a region. */
enum hook_mr_call {
    HOOK_MR_REG,
    HOOK_MR_REGV,
    HOOK_MR_REGATTR,
};

/* The parent and the arguments that an object is opened with; the rest is 0. Valid during the
 * call. */
struct hook_opening {
    struct fid *parent;           /* ours; of an alias its endpoint, of a group (fi_join) also */
    const void *context;          /* the argument */
    uint64_t flags;               /* the argument, where the call has one */
    int index;                    /* of a context of a scalable endpoint */
    const struct fi_info *info;   /* of a domain, endpoint, passive endpoint; current layout */
    const struct fi_tx_attr *tx;  /* of endpoints and contexts that transmit */
    const struct fi_rx_attr *rx;  /* of those that receive, shared ones too */
    const struct fi_alias *alias; /* of an alias */
    const struct fi_cq_attr *cq;  /* as given: may be NULL; so the next */
    const struct fi_cntr_attr *cntr;
    const struct fi_eq_attr *eq;
    const struct fi_av_attr *av;
    const struct fi_av_set_attr *av_set;
    const struct fi_wait_attr *wait;
    const struct fi_mr_attr *mr; /* of a region: what it is registered with; current layout */
    enum hook_mr_call mr_call;
    const struct iovec *iov; /* of a region in memory of the process's: iov_count of them */
    size_t iov_count;
    bool peer;     /* FI_PEER: its owner is above */
    uint64_t note; /* the hook's, from `opening` to `opened` or `refused` */
};

/* In a struct hook_ops. Functions may be NULL. None is called for the fabric. */
struct hook_watch {
    /* The lower is about to be asked for the object, of which only the class and the context are
     * set. The call ends with an error that this returns. */
    int (*opening)(const struct hook_fabric *fabric, struct fid *fid, struct hook_opening *opening);
    /* The object is complete, the upper does not have it yet, and its `own` is NULL. */
    void (*opened)(const struct hook_fabric *fabric, struct fid *fid,
                   const struct hook_opening *opening);
    /* In place of `opened`: the call ends with the error rc, of the lower or of `opening`. */
    void (*refused)(const struct fid *fid, const struct hook_opening *opening, int rc);
    /* The lower object is closed and reports nothing any more; ours is freed after this call. Not
     * called when the lower refuses to close (-FI_EBUSY). */
    void (*closed)(struct fid *fid);
};

/* Does it transfer data: an endpoint, an alias of one, a context of either kind? */
static inline bool hook_transfers(const struct fid *fid)
{
    return fid->fclass == FI_CLASS_EP || fid->fclass == FI_CLASS_SRX_CTX ||
           fid->fclass == FI_CLASS_TX_CTX || fid->fclass == FI_CLASS_RX_CTX;
}

/* ---- Of the room's own files ---- */

/* Before the lower is asked; an error goes to hook_opened. */
static inline int hook_opening(const struct hook_fabric *fabric, struct fid *fid,
                               struct hook_opening *opening)
{
    const struct hook_watch *watch = fabric->ops.watch;

    return watch && watch->opening ? watch->opening(fabric, fid, opening) : 0;
}

static inline void hook_tell_closed(const struct hook_fabric *fabric, struct fid *fid)
{
    const struct hook_watch *watch = fabric->ops.watch;

    if (watch && watch->closed)
        watch->closed(fid);
}

/* The end of an open, of which hook_opening or the lower's returned rc: frees the object if that is
 * an error, else counts it among its siblings; tells the hook. Returns rc. */
int hook_opened(const struct hook_fabric *fabric, struct children *siblings, struct fid *fid,
                int rc, const struct hook_opening *opening);
/* fi_close of an object without more to let go of: the lower's first, which may refuse. siblings:
 * the count that it is in. */
int hook_close(struct hook_fabric *fabric, struct children *siblings, struct fid *lower,
               struct fid *fid);

#endif
