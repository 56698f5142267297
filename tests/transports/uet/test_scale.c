/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many at a time, in virtual time: 60,000 packet delivery contexts between two nodes and what they
 * take while they rest, and nodes that all talk to all over fewer contexts than they have peers.
 * WEFT_UET_PACKETS=1000000 or more: 1,000 nodes instead of 60.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../support/heap.h"
#include "switch.h"
#include "transports/uet/pds/pdc.h"

enum {
    PDCS = 60000,
    FEW = 60,
    MANY = 1000,
    CONTEXTS = 128,   /* of a node */
    PAIR_BYTES = 384, /* of both ends of a context that rests, with all that comes with it */
    BYTES = 16,
};

#define MS UINT64_C(1000000)
#define STEP (MS / 20)

struct end {
    struct pds *pds;
    unsigned index;
    uint64_t received, ended, failed;
    uint8_t *from; /* times, by sender */
};

struct job {
    struct pds_source source;
    uint8_t bytes[BYTES];
};

static struct end ends[MANY];
static unsigned count;
static struct sw sw;

/* ---- The upper: messages of one packet, which say who sends ---- */

static void up_transmit(void *arg, const union addr *to, const struct iovec *iov, size_t pieces,
                        bool control)
{
    switch_send(&sw, ((struct end *)arg)->index, to, iov, pieces);
}

static bool up_fill(void *arg, struct pds_source *source, struct pds_packet *packet)
{
    struct job *job = list_item(source, struct job, source);

    packet->next = NEXT_STANDARD;
    packet->last = true;
    packet->iov[0] = (struct iovec){job->bytes, BYTES};
    packet->iov_count = 1;
    packet->len = BYTES;
    return false;
}

static void up_done(void *arg, const struct pds_packet *packet, const struct pds_result *result)
{
    struct end *end = arg;

    end->ended++;
    end->failed += result->code != RC_OK;
    free(list_item(packet->source, struct job, source));
}

static void up_failed(void *arg, struct pds_source *source)
{
    struct end *end = arg;

    end->ended++;
    end->failed++;
    free(list_item(source, struct job, source));
}

static void up_request(void *arg, const struct pds_arrival *arrival, struct pds_answer *answer)
{
    struct end *end = arg;
    uint32_t from;

    memcpy(&from, arrival->bytes, sizeof(from));
    assert_true(from < MANY);
    end->received++;
    end->from[from] += end->from[from] < UINT8_MAX;
}

static void up_closed(void *arg, struct pds_ref pdc, bool failed)
{
}

static const struct pds_ops ops = {
    .transmit = up_transmit,
    .fill = up_fill,
    .done = up_done,
    .failed = up_failed,
    .request = up_request,
    .closed = up_closed,
};

/* ---- The world: in steps, since with so many each event would look at all of them ---- */

static void deliver(void *arg, unsigned port, const union addr *from, const uint8_t *bytes,
                    size_t len)
{
    pds_receive(ends[port].pds, sw.now, from, bytes, len, false);
}

static void begin(unsigned nodes, const struct pds_settings *settings)
{
    count = nodes;
    switch_init(&sw, 1, nodes);
    sw.deliver = deliver;
    for (unsigned i = 0; i < nodes; i++) {
        ends[i] = (struct end){.index = i, .from = calloc(MANY, 1)};
        ends[i].pds = pds_create(settings, &ops, &ends[i], switch_random(&sw));
        assert_non_null(ends[i].pds);
        assert_non_null(ends[i].from);
    }
}

static void finish(void)
{
    for (unsigned i = 0; i < count; i++) {
        pds_destroy(ends[i].pds);
        free(ends[i].from);
    }
    switch_finish(&sw);
}

static void run(uint64_t until)
{
    while (sw.now < until) {
        switch_run(&sw, sw.now + STEP);
        for (unsigned i = 0; i < count; i++)
            if (pds_deadline(ends[i].pds) <= sw.now)
                pds_run(ends[i].pds, sw.now);
    }
}

static void send_one(unsigned from, unsigned to, uint32_t job_id)
{
    struct pds_key key = {.to = switch_addr(to), .mode = PDS_MODE_RUD, .job = job_id};
    struct job *job = calloc(1, sizeof(*job));

    assert_non_null(job);
    memcpy(job->bytes, &from, sizeof(from));
    pds_submit(ends[from].pds, &job->source, &key);
}

/* ---- Tests ---- */

static void contexts_that_rest_take_little(void **state)
{
    struct pds_settings settings = pds_defaults;
    size_t before, after;

    settings.rto_count = 15;
    begin(2, &settings);
    before = heap_in_use();
    for (uint32_t i = 0; i < PDCS; i++) {
        send_one(0, 1, i);
        if (i % 256 == 255)
            run(sw.now + 2 * STEP);
    }
    run(sw.now + 200 * MS);
    assert_int_equal(ends[1].received, PDCS);
    assert_int_equal(ends[0].ended, PDCS);
    assert_int_equal(ends[0].failed, 0);
    assert_int_equal(pds_count(ends[0].pds), PDCS);
    assert_int_equal(pds_count(ends[1].pds), PDCS);
    after = heap_in_use();
    print_message("%zu bytes for both ends of a context\n", (after - before) / PDCS);
    assert_true(after - before <= (size_t)PDCS * PAIR_BYTES);
    /* They work as before. */
    for (uint32_t i = 0; i < 1000; i++)
        send_one(0, 1, i * 7);
    run(sw.now + 200 * MS);
    assert_int_equal(ends[1].received, PDCS + 1000);
    assert_int_equal(pds_count(ends[0].pds), PDCS);
    finish();
}

/* A node has fewer contexts than peers: the ones unused for the longest time are closed, and
 * waiting messages take turns. */
static void all_talk_to_all_over_few_contexts(void **state)
{
    const char *packets = getenv("WEFT_UET_PACKETS");
    unsigned nodes = packets && strtoull(packets, NULL, 0) >= 1000000 ? MANY : FEW;
    struct pds_settings settings = pds_defaults;

    settings.rto_count = 15;
    settings.nack_count = PDS_RETRY_FOREVER;
    settings.pdcs = nodes == MANY ? CONTEXTS : FEW / 3;
    begin(nodes, &settings);
    for (unsigned distance = 1; distance < nodes; distance++) {
        for (unsigned i = 0; i < nodes; i++)
            send_one(i, (i + distance) % nodes, 0);
        run(sw.now + STEP);
    }
    for (unsigned round = 0; round < 10000; round++) {
        uint64_t ended = 0;

        run(sw.now + 20 * MS);
        for (unsigned i = 0; i < nodes; i++)
            ended += ends[i].ended;
        if (ended == (uint64_t)nodes * (nodes - 1))
            break;
    }
    for (unsigned i = 0; i < nodes; i++) {
        assert_int_equal(ends[i].received, nodes - 1);
        assert_int_equal(ends[i].ended, nodes - 1);
        assert_int_equal(ends[i].failed, 0);
        assert_true(pds_count(ends[i].pds) <= settings.pdcs);
        for (unsigned j = 0; j < nodes; j++)
            assert_int_equal(ends[i].from[j], j != i);
    }
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_that_rest_take_little),
        cmocka_unit_test(all_talk_to_all_over_few_contexts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
