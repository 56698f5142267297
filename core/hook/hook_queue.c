/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues, counters and event queues. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/hook/hook_watch.h"

/* ---- Completion queues ---- */

HOOK_PASS(ssize_t, cq_read, (hook_lower_cq(cq), buf, count), struct fid_cq *cq, void *buf,
          size_t count)
HOOK_PASS(ssize_t, cq_readfrom, (hook_lower_cq(cq), buf, count, src_addr), struct fid_cq *cq,
          void *buf, size_t count, fi_addr_t *src_addr)
HOOK_PASS(ssize_t, cq_readerr, (hook_lower_cq(cq), buf, flags), struct fid_cq *cq,
          struct fi_cq_err_entry *buf, uint64_t flags)
HOOK_PASS(ssize_t, cq_sread, (hook_lower_cq(cq), buf, count, cond, timeout), struct fid_cq *cq,
          void *buf, size_t count, const void *cond, int timeout)
HOOK_PASS(ssize_t, cq_sreadfrom, (hook_lower_cq(cq), buf, count, src_addr, cond, timeout),
          struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr, const void *cond,
          int timeout)
HOOK_PASS(int, cq_signal, (hook_lower_cq(cq)), struct fid_cq *cq)
HOOK_PASS(const char *, cq_strerror, (hook_lower_cq(cq), prov_errno, err_data, buf, len),
          struct fid_cq *cq, int prov_errno, const void *err_data, char *buf, size_t len)

struct fi_ops_cq hook_cq_ops = {
    .size = sizeof(hook_cq_ops),
    .read = cq_read,
    .readfrom = cq_readfrom,
    .readerr = cq_readerr,
    .sread = cq_sread,
    .sreadfrom = cq_sreadfrom,
    .signal = cq_signal,
    .strerror = cq_strerror,
};

int hook_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **ret_cq,
                 void *context)
{
    struct hook_domain *domain = hook_domain_of(fid);
    struct hook_cq *cq = calloc(1, sizeof(*cq));
    bool peer = attr && attr->flags & FI_PEER;
    struct hook_opening opening = {
        .parent = &fid->fid, .context = context, .cq = attr, .peer = peer};
    struct fi_peer_cq_context down;
    int rc;

    if (!cq)
        return -FI_ENOMEM;
    fid_init(&cq->fid.fid, FI_CLASS_CQ, peer ? NULL : context, domain->fabric->ops.cq_fid);
    cq->fid.ops = domain->fabric->ops.cq;
    cq->domain = domain;
    cq->format = attr ? attr->format : FI_CQ_FORMAT_UNSPEC;
    cq->completed = domain->fabric->ops.completed;
    cq->read = domain->fabric->ops.cq_read;
    rc = hook_opening(domain->fabric, &cq->fid.fid, &opening);
    if (!rc && peer)
        rc = hook_peer_cq(cq, context, &down);
    if (!rc)
        rc = fi_cq_open(domain->lower, attr, &cq->lower, peer ? (void *)&down : cq);
    rc = hook_opened(domain->fabric, &domain->children, &cq->fid.fid, rc, &opening);
    if (!rc)
        *ret_cq = &cq->fid;
    return rc;
}

/* ---- Counters ---- */

static struct fid_cntr *lower_cntr(struct fid_cntr *cntr)
{
    return object_of(cntr, struct hook_cntr, fid)->lower;
}

HOOK_PASS(uint64_t, cntr_read, (lower_cntr(cntr)), struct fid_cntr *cntr)
HOOK_PASS(uint64_t, cntr_readerr, (lower_cntr(cntr)), struct fid_cntr *cntr)
HOOK_PASS(int, cntr_add, (lower_cntr(cntr), value), struct fid_cntr *cntr, uint64_t value)
HOOK_PASS(int, cntr_set, (lower_cntr(cntr), value), struct fid_cntr *cntr, uint64_t value)
HOOK_PASS(int, cntr_wait, (lower_cntr(cntr), threshold, timeout), struct fid_cntr *cntr,
          uint64_t threshold, int timeout)
HOOK_PASS(int, cntr_adderr, (lower_cntr(cntr), value), struct fid_cntr *cntr, uint64_t value)
HOOK_PASS(int, cntr_seterr, (lower_cntr(cntr), value), struct fid_cntr *cntr, uint64_t value)

struct fi_ops_cntr hook_cntr_ops = {
    .size = sizeof(hook_cntr_ops),
    .read = cntr_read,
    .readerr = cntr_readerr,
    .add = cntr_add,
    .set = cntr_set,
    .wait = cntr_wait,
    .adderr = cntr_adderr,
    .seterr = cntr_seterr,
};

int hook_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **ret_cntr,
                   void *context)
{
    struct hook_domain *domain = hook_domain_of(fid);
    struct hook_cntr *cntr = calloc(1, sizeof(*cntr));
    bool peer = attr && attr->flags & FI_PEER;
    struct hook_opening opening = {
        .parent = &fid->fid, .context = context, .cntr = attr, .peer = peer};
    struct fi_peer_cntr_context down;
    int rc;

    if (!cntr)
        return -FI_ENOMEM;
    fid_init(&cntr->fid.fid, FI_CLASS_CNTR, peer ? NULL : context, domain->fabric->ops.cntr_fid);
    cntr->fid.ops = domain->fabric->ops.cntr;
    cntr->domain = domain;
    rc = hook_opening(domain->fabric, &cntr->fid.fid, &opening);
    if (!rc && peer)
        rc = hook_peer_cntr(cntr, context, &down);
    if (!rc)
        rc = fi_cntr_open(domain->lower, attr, &cntr->lower, peer ? (void *)&down : cntr);
    rc = hook_opened(domain->fabric, &domain->children, &cntr->fid.fid, rc, &opening);
    if (!rc)
        *ret_cntr = &cntr->fid;
    return rc;
}

/* ---- Event queues ---- */

static struct hook_eq *eq_of(struct fid_eq *fid)
{
    return object_of(fid, struct hook_eq, fid);
}

/* Events of the library; all begin with a fid. Others are the application's own bytes. */
static bool has_fid(uint32_t event, size_t len)
{
    return event >= FI_CONNREQ && event <= FI_JOIN_COMPLETE && len >= sizeof(struct fid *);
}

static bool has_info(uint32_t event, size_t len)
{
    return event >= FI_CONNREQ && event <= FI_SHUTDOWN && len >= sizeof(struct fi_eq_cm_entry);
}

/* The lower knows our object as its context: where it reports that for want of an operation's, the
 * upper gets its own. */
static void context_up(void **context, struct fid *ours)
{
    if (ours && *context == ours)
        *context = ours->context;
}

void hook_event_up(struct hook_fabric *fabric, uint32_t event, void *buf, size_t len)
{
    struct fi_eq_entry *entry = buf;
    struct fi_eq_cm_entry *cm = buf;
    struct fid *ours;

    if (!has_fid(event, len))
        return;
    ours = hook_up(entry->fid);
    if (ours)
        entry->fid = ours;
    if (has_info(event, len)) {
        if (cm->info)
            hook_info_up(fabric, cm->info);
        return;
    }
    if (event == FI_JOIN_COMPLETE && ours) {
        struct hook_mc *mc = object_of(ours, struct hook_mc, fid.fid);

        mc->fid.fi_addr = fi_mc_addr(mc->lower);
    }
    if (event > FI_SHUTDOWN && len >= sizeof(*entry))
        context_up(&entry->context, ours);
}

static ssize_t event_up(struct hook_eq *eq, ssize_t rc, uint32_t number, uint32_t *event, void *buf)
{
    if (rc < 0)
        return rc;
    hook_event_up(eq->fabric, number, buf, (size_t)rc);
    if (eq->fabric->ops.event)
        rc = eq->fabric->ops.event(eq, rc, &number, buf);
    if (event && rc >= 0)
        *event = number;
    return rc;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
    struct hook_eq *eq = eq_of(fid);
    uint32_t number = FI_NOTIFY;
    ssize_t rc = fi_eq_read(eq->lower, &number, buf, len, flags);

    return event_up(eq, rc, number, event, buf);
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
                        uint64_t flags)
{
    struct hook_eq *eq = eq_of(fid);
    uint32_t number = FI_NOTIFY;
    ssize_t rc = fi_eq_sread(eq->lower, &number, buf, len, timeout, flags);

    return event_up(eq, rc, number, event, buf);
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
    ssize_t rc = fi_eq_readerr(eq_of(fid)->lower, buf, flags);
    struct fid *ours;

    if (rc > 0) {
        ours = hook_up(buf->fid);
        if (ours)
            buf->fid = ours;
        context_up(&buf->context, ours);
    }
    return rc;
}

#define EVENT_MAX 512

/* Events that the application writes come back through eq_read: the fid has to be the lower's
 * meanwhile. */
static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
                        uint64_t flags)
{
    _Alignas(max_align_t) unsigned char down[EVENT_MAX];
    struct fid *target;

    if (!has_fid(event, len))
        return fi_eq_write(eq_of(fid)->lower, event, buf, len, flags);
    if (len > sizeof(down))
        return -FI_EINVAL;
    memcpy(down, buf, len);
    memcpy(&target, down, sizeof(target));
    target = hook_down(target);
    memcpy(down, &target, sizeof(target));
    return fi_eq_write(eq_of(fid)->lower, event, down, len, flags);
}

HOOK_PASS(const char *, eq_strerror, (eq_of(fid)->lower, prov_errno, err_data, buf, len),
          struct fid_eq *fid, int prov_errno, const void *err_data, char *buf, size_t len)

struct fi_ops_eq hook_eq_ops = {
    .size = sizeof(hook_eq_ops),
    .read = eq_read,
    .readerr = eq_readerr,
    .write = eq_write,
    .sread = eq_sread,
    .strerror = eq_strerror,
};

int hook_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **ret_eq,
                 void *context)
{
    struct hook_fabric *fabric = hook_fabric_of(fid);
    struct hook_eq *eq = calloc(1, sizeof(*eq));
    bool peer = attr && attr->flags & FI_PEER;
    struct hook_opening opening = {
        .parent = &fid->fid, .context = context, .eq = attr, .peer = peer};
    struct fi_peer_eq_context down;
    int rc;

    if (!eq)
        return -FI_ENOMEM;
    fid_init(&eq->fid.fid, FI_CLASS_EQ, peer ? NULL : context, fabric->ops.eq_fid);
    eq->fid.ops = fabric->ops.eq;
    eq->fabric = fabric;
    rc = hook_opening(fabric, &eq->fid.fid, &opening);
    if (!rc && peer)
        rc = hook_peer_eq(eq, context, &down);
    if (!rc)
        rc = fi_eq_open(fabric->lower, attr, &eq->lower, peer ? (void *)&down : eq);
    rc = hook_opened(fabric, &fabric->base.children, &eq->fid.fid, rc, &opening);
    if (!rc)
        *ret_eq = &eq->fid;
    return rc;
}

static int eq_close(struct fid *fid)
{
    struct hook_eq *eq = object_of(fid, struct hook_eq, fid.fid);

    return hook_close(eq->fabric, &eq->fabric->base.children, &eq->lower->fid, fid);
}

struct fi_ops hook_eq_fid_ops = {
    .size = sizeof(hook_eq_fid_ops),
    .close = eq_close,
    HOOK_FID_PASSES,
};
