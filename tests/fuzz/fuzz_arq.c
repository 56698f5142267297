/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets and time against a live session. The input is a list of steps: a message of ours, time
 * that passes, a datagram as it is, or a packet with the right identifiers whose fields are the
 * input's. Each message is done once, memory stays in bounds, and the session always says when it
 * wants to run again. Afterwards it is alive: with a peer that acknowledges what comes each message
 * is done, and with one that is silent the session ends in time, whatever it was told before.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/arq/session.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    OURS = 1,
    PEERS = 2,
    MESSAGES = 64,
    MOST = 1500,
    LARGEST = 8000,
    RUNS = 20000, /* by which a session has ended its messages */
};
#define PATIENCE UINT64_C(600000000000)

struct input {
    const uint8_t *at;
    size_t left;
};

static struct session_message messages[MESSAGES];
static bool out[MESSAGES];
static uint8_t payload[LARGEST];
static uint64_t now;
static bool takes_all; /* the lower does */

static unsigned take(struct input *input, unsigned bytes)
{
    unsigned value = 0;

    for (; bytes && input->left; bytes--, input->left--)
        value = value << 8 | *input->at++;
    return value;
}

static bool transmit(struct session *session, const struct session_packet *packet)
{
    struct arq_header header;
    uint8_t bytes[MOST];

    must(packet->len + packet->count <= sizeof(bytes));
    memcpy(bytes, packet->bytes, packet->len);
    if (packet->message) {
        must(packet->at + packet->count <= packet->message->len);
        memcpy(bytes + packet->len, packet->message->payload + packet->at, packet->count);
    }
    /* We understand ourselves. */
    must(arq_header_get(bytes, packet->len + packet->count, &header) == ARQ_FINE);
    return takes_all || now % 7 != 0;
}

static enum session_taken transmit_train(struct session *session, struct session_train *train)
{
    must(train->pieces > 1 && train->pieces <= ARQ_PIECES);
    must(train->at + train->count <= train->message->len);
    must(train->packet <= MOST);
    must(arq_train_len(train->first, train->pieces, train->count) <= train->pieces * train->packet);
    must(arq_train_len(train->first, train->pieces, train->count) >
         (train->pieces - 1) * train->packet + ARQ_BRIEF);
    if (takes_all || now % 7 > 1)
        return SESSION_TAKEN;
    return now % 7 ? SESSION_FULL : SESSION_REFUSED;
}

static bool deliver(struct session *session, const uint8_t *bytes, size_t len)
{
    unsigned sum = 0;

    for (size_t i = 0; i < len; i++)
        sum += bytes[i];
#ifdef FUZZ_PLANTED
    /* As if all messages were small. */
    must(len <= 100);
#endif
    return sum % 5 != 1;
}

static bool deliver_parts(struct session *session, const struct iovec *parts, size_t count)
{
    unsigned sum = 0;

    must(count > 1 && count <= ARQ_PIECES);
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; at < parts[i].iov_len; at++)
            sum += ((const uint8_t *)parts[i].iov_base)[at];
    return sum % 5 != 1;
}

static void done(struct session *session, struct session_message *message, int err)
{
    must(out[message - messages]);
    out[message - messages] = false;
}

static void send_one(struct session *session, unsigned len)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        if (out[i])
            continue;
        out[i] = true;
        messages[i] = (struct session_message){.payload = payload, .len = len % (LARGEST + 1)};
        session_send(session, &messages[i]);
        return;
    }
}

static void receive(struct session *session, const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1); /* exact, so that a read past the end is seen */
    struct arq_header header;

    must(!!copy);
    memcpy(copy, bytes, len);
    if (arq_header_get(copy, len, &header) == ARQ_FINE) {
        if (header.type == ARQ_OPEN)
            session_asked(session, now, &header);
        else
            session_receive(session, now, &header, copy, len, now & 1);
    }
    free(copy);
}

static void receive_fields(struct session *session, struct input *input)
{
    struct arq_header header = {.type = take(input, 1) % ARQ_TYPES, .to = OURS, .from = PEERS};
    uint8_t bytes[MOST] = {0};
    size_t len = ARQ_HEADER;

    header.flags = take(input, 1) % (ARQ_FLAGS + 1);
    header.number = take(input, 2);
    header.serial = take(input, 2);
    header.limit = take(input, 2);
    header.end = take(input, 2);
    header.below = take(input, 4);
    header.pieces = (uint16_t)(take(input, 1) % 5);
    header.piece = (uint16_t)take(input, 1);
    header.size = (uint16_t)take(input, 1);
    if (header.type == ARQ_OPEN)
        len = ARQ_OPEN_SIZE;
    else if (header.type == ARQ_TOKEN_)
        len += ARQ_TOKEN;
    else if (header.type == ARQ_ACK)
        len += take(input, 1) % (ARQ_WORDS + 1) * 8;
    else if (header.type == ARQ_DATA || header.type == ARQ_PROBE)
        len += take(input, 1);
    header.brief = header.type == ARQ_DATA && header.piece;
    len -= header.brief ? ARQ_HEADER - ARQ_BRIEF : 0;
    memset(bytes, (int)header.number, len);
    arq_header_put(&header, bytes);
    receive(session, bytes, len);
}

/* Datagrams that lie end to end: some pieces of a message, and whatever the input has behind. */
static void receive_train(struct session *session, struct input *input)
{
    struct arq_header header = {.type = ARQ_DATA, .to = OURS, .from = PEERS, .pieces = 2};
    unsigned count = take(input, 1) % ARQ_PIECES + 1, behind = take(input, 1);
    size_t size = ARQ_HEADER - ARQ_BRIEF + take(input, 1) % 32, segment = ARQ_BRIEF + size;
    size_t len = count * segment;
    uint8_t *bytes;

    header.number = take(input, 2);
    header.serial = take(input, 1);
    header.end = take(input, 1);
    header.piece = (uint16_t)(take(input, 1) % ARQ_PIECES);
    header.pieces = (uint16_t)(header.piece + count + take(input, 1) % 3 - 1);
    header.size = (uint16_t)size;
    header.brief = header.piece > 0;
    behind = behind < input->left ? behind : (unsigned)input->left;
    bytes = calloc(1, len + behind);
    must(!!bytes);
    arq_train_put(&header, count, segment, bytes);
    memcpy(bytes + len, input->at, behind);
    input->at += behind;
    input->left -= behind;
    len += behind;
    if (arq_header_get(bytes, segment, &header) == ARQ_FINE) {
        count = arq_train_get(bytes, len, segment, &header);
        must(count >= 1 && count <= ARQ_PIECES);
        if (count > 1)
            session_receive_train(session, now, &header, bytes,
                                  len < count * segment ? len : count * segment, segment, count,
                                  now & 1);
    }
    free(bytes);
}

static void step(struct session *session, struct input *input)
{
    size_t len;

    switch (take(input, 1) % 7) {
    case 0: send_one(session, take(input, 2)); break;
    case 1: now += (uint64_t)take(input, 2) * 10000; break;
    case 2: now += (uint64_t)take(input, 1) * 1000000000; break;
    case 3:
        len = take(input, 1);
        len = len < input->left ? len : input->left;
        receive(session, input->at, len);
        input->at += len;
        input->left -= len;
        break;
    case 6: receive_train(session, input); break;
    default: receive_fields(session, input); break;
    }
}

/* To the time that the session names. One with messages names one. */
static void run_on(struct session *session)
{
    uint64_t next = session_run(session, now, now);

    must(next != UINT64_MAX || !session_has_messages(session));
    if (session->unfinished || next <= now)
        next = now + 1000;
    if (next != UINT64_MAX)
        now = next;
}

static void acknowledge_all(struct session *session)
{
    struct arq_header header = {
        .type = session->state == SESSION_OPENING ? ARQ_ACCEPT : ARQ_ACK,
        .to = OURS,
        .from = session->peer ? session->peer : PEERS,
        .limit = (uint32_t)session->next_serial + 256,
        .end = (uint32_t)(session->traffic ? session->traffic->flight.next : session->rest.number),
        .below = UINT64_MAX,
    };
    uint8_t bytes[ARQ_HEADER + 8 * ARQ_WORDS];

    memset(bytes, 0xff, sizeof(bytes));
    arq_header_put(&header, bytes);
    receive(session, bytes, header.type == ARQ_ACK ? sizeof(bytes) : ARQ_HEADER);
}

static void must_be_alive(struct session *session, bool silent)
{
    uint64_t limit = now + 2 * PATIENCE;

    takes_all = true;
    for (int i = 0; session->state != SESSION_ENDED && session_has_messages(session); i++) {
        must(i < RUNS && now < limit);
        run_on(session);
        if (!silent)
            acknowledge_all(session);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    const struct session_config config = {
        .congestion = congestion_all[take(&input, 1) % 3],
        .most = MOST,
        .patience = PATIENCE,
        .ack_delay = 100000,
        .transmit = transmit,
        .transmit_train = transmit_train,
        .deliver = deliver,
        .deliver_parts = deliver_parts,
        .done = done,
    };
    struct session *session = malloc(sizeof(*session));

    must(!!session);
    takes_all = false;
    now = 1000;
    session_init(session, &config, OURS, take(&input, 1) % 2 ? PEERS : 0, 64, now);
    while (input.left && session->state != SESSION_ENDED) {
        step(session, &input);
        session_run(session, now, now);
    }
    must_be_alive(session, size % 2);
    session_end(session, 1, true);
    for (unsigned i = 0; i < MESSAGES; i++)
        must(!out[i]);
    session_finish(session);
    free(session);
    return 0;
}
