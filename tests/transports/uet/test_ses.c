/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages, accesses and atomics in virtual time over paths that lose, repeat and reorder: every
 * operation ends once, every byte is where it belongs, and what a peer may not do touches nothing.
 * WEFT_SEED gives the seed, which a failure prints.
 */
#include "ses_world.h"

/* ---- Messages ---- */

static void exchange(bool bad, bool late, uint8_t flags, uint8_t mode)
{
    enum {
        COUNT = 400
    };
    static struct post *posts[COUNT];
    unsigned received = 0;

    begin(bad);
    nodes[0].match_late = nodes[1].match_late = nodes[2].match_late = late;
    for (unsigned i = 0; i < COUNT; i++)
        posts[i] = send_tagged(i % NODES, (i + 1 + i / NODES % 2) % NODES, i,
                               lengths[i % (sizeof(lengths) / sizeof(lengths[0]))], flags, mode);
    for (int i = 0; i < 400; i++) {
        run(sw.now + SECOND / 10);
        for (unsigned j = 0; j < NODES; j++)
            start_kept(&nodes[j]);
    }
    for (unsigned i = 0; i < COUNT; i++)
        finish_post(posts[i], RC_OK);
    for (unsigned i = 0; i < NODES; i++) {
        received += nodes[i].received;
        assert_int_equal(nodes[i].wrong, 0);
        assert_int_equal(nodes[i].failed, 0);
        assert_int_equal(nodes[i].with_data, flags & SES_HD ? nodes[i].received : 0);
        assert_int_equal(nodes[i].ses->saved, 0);
    }
    assert_int_equal(received, COUNT);
    end();
}

static void messages_come_whole(void **state)
{
    for (int i = 0; i < 16; i++)
        exchange(i & 1, i & 2, i & 4 ? SES_DC | SES_HD : 0, i & 8 ? PDS_MODE_ROD : PDS_MODE_RUD);
}

static void delivery_is_waited_for(void **state)
{
    struct post *post;

    begin(false);
    nodes[1].match_late = true;
    post = send_tagged(0, 1, 0, 5000, SES_DC, PDS_MODE_RUD);
    run(sw.now + 10 * SECOND);
    assert_int_equal(post->ended, 0);
    assert_int_equal(nodes[1].received, 0);
    start_kept(&nodes[1]);
    assert_int_equal(nodes[1].received, 1);
    run(sw.now + SECOND);
    finish_post(post, RC_OK);
    end();
}

static void a_message_without_room_waits_at_its_sender(void **state)
{
    struct post *post;

    begin(false);
    nodes[1].no_room = true;
    post = send_tagged(0, 1, 0, 5000, 0, PDS_MODE_ROD);
    run(sw.now + SECOND);
    assert_int_equal(post->ended, 0);
    nodes[1].no_room = false;
    run(sw.now + SECOND);
    finish_post(post, RC_OK);
    assert_int_equal(nodes[1].received, 1);
    end();
}

static void a_message_nobody_wants_is_gone(void **state)
{
    struct receive *receive;

    begin(false);
    nodes[1].match_late = true;
    struct post *post = send_tagged(0, 1, 0, 5000, SES_DC, PDS_MODE_RUD);

    run(sw.now + SECOND);
    receive = list_item(nodes[1].kept.next, struct receive, link);
    list_detach(&receive->link);
    ses_discard(nodes[1].ses, receive->inbound);
    free(receive);
    run(sw.now + SECOND);
    finish_post(post, RC_OK);
    assert_int_equal(nodes[1].received, 0);
    assert_int_equal(nodes[1].ses->saved, 0);
    end();
}

/* ---- Rendezvous ---- */

static struct post *send_rendezvous(unsigned from, unsigned number, uint32_t length, uint32_t eager)
{
    struct post *post = new_post(from, 1, SES_RENDEZVOUS_TSEND, length);

    post->op.key = tag_of(from, number, length);
    post->op.eager = eager < length ? eager : length;
    fill_bytes(post->bytes, post->op.key);
    assert_true(ses_start_op(nodes[from].ses, &post->op));
    return post;
}

static void receivers_read_what_a_rendezvous_leaves(void **state)
{
    static const uint32_t eagers[] = {0, 1, MTU, 3 * MTU, MAX};
    static struct post *posts[45];

    for (int bad = 0; bad < 2; bad++) {
        for (int late = 0; late < 2; late++) {
            begin(bad);
            nodes[1].match_late = late;
            for (unsigned i = 0; i < 45; i++)
                posts[i] = send_rendezvous(i % 2 ? 0 : 2, i, lengths[i % 9], eagers[i % 5]);
            run(sw.now + 20 * SECOND);
            for (unsigned i = 0; late && i < 45; i++)
                assert_true(posts[i]->ended == (posts[i]->op.eager == posts[i]->op.length));
            start_kept(&nodes[1]);
            run(sw.now + 60 * SECOND);
            for (unsigned i = 0; i < 45; i++)
                finish_post(posts[i], RC_OK);
            assert_int_equal(nodes[1].received, 45);
            assert_int_equal(nodes[1].wrong, 0);
            assert_int_equal(nodes[1].ses->saved, 0);
            end();
        }
    }
}

static void a_rendezvous_is_read_by_its_target_only(void **state)
{
    struct post *post, *thief;

    begin(false);
    nodes[1].match_late = true;
    post = send_rendezvous(0, 1, 5000, 0);
    run(sw.now + SECOND);
    thief = new_post(2, 0, SES_READ, 5000);
    thief->op.key = ses_pull_key(&post->op);
    assert_true(ses_start_op(nodes[2].ses, &thief->op));
    run(sw.now + SECOND);
    finish_post(thief, RC_BAD_MKEY);
    thief = new_post(1, 0, SES_READ, 2000);
    thief->op.key = ses_pull_key(&post->op);
    thief->op.offset = 4000;
    assert_true(ses_start_op(nodes[1].ses, &thief->op));
    run(sw.now + SECOND);
    finish_post(thief, RC_BAD_ADDR);
    start_kept(&nodes[1]);
    run(sw.now + SECOND);
    finish_post(post, RC_OK);
    end();
}

/* A node dies while the other waits for it: the post of node 0 ends once, and a receive of node 1
 * that had begun fails. */
static void one_dies(unsigned dead, struct post *post)
{
    nodes[dead].dead = true;
    start_kept(&nodes[1]);
    run(sw.now + 200 * SECOND);
    if (dead == 1)
        assert_int_equal(post->code, RC_UNDELIVERABLE);
    else
        assert_int_equal(nodes[1].failed, 1);
    ses_destroy(nodes[0].ses);
    nodes[0].ses = NULL;
    nodes[0].dead = true;
    assert_int_equal(post->ended, 1);
    free(post);
    end();
}

static void a_rendezvous_ends_with_either_end(void **state)
{
    struct post *post;

    for (unsigned dead = 0; dead < 2; dead++) {
        begin(false);
        nodes[1].match_late = true;
        post = send_rendezvous(0, 1, 5000, 10);
        run(sw.now + SECOND);
        one_dies(dead, post);
    }
}

/* ---- Deferrable sends ---- */

static struct post *send_deferrable(unsigned from, unsigned number, uint32_t length)
{
    struct post *post =
        new_post(from, 1, number & 1 ? SES_DEFERRABLE_SEND : SES_DEFERRABLE_TSEND, length);

    post->op.key = tag_of(from, number, length);
    post->op.data = ~post->op.key;
    post->op.flags = number & 2 ? SES_HD : 0;
    fill_bytes(post->bytes, post->op.key);
    assert_true(ses_start_op(nodes[from].ses, &post->op));
    return post;
}

static void deferred_messages_wait_at_their_senders(void **state)
{
    static struct post *posts[45];

    for (int bad = 0; bad < 2; bad++) {
        for (int late = 0; late < 2; late++) {
            begin(bad);
            nodes[1].match_late = late;
            for (unsigned i = 0; i < 45; i++)
                posts[i] = send_deferrable(i % 2 ? 0 : 2, i, lengths[i % 9]);
            run(sw.now + 20 * SECOND);
            for (unsigned i = 0; i < 45; i++) /* an empty one has nothing to wait with */
                assert_int_equal(posts[i]->ended, !late || !posts[i]->op.length);
            assert_int_equal(nodes[1].ses->saved, 0);
            start_kept(&nodes[1]);
            run(sw.now + 60 * SECOND);
            for (unsigned i = 0; i < 45; i++)
                finish_post(posts[i], RC_OK);
            assert_int_equal(nodes[1].received, 45);
            assert_int_equal(nodes[1].wrong, 0);
            for (unsigned i = 0; i < NODES; i++)
                assert_int_equal(ses_busy(nodes[i].ses), 0);
            end();
        }
    }
}

/* The receive is there while packets of the first attempt are still under way. */
static void a_receive_in_the_middle_of_a_deferred_message(void **state)
{
    for (uint64_t after = 0; after < 40000; after += 1000) {
        struct post *post;

        begin(false);
        sw.delay = 5000;
        nodes[1].match_late = true;
        nodes[0].ses->pds->settings.window = 2 * MTU;
        post = send_deferrable(0, 1, MAX);
        run(sw.now + after);
        start_kept(&nodes[1]);
        nodes[1].match_late = false;
        run(sw.now + 10 * SECOND);
        finish_post(post, RC_OK);
        assert_int_equal(nodes[1].received, 1);
        assert_int_equal(nodes[1].wrong, 0);
        end();
    }
}

static void a_deferred_message_nobody_wants_is_gone(void **state)
{
    struct receive *receive;
    struct post *post;

    begin(false);
    nodes[1].match_late = true;
    post = send_deferrable(0, 1, 5000);
    run(sw.now + SECOND);
    receive = list_item(nodes[1].kept.next, struct receive, link);
    list_detach(&receive->link);
    ses_discard(nodes[1].ses, receive->inbound);
    free(receive);
    run(sw.now + SECOND);
    finish_post(post, RC_OK);
    assert_int_equal(nodes[1].received, 0);
    end();
}

static void a_deferred_message_ends_with_either_end(void **state)
{
    for (unsigned dead = 0; dead < 2; dead++) {
        struct post *post;

        begin(false);
        nodes[1].match_late = true;
        post = send_deferrable(0, 1, 5000);
        run(sw.now + SECOND);
        assert_int_equal(post->ended, 0);
        one_dies(dead, post);
    }
}

/* ---- Accesses ---- */

static void accesses_move_every_byte(void **state)
{
    enum {
        COUNT = 60
    };
    static struct post *posts[COUNT];
    static uint8_t image[MEMORY];

    for (int bad = 0; bad < 2; bad++) {
        begin(bad);
        for (unsigned i = 0; i < COUNT; i++) {
            posts[i] = new_post(0, 1, SES_WRITE, lengths[i % 9]);
            posts[i]->op.offset = i * 1000;
            fill_bytes(posts[i]->bytes, tag_of(1, i, posts[i]->op.length));
            if (posts[i]->op.offset + posts[i]->op.length > MEMORY)
                posts[i]->op.length = 0;
            assert_true(ses_start_op(nodes[0].ses, &posts[i]->op));
            run(sw.now + 20 * SECOND); /* they overlap */
            memcpy(image + i * 1000, posts[i]->bytes, posts[i]->op.length);
        }
        for (unsigned i = 0; i < COUNT; i++)
            finish_post(posts[i], RC_OK);
        assert_memory_equal(nodes[1].memory, image, COUNT * 1000);
        for (unsigned i = 0; i < COUNT; i++) {
            posts[i] = new_post(2, 1, SES_READ, lengths[i % 9]);
            posts[i]->op.offset = i * 900;
            assert_true(ses_start_op(nodes[2].ses, &posts[i]->op));
        }
        run(sw.now + 60 * SECOND);
        for (unsigned i = 0; i < COUNT; i++) {
            assert_memory_equal(posts[i]->bytes, image + i * 900, posts[i]->op.length);
            finish_post(posts[i], RC_OK);
        }
        assert_int_equal(nodes[1].accessed, 2 * COUNT);
        end();
        memset(image, 0, sizeof(image));
    }
}

static void atomics_are_done_once(void **state)
{
    enum {
        COUNT = 500
    };
    static struct post *posts[COUNT];
    uint64_t one = 1, sum;
    static bool seen[COUNT];

    memset(seen, 0, sizeof(seen));
    begin(true);
    for (unsigned i = 0; i < COUNT; i++) {
        posts[i] = new_post(i % 2 ? 0 : 2, 1, SES_FETCHING_ATOMIC, 8);
        posts[i]->op.atomic.opcode = AMO_SUM;
        posts[i]->op.atomic.datatype = AMO_UINT64;
        memcpy(posts[i]->bytes, &one, 8);
        posts[i]->op.result[0] = (struct iovec){posts[i]->result, 8};
        posts[i]->op.result_count = 1;
        assert_true(ses_start_op(nodes[posts[i]->from].ses, &posts[i]->op));
    }
    run(sw.now + 100 * SECOND);
    memcpy(&sum, nodes[1].memory, 8);
    assert_int_equal(sum, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        memcpy(&sum, posts[i]->result, 8);
        assert_true(sum < COUNT && !seen[sum]);
        seen[sum] = true;
        finish_post(posts[i], RC_OK);
    }
    end();
}

/* ---- Atomics in receives ---- */

/* 64-bit sums, of which each receive takes one: they are added up in the node's memory. */
static enum ses_code up_tagged_atomic(void *arg, const struct ses_request *request,
                                      const uint8_t *operands, size_t len, const struct iovec *iov,
                                      size_t count, uint8_t *result, size_t *result_len)
{
    struct ses_request sum = *request;

    *result_len = 8;
    if (request->atomic.datatype != AMO_UINT64)
        return RC_AMO_UNSUPPORTED_DT;
    if (len != 8)
        return RC_AMO_UNSUPPORTED_SIZE;
    if (!iov)
        return RC_OK;
    if (request->offset > 100)
        return RC_TOO_LONG;
    sum.key = KEY;
    return up_atomic(arg, NULL, &sum, operands, len, result, result_len);
}

static void count_received(void *arg, struct ses_inbound *inbound, enum ses_code code)
{
    struct node *node = arg;

    if (code == RC_OK)
        node->received++;
    else
        node->failed++;
    free(inbound->entry);
}

static struct post *sum_in_receive(unsigned from, uint8_t type, uint64_t offset, uint32_t length)
{
    static const uint64_t one = 1;
    struct post *post = new_post(from, 1, SES_TSEND_FETCH_ATOMIC, length);

    post->op.atomic.opcode = AMO_SUM;
    post->op.atomic.datatype = type;
    post->op.key = 5;
    post->op.offset = offset;
    memcpy(post->bytes, &one, sizeof(one));
    post->op.result[0] = (struct iovec){post->result, 8};
    post->op.result_count = 1;
    assert_true(ses_start_op(nodes[from].ses, &post->op));
    return post;
}

static void atomics_in_receives_are_done_once(void **state)
{
    enum {
        COUNT = 60
    };
    static struct post *posts[COUNT];
    struct ses_ops with = ops;
    uint64_t sum;

    with.tagged_atomic = up_tagged_atomic;
    with.received = count_received;
    for (int i = 0; i < 4; i++) {
        bool late = i & 2;
        bool seen[COUNT] = {false};

        begin(i & 1);
        nodes[1].ses->ops = &with;
        nodes[1].match_late = late;
        for (unsigned j = 0; j < COUNT; j++)
            posts[j] = sum_in_receive(j % 2 ? 0 : 2, AMO_UINT64, 0, 8);
        run(sw.now + 30 * SECOND);
        for (unsigned j = 0; late && j < COUNT; j++)
            assert_int_equal(posts[j]->ended, 0);
        start_kept(&nodes[1]);
        run(sw.now + 30 * SECOND);
        for (unsigned j = 0; j < COUNT; j++) {
            memcpy(&sum, posts[j]->result, 8);
            assert_true(sum < COUNT && !seen[sum]);
            seen[sum] = true;
            finish_post(posts[j], RC_OK);
        }
        assert_int_equal(nodes[1].received, COUNT);
        assert_int_equal(nodes[1].ses->saved, 0);
        /* One that there is not takes no receive; one that does not fit takes it, and fails. */
        posts[0] = sum_in_receive(0, AMO_UINT8, 0, 8);
        posts[1] = sum_in_receive(0, AMO_FP16 + 1, 0, 8);
        posts[2] = sum_in_receive(0, AMO_UINT64, 0, 7);
        posts[3] = sum_in_receive(0, AMO_UINT64, 101, 8);
        run(sw.now + 10 * SECOND);
        start_kept(&nodes[1]);
        run(sw.now + 10 * SECOND);
        finish_post(posts[0], RC_AMO_UNSUPPORTED_DT);
        finish_post(posts[1], RC_AMO_UNSUPPORTED_DT);
        finish_post(posts[2], RC_AMO_UNSUPPORTED_SIZE);
        finish_post(posts[3], RC_TOO_LONG);
        assert_int_equal(nodes[1].received, COUNT);
        assert_int_equal(nodes[1].failed, 1);
        memcpy(&sum, nodes[1].memory, 8);
        assert_int_equal(sum, COUNT);
        end();
    }
}

static enum ses_code outcome(uint8_t opcode, uint64_t key, uint64_t offset, uint32_t length)
{
    struct post *post = new_post(0, 1, opcode, length);
    enum ses_code code;

    post->op.key = key;
    post->op.offset = offset;
    assert_true(ses_start_op(nodes[0].ses, &post->op));
    run(sw.now + 10 * SECOND);
    assert_int_equal(post->ended, 1);
    code = post->code;
    free(post);
    return code;
}

static void what_is_not_allowed_is_refused(void **state)
{
    static const uint8_t zero[MEMORY];
    static const uint8_t unsupported[] = {SES_TSEND_ATOMIC, SES_TSEND_FETCH_ATOMIC, 0x10, 0x3f};

    begin(false);
    for (int i = 0; i < 2; i++) {
        uint8_t opcode = i ? SES_READ : SES_WRITE;

        assert_int_equal(outcome(opcode, KEY + 1, 0, 5000), RC_BAD_MKEY);
        assert_int_equal(outcome(opcode, KEY, MEMORY - 10, 11), RC_BAD_ADDR);
        assert_int_equal(outcome(opcode, KEY, UINT64_MAX - 10, 5000), RC_BAD_ADDR);
    }
    assert_int_equal(outcome(SES_ATOMIC, KEY + 1, 0, 8), RC_BAD_MKEY);
    assert_int_equal(outcome(SES_ATOMIC, KEY, 0, 7), RC_AMO_UNSUPPORTED_SIZE);
    for (size_t i = 0; i < sizeof(unsupported); i++)
        assert_int_equal(outcome(unsupported[i], KEY, 0, 8), RC_UNSUPPORTED_OP);
    assert_int_equal(outcome(SES_NO_OP, 0, 0, 0), RC_OK);
    nodes[1].ses->settings.self.job = JOB + 1;
    assert_int_equal(outcome(SES_WRITE, KEY, 0, 5000), RC_BAD_JOB_ID);
    nodes[1].ses->settings.self.job = JOB;
    nodes[1].ses->settings.self.pid = 7;
    assert_int_equal(outcome(SES_SEND, 0, 0, 8), RC_BAD_PID);
    assert_memory_equal(nodes[1].memory, zero, MEMORY);
    assert_int_equal(nodes[1].accessed, 0);
    end();
}

static void a_message_that_its_sender_gives_up_ends(void **state)
{
    struct ses_request first = {
        .next = NEXT_STANDARD,
        .opcode = SES_TAGGED_SEND,
        .flags = SES_SOM | SES_REL,
        .message_id = 9,
        .job = JOB,
        .initiator = 100,
        .length = 5000,
    };
    struct ses_request error = first;

    error.opcode = SES_MSG_ERROR;
    error.flags = SES_SOM | SES_EOM | SES_REL;
    error.length = 0;
    for (int late = 0; late < 2; late++) {
        begin(false);
        nodes[1].match_late = late;
        assert_int_equal(ask(&first, MTU), RC_OK);
        error.initiator = 101; /* another initiator's */
        assert_int_equal(ask(&error, 0), RC_OK);
        assert_int_equal(nodes[1].failed, 0);
        error.initiator = 100;
        assert_int_equal(ask(&error, 0), RC_OK);
        assert_int_equal(nodes[1].failed, !late);
        start_kept(&nodes[1]);
        assert_int_equal(nodes[1].failed, 1);
        assert_int_equal(ask(&error, 0), RC_OK); /* and once only */
        assert_int_equal(nodes[1].failed, 1);
        assert_int_equal(nodes[1].ses->saved, 0);
        end();
    }
}

static void generations_other_than_0_are_named(void **state)
{
    struct post *posts[3];

    begin(false);
    nodes[1].ses->settings.self.generation = 200;
    nodes[0].ses->settings.self.generation = 7;
    posts[0] = new_post(0, 1, SES_WRITE, 100);
    posts[1] = new_post(0, 1, SES_WRITE, 100);
    posts[1]->op.target.generation = 200;
    posts[2] = new_post(0, 1, SES_RENDEZVOUS_TSEND, 5000);
    posts[2]->op.target.generation = 200;
    posts[2]->op.key = tag_of(0, 2, 5000);
    fill_bytes(posts[2]->bytes, posts[2]->op.key);
    for (int i = 0; i < 3; i++)
        assert_true(ses_start_op(nodes[0].ses, &posts[i]->op));
    run(sw.now + SECOND);
    finish_post(posts[0], RC_BAD_GENERATION);
    finish_post(posts[1], RC_OK);
    finish_post(posts[2], RC_OK);
    assert_int_equal(nodes[1].wrong, 0);
    end();
}

static void a_peer_that_is_gone_ends_all(void **state)
{
    struct post *posts[3];

    begin(false);
    posts[0] = send_tagged(0, 1, 0, MAX, 0, PDS_MODE_RUD);
    posts[1] = new_post(0, 1, SES_READ, MAX);
    posts[2] = new_post(0, 1, SES_READ, MAX);
    assert_true(ses_start_op(nodes[0].ses, &posts[1]->op));
    run(sw.now + SECOND);
    finish_post(posts[0], RC_OK);
    finish_post(posts[1], RC_OK);
    assert_true(ses_start_op(nodes[0].ses, &posts[2]->op));
    nodes[1].dead = true;
    run(sw.now + 200 * SECOND);
    finish_post(posts[2], RC_UNDELIVERABLE);
    assert_int_equal(ses_busy(nodes[0].ses), 0);
    end();
}

/* ---- Bad input ---- */

static bool mutate(struct sw *network, struct sw_packet *packet)
{
    if (packet->from == 2 && packet->len > 12) {
        size_t at = 12 + switch_random(network) % (packet->len - 12 < 80 ? packet->len - 12 : 80);

        packet->bytes[at] ^= (uint8_t)(1u << switch_random(network) % 8);
        if (switch_random(network) % 8 == 0)
            packet->len = 12 + switch_random(network) % (packet->len - 12);
    }
    return true;
}

static void changed_requests_hurt_nobody_else(void **state)
{
    enum {
        COUNT = 200
    };
    static struct post *bad[3 * COUNT], *good[COUNT];

    begin(false);
    sw.filter = mutate;
    nodes[1].forbids = true;
    for (unsigned i = 0; i < COUNT; i++) {
        uint32_t length = lengths[i % 9];

        bad[3 * i] = send_tagged(2, 1, i, length, 0, PDS_MODE_RUD);
        bad[3 * i + 1] = new_post(2, 1, SES_WRITE, length);
        bad[3 * i + 2] = new_post(2, 1, SES_READ, length);
        assert_true(ses_start_op(nodes[2].ses, &bad[3 * i + 1]->op));
        assert_true(ses_start_op(nodes[2].ses, &bad[3 * i + 2]->op));
        good[i] = send_tagged(0, 1, i, length, 0, PDS_MODE_RUD);
    }
    run(sw.now + 200 * SECOND);
    for (unsigned i = 0; i < COUNT; i++)
        finish_post(good[i], RC_OK);
    sw.filter = NULL;
    ses_destroy(nodes[2].ses);
    nodes[2].ses = NULL;
    nodes[2].dead = true;
    for (unsigned i = 0; i < 3 * COUNT; i++) {
        assert_int_equal(bad[i]->ended, 1);
        free(bad[i]);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_whole),
        cmocka_unit_test(delivery_is_waited_for),
        cmocka_unit_test(a_message_without_room_waits_at_its_sender),
        cmocka_unit_test(a_message_nobody_wants_is_gone),
        cmocka_unit_test(receivers_read_what_a_rendezvous_leaves),
        cmocka_unit_test(a_rendezvous_is_read_by_its_target_only),
        cmocka_unit_test(a_rendezvous_ends_with_either_end),
        cmocka_unit_test(deferred_messages_wait_at_their_senders),
        cmocka_unit_test(a_receive_in_the_middle_of_a_deferred_message),
        cmocka_unit_test(a_deferred_message_nobody_wants_is_gone),
        cmocka_unit_test(a_deferred_message_ends_with_either_end),
        cmocka_unit_test(accesses_move_every_byte),
        cmocka_unit_test(atomics_are_done_once),
        cmocka_unit_test(atomics_in_receives_are_done_once),
        cmocka_unit_test(what_is_not_allowed_is_refused),
        cmocka_unit_test(a_message_that_its_sender_gives_up_ends),
        cmocka_unit_test(generations_other_than_0_are_named),
        cmocka_unit_test(a_peer_that_is_gone_ends_all),
        cmocka_unit_test(changed_requests_hurt_nobody_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
