/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data transfers that are refused or fail, and completions that come late: after each batch of them
 * the queue is silent for the delay, in which the lower is not driven either. Nothing is kept, so
 * nothing is lost when an endpoint closes.
 */
#include <time.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "core/call.h"
#include "layers/fault/fault.h"

static enum fault_call fault_of_class(enum call_class class)
{
    switch (class) {
    case CALL_CLASS_RECV: return FAULT_RECV;
    case CALL_CLASS_READ: return FAULT_READ;
    case CALL_CLASS_WRITE: return FAULT_WRITE;
    case CALL_CLASS_ATOMIC: return FAULT_ATOMIC;
    case CALL_CLASS_COLLECTIVE: return FAULT_COLLECTIVE;
    default: return FAULT_SEND;
    }
}

static ssize_t call_enter(struct pass_ep *ep, struct call *call)
{
    struct fault_ep *own = ep->hook;
    uint64_t n;

    if (!own)
        return 0;
    if (fault_plan_fails(own->plan, fault_of_class(call_class(call->kind))))
        return -FI_EIO;
    n = atomic_fetch_add_explicit(&own->calls, 1, memory_order_relaxed);
    return fault_plan_refuses(own->plan, own->number, n) ? -FI_EAGAIN : 0;
}

/* As a connection ends that neither side wanted to: who shuts one down is not told by its lower. */
static void kill_conn(struct pass_ep *ep)
{
    const struct fault_ep *own = ep->hook;
    const struct fi_eq_cm_entry entry = {0};

    fi_shutdown(ep->lower, 0);
    own->plan->ended = &ep->fid;
    if (own->eq)
        fi_eq_write(own->eq, FAULT_ENDED, &entry, sizeof(entry), 0);
}

static ssize_t call_leave(struct pass_ep *ep, const struct call *call, ssize_t rc)
{
    struct fault_ep *own = ep->hook;

    if (own && rc >= 0 && call_class(call->kind) == CALL_CLASS_SEND && fault_plan_kills(own->plan))
        kill_conn(ep);
    return rc;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ns until the queue speaks again; 0: now. */
static uint64_t silence(struct fault_cq *own)
{
    uint64_t until, now;

    if (!own || !own->plan->delay_ns)
        return 0;
    until = atomic_load_explicit(&own->silent_until, memory_order_relaxed);
    now = until ? now_ns() : 0;
    return until > now ? until - now : 0;
}

bool fault_cq_is_silent(const struct fid *fid)
{
    return silence(*pass_hook((struct fid *)fid)) != 0;
}

static void fall_silent(struct fault_cq *own)
{
    if (own && own->plan->delay_ns)
        atomic_store_explicit(&own->silent_until, now_ns() + own->plan->delay_ns,
                              memory_order_relaxed);
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
    struct pass_cq *cq = object_of(fid, struct pass_cq, fid);
    ssize_t rc = -FI_EAGAIN;

    if (silence(cq->hook))
        return rc;
    rc = src ? fi_cq_readfrom(cq->lower, buf, count, src) : fi_cq_read(cq->lower, buf, count);
    if (rc > 0)
        fall_silent(cq->hook);
    return rc;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    return cq_readfrom(fid, buf, count, NULL);
}

/* Sleeps through the silence, or through all of the time that there is: then -FI_EAGAIN. */
static int sleep_through(struct fault_cq *own, int *timeout)
{
    uint64_t ns = silence(own), most = (uint64_t)(*timeout > 0 ? *timeout : 0) * 1000000;
    bool too_long = *timeout >= 0 && ns > most;
    struct timespec pause;

    if (!ns)
        return 0;
    ns = too_long ? most : ns;
    pause = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    nanosleep(&pause, NULL);
    if (*timeout > 0)
        *timeout -= (int)(ns / 1000000);
    return too_long ? -FI_EAGAIN : 0;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src,
                            const void *cond, int timeout)
{
    struct pass_cq *cq = object_of(fid, struct pass_cq, fid);
    ssize_t rc = sleep_through(cq->hook, &timeout);

    if (rc)
        return rc;
    rc = src ? fi_cq_sreadfrom(cq->lower, buf, count, src, cond, timeout)
             : fi_cq_sread(cq->lower, buf, count, cond, timeout);
    if (rc > 0)
        fall_silent(cq->hook);
    return rc;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
    return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static struct fi_ops_cq cq_ops;

static ssize_t owner_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                           void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    fall_silent(object_of(peer, struct pass_cq, peer)->hook);
    return pass_cq_owner_ops.write(peer, context, flags, len, buf, data, tag, src);
}

static struct fi_ops_cq_owner cq_owner_ops;

#include "core/call_transfers.inc"

#include "core/call_atomics.inc"

void fault_data_ops(struct pass_ops *ops)
{
    cq_ops = pass_cq_ops;
    cq_ops.read = cq_read;
    cq_ops.readfrom = cq_readfrom;
    cq_ops.sread = cq_sread;
    cq_ops.sreadfrom = cq_sreadfrom;
    cq_owner_ops = pass_cq_owner_ops;
    cq_owner_ops.write = owner_write;
    ops->msg = &seen_msg_ops;
    ops->tagged = &seen_tagged_ops;
    ops->rma = &seen_rma_ops;
    ops->atomic = &seen_atomic_ops;
    ops->collective = &seen_collective_ops;
    ops->cq = &cq_ops;
    ops->cq_owner = &cq_owner_ops;
}
