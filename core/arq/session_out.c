/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/arq/session_impl.h"

#define REST UINT64_C(1000000000)    /* ns: of silence, after which memory is given back */
#define NO_MEMORY UINT64_C(10000000) /* ns: until it is tried again */

enum {
    PACKET_MAX = 65536,
    FIRST_FLIGHT = 64,   /* packets for which memory is allocated first */
    BURST_BYTES = 65536, /* that leave with one time: the next ones want a later one */
    TRAIN_BYTES = 65000, /* of one: what leaves as one datagram has a length of 16 bits */
    TRAIN_SHARE = 4,     /* of the window, */
    TRAIN_LEAST = 12,    /* packets: where that is fewer */
    UNASKED_TRAINS = SESSION_ASSEMBLIES / 4, /* more of them would hold up the next ones */
    PAUSE_LEAST = 1000 * 1000,     /* ns: of a peer; what is shorter is its way to acknowledge */
    PAUSE_MOST = 50 * 1000 * 1000, /* ns: longer ones are not sent for */
};

/* ---- One packet ---- */

/* Serials that the peer may send: what the owner has room for, and never less than was told. */
static uint64_t limit_to_tell(struct session *session)
{
    uint64_t window = session->credit < SESSION_SERIALS ? session->credit : SESSION_SERIALS;
    uint64_t limit = session->serials.next + window;

    if (limit > session->told)
        session->told = limit;
    return session->told;
}

/* Fills in identifiers and the acknowledgement, which need not be told alone then. */
static void complete(struct session *session, uint64_t now, struct arq_header *header)
{
    const struct serial *numbers = &session->numbers;
    uint64_t kept =
        numbers->end && now > session->arrived ? (now - session->arrived) / ARQ_KEPT_UNIT : 0;

    header->to = session->peer;
    header->from = session->id;
    header->limit = (uint32_t)limit_to_tell(session);
    header->end = (uint32_t)numbers->end;
    header->below = serial_bits_below(numbers, numbers->end);
    header->marked = session->came_marked;
    header->kept = (uint16_t)(kept < ARQ_KEPT_MAX ? kept : ARQ_KEPT_MAX);
}

/* A packet has left. One that is no ACK has a word of bits: what came before those is still to be
 * acknowledged. */
static void told(struct session *session, enum arq_type type)
{
    if (type != ARQ_ACK && session_untold(session) > SERIAL_WORD)
        return;
    session->ack_at = 0;
    session->untold = (uint32_t)session->numbers.end;
}

bool session_transmit(struct session *session, uint64_t now, struct arq_header *header,
                      uint8_t *bytes, size_t len)
{
    const struct session_packet packet = {.bytes = bytes, .len = len};

    complete(session, now, header);
    arq_header_put(header, bytes);
    if (!session->config->transmit(session, &packet)) {
        session->blocked = true;
        return false;
    }
    told(session, header->type);
    return true;
}

/* Does an ACK need the word behind `words` others? Numbers are missing there, or have come since
 * the last one; or as many before those, as one ACK of a train may be lost. */
static bool needs_word(const struct session *session, size_t words)
{
    const struct serial *numbers = &session->numbers;
    uint64_t below = SERIAL_WORD * (uint64_t)(words + 1);

    return words < ARQ_WORDS && numbers->end > below &&
           (numbers->end - below > numbers->next || below < 2 * (uint64_t)session_untold(session));
}

static bool send_ack(struct session *session, uint64_t now, unsigned flags)
{
    struct arq_header header = {.type = ARQ_ACK, .flags = flags};
    const struct serial *numbers = &session->numbers;
    uint8_t bytes[ARQ_HEADER + 8 * ARQ_WORDS];
    size_t words = 0;

    while (needs_word(session, words)) {
        arq_put64(bytes + ARQ_HEADER + 8 * words,
                  serial_bits_below(numbers, numbers->end - SERIAL_WORD * (words + 1)));
        words++;
    }
    return session_transmit(session, now, &header, bytes, ARQ_HEADER + 8 * words);
}

static bool send_open(struct session *session, uint64_t now)
{
    struct arq_header header = {
        .type = session->peer ? ARQ_ACCEPT : ARQ_OPEN,
        .flags = session->config->marks ? ARQ_MARKS : 0,
        .size =
            (uint16_t)(session->config->most < UINT16_MAX ? session->config->most : UINT16_MAX)};
    uint8_t bytes[ARQ_OPEN_SIZE] = {0};
    size_t len = session->peer ? ARQ_HEADER : ARQ_OPEN_SIZE;

    if (!session->peer && session->has_token)
        memcpy(bytes + ARQ_HEADER, session->token, ARQ_TOKEN);
    if (!session->peer)
        arq_open_put_name(bytes, session->config->name, session->config->name_len);
    return session_transmit(session, now, &header, bytes, len);
}

/* ---- Messages ---- */

/* Cuts a message, or what was lost of one, for the path as it is. Packets with pieces of another
 * cut say nothing about this one. */
static void cut(struct session *session, struct session_message *message)
{
    size_t room = session->mtu.size - ARQ_HEADER;

    if (message->pieces && (message->pieces == 1 ? message->len <= room : message->size <= room))
        return;
    if (message->pieces)
        flight_clear(&session->traffic->flight, message);
    message->size = (uint16_t)(room < UINT16_MAX ? room : UINT16_MAX);
    message->pieces =
        message->len <= room ? 1 : (uint16_t)((message->len + message->size - 1) / message->size);
    message->unacked = message->pieces == 64 ? UINT64_MAX : (UINT64_C(1) << message->pieces) - 1;
    message->unsent = message->unacked;
}

bool session_resend(struct session *session, struct session_message *message, uint64_t pieces)
{
    if (!(pieces & message->unacked))
        return false; /* another packet has brought them */
    message->resent = true;
    message->unsent |= pieces & message->unacked;
    list_detach(&message->list);
    list_attach(&message->list, &session->traffic->again);
    return true;
}

/* The peer has room for the pieces of so many messages, and keeps what it has of them: a piece of
 * another one would be dropped, for ever if that other one were older than all of them. */
static bool has_room_at_peer(const struct session *session, const struct session_message *message)
{
    return message->in_pieces || session->in_pieces < SESSION_ASSEMBLIES ||
           (message->pieces <= 1 && message->len + ARQ_HEADER <= session->mtu.size);
}

/* The next message that may leave, or NULL. */
static struct session_message *next_message(struct session *session)
{
    struct session_message *message;

    list_for_each (pos, &session->traffic->again) {
        message = list_item(pos, struct session_message, list);
        if (has_room_at_peer(session, message))
            return message;
    }
    if (list_empty(&session->queued))
        return NULL;
    message = list_item(session->queued.next, struct session_message, list);
    if (!has_room_at_peer(session, message))
        return NULL;
    if (!message->numbered) {
        if (session->next_serial >= session->limit)
            return NULL;
        message->serial = session->next_serial++;
        session->traffic->undone++;
        message->numbered = true;
    }
    return message;
}

static uint64_t interval_of(const struct session *session, uint64_t bytes)
{
    return pacer_interval(bytes, session->traffic->congestion.window,
                          rtt_smoothed(&session->traffic->rtt),
                          session->traffic->congestion.ops->exact);
}

/* Packets that follow another one at once may leave so much before their time: bursts cost the
 * kernel a fraction of what as many lone packets cost. An eighth of a round trip is an eighth of
 * the window, so a queue sees little of it, and a window of few packets has no bursts. */
static uint64_t ahead_of_pace(const struct session *session)
{
    return rtt_smoothed(&session->traffic->rtt) / 8;
}

/* Bytes that may be under way beyond the window. A peer that has lost its core, or whose owner
 * computes, acknowledges nothing for a while, as it says afterwards; what leaves meanwhile has
 * passed the network, at the pace that the window allows, and waits at the peer. */
static uint64_t pause_room(const struct session *session)
{
    uint64_t pause =
        session->traffic->rtt.kept < PAUSE_MOST ? session->traffic->rtt.kept : PAUSE_MOST;

    if (pause < PAUSE_LEAST)
        return 0;
    return session->traffic->congestion.window * pause / rtt_smoothed(&session->traffic->rtt);
}

static bool grow_flight(struct session *session)
{
    struct flight *flight = &session->traffic->flight;
    uint32_t size = flight->size < FIRST_FLIGHT ? FIRST_FLIGHT : 2 * flight->size;
    struct flight_packet *old = flight->packets;
    struct flight_packet *packets = size <= SESSION_FLIGHT ? malloc(size * sizeof(*packets)) : NULL;

    if (!packets)
        return false;
    flight_move(flight, packets, size);
    if (old != session->traffic->few)
        free(old);
    return true;
}

/* For how many more packets under way is there a place? As many as are wanted, if possible. */
static uint64_t places(struct session *session, uint64_t wanted)
{
    struct flight *flight = &session->traffic->flight;

    while (flight_room(flight) < wanted && grow_flight(session))
        ;
    if (flight_full(flight))
        flight_forget(flight, UINT64_MAX);
    return flight_room(flight);
}

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

/* A peer has room for so many packets as it has told for messages: those of a message in pieces
 * take as much of it as messages would. */
static uint64_t pieces_room(const struct session *session)
{
    uint64_t room = session->limit - session->next_serial + session->traffic->undone;
    uint64_t out = session->traffic->flight.out;

    return room > out ? room - out : 0;
}

/* May a packet of `bytes` leave now? */
static bool admits(struct session *session, uint64_t now, size_t bytes)
{
    struct flight *flight = &session->traffic->flight;
    bool exact = session->traffic->congestion.ops->exact;
    uint64_t window = session->traffic->congestion.window;

    if (!places(session, 1))
        return false;
    if (session->forced)
        return true;
    if (session->traffic->pacer.next > now + (session->burst ? ahead_of_pace(session) : 0)) {
        session->held |= exact;
        return false;
    }
    if (flight->bytes + 2 * bytes > window)
        session->held = true;
    return !flight->out || flight->bytes + (exact ? 1 : bytes) <= window + pause_room(session);
}

/* So many packets of `bytes` have left. */
static void pace(struct session *session, uint64_t now, size_t bytes, unsigned packets)
{
    uint64_t interval = interval_of(session, bytes);

    if (session->traffic->rtt.kept >= PAUSE_LEAST &&
        session->traffic->flight.bytes > session->traffic->congestion.window)
        interval += interval / 4; /* beyond the window: no faster than it allows */
    pacer_sent(&session->traffic->pacer, now, interval);
    session->traffic->pacer.next += (packets - 1) * interval;
    session->burst += (uint32_t)(packets * bytes);
}

static void expect_answer(struct session *session, uint64_t now)
{
    session->traffic->timeout_at =
        now + session_backoff(session,
                              rtt_timeout(&session->traffic->rtt, session->config->ack_delay),
                              session->timeouts);
}

/* Will another packet follow the one of `bytes` that is about to leave? A guess: window, pacing and
 * the next message decide. */
static bool follows(const struct session *session, uint64_t now,
                    const struct session_message *message, size_t bytes)
{
    bool fits = session->burst + bytes < BURST_BYTES;
    bool more = message->unsent & (message->unsent - 1) ||
                (message->list.next != &session->traffic->again &&
                 message->list.next != &session->queued) ||
                (message->list.next == &session->traffic->again && !list_empty(&session->queued));

    return more && fits &&
           session->traffic->flight.bytes + bytes +
                   (session->traffic->congestion.ops->exact ? 1 : bytes) <=
               session->traffic->congestion.window + pause_room(session) &&
           session->next_serial < session->limit &&
           session->traffic->pacer.next + interval_of(session, bytes) <=
               now + ahead_of_pace(session);
}

/* The header of the lowest piece that is unsent. */
static struct arq_header header_of(struct session *session, uint64_t now,
                                   const struct session_message *message)
{
    struct arq_header header = {
        .type = ARQ_DATA,
        .flags = session->timeouts ? ARQ_NOW : 0,
        .number = (uint32_t)session->traffic->flight.next,
        .serial = (uint32_t)message->serial,
        .piece = (uint16_t)__builtin_ctzll(message->unsent),
        .pieces = message->pieces,
        .size = message->pieces > 1 ? message->size : 0,
    };

    complete(session, now, &header);
    return header;
}

/* `count` bytes of the message have left, in pieces from that one on, at `sent`. */
static void pieces_left(struct session *session, uint64_t now, uint64_t sent,
                        struct session_message *message, unsigned piece, size_t count)
{
    size_t size = message->pieces > 1 ? message->size : count;
    unsigned pieces = count > size ? (unsigned)((count + size - 1) / size) : 1;
    const struct flight_packet packet = {
        .what = message,
        .sent = sent,
        .kind = sent > now ? KIND_TRAIN : KIND_MESSAGE,
        .piece = (uint16_t)piece,
        .bytes = (uint32_t)(ARQ_HEADER + (count < size ? count : size)),
    };

    flight_send_run(&session->traffic->flight, &packet, pieces,
                    (uint32_t)(ARQ_HEADER + count - (pieces - 1) * size));
    message->unsent &= ~(UINT64_MAX >> (SERIAL_WORD - pieces) << piece);
    pace(session, now, packet.bytes, pieces);
    expect_answer(session, now);
    told(session, ARQ_DATA);
    session->forced = false;
    if (message->pieces > 1 && !message->in_pieces) {
        message->in_pieces = true;
        session->in_pieces++;
    }
    if (!message->unsent) {
        list_detach(&message->list);
        list_attach(&message->list, &session->traffic->sent);
    }
}

/* So much leaves behind so many pieces of the message, as far as it is known: nothing, one train at
 * most, or more. */
enum behind {
    BEHIND_NOTHING,
    BEHIND_TRAIN,
    BEHIND_MORE,
};

static enum behind behind(const struct session *session, const struct session_message *message,
                          unsigned pieces)
{
    const struct list *queued = &session->queued, *next = message->list.next;
    bool rest = message->unsent >> __builtin_ctzll(message->unsent) >> (pieces - 1) >> 1;
    unsigned trains = rest;

    if (next == &session->traffic->again)
        next = queued->next;
    for (; next != queued && trains < BEHIND_MORE; next = next->next)
        trains++;
    return (enum behind)trains;
}

/* The flags of a train of so many pieces, of `bytes`. The peer acknowledges those that ask: at once
 * a part of the window at a time, which costs both sides less than an ACK of each; the last of what
 * is queued soon, so that a message that answers it may do it. That has the bits for one train, so
 * the one before asks, too, at once: an ACK of its own would come into the way of the answer. */
static unsigned asks(const struct session *session, const struct session_message *message,
                     unsigned pieces, uint64_t bytes)
{
    const struct session_traffic *traffic = session->traffic;
    enum behind left = behind(session, message, pieces);

    if (session->timeouts || left == BEHIND_TRAIN)
        return ARQ_NOW;
    if (left == BEHIND_NOTHING)
        return ARQ_ASKS;
    return traffic->unasked + bytes >= traffic->congestion.window / TRAIN_SHARE ||
                   traffic->unasked_trains + 1 >= UNASKED_TRAINS
               ? ARQ_NOW
               : 0;
}

/* Sends the lowest piece that is unsent. False: the lower takes nothing. */
static bool send_piece(struct session *session, uint64_t now, struct session_message *message)
{
    struct arq_header header = header_of(session, now, message);
    size_t at = (size_t)header.piece * message->size;
    size_t count = message->len - at < message->size ? message->len - at : message->size;
    uint8_t bytes[ARQ_HEADER];
    struct session_packet packet = {
        .bytes = bytes, .len = sizeof(bytes), .message = message, .at = at, .count = count};

    if (message->pieces == 1)
        packet.count = message->len;
    packet.more = follows(session, now, message, packet.len + packet.count);
    if (message->pieces > 1 && session->config->transmit_train && !header.flags &&
        behind(session, message, 1) != BEHIND_MORE)
        header.flags = ARQ_ASKS;
    arq_header_put(&header, bytes);
    if (!session->config->transmit(session, &packet)) {
        session->blocked = true;
        return false;
    }
    pieces_left(session, now, now, message, header.piece, packet.count);
    return true;
}

/* ---- Trains ---- */

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Packets of a train, at most: of a window several are under way, of a small one fewer. */
static uint64_t train_most(const struct session *session, uint64_t packet)
{
    uint64_t window = session->traffic->congestion.window / packet;
    uint64_t share = window / TRAIN_SHARE + 1, least = lesser(TRAIN_LEAST, window);

    return lesser(share > least ? share : least, lesser(TRAIN_BYTES / packet, ARQ_PIECES));
}

size_t session_train_room(const struct session *session)
{
    uint64_t packets;

    if (!session->config->transmit_train || session->state != SESSION_OPEN || !session->traffic)
        return 0;
    packets = train_most(session, session->mtu.size);
    return packets > 1 ? (size_t)packets * (session->mtu.size - ARQ_HEADER) : 0;
}

/* How many of the pieces from the lowest unsent one on, which is admitted, may leave with it. The
 * pace is that of the first. 0: the window would cut them, and a short train costs more than half
 * of a long one; acknowledgements that have come, or will, may open it. */
static unsigned train_length(struct session *session, const struct session_message *message)
{
    const struct flight *flight = &session->traffic->flight;
    uint64_t bytes = ARQ_HEADER + message->size, packets, open;
    uint64_t next = session->traffic->congestion.ops->exact ? 1 : bytes;
    uint64_t window = session->traffic->congestion.window + pause_room(session);
    uint64_t sent = ~(message->unsent >> __builtin_ctzll(message->unsent));

    if (!session->config->transmit_train || session->forced || message->pieces < 2)
        return 1;
    packets =
        lesser(sent ? (uint64_t)__builtin_ctzll(sent) : ARQ_PIECES, train_most(session, bytes));
    open = window > flight->bytes + next ? (window - flight->bytes - next) / bytes + 1 : 1;
    session->held |= open < packets;
    open = lesser(open, pieces_room(session));
    if (open < packets && flight->out && !session->looks)
        return 0;
    packets = lesser(packets, open);
    packets = lesser(packets, places(session, packets));
    return packets ? (unsigned)packets : 1;
}

static void note_asked(struct session_traffic *traffic, bool asked, size_t bytes)
{
    traffic->unasked = asked ? 0 : traffic->unasked + (uint32_t)bytes;
    traffic->unasked_trains = asked ? 0 : traffic->unasked_trains + 1;
}

/* Sends so many pieces. False: the lower takes nothing. */
static bool send_train(struct session *session, uint64_t now, struct session_message *message,
                       unsigned pieces)
{
    struct arq_header header = header_of(session, now, message);
    size_t at = (size_t)header.piece * message->size, size = message->size;
    struct session_train train = {
        .first = &header, .pieces = pieces, .message = message, .at = at, .size = size};

    train.count = message->len - at < pieces * size ? message->len - at : pieces * size;
    header.flags = asks(session, message, pieces, train.count + (size_t)pieces * ARQ_HEADER);
    switch (session->config->transmit_train(session, &train)) {
    case SESSION_TAKEN: break;
    case SESSION_REFUSED: return send_piece(session, now, message);
    default: session->blocked = true; return false;
    }
    note_asked(session->traffic, header.flags, train.count);
    if (train.left < now)
        train.left = now;
    session->traffic->took = train.left - now;
    pieces_left(session, now, train.left, message, header.piece, train.count);
    return true;
}

/* A packet with data acknowledges a word of numbers. The peer would take those before them for
 * lost, since later ones have come: they are acknowledged first. False: the lower takes nothing. */
static bool tell_rest(struct session *session, uint64_t now)
{
    return session_untold(session) <= SERIAL_WORD || send_ack(session, now, 0);
}

static void send_messages(struct session *session, uint64_t now)
{
    struct session_message *message;
    unsigned pieces;

    while (!session->blocked && (message = next_message(session))) {
        cut(session, message);
        if (!admits(session, now,
                    ARQ_HEADER + (message->pieces > 1 ? message->size : message->len)))
            return;
        if (message->pieces > 1 && session->traffic->flight.out && !session->forced &&
            !pieces_room(session))
            return;
        if (session->burst >= BURST_BYTES) {
            session->unfinished = true;
            return;
        }
        pieces = train_length(session, message);
        session->looks = session->unfinished = !pieces;
        if (session->looks || !tell_rest(session, now))
            return;
        if (pieces > 1 ? !send_train(session, now, message, pieces)
                       : !send_piece(session, now, message))
            return;
    }
}

uint64_t session_send_now(struct session *session, struct session_message *message, uint64_t now)
{
    bool calm = session->state == SESSION_OPEN && !session->open_at && !session->timeouts &&
                !session->blocked && !session_has_waiting(session) &&
                session->next_serial < session->limit &&
                message->len + ARQ_HEADER <= session->mtu.size;

    session_send(session, message);
    if (!calm || !session_traffic_begin(session))
        return 0;
    message = next_message(session);
    cut(session, message);
    session->burst = 0;
    if (!session->busy_since)
        session->busy_since = now;
    if (!admits(session, now, ARQ_HEADER + message->len) || !tell_rest(session, now) ||
        !send_piece(session, now, message))
        return 0;
    return session->traffic->timeout_at;
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
        !places(session, 1))
        return;
    memset(bytes + ARQ_HEADER, 0, size - ARQ_HEADER);
    header.number = (uint32_t)session->traffic->flight.next;
    if (!session_transmit(session, now, &header, bytes, size))
        return;
    path_mtu_sent(&session->mtu);
    flight_send(&session->traffic->flight,
                &(struct flight_packet){.sent = now, .bytes = size, .kind = KIND_PROBE});
    expect_answer(session, now);
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
    } else if (now >= session->traffic->asked_at && send_ack(session, now, ARQ_ASKS)) {
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
    if (session->open_at && now >= session->open_at && send_open(session, now)) {
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
    send_messages(session, now);
    send_probe(session, now);
    next = sooner(next, session->traffic->loss_at);
    if (session->traffic->flight.out)
        next = sooner(next, session->traffic->timeout_at);
    if (next_message(session) && session->traffic->pacer.next > now)
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
        send_ack(session, now, 0);
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
