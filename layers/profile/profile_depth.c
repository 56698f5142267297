/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/profile/profile_depth.h"

#include <stdlib.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "core/part/part.h"

struct watched {
    struct list link;
    struct hook_ep *ep;
    const struct hook_cq *cq; /* of its receives */
    size_t count;             /* told last */
};

void profile_depth_init(struct profile_depth *depth)
{
    pthread_mutex_init(&depth->mutex, NULL);
    list_init(&depth->endpoints);
}

void profile_depth_finish(struct profile_depth *depth)
{
    list_for_each_safe (pos, after, &depth->endpoints)
        free(list_item(pos, struct watched, link));
    pthread_mutex_destroy(&depth->mutex);
}

static bool ask(const struct hook_ep *ep, size_t *count)
{
    size_t len = sizeof(*count);

    return !fi_getopt(&ep->lower->fid, FI_OPT_ENDPOINT, OPT_UNEXPECTED, count, &len);
}

void profile_depth_add(struct profile_depth *depth, struct hook_ep *ep, const struct hook_cq *cq)
{
    struct watched *watched;
    size_t count;

    if (!ask(ep, &count))
        return;
    watched = calloc(1, sizeof(*watched));
    if (!watched)
        return;
    watched->ep = ep;
    watched->cq = cq;
    pthread_mutex_lock(&depth->mutex);
    list_attach(&watched->link, &depth->endpoints);
    atomic_store(&depth->any, true);
    atomic_store(&depth->ever, true);
    pthread_mutex_unlock(&depth->mutex);
}

static void raise_most(struct profile_depth *depth, uint64_t value)
{
    uint_fast64_t most = atomic_load_explicit(&depth->most, memory_order_relaxed);

    while (value > most && !atomic_compare_exchange_weak(&depth->most, &most, value))
        ;
}

/* Mutex held. */
static void tell(struct profile_depth *depth)
{
    uint64_t sum = 0;

    list_for_each (pos, &depth->endpoints)
        sum += list_item(pos, struct watched, link)->count;
    atomic_store_explicit(&depth->asked, sum, memory_order_relaxed);
    raise_most(depth, sum);
}

void profile_depth_remove(struct profile_depth *depth, const struct hook_ep *ep)
{
    pthread_mutex_lock(&depth->mutex);
    list_for_each_safe (pos, after, &depth->endpoints) {
        struct watched *watched = list_item(pos, struct watched, link);

        if (watched->ep != ep)
            continue;
        list_detach(&watched->link);
        free(watched);
    }
    atomic_store(&depth->any, !list_empty(&depth->endpoints));
    tell(depth);
    pthread_mutex_unlock(&depth->mutex);
}

static bool is_of(const struct watched *watched, const struct fid *of)
{
    return of == &watched->ep->fid.fid || of == &watched->ep->domain->fid.fid;
}

uint64_t profile_depth_ask(struct profile_depth *depth, const struct fid *of)
{
    uint64_t sum = 0;

    pthread_mutex_lock(&depth->mutex);
    list_for_each (pos, &depth->endpoints) {
        struct watched *watched = list_item(pos, struct watched, link);
        const struct hook_ep *ep = watched->ep;

        if (is_of(watched, of) && ask(ep, &watched->count))
            sum += watched->count;
    }
    tell(depth);
    pthread_mutex_unlock(&depth->mutex);
    return sum;
}

int profile_depth_list(struct profile_depth *depth, const struct fid *of, void *data, size_t *size)
{
    size_t room = *size, needed = 0;
    int rc = 0;

    pthread_mutex_lock(&depth->mutex);
    list_for_each (pos, &depth->endpoints) {
        const struct watched *watched = list_item(pos, struct watched, link);
        size_t len = needed < room ? room - needed : 0;
        int one;

        if (!is_of(watched, of))
            continue;
        one = fi_getopt(&watched->ep->lower->fid, FI_OPT_ENDPOINT, OPT_UNEXPECTED_QUEUE,
                        (char *)data + (needed < room ? needed : room), &len);
        if (one && one != -FI_ETOOSMALL) {
            rc = one;
            break;
        }
        needed += len;
    }
    pthread_mutex_unlock(&depth->mutex);
    *size = needed;
    return rc ? rc : needed > room ? -FI_ETOOSMALL : 0;
}

void profile_depth_sample(struct profile_depth *depth, const struct hook_cq *cq)
{
    if (pthread_mutex_trylock(&depth->mutex))
        return;
    list_for_each (pos, &depth->endpoints) {
        struct watched *watched = list_item(pos, struct watched, link);

        if (watched->cq == cq)
            ask(watched->ep, &watched->count);
    }
    tell(depth);
    pthread_mutex_unlock(&depth->mutex);
}

void profile_depth_count(struct profile_depth *depth, bool waits)
{
    if (waits)
        raise_most(depth, atomic_fetch_add(&depth->passed, 1) + 1);
    else
        atomic_fetch_sub(&depth->passed, 1);
}
