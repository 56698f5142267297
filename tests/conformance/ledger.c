/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "failing.h"

enum {
    OPS = 1 << 14,
    OBJECTS = 256,
    STUCK_MS = 3000,
    WAIT_MS = 4000,
    END_MS = 20000,
};

/* All operations of one context. */
struct op {
    const void *context;
    struct fid_ep *ep; /* of the last */
    unsigned begun, ended;
    bool used, receives, multi;
    bool loose; /* its endpoint was closed with it outstanding */
};

struct end {
    struct fid_ep *ep;
    bool tx, rx, tx_selective, rx_selective;
};

struct queue {
    struct fid_cq *cq;
    size_t entry; /* bytes */
};

bool ledger_on;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct op ops[OPS];
static struct end ends[OBJECTS];
static struct queue queues[OBJECTS];
static unsigned end_count, queue_count, op_count;
static long long failed_ms;
static bool settling;
static char wrong[160];

static struct op *op_of(const void *context)
{
    size_t slot = (uintptr_t)context * 0x9e3779b97f4a7c15u >> 50;

    while (ops[slot % OPS].used && ops[slot % OPS].context != context)
        slot++;
    return &ops[slot % OPS];
}

static struct end *end_of(struct fid_ep *ep)
{
    for (unsigned i = 0; i < end_count; i++)
        if (ends[i].ep == ep)
            return &ends[i];
    return NULL;
}

void ledger_tick(void)
{
    unsigned long place;
    int err;

    if (!ledger_on || settling || !failing_what(&err, &place))
        return;
    if (!failed_ms)
        failed_ms = conf_now_ms();
    conf_check(conf_now_ms() - failed_ms < STUCK_MS, "nothing more comes");
}

int ledger_timeout(int ms)
{
    return ledger_on && (ms < 0 || ms > WAIT_MS) ? WAIT_MS : ms;
}

/* ---- Posts ---- */

/* What has no completion of its own, or need not end, is not kept. */
static bool completes(const struct end *end, bool receives, bool has_flags, uint64_t flags)
{
    if (has_flags && flags & FI_TRIGGER)
        return false;
    if (!end)
        return true;
    if (!(receives ? end->rx : end->tx))
        return false;
    return !(receives ? end->rx_selective : end->tx_selective) || flags & FI_COMPLETION;
}

void ledger_post(struct fid_ep *ep, bool receives, void *context, bool has_flags, uint64_t flags)
{
    struct op *op;

    if (!ledger_on)
        return;
    ledger_tick();
    pthread_mutex_lock(&mutex);
    op = op_of(context);
    if (op->used || op_count < OPS / 2) {
        op_count += !op->used;
        op->used = true;
        op->context = context;
        op->ep = ep;
        op->receives = receives;
        op->multi = receives && flags & FI_MULTI_RECV;
        if (completes(end_of(ep), receives, has_flags, flags))
            op->begun++;
        else
            op->loose = true;
    }
    pthread_mutex_unlock(&mutex);
}

ssize_t ledger_posted(void *context, ssize_t rc)
{
    struct op *op;

    if (!ledger_on || !rc)
        return rc;
    pthread_mutex_lock(&mutex);
    op = op_of(context);
    if (op->used && op->begun > op->ended)
        op->begun--;
    pthread_mutex_unlock(&mutex);
    return rc;
}

/* ---- Completions ---- */

static void complete(const void *context, uint64_t flags, int err)
{
    struct op *op;

    if (flags & (FI_REMOTE_WRITE | FI_REMOTE_READ))
        return;
    pthread_mutex_lock(&mutex);
    op = op_of(context);
    if (op->used && !(op->multi && !err && !(flags & FI_MULTI_RECV))) {
        if (op->ended < op->begun)
            op->ended++;
        else if (!op->loose && !wrong[0])
            snprintf(wrong, sizeof wrong, "one completion too many of %p (%s)", context,
                     fi_strerror(err));
    }
    pthread_mutex_unlock(&mutex);
}

static size_t entry_size(struct fid_cq *cq)
{
    for (unsigned i = 0; i < queue_count; i++)
        if (queues[i].cq == cq)
            return queues[i].entry;
    return 0;
}

ssize_t ledger_read(struct fid_cq *cq, const void *entries, ssize_t rc)
{
    size_t size;

    if (!ledger_on)
        return rc;
    size = entry_size(cq);
    for (ssize_t i = 0; i < rc && size && entries; i++) {
        const char *at = (const char *)entries + (size_t)i * size;
        struct fi_cq_msg_entry entry = {0};

        memcpy(&entry, at, size < sizeof entry ? size : sizeof entry);
        complete(entry.op_context, entry.flags, 0);
    }
    ledger_tick();
    return rc;
}

ssize_t ledger_error(const struct fi_cq_err_entry *entry, ssize_t rc)
{
    unsigned long place;
    int err;

    if (!ledger_on || rc != 1)
        return rc;
    complete(entry->op_context, entry->flags, entry->err);
    conf_check(settling || !failing_what(&err, &place), "an operation: %s",
               fi_strerror(entry->err));
    return rc;
}

/* ---- Objects ---- */

int ledger_opened(struct fid_cq *const *cq, const struct fi_cq_attr *attr, int rc)
{
    static const size_t sizes[] = {
        [FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
        [FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
        [FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
        [FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
    };

    if (ledger_on && !rc && queue_count < OBJECTS)
        queues[queue_count++] = (struct queue){*cq, sizes[attr->format]};
    return rc;
}

int ledger_bound(struct fid_ep *ep, struct fid *other, uint64_t flags, int rc)
{
    struct end *end = end_of(ep);

    if (!ledger_on || rc || (!end && end_count == OBJECTS))
        return rc;
    if (!end) {
        end = &ends[end_count++];
        *end = (struct end){.ep = ep};
    }
    if (other->fclass == FI_CLASS_CQ && flags & FI_TRANSMIT) {
        end->tx = true;
        end->tx_selective = flags & FI_SELECTIVE_COMPLETION;
    }
    if (other->fclass == FI_CLASS_CQ && flags & FI_RECV) {
        end->rx = true;
        end->rx_selective = flags & FI_SELECTIVE_COMPLETION;
    }
    return 0;
}

/* What was outstanding on an endpoint that is closed is discarded. */
static void forget(struct fid *fid)
{
    for (unsigned i = 0; i < OPS; i++) {
        if (!ops[i].used || !ops[i].ep || &ops[i].ep->fid != fid)
            continue;
        ops[i].ended = ops[i].begun;
        ops[i].loose = true;
        ops[i].ep = NULL;
    }
    for (unsigned i = 0; i < end_count; i++)
        if (&ends[i].ep->fid == fid)
            ends[i] = ends[--end_count];
    for (unsigned i = 0; i < queue_count; i++)
        if (&queues[i].cq->fid == fid)
            queues[i] = queues[--queue_count];
}

int ledger_close(struct fid *fid)
{
    int rc;

    if (!ledger_on)
        return (fi_close)(fid);
    rc = (fi_close)(fid);
    pthread_mutex_lock(&mutex);
    if (!rc)
        forget(fid);
    pthread_mutex_unlock(&mutex);
    return rc;
}

/* ---- The end ---- */

static unsigned outstanding(const struct fid_ep *ep, const struct op **one)
{
    unsigned count = 0;

    for (unsigned i = 0; i < OPS; i++) {
        if (!ops[i].used || ops[i].ended >= ops[i].begun || (ep && ops[i].ep != ep))
            continue;
        count += ops[i].begun - ops[i].ended;
        if (one)
            *one = &ops[i];
    }
    return count;
}

static void drive(int ms)
{
    long long until = conf_now_ms() + ms;

    do {
        for (unsigned i = 0; i < queue_count; i++) {
            struct fid_cq *cq = queues[i].cq;
            struct fi_cq_tagged_entry entry;
            ssize_t rc;

            while ((rc = fi_cq_read(cq, &entry, 1)) == 1)
                ;
            if (rc == -FI_EAVAIL) {
                struct fi_cq_err_entry error = {0};

                fi_cq_readerr(cq, &error, 0);
            }
        }
    } while (outstanding(NULL, NULL) && conf_now_ms() < until);
}

static void cancel_receives(void)
{
    for (unsigned i = 0; i < OPS; i++)
        for (unsigned n = 0; ops[i].used && ops[i].receives && ops[i].ep &&
                             n < ops[i].begun - ops[i].ended && n < 64;
             n++)
            fi_cancel(&ops[i].ep->fid, (void *)(uintptr_t)ops[i].context);
}

/* The endpoint that has most to be ended: all others are closed, so it must learn of their end. */
static struct fid_ep *busiest(void)
{
    struct fid_ep *ep = NULL;
    unsigned most = 0;

    for (unsigned i = 0; i < end_count; i++) {
        unsigned count = outstanding(ends[i].ep, NULL);

        if (count > most) {
            most = count;
            ep = ends[i].ep;
        }
    }
    return ep;
}

static void close_others(const struct fid_ep *but)
{
    for (unsigned i = end_count; i-- > 0;)
        if (i < end_count && ends[i].ep != but)
            fi_close(&ends[i].ep->fid);
}

const char *ledger_settle(void)
{
    const struct op *one = NULL;
    unsigned count;

    settling = true;
    cancel_receives();
    drive(100);
    if (outstanding(NULL, NULL)) {
        close_others(busiest());
        cancel_receives();
        drive(END_MS);
    }
    count = outstanding(NULL, &one);
    if (count && !wrong[0])
        snprintf(wrong, sizeof wrong, "%u operations never end, one of them a %s of context %p",
                 count, one->receives ? "receive" : "send or an access of memory", one->context);
    return wrong[0] ? wrong : NULL;
}
