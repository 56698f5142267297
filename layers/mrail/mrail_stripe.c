/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_flow.h"

#include <rdma/fi_errno.h>

#include "core/base/fid.h"

static struct flow_stripe *stripe_of(struct list *link)
{
    return object_of(list_item(link, struct flow_message, link), struct flow_stripe, message);
}

/* ---- Reads ---- */

void flow_read_start(struct flow *flow, struct flow_read *read, uint64_t len, uint32_t most,
                     uint64_t now)
{
    uint64_t piece = len / FLOW_STRIPE_PARTS;

    if (piece < FLOW_STRIPE_LEAST)
        piece = FLOW_STRIPE_LEAST;
    if (piece > FLOW_STRIPE_MOST)
        piece = FLOW_STRIPE_MOST;
    *read = (struct flow_read){
        .len = len,
        .piece = piece < most ? (uint32_t)piece : most,
        .since = now,
    };
    list_init(&read->again);
    list_attach(&read->link, &flow->reads);
}

void flow_read_known(struct flow_read *read, unsigned rails)
{
    read->known = true;
    read->rails = rails;
    if (!rails && !read->err)
        read->err = FI_EACCES;
}

/* Has it all, or failed, with nothing under way? */
static bool is_over(const struct flow_read *read)
{
    bool all = read->known && read->next == read->len && list_empty(&read->again);

    return !read->flying && (read->err || all);
}

static void end(struct flow *flow, struct flow_read *read)
{
    list_detach(&read->link);
    while (!list_empty(&read->again)) {
        struct flow_stripe *stripe = stripe_of(read->again.next);

        list_detach(&stripe->message.link);
        flow->config->stripe_put(flow, stripe);
    }
    flow->config->read_done(flow, read, read->err);
}

/* ---- Which rail ---- */

/* ns until half of what is left of the read has come, by all of its rails. */
static uint64_t rest_takes(const struct flow *flow, const struct flow_read *read)
{
    double rate = 0;

    for (unsigned i = 0; i < flow->count; i++) {
        if (read->rails >> i & 1 && flow->paths[i].state == PATH_UP)
            rate += flow->paths[i].rate;
    }
    return rate > 0 ? (uint64_t)((double)(read->len - read->next) / 2 / rate) : 0;
}

static bool has_room(const struct flow *flow, const struct flow_path *path, uint64_t len)
{
    if (path->blocked)
        return false;
    return path->stripes < FLOW_STRIPE_AHEAD || path_has_room(path, len, flow->config->packet);
}

static bool may_read(const struct flow *flow, const struct flow_read *read, unsigned rail)
{
    const struct flow_path *path = &flow->paths[rail];

    return read->rails >> rail & 1 && path->state == PATH_UP && !path->abandoned;
}

/* Rails that have not failed of late; without such a one all. */
static unsigned good_rails(const struct flow *flow, const struct flow_read *read, uint64_t now)
{
    unsigned all = 0, good = 0;

    for (unsigned i = 0; i < flow->count; i++) {
        if (!may_read(flow, read, i))
            continue;
        all |= 1U << i;
        good |= flow->paths[i].shunned > now ? 0 : 1U << i;
    }
    return good ? good : all;
}

/* That of the shortest expected end. FLOW_NO_RAIL: none, or it is better to wait for a full one. */
static unsigned shortest(const struct flow *flow, const struct flow_read *read, unsigned good,
                         uint64_t len, uint64_t now)
{
    uint64_t least = UINT64_MAX;
    unsigned best = FLOW_NO_RAIL;
    bool waits = false;

    for (unsigned i = 0; i < flow->count; i++) {
        const struct flow_path *path = &flow->paths[i];
        bool room = has_room(flow, path, len);
        uint64_t expected;

        if (!(good >> i & 1) || (!(path->rate > 0) && !room))
            continue;
        expected = path_expected(flow, path, len, now) + (room ? 0 : rest_takes(flow, read));
        if (expected >= least)
            continue;
        least = expected;
        best = i;
        waits = !room;
    }
    return waits ? FLOW_NO_RAIL : best;
}

static unsigned next_turn(struct flow *flow, unsigned good, uint64_t len)
{
    for (unsigned i = 0; i < flow->count; i++) {
        unsigned rail = (flow->turn + i) % flow->count;

        if (!(good >> rail & 1) || !has_room(flow, &flow->paths[rail], len))
            continue;
        flow->turn = rail + 1;
        return rail;
    }
    return FLOW_NO_RAIL;
}

/* As a packet would: a stripe takes the place of several. */
static unsigned choose(struct flow *flow, const struct flow_read *read, uint64_t len, uint64_t now)
{
    uint64_t packet = flow->config->packet;
    enum flow_way way = flow_way_for(flow, len < packet ? len : packet);
    unsigned good = good_rails(flow, read, now), rail;

    if (way == FLOW_SHORTEST)
        return shortest(flow, read, good, len, now);
    if (way == FLOW_TURNS)
        return next_turn(flow, good, len);
    rail = flow_favourite(flow);
    if (rail == FLOW_NO_RAIL || !(good >> rail & 1))
        return shortest(flow, read, good, len, now);
    return has_room(flow, &flow->paths[rail], len) ? rail : FLOW_NO_RAIL;
}

/* ---- Stripes ---- */

/* The next to be posted: one that has been before, or a new one. NULL: none, or no memory. */
static struct flow_stripe *next_of(struct flow *flow, struct flow_read *read)
{
    uint64_t left = read->len - read->next;
    struct flow_stripe *stripe;

    if (!list_empty(&read->again))
        return stripe_of(read->again.next);
    if (!left)
        return NULL;
    stripe = flow->config->stripe(flow);
    if (!stripe)
        return NULL;
    *stripe = (struct flow_stripe){
        .message = {.len = left < read->piece ? (uint32_t)left : read->piece,
                    .rail = FLOW_NO_RAIL,
                    .stripe = true},
        .read = read,
        .at = read->next,
    };
    read->next += stripe->message.len;
    list_attach(&stripe->message.link, &read->again);
    return stripe;
}

/* It goes again, or its read has failed. */
static void failed(struct flow *flow, struct flow_stripe *stripe, int err)
{
    struct flow_read *read = stripe->read;

    if (!read->err && ++stripe->message.serial >= FLOW_STRIPE_TRIES)
        read->err = err;
    if (read->err)
        flow->config->stripe_put(flow, stripe);
    else
        list_attach(&stripe->message.link, &read->again);
}

/* False: no rail takes it now. */
static bool post(struct flow *flow, struct flow_stripe *stripe, uint64_t now)
{
    struct flow_message *message = &stripe->message;
    unsigned rail = choose(flow, stripe->read, message->len, now);
    struct flow_path *path;
    int rc;

    if (rail == FLOW_NO_RAIL)
        return false;
    path = &flow->paths[rail];
    message->rail = (uint8_t)rail;
    rc = flow->config->stripe_post(flow, rail, stripe);
    if (rc == -FI_EAGAIN) {
        path->blocked = true;
        return post(flow, stripe, now);
    }
    list_detach(&message->link);
    if (rc) {
        failed(flow, stripe, -rc);
        return true;
    }
    if (list_empty(&path->flying))
        path_begin(flow, path, now);
    if (!path->stripes++)
        path->striped = now;
    message->sent = now;
    path->inflight += message->len;
    stripe->read->flying++;
    list_attach(&message->link, &path->flying);
    return true;
}

/* Takes it off its path. */
static void land(struct flow *flow, struct flow_stripe *stripe)
{
    struct flow_path *path = &flow->paths[stripe->message.rail];

    list_detach(&stripe->message.link);
    path->inflight -= stripe->message.len;
    path->stripes--;
    stripe->read->flying--;
}

void flow_stripe_done(struct flow *flow, struct flow_stripe *stripe, int err, uint64_t now)
{
    unsigned rail = stripe->message.rail;
    struct flow_path *path = &flow->paths[rail];

    if (!err) {
        flow_hear(flow, now);
        paths_heard(flow, rail, now);
        path_measure(flow, path, &stripe->message, now);
        path_progress(path, now);
    }
    path->striped = now;
    land(flow, stripe);
    if (err) {
        path->shunned = now + FLOW_STRIPE_SHUNNED * flow->config->rail_timeout;
        failed(flow, stripe, err);
    } else {
        flow->config->stripe_put(flow, stripe);
    }
}

void flow_rail_closed(struct flow *flow, unsigned rail)
{
    struct flow_path *path = &flow->paths[rail];

    path->abandoned = false;
    list_for_each_safe (pos, after, &path->flying) {
        struct flow_stripe *stripe = stripe_of(pos);

        if (!stripe->message.stripe)
            continue;
        land(flow, stripe);
        failed(flow, stripe, FI_ETIMEDOUT);
    }
}

void path_abandon(struct flow *flow, unsigned rail)
{
    struct flow_path *path = &flow->paths[rail];

    if (!path->stripes || path->abandoned)
        return;
    path->abandoned = true;
    flow->config->abandon(flow, rail);
}

static bool carries(const struct flow_path *path, const struct flow_read *read)
{
    list_for_each (pos, &path->flying) {
        struct flow_message *message = list_item(pos, struct flow_message, link);

        if (message->stripe && object_of(message, struct flow_stripe, message)->read == read)
            return true;
    }
    return false;
}

void flow_read_stop(struct flow *flow, struct flow_read *read)
{
    if (!read->err)
        read->err = FI_ECANCELED;
    for (unsigned i = 0; i < flow->count; i++) {
        if (carries(&flow->paths[i], read))
            path_abandon(flow, i);
    }
}

void stripes_end(struct flow *flow, int err)
{
    list_for_each (pos, &flow->reads) {
        struct flow_read *read = list_item(pos, struct flow_read, link);

        if (!read->err)
            read->err = err;
    }
    for (unsigned i = 0; i < flow->count; i++)
        path_abandon(flow, i);
    list_for_each_safe (pos, after, &flow->reads) {
        struct flow_read *read = list_item(pos, struct flow_read, link);

        if (is_over(read))
            end(flow, read);
    }
}

uint64_t path_stripe_bytes(const struct flow_path *path)
{
    uint64_t bytes = 0;

    list_for_each (pos, &path->flying) {
        const struct flow_message *message = list_item(pos, struct flow_message, link);

        bytes += message->stripe ? message->len : 0;
    }
    return bytes;
}

/* ---- Running ---- */

/* A rail that is heard, but ends no stripe: our end of it has lost what it was asked for. */
static void check_silence(struct flow *flow, unsigned rail, uint64_t now, uint64_t *due)
{
    struct flow_path *path = &flow->paths[rail];
    uint64_t timeout = flow->config->rail_timeout;
    uint64_t until = path->striped + FLOW_STRIPE_SILENT * timeout;

    if (!path->stripes || path->abandoned)
        return;
    if (now < until) {
        *due = until < *due ? until : *due;
    } else if (path->heard > path->striped + timeout) {
        path->shunned = now + FLOW_STRIPE_SHUNNED * timeout;
        path_abandon(flow, rail);
    } else {
        *due = now + timeout / 2 < *due ? now + timeout / 2 : *due;
    }
}

/* The peer lives, and does not say where the bytes are: it had no memory for the question. */
static void check_answer(const struct flow *flow, struct flow_read *read, uint64_t now,
                         uint64_t *due)
{
    uint64_t timeout = flow->config->rail_timeout;

    if (read->known || read->err)
        return;
    if (now >= read->since + 2 * timeout && flow->heard > read->since + timeout)
        read->err = FI_ETIMEDOUT;
    else
        *due = now + timeout < *due ? now + timeout : *due;
}

/* True: something was posted. *ended: a read, or its caller may have begun another. */
static bool run_read(struct flow *flow, struct flow_read *read, uint64_t now, bool *ended)
{
    struct flow_stripe *stripe;
    bool any = false;

    while (read->known && !read->err && read->flying < FLOW_STRIPES &&
           (stripe = next_of(flow, read)) && post(flow, stripe, now))
        any = true;
    if (is_over(read)) {
        end(flow, read);
        *ended = true;
    }
    return any;
}

bool stripes_run(struct flow *flow, uint64_t now, uint64_t *due)
{
    bool any = false, ended;

    for (unsigned i = 0; i < flow->count; i++)
        check_silence(flow, i, now, due);
    do {
        ended = false;
        list_for_each_safe (pos, after, &flow->reads) {
            struct flow_read *read = list_item(pos, struct flow_read, link);

            check_answer(flow, read, now, due);
            if (run_read(flow, read, now, &ended))
                any = true;
        }
    } while (ended);
    return any;
}
