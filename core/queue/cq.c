/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring holds successes only. An error entry remembers the ring position that it came at
 * (`before`): reads stop there and answer -FI_EAVAIL until readerr has taken the entry.
 */
#include "core/queue/cq.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/seam.h"
#include "core/info/abi.h"
#include "core/queue/cq_entry.h"
#include "core/queue/wait_set.h"

#define FIRST_CAPACITY 128
#define READERS_SEEN 64 /* empty reads of one thread until it seems to be the only one */

struct cq_error {
    struct cq_error *next;
    size_t before; /* cq->tail when it was written */
    struct fi_cq_err_entry entry;
    bool has_text; /* err_data is a text that says more than err */
    unsigned char data[];
};

struct fi_ops cq_sink_ops = {.size = sizeof(cq_sink_ops)};

/* ---- Writing ---- */

/* False when there is no room, and none could be made. */
static bool grow(struct cq *cq)
{
    size_t capacity = cq->capacity ? 2 * cq->capacity : FIRST_CAPACITY;
    struct cq_entry *ring = malloc(capacity * sizeof(*ring));

    if (!ring) {
        cq->overrun = cq->tail - cq->head == cq->capacity;
        cq->failed |= cq->overrun;
        return !cq->overrun;
    }
    for (size_t at = cq->head; at != cq->tail; at++)
        ring[at & (capacity - 1)] = cq->ring[at & (cq->capacity - 1)];
    free(cq->ring);
    cq->ring = ring;
    cq->capacity = capacity;
    return true;
}

static ssize_t ring_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                          void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct cq *cq = object_of(peer, struct cq, peer);

    if (cq->direct_left) {
        cq_write_direct(cq, context, flags, len, buf, data, tag);
        return 0;
    }
    if (__builtin_expect(cq->tail - cq->head + CQ_SLACK >= cq->capacity, 0) && !grow(cq))
        return 0;
    cq_put(cq, context, flags, len, buf, data, tag, src);
    return 0;
}

static bool says_more(int prov_errno)
{
    return prov_errno >= CQ_ERR_TEXT && prov_errno - CQ_ERR_TEXT < 1 << 16;
}

static ssize_t ring_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
    struct cq *cq = object_of(peer, struct cq, peer);
    size_t size = entry->err_data ? entry->err_data_size : 0;
    struct cq_error *error = malloc(sizeof(*error) + size);

    cq->direct_most -= cq->direct_left; /* what comes after it is read after it */
    cq->direct_left = 0;
    cq->failed = true;
    if (!error) { /* then without what else the part has to say */
        error = cq->spare;
        cq->spare = NULL;
        size = 0;
    }
    if (!error) {
        cq->overrun = true;
        wait_signal(&cq->wait);
        return 0;
    }
    error->next = NULL;
    error->before = cq->tail;
    error->entry = *entry;
    error->entry.err_data = size ? error->data : NULL;
    error->entry.err_data_size = size;
    error->has_text = false;
    if (says_more(entry->prov_errno)) {
        error->entry.prov_errno -= CQ_ERR_TEXT;
        error->has_text = size;
    }
    if (size)
        memcpy(error->data, entry->err_data, size);
    *cq->errors_end = error;
    cq->errors_end = &error->next;
    wait_signal(&cq->wait);
    return 0;
}

static struct fi_ops_cq_owner ring_ops = {
    .size = sizeof(ring_ops),
    .write = ring_write,
    .writeerr = ring_writeerr,
};

/* ---- Reading ---- */

/* Entries that may be read before the next error. */
static size_t readable(const struct cq *cq)
{
    if (__builtin_expect(cq->errors != NULL, 0))
        return cq->errors->before - cq->head;
    return cq->tail - cq->head;
}

static inline void copy(const struct cq *cq, void *buf, size_t count, fi_addr_t *src, size_t size)
{
    char *out = buf;

    for (size_t i = 0; i < count; i++) {
        const struct cq_entry *entry = &cq->ring[(cq->head + i) & (cq->capacity - 1)];

        memcpy(out + i * size, entry, size);
        if (src)
            src[i] = entry->src;
    }
}

/* The answer of fi_cq_read for the queue as it is. Progress domain locked. */
static inline ssize_t take(struct cq *cq, void *buf, size_t count, fi_addr_t *src)
{
    size_t ready = readable(cq);

    if (!ready)
        return cq->failed ? -FI_EAVAIL : -FI_EAGAIN;
    if (count > ready)
        count = ready;
    switch (cq->format) {
    case FI_CQ_FORMAT_MSG: copy(cq, buf, count, src, sizeof(struct fi_cq_msg_entry)); break;
    case FI_CQ_FORMAT_DATA: copy(cq, buf, count, src, sizeof(struct fi_cq_data_entry)); break;
    case FI_CQ_FORMAT_TAGGED: copy(cq, buf, count, src, sizeof(struct fi_cq_tagged_entry)); break;
    default: copy(cq, buf, count, src, sizeof(struct fi_cq_entry)); break;
    }
    cq->head += count;
    return (ssize_t)count;
}

/* Several threads read this queue: each may wait for what another one has read, or hold up the one
 * that posts next. Where the caller serializes, it may hold a lock of its own, and the core is not
 * given away. Progress domain locked. */
static bool has_readers(struct cq *cq)
{
    static _Thread_local char self __attribute__((tls_model("initial-exec")));

    if (!cq->concurrent)
        return false;
    if (cq->reader != &self) {
        cq->readers = cq->reader ? READERS_SEEN : 0;
        cq->reader = &self;
    } else if (cq->readers) {
        cq->readers--;
    }
    return cq->readers;
}

/* Leaves the progress domain, for others perhaps. */
__attribute__((noinline)) static ssize_t end_read(struct cq *cq, struct progress *root, ssize_t rc,
                                                  bool turn)
{
    bool offer_core = rc == -FI_EAGAIN && has_readers(cq);

    progress_leave(root);
    /* A reader that spins on would keep the core, and mostly the lock, from the others. */
    if (__builtin_expect(offer_core, 0))
        sched_yield();
    if (turn && progress_has_others(cq->progress))
        progress_drive_others(cq->progress, rc > 0);
    return rc;
}

__attribute__((noinline)) static ssize_t read_ring(struct cq *cq, struct progress *root, void *buf,
                                                   size_t count, fi_addr_t *src)
{
    ssize_t rc;

    if (!count || cq_is_empty(cq))
        progress_poll_root(root);
    rc = take(cq, buf, count, src);
    return end_read(cq, root, rc, rc <= 0 || cq_others_turn(cq));
}

/* got: of a queue that was empty. There may be an error. */
static inline ssize_t end_direct(struct cq *cq, struct progress *root, size_t got)
{
    if (!got)
        return end_read(cq, root, take(cq, NULL, 0, NULL), true);
    if (__builtin_expect(cq_others_turn(cq), 0))
        return end_read(cq, root, (ssize_t)got, true);
    progress_leave(root);
    return (ssize_t)got;
}

/* Entries that come now, of an empty queue, go straight to the reader; the ring is for more of
 * them, and for those whose source the caller asks for. */
static inline __attribute__((always_inline)) ssize_t
read_entered(struct cq *cq, struct progress *root, void *buf, size_t count, fi_addr_t *src)
{
    if (__builtin_expect(src || !cq_is_empty(cq) || !count, 0))
        return read_ring(cq, root, buf, count, src);
    cq_direct(cq, buf, count);
    progress_poll_root(root);
    return end_direct(cq, root, cq_direct_end(cq));
}

ssize_t cq_read_entered(struct cq *cq, struct progress *root, void *buf, size_t count)
{
    return read_entered(cq, root, buf, count, NULL);
}

ssize_t cq_read_ring(struct cq *cq, struct progress *root, void *buf, size_t count)
{
    return read_ring(cq, root, buf, count, NULL);
}

ssize_t cq_read_end(struct cq *cq, struct progress *root, size_t got)
{
    return end_direct(cq, root, got);
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
    struct cq *cq = object_of(fid, struct cq, fid);

    if (progress_forked(cq->progress))
        return -FI_EOPBADSTATE;
    return read_entered(cq, progress_enter(cq->progress), buf, count, src);
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    struct cq *cq = object_of(fid, struct cq, fid);

    if (progress_forked(cq->progress))
        return -FI_EOPBADSTATE;
    return read_entered(cq, progress_enter(cq->progress), buf, count, NULL);
}

/* ---- Errors ---- */

/* The first error in the queue, in `entry`. Progress domain locked. */
static bool take_error(struct cq *cq, struct fi_cq_err_entry *entry)
{
    struct cq_error *error = cq->errors;

    if (error) {
        cq->errors = error->next;
        if (!cq->errors)
            cq->errors_end = &cq->errors;
        cq->failed = cq->errors || cq->overrun;
        if (cq->spare)
            free(cq->shown);
        else
            cq->spare = cq->shown;
        cq->shown = error;
        cq->text = error->has_text ? error->data : NULL;
        *entry = error->entry;
        return true;
    }
    if (!cq->overrun)
        return false;
    cq->overrun = cq->failed = false;
    cq->text = NULL;
    *entry = (struct fi_cq_err_entry){.err = FI_EOVERRUN, .src_addr = FI_ADDR_NOTAVAIL};
    return true;
}

/* The caller's struct may be shorter than ours, and before API 1.5 it had no err_data_size. */
static void show_error(struct cq *cq, struct fi_cq_err_entry *entry, struct fi_cq_err_entry *out,
                       bool own_buffer)
{
    const struct fabric *fabric = cq->domain->fabric;
    size_t size = abi_cq_err_entry_size(fabric->abi);

    if (FI_VERSION_LT(fabric->api_version, FI_VERSION(1, 5))) {
        size = offsetof(struct fi_cq_err_entry, err_data_size);
    } else if (out->err_data_size && out->err_data && !own_buffer) {
        if (entry->err_data_size > out->err_data_size)
            entry->err_data_size = out->err_data_size;
        if (entry->err_data_size)
            memcpy(out->err_data, entry->err_data, entry->err_data_size);
        entry->err_data = out->err_data;
        if (cq->text) {
            ((char *)entry->err_data)[entry->err_data_size - 1] = '\0';
            cq->text = entry->err_data;
        }
    }
    memcpy(out, entry, size);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *out, uint64_t flags)
{
    struct cq *cq = object_of(fid, struct cq, fid);
    struct fi_cq_err_entry entry;
    bool found, own_buffer;

    progress_lock(cq->progress);
    /* A caller that passes the last entry in again, unchanged, passes our own buffer, not one of
     * its own. */
    own_buffer = cq->shown && out->err_data == cq->shown->data;
    found = take_error(cq, &entry);
    if (found)
        show_error(cq, &entry, out, own_buffer);
    progress_unlock(cq->progress);
    return found ? 1 : -FI_EAGAIN;
}

/* err_data of the last error taken from here may be a text; what else it may be has no end. */
static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
                               size_t len)
{
    struct cq *cq = object_of(fid, struct cq, fid);
    const struct domain *domain = cq->domain;
    const char *text = domain->error_text ? domain->error_text(domain, prov_errno) : NULL;

    progress_lock(cq->progress);
    if (err_data && err_data == cq->text)
        text = err_data;
    else if (!text)
        text = fi_strerror(abs(prov_errno));
    if (buf && len) {
        snprintf(buf, len, "%s", text);
        text = buf;
    }
    progress_unlock(cq->progress);
    return text;
}

/* ---- Waiting ---- */

static bool taken_signal(struct cq *cq, unsigned signals)
{
    return atomic_load(&cq->signals) != signals || atomic_exchange(&cq->signalled, false);
}

/* Where the queue has a wait object of its own, whose fd no other watch has. */
static bool rests(const struct progress_watch *watch)
{
    return wait_rests(&object_of(watch, struct cq, watch)->wait);
}

/* From the first sleep on, the fds of the sources that drive the queue wake its sleepers; before
 * that, sources need not arm them. False when the fds cannot wake a sleeper. Progress domain
 * locked. */
static bool watch(struct cq *cq)
{
    if (wait_fd(&cq->wait) < 0 || progress_forked(cq->progress))
        return false;
    cq->watch.rests = cq->wait.outer ? NULL : rests;
    return progress_has_thread(cq->progress) ||
           !progress_watch_locked(cq->progress, &cq->watch, wait_fd(&cq->wait));
}

/*
 * One look at the queue by a thread that has armed: the result of a read, or -FI_EAGAIN and how
 * long the thread may sleep (0: not at all).
 */
static ssize_t look(struct cq *cq, void *buf, size_t count, fi_addr_t *src, size_t threshold,
                    bool last, int *sleep_ms)
{
    ssize_t rc = -FI_EAGAIN;

    progress_lock(cq->progress);
    bool watched = watch(cq);
    if (readable(cq) < threshold && !cq->failed)
        progress_poll(cq->progress);
    if (readable(cq) >= threshold || cq->failed || last)
        rc = take(cq, buf, count, src);
    *sleep_ms = progress_reader_sleep_ms(cq->progress, watched);
    /* Arming took the signal from other sleepers; what this thread leaves is for them. */
    if (rc != -FI_EAGAIN && (readable(cq) || cq->failed))
        wait_signal(&cq->wait);
    progress_unlock(cq->progress);
    return rc;
}

/* The same for the other endpoints of the domain, which it may take this thread to drive. Of a
 * queue whose owner is the upper they are the upper's affair. */
static int look_at_others(struct cq *cq, bool bounded)
{
    if (cq->sink != &cq->peer || !progress_has_others(cq->progress))
        return -1;
    return progress_sleeper_look(cq->progress, &cq->sleeper, wait_fd(&cq->wait), bounded);
}

static ssize_t sleep_and_read(struct cq *cq, void *buf, size_t count, fi_addr_t *src,
                              size_t threshold, int timeout, unsigned signals)
{
    long long start = clock_ms();

    for (;;) {
        int left = wait_left(timeout, start), sleep_ms, blocked = 0;
        unsigned armed = wait_arm_inside(&cq->wait);
        ssize_t rc = look(cq, buf, count, src, threshold, left == 0, &sleep_ms);
        bool over = rc != -FI_EAGAIN || left == 0;

        if (rc == -FI_EAGAIN && taken_signal(cq, signals)) {
            wait_signal(&cq->wait);
            over = true;
        }
        if (!over && sleep_ms)
            sleep_ms = clock_shorter(sleep_ms, look_at_others(cq, true));
        if (!over && sleep_ms)
            blocked = wait_block(&cq->wait, armed, clock_shorter(left, sleep_ms));
        wait_disarm(&cq->wait);
        if (!over && threshold == 1) /* unarmed: its own finds cost no signal */
            rc = cq_readfrom(&cq->fid, buf, count, src);
        if (over || rc != -FI_EAGAIN || blocked == -FI_EINTR)
            return rc;
    }
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src,
                            const void *cond, int timeout)
{
    struct cq *cq = object_of(fid, struct cq, fid);
    size_t threshold = cq->wait_cond == FI_CQ_COND_THRESHOLD ? (size_t)(uintptr_t)cond : 1;
    unsigned signals;
    ssize_t rc;

    if (threshold <= 1) {
        rc = cq_readfrom(fid, buf, count, src);
        if (rc != -FI_EAGAIN)
            return rc;
    }
    /* The count comes first: each later signal either changes it or comes while no reader
     * sleeps. */
    signals = atomic_load(&cq->signals);
    atomic_fetch_add(&cq->sleepers, 1);
    rc = sleep_and_read(cq, buf, count, src, threshold ? threshold : 1, timeout, signals);
    atomic_fetch_sub(&cq->sleepers, 1);
    return rc;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
    return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
    struct cq *cq = object_of(fid, struct cq, fid);

    if (atomic_load(&cq->sleepers))
        atomic_fetch_add(&cq->signals, 1);
    else
        atomic_store(&cq->signalled, true);
    wait_signal(&cq->wait);
    return 0;
}

/* For the wait set that the queue is in. */
static bool look_for_set(struct wait *wait, int *sleep_ms)
{
    struct cq *cq = object_of(wait, struct cq, wait);

    wait_arm(wait);
    if (look(cq, NULL, 0, NULL, 1, false, sleep_ms) != -FI_EAGAIN ||
        atomic_exchange(&cq->signalled, false))
        return true;
    if (*sleep_ms)
        *sleep_ms = clock_shorter(*sleep_ms, look_at_others(cq, true));
    return false;
}

static int trywait(struct wait *wait)
{
    struct cq *cq = object_of(wait, struct cq, wait);
    int rc = 0;

    wait_arm(&cq->wait);
    /* An application that waits on a condition may hold its mutex, which a signal takes inside the
     * progress domain's lock. */
    if (!wait_has_mutex(&cq->wait))
        progress_lock(cq->progress);
    else if (!progress_trylock(cq->progress))
        return -FI_EAGAIN;
    if (readable(cq) || cq->failed)
        rc = -FI_EAGAIN;
    else if (!progress_has_thread(cq->progress) &&
             ((!cq->watched_above && !watch(cq)) || progress_sleep_ms(cq->progress) >= 0))
        rc = -FI_EAGAIN; /* nothing would wake the caller */
    else if (!progress_has_thread(cq->progress))
        rc = progress_trywait(cq->progress);
    progress_unlock(cq->progress);
    return rc || look_at_others(cq, false) >= 0 ? -FI_EAGAIN : 0;
}

static const struct wait_member member = {.look = look_for_set, .trywait = trywait};

int cq_trywait(struct cq *cq)
{
    return cq->wait.outer ? wait_set_trywait(cq->wait.outer) : trywait(&cq->wait);
}

bool cq_ready(struct cq *cq)
{
    bool ready, turn;

    if (progress_forked(cq->progress))
        return false;
    progress_lock(cq->progress);
    if (!readable(cq) && !cq->failed)
        progress_poll(cq->progress);
    ready = readable(cq) || cq->failed;
    turn = !ready || cq_others_turn(cq);
    progress_unlock(cq->progress);
    if (turn && progress_has_others(cq->progress))
        progress_drive_others(cq->progress, ready);
    return ready;
}

/* ---- Queues of which the upper is the owner: fi_peer(3) ---- */

static ssize_t peer_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
    struct cq *cq = object_of(fid, struct cq, fid);

    if (count)
        return -FI_ENOSYS;
    if (progress_forked(cq->progress))
        return -FI_EOPBADSTATE;
    progress_lock(cq->progress);
    progress_poll(cq->progress);
    progress_unlock(cq->progress);
    return 0;
}

static ssize_t peer_read(struct fid_cq *fid, void *buf, size_t count)
{
    return peer_readfrom(fid, buf, count, NULL);
}

static struct fi_ops_cq own_ops = {
    .size = sizeof(own_ops),
    .read = cq_read,
    .readfrom = cq_readfrom,
    .readerr = cq_readerr,
    .sread = cq_sread,
    .sreadfrom = cq_sreadfrom,
    .signal = cq_signal,
    .strerror = cq_strerror,
};

static struct fi_ops_cq peer_ops = {
    .size = sizeof(peer_ops),
    .read = peer_read,
    .readfrom = peer_readfrom,
    .readerr = enosys_cq_readerr,
    .sread = enosys_cq_sread,
    .sreadfrom = enosys_cq_sreadfrom,
    .signal = enosys_cq_signal,
    .strerror = cq_strerror,
};

const struct fi_ops_cq *const cq_ops = &own_ops;

/* A part may have a read of its own. */
struct cq *cq_of(struct fid *fid)
{
    struct fid_cq *cq = object_of(fid, struct fid_cq, fid);

    if (fid->fclass != FI_CLASS_CQ || cq->ops->strerror != cq_strerror)
        return NULL;
    return object_of(cq, struct cq, fid);
}

/* ---- Opening and closing ---- */

static int check_attr(const struct fi_cq_attr *attr, void *context)
{
    const struct fi_peer_cq_context *peer = context;

    if (attr->flags & ~(FI_PEER | FI_AFFINITY) || attr->format > FI_CQ_FORMAT_TAGGED ||
        attr->wait_cond > FI_CQ_COND_THRESHOLD)
        return -FI_EINVAL;
    if (attr->flags & FI_PEER && (!peer || peer->size < sizeof(*peer) || !peer->cq))
        return -FI_EINVAL;
    return 0;
}

/* The caller, threads of one domain or queue. */
static bool serializes(enum fi_threading threading)
{
    return threading == FI_THREAD_DOMAIN || threading == FI_THREAD_COMPLETION;
}

/* Another library, a hook or a layer may have functions of its own behind the upper's. */
static struct cq *into_of(struct cq *cq)
{
    return cq->sink->owner_ops == &ring_ops ? object_of(cq->sink, struct cq, peer) : cq;
}

static void fill(struct cq *cq, struct domain *domain, const struct fi_cq_attr *attr,
                 struct fi_ops *fid_ops, void *context)
{
    bool peer = attr->flags & FI_PEER;

    memset(cq, 0, sizeof(*cq));
    fid_init(&cq->fid.fid, FI_CLASS_CQ, peer ? NULL : context, fid_ops);
    cq->fid.ops = peer ? &peer_ops : &own_ops;
    fid_init(&cq->peer.fid, FI_CLASS_PEER_CQ, cq, fid_ops);
    cq->peer.owner_ops = &ring_ops;
    cq->sink = peer ? ((struct fi_peer_cq_context *)context)->cq : &cq->peer;
    cq->into = into_of(cq);
    cq->forwards = peer && cq->into == cq;
    cq->domain = domain;
    cq->format = attr->format;
    cq->entry_size = cq_entry_size(attr->format);
    cq->wait_cond = attr->wait_cond;
    cq->concurrent = !serializes(domain->info->domain_attr->threading);
    cq->vector = attr->flags & FI_AFFINITY ? attr->signaling_vector : -1;
    cq->size = attr->size;
    cq->errors_end = &cq->errors;
}

static void wake(struct progress_sleeper *sleeper)
{
    wait_signal(&object_of(sleeper, struct cq, sleeper)->wait);
}

int cq_init(struct cq *cq, struct domain *domain, const struct fi_cq_attr *attr,
            struct fi_ops *fid_ops, void *context)
{
    static const struct fi_cq_attr defaults;
    int rc;

    if (!attr)
        attr = &defaults;
    rc = check_attr(attr, context);
    if (rc)
        return rc;
    fill(cq, domain, attr, fid_ops, context);
    cq->spare = malloc(sizeof(*cq->spare));
    if (!cq->spare)
        return -FI_ENOMEM;
    if (cq->sink == &cq->peer && !grow(cq)) {
        free(cq->spare);
        return -FI_ENOMEM;
    }
    rc = wait_init(&cq->wait, attr->wait_obj, attr->wait_set);
    if (rc)
        goto free_ring;
    rc = progress_create(domain->info->domain_attr, domain->fabric->part, domain->progress_group,
                         &cq->progress);
    if (rc)
        goto finish_wait;
    progress_sleeper_join(cq->progress, &cq->sleeper, wake);
    children_hold(&domain->children);
    wait_set_join(&cq->wait, &member);
    return 0;

finish_wait:
    wait_finish(&cq->wait);
free_ring:
    free(cq->spare);
    free(cq->ring);
    return rc;
}

void cq_finish(struct cq *cq)
{
    wait_set_leave(&cq->wait);
    progress_unwatch(cq->progress, &cq->watch);
    progress_sleeper_leave(cq->progress, &cq->sleeper);
    progress_release(cq->progress);
    wait_finish(&cq->wait);
    while (cq->errors) {
        struct cq_error *next = cq->errors->next;

        free(cq->errors);
        cq->errors = next;
    }
    free(cq->shown);
    free(cq->spare);
    free(cq->ring);
    children_release(&cq->domain->children);
}

int cq_close_check(const struct cq *cq)
{
    return children_any(&cq->children) ? -FI_EBUSY : 0;
}

static int tell_sources(struct cq *cq, struct cq_sources *sources)
{
    if (cq->progress->locked || cq->wait.event_fd < 0)
        return -FI_ENOSYS;
    sources->progress = cq->progress;
    sources->fd = cq->wait.event_fd;
    cq->watched_above = true;
    return 0;
}

int cq_control(struct fid *fid, int command, void *arg)
{
    struct cq *cq = object_of(fid, struct cq, fid.fid);

    switch (command) {
    case FI_GETWAIT: cq->watched_above = false; return wait_get(&cq->wait, arg);
    case FI_GETWAITOBJ: *(enum fi_wait_obj *)arg = wait_kind(&cq->wait); return 0;
    case CONTROL_SOURCES: return tell_sources(cq, arg);
    default: return -FI_ENOSYS;
    }
}

static int close_default(struct fid *fid)
{
    struct cq *cq = object_of(fid, struct cq, fid.fid);
    int rc = cq_close_check(cq);

    if (rc)
        return rc;
    cq_finish(cq);
    free(cq);
    return 0;
}

static struct fi_ops fid_ops_default = {
    .size = sizeof(fid_ops_default),
    .close = close_default,
    .bind = enosys_bind,
    .control = cq_control,
    NO_FID_TABLES,
};

int cq_open(struct domain *domain, const struct fi_cq_attr *attr, struct fid_cq **ret_cq,
            void *context)
{
    struct cq *cq = malloc(sizeof(*cq));
    int rc;

    if (!cq)
        return -FI_ENOMEM;
    rc = cq_init(cq, domain, attr, &fid_ops_default, context);
    if (rc) {
        free(cq);
        return rc;
    }
    *ret_cq = &cq->fid;
    return 0;
}
