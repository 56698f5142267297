/* SPDX-License-Identifier: BSD-2-Clause */
#include "model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/fid.h"

#include <setjmp.h>

#include <cmocka.h>

struct model_message {
    struct flow_message message;
    uint32_t number;
    bool posted, ended;
};

struct packet {
    struct list link;
    uint64_t at;
    size_t len;
    uint8_t bytes[];
};

static const uint8_t address[64] = {1};

uint64_t model_draw(struct model *model, uint64_t below)
{
    model->seed = model->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return below ? (model->seed >> 33) % below : 0;
}

static struct model_side *side_of(struct flow *flow)
{
    return object_of(flow, struct model_side, flow);
}

/* ---- The flow's caller ---- */

static void fill(uint8_t *bytes, size_t len, uint32_t number)
{
    memset(bytes, (int)(number * 7 + 1) & 0xff, len);
    memcpy(bytes, &number, sizeof(number));
}

static bool transmit(struct flow *flow, unsigned rail, struct mrail_head *head,
                     struct flow_message *message)
{
    struct model_side *side = side_of(flow);
    struct model_wire *wire = &side->out[rail];
    size_t len = message ? message->len : 0, size;
    struct packet *packet;

    mrail_intro_put(&side->intro, head, address, sizeof(address));
    size = mrail_head_size(head);
    if (wire->queued + len > wire->most && wire->queued)
        return false;
    if (wire->state == MODEL_FAILS) {
        wire->fails = side->model->now + 100 * MODEL_US;
        return true;
    }
    packet = malloc(sizeof(*packet) + size + len);
    assert_non_null(packet);
    packet->len = size + len;
    mrail_head_put(head, packet->bytes);
    if (message)
        fill(packet->bytes + size, len, object_of(message, struct model_message, message)->number);
    if (wire->free + wire->burst < side->model->now)
        wire->free = side->model->now - wire->burst;
    wire->free += (uint64_t)((double)packet->len / wire->rate);
    packet->at = (wire->free > side->model->now ? wire->free : side->model->now) + wire->delay;
    wire->queued += packet->len;
    list_attach(&packet->link, &wire->packets);
    return true;
}

static void deliver(struct flow *flow, const uint8_t *bytes, size_t len)
{
    struct model_side *side = side_of(flow);
    struct model_side *other = &side->model->side[!side->index];
    uint32_t number;

    assert_true(len >= sizeof(number));
    memcpy(&number, bytes, sizeof(number));
    assert_true(number < other->count);
    assert_int_equal(side->got[number], 0);
    assert_int_equal(len, other->messages[number].message.len);
    for (size_t i = sizeof(number); i < len; i += 61)
        assert_int_equal(bytes[i], (number * 7 + 1) & 0xff);
    side->got[number] = 1;
    side->got_count++;
}

static void post(struct model_side *side)
{
    while (side->posted < side->count && side->posted - side->done < side->window) {
        struct model_message *message = &side->messages[side->posted++];

        message->posted = true;
        flow_send(&side->flow, &message->message);
    }
    side->due = 0;
}

static void done(struct flow *flow, struct flow_message *message, int err)
{
    struct model_side *side = side_of(flow);
    struct model_message *mine = object_of(message, struct model_message, message);

    assert_true(mine->posted && !mine->ended);
    mine->ended = true;
    side->done++;
    side->failed += err != 0;
    side->err = err ? err : side->err;
    side->bytes_done += err ? 0 : message->len;
    if (!err)
        assert_int_equal(side->model->side[!side->index].got[mine->number], 1);
    post(side);
}

static void turned(struct flow *flow, unsigned rail, bool up, int err)
{
    if (up)
        side_of(flow)->ups++;
    else
        side_of(flow)->downs++;
}

static void ended(struct flow *flow, int err)
{
    struct model_side *side = side_of(flow);

    side->ends++;
    mrail_intro_renew(&side->intro, side->intro.number + 1, side->intro.epoch + 1);
}

/* ---- Time ---- */

/* As an endpoint does. */
static bool is_of_these_states(struct model_side *to, const struct mrail_head *head)
{
    enum mrail_intro_fate fate;

    if (!(head->flags & MRAIL_INTRO)) {
        to->intro.introduced |= head->to == to->intro.number;
        return head->to == to->intro.number;
    }
    fate = mrail_intro_take(&to->intro, head);
    if (fate == INTRO_BEGUN || fate == INTRO_UNHEARD)
        flow_end(&to->flow, FI_ECONNRESET);
    if (fate == INTRO_BEGUN)
        fate = mrail_intro_take(&to->intro, head);
    to->flow.ack_now |= fate == INTRO_WANTED || fate == INTRO_TELL || fate == INTRO_UNHEARD;
    return fate == INTRO_TAKEN || fate == INTRO_WANTED;
}

static void arrive(struct model_side *from, unsigned rail, struct packet *packet)
{
    struct model_side *to = &from->model->side[!from->index];
    struct mrail_head head = {.type = 0};
    size_t size;

    if (to->no_memory)
        return;
    to->due = 0;
    assert_null(mrail_head_get(packet->bytes, packet->len, &head));
    if (!is_of_these_states(to, &head))
        return;
    size = mrail_head_size(&head);
    assert_null(flow_receive(&to->flow, rail, &head, packet->bytes + size, packet->len - size,
                             from->model->now));
}

static void move_wire(struct model_side *side, unsigned rail)
{
    struct model_wire *wire = &side->out[rail];
    uint64_t now = side->model->now;

    if (wire->fails && wire->fails <= now) {
        wire->fails = 0;
        flow_rail_failed(&side->flow, rail, wire->err, now);
        side->due = 0;
    }
    while (!list_empty(&wire->packets) && wire->state != MODEL_KEEPS) {
        struct packet *packet = list_item(wire->packets.next, struct packet, link);

        if (packet->at > now)
            break;
        list_detach(&packet->link);
        wire->queued -= packet->len;
        if (wire->state == MODEL_ALIVE)
            arrive(side, rail, packet);
        free(packet);
    }
}

static uint64_t next_event(const struct model_side *side)
{
    uint64_t next = side->due;

    for (unsigned i = 0; i < side->model->rails; i++) {
        const struct model_wire *wire = &side->out[i];
        const struct packet *first = list_item(wire->packets.next, struct packet, link);

        if (wire->fails && wire->fails < next)
            next = wire->fails;
        if (wire->state != MODEL_KEEPS && !list_empty(&wire->packets) && first->at < next)
            next = first->at;
    }
    return next;
}

static bool is_over(const struct model *model)
{
    for (int i = 0; i < 2; i++) {
        if (model->side[i].done != model->side[i].count)
            return false;
    }
    return true;
}

/* A side with nothing under way rests for a moment, in which its flow's memory is another's. */
static void rest(struct model_side *side)
{
    struct flow_rest_path kept[MRAIL_RAILS];
    unsigned rails = side->model->rails;
    struct flow_rest rest;

    if (!flow_may_rest(&side->flow))
        return;
    flow_rest(&side->flow, &rest, kept, side->model->now);
    memset(&side->flow, 0xa5, sizeof(side->flow));
    memset(side->paths, 0, sizeof(side->paths));
    flow_init(&side->flow, &side->model->config, side->paths, rails);
    for (unsigned rail = 0; rail < rails; rail++)
        flow_add_path(&side->flow, rail);
    flow_wake(&side->flow, &rest, kept, side->model->now);
    side->rests++;
}

void model_run(struct model *model, uint64_t until)
{
    while (model->now < until && (model->lasts || !is_over(model))) {
        uint64_t next = until;

        for (int i = 0; i < 2; i++) {
            struct model_side *side = &model->side[i];

            if (model->rests)
                rest(side);
            if (side->due <= model->now)
                side->due = flow_run(&side->flow, model->now);
            assert_true(side->due > model->now || side->due == 0);
        }
        for (int i = 0; i < 2; i++) {
            uint64_t event = next_event(&model->side[i]);

            next = event < next ? event : next;
        }
        if (next > model->now)
            model->now = next;
        for (int i = 0; i < 2; i++) {
            for (unsigned rail = 0; rail < model->rails; rail++)
                move_wire(&model->side[i], rail);
        }
    }
}

/* ---- Making ---- */

void model_open(struct model *model, unsigned rails, uint64_t seed)
{
    *model = (struct model){.now = MODEL_S, .rails = rails, .seed = seed};
    model->config = (struct flow_config){
        .rail_timeout = MODEL_S,
        .patience = 60 * MODEL_S,
        .ack_delay = 100 * MODEL_US,
        .packet = MODEL_PACKET,
        .small = 4096,
        .transmit = transmit,
        .deliver = deliver,
        .done = done,
        .turned = turned,
        .ended = ended,
    };
    for (unsigned rail = 0; rail < rails; rail++)
        model->config.order[rail] = (uint8_t)rail;
    for (unsigned i = 0; i < 2; i++) {
        struct model_side *side = &model->side[i];

        flow_init(&side->flow, &model->config, side->paths, rails);
        side->model = model;
        side->index = i;
        mrail_intro_renew(&side->intro, 1, 1);
        for (unsigned rail = 0; rail < rails; rail++) {
            list_init(&side->out[rail].packets);
            flow_add_path(&side->flow, rail);
        }
    }
    for (unsigned rail = 0; rail < rails; rail++)
        model_rail(model, rail, 20 * MODEL_US, 0.125);
}

void model_rail(struct model *model, unsigned rail, uint64_t delay, double bytes_per_ns)
{
    for (unsigned i = 0; i < 2; i++) {
        struct model_wire *wire = &model->side[i].out[rail];

        wire->delay = delay;
        wire->rate = bytes_per_ns;
        wire->most = 4 << 20;
    }
}

void model_set(struct model *model, unsigned rail, unsigned from, enum model_state state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct model_wire *wire = &model->side[i].out[rail];

        if (from != 2 && from != i)
            continue;
        wire->state = state;
        if (!wire->err)
            wire->err = FI_ECONNRESET;
        if (state == MODEL_FAILS)
            wire->fails = model->now + 1;
        while (state == MODEL_FAILS && !list_empty(&wire->packets)) {
            struct packet *packet = list_item(wire->packets.next, struct packet, link);

            list_detach(&packet->link);
            free(packet);
            wire->queued = 0;
        }
    }
}

void model_send(struct model *model, unsigned index, uint32_t count, uint32_t len, size_t window)
{
    struct model_side *side = &model->side[index];

    free(side->messages);
    free(model->side[!index].got);
    side->posted = side->done = side->failed = model->side[!index].got_count = 0;
    side->messages = calloc(count, sizeof(struct model_message));
    model->side[!index].got = calloc(count, 1);
    assert_non_null(side->messages);
    assert_non_null(model->side[!index].got);
    side->count = count;
    side->window = window;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t room = model_draw(model, 4) ? 4096 : MODEL_PACKET;

        side->messages[i].number = i;
        side->messages[i].message.len = len ? len : (uint32_t)(4 + model_draw(model, room - 4));
    }
    if (model->last)
        side->messages[count - 1].message.len = model->last;
    post(side);
}

void model_close(struct model *model)
{
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned rail = 0; rail < model->rails; rail++) {
            struct list *packets = &model->side[i].out[rail].packets;

            while (!list_empty(packets)) {
                struct packet *packet = list_item(packets->next, struct packet, link);

                list_detach(&packet->link);
                free(packet);
            }
        }
        free(model->side[i].messages);
        free(model->side[i].got);
    }
}
