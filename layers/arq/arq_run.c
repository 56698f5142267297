/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress: datagrams that have arrived go to their sessions, then each session that has something
 * to do is run, once. Deadlines are in `timers`; a session is run at its deadline at the latest,
 * and may be run too early, so that the list is changed only when a deadline comes nearer.
 */
#include <sched.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/seam.h"
#include "layers/arq/arq_ep.h"

#define NS_OF_MS 1000000

enum {
    CONGESTED = 3, /* RFC 3168 */
    VAIN = 100     /* looks that find nothing, about 30 us */
};

void arq_ready(struct arq_link *link)
{
    if (list_empty(&link->ready))
        list_attach(&link->ready, &link->ep->up.ready);
}

/* ---- Packets that have arrived ---- */

static void give_back(struct arq_ep *ep, struct arq_buffer *buffer)
{
    if (ep->current == buffer)
        arq_lower_put(ep, buffer);
    ep->current = NULL;
}

/* When the packet came, as far as the lower tells: it may have waited for us in the kernel, which
 * is nothing that the network has to do with. Where it does not tell, packets are read at once. */
static uint64_t came_at(const struct arq_buffer *buffer, uint64_t now)
{
    uint64_t waited = OPT_NOTE_WAITED_NS(buffer->note);

    return waited < now ? now - waited : now;
}

/* The last packet may be all that is to be done: an answer of the upper's takes the acknowledgement
 * with it. */
static void attend(struct arq_ep *ep, struct arq_link *link, uint64_t now)
{
    uint64_t until = session_rests_until(&link->session, now);

    if (until && arq_credit(ep))
        packet_ep_set_timer(&ep->up, &link->timer, until);
    else
        arq_ready(link);
}

static void note_wait(const struct arq_ep *ep, const struct arq_buffer *buffer,
                      struct arq_header *header)
{
    if (OPT_NOTE_WAITED_NS(buffer->note) || ep->lower.timed)
        return;
    header->late = ep->lower.late;
    header->slack = ep->gap;
}

static void take_packet(struct arq_ep *ep, struct arq_buffer *buffer, uint64_t now)
{
    const uint8_t *bytes = buffer->packet;
    struct arq_header header;
    enum arq_fault fault = arq_header_get(bytes, buffer->len, &header);
    struct arq_link *link;

    if (__builtin_expect(fault != ARQ_FINE, 0)) {
        arq_note_fault(ep, buffer, fault, now);
        return;
    }
    link = header.type == ARQ_OPEN ? NULL : arq_link_find(&ep->peers, header.to);
    if (__builtin_expect(!link || link->session.state == SESSION_ENDED, 0)) {
        arq_take_stranger(ep, buffer, &header, now);
        return;
    }
    note_wait(ep, buffer, &header);
    if (header.type == ARQ_DATA)
        arq_talks(link, now);
    else if (header.flags & ARQ_MARKS)
        arq_lower_watch_marks(ep);
    session_receive(&link->session, ep->read, &header, bytes, buffer->len,
                    OPT_NOTE_ECN(buffer->note) == CONGESTED);
    attend(ep, link, now);
}

/* Gives the session the train that buffer->packet begins, of so many bytes that lie end to end:
 * how many bytes the train has; 0: there is none, or the packet is to be taken by itself. */
static size_t take_pieces(struct arq_ep *ep, const struct arq_buffer *buffer, size_t left,
                          uint64_t now)
{
    const uint8_t *bytes = buffer->packet;
    size_t segment = buffer->segment;
    struct arq_header header;
    struct arq_link *link;
    unsigned count;

    if (arq_header_get(bytes, buffer->len, &header) != ARQ_FINE || header.type != ARQ_DATA)
        return 0;
    count = arq_train_get(bytes, left, segment, &header);
    link = count > 1 ? arq_link_find(&ep->peers, header.to) : NULL;
    if (!link)
        return 0;
    left = left < count * segment ? left : count * segment;
    note_wait(ep, buffer, &header);
    if (!session_receive_train(&link->session, ep->read, &header, bytes, left, segment, count,
                               OPT_NOTE_ECN(buffer->note) == CONGESTED))
        return 0;
    arq_talks(link, now);
    attend(ep, link, now);
    return left;
}

/* Takes datagrams that came together: trains of sessions whole, all others one by one. */
static void take_train(struct arq_ep *ep, struct arq_buffer *buffer, uint64_t now)
{
    size_t len = buffer->len, at = 0, next;
    const uint8_t *bytes = buffer->packet;

    for (; at < len; at = next) {
        size_t left = len - at;

        buffer->packet = bytes + at;
        buffer->len = left < buffer->segment ? left : buffer->segment;
        next = at + take_pieces(ep, buffer, left, now);
        if (next == at) {
            take_packet(ep, buffer, now);
            next = at + buffer->len;
        }
    }
}

static void take_arrived(struct arq_ep *ep, uint64_t now)
{
    while (!list_empty(&ep->up.arrived)) {
        struct arq_buffer *buffer = list_item(ep->up.arrived.next, struct arq_buffer, link);

        list_detach(&buffer->link);
        ep->current = buffer;
        ep->read = came_at(buffer, now);
        if (buffer->segment)
            take_train(ep, buffer, now);
        else
            take_packet(ep, buffer, now);
        give_back(ep, buffer);
    }
}

/* ---- Sessions ---- */

/* later: those that go on after a look at what has come. */
static void run_link(struct arq_ep *ep, struct arq_link *link, uint64_t now, struct list *later)
{
    uint64_t credit = arq_credit(ep), next;

    list_detach(&link->ready);
    if (!credit)
        ep->up.woken = true;
    session_set_credit(&link->session, credit);
    next = session_run(&link->session, now, ep->read < now ? ep->read : now);
    if (link->session.state == SESSION_ENDED) {
        arq_link_close(link);
        return;
    }
    packet_ep_set_timer(&ep->up, &link->timer, next);
    if (link->session.unfinished)
        list_attach(&link->ready, link->session.looks ? later : &ep->up.ready);
    list_detach(&link->blocked);
    if (link->session.blocked)
        list_attach(&link->blocked, &ep->blocked);
}

/* Where something is overdue, the network may say why. */
static void wake_due(struct arq_ep *ep, uint64_t now)
{
    bool overdue = false;
    struct timer *timer;

    while ((timer = timers_due(&ep->up.timers, (int64_t)now))) {
        struct arq_link *link = list_item(timer, struct arq_link, timer);

        overdue |= session_is_overdue(&link->session, now);
        timer_stop(timer);
        arq_ready(link);
    }
    if (overdue)
        arq_lower_read_events(ep, now);
}

void arq_run(struct arq_ep *ep, uint64_t looked)
{
    uint64_t now = looked ? looked : clock_ns();
    bool old = looked;
    struct list later;

    list_init(&later);
    ep->up.running = true;
    if (!list_empty(&ep->up.arrived)) {
        take_arrived(ep, now);
        old = true; /* peers are told how long we took */
        if (ep->reader.answer && !list_empty(&ep->up.ready))
            ep->reader.answer(ep->reader.arg);
    } else if (looked) {
        ep->read = looked;
    }
    wake_due(ep, now);
    do {
        arq_receive_run(ep);
        for (; !list_empty(&ep->up.ready); old = true) {
            now = old ? clock_ns() : now;
            run_link(ep, list_item(ep->up.ready.next, struct arq_link, ready), now, &later);
        }
    } while (packet_ep_has_saved(&ep->up));
    list_join(&later, &ep->up.ready);
    ep->up.running = false;
}

bool arq_busy(const struct packet_ep *up)
{
    const struct arq_ep *ep = arq_ep_of_packets(up);

    list_for_each (pos, &ep->peers.links) {
        const struct session *session = &list_item(pos, struct arq_link, all)->session;

        if (session_has_messages(session) && !session->unreachable)
            return true;
    }
    return ep->sends_at_lower;
}

/* ---- The lower's source ---- */

static struct arq_ep *ep_of(struct progress_source *source)
{
    return object_of(source, struct arq_ep, lower.source.source);
}

/* An application that spins may have the core that its peer needs to send. On a core that no other
 * thread wants this takes a third of a microsecond. */
static void offer_core(struct arq_ep *ep, bool found)
{
    if (found)
        ep->vain = 0;
    else if (__builtin_expect(++ep->vain % VAIN == 0, 0))
        sched_yield();
}

void arq_poll(struct progress_source *source)
{
    struct arq_ep *ep = ep_of(source);
    uint64_t now;
    bool found;

    if (__builtin_expect(!ep->lower.driven || ep->up.running || progress_forked(ep->up.progress),
                         0))
        return;
    /* Not afterwards: this thread may lose its core in between, and packets come meanwhile. */
    now = clock_ns();
    ep->gap = ep->looked ? now - ep->looked : 0;
    ep->looked = now;
    lower_cq_progress(ep->lower.source.cq);
    if (__builtin_expect(av_watch_any(&ep->up.watch), 0))
        arq_take_av_changes(ep);
    list_for_each (pos, &ep->blocked)
        arq_ready(list_item(pos, struct arq_link, blocked));
    found = !list_empty(&ep->up.arrived);
    if (found)
        arq_lower_note_gap(ep, ep->gap);
    else
        ep->lower.waited = 0; /* all that came in a gap has been read */
    if (packet_ep_has_work(&ep->up))
        arq_run(ep, now);
    if (ep->fed < ep->feed)
        arq_lower_feed(ep);
    packet_ep_quiet_timer(&ep->up);
    offer_core(ep, found);
}

/* A peer that waits for an acknowledgement does not wait for our sleep to end. */
static void acknowledge(struct arq_ep *ep, uint64_t now)
{
    list_for_each (pos, &ep->up.timers) {
        struct arq_link *link = list_item(pos, struct arq_link, timer.link);

        if (session_flush(&link->session, now))
            arq_ready(link);
    }
    if (!list_empty(&ep->up.ready))
        arq_run(ep, 0);
}

int arq_trywait(struct progress_source *source)
{
    struct arq_ep *ep = ep_of(source);
    int64_t now, latest;

    if (!ep->lower.driven || progress_forked(ep->up.progress))
        return 0;
    if (packet_ep_is_busy(&ep->up))
        return -FI_EAGAIN;
    now = (int64_t)clock_ns();
    acknowledge(ep, (uint64_t)now);
    if (!list_empty(&ep->up.ready)) /* looks first */
        return -FI_EAGAIN;
    /* Nothing may tell that the lower takes more. */
    latest = list_empty(&ep->blocked) ? TIMER_NEVER : now + NS_OF_MS;
    if (packet_ep_sleep(&ep->up, now, latest))
        return -FI_EAGAIN;
    return lower_cq_trywait(ep->domain->fabric->lower, ep->lower.source.cq);
}

/* ---- The AV ---- */

static void take_away_all_missing(struct arq_ep *ep)
{
    fi_addr_t addr = peer_map_next(&ep->peers.map, 0);

    for (; addr != FI_ADDR_NOTAVAIL; addr = peer_map_next(&ep->peers.map, addr + 1)) {
        const struct arq_peer *peer = peer_map_at(&ep->peers.map, addr);
        const void *raw = av_addr(ep->up.base.av, addr);
        struct arq_addr now;

        if (!raw || !arq_addr_of_av(ep->up.base.av->format, raw, &now) ||
            !arq_addr_equal(&now, &peer->name))
            arq_peer_leave(ep, addr);
    }
}

void arq_take_av_changes(struct arq_ep *ep)
{
    struct av_changes changes;

    av_watch_take(&ep->up.watch, &changes);
    if (changes.removed_count > AV_WATCH_REMOVED)
        take_away_all_missing(ep);
    else
        for (size_t i = 0; i < changes.removed_count; i++)
            arq_peer_leave(ep, changes.removed[i]);
    if (changes.inserted)
        arq_peers_resolve(ep);
}
