/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that are refused, each with its code, a count and no access to memory; headers of all
 * three sizes; messages that are not sent to their end. */
#include "ses_world.h"

/* The answer of a request that is changed so, and that it is counted, and touches nothing. */
static void refuses(const struct ses_request *request, size_t len, enum ses_code code)
{
    static const uint8_t zero[MEMORY];
    const struct ses_counters *counters = ses_counters(nodes[1].ses);
    uint64_t before = counters->refused[code];

    assert_int_equal(ask(request, len), code);
    assert_int_equal(counters->refused[code], before + 1);
    assert_memory_equal(nodes[1].memory, zero, MEMORY);
    assert_int_equal(nodes[1].accessed + nodes[1].received, 0);
}

static void each_wrong_field_has_its_code_and_its_count(void **state)
{
    const uint8_t whole = SES_SOM | SES_EOM | SES_REL;
    const uint8_t opcodes[] = {SES_WRITE, SES_READ, SES_SEND, SES_TAGGED_SEND, SES_ATOMIC};
    struct ses_request request;

    begin(false);
    for (size_t i = 0; i < sizeof(opcodes); i++) {
        size_t len = opcodes[i] == SES_READ ? 0 : 8;

        request = plain(opcodes[i], whole, 8);
        request.job = JOB + 1;
        refuses(&request, len, RC_BAD_JOB_ID);
        request = plain(opcodes[i], whole, 8);
        request.generation = 1;
        refuses(&request, len, RC_BAD_GENERATION);
        request = plain(opcodes[i], whole, 8);
        request.pid = 1;
        refuses(&request, len, RC_BAD_PID);
        request = plain(opcodes[i], whole, 8);
        request.index = 1;
        refuses(&request, len, RC_BAD_INDEX);
        request = plain(opcodes[i], whole | SES_IE, 8);
        refuses(&request, len, RC_INITIATOR_ERR);
        request = plain(opcodes[i], whole, 8);
        request.message_id = 0;
        refuses(&request, len, RC_DROPPED);
    }
    for (int i = 0; i < 2; i++) { /* accesses: key, range, offsets that overflow */
        size_t len = i ? 0 : 8;

        request = plain(opcodes[i], whole, 8);
        request.key = KEY + 1;
        refuses(&request, len, RC_BAD_MKEY);
        request = plain(opcodes[i], whole, 8);
        request.offset = MEMORY - 7;
        refuses(&request, len, RC_BAD_ADDR);
        request.offset = UINT64_MAX - 3;
        refuses(&request, len, RC_BAD_ADDR);
        request = plain(opcodes[i], SES_EOM | SES_REL, 5000);
        request.offset = UINT64_MAX - 3;
        request.payload_length = 8;
        request.message_offset = 8;
        refuses(&request, len, RC_BAD_ADDR);
        assert_int_equal(begun(), 1); /* the rest of it fails as well */
        end();
        begin(false);
        nodes[1].forbids = true;
        request = plain(opcodes[i], whole, 8);
        refuses(&request, len, RC_BAD_MKEY);
        nodes[1].forbids = false;
    }
    end();
}

static void lengths_that_disagree_are_refused(void **state)
{
    static const uint8_t opcodes[] = {SES_SEND, SES_WRITE};
    struct ses_request request;

    for (size_t i = 0; i < sizeof(opcodes); i++) {
        begin(false);
        nodes[1].match_late = true;
        /* Of one packet. */
        request = plain(opcodes[i], SES_SOM | SES_EOM | SES_REL, 8);
        refuses(&request, 7, RC_UNSUPPORTED_SIZE);
        refuses(&request, 9, RC_UNSUPPORTED_SIZE);
        /* Beyond the message, or nothing. */
        request = plain(opcodes[i], SES_REL, 5000);
        request.message_offset = 4990;
        refuses(&request, 11, RC_UNSUPPORTED_SIZE);
        request.message_offset = UINT32_MAX - 4;
        refuses(&request, 11, RC_UNSUPPORTED_SIZE);
        request.message_offset = 10;
        refuses(&request, 0, RC_UNSUPPORTED_SIZE);
        assert_int_equal(begun(), 0);
        /* Of two packets. */
        request = plain(opcodes[i], SES_SOM | SES_REL, 5000);
        request.offset = opcodes[i] == SES_WRITE ? 100 : 0;
        assert_int_equal(ask(&request, 8), RC_OK);
        request.flags = SES_REL;
        request.message_offset = 8;
        request.length = 4000;
        assert_int_equal(ask(&request, 8), RC_DROPPED);
        request.length = 5000;
        request.opcode = opcodes[1 - i];
        request.key = KEY;
        assert_int_equal(ask(&request, 8), RC_DROPPED);
        assert_int_equal(ses_counters(nodes[1].ses)->refused[RC_DROPPED], 2);
        assert_int_equal(begun(), 1);
        end();
    }
}

static void atomics_that_there_are_not_are_refused(void **state)
{
    const uint8_t whole = SES_SOM | SES_EOM | SES_REL;
    static const uint8_t opcodes[] = {AMO_INVAL + 1, 0x80, 0xe0, 0xff};
    static const uint8_t types[] = {AMO_FP16 + 1, 0x80, 0xe0, 0xff};

    begin(false);
    for (int fetching = 0; fetching < 2; fetching++) {
        struct ses_request request = plain(fetching ? SES_FETCHING_ATOMIC : SES_ATOMIC, whole, 8);

        for (size_t i = 0; i < sizeof(opcodes); i++) {
            request.atomic.opcode = opcodes[i];
            refuses(&request, 8, RC_AMO_UNSUPPORTED_OP);
        }
        request.atomic.opcode = AMO_SUM;
        for (size_t i = 0; i < sizeof(types); i++) {
            request.atomic.datatype = types[i];
            refuses(&request, 8, RC_AMO_UNSUPPORTED_DT);
        }
        request.atomic.datatype = AMO_UINT64;
        refuses(&request, 7, RC_AMO_UNSUPPORTED_SIZE);
        request.flags = SES_SOM | SES_REL;
        refuses(&request, 8, RC_UNSUPPORTED_SIZE);
    }
    end();
}

/* Tokens of no operation, and of one of another peer. */
static void tokens_of_no_operation_are_refused(void **state)
{
    const uint8_t whole = SES_SOM | SES_EOM | SES_REL;
    struct ses_request request;
    struct post *post;

    begin(false);
    nodes[2].match_late = true;
    post = new_post(1, 2, SES_DEFERRABLE_TSEND, 5000); /* node 1 is to be asked by node 2 */
    assert_true(ses_start_op(nodes[1].ses, &post->op));
    run(sw.now + SECOND);
    assert_int_equal(post->ended, 0);
    request = plain(SES_DEFERRABLE_RTR, whole, 0);
    for (uint64_t token = 0; token < 70000; token++) {
        request.key = token << 32 | 5;
        assert_int_equal(ask(&request, 0), RC_NO_MATCH);
    }
    assert_int_equal(ses_counters(nodes[1].ses)->refused[RC_NO_MATCH], 70000);
    assert_int_equal(post->ended, 0);
    for (uint64_t token = 1; token < 70000; token++) {
        request = plain(token & 1 ? SES_DEFERRABLE_SEND : SES_DEFERRABLE_TSEND, whole, 8);
        request.offset = UINT64_C(77) << 32 | token;
        refuses(&request, 8, RC_NO_MATCH);
    }
    assert_int_equal(begun(), 0);
    start_kept(&nodes[2]);
    run(sw.now + SECOND);
    finish_post(post, RC_OK);
    end();
}

static void headers_that_are_none_are_counted(void **state)
{
    struct pds_arrival arrival = {.now = sw.now, .next = NEXT_STANDARD};
    struct pds_answer answer = {.kind = ANSWER_NOW};
    uint8_t bytes[SES_HEADER_MAX] = {SES_SEND, SES_SOM | SES_EOM};

    begin(false);
    arrival.bytes = bytes;
    arrival.from = switch_addr(0);
    for (arrival.len = 0; arrival.len < 44; arrival.len++)
        ses_request(nodes[1].ses, &arrival, &answer);
    assert_int_equal(ses_counters(nodes[1].ses)->refused[RC_UNSUPPORTED_OP], 44);
    /* Data of no read, and datagrams that are none, have no answer. */
    arrival.next = NEXT_RESPONSE_DATA;
    ses_request(nodes[1].ses, &arrival, &answer);
    arrival.returned = true;
    ses_request(nodes[1].ses, &arrival, &answer);
    arrival.returned = false;
    arrival.next = NEXT_STANDARD;
    arrival.datagram = true;
    ses_request(nodes[1].ses, &arrival, &answer);
    assert_int_equal(ses_counters(nodes[1].ses)->ignored, 3);
    end();
}

/* ---- Short headers ---- */

static unsigned headers[16]; /* packets of node 0, by their SES header */

static bool count_headers(struct sw *network, struct sw_packet *packet)
{
    unsigned type = packet->bytes[0] >> 3,
             next = (packet->bytes[0] << 1 & 0xe) | packet->bytes[1] >> 7;

    if (packet->from == 0 && (type == PDS_RUD || type == PDS_ROD))
        headers[next]++;
    return true;
}

static void short_requests_have_short_headers(void **state)
{
    static struct post *posts[40];
    uint64_t one = 1, sum;

    memset(headers, 0, sizeof(headers));
    begin(false);
    sw.filter = count_headers;
    for (unsigned i = 0; i < 40; i++) {
        uint8_t opcode = i < 20 ? SES_TAGGED_SEND : i < 30 ? SES_WRITE : SES_ATOMIC;
        uint32_t length = i < 30 ? lengths[i % 9] : 8;

        posts[i] = new_post(0, 1, opcode, length);
        posts[i]->op.target.brief = true;
        if (i < 20) {
            posts[i]->op.key = tag_of(0, i, length);
            posts[i]->op.data = ~posts[i]->op.key;
            posts[i]->op.flags = i & 1 ? SES_HD : 0;
            fill_bytes(posts[i]->bytes, posts[i]->op.key);
        } else if (i < 30) {
            posts[i]->op.offset = 1000;
        } else {
            posts[i]->op.atomic.opcode = AMO_SUM;
            posts[i]->op.atomic.datatype = AMO_UINT64;
            memcpy(posts[i]->bytes, &one, 8);
        }
        assert_true(ses_start_op(nodes[0].ses, &posts[i]->op));
    }
    run(sw.now + 10 * SECOND);
    for (unsigned i = 0; i < 40; i++)
        finish_post(posts[i], RC_OK);
    memcpy(&sum, nodes[1].memory, 8);
    assert_int_equal(sum, 10);
    assert_int_equal(nodes[1].received, 20);
    assert_int_equal(nodes[1].wrong, 0);
    assert_int_equal(nodes[1].with_data, 10);
    assert_true(headers[NEXT_MEDIUM] >= 20 && headers[NEXT_STANDARD]);
    assert_int_equal(headers[NEXT_SMALL], 0);
    end();
}

static void fetched_data_has_a_short_header(void **state)
{
    struct ses_request request = plain(SES_READ, SES_SOM | SES_EOM | SES_REL, 16);
    uint64_t one = 1, old;
    struct post *post;

    memset(headers, 0, sizeof(headers));
    begin(false);
    sw.filter = count_headers;
    nodes[1].memory[0] = 41;
    post = new_post(0, 1, SES_FETCHING_ATOMIC, 8);
    post->op.target.brief = true;
    post->op.atomic.opcode = AMO_SUM;
    post->op.atomic.datatype = AMO_UINT64;
    memcpy(post->bytes, &one, 8);
    post->op.result[0] = (struct iovec){post->result, 8};
    post->op.result_count = 1;
    assert_true(ses_start_op(nodes[0].ses, &post->op));
    run(sw.now + SECOND);
    memcpy(&old, post->result, 8);
    assert_int_equal(old, 41);
    assert_int_equal(nodes[1].memory[0], 42);
    finish_post(post, RC_OK);
    assert_int_equal(headers[NEXT_MEDIUM], 1);
    request.next = NEXT_MEDIUM;
    assert_int_equal(ask(&request, 0), RC_OK);
    request.length = MTU + 1; /* more than a packet has room for */
    assert_int_equal(ask(&request, 0), RC_UNSUPPORTED_SIZE);
    end();
}

static unsigned returned[16]; /* packets of node 1 that bring data, by their SES header */

static bool count_returned(struct sw *network, struct sw_packet *packet)
{
    unsigned type = packet->bytes[0] >> 3,
             next = (packet->bytes[0] << 1 & 0xe) | packet->bytes[1] >> 7;

    if (packet->from == 1 && (type == PDS_RUD || type == PDS_ROD))
        returned[next]++;
    return count_headers(network, packet);
}

/* Reads of one packet: their data names the packet that asked for it. */
static void short_reads_have_short_headers(void **state)
{
    static struct post *posts[200];

    for (int i = 0; i < 4; i++) {
        begin(i & 1);
        memset(headers, 0, sizeof(headers));
        memset(returned, 0, sizeof(returned));
        sw.filter = count_returned;
        for (unsigned j = 0; j < MEMORY; j++)
            nodes[1].memory[j] = (uint8_t)(j * 7 + (j >> 8));
        nodes[1].optimized = SES_KEY_OPTIMIZED | 9;
        for (unsigned j = 0; j < 200; j++) {
            posts[j] = new_post(0, 1, SES_READ, lengths[j % 9]);
            posts[j]->op.target.brief = true;
            posts[j]->op.target.mode = i & 2 ? PDS_MODE_ROD : PDS_MODE_RUD;
            posts[j]->op.key = j % 2 ? KEY : nodes[1].optimized;
            posts[j]->op.offset = j * 97;
            assert_true(ses_start_op(nodes[0].ses, &posts[j]->op));
        }
        run(sw.now + 60 * SECOND);
        for (unsigned j = 0; j < 200; j++) {
            assert_memory_equal(posts[j]->bytes, nodes[1].memory + j * 97, lengths[j % 9]);
            finish_post(posts[j], RC_OK);
        }
        assert_true(headers[NEXT_SMALL] && headers[NEXT_MEDIUM] && headers[NEXT_STANDARD]);
        assert_true(returned[NEXT_RESPONSE_DATA_SMALL] && returned[NEXT_RESPONSE_DATA]);
        assert_int_equal(nodes[1].accessed, 200);
        for (unsigned j = 0; j < SES_READ_BUCKETS; j++)
            assert_true(list_empty(&nodes[0].ses->reads[j]));
        end();
    }
}

/* Data of packets that asked for none, and too much of one that did. */
static void data_of_no_packet_is_ignored(void **state)
{
    struct pds_arrival arrival = {.next = NEXT_RESPONSE_DATA_SMALL, .returned = true};
    uint8_t bytes[SES_RESPONSE_MAX + 101] = {0};
    struct pds_answer answer;
    struct post *post;

    begin(false);
    post = new_post(0, 1, SES_READ, 100);
    post->op.target.brief = true;
    assert_true(ses_start_op(nodes[0].ses, &post->op));
    ses_run(nodes[0].ses, sw.now);
    arrival.from = switch_addr(1);
    arrival.ticket.pdc = post->op.source.pdc;
    arrival.bytes = bytes;
    for (unsigned i = 0; i < 70000; i++) {
        struct ses_response response = {.next = NEXT_RESPONSE_DATA_SMALL,
                                        .opcode = SES_RESPONSE_W_DATA,
                                        .code = RC_OK,
                                        .payload_length = i ? 100 : 101};

        response.request_psn = pdc_of(nodes[0].ses->pds, arrival.ticket.pdc)->tx_start + i;
        arrival.len = ses_response_put(&response, bytes) + response.payload_length;
        memset(&answer, 0, sizeof(answer));
        ses_request(nodes[0].ses, &arrival, &answer);
        assert_int_equal(ses_counters(nodes[0].ses)->ignored, i + 1);
    }
    run(sw.now + SECOND);
    finish_post(post, RC_OK);
    end();
}

static void an_optimized_key_needs_a_small_header_only(void **state)
{
    struct post *post;

    memset(headers, 0, sizeof(headers));
    begin(false);
    sw.filter = count_headers;
    nodes[1].optimized = SES_KEY_OPTIMIZED | 0x123;
    post = new_post(0, 1, SES_WRITE, 100);
    post->op.target.brief = true;
    post->op.key = nodes[1].optimized;
    post->op.offset = 5;
    memset(post->bytes, 7, 100);
    assert_true(ses_start_op(nodes[0].ses, &post->op));
    run(sw.now + SECOND);
    assert_memory_equal(nodes[1].memory + 5, post->bytes, 100);
    finish_post(post, RC_OK);
    assert_int_equal(headers[NEXT_SMALL], 1);
    post = new_post(0, 1, SES_WRITE, 100);
    post->op.target.brief = true;
    post->op.key = nodes[1].optimized + 1;
    assert_true(ses_start_op(nodes[0].ses, &post->op));
    run(sw.now + SECOND);
    finish_post(post, RC_BAD_MKEY);
    end();
}

/* ---- Every code of a response ---- */

static enum ses_code given; /* to every access */

static enum ses_code give_write(void *arg, const struct ses_initiator *who, uint64_t key,
                                uint64_t offset, const uint8_t *bytes, size_t len)
{
    return given;
}

static enum ses_code give_read(void *arg, const struct ses_initiator *who, uint64_t key,
                               uint64_t offset, size_t len, struct ses_lent *lent)
{
    return given;
}

static enum ses_code give_atomic(void *arg, const struct ses_initiator *who,
                                 const struct ses_request *request, const uint8_t *operands,
                                 size_t len, uint8_t *result, size_t *result_len)
{
    return given;
}

/* Also the codes that are reserved, or a vendor's: each ends its operation once, and is told. */
static void each_code_ends_its_operation(void **state)
{
    static const uint8_t opcodes[] = {SES_WRITE, SES_READ, SES_ATOMIC, SES_FETCHING_ATOMIC};
    struct ses_ops giving = ops;

    giving.write = give_write;
    giving.read = give_read;
    giving.atomic = give_atomic;
    for (unsigned code = RC_OK + 1; code < 64; code++) {
        for (size_t i = 0; i < 2 * sizeof(opcodes); i++) {
            uint8_t opcode = opcodes[i % sizeof(opcodes)];
            struct post *post;

            begin(false);
            nodes[1].ses->ops = &giving;
            given = (enum ses_code)code;
            post = new_post(0, 1, opcode, ses_is_atomic(opcode) ? 8 : 5000);
            post->op.target.mode = i < sizeof(opcodes) ? PDS_MODE_RUD : PDS_MODE_ROD;
            assert_true(ses_start_op(nodes[0].ses, &post->op));
            run(sw.now + 10 * SECOND);
            finish_post(post, given);
            assert_int_equal(ses_busy(nodes[0].ses), 0);
            assert_int_equal(begun(), 0);
            if (code < SES_CODES)
                assert_true(ses_counters(nodes[1].ses)->refused[code] >= 1);
            assert_int_equal(ses_code_text((int)code) != NULL, code < SES_CODES);
            end();
        }
    }
    assert_null(ses_code_text(-1));
    assert_null(ses_code_text(64));
}

/* ---- Messages that are not sent to their end ---- */

static void a_target_is_told_when_the_rest_does_not_come(void **state)
{
    for (int bad = 0; bad < 2; bad++) {
        struct post *post;

        begin(bad);
        nodes[0].ses->pds->settings.window = 3 * MTU; /* most of it is still to be sent */
        post = new_post(0, 1, SES_WRITE, MAX);
        post->op.key = KEY + 1;
        assert_true(ses_start_op(nodes[0].ses, &post->op));
        run(sw.now + 60 * SECOND);
        finish_post(post, RC_BAD_MKEY);
        assert_true(ses_counters(nodes[0].ses)->given_up >= 1);
        assert_int_equal(ses_busy(nodes[0].ses), 0);
        assert_int_equal(begun(), 0);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wrong_field_has_its_code_and_its_count),
        cmocka_unit_test(lengths_that_disagree_are_refused),
        cmocka_unit_test(atomics_that_there_are_not_are_refused),
        cmocka_unit_test(tokens_of_no_operation_are_refused),
        cmocka_unit_test(headers_that_are_none_are_counted),
        cmocka_unit_test(short_requests_have_short_headers),
        cmocka_unit_test(fetched_data_has_a_short_header),
        cmocka_unit_test(short_reads_have_short_headers),
        cmocka_unit_test(data_of_no_packet_is_ignored),
        cmocka_unit_test(an_optimized_key_needs_a_small_header_only),
        cmocka_unit_test(each_code_ends_its_operation),
        cmocka_unit_test(a_target_is_told_when_the_rest_does_not_come),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
