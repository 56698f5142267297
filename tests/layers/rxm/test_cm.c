/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules of the connection manager, one at a time. The model test has their interplay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <arpa/inet.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "layers/rxm/conn/rxm_cm.h"
#include "layers/rxm/conn/rxm_wire.h"

enum {
    OWN_PORT = 5000,
    OWN_PID = 0x9ae
};

/* The manager under test, and its calls. */
static struct {
    struct rxm_cm cm;
    struct rxm_cm_peer peer;
    struct rxm_cm_conn conns[8];
    unsigned dials, accepts, rejects, closes, ups, idles;
    int failed, dial_rc;
    bool foreign;
    uint8_t data[RXM_WIRE_SIZE]; /* of the last dial or accept */
    uint8_t reject[RXM_WIRE_SIZE];
    size_t reject_len;
    struct rxm_cm_conn *closed;
} t;

static union addr address(const char *ip, uint16_t port)
{
    union addr addr = {.in = {.sin_family = AF_INET, .sin_port = htons(port)}};

    inet_pton(AF_INET, ip, &addr.in.sin_addr);
    return addr;
}

static struct rxm_cm_peer *op_peer(struct rxm_cm *cm, const union addr *addr, unsigned context)
{
    assert_true(addr_equal(&addr->sa, &t.peer.addr.sa));
    return &t.peer;
}

static int op_dial(struct rxm_cm *cm, struct rxm_cm_peer *peer, const void *data, size_t len,
                   struct rxm_cm_conn **conn)
{
    t.dials++;
    assert_in_range(len, RXM_WIRE_BASE, RXM_WIRE_SIZE);
    memcpy(t.data, data, len);
    *conn = &t.conns[(t.dials + t.accepts) % 8];
    return t.dial_rc;
}

static int op_accept(struct rxm_cm *cm, struct rxm_cm_peer *peer, void *request, const void *data,
                     size_t len, struct rxm_cm_conn **conn)
{
    t.accepts++;
    assert_in_range(len, RXM_WIRE_BASE, RXM_WIRE_SIZE);
    memcpy(t.data, data, len);
    *conn = &t.conns[(t.dials + t.accepts) % 8];
    return 0;
}

static void op_reject(struct rxm_cm *cm, void *request, const void *data, size_t len,
                      const char *why)
{
    t.rejects++;
    t.foreign = why != NULL;
    t.reject_len = len;
    memcpy(t.reject, data, len);
}

static void op_close(struct rxm_cm *cm, struct rxm_cm_conn *conn)
{
    t.closes++;
    t.closed = conn;
}

static void op_up(struct rxm_cm *cm, struct rxm_cm_conn *conn)
{
    t.ups++;
}

static void op_failed(struct rxm_cm *cm, struct rxm_cm_peer *peer, int err, const char *why)
{
    t.failed = err;
    t.foreign = why != NULL;
}

static void op_idle(struct rxm_cm *cm, struct rxm_cm_peer *peer)
{
    t.idles++;
}

static const struct rxm_cm_ops ops = {
    op_peer, op_dial, op_accept, op_reject, op_close, op_up, op_failed, op_idle,
};

static const struct rxm_cm_config config = {
    .proto = &rxm_proto_xnet,
    .pid = OWN_PID,
    .seed = 1,
    .retry_ms = 10,
    .retry_max_ms = 1000,
    .unreachable_ms = 5000,
    .deadline_ms = 60000,
    .max_dials = 2,
};

static void start(const char *peer_ip, uint16_t peer_port)
{
    struct rxm_cm_config mine = config;
    union addr addr = address(peer_ip, peer_port);

    memset(&t, 0, sizeof(t));
    mine.self = address("10.0.0.5", OWN_PORT);
    rxm_cm_init(&t.cm, &mine, &ops);
    rxm_cm_peer_init(&t.peer, &addr, 0);
}

static void request(uint8_t version, uint32_t pid, int64_t now)
{
    struct rxm_wire_hello hello = {.version = version, .pid = pid};
    union addr from = t.peer.addr, to = address("10.0.0.5", OWN_PORT);
    uint8_t data[RXM_WIRE_SIZE];

    hello.port = addr_port(&t.peer.addr.sa);
    addr_set_port(&from.sa, 40001);
    rxm_cm_request(&t.cm, &from, &to, data, rxm_wire_put(&hello, data), NULL, now);
}

static void answer(uint8_t version, uint32_t pid, int64_t now)
{
    struct rxm_wire_hello hello = {.version = version, .port = OWN_PORT, .pid = pid};
    uint8_t data[RXM_WIRE_SIZE];

    rxm_cm_connected(&t.cm, t.peer.conn, data, rxm_wire_put(&hello, data), now);
}

static void dial_at(int64_t now)
{
    assert_int_equal(rxm_cm_want(&t.cm, &t.peer, now), -FI_EAGAIN);
    rxm_cm_run(&t.cm, now);
    assert_int_equal(t.peer.state, RXM_CM_DIALLING);
}

static void bytes_are_those_of_the_captured_exchange(void **state)
{
    const uint8_t ask[] = {0x01, 0x00, 0x13, 0x88, 0x00, 0x00, 0x09, 0xae};
    const uint8_t reply[] = {0x81, 0x00, 0x4f, 0xd0, 0x00, 0x00, 0x09, 0xae};

    start("10.0.0.9", 20432);
    dial_at(0);
    assert_memory_equal(t.data, ask, sizeof(ask));
    request(1, 2478, 1);
    assert_memory_equal(t.data, reply, sizeof(reply));
}

static void version_needs_its_proof(void **state)
{
    static const struct {
        uint8_t answer;
        unsigned agreed;
    } cases[] = {{0x81, 1}, {0x01, 0}, {0x00, 0}, {0x80, 0}, {0x82, 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start("10.0.0.9", 6000);
        dial_at(0);
        answer(cases[i].answer, 1, 1);
        assert_int_equal(t.peer.state, RXM_CM_UP);
        assert_int_equal(t.peer.conn->other.version, cases[i].agreed);
    }
}

static void answer_never_exceeds_what_was_asked(void **state)
{
    static const uint8_t cases[][2] = {{0, 0}, {1, 0x81}, {2, 0x81}, {0x81, 0x81}};

    for (size_t i = 0; i < 4; i++) {
        start("10.0.0.9", 6000);
        request(cases[i][0], 7, 0);
        assert_int_equal(t.accepts, 1);
        assert_int_equal(t.data[0], cases[i][1]);
        assert_int_equal(t.peer.conn->other.version, cases[i][1] & 1);
    }
}

static void higher_peer_wins_the_tie(void **state)
{
    struct rxm_cm_conn *mine;

    start("10.0.0.9", 4000);
    dial_at(0);
    mine = t.peer.conn;
    request(1, 7, 1);
    assert_int_equal(t.accepts, 1);
    assert_ptr_equal(t.closed, mine);
    assert_int_equal(t.peer.state, RXM_CM_ACCEPTING);
}

static void lower_peer_loses_the_tie_and_gets_its_bytes_back(void **state)
{
    const uint8_t echo[] = {0x01, 0x00, 0x0f, 0xa0, 0x00, 0x00, 0x00, 0x07};

    start("10.0.0.5", 4000);
    dial_at(0);
    request(1, 7, 1);
    assert_int_equal(t.rejects, 1);
    assert_false(t.foreign);
    assert_int_equal(t.reject_len, 8);
    assert_memory_equal(t.reject, echo, 8);
    assert_int_equal(t.peer.state, RXM_CM_DIALLING);
}

static void start_on_every_interface(const char *peer_ip, uint16_t peer_port)
{
    start(peer_ip, peer_port);
    t.cm.config.any = true;
    t.cm.config.self = address("0.0.0.0", OWN_PORT);
}

static void on_every_interface_the_address_that_was_dialled_counts(void **state)
{
    union addr dialled = address("10.0.0.5", OWN_PORT);

    start_on_every_interface("10.0.0.4", 4000);
    dial_at(0);
    request(1, 7, 1);
    assert_int_equal(t.rejects, 1);
    start_on_every_interface("10.0.0.9", 4000);
    dial_at(0);
    request(1, 7, 1);
    assert_int_equal(t.accepts, 1);
    assert_true(addr_equal(&t.peer.own.sa, &dialled.sa)); /* later dials leave from there */
    start_on_every_interface("10.0.0.5", OWN_PORT);
    dial_at(0);
    request(1, OWN_PID, 1);
    assert_non_null(t.peer.self);
    assert_int_equal(t.peer.state, RXM_CM_DIALLING);
}

static void own_request_is_accepted_beside_the_dial(void **state)
{
    start("10.0.0.5", OWN_PORT);
    dial_at(0);
    request(1, OWN_PID, 1);
    assert_int_equal(t.accepts, 1);
    assert_int_equal(t.peer.state, RXM_CM_DIALLING);
    assert_non_null(t.peer.self);
    answer(0x81, OWN_PID, 2);
    rxm_cm_connected(&t.cm, t.peer.self, NULL, 0, 2);
    assert_int_equal(t.peer.state, RXM_CM_UP);
    assert_int_equal(t.ups, 2);
    assert_int_equal(t.closes, 0);
}

static void another_process_with_our_address_is_refused(void **state)
{
    start("10.0.0.5", OWN_PORT);
    request(1, OWN_PID + 1, 1);
    assert_int_equal(t.rejects, 1);
    assert_int_equal(t.idles, 1);
}

static void left_over_request_does_not_disturb_the_connection(void **state)
{
    start("10.0.0.4", 6000);
    dial_at(0);
    answer(0x81, 7, 10);
    request(1, 7, 11);
    assert_int_equal(t.rejects, 1);
    assert_int_equal(t.peer.state, RXM_CM_UP);
}

static void peer_that_keeps_asking_has_lost_its_end(void **state)
{
    start("10.0.0.4", 6000);
    dial_at(0);
    answer(0x81, 7, 10);
    request(1, 7, 5000);
    assert_int_equal(t.accepts, 0);
    request(1, 7, 5100);
    assert_int_equal(t.accepts, 1);
    assert_int_equal(t.closes, 1);
}

static void restarted_peer_replaces_its_connection(void **state)
{
    start("10.0.0.4", 6000);
    dial_at(0);
    answer(0x81, 7, 10);
    request(1, 8, 11);
    assert_int_equal(t.accepts, 1);
    assert_int_equal(t.closes, 1);
    rxm_cm_connected(&t.cm, t.peer.conn, NULL, 0, 12);
    request(1, 8, 13); /* it dialled what there is, so it has dropped that */
    assert_int_equal(t.accepts, 2);
    assert_int_equal(t.closes, 2);
}

static void lost_race_waits_for_the_peer_then_dials_again(void **state)
{
    const uint8_t echo[RXM_WIRE_BASE] = {1};

    start("10.0.0.9", 6000);
    dial_at(0);
    rxm_cm_lost(&t.cm, t.peer.conn, FI_ECONNREFUSED, echo, sizeof(echo), 1);
    assert_int_equal(t.peer.state, RXM_CM_WAITING);
    assert_in_range(rxm_cm_next(&t.cm), 2, 11);
    rxm_cm_run(&t.cm, rxm_cm_next(&t.cm));
    assert_int_equal(t.dials, 2);
    request(1, 7, 20);
    assert_int_equal(t.peer.state, RXM_CM_ACCEPTING);
}

static void refused_dials_pause_longer_and_end_in_one_error(void **state)
{
    int64_t now = 0, last = 0, pause = 0;

    start("10.0.0.9", 6000);
    dial_at(0);
    while (t.peer.state != RXM_CM_FAILED) {
        rxm_cm_lost(&t.cm, t.peer.conn, FI_ECONNREFUSED, NULL, 0, now);
        if (t.peer.state == RXM_CM_FAILED)
            break;
        last = now;
        now = rxm_cm_next(&t.cm);
        pause = now - last;
        assert_in_range(pause, 1, config.retry_max_ms);
        assert_int_equal(rxm_cm_want(&t.cm, &t.peer, now), -FI_EAGAIN);
        rxm_cm_run(&t.cm, now);
    }
    assert_int_equal(now, config.unreachable_ms);
    assert_in_range(t.dials, 8, 25);
    assert_int_equal(t.failed, FI_ECONNREFUSED);
    assert_false(t.foreign);
    assert_int_equal(rxm_cm_want(&t.cm, &t.peer, now), -FI_ECONNREFUSED);
}

static int64_t fail_at(int64_t now)
{
    rxm_cm_lost(&t.cm, t.peer.conn, FI_ECONNREFUSED, NULL, 0, now);
    while (t.peer.state != RXM_CM_FAILED) {
        now = rxm_cm_next(&t.cm);
        rxm_cm_run(&t.cm, now);
        rxm_cm_lost(&t.cm, t.peer.conn, FI_ECONNREFUSED, NULL, 0, now);
    }
    return now;
}

/* Sends go on failing at once; then each next window costs one dial, not unreachable_ms. */
static void refusal_holds_for_a_while(void **state)
{
    int64_t now;
    int dials;

    start("10.0.0.9", 6000);
    dial_at(0);
    now = fail_at(0);
    for (int64_t i = 0; i < config.retry_max_ms; i += 100)
        assert_int_equal(rxm_cm_want(&t.cm, &t.peer, now + i), -FI_ECONNREFUSED);
    now += config.retry_max_ms;
    dials = t.dials;
    dial_at(now);
    assert_int_equal(t.dials, dials + 1);
    rxm_cm_lost(&t.cm, t.peer.conn, FI_ECONNREFUSED, NULL, 0, now);
    assert_int_equal(t.peer.state, RXM_CM_FAILED);
    assert_int_equal(rxm_cm_want(&t.cm, &t.peer, now), -FI_ECONNREFUSED);
}

static void peer_that_came_back_is_dialled_again_as_before(void **state)
{
    const uint8_t answer[RXM_WIRE_BASE] = {1};
    int64_t now;

    start("10.0.0.9", 6000);
    dial_at(0);
    now = fail_at(0);
    assert_int_equal(rxm_cm_want(&t.cm, &t.peer, now), -FI_ECONNREFUSED);
    now += config.retry_max_ms;
    dial_at(now);
    rxm_cm_connected(&t.cm, t.peer.conn, answer, sizeof(answer), now);
    assert_int_equal(t.peer.state, RXM_CM_UP);
    now += 5000;
    rxm_cm_lost(&t.cm, t.peer.conn, 0, NULL, 0, now);
    dial_at(now);
    rxm_cm_lost(&t.cm, t.peer.conn, FI_ECONNREFUSED, NULL, 0, now);
    assert_int_equal(t.peer.state, RXM_CM_WAITING);
}

static void other_protocol_is_refused_once(void **state)
{
    start("10.0.0.9", 6000);
    dial_at(0);
    rxm_cm_lost(&t.cm, t.peer.conn, FI_ECONNREFUSED, rxm_wire_refusal, 2, 1);
    assert_int_equal(t.peer.state, RXM_CM_FAILED);
    assert_true(t.foreign);
    rxm_cm_run(&t.cm, 100000);
    assert_int_equal(t.dials, 1);
    assert_int_equal(rxm_cm_want(&t.cm, &t.peer, 10), -FI_ECONNREFUSED);
}

static void answer_without_private_data_is_another_protocol(void **state)
{
    start("10.0.0.9", 6000);
    dial_at(0);
    rxm_cm_connected(&t.cm, t.peer.conn, NULL, 0, 1);
    assert_int_equal(t.failed, FI_ECONNREFUSED);
    assert_true(t.foreign);
    assert_int_equal(t.closes, 1);
}

static void requests_of_other_lengths_are_refused(void **state)
{
    static const size_t lengths[] = {0, 1, 7, 9, 16, 24, 256};
    static const uint8_t bytes[256] = {1, 2, 4, 3, 0xfa, 0x4e};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        start("10.0.0.9", 6000);
        rxm_cm_request(&t.cm, &t.peer.addr, &t.cm.config.self, bytes, lengths[i], NULL, 0);
        assert_int_equal(t.rejects, 1);
        assert_true(t.foreign);
        assert_int_equal(t.reject_len, 2);
        assert_memory_equal(t.reject, rxm_wire_refusal, 2);
        assert_int_equal(t.peer.state, RXM_CM_IDLE);
    }
}

static void silent_peer_ends_at_the_deadline(void **state)
{
    start("10.0.0.9", 6000);
    dial_at(100);
    assert_int_equal(rxm_cm_next(&t.cm), 100 + config.deadline_ms);
    rxm_cm_run(&t.cm, 100 + config.deadline_ms);
    assert_int_equal(t.failed, FI_ETIMEDOUT);
    assert_int_equal(t.closes, 1);
    assert_int_equal(rxm_cm_next(&t.cm), INT64_MAX);
}

static void firewalled_peer_is_not_dialled(void **state)
{
    struct rxm_wire_hello hello = {.version = 1, .features = 1, .port = 6000, .pid = 7};
    uint8_t data[RXM_WIRE_SIZE];
    size_t len;

    start("10.0.0.9", 6000);
    len = rxm_wire_put(&hello, data);
    rxm_cm_request(&t.cm, &t.peer.addr, &t.cm.config.self, data, len, NULL, 0);
    assert_int_equal(t.data[1], 1);
    rxm_cm_connected(&t.cm, t.peer.conn, NULL, 0, 0);
    assert_int_equal(rxm_cm_want(&t.cm, &t.peer, 1), 0);
    rxm_cm_lost(&t.cm, t.peer.conn, 0, NULL, 0, 2);
    assert_int_equal(rxm_cm_want(&t.cm, &t.peer, 3), -FI_EFIREWALLADDR);
    assert_int_equal(t.dials, 0);
}

static void dials_start_at_most_so_many_at_once(void **state)
{
    struct rxm_cm_peer peers[5];

    start("10.0.0.9", 6000);
    for (int i = 0; i < 5; i++) {
        union addr addr = address("10.0.0.9", (uint16_t)(7000 + i));

        rxm_cm_peer_init(&peers[i], &addr, 0);
        assert_int_equal(rxm_cm_want(&t.cm, &peers[i], 0), -FI_EAGAIN);
    }
    rxm_cm_run(&t.cm, 0);
    assert_int_equal(t.dials, 2);
    rxm_cm_run(&t.cm, 10);
    assert_int_equal(t.dials, 2);
    assert_int_equal(rxm_cm_next(&t.cm), RXM_CM_FRESH_MS); /* those two may be silent ones */
    rxm_cm_run(&t.cm, RXM_CM_FRESH_MS);
    assert_int_equal(t.dials, 4);
    rxm_cm_forget(&t.cm, &peers[2]);
    rxm_cm_run(&t.cm, RXM_CM_FRESH_MS);
    assert_int_equal(t.dials, 5);
    for (int i = 0; i < 5; i++)
        rxm_cm_forget(&t.cm, &peers[i]);
    assert_int_equal(rxm_cm_next(&t.cm), INT64_MAX);
    assert_false(rxm_cm_busy(&t.cm));
}

static void peer_that_hangs_up_at_once_is_dialled_with_pauses(void **state)
{
    start("10.0.0.9", 6000);
    dial_at(0);
    answer(0x81, 7, 1);
    rxm_cm_lost(&t.cm, t.peer.conn, 0, NULL, 0, 2);
    assert_int_equal(t.peer.state, RXM_CM_IDLE);
    assert_int_equal(rxm_cm_want(&t.cm, &t.peer, 2), -FI_EAGAIN);
    rxm_cm_run(&t.cm, 2);
    assert_int_equal(t.dials, 1);
    assert_true(rxm_cm_next(&t.cm) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_the_captured_exchange),
        cmocka_unit_test(version_needs_its_proof),
        cmocka_unit_test(answer_never_exceeds_what_was_asked),
        cmocka_unit_test(higher_peer_wins_the_tie),
        cmocka_unit_test(on_every_interface_the_address_that_was_dialled_counts),
        cmocka_unit_test(lower_peer_loses_the_tie_and_gets_its_bytes_back),
        cmocka_unit_test(own_request_is_accepted_beside_the_dial),
        cmocka_unit_test(another_process_with_our_address_is_refused),
        cmocka_unit_test(left_over_request_does_not_disturb_the_connection),
        cmocka_unit_test(peer_that_keeps_asking_has_lost_its_end),
        cmocka_unit_test(restarted_peer_replaces_its_connection),
        cmocka_unit_test(lost_race_waits_for_the_peer_then_dials_again),
        cmocka_unit_test(refused_dials_pause_longer_and_end_in_one_error),
        cmocka_unit_test(refusal_holds_for_a_while),
        cmocka_unit_test(peer_that_came_back_is_dialled_again_as_before),
        cmocka_unit_test(other_protocol_is_refused_once),
        cmocka_unit_test(answer_without_private_data_is_another_protocol),
        cmocka_unit_test(requests_of_other_lengths_are_refused),
        cmocka_unit_test(silent_peer_ends_at_the_deadline),
        cmocka_unit_test(firewalled_peer_is_not_dialled),
        cmocka_unit_test(dials_start_at_most_so_many_at_once),
        cmocka_unit_test(peer_that_hangs_up_at_once_is_dialled_with_pauses),
    };

    return cmocka_run_group_tests_name("rxm_cm", tests, NULL, NULL);
}
