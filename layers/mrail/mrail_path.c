/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_path.h"

#include <string.h>

#include "layers/mrail/mrail_flow.h"

#define MS UINT64_C(1000000)

enum {
    FIRST_PAUSE_MS = 50, /* between probes of a path that is down */
    LAST_PAUSE_MS = 1000,
    LAST_AGAIN_MS = 10000, /* and of one that is up, while the peer is not heard at all */
};

/* ---- Life ---- */

static void ask(struct flow_path *path, uint64_t now)
{
    path->probe++;
    path->probed = now;
    path->asked = path->unsent = true;
    path->others = 0;
    path->next_probe = 0;
}

/* Others show whether the peer is there at all, and learn of it if it is not. */
static void ask_others(struct flow *flow, unsigned rail, uint64_t now)
{
    for (unsigned i = 0; i < flow->count; i++) {
        struct flow_path *path = &flow->paths[i];

        if (i == rail || path->state != PATH_UP || path->asked)
            continue;
        if (list_empty(&path->flying))
            path->progress = now;
        ask(path, now);
    }
}

void path_fail(struct flow *flow, unsigned rail, int err, uint64_t now)
{
    struct flow_path *path = &flow->paths[rail];

    if (path->state != PATH_UP) {
        if (path->state == PATH_DOWN && err)
            path->err = err;
        return;
    }
    path->state = PATH_DOWN;
    path->err = err;
    path->asked = path->unsent = false;
    path->pause = FIRST_PAUSE_MS * MS;
    path->next_probe = now + path->pause;
    path->progress = now;
    flow_move_all(flow, rail);
    path_abandon(flow, rail);
    ask_others(flow, rail, now);
    flow->config->turned(flow, rail, false, err);
}

static void come_back(struct flow *flow, unsigned rail, uint64_t now)
{
    struct flow_path *path = &flow->paths[rail];

    path->state = PATH_UP;
    path->err = 0;
    path->progress = now;
    path->rate = path->bytes = path->time = 0;
    path->gap = path->stale = 0;
    memset(&path->rtt, 0, sizeof(path->rtt));
    flow->config->turned(flow, rail, true, 0);
}

void path_answered(struct flow *flow, unsigned rail, uint32_t probe, uint64_t now)
{
    struct flow_path *path = &flow->paths[rail];

    if (!path->asked || probe != path->probe)
        return;
    path->asked = path->unsent = false;
    path->others = 0;
    path->progress = now;
    path_round_trip(flow, path, path->probed, now);
    flow_move_older(flow, rail, path->probed);
    if (path->state == PATH_DOWN)
        come_back(flow, rail, now);
}

/* Under way, stripes apart, which take their time. NULL: none. */
static const struct flow_message *oldest_message(const struct flow_path *path)
{
    list_for_each (pos, &path->flying) {
        const struct flow_message *message = list_item(pos, struct flow_message, link);

        if (!message->stripe)
            return message;
    }
    return NULL;
}

void path_overtaken(struct flow *flow, unsigned rail, const struct flow_message *by, uint64_t now)
{
    struct flow_path *path = &flow->paths[rail];
    const struct flow_message *oldest = oldest_message(path);

    if (!oldest || path->asked || path->state != PATH_UP ||
        oldest->sent + flow->config->rail_timeout / FLOW_OVERTAKEN > by->sent)
        return;
    ask(path, now);
}

void paths_heard(struct flow *flow, unsigned rail, uint64_t now)
{
    struct flow_path *path = &flow->paths[rail];

    path->heard = now;
    if (path->state == PATH_DOWN && now - path->probed > FIRST_PAUSE_MS * MS)
        path->next_probe = now;
    for (unsigned i = 0; i < flow->count; i++) {
        if (i != rail && flow->paths[i].asked && !flow->paths[i].others)
            flow->paths[i].others = now;
    }
}

/* Nothing is heard of the peer. It may be away; but it may also have had no memory for our first
 * packets, or a connection may have broken with the probe: the same one leaves again. */
static uint64_t ask_again(const struct flow *flow, struct flow_path *path, uint64_t now)
{
    uint64_t longest = LAST_AGAIN_MS * MS;

    if (!flow_busy(flow))
        return UINT64_MAX;
    if (!path->next_probe) {
        path->pause = flow->config->rail_timeout / 2;
        path->next_probe = path->probed + path->pause;
    }
    if (now < path->next_probe)
        return path->next_probe;
    path->unsent = true;
    path->pause = 2 * path->pause < longest ? 2 * path->pause : longest;
    path->next_probe = now + path->pause;
    return path->next_probe;
}

/* A path that is up is asked after half of the timeout, and down after all of it without an answer
 * by it (what others acknowledge is none: who sends by a rail wants to be answered by it), unless
 * the peer has only just been heard by others: it may have slept, and be about to answer. */
static uint64_t check_up(struct flow *flow, unsigned rail, uint64_t now)
{
    struct flow_path *path = &flow->paths[rail];
    uint64_t timeout = flow->config->rail_timeout, due;

    if (list_empty(&path->flying) && !path->asked) {
        if (flow_busy(flow) && path_is_stale(path, now))
            ask(path, now);
        return UINT64_MAX;
    }
    if (!path->asked) {
        if (now < path->progress + timeout / 2)
            return path->progress + timeout / 2;
        ask(path, now);
        ask_others(flow, rail, now);
    }
    if (!path->others)
        return ask_again(flow, path, now); /* paths_heard changes that */
    due = path->probed + timeout / 2;
    if (due < path->others + timeout / 4)
        due = path->others + timeout / 4;
    if (now < due)
        return due;
    path_fail(flow, rail, 0, now);
    return path->next_probe;
}

static uint64_t check_down(struct flow *flow, struct flow_path *path, uint64_t now)
{
    uint64_t longest = LAST_PAUSE_MS * MS;

    if (now < path->next_probe)
        return path->next_probe;
    ask(path, now);
    path->pause = 2 * path->pause < longest ? 2 * path->pause : longest;
    path->next_probe = now + path->pause;
    return path->next_probe;
}

uint64_t paths_check(struct flow *flow, uint64_t now)
{
    uint64_t next = UINT64_MAX;

    for (unsigned i = 0; i < flow->count; i++) {
        struct flow_path *path = &flow->paths[i];
        uint64_t due = UINT64_MAX;

        if (path->state == PATH_UP)
            due = check_up(flow, i, now);
        else if (path->state == PATH_DOWN && (flow_busy(flow) || flow_has_rail(flow, i)))
            due = check_down(flow, path, now);
        next = due < next ? due : next;
    }
    return next;
}

void paths_talk(struct flow *flow)
{
    for (unsigned i = 0; i < flow->count; i++) {
        struct flow_path *path = &flow->paths[i];

        if (path->owes_answer && flow_transmit_plain(flow, i, MRAIL_ANSWER, path->answer))
            path->owes_answer = false;
        if (path->unsent && flow_transmit_plain(flow, i, MRAIL_PROBE, path->probe))
            path->unsent = false;
    }
}
