/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives posted to connections: few where little is said, many where much is, and one for every
 * packet that comes. */
#include "inside.h"

#include "layers/rxm/conn/rxm_proto.h"

#define POSTED "rxm(tags=emulate,use_srx=no);loop"
#define SHARED "rxm(tags=emulate);loop"

enum {
    LEAST = 8,
    MOST = 128,
    IDLE = 6,
    MESSAGES = 4000,
};

/* ---- One that is spoken to by many ---- */

static struct rdm_net hub_net, net;
static struct rdm hub, peers[IDLE + 1];
static struct rdm *ends[IDLE + 3];

static void open_all(const char *hub_spec, const char *spec)
{
    rdm_net_open(&hub_net, hub_spec, 0);
    rdm_net_open(&net, spec, 0);
    rdm_open(&hub, &hub_net, 0);
    ends[0] = &hub;
    for (int i = 0; i <= IDLE; i++) {
        rdm_open(&peers[i], &net, 0);
        ends[i + 1] = &peers[i];
    }
}

static void close_all(void)
{
    for (int i = 0; i <= IDLE; i++)
        rdm_close(&peers[i]);
    rdm_close(&hub);
    rdm_net_close(&net);
    rdm_net_close(&hub_net);
}

/* Messages of peers[from], taken one by one. */
static void say(int from, int count)
{
    fi_addr_t to = rdm_insert(&peers[from], &hub.name);
    static char text[64];

    for (int i = 0; i < count; i++) {
        assert_int_equal(fi_trecv(hub.ep, text, sizeof(text), NULL, FI_ADDR_UNSPEC, 1, 0, text), 0);
        rdm_send(&peers[from], to, ends, 1, &peers[from]);
        assert_int_equal(rdm_next(&hub, ends, NULL, NULL, NULL), 0);
        assert_int_equal(rdm_next(&peers[from], ends, NULL, NULL, NULL), 0);
    }
}

/* How many connections of the hub have that many receives; all buffers are accounted for. */
static int conns_with(unsigned posted)
{
    size_t sum = 0;
    int count = 0;

    list_for_each (item, &object_of(hub.ep, struct rxm_ep, fid)->conns) {
        const struct rxm_conn *conn = list_item(item, struct rxm_conn, all);

        count += conn->msgproto.window.posted == posted;
        sum += conn->msgproto.window.posted;
    }
    assert_int_equal(inside_emu(&hub)->packets.used, sum);
    return count;
}

static void only_a_busy_peer_has_many(const char *spec)
{
    open_all(POSTED, spec);
    for (int i = 0; i <= IDLE; i++)
        say(i, 1);
    assert_int_equal(conns_with(LEAST), IDLE + 1);
    say(0, MESSAGES);
    assert_int_equal(conns_with(LEAST), IDLE);
    assert_int_equal(conns_with(MOST), 1);
    close_all();
}

static void memory_grows_with_those_who_speak(void **state)
{
    only_a_busy_peer_has_many(POSTED);
}

static void so_it_does_for_a_peer_that_does_not_count(void **state)
{
    only_a_busy_peer_has_many(SHARED);
}

/* Neither the peer nor the lower waits: all there may be, at once. */
static void a_peer_that_nobody_holds_back_finds_all(void **state)
{
    open_all(POSTED, SHARED);
    inside_emu(&hub)->lower_waits = false;
    say(0, 1);
    assert_int_equal(conns_with(MOST), 1);
    close_all();
}

/* ---- Two ends in virtual time ---- */

enum {
    WIRE = 256,
    STEPS = 200000,
};

struct pipe {
    long long at[WIRE];
    uint32_t grant[WIRE];
    unsigned first, count;
};

static struct model {
    struct rxm_credit sender, receiver;
    struct rxm_window window;
    struct pipe packets, grants;
    long long now;
    unsigned got, largest, again; /* used receives that wait to be posted again */
} m;

static void put(struct pipe *pipe, uint32_t grant)
{
    unsigned at = (pipe->first + pipe->count++) % WIRE;

    assert_true(pipe->count <= WIRE);
    pipe->at[at] = m.now + rand() % 20;
    pipe->grant[at] = grant;
}

static bool take(struct pipe *pipe, uint32_t *grant)
{
    if (!pipe->count || pipe->at[pipe->first] > m.now)
        return false;
    *grant = pipe->grant[pipe->first];
    pipe->first = (pipe->first + 1) % WIRE;
    pipe->count--;
    return true;
}

static void post_and_grant(void)
{
    uint32_t due;

    for (; m.window.posted < m.window.size; m.window.posted++)
        rxm_credit_posted(&m.receiver, 1);
    due = rxm_credit_due(&m.receiver);
    if (due) {
        rxm_credit_gave(&m.receiver, due);
        put(&m.grants, due);
    }
    if (m.largest < m.window.posted)
        m.largest = m.window.posted;
}

static void post_again(void)
{
    unsigned used = m.again;

    for (; m.again && m.window.posted > m.window.size; m.again--)
        m.window.posted--;
    rxm_credit_posted(&m.receiver, m.again);
    m.again = 0;
    if (rxm_window_used(&m.window, used)) {
        rxm_window_turn(&m.window, m.now);
        rxm_credit_resize(&m.receiver, m.window.size);
    }
    post_and_grant();
}

static void receive(void)
{
    uint32_t unused;

    while (take(&m.packets, &unused)) {
        assert_true(m.window.posted > m.again); /* never caught without a buffer */
        m.again++;
        m.got++;
        if (m.again >= m.receiver.batch)
            post_again();
    }
}

static void begin(unsigned most)
{
    memset(&m, 0, sizeof(m));
    rxm_window_init(&m.window, most);
    rxm_credit_init(&m.receiver, m.window.size);
    rxm_credit_init(&m.sender, most);
    rxm_credit_agree(&m.receiver, RXM_FLOW_ON, RXM_FLOW_ON);
    rxm_credit_agree(&m.sender, RXM_FLOW_ON, RXM_FLOW_ON);
    post_and_grant();
}

/* As many packets as the credits allow, or one in each `pause`, for some steps of a millisecond. */
static void run(int pause, int steps)
{
    uint32_t grant;

    for (int i = 0; i < steps; i++, m.now++) {
        while (take(&m.grants, &grant))
            assert_true(rxm_credit_granted(&m.sender, grant));
        while (!pause && rxm_credit_take(&m.sender, false))
            put(&m.packets, 0);
        if (pause && i % pause == pause - 1) {
            assert_true(rxm_credit_take(&m.sender, false)); /* after a pause there is always one */
            put(&m.packets, 0);
        }
        receive();
    }
}

static void receives_follow_the_traffic_and_never_run_out(void **state)
{
    static const unsigned mosts[] = {4, 8, 20, 128};

    for (size_t i = 0; i < sizeof(mosts) / sizeof(mosts[0]); i++) {
        unsigned most = mosts[i], least = most < LEAST ? most : LEAST, before;

        srand(1);
        begin(most);
        assert_int_equal(m.window.posted, least);
        run(0, STEPS / 100);
        assert_int_equal(m.window.posted, most);
        before = m.got;
        run(0, STEPS / 100);
        assert_true(m.got - before > STEPS / 100 * most / 200); /* it goes on */
        run(5000, 5000 * 8 * (int)most);
        assert_int_equal(m.window.posted, least);
        run(0, STEPS / 100);
        assert_int_equal(m.window.posted, most);
        assert_int_equal(m.largest, most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_grows_with_those_who_speak),
        cmocka_unit_test(so_it_does_for_a_peer_that_does_not_count),
        cmocka_unit_test(a_peer_that_nobody_holds_back_finds_all),
        cmocka_unit_test(receives_follow_the_traffic_and_never_run_out),
    };

    return cmocka_run_group_tests_name("receives", tests, NULL, NULL);
}
