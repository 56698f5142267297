/* SPDX-License-Identifier: BSD-2-Clause */
/* A session is run: loss, timeouts, probes, the end of one that is silent. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/arq/session_impl.h"

#define REST UINT64_C(1000000000)    /* ns: of silence, after which memory is given back */
#define NO_MEMORY UINT64_C(10000000) /* ns: until it is tried again */

enum {
    PACKET_MAX = 65536,
};

/* ---- Memory ---- */

static bool is_small(const struct session *session)
{
    return !session->traffic && !session->assemblies &&
           session->numbers.bits == &session->number_bits &&
           session->serials.bits == &session->serial_bits;
}

/* A missing packet stays missing, so a window in which many have overtaken it stays large. */
static void rest_window(struct serial *window, uint64_t *small)
{
    uint64_t *bits = window->bits;

    if (bits == small || window->end > window->next + SERIAL_WORD)
        return;
    serial_move(window, small, SERIAL_WORD);
    free(bits);
}

/* Gives back what a session needs only while it is in use. Returns when it will. */
static uint64_t rest(struct session *session, uint64_t now)
{
    if ((session->traffic && session->traffic->flight.out) || session_has_messages(session) ||
        is_small(session))
        return UINT64_MAX;
    if (now < session->heard + REST)
        return session->heard + REST;
    session_traffic_rest(session);
    rest_window(&session->numbers, &session->number_bits);
    rest_window(&session->serials, &session->serial_bits);
    session_pieces_rest(session);
    return session->assemblies ? now + REST : UINT64_MAX;
}

/* ---- Loss, timeouts, probes ---- */

static void packet_lost(void *arg, const struct flight_packet *packet)
{
    struct session *session = arg;

    if (packet->kind == KIND_PROBE) {
        path_mtu_probe_lost(&session->mtu, packet->bytes);
        return;
    }
    if (path_mtu_lost(&session->mtu, &session->traffic->came, packet->bytes, packet->sent))
        session->traffic->congestion.packet = session->mtu.size;
    session->traffic->congestion.ops->lost(&session->traffic->congestion, session->heard,
                                           packet->sent);
    if (packet->what)
        session_resend(session, packet->what, UINT64_C(1) << packet->piece);
}

/* The oldest packet that carries something leaves again. */
static void resend_oldest(struct session *session)
{
    struct flight_packet *oldest;
    bool found = false;

    while (!found && (oldest = flight_oldest(&session->traffic->flight))) {
        struct flight_packet was = *oldest;

        flight_give_up(&session->traffic->flight, oldest);
        if (was.kind == KIND_PROBE)
            path_mtu_probe_lost(&session->mtu, was.bytes);
        else if (path_mtu_lost(&session->mtu, &session->traffic->came, was.bytes, was.sent))
            session->traffic->congestion.packet = session->mtu.size;
        found = was.what && session_resend(session, was.what, UINT64_C(1) << was.piece);
    }
}

/* Nothing has been acknowledged for too long: the oldest packet leaves again, at once, and asks for
 * an answer, which shows what else is lost. Packets under way may be all that the window admits, so
 * this one leaves whatever it says. Whether the network or the peer was silent is seen when there
 * is an answer (session_in.c). */
static void time_out(struct session *session, uint64_t now)
{
    session->timeouts++;
    resend_oldest(session);
    session->forced = true;
    session->traffic->pacer.next = 0;
    session->traffic->timeout_at =
        now + session_backoff(session,
                              rtt_timeout(&session->traffic->rtt, session->config->ack_delay),
                              session->timeouts);
}

static void send_probe(struct session *session, uint64_t now)
{
    uint32_t size = session->traffic->rtt.smoothed ? path_mtu_probe(&session->mtu, now) : 0;
    struct arq_header header = {.type = ARQ_PROBE, .flags = ARQ_NOW};
    uint8_t bytes[PACKET_MAX];

    if (!size || session->blocked || !session_busy(session) || size > sizeof(bytes) ||
        !session_places(session, 1))
        return;
    memset(bytes + ARQ_HEADER, 0, size - ARQ_HEADER);
    header.number = (uint32_t)session->traffic->flight.next;
    if (!session_transmit(session, now, &header, bytes, size))
        return;
    path_mtu_sent(&session->mtu);
    flight_send(&session->traffic->flight,
                &(struct flight_packet){.sent = now, .bytes = size, .kind = KIND_PROBE});
    session_expect_answer(session, now);
}

/* Messages wait for room at the peer, and nothing is under way that would bring its limit. */
static uint64_t ask_for_room(struct session *session, uint64_t now)
{
    bool waits = session->state == SESSION_OPEN && !session->traffic->flight.out &&
                 list_empty(&session->traffic->again) && !list_empty(&session->queued) &&
                 session->next_serial >= session->limit &&
                 !list_item(session->queued.next, struct session_message, list)->numbered;
    uint64_t wait;

    if (!waits) {
        session->traffic->asked_at = 0;
        return UINT64_MAX;
    }
    wait = rtt_timeout(&session->traffic->rtt, session->config->ack_delay);
    if (!session->traffic->asked_at) {
        session->traffic->asked_at = now + wait;
        session->timeouts = 0;
    } else if (now >= session->traffic->asked_at && session_send_ack(session, now, ARQ_ASKS)) {
        session->traffic->asked_at = now + session_backoff(session, wait, ++session->timeouts);
    }
    return session->traffic->asked_at;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return b && b < a ? b : a;
}

/* Ends a session whose peer has been silent for too long while there is work. */
static uint64_t check_silence(struct session *session, uint64_t now, uint64_t read)
{
    uint64_t at;

    if (!session_busy(session)) {
        session->busy_since = 0;
        return UINT64_MAX;
    }
    if (!session->busy_since)
        session->busy_since = now;
    at = session->heard > session->busy_since ? session->heard : session->busy_since;
    at += session->config->patience;
    if (session->unreachable)
        at = sooner(at, session->unreachable + SESSION_GRACE);
    if (read >= at)
        session_end(session, session->unreachable ? FI_ECONNREFUSED : FI_ETIMEDOUT, true);
    return at;
}

static uint64_t open_or_wait(struct session *session, uint64_t now)
{
    if (session->open_at && now >= session->open_at && session_send_open(session, now)) {
        if (session->peer)
            session->open_at = 0;
        else
            session->open_at = now + session_backoff(session, SESSION_OPEN_WAIT, session->opens);
        session->opens += session->opens < UINT8_MAX;
    }
    return session->open_at ? session->open_at : UINT64_MAX;
}

/* Messages, and all that belongs to packets of ours that are under way. */
static uint64_t run_traffic(struct session *session, uint64_t now, uint64_t read)
{
    uint64_t late = 4 * rtt_timeout(&session->traffic->rtt, session->config->ack_delay);
    uint64_t next = UINT64_MAX;

    session->traffic->loss_at = flight_detect(&session->traffic->flight, read,
                                              &session->traffic->rtt, packet_lost, session);
    if (session->traffic->flight.out && read >= session->traffic->timeout_at)
        time_out(session, now);
    flight_forget(&session->traffic->flight, now > late ? now - late : 0);
    session_send_messages(session, now);
    send_probe(session, now);
    next = sooner(next, session->traffic->loss_at);
    if (session->traffic->flight.out)
        next = sooner(next, session->traffic->timeout_at);
    if (session_next_message(session) && session->traffic->pacer.next > now)
        next = sooner(next, session->traffic->pacer.next);
    return sooner(next, ask_for_room(session, now));
}

static uint64_t run_open(struct session *session, uint64_t now, uint64_t read)
{
    uint64_t next = UINT64_MAX;

    if (session->traffic || (session_has_waiting(session) && session_traffic_begin(session)))
        next = run_traffic(session, now, read);
    else if (session_has_waiting(session))
        next = now + NO_MEMORY;
    if (session->ack_at && now >= session->ack_at)
        session_send_ack(session, now, 0);
    next = sooner(next, session->ack_at);
    return sooner(next, rest(session, now));
}

uint64_t session_rests_until(const struct session *session, uint64_t now)
{
    bool out = session->traffic && session->traffic->flight.out;
    bool rests = session->state == SESSION_OPEN && !out && !session->open_at &&
                 !session_has_messages(session);

    if (!rests || (session->ack_at && session->ack_at <= now))
        return 0;
    if (session->ack_at)
        return session->ack_at;
    return is_small(session) ? UINT64_MAX : now + REST;
}

uint64_t session_run(struct session *session, uint64_t now, uint64_t read)
{
    uint64_t next, silence;

    if (session->state == SESSION_ENDED)
        return UINT64_MAX;
    session->blocked = session->unfinished = false;
    session->burst = 0;
    silence = check_silence(session, now, read);
    if (session->state == SESSION_ENDED)
        return UINT64_MAX;
    next = open_or_wait(session, now);
    if (session->state == SESSION_OPEN)
        next = sooner(next, run_open(session, now, read));
    return session->blocked ? UINT64_MAX : sooner(next, silence);
}
