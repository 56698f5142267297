/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct sim_event {
    uint64_t at, order;
    uint64_t number; /* among those to that end, of all that arrive, as they left */
    unsigned to;
    bool marked;
    uint16_t len;
    uint8_t *bytes;
};

/* The traffic: a message, and the end that owns it. */
struct letter {
    struct session_message message;
    uint8_t bytes[];
};

static struct sim *current; /* sessions carry no pointer of their owner's */

uint64_t sim_random(struct sim *sim)
{
    sim->seed ^= sim->seed << 13;
    sim->seed ^= sim->seed >> 7;
    sim->seed ^= sim->seed << 17;
    return sim->seed;
}

static bool chance(struct sim *sim, unsigned of_thousand)
{
    return of_thousand && sim_random(sim) % 1000 < of_thousand;
}

/* ---- Events ---- */

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void heap_add(struct sim *sim, struct sim_event event)
{
    static uint64_t order;
    size_t i = sim->events++;

    if (sim->events > sim->room) {
        sim->room = sim->room ? 2 * sim->room : 1024;
        sim->heap = realloc(sim->heap, sim->room * sizeof(*sim->heap));
        assert_non_null(sim->heap);
    }
    event.order = order++;
    for (; i && before(&event, &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
        sim->heap[i] = sim->heap[(i - 1) / 2];
    sim->heap[i] = event;
}

static struct sim_event heap_take(struct sim *sim)
{
    struct sim_event top = sim->heap[0], last = sim->heap[--sim->events];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < sim->events; i = child) {
        if (child + 1 < sim->events && before(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!before(&sim->heap[child], &last))
            break;
        sim->heap[i] = sim->heap[child];
    }
    if (sim->events)
        sim->heap[i] = last;
    return top;
}

/* The packet that arrives next. Of those that came before it at most `number` had left before it:
 * the others have overtaken it. */
static struct sim_event next_event(struct sim *sim)
{
    struct sim_event event = heap_take(sim);
    struct sim_end *end = &sim->end[event.to];

    if (end->came > event.number && end->came - event.number > end->overtaken)
        end->overtaken = end->came - event.number;
    end->came++;
    return event;
}

/* ---- Paths ---- */

/* ns that the packet waits for the link, and takes on it; UINT64_MAX: it is dropped. */
static uint64_t through_link(struct sim *sim, struct sim_link *link, size_t len, bool *marked)
{
    uint64_t wait = link->free_at > sim->now ? link->free_at - sim->now : 0;
    uint64_t queued = (uint64_t)((double)wait * (double)link->rate / 1e9);

    link->packets++;
    if (queued + len > link->room) {
        link->dropped++;
        return UINT64_MAX;
    }
    if (queued > link->most)
        link->most = queued;
    link->waited += wait;
    if (link->marks && queued > link->marks)
        *marked = true;
    link->carried += len;
    link->free_at = (link->free_at > sim->now ? link->free_at : sim->now) +
                    (uint64_t)((double)len * 1e9 / (double)link->rate);
    return link->free_at - sim->now;
}

static uint64_t jitter_of(struct sim *sim, const struct sim_path *path)
{
    return path->jitter ? sim_random(sim) % path->jitter : 0;
}

static void carry_late(struct sim *sim, const struct sim_path *path, unsigned to,
                       const uint8_t *bytes, size_t len, uint64_t jitter)
{
    struct sim_event event = {.to = to, .len = (uint16_t)len};
    uint64_t wait = 0;

    if (path->down || (path->mtu && len > path->mtu) || chance(sim, path->loss))
        return;
    if (path->link)
        wait = through_link(sim, path->link, len, &event.marked);
    if (wait == UINT64_MAX)
        return;
    event.at = sim->now + wait + path->delay + jitter;
    if (chance(sim, path->strays))
        event.at += path->stray;
    event.number = sim->end[to].coming++;
    event.bytes = malloc(len);
    assert_non_null(event.bytes);
    memcpy(event.bytes, bytes, len);
    heap_add(sim, event);
}

static void carry(struct sim *sim, const struct sim_path *path, unsigned to, const uint8_t *bytes,
                  size_t len)
{
    carry_late(sim, path, to, bytes, len, jitter_of(sim, path));
}

/* ---- Ends ---- */

/* A session, and the end that it is of. */
struct sim_session {
    struct session session;
    struct sim_end *end;
};

static struct sim_end *end_of(const struct session *session)
{
    return list_item(session, struct sim_session, session)->end;
}

static bool transmit(struct session *session, const struct session_packet *packet)
{
    struct sim_end *end = end_of(session);
    uint8_t bytes[SIM_PACKET];

    assert_true(packet->len + packet->count <= sizeof(bytes));
    assert_true(packet->len + packet->count <= end->config.most);
    memcpy(bytes, packet->bytes, packet->len);
    if (packet->message)
        memcpy(bytes + packet->len, packet->message->payload + packet->at, packet->count);
    carry(current, &end->path, end->peer, bytes, packet->len + packet->count);
    if (chance(current, end->path.dup))
        carry(current, &end->path, end->peer, bytes, packet->len + packet->count);
    return true;
}

static enum session_taken transmit_train(struct session *session, struct session_train *train)
{
    struct sim_end *end = end_of(session);
    uint64_t jitter = jitter_of(current, &end->path);
    bool together = chance(current, 700);
    uint8_t bytes[SIM_PACKET], headers[ARQ_PIECES * ARQ_HEADER];

    size_t at = train->at, last = train->at + train->count;

    assert_true(train->packet <= end->config.most);
    if (chance(current, 20))
        return chance(current, 500) ? SESSION_REFUSED : SESSION_FULL;
    arq_train_put(train->first, train->pieces, ARQ_HEADER, headers);
    for (unsigned i = 0; i < train->pieces; i++) {
        size_t header = i ? ARQ_BRIEF : arq_header_size(train->first);
        size_t room = train->packet - header, len = last - at < room ? last - at : room;

        memcpy(bytes, headers + i * (size_t)ARQ_HEADER, header);
        memcpy(bytes + header, train->message->payload + at, len);
        at += len;
        for (int copies = chance(current, end->path.dup) ? 2 : 1; copies--;)
            carry_late(current, &end->path, end->peer, bytes, header + len,
                       together ? jitter : jitter_of(current, &end->path));
    }
    end->trains[0] += train->pieces;
    return SESSION_TAKEN;
}

static uint8_t letter_byte(uint64_t number, size_t i)
{
    return (uint8_t)(number * 31 + i * 7);
}

static bool deliver(struct session *session, const uint8_t *bytes, size_t len)
{
    struct sim_end *end = end_of(session);
    uint64_t number;

    if (end->full)
        return false;
    memcpy(&number, bytes, sizeof(number));
    for (size_t i = sizeof(number); i < len; i++)
        assert_int_equal(bytes[i], letter_byte(number, i));
    if (number >= end->seen_count) {
        uint64_t count = 2 * (number + 512);

        end->seen = realloc(end->seen, count);
        assert_non_null(end->seen);
        memset(end->seen + end->seen_count, 0, count - end->seen_count);
        end->seen_count = count;
    }
    assert_int_equal(end->seen[number], 0); /* once */
    end->seen[number] = 1;
    end->delivered++;
    end->bytes += len;
    return true;
}

static bool deliver_parts(struct session *session, const struct iovec *parts, size_t count)
{
    static uint8_t bytes[ARQ_PIECES * SIM_PACKET];
    size_t len = 0;

    for (size_t i = 0; i < count; len += parts[i++].iov_len)
        memcpy(bytes + len, parts[i].iov_base, parts[i].iov_len);
    return deliver(session, bytes, len);
}

/* now: from outside of the session, which may send at once; or 0. */
static void make(struct sim_end *end, uint64_t now)
{
    struct letter *letter = malloc(sizeof(*letter) + end->size);
    uint64_t number = end->made++;

    assert_non_null(letter);
    memcpy(letter->bytes, &number, sizeof(number));
    for (size_t i = sizeof(number); i < end->size; i++)
        letter->bytes[i] = letter_byte(number, i);
    letter->message = (struct session_message){.payload = letter->bytes, .len = end->size};
    if (now)
        session_send_now(end->session, &letter->message, now); /* it is run afterwards, whatever */
    else
        session_send(end->session, &letter->message);
    end->to_send--;
}

static void done(struct session *session, struct session_message *message, int err)
{
    struct sim_end *end = end_of(session);

    free(list_item(message, struct letter, message));
    if (err) {
        end->failed++;
        end->err = err;
    } else {
        end->done++;
    }
    if (end->to_send && session->state != SESSION_ENDED)
        make(end, 0);
}

static void open_end(struct sim *sim, struct sim_end *end)
{
    struct sim_session *own = malloc(sizeof(*own));

    assert_non_null(own);
    own->end = end;
    end->session = &own->session;
    session_init(end->session, &end->config, sim_random(sim) | 1, 0, 256, sim->now);
    end->deadline = sim->now;
}

static void close_end(struct sim_end *end)
{
    session_end(end->session, 1, false);
    session_finish(end->session);
    free(list_item(end->session, struct sim_session, session));
}

unsigned sim_pair(struct sim *sim, const struct congestion_ops *cc, uint32_t most,
                  const struct sim_path *path)
{
    unsigned first = sim->ends;

    assert_true(first + 2 <= SIM_ENDS);
    sim->ends += 2;
    for (unsigned i = 0; i < 2; i++) {
        struct sim_end *end = &sim->end[first + i];

        *end = (struct sim_end){.peer = first + 1 - i, .path = *path};
        end->config = (struct session_config){
            .congestion = cc,
            .most = most,
            .patience = UINT64_C(600000000000),
            .ack_delay = 100000,
            .transmit = transmit,
            .deliver = deliver,
            .done = done,
        };
        open_end(sim, end);
        if (i)
            end->session->open_at = UINT64_MAX; /* waits to be asked */
    }
    return first;
}

void sim_use_trains(struct sim *sim, unsigned first)
{
    for (unsigned i = first; i < first + 2; i++) {
        sim->end[i].config.transmit_train = transmit_train;
        sim->end[i].config.deliver_parts = deliver_parts;
    }
}

void sim_restart(struct sim *sim, unsigned index)
{
    struct sim_end *end = &sim->end[index];

    end->to_send = 0;
    close_end(end);
    open_end(sim, end);
    end->session->open_at = UINT64_MAX;
    if (end->seen)
        memset(end->seen, 0, end->seen_count);
}

void sim_send(struct sim *sim, unsigned index, uint64_t count, size_t size)
{
    struct sim_end *end = &sim->end[index];

    end->to_send += count;
    end->size = size;
    for (unsigned i = 0; i < 512 && end->to_send; i++)
        make(end, sim->now);
    end->deadline = sim->now;
}

/* ---- The clock ---- */

static void answer_stranger(struct sim *sim, struct sim_end *end, const struct arq_header *asked)
{
    struct arq_header header = {.type = ARQ_RESET, .to = asked->from, .from = asked->to};
    uint8_t bytes[ARQ_HEADER];

    if (asked->type == ARQ_RESET || asked->type == ARQ_CLOSE || !asked->to || asked->brief)
        return;
    arq_header_put(&header, bytes);
    carry(sim, &end->path, end->peer, bytes, sizeof(bytes));
}

static void take_packet(struct sim *sim, const struct sim_event *event)
{
    struct sim_end *end = &sim->end[event->to];
    struct arq_header header;

    if (end->asleep)
        return;
    assert_int_equal(arq_header_get(event->bytes, event->len, &header), ARQ_FINE);
    if (header.type == ARQ_OPEN) {
        if (!session_asked(end->session, sim->now, &header)) {
            session_end(end->session, 104, false);
            close_end(end);
            open_end(sim, end);
            session_asked(end->session, sim->now, &header);
        }
    } else if (header.to == end->session->id) {
        session_receive(end->session, sim->now, &header, event->bytes, event->len, event->marked);
    } else {
        answer_stranger(sim, end, &header);
    }
    end->deadline = sim->now;
}

/* Is that the next event, one that the kernel would lay behind those of `first`? */
static bool follows(const struct sim *sim, const struct sim_event *first, size_t len)
{
    const struct sim_event *next = &sim->heap[0];

    return sim->events && next->at <= sim->now && next->to == first->to &&
           next->marked == first->marked && next->len <= first->len && len % first->len == 0 &&
           len + next->len <= UINT16_MAX;
}

/* Takes what has come together for an end that takes trains. */
static void take_train(struct sim *sim, const struct sim_event *first)
{
    static uint8_t bytes[UINT16_MAX];
    struct sim_end *end = &sim->end[first->to];
    size_t len = first->len, segment = first->len, next;
    struct arq_header header;

    memcpy(bytes, first->bytes, len);
    while (follows(sim, first, len)) {
        struct sim_event event = next_event(sim);

        memcpy(bytes + len, event.bytes, event.len);
        len += event.len;
        free(event.bytes);
    }
    for (size_t at = 0; at < len; at = next) {
        size_t left = len - at, one = left < segment ? left : segment;
        struct sim_event alone = {.to = first->to, .marked = first->marked, .bytes = bytes + at};
        unsigned count;

        alone.len = (uint16_t)one;
        assert_int_equal(arq_header_get(bytes + at, one, &header), ARQ_FINE);
        count = arq_train_get(bytes + at, left, segment, &header);
        next = at + (left < count * segment ? left : count * segment);
        if (count > 1 && !end->asleep && header.to == end->session->id &&
            session_receive_train(end->session, sim->now, &header, bytes + at, next - at, segment,
                                  count, first->marked)) {
            end->trains[1] += count;
            end->deadline = sim->now;
            continue;
        }
        next = at + one;
        take_packet(sim, &alone);
    }
}

static void run_ends(struct sim *sim)
{
    for (unsigned i = 0; i < sim->ends; i++) {
        struct sim_end *end = &sim->end[i];

        if (!end->asleep && end->deadline <= sim->now)
            do
                end->deadline = session_run(end->session, sim->now, sim->now);
            while (end->session->unfinished);
        if (end->session->blocked)
            end->deadline = sim->now + 1000; /* the lower takes more */
    }
}

static uint64_t next_time(const struct sim *sim)
{
    uint64_t next = sim->events ? sim->heap[0].at : UINT64_MAX;

    for (unsigned i = 0; i < sim->ends; i++) {
        if (!sim->end[i].asleep && sim->end[i].deadline < next)
            next = sim->end[i].deadline;
    }
    return next;
}

void sim_run(struct sim *sim, uint64_t until, bool (*more)(const struct sim *sim))
{
    current = sim;
    while (!more || more(sim)) {
        uint64_t next = next_time(sim);

        if (next > until) {
            sim->now = until;
            return;
        }
        assert_true(next >= sim->now);
        sim->now = next;
        while (sim->events && sim->heap[0].at <= sim->now) {
            struct sim_event event = next_event(sim);

            if (sim->end[event.to].config.deliver_parts)
                take_train(sim, &event);
            else
                take_packet(sim, &event);
            free(event.bytes);
        }
        run_ends(sim);
        if (sim->tick)
            sim->tick(sim);
    }
}

bool sim_busy(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->ends; i++) {
        const struct sim_end *end = &sim->end[i];

        if (end->to_send || end->done + end->failed < end->made)
            return true;
    }
    return false;
}

struct sim *sim_create(uint64_t seed)
{
    struct sim *sim = calloc(1, sizeof(*sim));

    assert_non_null(sim);
    sim->seed = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    sim->now = 1000;
    current = sim;
    return sim;
}

void sim_destroy(struct sim *sim)
{
    current = sim;
    for (unsigned i = 0; i < sim->ends; i++) {
        sim->end[i].to_send = 0;
        close_end(&sim->end[i]);
        free(sim->end[i].seen);
    }
    while (sim->events)
        free(heap_take(sim).bytes);
    free(sim->heap);
    free(sim);
}
