/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links of rails: a rail whose interface goes down, or loses its carrier, is down to all peers at
 * once, and when it is up again it is asked at once. Only rails that are an interface of this
 * network namespace have one. A busy reader looks every few milliseconds; before a sleep, and after
 * it, everybody does.
 */
#include <unistd.h>

#include <net/if.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/net/link_state.h"
#include "layers/mrail/mrail_ep.h"

#define LOOK_NS UINT64_C(10000000)

/* Peers that rest wake, so that the rail is told of at once; without memory they learn of it when
 * they do. */
static void tell_peers(struct mrail_ep *ep, unsigned rail, bool up)
{
    uint64_t now = clock_ns();

    for (size_t i = 0; i < MRAIL_BUCKETS; i++) {
        for (struct mrail_peer *peer = ep->buckets[i]; peer; peer = peer->next) {
            struct mrail_session *session = mrail_session_wake(ep, peer);

            if (!session)
                continue;
            flow_rail_link(&session->flow, rail, up, now);
            mrail_ready(session);
        }
    }
}

static void told(void *arg, unsigned index, bool up)
{
    struct mrail_ep *ep = arg;

    for (unsigned i = 0; i < ep->count; i++) {
        struct mrail_way *way = &ep->way[i];

        if (way->link != index || way->unlinked == !up)
            continue;
        way->unlinked = !up;
        tell_peers(ep, i, up);
    }
}

static void look(struct mrail_ep *ep)
{
    struct mrail_links *links = &ep->links;

    if (!link_state_read(links->source.fd, told, ep)) {
        progress_detach(ep->up.progress, &links->source);
        close(links->source.fd);
        links->source.fd = -1;
    }
}

void mrail_links_look(struct mrail_ep *ep, uint64_t now)
{
    if (ep->links.source.fd < 0 || now < ep->links.next)
        return;
    ep->links.next = now + LOOK_NS;
    look(ep);
}

/* Only after a sleep: else mrail_run looks, from time to time. */
static void poll_links(struct progress_source *source)
{
    struct mrail_links *links = object_of(source, struct mrail_links, source);
    struct mrail_ep *ep = object_of(links, struct mrail_ep, links);

    if (!links->slept || ep->up.running || progress_forked(ep->up.progress))
        return;
    links->slept = false;
    look(ep);
    if (!list_empty(&ep->up.ready))
        mrail_run(ep);
}

static int may_sleep(struct progress_source *source)
{
    object_of(source, struct mrail_links, source)->slept = true;
    return 0;
}

void mrail_links_init(struct mrail_ep *ep)
{
    ep->links.source = (struct progress_source){.poll = poll_links, .trywait = may_sleep, .fd = -1};
    list_init(&ep->links.source.link);
}

void mrail_links_open(struct mrail_ep *ep)
{
    bool any = false;

    for (unsigned i = 0; i < ep->count; i++) {
        const char *name = ep->domain->rail[i].info->domain_attr->name;

        ep->way[i].link = name ? if_nametoindex(name) : 0;
        any = any || ep->way[i].link;
    }
    if (!any || link_state_open(&ep->links.source.fd))
        return;
    if (progress_attach(ep->up.progress, &ep->links.source)) {
        close(ep->links.source.fd);
        ep->links.source.fd = -1;
        return;
    }
    look(ep);
}

void mrail_links_close(struct mrail_ep *ep)
{
    if (ep->links.source.fd < 0)
        return;
    progress_detach(ep->up.progress, &ep->links.source);
    close(ep->links.source.fd);
    ep->links.source.fd = -1;
}
