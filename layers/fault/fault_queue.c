/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions that come late: after each batch of them the queue is silent for the delay, in which
 * the lower is not driven either; nothing is kept. And the ends of messages that got lost, or of
 * which the lower has a copy (fault_wire.c).
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/info/abi.h"
#include "core/queue/cq_entry.h"
#include "layers/fault/fault.h"

enum {
    HELD_READS = 16, /* for nothing, after which no message is expected to overtake */
};

/* ns until the queue speaks again; 0: now. */
static uint64_t silence(struct fault_cq *own)
{
    uint64_t until, now;

    if (!own || !own->plan->delay_ns)
        return 0;
    until = atomic_load_explicit(&own->silent_until, memory_order_relaxed);
    now = until ? clock_ns() : 0;
    return until > now ? until - now : 0;
}

static void fall_silent(struct fault_cq *own)
{
    if (own && own->plan->delay_ns)
        atomic_store_explicit(&own->silent_until, clock_ns() + own->plan->delay_ns,
                              memory_order_relaxed);
}

/* ---- Ends of lost messages ---- */

static bool grow(struct fault_cq *own)
{
    size_t room = own->room ? 2 * own->room : 64;
    struct fault_end *ends = malloc(room * sizeof(*ends));

    if (!ends)
        return false;
    for (size_t i = 0; own->room && i < own->count; i++)
        ends[i] = own->ends[(own->first + i) % own->room];
    free(own->ends);
    own->ends = ends;
    own->first = 0;
    own->room = room;
    return true;
}

/* As the lower would write it. */
static void end_owner(struct fid_peer_cq *owner, struct fault_end end)
{
    const struct fi_cq_err_entry error = {.op_context = end.context,
                                          .flags = end.flags,
                                          .err = end.err,
                                          .src_addr = FI_ADDR_NOTAVAIL};

    if (end.err)
        owner->owner_ops->writeerr(owner, &error);
    else
        owner->owner_ops->write(owner, end.context, end.flags, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

int fault_cq_end(struct hook_cq *cq, struct fault_end end)
{
    struct fault_cq *own = cq->own;
    bool ok;

    if (cq->owner) {
        end_owner(cq->owner, end);
        return 0;
    }
    if (!own)
        return -FI_EAGAIN;
    pthread_mutex_lock(&own->plan->mutex);
    ok = own->count < own->room || grow(own);
    if (ok)
        own->ends[(own->first + own->count++) % own->room] = end;
    pthread_mutex_unlock(&own->plan->mutex);
    fi_cq_signal(cq->lower); /* wakes a blocking read, where the queue has these */
    return ok ? 0 : -FI_EAGAIN;
}

/* Up to the first error; -FI_EAVAIL when that is the next. */
static ssize_t take_ends(struct hook_cq *cq, char *buf, size_t count, fi_addr_t *src)
{
    size_t size = cq_entry_size(cq->format), taken = 0;
    struct fault_cq *own = cq->own;
    bool failed = false;

    pthread_mutex_lock(&own->plan->mutex);
    for (; taken < count && own->count; taken++, own->count--) {
        const struct fault_end *one = &own->ends[own->first];
        const struct fi_cq_tagged_entry entry = {.op_context = one->context, .flags = one->flags};

        failed = one->err;
        if (failed)
            break;
        memcpy(buf + taken * size, &entry, size);
        if (src)
            src[taken] = FI_ADDR_NOTAVAIL;
        own->first = (own->first + 1) % own->room;
    }
    pthread_mutex_unlock(&own->plan->mutex);
    return taken || !failed ? (ssize_t)taken : -FI_EAVAIL;
}

/* Whether the next end is an error. Fields that the caller's struct lacks are left alone. */
static bool take_error(struct hook_cq *cq, struct fi_cq_err_entry *entry)
{
    const struct fabric *fabric = &cq->domain->fabric->base;
    struct fault_cq *own = cq->own;
    struct fault_end one = {NULL};

    pthread_mutex_lock(&own->plan->mutex);
    if (own->count && own->ends[own->first].err) {
        one = own->ends[own->first];
        own->first = (own->first + 1) % own->room;
        own->count--;
    }
    pthread_mutex_unlock(&own->plan->mutex);
    if (!one.err)
        return false;
    memset(entry, 0, offsetof(struct fi_cq_err_entry, err_data));
    entry->op_context = one.context;
    entry->flags = one.flags;
    entry->err = one.err;
    if (FI_VERSION_LT(fabric->api_version, FI_VERSION(1, 5)))
        entry->err_data = NULL;
    else
        entry->err_data_size = 0;
    if (abi_cq_err_entry_size(fabric->abi) >= offsetof(struct fi_cq_err_entry, src_addr) + 8)
        entry->src_addr = FI_ADDR_NOTAVAIL;
    return true;
}

/* Entries of copies become those of the user, or go. */
static ssize_t sort_out(struct hook_cq *cq, char *buf, ssize_t count, fi_addr_t *src)
{
    struct fault_plan *plan = ((struct fault_cq *)cq->own)->plan;
    size_t size = cq_entry_size(cq->format);
    ssize_t kept = 0;

    for (ssize_t i = 0; i < count; i++) {
        bool wanted = true;
        void *context;

        memcpy(&context, buf + (size_t)i * size, sizeof(context));
        if (fault_wire_done(plan, &context, false, &wanted))
            memcpy(buf + (size_t)i * size, &context, sizeof(context));
        if (!wanted)
            continue;
        if (kept != i)
            memcpy(buf + (size_t)kept * size, buf + (size_t)i * size, size);
        if (src)
            src[kept] = src[i];
        kept++;
    }
    return kept ? kept : -FI_EAGAIN;
}

static ssize_t arrived(struct hook_cq *cq, void *buf, ssize_t rc, fi_addr_t *src)
{
    struct fault_cq *own = cq->own;

    if (!own)
        return rc;
    if (rc > 0 && buf && own->plan->loses)
        rc = sort_out(cq, buf, rc, src);
    if (rc > 0)
        fall_silent(own);
    return rc;
}

/* Does a caller wait for messages that are held? */
static void go_on(const struct hook_cq *cq, ssize_t rc)
{
    struct fault_cq *own = cq->own;

    if (!own->plan->loses)
        return;
    own->empty_reads = rc == -FI_EAGAIN || !rc ? own->empty_reads + 1 : 0;
    if (own->empty_reads >= HELD_READS) {
        own->empty_reads = 0;
        fault_wire_flush_cq(own->plan, cq);
    }
}

/* ---- Reading ---- */

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    struct fault_cq *own = cq->own;
    ssize_t ends = 0, rc = -FI_EAGAIN;

    if (silence(own))
        return rc;
    if (own && buf && own->count)
        ends = take_ends(cq, buf, count, src);
    if (ends) {
        fall_silent(own);
        if (own->in_set && own->count)
            fi_cq_signal(cq->lower);
        return ends;
    }
    rc = src ? fi_cq_readfrom(cq->lower, buf, count, src) : fi_cq_read(cq->lower, buf, count);
    if (own)
        go_on(cq, rc);
    return buf ? arrived(cq, buf, rc, src) : rc;
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
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    struct fault_cq *own = cq->own;
    ssize_t rc = sleep_through(own, &timeout);
    bool none;

    if (rc)
        return rc;
    if (own && own->plan->loses) {
        fault_wire_flush_cq(own->plan, cq);
        if (buf && own->count)
            return cq_readfrom(fid, buf, count, src);
    }
    do {
        rc = src ? fi_cq_sreadfrom(cq->lower, buf, count, src, cond, timeout)
                 : fi_cq_sread(cq->lower, buf, count, cond, timeout);
        none = rc > 0;
        rc = arrived(cq, buf, rc, src);
    } while (none && rc == -FI_EAGAIN); /* there were doubles only */
    if (rc == -FI_EAGAIN && own && buf && own->count)
        return cq_readfrom(fid, buf, count, src);
    return rc;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
    return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct hook_cq *cq = object_of(fid, struct hook_cq, fid);
    const struct fault_cq *own = cq->own;
    bool wanted = true;
    ssize_t rc;

    if (own && own->count && take_error(cq, entry)) {
        if (own->in_set && own->count)
            fi_cq_signal(cq->lower);
        return 1;
    }
    rc = fi_cq_readerr(cq->lower, entry, flags);
    if (rc == 1 && own && own->plan->loses)
        fault_wire_done(own->plan, &entry->op_context, true, &wanted);
    return wanted ? rc : -FI_EAGAIN;
}

bool fault_cq_is_silent(const struct fid *fid)
{
    struct fault_cq *own = *hook_own((struct fid *)fid);

    if (!own)
        return false;
    if (own->plan->loses)
        fault_wire_flush_cq(own->plan, object_of(fid, struct hook_cq, fid.fid));
    return silence(own) || own->count;
}

/* ---- Written by the lower ---- */

static ssize_t owner_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                           void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct fault_cq *own = object_of(peer, struct hook_cq, peer)->own;
    bool wanted = true;

    if (own && own->plan->loses)
        fault_wire_done(own->plan, &context, false, &wanted);
    fall_silent(own);
    return wanted ? hook_cq_owner_ops.write(peer, context, flags, len, buf, data, tag, src) : 0;
}

static ssize_t owner_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
    const struct hook_cq *cq = object_of(peer, struct hook_cq, peer);
    const struct fault_cq *own = cq->own;
    struct fi_cq_err_entry users = {.op_context = entry->op_context};
    bool wanted = true;
    void *context;

    if (!own || !own->plan->loses || !fault_wire_done(own->plan, &users.op_context, true, &wanted))
        return hook_cq_owner_ops.writeerr(peer, entry);
    if (!wanted)
        return 0;
    context = users.op_context;
    memcpy(&users, entry, abi_cq_err_entry_size(cq->domain->fabric->base.abi));
    users.op_context = context;
    return hook_cq_owner_ops.writeerr(peer, &users);
}

/* ---- Counters: the lower counts doubles that no caller sent ---- */

static uint64_t extra_of(struct hook_cntr *cntr)
{
    struct fault_cntr *own = cntr->own;

    return own ? atomic_load(&own->extra) : 0;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
    struct hook_cntr *cntr = object_of(fid, struct hook_cntr, fid);
    struct fault_plan *plan = cntr->domain->fabric->own;
    uint64_t extra = extra_of(cntr), value = hook_cntr_ops.read(fid);

    if (plan && plan->loses)
        fault_wire_flush(plan, cntr->domain);
    return value > extra ? value - extra : 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
    return hook_cntr_ops.set(fid, value + extra_of(object_of(fid, struct hook_cntr, fid)));
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
    struct hook_cntr *cntr = object_of(fid, struct hook_cntr, fid);
    struct fault_plan *plan = cntr->domain->fabric->own;

    if (plan && plan->loses)
        fault_wire_flush(plan, cntr->domain);
    return hook_cntr_ops.wait(fid, threshold + extra_of(cntr), timeout);
}

static void owner_inc(struct fid_peer_cntr *peer)
{
    struct fault_cntr *own = object_of(peer, struct hook_cntr, peer)->own;
    uint_fast64_t extra = own ? atomic_load(&own->extra) : 0;

    while (extra && !atomic_compare_exchange_weak(&own->extra, &extra, extra - 1))
        ;
    if (!extra)
        hook_cntr_owner_ops.inc(peer);
}

static struct fi_ops_cq cq_ops = {
    .size = sizeof(cq_ops),
    .read = cq_read,
    .readfrom = cq_readfrom,
    .sread = cq_sread,
    .sreadfrom = cq_sreadfrom,
    .readerr = cq_readerr,
};
static struct fi_ops_cq_owner cq_owner_ops = {
    .size = sizeof(cq_owner_ops), .write = owner_write, .writeerr = owner_writeerr};
static struct fi_ops_cntr cntr_ops = {
    .size = sizeof(cntr_ops), .read = cntr_read, .set = cntr_set, .wait = cntr_wait};
static struct fi_ops_cntr_owner cntr_owner_ops = {.size = sizeof(cntr_owner_ops), .inc = owner_inc};

void fault_queue_ops(struct hook_ops *ops)
{
    ops->cq = &cq_ops;
    ops->cq_owner = &cq_owner_ops;
    ops->cntr = &cntr_ops;
    ops->cntr_owner = &cntr_owner_ops;
}
