/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <sys/random.h>

#include "core/base/clock.h"
#include "layers/arq/arq_ep.h"

/* An identifier that a forger cannot guess; its lower bits are the index. */
static uint64_t make_id(struct arq_ep *ep, uint64_t index)
{
    uint64_t random, now[2] = {clock_ns(), index};

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
        random = gate_hash(ep->gate.key, now, sizeof(now));
    random = (random & ~ep->peers.ids.mask) | index;
    return random > ep->peers.ids.mask ? random : random | (ep->peers.ids.mask + 1);
}

static void init_lists(struct arq_link *link)
{
    list_init(&link->ready);
    list_init(&link->blocked);
    list_init(&link->talker);
    timer_init(&link->timer);
}

int arq_link_open(struct arq_ep *ep, struct arq_peer *peer, uint64_t other, uint64_t now)
{
    struct arq_peers *peers = &ep->peers;
    struct arq_link *link;
    uint64_t index;

    if (peers->link_count >= peers->link_most)
        return -FI_EAGAIN;
    if (peer->lower == FI_ADDR_NOTAVAIL)
        peer->lower = arq_lower_insert(ep, &peer->name);
    if (peer->lower == FI_ADDR_NOTAVAIL)
        return -FI_EHOSTUNREACH;
    link = malloc(sizeof(*link));
    index = link ? ids_add(&peers->ids, link) : IDS_NONE;
    if (index == IDS_NONE) {
        free(link);
        return -FI_ENOMEM;
    }
    session_init(&link->session, &ep->config, make_id(ep, index), other, arq_credit(ep), now);
    link->ep = ep;
    link->peer = peer;
    link->opened = now;
    link->talked = 0;
    init_lists(link);
    list_attach(&link->all, &peers->links);
    peers->link_count++;
    peer->link = link;
    return 0;
}

struct arq_link *arq_link_find(const struct arq_peers *peers, uint64_t id)
{
    struct arq_link *link = ids_find(&peers->ids, id & peers->ids.mask);

    return link && link->session.id == id ? link : NULL;
}

static void leave_peer(struct arq_link *link)
{
    struct arq_peer *peer = link->peer;
    struct arq_ep *ep = link->ep;

    if (!peer || peer->link != link)
        return;
    peer->link = NULL;
    arq_lower_forget(ep, peer->lower);
    peer->lower = FI_ADDR_NOTAVAIL;
    arq_peer_drop_unused(ep, peer);
}

void arq_link_close(struct arq_link *link)
{
    struct arq_ep *ep = link->ep;

    leave_peer(link);
    list_detach(&link->ready);
    list_detach(&link->blocked);
    if (!list_empty(&link->talker))
        ep->talker_count--;
    list_detach(&link->talker);
    list_detach(&link->all);
    timer_stop(&link->timer);
    ids_remove(&ep->peers.ids, link->session.id & ep->peers.ids.mask);
    ep->peers.link_count--;
    session_finish(&link->session);
    free(link);
}
