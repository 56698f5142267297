/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a hook follows objects: one function for each that was opened and one for each that was
 * closed, of whatever class and by whatever call, in place of a wrapper around every call that
 * opens something. A hook that changes or refuses the call itself still wraps that.
 */
#ifndef WEFT_CORE_HOOK_HOOK_WATCH_H
#define WEFT_CORE_HOOK_HOOK_WATCH_H

#include "core/hook/hook.h"

/* The parent and the arguments that an object was opened with; the rest is 0. Valid during the
 * call. */
struct hook_opening {
    struct fid *parent;           /* ours; of an alias its endpoint, of a group (fi_join) also */
    const struct fi_info *info;   /* of a domain, endpoint, passive endpoint; current layout */
    const struct fi_tx_attr *tx;  /* of endpoints and contexts that transmit */
    const struct fi_rx_attr *rx;  /* of those that receive, shared ones too */
    const struct fi_alias *alias; /* of an alias */
    const struct fi_cq_attr *cq;  /* as given: may be NULL */
    const struct fi_av_attr *av;  /* as given: may be NULL */
    const struct iovec *iov;      /* of a region in memory of the process's: iov_count of them */
    size_t iov_count;
    uint64_t access; /* of a region */
    bool peer;       /* FI_PEER: its owner is above */
};

/* In a struct hook_ops. */
struct hook_watch {
    /* The object is complete, the upper does not have it yet, and its `hook` is NULL. May be NULL.
     * Not called for the fabric. */
    void (*opened)(const struct hook_fabric *fabric, struct fid *fid,
                   const struct hook_opening *opening);
    /* The lower object is closed and reports nothing any more; ours is freed after this call. Not
     * called when the lower refuses to close (-FI_EBUSY). May be NULL. Not called for the
     * fabric. */
    void (*closed)(struct fid *fid);
};

/* Does it transfer data: an endpoint, an alias of one, a context of either kind? */
static inline bool hook_transfers(const struct fid *fid)
{
    return fid->fclass == FI_CLASS_EP || fid->fclass == FI_CLASS_SRX_CTX ||
           fid->fclass == FI_CLASS_TX_CTX || fid->fclass == FI_CLASS_RX_CTX;
}

/* ---- Of the room's own files ---- */

static inline void hook_tell_opened(const struct hook_fabric *fabric, struct fid *fid,
                                    const struct hook_opening *opening)
{
    const struct hook_watch *watch = fabric->ops.watch;

    if (watch && watch->opened)
        watch->opened(fabric, fid, opening);
}

static inline void hook_tell_closed(const struct hook_fabric *fabric, struct fid *fid)
{
    const struct hook_watch *watch = fabric->ops.watch;

    if (watch && watch->closed)
        watch->closed(fid);
}

/* The end of an open, of which the lower's returned rc: frees the object if that is an error, else
 * counts it among its siblings and tells the hook. Returns rc. */
int hook_opened(const struct hook_fabric *fabric, struct children *siblings, struct fid *fid,
                int rc, const struct hook_opening *opening);
/* fi_close of an object without more to let go of: the lower's first, which may refuse. siblings:
 * the count that it is in. */
int hook_close(struct hook_fabric *fabric, struct children *siblings, struct fid *lower,
               struct fid *fid);

#endif
