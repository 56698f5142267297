/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/verbs/verbs_cq.h"

#include <fcntl.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "transports/verbs/verbs_chain.h"
#include "transports/verbs/verbs_quick.h"
#include "transports/verbs/verbs_single.h"
#include "transports/verbs/verbs_srx.h"

enum {
    POLLS = 8,        /* of one round */
    FIRST = 1024,     /* entries of a new queue, at least */
    INDEX_BITS = 20,  /* of an endpoint's number */
    NUMBER_BITS = 31, /* as wr_id has room for, beside the bit of shared contexts */
};

size_t verbs_cq_room(size_t size, size_t claimed, size_t more, size_t most)
{
    size_t need = claimed + more, room = size ? size : FIRST;

    if (need > most)
        return SIZE_MAX;
    while (room < need)
        room *= 2;
    return room < most ? room : most;
}

/* ---- Polling ---- */

static inline __attribute__((always_inline)) void take_of(struct verbs_ep *ep,
                                                          const struct ibv_wc *wc)
{
    uint32_t slot = (uint32_t)wc->wr_id & 0x7fffffff;

    if (wc->wr_id >> 31 & 1) {
        if (!verbs_quick_received(ep, slot, wc))
            verbs_ep_received(ep, slot, wc);
    } else if (!verbs_quick_sent(ep, slot, wc)) {
        verbs_ep_sent(ep, slot, wc);
    }
}

/* Of another endpoint than the entry before, of a shared context, or of none that there is. */
__attribute__((noinline)) static void take_other(struct verbs_cq *cq, const struct ibv_wc *wc)
{
    uint64_t number = wc->wr_id >> 32;
    struct verbs_ep *ep = ids_find(&cq->eps, number);

    if (!ep) {
        if (wc->wr_id >> 63)
            verbs_srx_received(cq, (uint32_t)wc->wr_id & 0x7fffffff, wc);
        return;
    }
    cq->last = number;
    cq->last_ep = ep;
    take_of(ep, wc);
}

/* Several entries in turn are of one endpoint, mostly. */
static void take(struct verbs_cq *cq, const struct ibv_wc *wc)
{
    if (__builtin_expect(wc->wr_id >> 32 == cq->last, 1))
        take_of(cq->last_ep, wc);
    else
        take_other(cq, wc);
}

static int poll_batch(struct verbs_cq *cq)
{
    struct ibv_wc wcs[VERBS_CQ_BATCH];
    int count = ibv_poll_cq(cq->ibv, cq->batch, wcs);

    for (const struct ibv_wc *wc = wcs; wc < wcs + count; wc++)
        take(cq, wc);
    return count;
}

void verbs_cq_take(struct verbs_cq *cq, const struct ibv_wc *wcs, int count)
{
    for (const struct ibv_wc *wc = wcs; wc < wcs + count; wc++)
        take(cq, wc);
}

static int poll_some(struct verbs_cq *cq)
{
    int total = 0, count;

    do {
        count = poll_batch(cq);
        total += count > 0 ? count : 0;
    } while (count == cq->batch && total < POLLS * cq->batch);
    return total;
}

/* Whether the channel told: its fd stays readable until that is taken. */
static bool take_event(struct verbs_cq *cq)
{
    struct ibv_cq *which;
    void *context;

    if (verbs_lib.get_cq_event(cq->channel, &which, &context))
        return false;
    verbs_lib.ack_cq_events(which, 1);
    cq->armed = cq->event_due = false;
    return true;
}

/* False: the channel will not tell. */
static bool arm(struct verbs_cq *cq)
{
    if (!cq->armed)
        cq->armed = !ibv_req_notify_cq(cq->ibv, 0);
    cq->arm_due = !cq->armed;
    return cq->armed;
}

/* Entries of an armed queue have an event, which may come after them. A thread that polls takes it
 * from one that sleeps on the fd and is not concerned by the entries: so the queue is armed while
 * any thread may sleep, and polled once more for what came in between. */
__attribute__((noinline)) static void tend(struct verbs_cq *cq, int count)
{
    if (cq->armed && (count || cq->event_due))
        cq->event_due = !take_event(cq);
    if (!cq->armed && progress_watched(cq->progress) && arm(cq))
        cq->event_due = poll_some(cq);
}

/* Several entries, and what came behind them. */
__attribute__((noinline)) static void take_batch(struct verbs_cq *cq, const struct ibv_wc *wcs,
                                                 int count)
{
    verbs_cq_take(cq, wcs, count);
    if (count == cq->batch)
        poll_some(cq);
}

__attribute__((noinline)) static void poll_armed(struct verbs_cq *cq)
{
    if (cq->has_chained)
        verbs_chain_flush_all(cq);
    tend(cq, poll_some(cq));
}

/* A queue of a watched progress domain is armed since its last trywait, or could not be. */
void verbs_cq_poll(struct progress_source *source)
{
    struct verbs_cq *cq = object_of(source, struct verbs_cq, source);
    struct ibv_wc wcs[VERBS_CQ_BATCH];
    int count;

    if (__builtin_expect(cq->armed || cq->arm_due || cq->has_chained || cq->single, 0)) {
        poll_armed(cq);
        return;
    }
    count = ibv_poll_cq(cq->ibv, cq->batch, wcs);
    if (__builtin_expect(count == 1, 1))
        take(cq, wcs);
    else if (count > 0)
        take_batch(cq, wcs, count);
}

/* ---- Sleepers ---- */

/* It takes an event without an entry too, or the sleeper would never sleep. */
static int trywait(struct progress_source *source)
{
    struct verbs_cq *cq = object_of(source, struct verbs_cq, source);

    verbs_chain_flush_all(cq);
    if (cq->armed)
        take_event(cq);
    if (!arm(cq))
        return -FI_EAGAIN;
    if (!poll_some(cq))
        return 0;
    cq->event_due = true;
    return -FI_EAGAIN;
}

/* ---- Their life ---- */

static void destroy(struct verbs_cq *cq)
{
    bool forked = cq->progress && progress_forked(cq->progress);

    if (cq->ibv && !forked)
        verbs_lib.destroy_cq(cq->ibv);
    if (!forked)
        verbs_single_close(cq);
    if (cq->channel && !forked)
        verbs_lib.destroy_comp_channel(cq->channel);
    ids_finish(&cq->eps);
    free(cq);
}

/* Events for several entries at once. A device that cannot tells of each. */
static void moderate(struct verbs_cq *cq)
{
    const struct params *params = cq->domain->fabric->params;
    struct ibv_modify_cq_attr attr = {
        .attr_mask = IBV_CQ_ATTR_MODERATE,
        .moderate = {.cq_count = (uint16_t)params_int(params, "moderation_count"),
                     .cq_period = (uint16_t)params_int(params, "moderation_time")}};
    int rc;

    /* With a count alone the last entries would never be told of. */
    if (!attr.moderate.cq_period)
        return;
    if (!attr.moderate.cq_count)
        attr.moderate.cq_count = UINT16_MAX;
    rc = ibv_modify_cq(cq->ibv, &attr);
    if (rc)
        LOG_WARN("verbs", FI_LOG_CQ, "%s does not moderate its events: %s",
                 cq->domain->device->name, fi_strerror(rc));
}

static int open_device_cq(struct verbs_cq *cq, const struct progress *progress, size_t entries)
{
    struct ibv_context *context = cq->domain->device->context;
    size_t size = verbs_cq_room(0, 0, entries, (size_t)cq->domain->device->attr.max_cqe);
    int flags;

    if (size == SIZE_MAX) {
        LOG_WARN("verbs", FI_LOG_CQ,
                 "%s has completion queues of %d entries; an endpoint needs "
                 "%zu (tx_size and rx_size)",
                 cq->domain->device->name, cq->domain->device->attr.max_cqe, entries);
        return -FI_EINVAL;
    }
    cq->channel = verbs_lib.create_comp_channel(context);
    if (!cq->channel)
        return verbs_error(-1);
    flags = fcntl(cq->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(cq->channel->fd, F_SETFL, flags | O_NONBLOCK))
        return verbs_error(-1);
    cq->ibv = verbs_single_cq(cq, progress, size);
    if (!cq->ibv)
        cq->ibv = verbs_lib.create_cq(context, (int)size, cq, cq->channel,
                                      cq->vector < 0 ? 0 : cq->vector);
    if (!cq->ibv)
        return verbs_error(-1);
    verbs_single_open(cq, progress);
    moderate(cq);
    cq->size = (size_t)cq->ibv->cqe;
    cq->source.fd = cq->channel->fd;
    return 0;
}

static void init_receives(struct verbs_receives *receives)
{
    for (int i = 0; i < VERBS_RECEIVES; i++) {
        receives->wrs[i].sg_list = &receives->sges[i];
        receives->wrs[i].num_sge = 1;
        receives->wrs[i].next = i + 1 < VERBS_RECEIVES ? &receives->wrs[i + 1] : NULL;
    }
}

static int create(struct verbs_domain *domain, struct progress *progress, size_t entries,
                  int vector, struct verbs_cq **ret_cq)
{
    struct verbs_cq *cq = calloc(1, sizeof(*cq));
    int rc;

    if (!cq)
        return -FI_ENOMEM;
    cq->domain = domain;
    cq->vector = vector;
    cq->batch = params_int(domain->fabric->params, "cqread_bunch_size");
    cq->single = cq->batch == 1;
    ids_init(&cq->eps, INDEX_BITS, NUMBER_BITS);
    cq->last = IDS_NONE;
    list_init(&cq->link);
    list_init(&cq->chained);
    init_receives(&cq->receives);
    list_init(&cq->source.link);
    cq->source.poll = verbs_cq_poll;
    cq->source.trywait = trywait;
    cq->source.leaf = true;
    rc = open_device_cq(cq, progress, entries);
    if (!rc) {
        progress_lock(progress);
        rc = progress_watched(progress) && !arm(cq) ? -FI_EIO : 0; /* a thread may sleep already */
        if (!rc)
            rc = progress_attach(progress, &cq->source);
        progress_unlock(progress);
    }
    if (rc) {
        destroy(cq);
        return rc;
    }
    progress_hold(progress);
    cq->progress = progress;
    list_attach(&cq->link, &domain->cqs);
    *ret_cq = cq;
    return 0;
}

/* Makes room for more; false: this one has none. */
static bool widen(struct verbs_cq *cq, size_t entries)
{
    size_t room =
        verbs_cq_room(cq->size, cq->claimed, entries, (size_t)cq->domain->device->attr.max_cqe);
    bool fits;

    if (room <= cq->size)
        return true;
    if (room == SIZE_MAX)
        return false;
    progress_lock(cq->progress);
    fits = !verbs_lib.resize_cq(cq->ibv, (int)room);
    if (fits)
        cq->size = (size_t)cq->ibv->cqe;
    progress_unlock(cq->progress);
    return fits && cq->size >= cq->claimed + entries;
}

static int find_locked(struct verbs_domain *domain, struct progress *progress, size_t entries,
                       int vector, struct verbs_cq **cq)
{
    list_for_each (item, &domain->cqs) {
        struct verbs_cq *one = list_item(item, struct verbs_cq, link);

        if (progress_root(one->progress) != progress_root(progress) ||
            (vector >= 0 && vector != one->vector) || !widen(one, entries))
            continue;
        *cq = one;
        return 0;
    }
    return create(domain, progress, entries, vector, cq);
}

void verbs_cq_drain(struct verbs_cq *cq)
{
    while (poll_some(cq) == POLLS * cq->batch)
        continue;
}

int verbs_cq_join(struct verbs_domain *domain, struct progress *progress, struct verbs_ep *ep,
                  size_t entries, int vector, struct verbs_cq **ret_cq, uint64_t *number)
{
    int vectors = domain->device->context->num_comp_vectors;
    struct verbs_cq *cq = NULL;
    int rc;

    if (vector >= vectors) {
        LOG_WARN("verbs", FI_LOG_CQ, "signaling_vector %d; %s has %d, from 0", vector,
                 domain->device->name, vectors);
        return -FI_EINVAL;
    }

    pthread_mutex_lock(&domain->mutex);
    rc = find_locked(domain, progress, entries, vector, &cq);
    if (!rc) {
        cq->claimed += entries;
        cq->users++;
    }
    pthread_mutex_unlock(&domain->mutex);
    if (rc)
        return rc;
    progress_lock(cq->progress);
    *number = ids_add(&cq->eps, ep);
    progress_unlock(cq->progress);
    if (*number == IDS_NONE) {
        verbs_cq_leave(cq, IDS_NONE, entries);
        return -FI_ENOMEM;
    }
    *ret_cq = cq;
    return 0;
}

void verbs_cq_leave(struct verbs_cq *cq, uint64_t number, size_t entries)
{
    struct verbs_domain *domain = cq->domain;
    struct progress *progress;
    bool last;

    progress_lock(cq->progress);
    if (number != IDS_NONE)
        ids_remove(&cq->eps, number);
    cq->last = IDS_NONE;
    progress_unlock(cq->progress);
    pthread_mutex_lock(&domain->mutex);
    cq->claimed -= entries;
    last = !--cq->users;
    if (last)
        list_detach(&cq->link);
    pthread_mutex_unlock(&domain->mutex);
    if (!last)
        return;
    progress_lock(cq->progress);
    progress_detach(cq->progress, &cq->source);
    progress_unlock(cq->progress);
    progress = cq->progress;
    destroy(cq);
    progress_release(progress);
}
