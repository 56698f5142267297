/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/arq/session_impl.h"

/* ---- What is acknowledged ---- */

/* News from the acknowledgement of one packet. */
struct news {
    uint64_t bytes, sent; /* sent: of the latest packet */
    bool any;
    bool late;  /* one had been given up, and has come */
    bool timed; /* the newest has given a round trip */
};

enum {
    SOON = 10 * 1000,               /* ns: in which an answer of the owner may acknowledge it */
    UNTOLD_TRAINS = 4 * ARQ_PIECES, /* packets of trains, which say when they want an answer */
    COLLAPSE_TIMEOUTS = 3, /* in a row, of packets that did not come: the window starts again */
};

static void pieces_acked(struct session *session, struct session_message *message, uint64_t pieces)
{
    message->unacked &= ~pieces;
    message->unsent &= ~pieces;
    if (message->unacked && message->numbered && !message->unsent) {
        list_detach(&message->list); /* what was to be sent again has come after all */
        list_attach(&message->list, &session->traffic->sent);
    }
    if (message->unacked)
        return;
    list_detach(&message->list);
    session->in_pieces -= message->in_pieces;
    session->traffic->undone--;
    if (message->resent)
        flight_clear(&session->traffic->flight, message);
    session->config->done(session, message, 0);
}

static void packets_acked(struct session *session, const struct flight_run *run, struct news *news)
{
    const struct flight_packet *packet = &run->packet;

    news->any = true;
    news->late |= packet->state != FLIGHT_OUT;
    news->bytes += run->bytes;
    if (packet->sent > news->sent)
        news->sent = packet->sent;
    if (packet->kind == KIND_PROBE) {
        path_mtu_probe_acked(&session->mtu, packet->bytes);
        session->traffic->congestion.packet = session->mtu.size;
        return;
    }
    path_mtu_acked(&session->mtu, &session->traffic->came, packet->bytes, packet->sent);
    if (packet->what)
        pieces_acked(session, packet->what, run->pieces);
}

/* The number, and those below it, `most` in all, as far as they left together: how many. */
static unsigned numbers_acked(struct session *session, uint64_t now, uint64_t number, unsigned most,
                              bool newest, const struct arq_header *header, struct news *news)
{
    struct flight_run run;
    const struct flight_packet *packet = &run.packet;

    if (!flight_ack_run(&session->traffic->flight, number, most, now, &run))
        return 1;
    if (newest && now > packet->sent && header->kept < ARQ_KEPT_MAX && !header->late)
        news->timed = rtt_add_sample(
            &session->traffic->rtt, now,
            &(struct rtt_sample){.since = now - packet->sent,
                                 .took = packet->kind == KIND_TRAIN ? session->traffic->took : 0,
                                 .delay = (uint64_t)header->kept * ARQ_KEPT_UNIT,
                                 .slack = header->slack});
    packets_acked(session, &run, news);
    return run.count;
}

static void word_acked(struct session *session, uint64_t now, uint64_t below, uint64_t bits,
                       bool first, const struct arq_header *header, struct news *news)
{
    /* Most of them were acknowledged before: nothing is known of what is below flight.first. */
    while (bits) {
        unsigned i = (unsigned)__builtin_ctzll(bits), count;
        uint64_t zeros = ~(bits >> i);

        if (i >= below || below - 1 - i < session->traffic->flight.first)
            return;
        count = numbers_acked(session, now, below - 1 - i,
                              zeros ? (unsigned)__builtin_ctzll(zeros) : SERIAL_WORD,
                              first && i == 0, header, news);
        bits = i + count < SERIAL_WORD ? bits >> (i + count) << (i + count) : 0;
    }
}

/* The increase of the peer's count of marked packets, as bytes of those that were acknowledged. */
static uint64_t marked_bytes(struct session *session, const struct arq_header *header,
                             uint64_t acked)
{
    uint64_t marked = serial_expand(header->marked, session->marked), more;

    if (marked <= session->marked)
        return 0;
    more = (marked - session->marked) * session->mtu.size;
    session->marked = marked;
    return more < acked ? more : acked;
}

static void tell_congestion(struct session *session, uint64_t now, const struct arq_header *header,
                            const struct news *news)
{
    const struct congestion_ack ack = {
        .now = now,
        .sent = news->sent,
        .rtt = &session->traffic->rtt,
        .timed = news->timed,
        .bytes = news->bytes,
        .marked = marked_bytes(session, header, news->bytes),
        .limited = session->held,
    };

    /* RFC 9002, 7.6: persistent congestion. Where what timed out has come, the peer was silent and
     * not the network. */
    if (session->timeouts >= COLLAPSE_TIMEOUTS && !news->late)
        congestion_collapse(&session->traffic->congestion, now);
    session->held = false;
    session->timeouts = 0;
    if (session->traffic->rtt.smoothed)
        session->traffic->congestion.ops->acked(&session->traffic->congestion, &ack);
}

/* False: it acknowledges a packet that never was. */
static bool take_ack(struct session *session, uint64_t now, const struct arq_header *header,
                     const uint8_t *bytes, size_t len)
{
    const struct session_traffic *traffic = session->traffic;
    uint64_t near = traffic ? traffic->flight.acked : session->rest.number;
    uint64_t end = serial_expand(header->end, near);
    bool all = header->flags & ARQ_ALL;
    struct news news = {0};

    if (end > (traffic ? traffic->flight.next : session->rest.number))
        return false;
    if (!traffic)
        return true; /* nothing is under way */
    word_acked(session, now, end, header->below, true, header, &news);
    for (size_t i = 0; (all || header->type == ARQ_ACK) && i < ARQ_WORDS; i++) {
        uint64_t below = end > SERIAL_WORD * (i + 1) ? end - SERIAL_WORD * (i + 1) : 0;

        if (below <= traffic->flight.first)
            break;
        word_acked(session, now, below, all ? UINT64_MAX : arq_ack_word(bytes, len, i), false,
                   header, &news);
    }
    if (news.any)
        tell_congestion(session, now, header, &news);
    return true;
}

static void take_limit(struct session *session, uint32_t told)
{
    uint64_t limit = serial_expand(told, session->limit);

    if (limit > session->limit && limit <= session->next_serial + SESSION_SERIALS)
        session->limit = limit;
}

/* ---- What has come ---- */

/* Is the acknowledgement of another message that asked for it soon still to leave? One that the
 * peer has not asked for is due later. */
static bool asked_before(const struct session *session, uint64_t now,
                         const struct arq_header *header)
{
    return session->ack_at && session->ack_at <= now + SOON &&
           session->soon != (uint8_t)header->serial;
}

/* So many numbers up to this one have come: they are acknowledged with the next packet, at once, or
 * within ack_delay. */
static void answer_later(struct session *session, uint64_t now, uint64_t number, unsigned count,
                         const struct arq_header *header, bool marked)
{
    bool gap = session->numbers.next != session->numbers.end;
    bool train = count > 1 || header->flags & ARQ_ASKS; /* which may be read one by one */
    uint64_t at = now + session->config->ack_delay;

    if (number + 1 == session->numbers.end)
        session->arrived = header->late ? 0 : now; /* 0: longer ago than can be told */
    session->came_marked += marked ? count : 0;
    if ((int32_t)((uint32_t)number + 1 - count - session->untold) < 0)
        session->untold = (uint32_t)number + 1 - count; /* a late one */
    if (header->flags & ARQ_NOW || gap || marked ||
        session_untold(session) >= (train ? UNTOLD_TRAINS : 2))
        at = now;
    else if (header->flags & ARQ_ASKS)
        at = asked_before(session, now, header) ? now : now + SOON;
    if (header->flags & ARQ_ASKS)
        session->soon = (uint8_t)header->serial;
    if (!session->ack_at || at < session->ack_at)
        session->ack_at = at ? at : 1;
}

/* Delivers a whole message, whose pieces lie in datagrams end to end. */
static bool deliver_parts(struct session *session, const uint8_t *bytes, size_t len, size_t segment,
                          unsigned count)
{
    struct iovec parts[ARQ_PIECES];

    for (unsigned i = 0; i < count; i++, bytes += segment, len -= segment) {
        size_t header = i ? ARQ_BRIEF : ARQ_HEADER;

        parts[i].iov_base = (void *)(uintptr_t)(bytes + header);
        parts[i].iov_len = (i + 1 < count ? segment : len) - header;
    }
    return session->config->deliver_parts(session, parts, count);
}

static bool deliver_pieces(struct session *session, uint64_t serial,
                           const struct arq_header *header, const uint8_t *bytes, size_t len)
{
    struct session_assembly *whole;

    bytes += arq_header_size(header);
    len -= arq_header_size(header);
    if (!session_assemble(session, serial, header, bytes, len, &whole))
        return false;
    if (!whole)
        return true;
    if (!session->config->deliver(session, whole->bytes, whole->len)) {
        whole->missing = UINT64_C(1) << header->piece; /* comes again, and then it is tried again */
        whole->len -= len;
        return false;
    }
    session_assembled(whole);
    serial_add(&session->serials, serial);
    return true;
}

/* The window is made as large as it may be when a number needs that; small: what it has at first.
 * False: there is no memory, so what has come is not taken, and comes again. */
static bool reaches(struct serial *window, uint64_t number, const uint64_t *small, uint32_t most)
{
    uint64_t *bits;

    if (number < window->next + window->size || window->bits != small)
        return true;
    bits = malloc(most / SERIAL_WORD * sizeof(*bits));
    if (bits)
        serial_move(window, bits, most);
    return bits;
}

/* True: it may be acknowledged. */
static bool take_data(struct session *session, const struct arq_header *header,
                      const uint8_t *bytes, size_t len)
{
    uint64_t serial = serial_expand(header->serial, session->serials.next);

    if (serial_has(&session->serials, serial)) {
        session->counts.duplicates++;
        return true;
    }
    if (serial - session->serials.next >= SESSION_SERIALS ||
        !reaches(&session->serials, serial, &session->serial_bits, SESSION_SERIALS))
        return false;
    if (header->pieces > 1)
        return deliver_pieces(session, serial, header, bytes, len);
    if (!session->config->deliver(session, bytes + ARQ_HEADER, len - ARQ_HEADER))
        return false;
    serial_add(&session->serials, serial);
    return true;
}

static void take_numbered(struct session *session, uint64_t now, const struct arq_header *header,
                          const uint8_t *bytes, size_t len, bool marked)
{
    uint64_t number = serial_expand(header->number, session->numbers.end);

    if (serial_has(&session->numbers, number)) {
        session->counts.duplicates++;
        return; /* of the network: the acknowledgement is on its way, or comes with the next */
    }
    if (!reaches(&session->numbers, number, &session->number_bits, ARQ_NUMBERS) ||
        (header->type == ARQ_DATA && !take_data(session, header, bytes, len))) {
        session->counts.ignored++;
        return;
    }
    if (session->state != SESSION_OPEN)
        return;
    serial_add_sliding(&session->numbers, number);
    answer_later(session, now, number, 1, header, marked);
}

/* ---- Opening and ending ---- */

/* The peer's identifier is known: packets may leave. */
static void begin(struct session *session, uint64_t now, const struct arq_header *header)
{
    if (session->state == SESSION_OPENING) /* the token was there */
        session->rest = (struct session_rest){0};
    session->peer = header->from;
    session->state = SESSION_OPEN;
    session->heard = now;
    session->unreachable = 0;
    take_limit(session, header->limit);
}

static void take_opening(struct session *session, uint64_t now, const struct arq_header *header,
                         const uint8_t *bytes)
{
    if (session->state != SESSION_OPENING)
        return;
    if (header->type == ARQ_TOKEN_) {
        for (size_t i = 0; i < ARQ_TOKEN; i++)
            session->token[i] = bytes[ARQ_HEADER + i];
        if (!session->has_token)
            session->open_at = now;
        session->has_token = true;
        return;
    }
    begin(session, now, header);
    session->open_at = 0;
}

bool session_asked(struct session *session, uint64_t now, const struct arq_header *header)
{
    if (session->state == SESSION_ENDED || (session->peer && session->peer != header->from))
        return false;
    begin(session, now, header);
    session->open_at = now ? now : 1; /* ACCEPT */
    return true;
}

/* Messages that a CLOSE acknowledges have come; the others may have. */
static void take_end(struct session *session, uint64_t now, const struct arq_header *header,
                     const uint8_t *bytes, size_t len)
{
    if (header->type == ARQ_CLOSE)
        take_ack(session, now, header, bytes, len);
    session_end(session, FI_ECONNRESET, false);
}

/* A packet of the peer's has come, and what it acknowledges, if anything. False: it is wrong. */
static bool hear(struct session *session, uint64_t now, const struct arq_header *header,
                 const uint8_t *bytes, size_t len)
{
    if (!header->brief && !take_ack(session, now, header, bytes, len))
        return false;
    session->heard = now;
    session->unreachable = 0;
    if (!header->brief)
        take_limit(session, header->limit);
    return true;
}

/* Is it of this session, as both ends name it? */
static bool is_ours(const struct session *session, const struct arq_header *header)
{
    return header->to == session->id && (header->brief || header->from == session->peer);
}

/* How many packets of a train may be acknowledged, from the first on. */
static unsigned take_train(struct session *session, const struct arq_header *first,
                           const uint8_t *bytes, size_t len, size_t segment, unsigned count)
{
    uint64_t serial = serial_expand(first->serial, session->serials.next);
    struct arq_header header = *first;
    unsigned taken = 0;

    if (count == header.pieces && session->config->deliver_parts &&
        !session_has_pieces(session, serial)) {
        if (!deliver_parts(session, bytes, len, segment, count))
            return 0;
        serial_add(&session->serials, serial);
        return count;
    }
    for (; taken < count; taken++, header.piece++, header.brief = true) {
        size_t at = taken * segment;

        if (!take_data(session, &header, bytes + at, len - at < segment ? len - at : segment))
            break;
    }
    return taken;
}

bool session_receive_train(struct session *session, uint64_t now, const struct arq_header *header,
                           const uint8_t *bytes, size_t len, size_t segment, unsigned count,
                           bool marked)
{
    uint64_t number = serial_expand(header->number, session->numbers.end);
    uint64_t serial = serial_expand(header->serial, session->serials.next);
    unsigned taken;

    if (session->state != SESSION_OPEN || !is_ours(session, header) ||
        number < session->numbers.end || serial_has(&session->serials, serial) ||
        serial - session->serials.next >= SESSION_SERIALS ||
        !reaches(&session->serials, serial, &session->serial_bits, SESSION_SERIALS) ||
        !reaches(&session->numbers, number + count - 1, &session->number_bits, ARQ_NUMBERS) ||
        !hear(session, now, header, bytes, len))
        return false;
    taken = take_train(session, header, bytes, len, segment, count);
    session->counts.ignored += count - taken;
    if (session->state != SESSION_OPEN || !taken)
        return true;
    for (unsigned i = 0; i < taken; i++)
        serial_add_sliding(&session->numbers, number + i);
    answer_later(session, now, number + taken - 1, taken, header, marked);
    if (!session_busy(session))
        session->busy_since = 0;
    return true;
}

void session_receive(struct session *session, uint64_t now, const struct arq_header *header,
                     const uint8_t *bytes, size_t len, bool marked)
{
    if (session->state == SESSION_ENDED || header->to != session->id)
        return;
    if (header->type == ARQ_TOKEN_ || header->type == ARQ_ACCEPT) {
        take_opening(session, now, header, bytes);
        return;
    }
    if (session->state != SESSION_OPEN || !is_ours(session, header)) {
        session->counts.ignored++;
        return;
    }
    if (header->type == ARQ_RESET || header->type == ARQ_CLOSE) {
        take_end(session, now, header, bytes, len);
        return;
    }
    if (header->type == ARQ_OPEN || !hear(session, now, header, bytes, len)) {
        session->counts.ignored++;
        return;
    }
    if (header->type == ARQ_DATA || header->type == ARQ_PROBE)
        take_numbered(session, now, header, bytes, len, marked);
    else if (header->flags & ARQ_ASKS)
        session->ack_at = now ? now : 1;
    if (!session_busy(session))
        session->busy_since = 0;
}
