/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters. Like a CQ: a fid_cntr for the upper, a fid_peer_cntr for lowers, and `sink` says where
 * an increment goes. Values are atomic and are read without the lock. Source: fi_cntr(3).
 */
#ifndef WEFT_CORE_QUEUE_CNTR_H
#define WEFT_CORE_QUEUE_CNTR_H

#include <stdatomic.h>

#include <rdma/fi_eq.h>
#include <rdma/providers/fi_peer.h>

#include "core/base/fid.h"
#include "core/progress/progress.h"
#include "core/queue/wait.h"

struct cntr {
    struct fid_cntr fid;
    struct fid_peer_cntr peer;
    struct fid_peer_cntr *sink; /* &peer, or the upper's when opened with FI_PEER */
    struct domain *domain;
    struct progress *progress;
    atomic_uint_fast64_t value, errors;
    atomic_uint_fast64_t seen; /* value + errors at the last fi_trywait that let the caller sleep */
    atomic_uint_fast64_t by_hand; /* what of value + errors the application has added or set */
    struct wait wait;
    struct progress_watch watch;
    struct progress_sleeper sleeper;
    struct children children; /* endpoints and regions bound */
    /* Called after the application has set or added to the values, by its thread, no lock held;
     * NULL: not called. Of the part that has the counter. */
    void (*changed)(struct cntr *cntr);
    bool early; /* of a part: endpoints take it before they are enabled, and not after */
};

/* As cq_open, cq_init, ... ; FI_CNTR_EVENTS_COMP only (-FI_ENOSYS for BYTES). */
int cntr_open(struct domain *domain, const struct fi_cntr_attr *attr, struct fid_cntr **cntr,
              void *context);
int cntr_init(struct cntr *cntr, struct domain *domain, const struct fi_cntr_attr *attr,
              struct fi_ops *fid_ops, void *context);
void cntr_finish(struct cntr *cntr);
int cntr_close_check(const struct cntr *cntr);
int cntr_control(struct fid *fid, int command, void *arg);

/* The counter that a fid is, or NULL when it is not one of this room's. */
struct cntr *cntr_of(struct fid *fid);

/* Progress domain locked. */
static inline void cntr_add_one(struct cntr *cntr)
{
    cntr->sink->owner_ops->inc(cntr->sink);
}

static inline void cntr_add_error(struct cntr *cntr)
{
    cntr->sink->owner_ops->incerr(cntr->sink);
}

/* fi_trywait for this counter, or for the wait set that it is in: -FI_EAGAIN when its values have
 * changed since the last one that answered 0, or there is progress to make. Takes the lock. */
int cntr_trywait(struct cntr *cntr);
/* Ends counted so far, good and bad, whatever the application has set. Drives; takes the lock. */
uint64_t cntr_completed(struct cntr *cntr);

#endif
