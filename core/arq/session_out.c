/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/arq/session_impl.h"

enum {
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

/* Have all numbers come that a word does not tell of, but an acknowledgement can? */
static bool all_came(const struct session *session)
{
    return session->numbers.next + SERIAL_WORD >= session->numbers.end;
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
    if (all_came(session))
        header->flags |= ARQ_ALL;
}

/* Does a packet that is no ACK tell of all that was not acknowledged? Else of a word of it. */
static bool tells_all(const struct session *session)
{
    return session_untold(session) <= (all_came(session) ? (uint32_t)ARQ_NUMBERS : SERIAL_WORD);
}

/* A packet has left. The numbers that it did not tell of are still to be acknowledged. */
static void told(struct session *session, enum arq_type type)
{
    if (type != ARQ_ACK && !tells_all(session))
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

    return words < ARQ_WORDS && numbers->end > below && !all_came(session) &&
           (numbers->end - below > numbers->next || below < 2 * (uint64_t)session_untold(session));
}

bool session_send_ack(struct session *session, uint64_t now, unsigned flags)
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

bool session_send_open(struct session *session, uint64_t now)
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
    size_t whole = session->mtu.size - ARQ_HEADER, room = session->mtu.size - ARQ_BRIEF;
    size_t bytes = message->len + (ARQ_HEADER - ARQ_BRIEF); /* the first piece has fewer */

    if (message->pieces && (message->pieces == 1 ? message->len <= whole : message->size <= room))
        return;
    if (message->pieces)
        flight_clear(&session->traffic->flight, message);
    message->size = (uint16_t)(room < UINT16_MAX ? room : UINT16_MAX);
    message->pieces =
        message->len <= whole ? 1 : (uint16_t)((bytes + message->size - 1) / message->size);
    message->unacked = session_pieces_bits(message->pieces);
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

struct session_message *session_next_message(struct session *session)
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

uint64_t session_places(struct session *session, uint64_t wanted)
{
    struct flight *flight = &session->traffic->flight;

    while (flight_room(flight) < wanted && grow_flight(session))
        ;
    if (flight_full(flight))
        flight_forget(flight, UINT64_MAX);
    return flight_room(flight);
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

    if (!session_places(session, 1))
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

void session_expect_answer(struct session *session, uint64_t now)
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

/* Bytes of a packet of a message that was cut: of the longest. */
static size_t packet_of(const struct session_message *message)
{
    return message->pieces > 1 ? ARQ_BRIEF + (size_t)message->size : ARQ_HEADER + message->len;
}

/* Does the packet of its lowest unsent piece acknowledge what has come? */
static bool acknowledges(const struct session_message *message)
{
    return message->unsent & 1;
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
        .brief = !acknowledges(message),
    };

    if (header.brief)
        header.to = session->peer;
    else
        complete(session, now, &header);
    return header;
}

/* `pieces` of the message have left at `sent`, of which that is the first one's header, in `len`
 * bytes of packets. */
static void pieces_left(struct session *session, uint64_t now, uint64_t sent,
                        struct session_message *message, const struct arq_header *header,
                        unsigned pieces, size_t len)
{
    const struct flight_packet packet = {
        .what = message,
        .sent = sent,
        .kind = sent > now ? KIND_TRAIN : KIND_MESSAGE,
        .piece = header->piece,
        .bytes = (uint32_t)(pieces > 1 ? packet_of(message) : len),
    };

    flight_send_run(&session->traffic->flight, &packet, pieces,
                    (uint32_t)(len - (pieces - 1) * (size_t)packet.bytes));
    message->unsent &= ~(session_pieces_bits(pieces) << header->piece);
    pace(session, now, packet.bytes, pieces);
    session_expect_answer(session, now);
    if (!header->brief)
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

/* So much leaves behind so many pieces of the message, as far as it is known: nothing, one train or
 * two at most, or more. */
enum behind {
    BEHIND_NOTHING,
    BEHIND_TRAIN,
    BEHIND_TWO,
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

/* May one more train leave, whatever is acknowledged until then? */
static bool fits_one_more(const struct session *session, uint64_t bytes)
{
    const struct session_traffic *traffic = session->traffic;

    return traffic->flight.bytes + bytes + TRAIN_BYTES <= traffic->congestion.window &&
           pieces_room(session) >= 2 * ARQ_PIECES;
}

/* Will an acknowledgement come, of all but the train that leaves now? */
static bool just_asked(const struct session *session)
{
    return session->traffic->flight.out && !session->traffic->unasked;
}

/* The flags of a train of so many pieces, of `bytes`. The peer acknowledges those that ask: at once
 * a part of the window at a time, which costs both sides less than an ACK of each; the last of what
 * is queued soon, so that a message that answers it may do it. The one before asks for nothing, if
 * that does not wait for it: an ACK of its own would come into the way of the answer. So the third
 * to last asks. */
static unsigned asks(const struct session *session, const struct session_message *message,
                     unsigned pieces, uint64_t bytes)
{
    const struct session_traffic *traffic = session->traffic;
    enum behind left = behind(session, message, pieces);

    if (session->timeouts)
        return ARQ_NOW;
    if (left == BEHIND_NOTHING)
        return ARQ_ASKS;
    if (left == BEHIND_TRAIN && (just_asked(session) || fits_one_more(session, bytes)))
        return 0;
    if (left == BEHIND_TWO)
        return ARQ_NOW;
    return traffic->unasked + bytes >= traffic->congestion.window / TRAIN_SHARE ||
                   traffic->unasked_trains + 1 >= UNASKED_TRAINS
               ? ARQ_NOW
               : 0;
}

/* Sends the lowest piece that is unsent. False: the lower takes nothing. */
static bool send_piece(struct session *session, uint64_t now, struct session_message *message)
{
    struct arq_header header = header_of(session, now, message);
    size_t at = arq_piece_at(header.piece, message->size), len = arq_header_size(&header);
    size_t left = message->len - at, room = packet_of(message) - len;
    uint8_t bytes[ARQ_HEADER];
    struct session_packet packet = {.bytes = bytes,
                                    .len = len,
                                    .message = message,
                                    .at = at,
                                    .count = left < room ? left : room};

    packet.more = follows(session, now, message, packet.len + packet.count);
    if (message->pieces > 1 && session->config->transmit_train && !session->timeouts &&
        behind(session, message, 1) <= BEHIND_TRAIN)
        header.flags |= ARQ_ASKS;
    arq_header_put(&header, bytes);
    if (!session->config->transmit(session, &packet)) {
        session->blocked = true;
        return false;
    }
    pieces_left(session, now, now, message, &header, 1, packet.len + packet.count);
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
    return packets > 1 ? arq_pieces_room((size_t)packets, session->mtu.size) : 0;
}

/* How many of the pieces from the lowest unsent one on, which is admitted, may leave with it. The
 * pace is that of the first. 0: the window would cut them, and a short train costs more than half
 * of a long one; acknowledgements that have come, or will, may open it. */
static unsigned train_length(struct session *session, const struct session_message *message)
{
    const struct flight *flight = &session->traffic->flight;
    uint64_t bytes = packet_of(message), packets, open;
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
    packets = lesser(packets, session_places(session, packets));
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
    size_t at = arq_piece_at(header.piece, message->size);
    size_t left = message->len - at, room = arq_piece_at(header.piece + pieces, message->size) - at;
    struct session_train train = {.first = &header,
                                  .pieces = pieces,
                                  .message = message,
                                  .at = at,
                                  .count = left < room ? left : room,
                                  .packet = packet_of(message)};
    size_t len = arq_train_len(&header, pieces, train.count);
    unsigned asked;

    asked = asks(session, message, pieces, len);
    header.flags |= asked;
    switch (session->config->transmit_train(session, &train)) {
    case SESSION_TAKEN: break;
    case SESSION_REFUSED: return send_piece(session, now, message);
    default: session->blocked = true; return false;
    }
    note_asked(session->traffic, asked, train.count);
    if (train.left < now)
        train.left = now;
    session->traffic->took = train.left - now;
    pieces_left(session, now, train.left, message, &header, pieces, len);
    return true;
}

/* A packet with data may acknowledge no more than a word of numbers. The peer would take those
 * before them for lost, since later ones have come: they are acknowledged first. False: the lower
 * takes nothing. */
static bool tell_rest(struct session *session, uint64_t now)
{
    return tells_all(session) || session_send_ack(session, now, 0);
}

/* The same before that packet of a message. After a timeout one that names no session of ours goes
 * behind one that does: a peer that has forgotten it answers that alone (RESET). */
static bool tell_before(struct session *session, uint64_t now,
                        const struct session_message *message)
{
    if (acknowledges(message))
        return tell_rest(session, now);
    return !session->forced || session_send_ack(session, now, ARQ_ASKS);
}

void session_send_messages(struct session *session, uint64_t now)
{
    struct session_message *message;
    unsigned pieces;

    while (!session->blocked && (message = session_next_message(session))) {
        cut(session, message);
        if (!admits(session, now, packet_of(message)))
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
        if (session->looks || !tell_before(session, now, message))
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
    message = session_next_message(session);
    cut(session, message);
    session->burst = 0;
    if (!session->busy_since)
        session->busy_since = now;
    if (!admits(session, now, ARQ_HEADER + message->len) || !tell_rest(session, now) ||
        !send_piece(session, now, message))
        return 0;
    return session->traffic->timeout_at;
}
