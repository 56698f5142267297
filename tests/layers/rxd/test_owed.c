/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers of an endpoint that has no memory for them: it is handed packets in the name of a peer
 * that it has met, and that is not driven any more. None of its own leaves, so they can be read.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "layers/rxd/rxd.h"
#include "tests/layers/rxd/acquainted.h"
#include "tests/support/end.h"
#include "tests/support/inside.h"
#include "tests/support/nomem.h"

enum {
    SIZE = 60000, /* of a large message */
    FIRST = 100,  /* bytes of it in its request */
    SMALL = 40,
    MESSAGES = 40,
    READS = 12, /* packets */
    EACH = 3,   /* reads of each */
    LENGTH = 512,
    ANSWERS = 2 * MESSAGES + READS * EACH,
};

static struct end a, b;
static struct rxd_ep *ep; /* of a */
static struct rxd_peer *peer;
static uint32_t sequence; /* of the peer's next request */
static uint8_t out[SIZE], in[MESSAGES][SIZE];
static struct list taken; /* packets of the endpoint's that others have */
static struct op_target lower;

/* ---- An endpoint and its peer ---- */

static void exchange(struct end *from, struct end *to)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_recv(to->ep, in, SIZE, NULL, FI_ADDR_UNSPEC, in), 0);
    assert_int_equal(fi_send(from->ep, out, 8, NULL, from->peer, out), 0);
    for (unsigned ends = 0; ends < 2;) {
        ends += fi_cq_read(from->cq, &entry, 1) == 1;
        ends += fi_cq_read(to->cq, &entry, 1) == 1;
    }
}

/* Without a lock no thread drives an endpoint that its application does not look at. */
static void open_end(struct end *end)
{
    struct fi_info *info =
        end_info("rxd;loop(shape=srd,seed=11)", FI_MSG | FI_RMA | FI_DIRECTED_RECV, 0);

    info->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    end_open(end, info, FI_CQ_FORMAT_TAGGED);
}

static ssize_t take_none(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    return -FI_EAGAIN;
}

/* Nothing of its leaves from now on. */
static void stop_lower(void)
{
    static struct fi_ops_msg ops = {.size = sizeof(ops), .sendmsg = take_none};
    static struct fi_ops fid_ops = {.size = sizeof(fid_ops), .ops_open = enosys_ops_open};
    static struct fid_ep full = {.fid = {.fclass = FI_CLASS_EP, .ops = &fid_ops}, .msg = &ops};

    lower = ep->base.target;
    ep->base.target = op_target_of(&full);
}

/* There is memory for what is posted and kept later. */
static void warm(void)
{
    struct message_handle handles[MESSAGES];
    struct fi_cq_err_entry error = {0};

    for (size_t i = 0; i < MESSAGES; i++) {
        handles[i] = (struct message_handle){.kind = MESSAGE_INBOUND, .peer = &peer->base};
        assert_int_equal(message_handle_open(&handles[i]), 0);
    }
    for (size_t i = 0; i < MESSAGES; i++)
        message_handle_close(&handles[i]);
    for (size_t i = 0; i < MESSAGES; i++)
        assert_int_equal(fi_recv(a.ep, in[i], SIZE, NULL, a.peer, in[i]), 0);
    for (size_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(fi_cancel(&a.ep->fid, in[i]), 0);
        assert_int_equal(fi_cq_readerr(a.cq, &error, 0), 1);
    }
}

static int close_pair(void **state)
{
    ep->base.target = lower;
    end_close(&b);
    end_close(&a);
    return 0;
}

/* ---- Memory ---- */

static void lose_memory(void)
{
    struct message_packet *packet;

    ep->base.packets.skip = UINT_MAX;
    while ((packet = message_packet_get(&peer->base)))
        list_attach(&packet->link, &taken);
    nomem_all = 1;
}

static void have_memory(void)
{
    nomem_all = 0;
    ep->base.packets.skip = 0;
    message_packets_put(&taken);
    rxd_run(&peer->base);
}

/* ---- What the peer says, and hears ---- */

static uint8_t packet[READS][1024];
static size_t packet_len[READS];

static void begin_packet(size_t i, bool ordered)
{
    rxd_head_put_number(packet[i], ordered ? RXD_ORDERED : 0, peer->number ^ ep->salt,
                        ordered ? sequence++ : 0, peer->acked);
    packet_len[i] = RXD_HEAD_SIZE;
}

static void add_record(size_t i, const struct rxd_record *record)
{
    uint8_t *payload = rxd_record_put(record, packet[i] + packet_len[i]);

    if (record->len)
        memcpy(payload, out + (record->kind == RXD_DATA ? record->size : 0), record->len);
    packet_len[i] += rxd_record_size(record) + record->len;
    assert_true(packet_len[i] <= sizeof(packet[i]));
}

/* False: the endpoint wants it again. */
static bool say(size_t i)
{
    bool was_taken = rxd_in_read(&ep->base, packet[i], packet_len[i], peer->base.lower);

    assert_true(list_empty(&peer->base.broken));
    return was_taken;
}

static struct rxd_record answers[ANSWERS];
static size_t answer_count;

/* All that would leave. */
static void hear(void)
{
    answer_count = 0;
    while (!list_empty(&peer->base.out)) {
        struct message_packet *base = list_item(peer->base.out.next, struct message_packet, link);
        const struct rxd_packet *said = rxd_packet_of(base);

        for (size_t at = 0, size; at < base->len; at += size) {
            assert_true(answer_count < ANSWERS);
            assert_null(rxd_record_get(said->records + at, base->len - at, false,
                                       &answers[answer_count], &size));
            if (answers[answer_count].kind == RXD_DATA)
                assert_memory_equal(answers[answer_count].payload, out, LENGTH);
            answer_count++;
        }
        message_packet_drop(base);
    }
    assert_true(list_empty(&peer->base.broken));
}

/* How many there are of that kind and number. */
static unsigned heard(enum rxd_kind kind, uint32_t id)
{
    unsigned count = 0;

    for (size_t i = 0; i < answer_count; i++)
        count += answers[i].kind == kind && answers[i].id == id;
    return count;
}

/* An endpoint of which nothing was asked yet has no spare packets. */
static void ask_once(void)
{
    const struct rxd_record question = {.kind = RXD_ASK, .id = 1};

    begin_packet(0, false);
    add_record(0, &question);
    assert_true(say(0));
    hear();
    assert_int_equal(heard(RXD_HERE, 1), 1);
}

static int open_pair(void **state)
{
    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (uint8_t)(i * 7 + i / 251);
    open_end(&a);
    open_end(&b);
    peer = acquainted(&a, &b, exchange);
    ep = rxd_ep_of(peer->base.ep);
    sequence = peer->next_in;
    list_init(&taken);
    warm();
    stop_lower();
    ask_once();
    return 0;
}

/* ---- The tests ---- */

/* A packet waits; of a packet that was carried out in part the rest. */
static void reads_are_answered_once_there_is_memory(void **state)
{
    bool refused[READS];
    unsigned wait = 0;
    bool virtual = a.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    uint64_t start = virtual ? (uint64_t)(uintptr_t)out : 0;
    struct fid_mr *mr;

    if (!NOMEM_WORKS)
        skip();
    assert_int_equal(fi_mr_reg(a.domain, out, SIZE, FI_REMOTE_READ, 0, 77, 0, &mr, NULL), 0);
    for (size_t i = 0; i < READS; i++) {
        begin_packet(i, true);
        for (uint32_t k = 0; k < EACH; k++) {
            const struct rxd_record read = {.kind = RXD_READ,
                                            .id = 1 + k,
                                            .taker = 1000 + (uint32_t)i * EACH + k,
                                            .size = LENGTH,
                                            .place_count = 1,
                                            .places = {{start, LENGTH, fi_mr_key(mr)}}};

            add_record(i, &read);
        }
    }
    ep->room = RXD_RECORD_SIZE + LENGTH; /* an answer is a packet */
    lose_memory();
    for (size_t i = 0; i < READS; i++) {
        refused[i] = !say(i);
        wait += refused[i];
    }
    assert_true(wait > READS / 2);
    rxd_run(&peer->base);
    have_memory();
    for (size_t i = 0; i < READS; i++)
        assert_true(!refused[i] || say(i));
    hear();
    assert_int_equal(answer_count, READS * EACH);
    for (uint32_t i = 0; i < READS * EACH; i++)
        assert_true(answers[i].kind == RXD_DATA && answers[i].id == 1000 + i);
    fi_close(&mr->fid);
}

static void question_is_answered_once_there_is_memory(void **state)
{
    unsigned refused = 0;

    if (!NOMEM_WORKS)
        skip();
    ep->room = RXD_RECORD_SIZE;
    lose_memory();
    for (uint32_t i = 0; i < READS; i++) {
        const struct rxd_record question = {.kind = RXD_ASK, .id = 100 + i};

        begin_packet(i, false);
        add_record(i, &question);
        refused += !say(i);
    }
    assert_true(refused > 0 && refused < READS); /* the spare packets come first */
    have_memory();
    for (size_t i = READS - refused; i < READS; i++)
        assert_true(say(i));
    hear();
    for (uint32_t i = 0; i < READS; i++)
        assert_int_equal(heard(RXD_HERE, 100 + i), 1);
    assert_int_equal(answer_count, READS);
}

/* Large ones, and small ones whose sender waits for their receives. */
static void say_message(uint32_t i)
{
    size_t size = i % 2 ? SMALL : SIZE;
    const struct rxd_record message = {.kind = RXD_MSG,
                                       .flags = RXD_WANTS_DONE,
                                       .id = 1 + i,
                                       .size = size,
                                       .len = size < FIRST ? size : FIRST};

    begin_packet(0, true);
    add_record(0, &message);
    assert_true(say(0));
}

static void ends(unsigned count, size_t len)
{
    struct fi_cq_tagged_entry entry;

    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(fi_cq_read(a.cq, &entry, 1), 1);
        assert_int_equal(entry.len, len);
        assert_memory_equal(entry.op_context, out, len);
    }
    assert_int_equal(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN);
}

static void bring(uint32_t taker)
{
    enum {
        PIECE = 900
    };

    for (size_t at = FIRST; at < SIZE; at += PIECE) {
        struct rxd_record data = {.kind = RXD_DATA,
                                  .id = taker,
                                  .size = at,
                                  .len = SIZE - at < PIECE ? SIZE - at : PIECE};

        begin_packet(0, false);
        add_record(0, &data);
        assert_true(say(0));
    }
}

/* Their receives are posted while there is none. */
static void messages_are_asked_for_and_told_of_once_there_is_memory(void **state)
{
    uint32_t takers[MESSAGES] = {0};

    if (!NOMEM_WORKS)
        skip();
    for (uint32_t i = 0; i < MESSAGES; i++)
        say_message(i);
    ep->room = 2 * RXD_RECORD_SIZE;
    ep->base.ahead = SIZE; /* all is asked for at once */
    lose_memory();
    for (size_t i = 0; i < MESSAGES; i++)
        assert_int_equal(fi_recv(a.ep, in[i], SIZE, NULL, a.peer, in[i]), 0);
    ends(MESSAGES / 2, SMALL);
    have_memory();
    hear();
    assert_int_equal(answer_count, MESSAGES);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(heard(i % 2 ? RXD_DONE : RXD_PULL, 1 + i), 1);
        takers[i] = answers[i].taker;
    }
    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (answers[i].kind == RXD_PULL)
            bring(takers[i]);
    }
    ends(MESSAGES / 2, SIZE);
    hear();
    assert_int_equal(answer_count, MESSAGES / 2);
    for (uint32_t i = 0; i < MESSAGES; i += 2)
        assert_int_equal(heard(RXD_DONE, 1 + i), 1);
    assert_true(list_empty(&ep->owing));
}

/* An end of the peer, and of the endpoint, leaves nothing of them. */
static void end_of_the_peer_forgets_them(void **state)
{
    if (!NOMEM_WORKS)
        skip();
    for (uint32_t i = 0; i < MESSAGES; i++)
        say_message(2 * i + 1);
    ep->room = 2 * RXD_RECORD_SIZE;
    lose_memory();
    for (size_t i = 0; i < MESSAGES; i++)
        assert_int_equal(fi_recv(a.ep, in[i], SIZE, NULL, a.peer, in[i]), 0);
    ends(MESSAGES, SMALL);
    assert_false(list_empty(&ep->owing));
    rxd_peer_reset(&peer->base, FI_ECONNRESET);
    assert_true(list_empty(&ep->owing));
    have_memory();
    hear();
    assert_int_equal(answer_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_are_answered_once_there_is_memory, open_pair,
                                        close_pair),
        cmocka_unit_test_setup_teardown(question_is_answered_once_there_is_memory, open_pair,
                                        close_pair),
        cmocka_unit_test_setup_teardown(messages_are_asked_for_and_told_of_once_there_is_memory,
                                        open_pair, close_pair),
        cmocka_unit_test_setup_teardown(end_of_the_peer_forgets_them, open_pair, close_pair),
    };

    return cmocka_run_group_tests_name("rxd: owed", tests, NULL, NULL);
}
