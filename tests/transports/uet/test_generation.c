/* SPDX-License-Identifier: BSD-2-Clause */
/* Generations that change: new messages need the new one, old ones end as they began. */
#include "ses_world.h"

enum {
    KINDS = 7,
};

static const uint8_t opcodes[KINDS] = {
    SES_TAGGED_SEND, SES_WRITE,           SES_READ, SES_ATOMIC, SES_RENDEZVOUS_TSEND,
    SES_SEND,        SES_DEFERRABLE_TSEND};

/* An operation of each kind, of several packets where that can be. */
static struct post *start_one(unsigned kind, uint8_t generation)
{
    uint32_t length = opcodes[kind] == SES_ATOMIC ? 8 : 5000;
    struct post *post = new_post(0, 1, opcodes[kind], length);

    post->op.target.generation = generation;
    if (opcodes[kind] != SES_WRITE && opcodes[kind] != SES_READ && opcodes[kind] != SES_ATOMIC) {
        post->op.key = tag_of(0, kind, length);
        fill_bytes(post->bytes, post->op.key);
    }
    assert_true(ses_start_op(nodes[0].ses, &post->op));
    return post;
}

/* All kinds end so, and touch nothing unless it is RC_OK. */
static void all_end(uint8_t generation, enum ses_code code)
{
    static const uint8_t zero[MEMORY];
    unsigned before = nodes[1].received + nodes[1].accessed;

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct post *post = start_one(kind, generation);

        run(sw.now + 10 * SECOND);
        finish_post(post, code);
    }
    assert_int_equal(nodes[1].received + nodes[1].accessed - before, code == RC_OK ? KINDS : 0);
    assert_int_equal(nodes[1].wrong + nodes[1].failed, 0);
    assert_int_equal(begun(), 0);
    if (code != RC_OK)
        assert_memory_equal(nodes[1].memory, zero, MEMORY);
}

static void each_state_has_its_code(void **state)
{
    begin(false);
    ses_set_generation(nodes[1].ses, 0, true);
    all_end(0, RC_DISABLED);
    ses_set_generation(nodes[1].ses, 7, false);
    all_end(0, RC_BAD_GENERATION);
    ses_set_generation(nodes[1].ses, 7, true);
    all_end(7, RC_DISABLED_GEN);
    all_end(8, RC_DISABLED_GEN);
    ses_set_generation(nodes[1].ses, 8, false);
    all_end(7, RC_BAD_GENERATION);
    all_end(8, RC_OK);
    assert_true(ses_counters(nodes[1].ses)->refused[RC_DISABLED] >= KINDS);
    assert_true(ses_counters(nodes[1].ses)->refused[RC_DISABLED_GEN] >= 2 * KINDS);
    assert_true(ses_counters(nodes[1].ses)->refused[RC_BAD_GENERATION] >= 2 * KINDS);
    end();
}

static unsigned to_pass; /* packets of node 0 that arrive before the generation changes */

static bool change_between(struct sw *network, struct sw_packet *packet)
{
    if (packet->from == 0 && to_pass && !--to_pass)
        ses_set_generation(nodes[1].ses, 9, true);
    return true;
}

/* The generation changes behind each of the first packets of an operation. */
static void what_is_under_way_goes_on(void **state)
{
    for (int late = 0; late < 2; late++) { /* with receives, and without */
        for (unsigned kind = 0; kind < KINDS; kind++) {
            for (unsigned packets = 1; packets < 8; packets++) {
                struct post *post;

                begin(false);
                sw.filter = change_between;
                sw.jitter = 50000; /* in any order */
                nodes[1].match_late = late;
                to_pass = packets;
                ses_set_generation(nodes[1].ses, 5, false);
                post = start_one(kind, 5);
                for (int i = 0; i < 30; i++) {
                    run(sw.now + SECOND / 10);
                    start_kept(&nodes[1]);
                }
                assert_int_equal(post->ended, 1);
                /* Taken as a whole, or not at all: the first packet was before that, or behind. */
                assert_true(post->code == RC_OK || post->code == RC_DISABLED_GEN);
                assert_int_equal(nodes[1].received + nodes[1].accessed, post->code == RC_OK);
                assert_int_equal(nodes[1].wrong + nodes[1].failed, 0);
                assert_int_equal(begun(), 0);
                assert_int_equal(nodes[1].ses->saved, 0);
                free(post);
                end();
            }
        }
    }
}

/* The memory of a rendezvous, and the wish for a deferred message, are of the sender's. */
static void senders_change_their_generation_too(void **state)
{
    static const unsigned kinds[] = {4, 6};

    for (int i = 0; i < 2; i++) {
        struct post *post;

        begin(false);
        nodes[1].match_late = true;
        post = start_one(kinds[i], 0);
        post->op.eager = 0;
        run(sw.now + SECOND);
        assert_int_equal(post->ended, 0);
        ses_set_generation(nodes[0].ses, 3, i);
        start_kept(&nodes[1]);
        run(sw.now + SECOND);
        finish_post(post, RC_OK);
        assert_int_equal(nodes[1].received, 1);
        assert_int_equal(nodes[1].wrong, 0);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_state_has_its_code),
        cmocka_unit_test(what_is_under_way_goes_on),
        cmocka_unit_test(senders_change_their_generation_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
