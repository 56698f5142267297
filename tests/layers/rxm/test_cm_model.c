/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager in virtual time: nodes with random latencies, that compute for a while,
 * crash, restart and dial each other at once, over a model of TCP connections.
 *
 * At the end of each run every operation that was accepted was delivered, or has failed once (what
 * was under way when its connection broke may have arrived all the same); each pair has at most one
 * connection, and both ends agree on it. Without crashes nothing fails at all.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "layers/rxm/conn/rxm_cm.h"
#include "layers/rxm/conn/rxm_wire.h"

enum {
    NODES = 8,
    OPS = 24,
    WIRES = 20000
};
enum {
    CALM_MS = 120000,
    END_MS = 600000
};

enum event_type {
    REQUEST,
    ANSWER,
    NACK,
    REFUSED,
    ACCEPTED,
    DATA,
    FIN,
    APP,
    TIMER,
    CRASH,
    START
};

struct wire;

struct end {
    struct rxm_cm_conn conn;
    struct wire *wire;
    struct node *node;
    unsigned life; /* of the node, when made */
    bool open, up;
};

/* A TCP connection: end 0 dialled, end 1 is the listener's. */
struct wire {
    struct end ends[2];
    struct node *target;
    int64_t last[2]; /* arrival of the last message towards that end */
    uint8_t hello[RXM_WIRE_SIZE];
};

struct op {
    int from, to;
    int64_t ready;
    struct end *end; /* under way on it */
    bool posted, failed;
    unsigned delivered;
};

struct node {
    struct rxm_cm cm;
    struct rxm_cm_peer peers[NODES];
    int index;
    bool alive;
    unsigned life;
    uint32_t pid;
    int64_t busy_until, timer;
    struct op ops[OPS];
};

struct event {
    int64_t at;
    uint64_t order;
    enum event_type type;
    struct node *node;
    unsigned life;
    struct wire *wire;
    int side;
    struct op *op;
    uint8_t data[RXM_WIRE_SIZE];
    size_t len;
};

static struct {
    int64_t now;
    uint64_t random, order;
    struct node nodes[NODES];
    int count;
    bool crashes;
    unsigned max_dials;
    struct wire *wires;
    size_t wire_count;
    struct event *heap;
    size_t events, room;
    uint64_t seed;
} sim;

static uint64_t rnd(uint64_t below)
{
    sim.random ^= sim.random << 13;
    sim.random ^= sim.random >> 7;
    sim.random ^= sim.random << 17;
    return (sim.random >> 11) % below;
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("seed %" PRIu64 " at %" PRId64 " ms: %s", sim.seed, sim.now, #condition);     \
    } while (0)

static bool before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push(struct event event)
{
    size_t i = sim.events++;

    if (sim.events > sim.room) {
        sim.room = sim.room ? 2 * sim.room : 1024;
        sim.heap = realloc(sim.heap, sim.room * sizeof(*sim.heap));
    }
    event.order = sim.order++;
    for (; i && before(&event, &sim.heap[(i - 1) / 2]); i = (i - 1) / 2)
        sim.heap[i] = sim.heap[(i - 1) / 2];
    sim.heap[i] = event;
}

static struct event pop(void)
{
    struct event top = sim.heap[0], last = sim.heap[--sim.events];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < sim.events) {
        if (child + 1 < sim.events && before(&sim.heap[child + 1], &sim.heap[child]))
            child++;
        if (!before(&sim.heap[child], &last))
            break;
        sim.heap[i] = sim.heap[child];
        i = child;
    }
    sim.heap[i] = last;
    return top;
}

static int64_t latency(void)
{
    return rnd(50) == 0 ? (int64_t)rnd(400) : (int64_t)rnd(5);
}

/* In order for each direction of a wire. */
static void transmit(struct wire *wire, int side, enum event_type type, struct op *op,
                     const void *data, size_t len)
{
    struct node *node = side ? wire->target : wire->ends[0].node;
    struct event event = {.type = type, .node = node, .wire = wire, .side = side, .op = op};

    event.at = sim.now + latency();
    if (event.at < wire->last[side])
        event.at = wire->last[side];
    wire->last[side] = event.at;
    event.life = side && type == REQUEST ? 0 : wire->ends[side].life;
    event.len = len;
    if (len)
        memcpy(event.data, data, len < sizeof(event.data) ? len : sizeof(event.data));
    push(event);
}

static void timer_arm(struct node *node)
{
    int64_t next = rxm_cm_next(&node->cm);

    if (next == INT64_MAX || (node->timer > sim.now && node->timer <= next))
        return;
    node->timer = next > sim.now ? next : sim.now;
    push((struct event){.at = node->timer, .type = TIMER, .node = node, .life = node->life});
}

static void end_fail_ops(struct end *end)
{
    for (int i = 0; i < OPS; i++) {
        struct op *op = &end->node->ops[i];

        if (op->end != end)
            continue;
        op->end = NULL;
        if (op->delivered)
            continue;
        CHECK(!op->failed);
        op->failed = true;
        CHECK(sim.crashes);
    }
}

static void end_drop(struct end *end)
{
    end->open = false;
    end->up = false;
    end_fail_ops(end);
}

static void end_close(struct end *end)
{
    if (!end->open)
        return;
    end_drop(end);
    transmit(end->wire, end == &end->wire->ends[0], FIN, NULL, NULL, 0);
}

/* The host died: the other end learns it from its keepalive, or when it sends. */
static void end_vanish(struct end *end)
{
    int other = end == &end->wire->ends[0];

    end_drop(end);
    if (end->wire->ends[other].open)
        push((struct event){.at = sim.now + 9000,
                            .type = FIN,
                            .node = end->wire->ends[other].node,
                            .life = end->wire->ends[other].life,
                            .wire = end->wire,
                            .side = other});
}

static struct end *end_open(struct wire *wire, int side, struct node *node)
{
    struct end *end = &wire->ends[side];

    *end = (struct end){.wire = wire, .node = node, .life = node->life, .open = true};
    return end;
}

static struct node *node_of(struct rxm_cm *cm)
{
    return list_item(cm, struct node, cm);
}

static union addr address(int index)
{
    union addr addr = {.in = {.sin_family = AF_INET}};

    addr.in.sin_addr.s_addr = htonl(0x0a000001 + (uint32_t)index / 2);
    addr.in.sin_port = htons((uint16_t)(5000 - index));
    return addr;
}

static int index_of(const union addr *addr)
{
    return 5000 - ntohs(addr->in.sin_port);
}

static struct rxm_cm_peer *op_peer(struct rxm_cm *cm, const union addr *addr, unsigned context)
{
    return &node_of(cm)->peers[index_of(addr)];
}

static int op_dial(struct rxm_cm *cm, struct rxm_cm_peer *peer, const void *data, size_t len,
                   struct rxm_cm_conn **conn)
{
    struct wire *wire;

    if (rnd(40) == 0)
        return -FI_EADDRNOTAVAIL;
    CHECK(cm->fresh_count < sim.max_dials);
    CHECK(sim.wire_count < WIRES);
    wire = &sim.wires[sim.wire_count++];
    memset(wire, 0, sizeof(*wire));
    wire->target = &sim.nodes[index_of(&peer->addr)];
    *conn = &end_open(wire, 0, node_of(cm))->conn;
    memcpy(wire->hello, data, RXM_WIRE_SIZE);
    transmit(wire, 1, REQUEST, NULL, data, RXM_WIRE_SIZE);
    return 0;
}

static int op_accept(struct rxm_cm *cm, struct rxm_cm_peer *peer, void *request, const void *data,
                     size_t len, struct rxm_cm_conn **conn)
{
    struct wire *wire = request;
    struct end *end = end_open(wire, 1, node_of(cm));

    if (rnd(40) == 0) {
        end_close(end);
        return -FI_ENOMEM;
    }
    *conn = &end->conn;
    transmit(wire, 0, ANSWER, NULL, data, RXM_WIRE_SIZE);
    push((struct event){.at = sim.now + (int64_t)rnd(3),
                        .type = ACCEPTED,
                        .node = end->node,
                        .life = end->life,
                        .wire = wire,
                        .side = 1});
    return 0;
}

static void op_reject(struct rxm_cm *cm, void *request, const void *data, size_t len,
                      const char *why)
{
    assert_null(why);
    transmit(request, 0, NACK, NULL, data, len);
}

static void op_close(struct rxm_cm *cm, struct rxm_cm_conn *conn)
{
    end_close(list_item(conn, struct end, conn));
}

static void op_up(struct rxm_cm *cm, struct rxm_cm_conn *conn)
{
    list_item(conn, struct end, conn)->up = true;
    assert_int_equal(conn->other.version, 1);
}

static void op_failed(struct rxm_cm *cm, struct rxm_cm_peer *peer, int err, const char *why)
{
    assert_null(why);
    CHECK(err > 0);
}

static void op_idle(struct rxm_cm *cm, struct rxm_cm_peer *peer)
{
    CHECK(peer->state == RXM_CM_IDLE && !peer->conn && !peer->self);
}

static const struct rxm_cm_ops ops = {
    .peer = op_peer,
    .dial = op_dial,
    .accept = op_accept,
    .reject = op_reject,
    .close = op_close,
    .up = op_up,
    .failed = op_failed,
    .idle = op_idle,
};

static void node_start(struct node *node)
{
    struct rxm_cm_config config = {
        .proto = &rxm_proto_xnet,
        .self = address(node->index),
        .pid = node->pid,
        .seed = (uint32_t)rnd(1u << 30),
        .retry_ms = 4,
        .retry_max_ms = 400,
        .unreachable_ms = 10000, /* more than anybody is busy */
        .deadline_ms = 60000,
        .max_dials = sim.max_dials,
        .any = node->index % 2, /* its own address is then what peers have dialled */
    };

    if (config.any)
        config.self.in.sin_addr.s_addr = htonl(INADDR_ANY);
    rxm_cm_init(&node->cm, &config, &ops);
    for (int i = 0; i < sim.count; i++) {
        union addr addr = address(i);

        rxm_cm_peer_init(&node->peers[i], &addr, 0);
    }
    node->alive = true;
    node->life++;
    node->timer = 0;
    push((struct event){.at = sim.now, .type = APP, .node = node, .life = node->life});
}

static void node_crash(struct node *node)
{
    bool silent = rnd(3) == 0;

    node->alive = false;
    for (size_t w = 0; w < sim.wire_count; w++)
        for (int side = 0; side < 2; side++)
            if (sim.wires[w].ends[side].node == node && sim.wires[w].ends[side].open)
                (silent ? end_vanish : end_close)(&sim.wires[w].ends[side]);
    node->pid += (uint32_t)rnd(3); /* the same again, as in containers */
    push((struct event){.at = sim.now + 1 + (int64_t)rnd(4000), .type = START, .node = node});
}

/* The application: posts what is ready, in order for each peer, and tries again later. */
static void node_app(struct node *node)
{
    bool left = false;

    for (int i = 0; i < OPS; i++) {
        struct op *op = &node->ops[i];
        struct rxm_cm_peer *peer = &node->peers[op->to];
        struct end *end;
        int rc;

        if (op->posted)
            continue;
        left = true;
        if (op->ready > sim.now)
            continue;
        rc = rxm_cm_want(&node->cm, peer, sim.now);
        if (rc == -FI_EAGAIN)
            continue;
        op->posted = true;
        if (rc) {
            op->failed = true;
            CHECK(sim.crashes);
            continue;
        }
        end = list_item(peer->conn, struct end, conn);
        CHECK(end->up && end->open);
        op->end = end;
        transmit(end->wire, end == &end->wire->ends[0], DATA, op, NULL, 0);
    }
    if (left)
        push((struct event){
            .at = sim.now + 1 + (int64_t)rnd(20), .type = APP, .node = node, .life = node->life});
}

static void node_data(struct wire *wire, int side, struct op *op)
{
    struct end *end = &wire->ends[side];

    if (!end->open) {
        transmit(wire, !side, FIN, NULL, NULL, 0);
        return;
    }
    CHECK(end->conn.peer);
    CHECK(op->from == index_of(&end->conn.peer->addr));
    CHECK(!op->delivered);
    op->delivered++;
    op->end = NULL;
}

static void node_fin(struct end *end)
{
    struct node *node = end->node;

    if (!end->open)
        return;
    CHECK(end->conn.peer);
    rxm_cm_lost(&node->cm, &end->conn, FI_ECONNRESET, NULL, 0, sim.now);
    CHECK(!end->open);
}

static void node_event(struct event *event)
{
    struct node *node = event->node;
    struct end *end = event->wire ? &event->wire->ends[event->side] : NULL;
    union addr from = address(event->wire ? event->wire->ends[0].node->index : 0);
    union addr to = address(node->index);

    switch (event->type) {
    case REQUEST:
        from.in.sin_port = 1;
        rxm_cm_request(&node->cm, &from, &to, event->data, event->len, event->wire, sim.now);
        break;
    case ANSWER:
        if (end->open)
            rxm_cm_connected(&node->cm, &end->conn, event->data, event->len, sim.now);
        break;
    case ACCEPTED:
        if (end->open)
            rxm_cm_connected(&node->cm, &end->conn, NULL, 0, sim.now);
        break;
    case NACK:
    case REFUSED:
        if (end->open)
            rxm_cm_lost(&node->cm, &end->conn, FI_ECONNREFUSED, event->data, event->len, sim.now);
        break;
    case DATA: node_data(event->wire, event->side, event->op); break;
    case FIN: node_fin(end); break;
    case APP: node_app(node); break;
    case TIMER: rxm_cm_run(&node->cm, sim.now); break;
    default: break;
    }
    timer_arm(node);
}

/* To a node that is gone, or another life of it. */
static void stray(struct event *event)
{
    if (event->type == REQUEST)
        transmit(event->wire, 0, REFUSED, NULL, NULL, 0);
    else if (event->type == DATA || event->type == ANSWER)
        transmit(event->wire, !event->side, FIN, NULL, NULL, 0);
}

static void dispatch(struct event *event)
{
    struct node *node = event->node;

    if (event->type == CRASH) {
        if (node->alive && sim.now < CALM_MS)
            node_crash(node);
        return;
    }
    if (event->type == START) {
        node_start(node);
        return;
    }
    if (!node->alive || (event->life && event->life != node->life)) {
        stray(event);
        return;
    }
    if (node->busy_until > sim.now) {
        event->at = node->busy_until;
        push(*event);
        return;
    }
    if (rnd(2000) == 0)
        node->busy_until = sim.now + (int64_t)rnd(3000);
    node_event(event);
}

static void check_connections(void)
{
    unsigned between[NODES][NODES] = {0};

    for (size_t w = 0; w < sim.wire_count; w++) {
        struct end *a = &sim.wires[w].ends[0], *b = &sim.wires[w].ends[1];

        if (!a->open && !b->open)
            continue;
        CHECK(a->open && b->open && a->up && b->up);
        CHECK(a->conn.peer == &a->node->peers[b->node->index]);
        CHECK(b->conn.peer == &b->node->peers[a->node->index]);
        CHECK(++between[a->node->index][b->node->index] == 1);
        CHECK(a == b || !between[b->node->index][a->node->index] || a->node == b->node);
    }
}

static void check_operations(void)
{
    for (int n = 0; n < sim.count; n++)
        for (int i = 0; i < OPS; i++) {
            struct op *op = &sim.nodes[n].ops[i];

            CHECK(op->posted);
            CHECK(!op->end);
            CHECK(op->delivered <= 1);
            CHECK(op->delivered || op->failed);
        }
}

static void setup(uint64_t seed, int count, bool crashes)
{
    sim.seed = seed;
    sim.random = seed * 0x9e3779b97f4a7c15u + 99;
    sim.now = 0;
    sim.count = count;
    sim.crashes = crashes;
    sim.max_dials = 1 + (unsigned)rnd(4);
    sim.wire_count = 0;
    sim.events = 0;
    memset(sim.nodes, 0, sizeof(sim.nodes));
    for (int n = 0; n < count; n++) {
        struct node *node = &sim.nodes[n];

        node->index = n;
        node->pid = 100 + (uint32_t)rnd(3);
        for (int i = 0; i < OPS; i++)
            node->ops[i] = (struct op){
                .from = n,
                .to = (int)rnd((uint64_t)count),
                .ready = rnd(2) ? 0 : (int64_t)rnd(crashes ? 2 * CALM_MS : 3000),
            };
        push((struct event){.at = (int64_t)rnd(crashes ? 500 : 50), .type = START, .node = node});
        for (int c = 0; crashes && c < 4; c++)
            push((struct event){
                .at = (int64_t)rnd(rnd(2) ? 2000 : CALM_MS), .type = CRASH, .node = node});
    }
}

static void run(uint64_t seed, int count, bool crashes)
{
    setup(seed, count, crashes);
    while (sim.events) {
        struct event event = pop();

        sim.now = event.at;
        CHECK(sim.now < END_MS);
        dispatch(&event);
    }
    check_operations();
    check_connections();
}

static uint64_t seeds(uint64_t standard)
{
    const char *text = getenv("WEFT_MODEL_SEEDS");

    return text ? strtoull(text, NULL, 0) : standard;
}

static void simultaneous_connects_leave_one_connection(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(4000); seed++)
        run(seed, 2, false);
}

static void nothing_fails_without_crashes(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(1500); seed++)
        run(seed, 2 + (int)(seed % (NODES - 1)), false);
}

static void crashes_and_restarts_lose_nothing_silently(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(200); seed++)
        run(seed, 2 + (int)(seed % (NODES - 1)), true);
}

static int sim_create(void **state)
{
    sim.wires = calloc(WIRES, sizeof(*sim.wires));
    return sim.wires ? 0 : -1;
}

static int sim_destroy(void **state)
{
    free(sim.wires);
    free(sim.heap);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simultaneous_connects_leave_one_connection),
        cmocka_unit_test(nothing_fails_without_crashes),
        cmocka_unit_test(crashes_and_restarts_lose_nothing_silently),
    };

    return cmocka_run_group_tests_name("rxm_cm_model", tests, sim_create, sim_destroy);
}
