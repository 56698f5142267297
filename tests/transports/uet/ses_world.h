/* SPDX-License-Identifier: BSD-2-Clause */
/* Nodes with semantics in virtual time, over a switch: what the tests of them share. One for each
 * program. WEFT_SEED gives the seed, which a failure prints. */
#ifndef WEFT_TESTS_UET_SES_WORLD_H
#define WEFT_TESTS_UET_SES_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "switch.h"
#include "transports/uet/pds/pdc.h"
#include "transports/uet/ses/ses_impl.h"

enum {
    NODES = 3,
    MTU = 1024,
    MEMORY = 1 << 16,
    MAX = 9000, /* bytes of a message */
    KEY = 0x77,
    JOB = 1,
};

#define SECOND UINT64_C(1000000000)

struct post {
    struct ses_op op;
    unsigned from, to;
    uint8_t bytes[MAX];
    uint8_t result[64];
    unsigned ended;
    enum ses_code code;
};

struct receive {
    struct list link;
    struct iovec iov[2];
    uint8_t bytes[MAX];
    struct ses_inbound *inbound;
};

struct node {
    struct ses *ses;
    unsigned index;
    bool dead;
    uint8_t memory[MEMORY];
    bool match_late;    /* messages are kept until `start_kept` */
    bool no_room;       /* they are refused */
    bool forbids;       /* remote accesses are */
    uint64_t optimized; /* another key of the memory */
    struct list kept;
    unsigned received, wrong, failed, accessed, with_data, lent;
};

static struct node nodes[NODES];
static struct sw sw;
static uint64_t seed;

/* ---- Messages: their tag says sender, number and length ---- */

static inline uint64_t tag_of(unsigned from, unsigned number, uint32_t length)
{
    return (uint64_t)from << 48 | (uint64_t)number << 32 | length;
}

static inline void fill_bytes(uint8_t *bytes, uint64_t tag)
{
    uint32_t length = (uint32_t)tag;

    for (uint32_t i = 0; i < length; i++)
        bytes[i] =
            (uint8_t)(tag >> 32) + (uint8_t)(tag >> 48) * 7 + (uint8_t)(i * 31) + (uint8_t)(i >> 8);
}

static inline void give_receive(struct receive *receive, uint32_t length)
{
    size_t first = length < MAX ? length / 3 : MAX / 3;

    receive->iov[0] = (struct iovec){receive->bytes, first};
    receive->iov[1] = (struct iovec){receive->bytes + first, MAX - first};
}

static inline enum ses_match up_message(void *arg, struct ses_inbound *inbound)
{
    struct node *node = arg;
    struct receive *receive;

    if (node->no_room || (node->match_late && !ses_keep(node->ses, inbound)))
        return SES_NO_ROOM;
    receive = calloc(1, sizeof(*receive));
    assert_non_null(receive);
    receive->inbound = inbound;
    inbound->entry = receive;
    list_init(&receive->link);
    if (node->match_late) {
        list_attach(&receive->link, &node->kept);
        return SES_UNMATCHED;
    }
    give_receive(receive, inbound->length);
    inbound->iov = receive->iov;
    inbound->iov_count = 2;
    return SES_MATCHED;
}

static inline void start_kept(struct node *node)
{
    while (!list_empty(&node->kept)) {
        struct receive *receive = list_item(node->kept.next, struct receive, link);

        list_detach(&receive->link);
        give_receive(receive, receive->inbound->length);
        ses_start(node->ses, receive->inbound, receive->iov, 2);
    }
}

static inline void up_received(void *arg, struct ses_inbound *inbound, enum ses_code code)
{
    static uint8_t expected[MAX];
    struct node *node = arg;
    struct receive *receive = inbound->entry;

    if (code == RC_OK) {
        node->received++;
        node->with_data += inbound->has_data && inbound->data == ~inbound->tag;
        if ((uint32_t)inbound->tag <= MAX)
            fill_bytes(expected, inbound->tag);
        node->wrong += (uint32_t)inbound->tag != inbound->length || inbound->length > MAX ||
                       memcmp(expected, receive->bytes, inbound->length) != 0;
    } else {
        node->failed++;
    }
    free(receive);
}

/* ---- Accesses ---- */

static inline enum ses_code may(const struct node *node, uint64_t key, uint64_t offset, size_t len)
{
    if ((key != KEY && (!key || key != node->optimized)) || node->forbids)
        return RC_BAD_MKEY;
    return offset > MEMORY || len > MEMORY - offset ? RC_BAD_ADDR : RC_OK;
}

static inline enum ses_code up_write(void *arg, const struct ses_initiator *who, uint64_t key,
                                     uint64_t offset, const uint8_t *bytes, size_t len)
{
    struct node *node = arg;
    enum ses_code code = may(node, key, offset, len);

    if (code == RC_OK && len)
        memcpy(node->memory + offset, bytes, len);
    return code;
}

static inline enum ses_code up_read(void *arg, const struct ses_initiator *who, uint64_t key,
                                    uint64_t offset, size_t len, struct ses_lent *lent)
{
    struct node *node = arg;
    enum ses_code code = may(node, key, offset, len);

    if (code != RC_OK)
        return code;
    lent->iov[0] = (struct iovec){node->memory + offset, len};
    lent->count = 1;
    lent->held = node;
    node->lent++;
    return RC_OK;
}

static inline void up_give_back(void *arg, struct ses_lent *lent)
{
    ((struct node *)arg)->lent -= lent->held != NULL;
}

/* 64-bit sums only. */
static inline enum ses_code up_atomic(void *arg, const struct ses_initiator *who,
                                      const struct ses_request *request, const uint8_t *operands,
                                      size_t len, uint8_t *result, size_t *result_len)
{
    struct node *node = arg;
    enum ses_code code = may(node, request->key, request->offset, 8);
    uint64_t value, operand;

    if (code != RC_OK || len != 8)
        return code == RC_OK ? RC_AMO_UNSUPPORTED_SIZE : code;
    memcpy(&value, node->memory + request->offset, 8);
    memcpy(&operand, operands, 8);
    memcpy(result, &value, 8);
    *result_len = 8;
    value += operand;
    memcpy(node->memory + request->offset, &value, 8);
    return RC_OK;
}

static inline void up_accessed(void *arg, const struct ses_access *access)
{
    ((struct node *)arg)->accessed++;
}

static inline void up_ended(void *arg, struct ses_op *op, enum ses_code code)
{
    struct post *post = list_item(op, struct post, op);

    post->ended++;
    post->code = code;
}

static inline void up_transmit(void *arg, const union addr *to, const struct iovec *iov,
                               size_t count, bool control)
{
    struct node *node = arg;

    if (!node->dead)
        switch_send(&sw, node->index, to, iov, count);
}

static const struct ses_ops ops = {
    .transmit = up_transmit,
    .ended = up_ended,
    .message = up_message,
    .received = up_received,
    .write = up_write,
    .read = up_read,
    .give_back = up_give_back,
    .atomic = up_atomic,
    .accessed = up_accessed,
};

/* ---- The world ---- */

static inline void deliver(void *arg, unsigned port, const union addr *from, const uint8_t *bytes,
                           size_t len)
{
    if (!nodes[port].dead)
        ses_receive(nodes[port].ses, sw.now, from, bytes, len, false);
}

static inline void begin(bool bad)
{
    const char *text = getenv("WEFT_SEED");
    struct ses_settings settings = {
        .pds = pds_defaults, .self = {.job = JOB}, .mtu = MTU, .ack_data = 16, .saved = 1 << 20};

    seed = text ? strtoull(text, NULL, 0) : seed + 1;
    settings.pds.rto_count = 15;
    settings.pds.nack_count = PDS_RETRY_FOREVER;
    memset(nodes, 0, sizeof(nodes));
    switch_init(&sw, seed, NODES);
    sw.deliver = deliver;
    if (bad) {
        sw.loss = 100;
        sw.dup = 50;
        sw.reorder = 100;
        sw.jitter = 20000;
        sw.late = 300000;
    }
    for (unsigned i = 0; i < NODES; i++) {
        nodes[i].index = i;
        list_init(&nodes[i].kept);
        settings.self.initiator = 100 + i;
        nodes[i].ses = ses_create(&settings, &ops, &nodes[i], switch_random(&sw));
        assert_non_null(nodes[i].ses);
    }
}

static inline void end(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        ses_destroy(nodes[i].ses);
        assert_int_equal(nodes[i].lent, 0);
        list_for_each_safe (pos, after, &nodes[i].kept)
            free(list_item(pos, struct receive, link));
    }
    switch_finish(&sw);
}

static inline void run(uint64_t until)
{
    while (sw.now < until) {
        uint64_t next = switch_next(&sw);

        for (unsigned i = 0; i < NODES; i++) {
            uint64_t due = nodes[i].dead ? UINT64_MAX : ses_deadline(nodes[i].ses);

            next = due < next ? due : next;
        }
        if (next == UINT64_MAX)
            return;
        next = next > until ? until : next;
        switch_run(&sw, next > sw.now ? next : sw.now);
        for (unsigned i = 0; i < NODES; i++)
            if (!nodes[i].dead && ses_deadline(nodes[i].ses) <= sw.now)
                ses_run(nodes[i].ses, sw.now);
    }
}

static inline struct post *new_post(unsigned from, unsigned to, uint8_t opcode, uint32_t length)
{
    struct post *post = calloc(1, sizeof(*post));

    assert_non_null(post);
    post->from = from;
    post->to = to;
    post->op.target = (struct ses_target){.to = switch_addr(to), .job = JOB};
    post->op.opcode = opcode;
    post->op.length = length;
    post->op.key = KEY;
    post->op.iov[0] = (struct iovec){post->bytes, length / 2};
    post->op.iov[1] = (struct iovec){post->bytes + length / 2, length - length / 2};
    post->op.iov_count = 2;
    return post;
}

static inline struct post *send_tagged(unsigned from, unsigned to, unsigned number, uint32_t length,
                                       uint8_t flags, uint8_t mode)
{
    struct post *post = new_post(from, to, number & 1 ? SES_SEND : SES_TAGGED_SEND, length);

    post->op.key = tag_of(from, number, length);
    post->op.flags = flags;
    post->op.data = ~post->op.key;
    post->op.target.mode = mode;
    fill_bytes(post->bytes, post->op.key);
    assert_true(ses_start_op(nodes[from].ses, &post->op));
    return post;
}

static inline void finish_post(struct post *post, enum ses_code code)
{
    if (post->ended != 1 || post->code != code)
        print_error("seed %llu: ended %u times, code %u\n", (unsigned long long)seed, post->ended,
                    post->code);
    assert_int_equal(post->ended, 1);
    assert_int_equal(post->code, code);
    free(post);
}

static const uint32_t lengths[] = {0, 1, 100, MTU - 1, MTU, MTU + 1, 2 * MTU, 5000, MAX};

/* A request of node 0's to node 1, past packet delivery; the code of the response. */
static inline enum ses_code ask(const struct ses_request *request, size_t len)
{
    uint8_t bytes[SES_HEADER_MAX + MTU] = {0};
    size_t size = ses_request_put(request, bytes);
    struct pds_answer answer = {.kind = ANSWER_NOW};
    struct ses_response response;
    struct pds_arrival arrival = {
        .now = sw.now, .bytes = bytes, .len = size + len, .next = request->next};

    assert_int_equal(addr_from_str("10.0.0.1:7", SIZE_MAX, &arrival.from), 0);
    ses_request(nodes[1].ses, &arrival, &answer);
    assert_int_equal(answer.kind, ANSWER_NOW);
    assert_true(ses_response_get(answer.next, answer.header, answer.header_len, &response) > 0);
    return response.code;
}

/* Lists of what has begun to come at node 1. */
static inline size_t begun(void)
{
    size_t count = 0;

    for (unsigned i = 0; i < SES_BUCKETS; i++)
        list_for_each (pos, &nodes[1].ses->inbound[i])
            count++;
    return count;
}

static inline struct ses_request plain(uint8_t opcode, uint8_t flags, uint32_t length)
{
    return (struct ses_request){.next = NEXT_STANDARD,
                                .opcode = opcode,
                                .flags = flags,
                                .message_id = 9,
                                .job = JOB,
                                .initiator = 100,
                                .length = length,
                                .key = KEY};
}

#endif
