/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions: memory of what is under way with a peer, from the first message or packet on until a
 * second after the last. The name of a peer is with its session; one that rests has it from the
 * address vector, or keeps a copy where it is not in there.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "layers/mrail/mrail_ep.h"

struct mrail_session *mrail_session_find(const struct mrail_ep *ep, uint64_t number)
{
    const struct mrail_peer *peer = ids_find(&ep->numbers, number);

    return peer ? mrail_session_of(peer) : NULL;
}

/* Its flow goes on where it was when the peer came to rest. */
static void begin_flow(struct mrail_session *session)
{
    struct mrail_ep *ep = session->ep;
    const struct mrail_peer *peer = session->peer;
    struct flow_rest_path kept[MRAIL_RAILS];
    uint64_t now = clock_ns();

    flow_init(&session->flow, &ep->config, session->paths, ep->count);
    session->flow.follows = memcmp(ep->name, session->name, ep->name_size) > 0;
    session->flow.shut = ep->up.saved_count >= ep->up.saved_most;
    for (unsigned i = 0; i < ep->count; i++) {
        kept[i] = peer->rail[i].kept;
        if (peer->rail[i].lower != MRAIL_NO_ADDR)
            flow_add_path(&session->flow, i);
    }
    flow_wake(&session->flow, &peer->rest, kept, now);
    for (unsigned i = 0; i < ep->count; i++) {
        if (ep->way[i].unlinked && session->paths[i].state == PATH_UP)
            flow_rail_link(&session->flow, i, false, now);
    }
}

struct mrail_session *mrail_session_wake(struct mrail_ep *ep, struct mrail_peer *peer)
{
    struct mrail_session *session = mrail_session_of(peer);
    size_t paths = ep->count * sizeof(session->paths[0]);
    const uint8_t *name;
    uint8_t *own;

    if (session)
        return session;
    session = calloc(1, sizeof(*session) + paths + ep->name_size);
    if (!session)
        return NULL;
    session->ep = ep;
    session->peer = peer;
    list_init(&session->ready);
    timer_init(&session->timer);
    own = (uint8_t *)&session->paths[ep->count];
    name = mrail_peer_name(ep, peer);
    session->name = name ? memcpy(own, name, ep->name_size) : own;
    begin_flow(session);
    free(peer->name);
    peer->session = session;
    peer->rest.rests = false;
    return session;
}

void mrail_session_free(struct mrail_session *session)
{
    list_detach(&session->ready);
    timer_stop(&session->timer);
    for (unsigned i = 0; i < session->ep->count; i++)
        session->ep->way[i].down -= session->told_down[i];
    free(session);
}

uint64_t mrail_session_rest(struct mrail_session *session, uint64_t now)
{
    struct mrail_peer *peer = session->peer;
    struct mrail_ep *ep = session->ep;
    struct flow_rest_path kept[MRAIL_RAILS];
    uint8_t *name = NULL;

    if (now < session->flow.heard + FLOW_REST_AFTER)
        return session->flow.heard + FLOW_REST_AFTER; /* the cheaper question first */
    if (!list_empty(&session->ready) || !flow_may_rest(&session->flow))
        return UINT64_MAX;
    if (peer->addr == MRAIL_NO_ADDR) {
        name = malloc(ep->name_size);
        if (!name)
            return now + FLOW_REST_AFTER;
        memcpy(name, session->name, ep->name_size);
    }
    flow_rest(&session->flow, &peer->rest, kept, now);
    for (unsigned i = 0; i < ep->count; i++)
        peer->rail[i].kept = kept[i];
    mrail_session_free(session);
    peer->name = name;
    return 0;
}
