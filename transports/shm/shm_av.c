/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers as the AV has them. Its listener may not take the progress domain's lock, and leaves a
 * note. */
#include "transports/shm/shm_ep.h"
#include "transports/shm/shm_peers.h"

static void inserted(struct av_listener *listener, fi_addr_t addr)
{
    struct shm_ep *ep = object_of(listener, struct shm_ep, watch);

    atomic_store(&ep->stale_sources, true);
    if (ep->base.binding.progress)
        progress_wake(ep->base.binding.progress);
}

static void removed(struct av_listener *listener, fi_addr_t addr)
{
    atomic_store(&object_of(listener, struct shm_ep, watch)->stale_peers, true);
    inserted(listener, addr);
}

void shm_av_watch(struct shm_ep *ep)
{
    ep->watch.inserted = inserted;
    ep->watch.removed = removed;
    ep->watch.progress = ep->base.binding.progress;
    av_attach(ep->base.av, &ep->watch);
}

void shm_av_resolve(struct shm_link *link)
{
    link->addr = link->ep->knows_sources ? av_find(link->ep->base.av, link->name) : FI_ADDR_UNSPEC;
}

void shm_av_forget_peers(struct shm_ep *ep)
{
    if (!atomic_exchange(&ep->stale_peers, false))
        return;
    shm_peers_forget(ep, NULL);
    shm_absent_forget(ep, FI_ADDR_UNSPEC);
}

void shm_av_catch_up(struct shm_ep *ep)
{
    shm_av_forget_peers(ep);
    if (!atomic_exchange(&ep->stale_sources, false) || !ep->knows_sources)
        return;
    list_for_each (pos, &ep->links) {
        struct shm_link *link = list_item(pos, struct shm_link, all);

        if (link->name)
            shm_av_resolve(link);
    }
    ep->base.in->owner_ops->foreach_unspec_addr(ep->base.in, shm_saved_source);
}
