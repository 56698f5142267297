/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arq/session.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/arq/session_impl.h"

void session_init(struct session *session, const struct session_config *config, uint64_t id,
                  uint64_t peer, uint64_t credit, uint64_t now)
{
    memset(session, 0, sizeof(*session));
    session->config = config;
    session->state = peer ? SESSION_OPEN : SESSION_OPENING;
    session->id = id;
    session->peer = peer;
    list_init(&session->queued);
    path_mtu_init(&session->mtu, config->most);
    serial_init(&session->numbers, &session->number_bits, SERIAL_WORD);
    serial_init(&session->serials, &session->serial_bits, SERIAL_WORD);
    session->credit = credit;
    session->heard = now;
    session->open_at = now ? now : 1;
}

/* ---- What it sends with ---- */

bool session_traffic_begin(struct session *session)
{
    const struct session_rest *rest = &session->rest;
    struct session_traffic *traffic = session->traffic;

    if (traffic)
        return true;
    traffic = calloc(1, sizeof(*traffic));
    if (!traffic)
        return false;
    list_init(&traffic->again);
    list_init(&traffic->sent);
    flight_init(&traffic->flight, traffic->few, SESSION_FEW);
    traffic->flight.first = traffic->flight.next = traffic->flight.acked = rest->number;
    congestion_init(&traffic->congestion, session->config->congestion, session->mtu.size);
    if (rest->window)
        congestion_set(&traffic->congestion, rest->window);
    traffic->rtt.smoothed = traffic->rtt.latest = rest->smoothed;
    traffic->rtt.variance = rest->variance;
    traffic->rtt.least = traffic->rtt.next_least = rest->least;
    session->traffic = traffic;
    return true;
}

static uint32_t cap(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

void session_traffic_rest(struct session *session)
{
    struct session_traffic *traffic = session->traffic;

    if (!traffic)
        return;
    session->rest = (struct session_rest){
        .number = traffic->flight.next,
        .window = cap(traffic->congestion.window),
        .smoothed = cap(traffic->rtt.smoothed),
        .variance = cap(traffic->rtt.variance),
        .least = cap(traffic->rtt.least),
    };
    if (traffic->flight.packets != traffic->few)
        free(traffic->flight.packets);
    free(traffic);
    session->traffic = NULL;
}

void session_finish(struct session *session)
{
    for (size_t i = 0; session->assemblies && i < SESSION_ASSEMBLIES; i++)
        session_assembled(&session->assemblies[i]);
    free(session->assemblies);
    session->assemblies = NULL;
    session_traffic_rest(session);
    if (session->numbers.bits != &session->number_bits)
        free(session->numbers.bits);
    session->numbers.bits = &session->number_bits;
    if (session->serials.bits != &session->serial_bits)
        free(session->serials.bits);
    session->serials.bits = &session->serial_bits;
}

bool session_has_messages(const struct session *session)
{
    return session_has_waiting(session) ||
           (session->traffic && !list_empty(&session->traffic->sent));
}

bool session_busy(const struct session *session)
{
    return session->state == SESSION_OPENING || session_has_messages(session);
}

uint64_t session_backoff(const struct session *session, uint64_t wait, unsigned tries)
{
    uint64_t most = session->unreachable ? SESSION_GRACE_WAIT : SESSION_WAIT_MAX;

    while (tries-- && wait < most)
        wait *= 2;
    return wait < most ? wait : most;
}

void session_send(struct session *session, struct session_message *message)
{
    message->numbered = message->resent = message->in_pieces = false;
    message->pieces = 0;
    list_attach(&message->list, &session->queued);
}

bool session_is_shut(const struct session *session)
{
    return session->state == SESSION_OPEN && session->told <= session->serials.next;
}

/* A peer that was told of no room hears of the new. */
void session_set_credit(struct session *session, uint64_t credit)
{
    session->credit = credit;
    if (credit && session->told && session_is_shut(session))
        session->ack_at = 1;
}

bool session_flush(struct session *session, uint64_t now)
{
    if (!session->ack_at || session->state != SESSION_OPEN)
        return false;
    if (session->ack_at > now)
        session->ack_at = now;
    return true;
}

void session_unreachable(struct session *session, uint64_t now)
{
    if (session->unreachable || session->state == SESSION_ENDED)
        return;
    session->unreachable = now ? now : 1;
    if (session->traffic && session->traffic->timeout_at > now)
        session->traffic->timeout_at = now;
    session->open_at = now;
}

/* Messages that were sent whole and no longer fit are cut when they are called lost. */
void session_limit_mtu(struct session *session, uint32_t most)
{
    path_mtu_limit(&session->mtu, most);
}

static void end_all(struct session *session, struct list *list)
{
    while (!list_empty(list)) {
        struct session_message *message = list_item(list->next, struct session_message, list);

        list_detach(&message->list);
        session->config->done(session, message, session->err);
    }
}

void session_say_closed(struct session *session)
{
    struct arq_header header = {.type = ARQ_CLOSE};
    uint8_t bytes[ARQ_HEADER];

    if (session->state != SESSION_ENDED && session->peer)
        session_transmit(session, session->heard, &header, bytes, sizeof(bytes));
}

void session_end(struct session *session, int err, bool tell)
{
    if (session->state == SESSION_ENDED)
        return;
    if (tell)
        session_say_closed(session);
    session->state = SESSION_ENDED;
    session->err = err;
    if (session->traffic) {
        end_all(session, &session->traffic->sent);
        end_all(session, &session->traffic->again);
    }
    end_all(session, &session->queued);
}
