/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes and reads by RUDI in virtual time: at least once, of regions whose keys say that they are
 * idempotent, and of nothing else. */
#include "ses_world.h"

#define SAFE (SES_KEY_IDEMPOTENT | KEY)

static unsigned requests[2]; /* packets of node 0: RUDI, all others */

static bool count_modes(struct sw *network, struct sw_packet *packet)
{
    if (packet->from == 0)
        requests[packet->bytes[0] >> 3 != PDS_RUDI]++;
    return true;
}

static struct post *access_safely(uint8_t opcode, uint32_t length, uint64_t offset, bool brief)
{
    struct post *post = new_post(0, 1, opcode, length);

    post->op.key = SAFE;
    post->op.offset = offset;
    post->op.target.mode = PDS_MODE_RUDI;
    post->op.target.brief = brief;
    if (opcode == SES_WRITE)
        fill_bytes(post->bytes, length);
    assert_true(ses_start_op(nodes[0].ses, &post->op));
    return post;
}

static void each_byte_moves(bool bad, bool brief)
{
    static struct post *posts[2 * 9];
    static uint8_t zero[MAX];
    uint64_t offset = 77;

    begin(bad);
    sw.filter = count_modes;
    memset(requests, 0, sizeof(requests));
    nodes[1].optimized = SAFE;
    for (unsigned i = 0; i < 9; offset += lengths[i++])
        posts[i] = access_safely(SES_WRITE, lengths[i], offset, brief);
    run(sw.now + 30 * SECOND);
    for (unsigned i = 0; i < 9; i++) {
        assert_memory_equal(nodes[1].memory + posts[i]->op.offset, posts[i]->bytes, lengths[i]);
        finish_post(posts[i], RC_OK);
    }
    for (unsigned i = 0; i < 9; i++)
        posts[i] = access_safely(SES_READ, lengths[i], 6789, brief);
    run(sw.now + 30 * SECOND);
    for (unsigned i = 0; i < 9; i++) {
        assert_memory_equal(posts[i]->bytes, nodes[1].memory + 6789, lengths[i]);
        assert_memory_equal(posts[i]->bytes + lengths[i], zero, MAX - lengths[i]);
        finish_post(posts[i], RC_OK);
    }
    assert_true(requests[0] > 0);
    assert_int_equal(requests[1], 0);
    assert_int_equal(pds_count(ses_pds(nodes[1].ses)), 0);
    assert_int_equal(begun(), 0);
    assert_int_equal(nodes[1].accessed, 0);
    end();
}

static void idempotent_accesses_need_no_context(void **state)
{
    for (int i = 0; i < 4; i++)
        each_byte_moves(i & 1, i & 2);
}

static struct post *ended(struct post *post)
{
    run(sw.now + 60 * SECOND);
    return post;
}

static void accesses_that_are_not_idempotent_are_refused(void **state)
{
    static const uint8_t zero[MEMORY];
    static const uint8_t opcodes[] = {
        SES_SEND,     SES_TAGGED_SEND, SES_ATOMIC, SES_FETCHING_ATOMIC, SES_DEFERRABLE_SEND,
        SES_MSG_ERROR};
    struct post *post;

    begin(false);
    for (int read = 0; read < 2; read++) {
        post = new_post(0, 1, read ? SES_READ : SES_WRITE, 5000); /* the key does not say so */
        post->op.target.mode = PDS_MODE_RUDI;
        post->bytes[0] = 1;
        assert_true(ses_start_op(nodes[0].ses, &post->op));
        finish_post(ended(post), RC_OP_VIOLATION);
        /* It does, but there is no such region. */
        finish_post(ended(access_safely(read ? SES_READ : SES_WRITE, 5000, 0, false)), RC_BAD_MKEY);
    }
    nodes[1].optimized = SAFE;
    finish_post(ended(access_safely(SES_WRITE, MAX, MEMORY - 1, false)), RC_BAD_ADDR);
    finish_post(ended(access_safely(SES_READ, MAX, UINT64_MAX - 2000, false)), RC_BAD_ADDR);
    post = new_post(0, 1, SES_WRITE, 8); /* its data would be reported again */
    post->op.key = SAFE;
    post->op.target.mode = PDS_MODE_RUDI;
    post->op.flags = SES_HD;
    assert_true(ses_start_op(nodes[0].ses, &post->op));
    finish_post(ended(post), RC_OP_VIOLATION);
    for (size_t i = 0; i < sizeof(opcodes); i++)
        finish_post(ended(access_safely(opcodes[i], 8, 0, false)), RC_UNSUPPORTED_OP);
    finish_post(ended(access_safely(SES_NO_OP, 0, 0, false)), RC_OK);
    assert_memory_equal(nodes[1].memory, zero, MEMORY);
    assert_int_equal(nodes[1].received + nodes[1].accessed, 0);
    assert_int_equal(ses_counters(nodes[0].ses)->given_up, 0);
    end();
}

/* One that was refused, or has no peer, stops there. */
static void the_rest_of_a_failed_access_is_not_sent(void **state)
{
    struct post *post;

    begin(false);
    sw.filter = count_modes;
    memset(requests, 0, sizeof(requests));
    post = access_safely(SES_WRITE, MAX, 0, false);
    nodes[0].ses->pds->settings.rto_count = 2;
    nodes[1].dead = true;
    for (int i = 0; i < 2; i++) {
        run(sw.now + 60 * SECOND);
        finish_post(post, RC_UNDELIVERABLE);
        assert_int_equal(requests[0], (unsigned)(i + 1) * 9 * 3);
        post = access_safely(SES_WRITE, MAX, 0, false);
    }
    ses_destroy(nodes[0].ses); /* under way */
    nodes[0].ses = NULL;
    nodes[0].dead = true;
    finish_post(post, RC_UNDELIVERABLE);
    end();
}

static bool without_data(struct sw *network, struct sw_packet *packet)
{
    if (packet->from == 1)
        packet->len = 8 + SES_RESPONSE_MAX;
    return true;
}

/* An answer says OK, and brings nothing. */
static void a_read_without_its_data_fails(void **state)
{
    begin(false);
    nodes[1].optimized = SAFE;
    sw.filter = without_data;
    finish_post(ended(access_safely(SES_READ, 3000, 0, false)), RC_NULL);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idempotent_accesses_need_no_context),
        cmocka_unit_test(accesses_that_are_not_idempotent_are_refused),
        cmocka_unit_test(the_rest_of_a_failed_access_is_not_sent),
        cmocka_unit_test(a_read_without_its_data_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
