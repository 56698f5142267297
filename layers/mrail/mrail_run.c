/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress: packets that have arrived go to their flows, then each flow that has something to do is
 * run, once. Deadlines are in `timers`; a flow is run at its deadline at the latest, and may be run
 * too early, so that the list is changed only when a deadline comes nearer.
 */
#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/queue/eq.h"
#include "layers/mrail/mrail_ep.h"

enum {
    QUIET_MS = 60000,
    DEADLINES_EVERY = 8,    /* of so many looks that find nothing one asks the clock */
    LONGEST_PAUSE = 256000, /* ns, between looks at a silent rail: small messages keep to others */
};

void mrail_ready(struct mrail_session *session)
{
    if (!list_empty(&session->ready) && !session->late)
        return;
    list_detach(&session->ready);
    session->late = false;
    list_attach(&session->ready, &session->ep->up.ready);
}

/* ---- Rails ---- */

static const char *name_of(const struct mrail_ep *ep, unsigned rail)
{
    const char *name = ep->domain->rail[rail].info->domain_attr->name;

    return name ? name : "";
}

/* Events count rails from 0, what a user reads from 1, as compose does. */
static void tell_down(struct mrail_ep *ep, unsigned rail, int err)
{
    struct fi_eq_err_entry entry = {
        .fid = ep->events.fid,
        .context = ep->events.fid ? ep->events.fid->context : NULL,
        .data = ep->domain->rail[rail].slot,
        .err = FI_ENETDOWN,
        .prov_errno = err,
    };

    LOG_WARN("mrail", FI_LOG_EP_CTRL, "rail %zu (%s) is down: %s; others carry on",
             ep->domain->rail[rail].slot + 1, name_of(ep, rail),
             err ? fi_strerror(err) : "it is silent");
    if (ep->events.eq)
        eq_write_error(ep->events.eq, &entry);
}

static void tell_back(struct mrail_ep *ep, unsigned rail)
{
    struct fi_eq_entry entry = {
        .fid = ep->events.fid,
        .context = ep->events.fid ? ep->events.fid->context : NULL,
        .data = ep->domain->rail[rail].slot,
    };

    LOG_WARN("mrail", FI_LOG_EP_CTRL, "rail %zu (%s) is back", ep->domain->rail[rail].slot + 1,
             name_of(ep, rail));
    if (ep->events.eq)
        eq_write(ep->events.eq, FI_NOTIFY, &entry, sizeof(entry));
}

/* A rail is said to be down when another reaches the same peer: else it may be the peer. */
void mrail_turned(struct flow *flow, unsigned rail, bool up, int err)
{
    struct mrail_session *session = mrail_session_of_flow(flow);
    struct mrail_way *way = &session->ep->way[rail];

    if (up) {
        if (!session->told_down[rail])
            return;
        session->told_down[rail] = false;
        if (!--way->down)
            tell_back(session->ep, rail);
        return;
    }
    if (session->ep->closing || !flow_has_rail(flow, rail))
        return;
    session->told_down[rail] = true;
    if (!way->down++)
        tell_down(session->ep, rail, way->unlinked ? FI_ENETDOWN : err);
}

void mrail_ended(struct flow *flow, int err)
{
    struct mrail_session *session = mrail_session_of_flow(flow);

    mrail_peer_renew(session->ep, session->peer);
}

/* ---- Packets that have arrived ---- */

void mrail_say_wrong(struct mrail_ep *ep, const char *wrong)
{
    long long now = clock_ms();

    if (ep->told_ms && now - ep->told_ms < QUIET_MS)
        return;
    ep->told_ms = now;
    LOG_WARN("mrail", FI_LOG_EP_DATA,
             "%s came, and is dropped; further ones within a minute are not told", wrong);
}

/* A packet has come: is the flow to be run? Else at its deadline. */
static void settle(struct mrail_session *session, uint64_t now)
{
    uint64_t due = flow_settle(&session->flow), rests = now + FLOW_REST_AFTER;

    if (due)
        packet_ep_set_timer(&session->ep->up, &session->timer, due < rests ? due : rests);
    else
        mrail_ready(session);
}

/* The application waits for the message, and perhaps the peer for its answer: what can be done
 * behind that is done with the next look, or before a sleep. */
static void settle_later(struct mrail_session *session, uint64_t now)
{
    struct mrail_ep *ep = session->ep;

    if (list_empty(&session->ready)) {
        list_attach(&session->ready, &ep->late);
        session->late = true;
    }
    ep->late_ns = now;
}

static void settle_late(struct mrail_ep *ep)
{
    ep->up.running = true;
    while (!list_empty(&ep->late)) {
        struct mrail_session *session = list_item(ep->late.next, struct mrail_session, ready);

        list_detach(&session->ready);
        session->late = false;
        settle(session, ep->late_ns);
    }
    ep->up.running = false;
}

/* The peer sends more than small messages, and that by all rails. */
static void expect_all(struct mrail_ep *ep)
{
    for (unsigned i = 0; i < ep->count; i++)
        silence_end(&ep->way[i].silence);
}

static void take_packet(struct mrail_ep *ep, struct mrail_packet *packet, uint64_t now)
{
    struct mrail_head head = {.type = 0};
    const char *wrong = mrail_head_get(packet->bytes, packet->len, &head);
    struct mrail_session *session = wrong ? NULL : mrail_session_from(ep, packet, &head, &wrong);
    size_t size;

    if (packet->len > MRAIL_HEAD_MAX + ep->config.small)
        expect_all(ep);
    if (session) {
        size = mrail_head_size(&head);
        wrong = flow_receive(&session->flow, packet->rail, &head, packet->bytes + size,
                             packet->len - size, now);
        if (flow_may_settle_later(&session->flow))
            settle_later(session, now);
        else
            settle(session, now);
    }
    if (__builtin_expect(!!wrong, 0))
        mrail_say_wrong(ep, wrong);
}

void mrail_take_arrived(struct mrail_ep *ep, uint64_t now)
{
    while (!list_empty(&ep->up.arrived)) {
        struct mrail_packet *packet = list_item(ep->up.arrived.next, struct mrail_packet, link);

        list_detach(&packet->link);
        if (packet->stripe) {
            mrail_stripe_came(packet, now);
            continue;
        }
        ep->current = packet;
        take_packet(ep, packet, now);
        if (ep->current)
            mrail_packet_put(packet);
        ep->current = NULL;
    }
}

/* ---- Flows ---- */

static void run_session(struct mrail_session *session, uint64_t now)
{
    struct mrail_ep *ep = session->ep;
    uint64_t due, rests;

    list_detach(&session->ready);
    for (unsigned i = 0; i < ep->count; i++) {
        int err = session->failed[i];

        session->failed[i] = 0;
        if (err)
            flow_rail_failed(&session->flow, i, err, now);
    }
    due = flow_run(&session->flow, now);
    rests = mrail_session_rest(session, now);
    if (rests)
        packet_ep_set_timer(&ep->up, &session->timer, due < rests ? due : rests);
}

void mrail_run(struct mrail_ep *ep)
{
    uint64_t now = clock_ns();
    struct timer *timer;

    ep->up.running = true;
    mrail_links_look(ep, now);
    do {
        mrail_take_arrived(ep, now);
        while ((timer = timers_due(&ep->up.timers, (int64_t)now))) {
            timer_stop(timer);
            mrail_ready(list_item(timer, struct mrail_session, timer));
        }
        mrail_receive_run(ep);
        while (!list_empty(&ep->up.ready)) {
            run_session(list_item(ep->up.ready.next, struct mrail_session, ready), now);
            if (!list_empty(&ep->up.ready))
                now = clock_ns();
        }
        if (__builtin_expect(ep->abandons, 0))
            mrail_reads_abandon(ep, now);
    } while (packet_ep_is_ready(&ep->up));
    ep->up.running = false;
}

/* Is there anything that a peer may still take? */
bool mrail_busy(const struct packet_ep *up)
{
    const struct mrail_ep *ep = mrail_ep_of_packets(up);

    for (size_t i = 0; i < MRAIL_BUCKETS; i++) {
        for (const struct mrail_peer *peer = ep->buckets[i]; peer; peer = peer->next) {
            const struct mrail_session *session = mrail_session_of(peer);

            if (session && flow_busy(&session->flow) && flow_has_rail(&session->flow, FLOW_NO_RAIL))
                return true;
        }
    }
    return false;
}

/* ---- The rails' sources ---- */

static struct mrail_way *way_of(struct progress_source *source)
{
    return object_of(source, struct mrail_way, source.source);
}

/* One whose lower still has packets to send is looked at, too, and so are all while peers may read
 * our memory. */
static inline bool is_passed_over(const struct mrail_ep *ep, struct mrail_way *way)
{
    return ep->busy != way && !way->sending && list_empty(&ep->regions) &&
           silence_skips(&way->silence, LONGEST_PAUSE);
}

static inline void look(struct mrail_ep *ep, struct mrail_way *way)
{
    size_t before = way->completed;

    if (__builtin_expect(way->source.driven != NULL, 1))
        progress_poll_lower(way->source.driven);
    else
        lower_cq_progress(way->source.cq);
    if (way->completed == before) {
        silence_found_nothing(&way->silence);
        return;
    }
    silence_end(&way->silence);
    progress_takes++;
    ep->busy = way;
}

static inline bool has_work(struct mrail_ep *ep)
{
    if (packet_ep_is_ready(&ep->up) || mrail_has_refused(ep))
        return true;
    return !list_empty(&ep->up.timers) && !(++ep->waits % DEADLINES_EVERY);
}

static __attribute__((noinline)) void poll_way(struct mrail_ep *ep, struct mrail_way *way,
                                               bool looks)
{
    if (!list_empty(&ep->late))
        settle_late(ep);
    if (looks)
        look(ep, way);
    if (__builtin_expect(av_watch_any(&ep->up.watch), 0))
        mrail_peers_take_changes(ep);
    if (has_work(ep))
        mrail_run(ep);
    if (way->fed + way->feed_batch <= way->feed)
        mrail_way_feed(way);
    if (__builtin_expect(!list_empty(&ep->up.timer.source.link), 0))
        packet_ep_quiet_timer(&ep->up);
}

void mrail_poll(struct progress_source *source)
{
    struct mrail_way *way = way_of(source);
    struct mrail_ep *ep = way->ep;
    bool looks;

    if (__builtin_expect(!ep->driven || ep->up.running || progress_forked(ep->up.progress), 0))
        return;
    looks = !is_passed_over(ep, way);
    if (looks || way == ep->way) /* the first one looks after deadlines, too */
        poll_way(ep, way, looks);
}

/* A peer that waits for an acknowledgement does not wait for our sleep to end. True: something has
 * left, perhaps by a rail that was asked already whether it may sleep. */
static bool acknowledge(struct mrail_ep *ep)
{
    list_for_each (pos, &ep->up.timers) {
        struct mrail_session *session = list_item(pos, struct mrail_session, timer.link);

        if (flow_flush(&session->flow))
            mrail_ready(session);
    }
    if (list_empty(&ep->up.ready))
        return false;
    mrail_run(ep);
    return true;
}

/* The lower may complete from inside of its own. */
int mrail_trywait(struct progress_source *source)
{
    struct mrail_way *way = way_of(source);
    struct mrail_ep *ep = way->ep;
    int rc;

    if (!ep->driven || progress_forked(ep->up.progress))
        return 0;
    if (!list_empty(&ep->late)) {
        settle_late(ep);
        return -FI_EAGAIN; /* ends of sends may have been told */
    }
    if (packet_ep_is_busy(&ep->up) || mrail_has_refused(ep))
        return -FI_EAGAIN;
    if (acknowledge(ep) || packet_ep_sleep(&ep->up, (int64_t)clock_ns(), TIMER_NEVER))
        return -FI_EAGAIN;
    rc = lower_cq_trywait(ep->domain->rail[way - ep->way].lower, way->source.cq);
    if (rc)
        silence_end(&way->silence); /* whoever goes on looking shall see it */
    return !rc && packet_ep_is_busy(&ep->up) ? -FI_EAGAIN : rc;
}
