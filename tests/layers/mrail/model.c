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
    uint64_t stripe; /* asks for, or has (`answer`), the bytes of one; 0: it is a packet */
    bool answer;
    int err;
    uint8_t bytes[];
};

struct model_read {
    struct flow_read read;
    uint32_t number;
    bool stopped, ended;
    uint8_t *to;
};

struct model_stripe {
    struct flow_stripe stripe;
    struct list link; /* of side->stripes */
    uint64_t id;
    unsigned rail;
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

static void put(struct model_side *side, unsigned rail, struct packet *packet)
{
    struct model_wire *wire = &side->out[rail];

    if (wire->free + wire->burst < side->model->now)
        wire->free = side->model->now - wire->burst;
    wire->free += (uint64_t)((double)packet->len / wire->rate);
    packet->at = (wire->free > side->model->now ? wire->free : side->model->now) + wire->delay;
    wire->queued += packet->len;
    list_attach(&packet->link, &wire->packets);
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
    packet = calloc(1, sizeof(*packet) + size + len);
    assert_non_null(packet);
    packet->len = size + len;
    mrail_head_put(head, packet->bytes);
    if (message)
        fill(packet->bytes + size, len, object_of(message, struct model_message, message)->number);
    put(side, rail, packet);
    return true;
}

static void deliver(struct flow *flow, const uint8_t *bytes, size_t len, bool own)
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

/* Not from inside of the flow: without a run, if it goes. */
static bool post_quick(struct model_side *side, struct model_message *message)
{
    uint64_t now = side->model->now, due = 0;
    unsigned rail = FLOW_NO_RAIL;

    if (side->model->later)
        rail = flow_send_lone(&side->flow, &message->message);
    if (rail != FLOW_NO_RAIL)
        due = flow_sent(&side->flow, &message->message, rail, now);
    else
        due = flow_send_now(&side->flow, &message->message, now);
    if (!due)
        return false;
    side->lone += rail != FLOW_NO_RAIL;
    due = due > now ? due : 0;
    side->due = due < side->due ? due : side->due;
    side->quick++;
    return true;
}

static void post(struct model_side *side, bool inside)
{
    side->free = inside && side->model->quick;
    if (side->free)
        return;
    while (side->posted < side->count && side->posted - side->done < side->window) {
        struct model_message *message = &side->messages[side->posted++];

        message->posted = true;
        message->message.patient = side->model->later && model_draw(side->model, 2);
        if (side->model->quick && post_quick(side, message))
            continue;
        flow_send(&side->flow, &message->message);
        side->due = 0;
    }
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
    post(side, true);
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

/* ---- Reads ---- */

/* Of the memory that is read. */
static uint8_t byte_at(uint32_t number, uint64_t at)
{
    return (uint8_t)(number * 31 + at * 7 + (at >> 12) + 1);
}

static void begin_reads(struct model_side *side)
{
    while (side->reads_posted < side->read_count &&
           side->reads_posted - side->reads_done < side->read_window) {
        struct model_read *read = &side->reads[side->reads_posted++];

        read->to = calloc(1, read->read.len);
        assert_non_null(read->to);
        flow_read_start(&side->flow, &read->read, read->read.len, FLOW_STRIPE_MOST,
                        side->model->now);
        flow_read_known(&read->read, (1U << side->model->rails) - 1);
    }
    side->due = 0;
}

static void read_done(struct flow *flow, struct flow_read *base, int err)
{
    struct model_side *side = side_of(flow);
    struct model_read *read = object_of(base, struct model_read, read);

    assert_false(read->ended);
    assert_int_equal(base->flying, 0);
    assert_true(!read->stopped || err);
    read->ended = true;
    side->reads_done++;
    side->reads_failed += err != 0;
    side->bytes_read += err ? 0 : base->len;
    for (uint64_t at = 0; !err && at < base->len; at += 13)
        assert_int_equal(read->to[at], byte_at(read->number, at));
    begin_reads(side);
}

static struct flow_stripe *stripe(struct flow *flow)
{
    struct model_stripe *mine = calloc(1, sizeof(*mine));

    assert_non_null(mine);
    list_init(&mine->link);
    return &mine->stripe;
}

static struct model_stripe *mine_of(struct flow_stripe *stripe)
{
    return object_of(stripe, struct model_stripe, stripe);
}

static void stripe_put(struct flow *flow, struct flow_stripe *stripe)
{
    list_detach(&mine_of(stripe)->link);
    free(mine_of(stripe));
}

static int stripe_post(struct flow *flow, unsigned rail, struct flow_stripe *stripe)
{
    struct model_side *side = side_of(flow);
    struct model_wire *wire = &side->out[rail];
    struct model_stripe *mine = mine_of(stripe);
    struct packet *packet;

    assert_true(!side->closes[rail]); /* our end is being closed */
    if (wire->queued > wire->most)
        return -FI_EAGAIN;
    if (wire->state == MODEL_FAILS) {
        wire->fails = side->model->now + 100 * MODEL_US;
        if (model_draw(side->model, 2))
            return -wire->err;
    }
    packet = calloc(1, sizeof(*packet));
    assert_non_null(packet);
    list_detach(&mine->link);
    list_attach(&mine->link, &side->stripes);
    mine->id = packet->stripe = ++side->stripe_ids;
    mine->rail = rail;
    packet->len = 64;
    put(side, rail, packet);
    return 0;
}

static struct model_stripe *find_stripe(struct model_side *side, uint64_t id)
{
    list_for_each (pos, &side->stripes) {
        struct model_stripe *mine = list_item(pos, struct model_stripe, link);

        if (mine->id == id)
            return mine;
    }
    return NULL;
}

/* The bytes of a stripe have come, whatever the flow thinks of it by now: only a rail whose end we
 * closed has let go of them. */
static void land(struct model_side *side, unsigned rail, const struct packet *packet)
{
    struct model_stripe *mine = find_stripe(side, packet->stripe);
    const struct model_read *read;

    if (!mine)
        return;
    assert_int_equal(mine->rail, rail);
    read = object_of(mine->stripe.read, struct model_read, read);
    assert_false(read->ended || read->stopped);
    for (uint64_t i = 0; !packet->err && i < mine->stripe.message.len; i++)
        read->to[mine->stripe.at + i] = byte_at(read->number, mine->stripe.at + i);
    list_detach(&mine->link);
    flow_stripe_done(&side->flow, &mine->stripe, packet->err, side->model->now);
    side->due = 0;
}

/* The other side's rail reads its memory for us. */
static void answer(struct model_side *side, unsigned rail, const struct packet *question)
{
    struct model_side *other = &side->model->side[!side->index];
    const struct model_stripe *mine = find_stripe(side, question->stripe);
    struct packet *packet;

    if (other->deaf[rail] || other->out[rail].state == MODEL_FAILS)
        return;
    packet = calloc(1, sizeof(*packet));
    assert_non_null(packet);
    packet->stripe = question->stripe;
    packet->answer = true;
    packet->err = other->shut ? FI_EACCES : 0;
    packet->len = mine && !other->shut ? mine->stripe.message.len : 64;
    put(other, rail, packet);
}

static void abandon(struct flow *flow, unsigned rail)
{
    struct model_side *side = side_of(flow);

    assert_int_equal(side->closes[rail], 0);
    side->closes[rail] = side->model->now + 1 + model_draw(side->model, 5000) * MODEL_US;
}

static void close_ends(struct model_side *side)
{
    for (unsigned rail = 0; rail < side->model->rails; rail++) {
        if (!side->closes[rail] || side->closes[rail] > side->model->now)
            continue;
        side->closes[rail] = 0;
        side->closed[rail]++;
        list_for_each_safe (pos, after, &side->stripes) {
            if (list_item(pos, struct model_stripe, link)->rail == rail)
                list_detach(pos);
        }
        flow_rail_closed(&side->flow, rail);
        side->due = 0;
    }
}

/* ---- Time ---- */

/* As an endpoint does. */
static bool is_of_these_states(struct model_side *to, unsigned rail, const struct mrail_head *head)
{
    enum mrail_word word = to->heard ? WORD_HEARSAY : WORD_UNTOLD;
    enum mrail_intro_fate fate;

    if (to->model->tells & 1U << rail) {
        to->heard = true;
        word = WORD_OWN;
    }
    if (!(head->flags & MRAIL_INTRO)) {
        to->intro.introduced |= head->to == to->intro.number;
        to->intro.sure |= head->to == to->intro.number && word == WORD_OWN;
        return head->to == to->intro.number;
    }
    fate = mrail_intro_take(&to->intro, head, word);
    if (fate == INTRO_BEGUN || fate == INTRO_UNHEARD)
        flow_end(&to->flow, FI_ECONNRESET);
    if (fate == INTRO_BEGUN)
        fate = mrail_intro_take(&to->intro, head, word);
    to->flow.ack_now |= fate == INTRO_WANTED || fate == INTRO_TELL || fate == INTRO_UNHEARD;
    return fate == INTRO_TAKEN || fate == INTRO_WANTED;
}

/* A packet has come: without a run, if nothing is to be done. due: of the flow before. */
static void settle(struct model_side *side, uint64_t due)
{
    if (side->model->later && flow_may_settle_later(&side->flow)) {
        uint64_t at = side->model->now + 1 + model_draw(side->model, 20) * MODEL_US;

        side->late = side->late ? side->late : at;
        side->due = due;
        return;
    }
    uint64_t settled = flow_settle(&side->flow);

    side->due = settled < due ? settled : due;
    side->settled += settled > 0;
}

static void arrive(struct model_side *from, unsigned rail, struct packet *packet)
{
    struct model_side *to = &from->model->side[!from->index];
    struct mrail_head head = {.type = 0};
    uint64_t due = to->due;
    size_t size;

    if (to->no_memory)
        return;
    to->due = 0;
    assert_null(mrail_head_get(packet->bytes, packet->len, &head));
    if (!is_of_these_states(to, rail, &head))
        return;
    size = mrail_head_size(&head);
    assert_null(flow_receive(&to->flow, rail, &head, packet->bytes + size, packet->len - size,
                             from->model->now));
    if (from->model->quick && !flow_waits(&to->flow)) /* what it does until then is no answer */
        assert_int_equal(to->flow.busy_since, 0);
    if (from->model->quick)
        settle(to, due);
}

static void come(struct model_side *side, unsigned rail, struct packet *packet)
{
    if (packet->answer)
        land(&side->model->side[!side->index], rail, packet);
    else if (packet->stripe)
        answer(side, rail, packet);
    else
        arrive(side, rail, packet);
}

/* The first that is there, or NULL. */
static struct packet *take(struct model_wire *wire, uint64_t now)
{
    struct packet *packet = list_item(wire->packets.next, struct packet, link);

    if (list_empty(&wire->packets) || wire->state == MODEL_KEEPS || packet->at > now)
        return NULL;
    list_detach(&packet->link);
    wire->queued -= packet->len;
    return packet;
}

static void move_wire(struct model_side *side, unsigned rail)
{
    struct model_wire *wire = &side->out[rail];
    uint64_t now = side->model->now;
    struct packet *packet;

    if (wire->fails && wire->fails <= now) {
        wire->fails = 0;
        flow_rail_failed(&side->flow, rail, wire->err, now);
        side->due = 0;
    }
    while ((packet = take(wire, now))) {
        if (wire->state == MODEL_ALIVE)
            come(side, rail, packet);
        free(packet);
    }
}

/* An endpoint's next look does what was put off. */
static void settle_late(struct model_side *side)
{
    uint64_t settled;

    if (!side->late || side->late > side->model->now)
        return;
    side->late = 0;
    settled = flow_settle(&side->flow);
    side->due = settled < side->due ? settled : side->due;
    side->settled_late++;
}

static uint64_t next_event(const struct model_side *side)
{
    uint64_t next = side->due;

    if (side->late && side->late < next)
        next = side->late;

    for (unsigned i = 0; i < side->model->rails; i++) {
        const struct model_wire *wire = &side->out[i];
        const struct packet *first = list_item(wire->packets.next, struct packet, link);

        if (wire->fails && wire->fails < next)
            next = wire->fails;
        if (side->closes[i] && side->closes[i] < next)
            next = side->closes[i];
        if (wire->state != MODEL_KEEPS && !list_empty(&wire->packets) && first->at < next)
            next = first->at;
    }
    return next;
}

static bool is_over(const struct model *model)
{
    for (int i = 0; i < 2; i++) {
        if (model->side[i].done != model->side[i].count ||
            model->side[i].reads_done != model->side[i].read_count)
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

            settle_late(side);
            if (model->rests)
                rest(side);
            if (side->due <= model->now)
                side->due = flow_run(&side->flow, model->now);
            if (side->free)
                post(side, false);
            assert_true(side->due > model->now || side->due == 0);
        }
        if (!model->lasts && is_over(model))
            return; /* a read ends while its flow is run */
        for (int i = 0; i < 2; i++) {
            uint64_t event = next_event(&model->side[i]);

            next = event < next ? event : next;
        }
        if (next > model->now)
            model->now = next;
        for (int i = 0; i < 2; i++) {
            close_ends(&model->side[i]);
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
        .stripe = stripe,
        .stripe_put = stripe_put,
        .stripe_post = stripe_post,
        .abandon = abandon,
        .read_done = read_done,
    };
    for (unsigned rail = 0; rail < rails; rail++)
        model->config.order[rail] = (uint8_t)rail;
    for (unsigned i = 0; i < 2; i++) {
        struct model_side *side = &model->side[i];

        flow_init(&side->flow, &model->config, side->paths, rails);
        side->model = model;
        side->index = i;
        list_init(&side->stripes);
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
    post(side, false);
    side->due = 0;
}

static void end_reads(struct model_side *side)
{
    if (side->reads_done != side->read_count) { /* a test has seen enough */
        side->read_count = side->reads_posted;
        stripes_end(&side->flow, FI_ECANCELED);
        for (unsigned rail = 0; rail < side->model->rails; rail++)
            flow_rail_closed(&side->flow, rail);
        stripes_end(&side->flow, FI_ECANCELED);
    }
    for (uint32_t i = 0; i < side->reads_posted; i++)
        free(side->reads[i].to);
    free(side->reads);
    side->reads = NULL;
    side->reads_posted = side->reads_done = side->reads_failed = side->read_count = 0;
}

void model_read(struct model *model, unsigned index, uint32_t count, uint64_t len, size_t window)
{
    struct model_side *side = &model->side[index];

    end_reads(side);
    side->reads = calloc(count, sizeof(*side->reads));
    assert_non_null(side->reads);
    side->read_count = count;
    side->read_window = window;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t drawn = 1 + model_draw(model, model_draw(model, 2) ? 4194304 : 100000);

        side->reads[i].number = i;
        side->reads[i].read.len = len ? len : drawn;
    }
    begin_reads(side);
}

bool model_stop(struct model *model, unsigned index)
{
    struct model_side *side = &model->side[index];

    for (uint32_t i = 0; i < side->reads_posted; i++) {
        struct model_read *read = &side->reads[i];

        if (read->ended || read->stopped)
            continue;
        flow_read_stop(&side->flow, &read->read);
        read->stopped = true;
        for (unsigned rail = 0; rail < model->rails; rail++)
            side->closes[rail] = side->closes[rail] ? model->now : 0;
        close_ends(side);
        side->due = 0;
        return true;
    }
    return false;
}

void model_close(struct model *model)
{
    for (unsigned i = 0; i < 2; i++) {
        end_reads(&model->side[i]);
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
