/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets out while the lower registers no memory for more of them. */
#include <limits.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "tests/layers/rxd/bare.h"

enum {
    ROOM = 512,
    HEADS = 64,
    PACKETS = 3,
    ANSWERS = 100,
};

static ssize_t take_read(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    return -FI_ENOSYS;
}

static int set_option(fid_t fid, int level, int name, const void *value, size_t len)
{
    return -FI_ENOPROTOOPT;
}

static size_t train; /* bytes that the lower sends as several packets; 0: it knows of none */

/* A packet of the lower's has as many bytes as one of ours. */
static int get_option(fid_t fid, int level, int name, void *value, size_t *len)
{
    struct packet_room *room = value;

    if (name != OPT_PACKET_ROOM || !train)
        return -FI_ENOPROTOOPT;
    room->size = HEADS + ROOM;
    room->train = train;
    return 0;
}

static struct message_packet *taken[PACKETS];

/* So many of the packets are there, and there will be no more. */
static int open_with(unsigned left)
{
    static const struct message_wire wire = {
        .name = "rxd", .packet_size = sizeof(struct rxd_packet), .packet_copy = rxd_packet_copy};
    static const struct bare_lower lower = {take_read, set_option};

    memset(&ep, 0, sizeof(ep));
    memset(&peer, 0, sizeof(peer));
    memset(taken, 0, sizeof(taken));
    bare_open(&wire, &lower, HEADS + ROOM, PACKETS);
    ep.base.lower->ops->getopt = get_option;
    ep.room = ROOM;
    ep.heads = HEADS;
    for (unsigned i = 0; i < PACKETS; i++) {
        taken[i] = message_packet_get(&peer.base);
        assert_non_null(taken[i]);
    }
    for (unsigned i = 0; i < left; i++) {
        message_packet_put(taken[i]);
        taken[i] = NULL;
    }
    ep.base.packets.skip = UINT_MAX;
    train = 0;
    return 0;
}

/* Answers as they were given, from number `first` on; the next one's number. */
static unsigned read_answers(const struct message_packet *base, unsigned first)
{
    const struct rxd_packet *packet = rxd_packet_of(base);
    struct rxd_record record;

    assert_false(base->bare);
    assert_true(packet->records >= packet->bytes + HEADS);
    for (size_t at = 0; at < base->len; at += RXD_RECORD_SIZE) {
        size_t size = 0;

        assert_null(rxd_record_get(packet->records + at, base->len - at, false, &record, &size));
        assert_int_equal(size, RXD_RECORD_SIZE);
        assert_int_equal(record.kind, RXD_DONE);
        assert_int_equal(record.id, first);
        assert_int_equal(record.size, first % 7);
        first++;
    }
    return first;
}

static size_t waiting(void)
{
    size_t count = 0;

    list_for_each (item, &peer.base.out)
        count++;
    return count;
}

/* No answer is lost, and none ends the peer; each packet of the lower's that comes back takes what
 * waits longest. */
static void answers_wait_for_a_packet(void **state)
{
    unsigned next = 0;
    struct list rest;

    open_with(1);
    for (unsigned i = 0; i < ANSWERS; i++)
        rxd_out_done(&peer.base, i, (int)(i % 7));
    assert_true(list_empty(&peer.base.broken));
    assert_true(waiting() > PACKETS);
    assert_int_equal(ep.base.bare, waiting() - 1);
    for (unsigned i = 0; next < ANSWERS; i++) {
        struct message_packet *packet;

        list_init(&rest);
        message_packets_equip(&peer.base, &rest);
        assert_int_equal(waiting(), 1);
        packet = list_item(peer.base.out.next, struct message_packet, link);
        next = read_answers(packet, next);
        message_packet_put(packet); /* it was sent */
        assert_true(list_empty(&peer.base.out));
        list_join(&rest, &peer.base.out);
        assert_true(i < ANSWERS);
    }
    assert_int_equal(ep.base.bare, 0);
    assert_int_equal(waiting(), 0);
    bare_close(NULL);
}

static uint8_t copied[RXD_RECORD_SIZE + 5000];

static size_t used(void)
{
    return ep.base.packets.used;
}

/* Bytes are announced with a message, so all packets for them are there, or none is taken. */
static void bytes_follow_if_all_have_packets(void **state)
{
    const size_t room = ROOM - RXD_RECORD_SIZE;
    const struct rxd_follow follow = {.most = 8 * room, .room = room};
    struct list packets;

    open_with(2);
    list_init(&packets);
    assert_true(rxd_follow_reserve(&peer, &follow, 20, 1, &packets));
    assert_int_equal(used(), 2);
    message_packets_put(&packets);
    assert_false(rxd_follow_reserve(&peer, &follow, 20, 2 * room + 1, &packets));
    assert_true(list_empty(&packets));
    assert_int_equal(used(), 1);
    assert_true(rxd_follow_reserve(&peer, &follow, 20, 2 * room, &packets));
    assert_int_equal(used(), 3);
    message_packets_put(&packets);
    assert_true(list_empty(&peer.base.broken));
    assert_int_equal(peer.next_out, 0); /* the request comes before them */
    bare_close(NULL);
}

/* The first train has the request, too, and of a longer message only whole trains follow. */
static void bytes_share_the_train_of_their_request(void **state)
{
    const struct rxd_follow follow = {.most = 1000, .room = 400, .trains = true};
    const struct rxd_follow alone = {.most = 1000, .room = 400};
    struct list packets;

    open_with(2);
    list_init(&packets);
    assert_int_equal(rxd_follow_len(&follow, 100, 250), 250);
    assert_int_equal(rxd_follow_len(&follow, 100, 1000), 1000);
    assert_int_equal(rxd_follow_len(&follow, 100, 1001), 300 + 400);
    assert_int_equal(rxd_follow_len(&follow, 400, 1001), 800); /* no room in it */
    assert_int_equal(rxd_follow_len(&alone, 100, 1000), 1000);
    assert_int_equal(rxd_follow_len(&alone, 100, 1001), 800);
    assert_int_equal(rxd_follow_len(&(struct rxd_follow){.most = 300, .room = 400}, 100, 1001),
                     300);
    assert_int_equal(rxd_follow_len(&(struct rxd_follow){.most = 0}, 100, 1001), 0);
    assert_true(rxd_follow_reserve(&peer, &follow, 100, 300, &packets));
    assert_int_equal(used(), 1);
    assert_true(rxd_follow_reserve(&peer, &follow, 100, 301, &packets));
    assert_int_equal(used(), 2);
    message_packets_put(&packets);
    bare_close(NULL);
}

static void is_part(const struct list *item, size_t len, const uint8_t *from, size_t count)
{
    const struct rxd_packet *packet = list_item(item, struct rxd_packet, base.link);
    struct rxd_record record;
    size_t size;

    assert_int_equal(packet->base.len, len);
    assert_int_equal(packet->slice_count, 1);
    assert_ptr_equal(packet->slices[0].iov_base, from);
    assert_int_equal(packet->slices[0].iov_len, count);
    memcpy(copied, packet->records + len - RXD_RECORD_SIZE, RXD_RECORD_SIZE);
    assert_null(rxd_record_get(copied, sizeof(copied), true, &record, &size));
    assert_int_equal(record.kind, RXD_FOLLOW);
    assert_int_equal(record.len, count);
}

static void the_first_train_begins_with_the_request(void **state)
{
    static uint8_t memory[20000];
    const struct rxd_follow follow = {.most = 20000, .room = 5000, .trains = true};
    struct iovec iov = {memory, sizeof(memory)};
    struct rxd_op op = {.base.handle.peer = &peer.base};
    struct list packets;

    open_with(2);
    op.base.move = (struct message_move){.peer = &peer.base, .direct = true, .at = 100};
    op.base.move.iov = &iov;
    op.base.move.iov_count = 1;
    list_init(&packets);
    rxd_out_ordered(&peer, 200, false)->base.len = 200;
    assert_true(rxd_follow_reserve(&peer, &follow, 200, 9800, &packets));
    rxd_follow(&op, &follow, 9800, &packets);
    is_part(peer.ordered.next, 200 + RXD_RECORD_SIZE, memory + 100, 4800);
    is_part(peer.ordered.prev, RXD_RECORD_SIZE, memory + 4900, 5000);
    assert_ptr_equal(peer.ordered.next->next, peer.ordered.prev);
    assert_true(list_empty(&packets));
    assert_int_equal(op.unasked, 100);
    assert_int_equal(op.base.move.at, 9900);
    assert_int_equal(op.base.move.pending, 2);
    bare_close(NULL);
}

/* Few bytes are copied behind their record, but not more than a packet has room for, which a train
 * takes. */
static void bytes_of_a_train_fit_their_packet(void **state)
{
    static uint8_t memory[2 * ROOM];
    struct message_move move = {.peer = &peer.base, .direct = true, .iov_count = 1};
    struct iovec iov = {memory, sizeof(memory)};
    const size_t most = ROOM - RXD_RECORD_SIZE;

    move.iov = &iov;
    for (size_t len = most - 1; len <= most + 1; len++) {
        const struct rxd_packet *packet;

        open_with(1);
        train = 100 * ROOM;
        peer.trains = true;
        assert_true(rxd_piece_room(&move) > sizeof(memory));
        assert_int_equal(rxd_piece(&move, len), len);
        packet = rxd_packet_of(list_item(peer.base.out.next, struct message_packet, link));
        assert_true(packet->base.len <= ROOM);
        assert_int_equal(packet->slice_count, len > most);
        if (len > most)
            assert_true(packet->slices[0].iov_base == memory && packet->slices[0].iov_len == len);
        bare_close(NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_wait_for_a_packet),
        cmocka_unit_test(bytes_follow_if_all_have_packets),
        cmocka_unit_test(bytes_share_the_train_of_their_request),
        cmocka_unit_test(the_first_train_begins_with_the_request),
        cmocka_unit_test(bytes_of_a_train_fit_their_packet),
    };

    return cmocka_run_group_tests_name("rxd: packets", tests, NULL, NULL);
}
