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
    WAIT_MS = 10000,
    END_MS = 60000,
};

/*
 * The operations of one context, one endpoint and one direction. A completion names its context and
 * comes by a queue: where several endpoints have these in common it is counted for one that waits
 * for it, and in `doubt`.
 */
struct op {
    const void *context;
    struct fid_ep *ep; /* NULL: closed; its earlier completions may still be read */
    struct fid_cq *cq; /* where it completes; NULL: not known */
    bool used, receives, waits, multi;
    unsigned begun;    /* accepted, or being posted, and must end */
    unsigned optional; /* may end */
    unsigned silent;   /* may end in error */
    unsigned ended, errors, doubt;
};

struct end {
    struct fid_ep *ep;
    struct fid_cq *tx, *rx;
    bool tx_selective, rx_selective;
};

struct alias {
    struct fid_ep *alias, *ep;
    bool waits; /* for a counter, all that is posted */
};

struct queue {
    struct fid_cq *cq;
    size_t entry; /* bytes */
};

bool ledger_on;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct op ops[OPS];
static struct fid_cq gone; /* in the place of a queue that is closed */
static struct end ends[OBJECTS];
static struct alias aliases[OBJECTS];
static struct queue queues[OBJECTS];
static unsigned end_count, alias_count, queue_count, op_count;
static long long failed_ms;
static bool settling;
static char wrong[160];
/* The operation that this thread is posting, and the counter that the post raised; NULL: none. */
static _Thread_local struct op *posting;
static _Thread_local unsigned *posting_count;

static unsigned slot_of(const void *context)
{
    return (unsigned)((uintptr_t)context * 0x9e3779b97f4a7c15u >> 50) % OPS;
}

/* The next after `op` of that context, NULL to begin with; NULL: no more. */
static struct op *next_op(const void *context, const struct op *op)
{
    unsigned slot = op ? (unsigned)(op - ops + 1) % OPS : slot_of(context);

    while (ops[slot].used && ops[slot].context != context)
        slot = (slot + 1) % OPS;
    return ops[slot].used ? &ops[slot] : NULL;
}

static struct end *end_of(struct fid_ep *ep)
{
    for (unsigned i = 0; i < end_count; i++)
        if (ends[i].ep == ep)
            return &ends[i];
    return NULL;
}

static struct alias *alias_of(struct fid_ep *ep)
{
    for (unsigned i = 0; i < alias_count; i++)
        if (aliases[i].alias == ep)
            return &aliases[i];
    return NULL;
}

/* NULL when there are too many; they are not kept then. */
static struct op *op_of(const void *context, struct fid_ep *ep, struct fid_cq *cq, bool receives)
{
    struct op *op = NULL;
    unsigned slot = slot_of(context);

    while ((op = next_op(context, op)))
        if (op->ep == ep && op->cq == cq && op->receives == receives)
            return op;
    while (ops[slot].used && !(ops[slot].context == context && ops[slot].cq == &gone))
        slot = (slot + 1) % OPS;
    if (!ops[slot].used && op_count == OPS / 2)
        return NULL;
    op_count += !ops[slot].used;
    ops[slot] =
        (struct op){.context = context, .ep = ep, .cq = cq, .used = true, .receives = receives};
    return &ops[slot];
}

static unsigned left(const struct op *op)
{
    return op->ep && op->ended < op->begun ? op->begun - op->ended : 0;
}

static void is_wrong(const char *what, const void *context, int err)
{
    if (!wrong[0])
        snprintf(wrong, sizeof wrong, "%s %p (%s)", what, context, fi_strerror(err));
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

/* Where an operation is counted. */
static unsigned *count_of(struct op *op, const struct end *end, bool has_flags, uint64_t flags)
{
    if (!end || !(op->receives ? end->rx_selective : end->tx_selective) || flags & FI_COMPLETION)
        return &op->begun;
    /* The calls without flags have those of the endpoint, which may be to complete. */
    return has_flags ? &op->silent : &op->optional;
}

/* Mutex held. inject: no context, no completion but in error. */
static void begin(struct fid_ep *ep, bool receives, void *context, bool has_flags, uint64_t flags,
                  bool inject)
{
    const struct alias *alias = alias_of(ep);
    const struct end *end = end_of(alias ? alias->ep : ep);
    struct fid_cq *cq = !end ? NULL : receives ? end->rx : end->tx;
    struct op *op;

    if (end && !cq)
        return;
    op = op_of(context, alias ? alias->ep : ep, cq, receives);
    if (!op)
        return;
    posting = op;
    posting_count = inject ? &op->silent : count_of(op, end, has_flags, flags);
    if (inject)
        return;
    op->multi = receives && flags & FI_MULTI_RECV;
    op->waits = (alias && alias->waits) || (has_flags && flags & FI_TRIGGER);
}

static void post(struct fid_ep *ep, bool receives, void *context, bool has_flags, uint64_t flags,
                 bool inject)
{
    if (!ledger_on)
        return;
    ledger_tick();
    pthread_mutex_lock(&mutex);
    posting = NULL;
    begin(ep, receives, context, has_flags, flags, inject);
    if (posting)
        ++*posting_count;
    pthread_mutex_unlock(&mutex);
}

void ledger_post(struct fid_ep *ep, bool receives, void *context, bool has_flags, uint64_t flags)
{
    post(ep, receives, context, has_flags, flags, false);
}

void ledger_inject(struct fid_ep *ep)
{
    post(ep, false, NULL, false, 0, true);
}

ssize_t ledger_posted(ssize_t rc)
{
    struct op *op = posting;

    posting = NULL;
    if (!ledger_on || !rc || !op)
        return rc;
    pthread_mutex_lock(&mutex);
    --*posting_count;
    if (op->ended > op->begun + op->optional + op->silent)
        is_wrong("a completion of what was refused,", op->context, (int)-rc);
    pthread_mutex_unlock(&mutex);
    return rc;
}

/* The endpoint, the context and the flags of what is deferred; false: it has none. */
static bool deferred(const struct fi_deferred_work *work, struct fid_ep **ep, void **context,
                     uint64_t *flags)
{
#define DEFERRED(member)                                                                           \
    (*ep = work->op.member->ep, *context = work->op.member->msg.context,                           \
     *flags = work->op.member->flags, true)
    switch (work->op_type) {
    case FI_OP_RECV:
    case FI_OP_SEND: return DEFERRED(msg);
    case FI_OP_TRECV:
    case FI_OP_TSEND: return DEFERRED(tagged);
    case FI_OP_READ:
    case FI_OP_WRITE: return DEFERRED(rma);
    case FI_OP_ATOMIC: return DEFERRED(atomic);
    case FI_OP_FETCH_ATOMIC: return DEFERRED(fetch_atomic);
    case FI_OP_COMPARE_ATOMIC: return DEFERRED(compare_atomic);
    default: return false;
    }
#undef DEFERRED
}

int ledger_control(struct fid *fid, int command, void *argument)
{
    const struct fi_deferred_work *work = argument;
    struct fid_ep *ep;
    void *context;
    uint64_t flags;

    if (!ledger_on || command != FI_QUEUE_WORK || !deferred(work, &ep, &context, &flags))
        return (fi_control)(fid, command, argument);
    pthread_mutex_lock(&mutex);
    posting = NULL;
    begin(ep, work->op_type == FI_OP_RECV || work->op_type == FI_OP_TRECV, context, true, flags,
          false);
    if (posting) {
        posting_count = flags & FI_COMPLETION ? &posting->optional : &posting->silent;
        ++*posting_count;
    }
    pthread_mutex_unlock(&mutex);
    return (int)ledger_posted((fi_control)(fid, command, argument));
}

/* ---- Completions ---- */

/* May it be a completion of this one? */
static bool fits(const struct op *op, struct fid_cq *cq, uint64_t flags)
{
    if (op->cq && op->cq != cq)
        return false;
    if (flags & FI_COLLECTIVE || !(flags & FI_RECV))
        return !op->receives || !(flags & (FI_COLLECTIVE | FI_SEND | FI_READ | FI_WRITE));
    return op->receives;
}

/* A message that fails on its way into a multi-receive buffer, with its connection, does not take
 * the buffer from those of other connections. */
static bool has_room(const struct op *op, int err)
{
    unsigned silent = err || op->silent < op->errors ? op->silent : op->errors;

    if (op->multi && op->errors)
        return true;
    return op->ended < op->begun + op->optional + silent;
}

/* Of those that it fits, one that waits for it, else one that may have it; NULL: none. `known`: it
 * fits some. `doubt`: it may be another's. */
static struct op *owner(const void *context, struct fid_cq *cq, uint64_t flags, int err,
                        bool *known, bool *doubt)
{
    struct op *best = NULL;
    unsigned waiting = 0;

    for (struct op *op = NULL; (op = next_op(context, op));) {
        if (!fits(op, cq, flags))
            continue;
        *known = true;
        waiting += left(op) != 0;
        if (has_room(op, err) && (!best || (left(op) && !left(best))))
            best = op;
    }
    *doubt = waiting > 1;
    return best;
}

/* Data of a write takes a receive where that is so (FI_RX_CQ_DATA), which then has no other end. */
static void may_have_taken(struct fid_cq *cq, const void *context)
{
    bool known = false, doubt = false;
    struct op *op;

    pthread_mutex_lock(&mutex);
    op = owner(context, cq, FI_RECV, 0, &known, &doubt);
    if (op && left(op)) {
        op->begun--;
        op->optional++;
    }
    pthread_mutex_unlock(&mutex);
}

static void complete(struct fid_cq *cq, const void *context, uint64_t flags, int err)
{
    bool known = false, doubt = false;
    struct op *op;

    if (flags & (FI_REMOTE_WRITE | FI_REMOTE_READ)) {
        if (flags & FI_REMOTE_CQ_DATA)
            may_have_taken(cq, context);
        return;
    }
    pthread_mutex_lock(&mutex);
    op = owner(context, cq, flags, err, &known, &doubt);
    if (!op && known) {
        is_wrong("one completion too many of", context, err);
    } else if (op && !(op->multi && (op->errors || (!err && !(flags & FI_MULTI_RECV))))) {
        op->ended++;
        op->errors += err != 0;
        op->doubt += doubt;
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

static ssize_t note(struct fid_cq *cq, const void *entries, ssize_t rc)
{
    size_t size;

    if (!ledger_on)
        return rc;
    size = entry_size(cq);
    for (ssize_t i = 0; i < rc && size && entries; i++) {
        const char *at = (const char *)entries + (size_t)i * size;
        struct fi_cq_msg_entry entry = {0};

        memcpy(&entry, at, size < sizeof entry ? size : sizeof entry);
        complete(cq, entry.op_context, entry.flags, 0);
    }
    ledger_tick();
    return rc;
}

ssize_t ledger_cq_read(struct fid_cq *cq, void *entries, size_t count)
{
    return note(cq, entries, (fi_cq_read)(cq, entries, count));
}

ssize_t ledger_cq_readfrom(struct fid_cq *cq, void *entries, size_t count, fi_addr_t *src)
{
    return note(cq, entries, (fi_cq_readfrom)(cq, entries, count, src));
}

ssize_t ledger_cq_sread(struct fid_cq *cq, void *entries, size_t count, const void *cond, int ms)
{
    return note(cq, entries, (fi_cq_sread)(cq, entries, count, cond, ledger_timeout(ms)));
}

ssize_t ledger_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    ssize_t rc = (fi_cq_readerr)(cq, entry, flags);
    unsigned long place;
    int err;

    if (!ledger_on || rc != 1)
        return rc;
    complete(cq, entry->op_context, entry->flags, entry->err);
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
        end->tx = (struct fid_cq *)other;
        end->tx_selective = flags & FI_SELECTIVE_COMPLETION;
    }
    if (other->fclass == FI_CLASS_CQ && flags & FI_RECV) {
        end->rx = (struct fid_cq *)other;
        end->rx_selective = flags & FI_SELECTIVE_COMPLETION;
    }
    return 0;
}

int ledger_aliased(struct fid_ep *ep, struct fid_ep *const *alias, uint64_t flags, int rc)
{
    if (ledger_on && !rc && alias_count < OBJECTS)
        aliases[alias_count++] = (struct alias){*alias, ep, flags & FI_TRIGGER};
    return rc;
}

/* Discards an operation that was outstanding on a closed endpoint. Completions that were counted as
 * its own, and may not have been, may have been those of others. */
static void forget_op(struct op *op)
{
    op->ep = NULL;
    for (struct op *other = NULL; (other = next_op(op->context, other));) {
        unsigned excused;

        if (!other->ep || other->cq != op->cq || other->receives != op->receives)
            continue;
        excused = op->doubt < left(other) ? op->doubt : left(other);
        op->doubt -= excused;
        other->ended += excused;
        other->optional += excused + other->doubt;
        other->doubt = 0;
    }
}

static void forget(struct fid *fid)
{
    for (unsigned i = 0; i < OPS; i++) {
        if (ops[i].used && ops[i].ep && &ops[i].ep->fid == fid)
            forget_op(&ops[i]);
        /* Another queue may come to be at the same place. */
        if (ops[i].used && !ops[i].ep && ops[i].cq && &ops[i].cq->fid == fid)
            ops[i].cq = &gone;
    }
    for (unsigned i = 0; i < end_count; i++)
        if (&ends[i].ep->fid == fid)
            ends[i] = ends[--end_count];
    for (unsigned i = 0; i < alias_count; i++)
        if (&aliases[i].alias->fid == fid)
            aliases[i] = aliases[--alias_count];
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
        if (!ops[i].used || !left(&ops[i]) || (ep && ops[i].ep != ep))
            continue;
        count += left(&ops[i]);
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

/* Cancels operations that need not end by themselves: receives, and those that await a counter. */
static void cancel_waiting(void)
{
    for (unsigned i = 0; i < OPS; i++)
        for (unsigned n = 0;
             ops[i].used && (ops[i].receives || ops[i].waits) && n < left(&ops[i]) && n < 64; n++)
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
    cancel_waiting();
    drive(100);
    if (outstanding(NULL, NULL)) {
        close_others(busiest());
        cancel_waiting();
        drive(END_MS);
    }
    count = outstanding(NULL, &one);
    if (count && !wrong[0])
        snprintf(wrong, sizeof wrong, "%u operations never end, one of them a %s of context %p",
                 count, one->receives ? "receive" : "send or an access of memory", one->context);
    return wrong[0] ? wrong : NULL;
}
