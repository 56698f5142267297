/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any packets of a peer that an endpoint of several rails sends messages to. Each is two bytes, of
 * what is done with it, then its bytes: what decodes encodes to the same; a message is delivered
 * once; a message of ours ends once, and is acknowledged only when it was sent.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fid.h"
#include "layers/mrail/mrail_flow.h"
#include "layers/mrail/mrail_intro.h"
#include "layers/mrail/mrail_keys.h"
#include "layers/mrail/mrail_rest.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    RAILS = 3,
    MESSAGES = 64,
    PACKET = 256,
};

struct state {
    struct flow flow;
    struct flow_path paths[RAILS];
    struct mrail_intro intro;
    bool heard; /* by a rail that tells */
    struct flow_message messages[MESSAGES];
    unsigned posted, sent, done;
    bool over[MESSAGES];
    uint64_t delivered, now;
    uint64_t due;      /* when the flow is to be run at the latest; 0: at once */
    uint64_t sent_out; /* packets */
    unsigned refusing; /* rails that take nothing, a bit each */
};

static struct state *state_of(struct flow *flow)
{
    return object_of(flow, struct state, flow);
}

static bool transmit(struct flow *flow, unsigned rail, struct mrail_head *head,
                     struct flow_message *message)
{
    uint8_t raw[MRAIL_HEAD_MAX];
    struct mrail_head again = {.type = 0};

    must(rail < RAILS && mrail_head_size(head) <= sizeof(raw));
    state_of(flow)->sent_out++;
    if (state_of(flow)->refusing >> rail & 1)
        return false;
    head->to = 1;
    mrail_head_put(head, raw);
    must(!mrail_head_get(raw, mrail_head_size(head), &again));
    return true;
}

/* A message of the join's own: what decodes encodes to the same. */
static void take_keys(const uint8_t *bytes, size_t len)
{
    uint8_t again[MRAIL_KEYS_MAX];
    struct mrail_keys keys;

    if (mrail_keys_get(bytes, len, &keys))
        return;
    must(keys.count <= MRAIL_RAILS);
    must(mrail_keys_put(&keys, again) == len && !memcmp(again, bytes, len));
}

static void deliver(struct flow *flow, const uint8_t *bytes, size_t len, bool own)
{
    if (own)
        take_keys(bytes, len);
    must(len <= PACKET);
    for (size_t i = 0; i < len; i++)
        must(bytes[i] + 1);
    state_of(flow)->delivered++;
}

static void done(struct flow *flow, struct flow_message *message, int err)
{
    struct state *state = state_of(flow);
    size_t index = (size_t)(message - state->messages);

    must(index < state->posted && !state->over[index]);
    state->over[index] = true;
    state->done++;
}

static void turned(struct flow *flow, unsigned rail, bool up, int err)
{
    must(rail < RAILS);
}

static void ended(struct flow *flow, int err)
{
    must(flow->next_out == 0 && flow->in.next == 0);
}

static const struct flow_config config = {
    .rail_timeout = 1000000,
    .patience = 100000000,
    .ack_delay = 1000,
    .packet = PACKET,
    .small = 64,
    .order = {0, 1, 2},
    .transmit = transmit,
    .deliver = deliver,
    .done = done,
    .turned = turned,
    .ended = ended,
};

static void check_flow(const struct state *state)
{
    const struct flow *flow = &state->flow;
    uint64_t flying[RAILS] = {0};

    must(flow->acked <= flow->next_out && flow->next_out - flow->acked <= FLOW_WINDOW);
    must(flow->in.end <= flow->told); /* no more has come than there was room for */
    for (unsigned i = 0; i < RAILS; i++) {
        list_for_each (pos, &flow->paths[i].flying) {
            must(list_item(pos, struct flow_message, link)->rail == i);
            flying[i] += list_item(pos, struct flow_message, link)->len;
        }
        must(flying[i] == flow->paths[i].inflight);
    }
}

/* As mrail_peer.c does; whatever the peer says, its epochs go forward, and none is taken twice. By
 * hearsay nothing ends; the first rail does not tell. */
static void introduce(struct state *state, unsigned rail, const struct mrail_head *head)
{
    struct mrail_intro *intro = &state->intro, was = *intro;
    enum mrail_word word = rail ? WORD_OWN : state->heard ? WORD_HEARSAY : WORD_UNTOLD;
    enum mrail_intro_fate fate;

    if (!(head->flags & MRAIL_INTRO))
        return;
    state->heard = state->heard || rail;
    fate = mrail_intro_take(intro, head, word);
    must(intro->their_epoch >= was.their_epoch);
    must(intro->forgotten == was.forgotten || (word == WORD_OWN && !was.forgot_surely));
    must(word != WORD_HEARSAY || (fate != INTRO_BEGUN && fate != INTRO_UNHEARD));
    if (fate == INTRO_BEGUN || fate == INTRO_UNHEARD) {
        mrail_intro_renew(intro, intro->number + 1, intro->epoch + 1);
        must(!intro->their_epoch && (intro->forgotten >= was.forgotten || !was.forgot_surely));
    }
    if (fate == INTRO_BEGUN)
        fate = mrail_intro_take(intro, head, word);
    must(fate != INTRO_BEGUN);
    must(fate != INTRO_TAKEN || (intro->introduced && head->to == intro->number));
}

static void take(struct state *state, unsigned rail, const uint8_t *bytes, size_t len)
{
    uint8_t *exact = malloc(len ? len : 1);
    struct mrail_head head = {.type = 0};
    size_t size;

    must(!!exact);
    memcpy(exact, bytes, len);
    if (!mrail_head_get(exact, len, &head)) {
        size = mrail_head_size(&head);
        must(size <= len);
#ifdef FUZZ_PLANTED
        /* As if the peer had nothing to say of what came out of its order. */
        must(!head.words);
#endif
        introduce(state, rail, &head);
        flow_receive(&state->flow, rail, &head, exact + size, len - size, state->now);
    }
    free(exact);
}

static void post(struct state *state, uint32_t len)
{
    if (state->posted == MESSAGES)
        return;
    state->messages[state->posted].len = len % PACKET + 1;
    flow_send(&state->flow, &state->messages[state->posted++]);
    state->due = 0;
}

/* A flow with nothing under way gives its memory back, and goes on. */
static void rest(struct state *state)
{
    struct flow_rest_path kept[RAILS];
    struct flow_rest rest;

    if (!flow_may_rest(&state->flow))
        return;
    flow_rest(&state->flow, &rest, kept, state->now);
    memset(state->paths, 0, sizeof(state->paths));
    flow_init(&state->flow, &config, state->paths, RAILS);
    for (unsigned i = 0; i < RAILS; i++)
        flow_add_path(&state->flow, i);
    flow_wake(&state->flow, &rest, kept, state->now);
}

static void run(struct state *state)
{
    state->due = flow_run(&state->flow, state->now);
    must(state->due > 0);
}

/* As mrail_run.c does after a packet: a flow that has settled is not run before its time. `anyway`
 * runs it, and nothing leaves: there was nothing to do. */
static void settle(struct state *state, bool anyway)
{
    uint64_t due = flow_settle(&state->flow), sent = state->sent_out;

    if (!due || state->now >= due || state->now >= state->due) {
        run(state);
        return;
    }
    state->due = due < state->due ? due : state->due;
    if (!anyway || flow_busy(&state->flow)) /* a rail may be asked for its round trip */
        return;
    run(state);
    must(state->sent_out == sent);
}

static void one(struct state *state, uint8_t what, const uint8_t *bytes, size_t len)
{
    uint8_t *magic = malloc(len + 4);

    must(!!magic);
    state->now += (uint64_t)(what & 0xf) * 100000;
    state->refusing = what >> 6;
    if (what & 0x10)
        post(state, what * 7u);
    if (what & 0x20) {
        flow_rail_failed(&state->flow, what % RAILS, 104, state->now);
        state->due = 0;
    }
    /* Behind what every packet begins with, or few would get any further. */
    memcpy(magic, (const uint8_t[]){'W', 'r', MRAIL_WIRE_VERSION}, 3);
    memcpy(magic + 3, bytes, len);
    take(state, what % RAILS, magic, len + 3);
    check_flow(state);
    settle(state, len & 2);
    if (len % 2)
        rest(state);
    check_flow(state);
    free(magic);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct state state;

    state = (struct state){.now = 1000000000};
    mrail_intro_renew(&state.intro, 1, 1);
    flow_init(&state.flow, &config, state.paths, RAILS);
    for (unsigned i = 0; i < RAILS; i++)
        flow_add_path(&state.flow, i);
    while (size >= 2) {
        size_t len = data[1] < size - 2 ? data[1] : size - 2;

        one(&state, data[0], data + 2, len);
        data += 2 + len;
        size -= 2 + len;
    }
    flow_end(&state.flow, 1);
    must(state.done == state.posted);
    return 0;
}
