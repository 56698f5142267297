/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_flow.h"

#include <string.h>

#include <rdma/fi_errno.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

#define CHECKED_FOR MS /* so long messages may leave before rails are looked after again */

/* ---- Life ---- */

/* All but what the rails are. */
static void begin(struct flow *flow)
{
    list_init(&flow->waiting);
    list_init(&flow->moved);
    flow->backlog = 0;
    memset(flow->ring, 0, sizeof(flow->ring));
    flow->next_out = flow->acked = 0;
    flow->limit = FLOW_WINDOW;
    serial_init(&flow->in, flow->in_bits, FLOW_WINDOW);
    flow->told = FLOW_WINDOW;
    flow->kept = 0;
    flow->owed = 0;
    flow->ack_now = false;
    flow->busy_since = 0;
    flow->heard = flow->absent_from = flow->absent_to = 0;
}

void flow_init(struct flow *flow, const struct flow_config *config, struct flow_path *paths,
               unsigned count)
{
    *flow = (struct flow){
        .config = config,
        .paths = paths,
        .count = count,
        .favourite = config->first,
        .turn = config->first,
    };
    for (unsigned i = 0; i < count; i++)
        list_init(&flow->paths[i].flying);
    list_init(&flow->reads);
    list_init(&flow->ended);
    begin(flow);
}

void flow_add_path(struct flow *flow, unsigned rail)
{
    flow->paths[rail].state = PATH_UP;
}

bool flow_has_rail(const struct flow *flow, unsigned but)
{
    for (unsigned i = 0; i < flow->count; i++) {
        if (i != but && flow->paths[i].state == PATH_UP)
            return true;
    }
    return false;
}

static void collect(struct flow *flow, struct list *all)
{
    list_init(all);
    for (uint64_t serial = flow->acked; serial != flow->next_out; serial++) {
        struct flow_message *message = flow->ring[serial % FLOW_WINDOW];

        if (!message)
            continue;
        list_detach(&message->link);
        list_attach(&message->link, all);
    }
    list_join(&flow->waiting, all);
}

static void tell_ended(struct flow *flow)
{
    while (!list_empty(&flow->ended)) {
        struct flow_message *message = list_item(flow->ended.next, struct flow_message, link);

        list_detach(&message->link);
        flow->config->done(flow, message, 0);
    }
}

void flow_end(struct flow *flow, int err)
{
    struct list all;

    tell_ended(flow);
    collect(flow, &all);
    for (unsigned i = 0; i < flow->count; i++) {
        struct flow_path *path = &flow->paths[i];

        path->inflight = path_stripe_bytes(path);
        path->asked = path->unsent = path->owes_answer = false;
        if (path->state == PATH_DOWN)
            path->err = 0;
    }
    begin(flow);
    flow->config->ended(flow, err);
    while (!list_empty(&all)) {
        struct flow_message *message = list_item(all.next, struct flow_message, link);

        list_detach(&message->link);
        flow->config->done(flow, message, err);
    }
    stripes_end(flow, err);
}

/* ---- Packets ---- */

/* The first that the peer may not send: as many as fit the window, less what waits here. */
static uint64_t own_limit(const struct flow *flow)
{
    uint64_t limit = flow->in.next + FLOW_WINDOW;

    limit -= flow->kept < FLOW_WINDOW ? flow->kept : FLOW_WINDOW;
    return flow->shut || limit < flow->told ? flow->told : limit;
}

static void put_acks(struct flow *flow, struct mrail_head *head)
{
    uint64_t next = flow->in.next;

    head->ack = (uint32_t)next;
    for (unsigned i = 0; flow->in.end > next + 1 && i < MRAIL_WORDS; i++) {
        uint64_t word = 0;

        for (unsigned bit = 0; bit < 64; bit++) {
            if (serial_has(&flow->in, next + 1 + 64 * i + bit))
                word |= UINT64_C(1) << bit;
        }
        head->bits[i] = word;
        if (word)
            head->words = (uint8_t)(i + 1);
    }
    flow->told = own_limit(flow);
    head->limit = (uint32_t)flow->told;
}

static bool transmit(struct flow *flow, unsigned rail, enum mrail_type type, uint32_t serial,
                     struct flow_message *message)
{
    struct mrail_head head = {.type = (uint8_t)type, .serial = serial};

    if (message && message->own)
        head.flags = MRAIL_OWN;
    put_acks(flow, &head);
    if (!flow->config->transmit(flow, rail, &head, message))
        return false;
    flow->owed = 0;
    flow->ack_now = false;
    return true;
}

bool flow_transmit_plain(struct flow *flow, unsigned rail, enum mrail_type type, uint32_t serial)
{
    return transmit(flow, rail, type, serial, NULL);
}

/* ---- Which rail ---- */

enum flow_way flow_way_for(const struct flow *flow, uint64_t len)
{
    const struct flow_config *config = flow->config;

    for (size_t i = 0; i < config->policy_count; i++) {
        if (len <= config->policies[i].most)
            return config->policies[i].way;
    }
    return FLOW_SHORTEST;
}

/* ns until half of what waits has left, by all rails that are up: all of it would trust rates that
 * bursts of a link flatter. */
static uint64_t backlog_takes(const struct flow *flow)
{
    double rate = 0;

    for (unsigned i = 0; i < flow->count; i++)
        rate += flow->paths[i].state == PATH_UP ? flow->paths[i].rate : 0;
    return rate > 0 ? (uint64_t)((double)flow->backlog / 2 / rate) : 0;
}

/* The rail of the shortest expected end. One that is full takes part where its rate is known: when
 * half of what waits could leave before this would be there by another, waiting is shorter. */
static unsigned shortest(const struct flow *flow, uint64_t len, uint64_t now)
{
    uint64_t end = UINT64_MAX;
    unsigned best = FLOW_NO_RAIL;

    for (unsigned i = 0; i < flow->count; i++) {
        const struct flow_path *path = &flow->paths[i];
        bool room = path_has_room(path, len, flow->config->packet);
        uint64_t expected;

        if (path->state != PATH_UP || (!(path->rate > 0) && !room))
            continue;
        expected = path_expected(flow, path, len, now) + (room ? 0 : backlog_takes(flow));
        if (expected < end) {
            end = expected;
            best = i;
        }
    }
    return best;
}

/* The rail of small messages and of fixed ones: the same as long as it lives, then the nearest that
 * does. */
unsigned flow_favourite(struct flow *flow)
{
    if (flow->paths[flow->favourite].state == PATH_UP)
        return flow->favourite;
    for (unsigned i = 0; i < flow->count; i++) {
        unsigned rail = flow->config->order[i];

        if (flow->paths[rail].state != PATH_UP)
            continue;
        flow->favourite = rail;
        return rail;
    }
    return FLOW_NO_RAIL;
}

static unsigned next_turn(struct flow *flow, uint64_t len)
{
    for (unsigned i = 0; i < flow->count; i++) {
        unsigned rail = (flow->turn + i) % flow->count;

        if (flow->paths[rail].state != PATH_UP ||
            !path_has_room(&flow->paths[rail], len, flow->config->packet))
            continue;
        flow->turn = rail + 1;
        return rail;
    }
    return FLOW_NO_RAIL;
}

/* Looks at the others only when another could be worth it. */
static unsigned of_small(struct flow *flow, uint64_t len, uint64_t now)
{
    unsigned same = flow_favourite(flow), best;
    uint64_t expected;

    if (same == FLOW_NO_RAIL)
        return same;
    expected = path_expected(flow, &flow->paths[same], len, now);
    if (expected <= MS)
        return same;
    best = shortest(flow, len, now);
    if (best == FLOW_NO_RAIL || best == same)
        return same;
    return expected > 2 * path_expected(flow, &flow->paths[best], len, now) + MS ? best : same;
}

/* FLOW_NO_RAIL: none, or it is better to wait. */
static unsigned choose(struct flow *flow, uint64_t len, uint64_t now)
{
    enum flow_way way = flow_way_for(flow, len);
    unsigned rail;

    if (way == FLOW_TURNS)
        rail = next_turn(flow, len);
    else if (way == FLOW_FIXED)
        rail = flow_favourite(flow);
    else if (len <= flow->config->small)
        rail = of_small(flow, len, now);
    else
        rail = shortest(flow, len, now);
    if (rail != FLOW_NO_RAIL && !path_has_room(&flow->paths[rail], len, flow->config->packet))
        return FLOW_NO_RAIL;
    return rail;
}

/* ---- Messages out ---- */

void flow_send(struct flow *flow, struct flow_message *message)
{
    message->rail = FLOW_NO_RAIL;
    flow->backlog += message->len;
    list_attach(&message->link, &flow->waiting);
}

static void move_before(struct flow *flow, unsigned rail, uint64_t sent)
{
    struct flow_path *path = &flow->paths[rail];
    struct list *at = flow->moved.next;

    list_for_each_safe (pos, after, &path->flying) {
        struct flow_message *message = list_item(pos, struct flow_message, link);

        if (message->sent >= sent)
            break;
        if (message->stripe)
            continue;
        list_detach(&message->link);
        path->inflight -= message->len;
        flow->backlog += message->len;
        message->rail = FLOW_NO_RAIL;
        message->again = true;
        while (at != &flow->moved &&
               list_item(at, struct flow_message, link)->serial < message->serial)
            at = at->next;
        while (at->prev != &flow->moved &&
               list_item(at->prev, struct flow_message, link)->serial > message->serial)
            at = at->prev;
        list_attach_before(&message->link, at);
    }
}

void flow_move_all(struct flow *flow, unsigned rail)
{
    move_before(flow, rail, UINT64_MAX);
}

void flow_move_older(struct flow *flow, unsigned rail, uint64_t probed)
{
    move_before(flow, rail, probed - flow->config->rail_timeout / FLOW_OVERTAKEN);
}

/* It has left by the rail. */
static void fly(struct flow *flow, struct flow_message *message, unsigned rail, uint64_t now)
{
    struct flow_path *path = &flow->paths[rail];

    if (list_empty(&path->flying))
        path_begin(flow, path, now);
    message->sent = now;
    message->rail = (uint8_t)rail;
    path->inflight += message->len;
    list_attach(&message->link, &path->flying);
}

/* False: no rail takes it now. */
static bool send_by_one(struct flow *flow, struct flow_message *message, uint64_t now)
{
    unsigned rail = choose(flow, message->len, now);
    struct flow_path *path;

    if (rail == FLOW_NO_RAIL)
        return false;
    path = &flow->paths[rail];
    if (!transmit(flow, rail, MRAIL_DATA, (uint32_t)message->serial, message)) {
        path->blocked = true;
        return send_by_one(flow, message, now);
    }
    flow->backlog -= message->len;
    list_detach(&message->link);
    fly(flow, message, rail, now);
    return true;
}

static bool send_moved(struct flow *flow, uint64_t now)
{
    while (!list_empty(&flow->moved)) {
        if (!send_by_one(flow, list_item(flow->moved.next, struct flow_message, link), now))
            return false;
    }
    return true;
}

static bool window_open(const struct flow *flow)
{
    return flow->next_out < flow->limit && flow->next_out < flow->acked + FLOW_WINDOW;
}

static inline bool may_leave_now(const struct flow *flow, const struct flow_message *message)
{
    return list_empty(&flow->waiting) && list_empty(&flow->moved) && window_open(flow) &&
           message->len <= flow->config->small;
}

uint64_t flow_send_now(struct flow *flow, struct flow_message *message, uint64_t now)
{
    unsigned rail;

    if (!may_leave_now(flow, message) || now >= flow->checked + CHECKED_FOR)
        return 0;
    rail = choose(flow, message->len, now);
    message->serial = flow->next_out;
    if (rail == FLOW_NO_RAIL || flow->paths[rail].asked ||
        !transmit(flow, rail, MRAIL_DATA, (uint32_t)message->serial, message))
        return 0;
    return flow_sent(flow, message, rail, now);
}

/* `choose` would say so whatever the time is: the favourite has nothing to do, and no other rail is
 * much faster. */
static inline bool is_for_lone(const struct flow *flow, const struct flow_path *path, uint32_t len)
{
    return path->state == PATH_UP && !path->inflight && !path->blocked && !path->asked &&
           !flow->config->policy_count && path->rtt.least < MS &&
           (!(path->rate > 0) || len <= path->rate * (double)(MS - path->rtt.least));
}

unsigned flow_send_lone(struct flow *flow, struct flow_message *message)
{
    unsigned rail = flow->favourite;

    if (flow->acked != flow->next_out || !may_leave_now(flow, message) ||
        !is_for_lone(flow, &flow->paths[rail], message->len))
        return FLOW_NO_RAIL;
    message->serial = flow->next_out;
    return transmit(flow, rail, MRAIL_DATA, (uint32_t)message->serial, message) ? rail
                                                                                : FLOW_NO_RAIL;
}

uint64_t flow_sent(struct flow *flow, struct flow_message *message, unsigned rail, uint64_t now)
{
    const struct flow_config *config = flow->config;
    uint64_t wait = config->rail_timeout / 2;

    if (!flow->busy_since)
        flow->busy_since = now;
    list_init(&message->link);
    fly(flow, message, rail, now);
    flow->ring[flow->next_out++ % FLOW_WINDOW] = message;
    if (now >= flow->checked + CHECKED_FOR)
        return now;
    return now + (wait < config->patience ? wait : config->patience);
}

/* True: something has left. */
static bool send_all(struct flow *flow, uint64_t now)
{
    uint64_t first = flow->next_out;
    bool some = !list_empty(&flow->moved), goes = send_moved(flow, now);

    while (goes && !list_empty(&flow->waiting) && window_open(flow)) {
        struct flow_message *message = list_item(flow->waiting.next, struct flow_message, link);

        message->serial = flow->next_out;
        goes = send_by_one(flow, message, now);
        if (!goes)
            break;
        flow->ring[flow->next_out++ % FLOW_WINDOW] = message;
    }
    return some || flow->next_out != first;
}

void flow_rail_failed(struct flow *flow, unsigned rail, int err, uint64_t now)
{
    if (rail < flow->count)
        path_fail(flow, rail, err, now);
}

void flow_rail_link(struct flow *flow, unsigned rail, bool up, uint64_t now)
{
    struct flow_path *path = &flow->paths[rail];

    if (!up)
        path_fail(flow, rail, 0, now);
    else if (path->state == PATH_DOWN)
        path->next_probe = now;
}

/* ---- Running ---- */

/* When a rail that says nothing of the peer counts as if it had said that it is not there, where
 * another says so: once a probe has had all its time. 0: not yet. */
static uint64_t silent_at(const struct flow *flow, const struct flow_path *path)
{
    if (path->state == PATH_UP)
        return path->asked ? path->probed + flow->config->rail_timeout : 0;
    return path->progress;
}

/* Every rail is down, and its lower says why; or one is refused, so the peer's end of it is gone,
 * and all others are silent. When the flow ends of it; 0: it does not. */
static uint64_t refused_at(const struct flow *flow, int *err)
{
    uint64_t first = UINT64_MAX, silent = 0;
    bool refused = false, all = true;

    for (unsigned i = 0; i < flow->count; i++) {
        const struct flow_path *path = &flow->paths[i];
        uint64_t at = silent_at(flow, path);

        if (path->state == PATH_NONE)
            continue;
        if (!at)
            return 0;
        if (path->state == PATH_DOWN && path->err) {
            *err = path->err;
            refused = refused || path->err == FI_ECONNREFUSED;
            first = path->progress < first ? path->progress : first;
        } else {
            all = false;
            silent = at > silent ? at : silent;
        }
    }
    if (refused)
        *err = FI_ECONNREFUSED;
    if (all)
        return first == UINT64_MAX ? 0 : first + SECOND;
    return refused ? silent : 0;
}

/* When it ends unless the peer is heard; *err: how. */
static uint64_t ends_at(struct flow *flow, uint64_t now, int *err)
{
    uint64_t since, patience, refused;

    if (!flow_busy(flow)) {
        flow->worked = flow_worked(flow, now);
        flow->busy_since = 0;
        return UINT64_MAX;
    }
    if (!flow->busy_since)
        flow->busy_since = now;
    since = flow->heard > flow->busy_since ? flow->heard : flow->busy_since;
    patience = since + flow->config->patience;
    *err = FI_ETIMEDOUT;
    refused = refused_at(flow, err);
    if (refused && refused < flow->busy_since + SECOND)
        refused = flow->busy_since + SECOND;
    if (refused && refused < patience)
        return refused;
    *err = FI_ETIMEDOUT;
    return patience;
}

/* The peer waits for room that it was not told of. */
static bool owes_limit(const struct flow *flow)
{
    uint64_t limit = own_limit(flow);

    return limit > flow->told &&
           (limit - flow->told >= FLOW_WINDOW / 2 || flow->told <= flow->in.end);
}

static uint64_t acknowledge(struct flow *flow, uint64_t now)
{
    uint64_t due = flow->owed ? flow->owed_since + flow->config->ack_delay : UINT64_MAX;
    bool limit = owes_limit(flow);
    unsigned rail = flow->ack_rail;

    if (!flow->ack_now && !limit && flow->owed < FLOW_ACK_EVERY && now < due)
        return due;
    if (flow_transmit_plain(flow, rail, MRAIL_ACK, 0))
        return UINT64_MAX;
    for (unsigned i = 0; i < flow->count; i++) {
        if (i != rail && flow->paths[i].state == PATH_UP &&
            flow_transmit_plain(flow, i, MRAIL_ACK, 0))
            return UINT64_MAX;
    }
    return now + MS;
}

/* Nothing is under way, and the peer's limit does not let anything leave: news of it may have been
 * lost with a rail. */
static void ask_for_room(struct flow *flow, uint64_t now)
{
    unsigned rail = flow_favourite(flow);
    struct flow_path *path;

    if (list_empty(&flow->waiting) || flow->next_out != flow->acked || window_open(flow) ||
        rail == FLOW_NO_RAIL)
        return;
    path = &flow->paths[rail];
    if (path->asked || now < path->probed + flow->config->rail_timeout / 2)
        return;
    path->progress = path->probed = now;
    path->probe++;
    path->asked = path->unsent = true;
}

/* A rail that took nothing, or has something to say, is tried again soon. */
static bool is_stuck(const struct flow *flow)
{
    for (unsigned i = 0; i < flow->count; i++) {
        const struct flow_path *path = &flow->paths[i];

        if (path->blocked | path->unsent | path->owes_answer)
            return true;
    }
    return false;
}

/* No rail is in question: none has anything to be looked after but its deadlines. */
static bool is_sure(const struct flow *flow)
{
    for (unsigned i = 0; i < flow->count; i++) {
        const struct flow_path *path = &flow->paths[i];

        if (path->state == PATH_DOWN ||
            path->asked | path->unsent | path->owes_answer | path->blocked)
            return false;
    }
    return true;
}

/* The same, and nothing is under way. */
static bool is_calm(const struct flow *flow)
{
    return flow->acked == flow->next_out && list_empty(&flow->reads) && is_sure(flow);
}

/* All that is done for messages: sent, asked after, answered. When to look again. */
static uint64_t run_rails(struct flow *flow, uint64_t now, bool calm)
{
    uint64_t due = UINT64_MAX, next;
    bool some;

    for (unsigned i = 0; i < flow->count; i++)
        flow->paths[i].blocked = false;
    if (!calm) {
        due = paths_check(flow, now);
        flow->checked = now;
    }
    some = send_all(flow, now);
    if (!list_empty(&flow->reads) && stripes_run(flow, now, &due))
        some = true;
    if (some) {
        next = paths_check(flow, now); /* of what has just been sent */
        due = next < due ? next : due;
        flow->checked = now;
    }
    ask_for_room(flow, now);
    if (is_stuck(flow)) {
        paths_talk(flow);
        if (is_stuck(flow) && due > now + MS)
            due = now + MS;
    }
    if (!list_empty(&flow->waiting) && due > now + flow->config->rail_timeout / 2)
        due = now + flow->config->rail_timeout / 2;
    return due;
}

uint64_t flow_run(struct flow *flow, uint64_t now)
{
    uint64_t next, due;
    bool calm;
    int err = 0;

    tell_ended(flow);
    due = ends_at(flow, now, &err);
    if (__builtin_expect(now >= due, 0)) {
        flow_end(flow, err);
        due = UINT64_MAX;
    }
    calm = is_calm(flow);
    if (!calm || !list_empty(&flow->waiting)) {
        next = run_rails(flow, now, calm);
        due = next < due ? next : due;
    }
    next = acknowledge(flow, now);
    return next < due ? next : due;
}

/* Deadlines of what is under way were told when it left, and have only moved away since. */
uint64_t flow_settle(struct flow *flow)
{
    tell_ended(flow);
    if (!flow_may_settle_later(flow) || !is_sure(flow) || owes_limit(flow))
        return 0;
    return flow->owed ? flow->owed_since + flow->config->ack_delay : UINT64_MAX;
}

bool flow_flush(struct flow *flow)
{
    if (flow->owed)
        flow->ack_now = true;
    return flow->ack_now;
}
