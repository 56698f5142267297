/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *            want            dial             connected
 *   IDLE ----------> WAITING ------> DIALLING ----------> UP      lost: back to IDLE
 *                      ^  |              |                ^
 *                      +--|-- refused ---+   connected    |
 *                         v                               |
 *                       FAILED (deadline)    ACCEPTING ---+
 *
 * A request of the peer leads from any state to ACCEPTING, if admit() lets it. A connection that
 * dies young counts as a failed dial, so that a peer which accepts and hangs up is dialled with
 * pauses too.
 */
#include "layers/rxm/conn/rxm_cm.h"

#include <assert.h>

#include <rdma/fi_errno.h>

enum {
    YOUNG_MS = 1000,    /* a connection that ends younger than this was no success */
    MEMORY_FACTOR = 20, /* longest pauses without a dial after which failures are forgotten */
};

void rxm_cm_init(struct rxm_cm *cm, const struct rxm_cm_config *config,
                 const struct rxm_cm_ops *ops)
{
    assert(config->retry_ms > 0 && config->retry_max_ms >= config->retry_ms);
    assert(config->max_dials > 0);
    cm->config = *config;
    cm->ops = ops;
    list_init(&cm->waiting);
    list_init(&cm->dialling);
    list_init(&cm->fresh);
    cm->fresh_count = 0;
    cm->accepting = 0;
    cm->next_id = 0;
    cm->random = config->seed * 0x9e3779b97f4a7c15u + 1;
}

void rxm_cm_peer_init(struct rxm_cm_peer *peer, const union addr *addr, unsigned context)
{
    *peer = (struct rxm_cm_peer){
        .addr = *addr, .context = context, .state = RXM_CM_IDLE, .own.sa.sa_family = AF_UNSPEC};
    timer_init(&peer->timer);
    list_init(&peer->fresh);
}

static uint64_t random_next(struct rxm_cm *cm)
{
    cm->random ^= cm->random << 13;
    cm->random ^= cm->random >> 7;
    cm->random ^= cm->random << 17;
    return cm->random;
}

static void leave_fresh(struct rxm_cm *cm, struct rxm_cm_peer *peer)
{
    if (list_empty(&peer->fresh))
        return;
    list_detach(&peer->fresh);
    cm->fresh_count--;
}

static void enter(struct rxm_cm *cm, struct rxm_cm_peer *peer, enum rxm_cm_state state)
{
    timer_stop(&peer->timer);
    leave_fresh(cm, peer);
    cm->accepting -= peer->state == RXM_CM_ACCEPTING;
    cm->accepting += state == RXM_CM_ACCEPTING;
    peer->state = state;
}

/* Peers with equal times keep their order: the one that waits longest dials first. */
static void enter_timed(struct rxm_cm *cm, struct rxm_cm_peer *peer, enum rxm_cm_state state,
                        int64_t due_ms)
{
    enter(cm, peer, state);
    timer_start(&peer->timer, state == RXM_CM_WAITING ? &cm->waiting : &cm->dialling, due_ms);
}

static void close_conn(struct rxm_cm *cm, struct rxm_cm_conn **slot)
{
    struct rxm_cm_conn *conn = *slot;

    if (!conn)
        return;
    *slot = NULL;
    conn->peer = NULL;
    cm->ops->close(cm, conn);
}

static void idle_if_unused(struct rxm_cm *cm, struct rxm_cm_peer *peer)
{
    if (peer->state == RXM_CM_IDLE && !peer->conn && !peer->self)
        cm->ops->idle(cm, peer);
}

void rxm_cm_forget(struct rxm_cm *cm, struct rxm_cm_peer *peer)
{
    enter(cm, peer, RXM_CM_IDLE);
    peer->wanted = false;
    peer->tries = 0;
    close_conn(cm, &peer->conn);
    close_conn(cm, &peer->self);
}

/* Doubles with each try; the random half keeps two peers, or a thousand, from moving in step. */
static int64_t pause_ms(struct rxm_cm *cm, const struct rxm_cm_peer *peer)
{
    int64_t pause = cm->config.retry_ms;

    for (unsigned i = 1; i < peer->tries && pause < cm->config.retry_max_ms; i++)
        pause *= 2;
    if (pause > cm->config.retry_max_ms)
        pause = cm->config.retry_max_ms;
    return pause - (int64_t)(random_next(cm) % ((uint64_t)pause / 2 + 1));
}

static void fail(struct rxm_cm *cm, struct rxm_cm_peer *peer, int err, const char *why, int64_t now)
{
    enter(cm, peer, RXM_CM_FAILED);
    peer->wanted = false;
    peer->tries = 0;
    peer->told = false;
    peer->gave_up = true;
    peer->err = err;
    peer->why = why;
    peer->timer.due = now;
    cm->ops->failed(cm, peer, err, why);
}

/* The dial, or a connection accepted meanwhile, has failed; unreachable: the peer did not answer
 * it. */
static void retry(struct rxm_cm *cm, struct rxm_cm_peer *peer, int err, bool unreachable,
                  int64_t now)
{
    int64_t limit = peer->first_ms + cm->config.deadline_ms, due = now + pause_ms(cm, peer);

    if (unreachable && !peer->unreachable)
        peer->unreachable_ms = now;
    peer->unreachable = unreachable;
    if (unreachable && limit > peer->unreachable_ms + cm->config.unreachable_ms)
        limit = peer->unreachable_ms + cm->config.unreachable_ms;
    if (unreachable && peer->gave_up)
        limit = now;
    peer->err = err;
    if (peer->tries && now >= limit)
        fail(cm, peer, err, NULL, now);
    else
        enter_timed(cm, peer, RXM_CM_WAITING, peer->tries && due > limit ? limit : due);
}

/* The private data of a connection to be made. */
static struct rxm_self self_for(struct rxm_cm *cm, const struct rxm_cm_peer *peer)
{
    return (struct rxm_self){
        .port = addr_port(&cm->config.self.sa),
        .pid = cm->config.pid,
        .id = cm->next_id++,
        .eager_limit = cm->config.eager_limit,
        .rx_size = cm->config.rx_size,
        .flow = cm->config.flow,
        .extensions = cm->config.extensions,
        .source = cm->config.source,
        .target = peer->context & RXM_CM_SOURCE ? 0 : (uint8_t)peer->context,
    };
}

static void dial(struct rxm_cm *cm, struct rxm_cm_peer *peer, int64_t now)
{
    struct rxm_self self = self_for(cm, peer);
    uint8_t data[RXM_PROTO_MAX];
    struct rxm_cm_conn *conn;
    int rc;

    if (peer->tries++ == 0) {
        peer->first_ms = now;
        peer->unreachable = false;
        peer->err = 0;
    }
    peer->start_ms = now;
    rc = cm->ops->dial(cm, peer, data, cm->config.proto->request(&self, data), &conn);
    if (rc) {
        retry(cm, peer, -rc, true, now);
        return;
    }
    conn->peer = peer;
    conn->dialled = true;
    conn->known = false;
    conn->id = self.id;
    conn->other = (struct rxm_hello){.version = 0};
    peer->conn = conn;
    enter_timed(cm, peer, RXM_CM_DIALLING, peer->first_ms + cm->config.deadline_ms);
    list_attach(&peer->fresh, &cm->fresh);
    cm->fresh_count++;
}

/* Is the failure recent? As long as the longest pause between dials; deadline_ms while no operation
 * has reported it yet. */
static bool still_failed(const struct rxm_cm *cm, const struct rxm_cm_peer *peer, int64_t now)
{
    int64_t age = now - peer->timer.due;

    return age < (peer->told ? cm->config.retry_max_ms : cm->config.deadline_ms);
}

int rxm_cm_want(struct rxm_cm *cm, struct rxm_cm_peer *peer, int64_t now)
{
    if (peer->state == RXM_CM_UP)
        return 0;
    if (peer->state == RXM_CM_FAILED) {
        if (still_failed(cm, peer, now)) {
            peer->told = true;
            return -peer->err;
        }
        enter(cm, peer, RXM_CM_IDLE);
    }
    if (peer->state == RXM_CM_IDLE && peer->firewalled)
        return -FI_EFIREWALLADDR;
    peer->wanted = true;
    if (peer->state == RXM_CM_IDLE) {
        if (now - peer->timer.due > MEMORY_FACTOR * cm->config.retry_max_ms) {
            peer->tries = 0;
            peer->gave_up = false;
        }
        enter_timed(cm, peer, RXM_CM_WAITING, peer->timer.due > now ? peer->timer.due : now);
    }
    return -FI_EAGAIN;
}

/*
 * A second request over a connection that we dialled, from the same process: left over from both
 * having dialled at once. But one that keeps asking has lost its end without our knowing.
 */
static bool left_over(struct rxm_cm_peer *peer, const struct rxm_hello *hello, int64_t now)
{
    if (!peer->conn->dialled || hello->pid != peer->pid)
        return false;
    return peer->duplicates++ == 0 || now - peer->start_ms < YOUNG_MS;
}

/* own: our address, as the peer knows it. */
static bool admit(struct rxm_cm *cm, struct rxm_cm_peer *peer, const union addr *own,
                  const struct rxm_hello *hello, int64_t now)
{
    int order = addr_compare(&peer->addr.sa, &own->sa);

    if (order == 0)
        return hello->pid == cm->config.pid;
    if (peer->state == RXM_CM_DIALLING)
        return order > 0;
    return peer->state != RXM_CM_UP || !left_over(peer, hello, now);
}

/* The old connection goes only once the new one is there: the peer may still use the old one. */
static void accept_request(struct rxm_cm *cm, struct rxm_cm_peer *peer, const union addr *own,
                           void *request, const void *asked, size_t asked_len,
                           struct rxm_hello *hello)
{
    bool myself = addr_equal(&peer->addr.sa, &own->sa);
    struct rxm_cm_conn **slot = myself ? &peer->self : &peer->conn, *conn;
    struct rxm_self self = self_for(cm, peer);
    uint8_t data[RXM_PROTO_MAX];
    size_t len = cm->config.proto->answer(&self, asked, asked_len, hello, data);

    if (cm->ops->accept(cm, peer, request, data, len, &conn)) {
        idle_if_unused(cm, peer);
        return;
    }
    close_conn(cm, slot);
    conn->peer = peer;
    conn->dialled = false;
    conn->known = true;
    conn->id = self.id;
    conn->other = *hello;
    *slot = conn;
    if (myself)
        return;
    enter(cm, peer, RXM_CM_ACCEPTING);
    peer->own = *own;
    peer->firewalled = hello->firewalled;
    peer->pid = hello->pid;
}

static void refuse(struct rxm_cm *cm, void *request, const void *asked, size_t len, const char *why)
{
    uint8_t data[RXM_PROTO_MAX];

    len = cm->config.proto->refusal(!why, asked, len, data);
    cm->ops->reject(cm, request, data, len, why);
}

void rxm_cm_request(struct rxm_cm *cm, const union addr *from, const union addr *to,
                    const void *data, size_t len, void *request, int64_t now)
{
    const union addr *own = cm->config.any ? to : &cm->config.self;
    struct rxm_self self = {
        .eager_limit = cm->config.eager_limit,
        .extensions = cm->config.extensions,
    };
    struct rxm_hello hello;
    struct rxm_cm_peer *peer;
    union addr addr = *from;
    const char *why = cm->config.proto->take_request(&self, data, len, &hello);

    if (!why && hello.target != cm->config.target)
        why = "a receive context that this endpoint has not";
    if (why) {
        refuse(cm, request, data, len, why);
        return;
    }
    addr_set_port(&addr.sa, hello.port);
    peer = cm->ops->peer(cm, &addr, hello.source ? RXM_CM_SOURCE | hello.source : 0);
    if (!peer) {
        refuse(cm, request, data, len, NULL);
    } else if (!admit(cm, peer, own, &hello, now)) {
        refuse(cm, request, data, len, NULL);
        idle_if_unused(cm, peer);
    } else {
        accept_request(cm, peer, own, request, data, len, &hello);
    }
}

/* The answer to a dial. */
static const char *take_answer(struct rxm_cm *cm, struct rxm_cm_conn *conn, const void *data,
                               size_t len)
{
    struct rxm_self self = self_for(cm, conn->peer);
    const char *why = cm->config.proto->take_answer(&self, data, len, &conn->other);

    if (!why) {
        conn->known = true;
        conn->peer->pid = conn->other.pid;
    }
    return why;
}

void rxm_cm_connected(struct rxm_cm *cm, struct rxm_cm_conn *conn, const void *data, size_t len,
                      int64_t now)
{
    struct rxm_cm_peer *peer = conn->peer;
    const char *why = conn->dialled ? take_answer(cm, conn, data, len) : NULL;

    if (why) {
        close_conn(cm, &peer->conn);
        fail(cm, peer, FI_ECONNREFUSED, why, now);
        return;
    }
    if (conn == peer->conn) {
        enter(cm, peer, RXM_CM_UP);
        peer->wanted = false;
        peer->duplicates = 0;
        peer->gave_up = false;
        peer->start_ms = now;
    }
    cm->ops->up(cm, conn);
}

static void dial_lost(struct rxm_cm *cm, struct rxm_cm_peer *peer, int err, const void *data,
                      size_t len, int64_t now)
{
    const char *why = len ? cm->config.proto->take_refusal(data, len) : NULL;

    if (!err)
        err = FI_ECONNREFUSED;
    if (why)
        fail(cm, peer, FI_ECONNREFUSED, why, now);
    else
        retry(cm, peer, err, len == 0, now); /* or the peer's own request has won, or will */
}

static void connection_lost(struct rxm_cm *cm, struct rxm_cm_peer *peer, int64_t now)
{
    int64_t due = now;

    if (peer->state == RXM_CM_UP && now - peer->start_ms >= YOUNG_MS) {
        peer->tries = 0;
    } else {
        if (peer->tries++ == 0)
            peer->first_ms = now;
        due = now + pause_ms(cm, peer);
    }
    enter(cm, peer, RXM_CM_IDLE);
    peer->timer.due = due;
}

void rxm_cm_lost(struct rxm_cm *cm, struct rxm_cm_conn *conn, int err, const void *data, size_t len,
                 int64_t now)
{
    struct rxm_cm_peer *peer = conn->peer;

    if (conn == peer->self) {
        close_conn(cm, &peer->self);
    } else {
        close_conn(cm, &peer->conn);
        if (peer->state == RXM_CM_DIALLING)
            dial_lost(cm, peer, err, data, len, now);
        else if (peer->wanted)
            retry(cm, peer, err ? err : FI_ECONNRESET, false, now);
        else
            connection_lost(cm, peer, now);
    }
    idle_if_unused(cm, peer);
}

static void expire(struct rxm_cm *cm, struct rxm_cm_peer *peer, int64_t now)
{
    close_conn(cm, &peer->conn);
    fail(cm, peer, peer->err ? peer->err : FI_ETIMEDOUT, NULL, now);
}

static struct rxm_cm_peer *peer_of(struct timer *timer)
{
    return list_item(timer, struct rxm_cm_peer, timer);
}

void rxm_cm_run(struct rxm_cm *cm, int64_t now)
{
    struct timer *timer;

    while (!list_empty(&cm->fresh)) {
        struct rxm_cm_peer *peer = list_item(cm->fresh.next, struct rxm_cm_peer, fresh);
        if (now - peer->start_ms < RXM_CM_FRESH_MS)
            break;
        leave_fresh(cm, peer);
    }
    while ((timer = timers_due(&cm->dialling, now)))
        expire(cm, peer_of(timer), now);
    while (cm->fresh_count < cm->config.max_dials && (timer = timers_due(&cm->waiting, now)))
        dial(cm, peer_of(timer), now);
}

int64_t rxm_cm_next(const struct rxm_cm *cm)
{
    int64_t next = timers_next(&cm->waiting), dialling = timers_next(&cm->dialling), due;

    if (!list_empty(&cm->waiting) && cm->fresh_count >= cm->config.max_dials) {
        due = list_item(cm->fresh.next, struct rxm_cm_peer, fresh)->start_ms + RXM_CM_FRESH_MS;
        next = due > next ? due : next;
    }
    return dialling < next ? dialling : next;
}
