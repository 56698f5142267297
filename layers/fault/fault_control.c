/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that cannot be opened, connections that cannot be made, and what endpoints and queues
 * keep. */
#include <stdlib.h>

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/hook/hook_watch.h"
#include "core/info/info.h"
#include "layers/fault/fault.h"

static bool fails(struct fault_plan *plan, enum fault_call call)
{
    return plan && fault_plan_fails(plan, call);
}

/* ---- Opening ---- */

/* fi_getinfo has asked the same; the application may have made the info by itself. */
static int check_type(const struct fault_plan *plan, const struct fi_info *info)
{
    const char *why = plan && info && info->ep_attr ? fault_plan_objection(plan, info) : NULL;

    if (!why)
        return 0;
    log_user("fault: %s", why);
    return -FI_EINVAL;
}

/* The call that `fail` names for objects of a class, FAULT_CALLS for none. */
static enum fault_call call_of(size_t fclass)
{
    switch (fclass) {
    case FI_CLASS_DOMAIN: return FAULT_DOMAIN;
    case FI_CLASS_EQ: return FAULT_EQ;
    case FI_CLASS_CQ: return FAULT_CQ;
    case FI_CLASS_CNTR: return FAULT_CNTR;
    case FI_CLASS_AV: return FAULT_AV;
    case FI_CLASS_MR: return FAULT_MR;
    case FI_CLASS_EP:
    case FI_CLASS_SRX_CTX: return FAULT_ENDPOINT;
    default: return FAULT_CALLS;
    }
}

static int opening(const struct hook_fabric *fabric, struct fid *fid, struct hook_opening *opening)
{
    enum fault_call call = call_of(fid->fclass);
    int rc = 0;

    if (call == FAULT_CALLS || opening->alias)
        return 0;
    if (fid->fclass == FI_CLASS_EP)
        rc = check_type(fabric->own, opening->info);
    if (!rc && fails(fabric->own, call))
        rc = -FI_ENOMEM;
    return rc;
}

/* ---- Fabric ---- */

static int open_eq(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                   void *context)
{
    const struct fault_plan *plan = hook_fabric_of(fabric)->own;
    struct fi_eq_attr writable = attr ? *attr : (struct fi_eq_attr){0};

    if (plan && plan->kill_conn)
        writable.flags |= FI_WRITE;
    return hook_eq_open(fabric, attr ? &writable : NULL, eq, context);
}

/* The end of a connection, told as its lower would. */
static ssize_t event_read(struct hook_eq *eq, ssize_t rc, uint32_t *event, void *buf)
{
    struct fault_plan *plan = eq->fabric->own;
    struct fi_eq_cm_entry *entry = buf;

    if (rc < (ssize_t)sizeof(*entry) || *event != FAULT_ENDED || !plan)
        return rc;
    if (!plan->ended)
        return -FI_EAGAIN;
    *event = FI_SHUTDOWN;
    entry->fid = &plan->ended->fid;
    return rc;
}

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    for (int i = 0; i < count; i++)
        if (fids[i]->fclass == FI_CLASS_CQ && fault_cq_is_silent(fids[i]))
            return -FI_EAGAIN;
    return hook_fabric_ops.trywait(fabric, fids, count);
}

/* Held messages go when a caller waits. Ends that the lower has never seen wake a wait set;
 * a poll set tells of the lower's alone. */
static int set_wait(struct fid_wait *set, int timeout)
{
    struct fault_plan *plan = object_of(set, struct hook_wait, fid)->fabric->own;

    if (plan && plan->loses)
        fault_wire_flush(plan, NULL);
    return hook_wait_ops.wait(set, timeout);
}

static int set_poll(struct fid_poll *set, void **context, int count)
{
    const struct hook_domain *domain = object_of(set, struct hook_poll, fid)->domain;
    struct fault_plan *plan = domain->fabric->own;

    if (plan && plan->loses)
        fault_wire_flush(plan, domain);
    return hook_poll_ops.poll(set, context, count);
}

static struct fi_ops_wait wait_ops = {
    .size = sizeof(wait_ops),
    .wait = set_wait,
};

/* ---- Endpoints ---- */

static void bound(struct fault_ep *own, struct fid *target, uint64_t flags)
{
    switch (target->fclass) {
    case FI_CLASS_EQ: own->eq = object_of(target, struct fid_eq, fid); break;
    case FI_CLASS_CQ:
        if (flags & FI_RECV)
            own->rx = object_of(target, struct hook_cq, fid.fid);
        if (!(flags & FI_TRANSMIT))
            break;
        own->tx = object_of(target, struct hook_cq, fid.fid);
        own->selective = flags & FI_SELECTIVE_COMPLETION;
        break;
    case FI_CLASS_CNTR:
        if (flags & FI_SEND)
            own->sent = object_of(target, struct hook_cntr, fid.fid);
        if (flags & FI_READ)
            own->read = object_of(target, struct hook_cntr, fid.fid);
        if (flags & FI_WRITE)
            own->written = object_of(target, struct hook_cntr, fid.fid);
        break;
    default: break;
    }
}

static int bind_ep(struct fid *fid, struct fid *target, uint64_t flags)
{
    struct fault_ep *own = *hook_own(fid);
    int rc = hook_ep_fid_ops.bind(fid, target, flags);

    if (!rc && own && target)
        bound(own, target, flags);
    return rc;
}

/* An alias is bound as its endpoint is, and has a course of its own. */
static int alias_opened(const struct fault_ep *from, const struct fi_alias *alias)
{
    struct fault_ep *own = calloc(1, sizeof(*own));

    if (!own) {
        fi_close(*alias->fid);
        return -FI_ENOMEM;
    }
    own->plan = from->plan;
    own->number = atomic_fetch_add_explicit(&from->plan->endpoints, 1, memory_order_relaxed);
    own->eq = from->eq;
    own->tx_op_flags =
        alias->flags & FI_TRANSMIT ? alias->flags & ~(FI_TRANSMIT | FI_RECV) : from->tx_op_flags;
    own->registers = from->registers;
    own->selective = from->selective;
    own->loose = from->loose;
    own->tx = from->tx;
    own->rx = from->rx;
    own->sent = from->sent;
    own->read = from->read;
    own->written = from->written;
    *hook_own(*alias->fid) = own;
    return 0;
}

static int control_ep(struct fid *fid, int command, void *arg)
{
    struct fault_ep *own = *hook_own(fid);
    int rc = hook_ep_fid_ops.control(fid, command, arg);

    if (!rc && own && command == FI_ALIAS)
        return alias_opened(own, arg);
    if (!rc && own && command == FI_SETOPSFLAG && *(const uint64_t *)arg & FI_TRANSMIT)
        own->tx_op_flags = *(const uint64_t *)arg & ~(FI_TRANSMIT | FI_RECV);
    return rc;
}

static int connect_ep(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
    struct hook_domain *domain = object_of(ep, struct hook_ep, fid)->domain;

    if (fails(domain->fabric->own, FAULT_CONNECT))
        return -FI_ENETUNREACH;
    return hook_cm_ops.connect(ep, addr, param, paramlen);
}

/* ---- Closing ---- */

static int close_ep(struct fid *fid)
{
    struct fault_ep *own = *hook_own(fid);
    int rc;

    if (!own)
        return hook_ep_fid_ops.close(fid);
    fault_wire_closing(own, true);
    rc = hook_ep_fid_ops.close(fid);
    if (rc) {
        fault_wire_closing(own, false);
        return rc;
    }
    fault_wire_closed(own);
    if (own->plan->ended == (void *)fid)
        own->plan->ended = NULL;
    free(own);
    return 0;
}

/* ---- What belongs to objects; one for which there is no memory has no faults ---- */

static void open_own_ep(struct fault_plan *plan, struct fid *fid,
                        const struct hook_opening *opening)
{
    const struct fi_info *info = opening->info;
    struct fault_ep *own = plan ? calloc(1, sizeof(*own)) : NULL;

    if (!own)
        return;
    own->plan = plan;
    own->tx_op_flags = opening->tx ? opening->tx->op_flags : 0;
    own->registers = info && info->domain_attr && info_mr_bits(info) & FI_MR_LOCAL;
    own->loose = plan->force || (info && info->ep_attr && info->ep_attr->type == FI_EP_DGRAM);
    own->number = atomic_fetch_add_explicit(&plan->endpoints, 1, memory_order_relaxed);
    *hook_own(fid) = own;
}

static void opened(const struct hook_fabric *fabric, struct fid *fid,
                   const struct hook_opening *opening)
{
    struct fault_cq *cq;

    if (fid->fclass == FI_CLASS_CQ) {
        cq = calloc(1, sizeof(*cq));
        if (cq) {
            cq->plan = fabric->own;
            cq->in_set = opening->cq && opening->cq->wait_obj == FI_WAIT_SET;
        }
        *hook_own(fid) = cq;
    } else if (fid->fclass == FI_CLASS_CNTR) {
        *hook_own(fid) = calloc(1, sizeof(struct fault_cntr));
    } else if (hook_transfers(fid) && !opening->alias) {
        open_own_ep(fabric->own, fid, opening);
    }
}

/* close_ep frees what endpoints have. */
static void closed(struct fid *fid)
{
    struct fault_cq *cq;

    if (fid->fclass == FI_CLASS_CQ) {
        cq = *hook_own(fid);
        if (cq)
            free(cq->ends);
        free(cq);
    } else if (fid->fclass == FI_CLASS_CNTR) {
        free(*hook_own(fid));
    }
}

static const struct hook_watch watch = {.opening = opening, .opened = opened, .closed = closed};

static struct fi_ops ep_fid_ops = {
    .size = sizeof(ep_fid_ops), .close = close_ep, .bind = bind_ep, .control = control_ep};
static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(fabric_ops), .eq_open = open_eq, .trywait = trywait};
static struct fi_ops_poll poll_ops = {.size = sizeof(poll_ops), .poll = set_poll};
static struct fi_ops_cm cm_ops = {.size = sizeof(cm_ops), .connect = connect_ep};

void fault_control_ops(struct hook_ops *ops)
{
    ops->ep_fid = &ep_fid_ops;
    ops->fabric = &fabric_ops;
    ops->watch = &watch;
    ops->cm = &cm_ops;
    ops->event = event_read;
    ops->wait = &wait_ops;
    ops->poll = &poll_ops;
}
